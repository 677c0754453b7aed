"""No case of any fuzzer is wrong; the module of each says what has to hold."""

from __future__ import annotations

import importlib
from typing import Final

import pytest

from profframe.native.library import library
from tests import needs
from tests.fuzz.children import LIMIT_S, fuzz

FUZZERS: Final = (
    ("catalogues", 3, 2000, LIMIT_S),
    ("counters", 3, 2000, LIMIT_S),
    ("databases", 3, 5000, LIMIT_S),
    ("documents", 5, 5000, LIMIT_S),
    ("dumps", 6, 5000, LIMIT_S),
    ("endings", 2, 200, 400),
    ("execution_traces", 3, 5000, LIMIT_S),
    ("interrupts", 1, 60, 180),
    ("kept_kills", 1, 120, 300),
    ("kills", 1, 160, 300),
    ("manifests", 4, 1500, LIMIT_S),
    ("nccl_lines", 6, 5000, LIMIT_S),
    ("packets", 3, 2000, LIMIT_S),
    ("questions", 10, 5000, LIMIT_S),
    ("rocpd", 3, 2000, LIMIT_S),
    ("rocprof_documents", 4, 2000, LIMIT_S),
    ("scanned", 6, 5000, LIMIT_S),
    ("snapshots", 6, 5000, LIMIT_S),
    ("stores", 2, 1500, LIMIT_S),
    ("trace_bytes", 3, 5000, LIMIT_S),
    ("writers", 0, 1, 200),
)
"""Module, how many cases it runs in every run and with ``-m long``, seconds that one may take."""


PACKETS: Final = "perfetto.protos.perfetto.trace.perfetto_trace_pb2"
"""What the packets are made with."""


def test_no_case_is_wrong() -> None:
    """A few of those that need no process of their own, in one that imports what all need."""
    fuzz(
        (f"tests.fuzz.{name}", seed)
        for name, few, _, limit_s in FUZZERS
        for seed in range(few)
        if limit_s == LIMIT_S
        and (name != "packets" or importable(PACKETS))
        and (name != "scanned" or library() is not None)
    )


def importable(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "seeds", "limit_s"),
    [
        *(
            pytest.param(name, range(few), limit_s, id=f"{name}-few")
            for name, few, _, limit_s in FUZZERS
            if few and limit_s != LIMIT_S
        ),
        *(
            pytest.param(
                name, range(few, few + many), limit_s, id=f"{name}-many", marks=pytest.mark.long
            )
            for name, few, many, limit_s in FUZZERS
        ),
    ],
)
def test_no_case_of_a_fuzzer_is_wrong(name: str, seeds: range, limit_s: int) -> None:
    if name == "packets":
        needs.module(PACKETS)
    if name == "scanned":
        needs.native_scanner()
    fuzz(((f"tests.fuzz.{name}", seed) for seed in seeds), limit_s)
