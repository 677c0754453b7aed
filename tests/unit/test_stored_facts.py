"""Facts derived anew from stored columns are those of loading, for every kind of source."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

import profframe
from profframe import schema
from profframe.facts.pipeline import FACTS
from profframe.facts.stored_facts import NOTES, REPLACED, as_read, derived_anew, why_not
from profframe.loaders.options import FactOptions
from profframe.loaders.run_names import name_trace
from profframe.loaders.tables import table_parts
from profframe.readers.build.counters import with_named_columns
from profframe.readers.chrome.stored_args import stored_values
from profframe.readers.reading import read, read_parts
from profframe.system.disk_tables import Spool
from tests import needs
from tests.old_stores import differences
from tests.places import ROOT, TRACES

SAMPLES: Final = (
    "examples/gpu_training_fused.json.gz",
    "examples/gil.sqlite",
    "examples/rocprof.db",
    "examples/snapshot.pickle",
    "examples/power.json.gz",
    "examples/serving.json.gz",
    "examples/cuda.json.gz",
    "examples/compiled/trace.json.gz",
    "tests/data/cuspy/rich.pftrace",
    "tests/data/cuda_graph/capture.json.gz",
)
KEPT_NOTES: Final = {"overrun", "doubtful_overrun", "cut_frame", "frame_of_another_thread"}
"""Of facts that do not run again."""
OF_OTHER_FILES: Final = ("graph_captures", "snapshots", "execution_traces", "compiled_kernels")
"""Facts whose notes are about files that were given with the trace."""


def stored(path: Path) -> Iterator[dict[str, pa.Table]]:
    """The tables of a file as a store has them."""
    for raw in read_parts(path):
        named = name_trace(path, FactOptions().add(raw), None, None)
        yield {
            name: pa.concat_tables([schema.empty(name), *parts])
            for name, parts in table_parts(named).items()
        }


def anew(tables: dict[str, pa.Table], spool: Spool | None = None) -> dict[str, pa.Table]:
    """The same tables with facts derived anew, from two parts of each."""
    parts = {
        name: [rows.slice(0, len(rows) // 2), rows.slice(len(rows) // 2)]
        for name, rows in tables.items()
    }
    run, rank = (tables["traces"][name][0].as_py() for name in ("run", "rank"))
    derived = derived_anew(as_read(parts, spool))
    whole = {n: rows if isinstance(rows, pa.Table) else rows.read() for n, rows in derived.items()}
    return {
        name: schema.conform(name, whole[name], run, rank) if name in whole else schema.empty(name)
        for name in schema.TABLES
    }


def complete(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    return {name: tables.get(name, schema.empty(name)) for name in schema.TABLES}


@pytest.mark.parametrize("sample", SAMPLES)
def test_they_are_those_of_loading(sample: str, tmp_path: Path) -> None:
    for tables in stored(ROOT / sample):
        assert differences(anew(tables), complete(tables)) == []
        assert differences(anew(tables, Spool(tmp_path)), complete(tables)) == []


@pytest.mark.long
def test_they_are_those_of_loading_for_every_real_trace() -> None:
    folder = needs.traces()
    paths = [
        folder / line["path"]
        for line in csv.DictReader((folder / "index.csv").read_text().splitlines())
    ]
    for path in (path for path in paths if path.stat().st_size < 3_000_000):
        try:
            whole = [*stored(path)]
        except profframe.NotATraceError:
            continue
        for tables in whole:
            has_captured = tables["events"]["replays"].null_count < len(tables["events"])
            if why_not(tables["traces"]["format"][0].as_py(), has_captured=has_captured) is None:
                assert differences(anew(tables), complete(tables)) == [], path.relative_to(TRACES)


def test_what_stored_columns_do_not_say() -> None:
    assert "live profile" in str(why_not("torch", has_captured=False))
    assert "capture" in str(why_not("kineto", has_captured=True))
    assert why_not(None, has_captured=False) is None


def test_bytes_of_copies_alone_are_of_the_source() -> None:
    (tables,) = stored(ROOT / "examples/gpu_training_fused.json.gz")
    events = tables["events"]
    given = as_read({name: [rows] for name, rows in tables.items()})["events"]["bytes"].to_pylist()

    kinds, before = events["kind"].to_pylist(), events["bytes"].to_pylist()
    copies = {"memcpy", "memset"}
    assert {"kernel", "memcpy"} <= {k for k, size in zip(kinds, before, strict=True) if size}
    assert given == [
        size if kind in copies else None for kind, size in zip(kinds, before, strict=True)
    ]


def test_values_that_only_arguments_have() -> None:
    texts = [
        '{"Ev Idx": 3, "kernel_flop": 10}',
        None,
        "{broken",
        '{"Ev Idx": "x"}',
        '{"kernel_num_gb": 0.5}',
    ]
    values = stored_values(pa.chunked_array([pa.array(texts)]))

    assert values["ev_idx"].to_pylist() == [3, None, None, None, None]
    assert values["given_flops"].to_pylist() == [10, None, None, None, None]
    assert values["given_bytes"].to_pylist() == [None, None, None, None, 500_000_000]


def test_they_are_what_the_reader_gave() -> None:
    events = read(ROOT / "examples/cpu_training.json.gz").tables["events"]

    assert events["ev_idx"].null_count < len(events)
    assert stored_values(events["args"])["ev_idx"].equals(events["ev_idx"].combine_chunks())


def test_units_and_devices_of_counters_are_in_their_names() -> None:
    rows: list[dict[str, object]] = [
        {"name": "GPU 3 Power (W)", "pid": "1"},
        {"name": "util", "series": "sm.pct", "pid": "GPU 2 Counters"},
        {"name": "GPU 3 Power (W)", "pid": "1", "unit": "mW", "device": 0},
        {"name": None, "pid": "1"},
    ]
    counters = pa.Table.from_pylist(
        [{"run": "r", "rank": 0, "time_ns": 0, "thread": 0, **row} for row in rows],
        schema.COUNTERS.arrow,
    )
    named = with_named_columns(counters)

    assert named["unit"].to_pylist() == ["W", "%", "mW", None]
    assert named["device"].to_pylist() == [3, 2, 0, None]
    assert named.schema == counters.schema


def test_every_note_of_these_facts_is_written_again() -> None:
    """A fact with a new note needs it in NOTES, or an upgrade would have it twice."""
    package = Path(profframe.__file__).parent / "facts"
    named: set[str] = set()
    for path in package.rglob("*.py"):
        if path.name != "stored_facts.py" and path.parent.name not in OF_OTHER_FILES:
            text = path.read_text()
            named |= {check for check in schema.CHECKS if re.search(f'"{check}"', text)}
    of_captures = {"other_capture", "ambiguous_capture", "lost_replay_work"}

    assert named == (NOTES - of_captures) | KEPT_NOTES
    assert {*REPLACED} <= {*FACTS}
