"""Names of steps of servers mean the same to phases, counts, replays and the first lines."""

from __future__ import annotations

import duckdb
import pytest

from profframe.facts.graph_captures.replays import size_of_replay
from profframe.facts.phases import mark_of
from profframe.query.header import sql_directory
from profframe.query.macros import load
from tests.builders import event, loaded

COUNTS = """
    SELECT unnest(counts)
    FROM (
        SELECT phase_counts(name, phase) AS counts
        FROM (SELECT ?::VARCHAR AS name, ?::VARCHAR AS phase)
    )
"""

VLLM, SGLANG, TENSORRT, ATOM = "vLLM", "SGLang", "TensorRT-LLM", None
"""ATOM is a server that nothing else tells."""


@pytest.mark.parametrize(
    ("name", "server", "phase", "counts", "replay"),
    [
        ("execute_context_1(888_788544)_generation_0(0)", VLLM, "prefill", (1, 888, 0, 888), 888),
        ("execute_context_0(0)_generation_64(64)", VLLM, "decode", (64, 0, 64, 64), 64),
        ("execute_context_0(0)_generation_2(6)", VLLM, "verify", (2, 0, 6, 6), 6),
        ("execute_8_context_1(7)_generation_1(1)", VLLM, "mixed", (2, 7, 1, 8), 8),
        ("step[DECODE bs=32]", SGLANG, "decode", (32, 0, 32, 32), 32),
        ("step[EXTEND bs=2 toks=30]", SGLANG, "prefill", (2, 30, 0, 30), None),
        ("step[MIXED bs=4 toks=9]", SGLANG, "mixed", (4, None, None, 9), None),
        ("step[TARGET_VERIFY bs=2]", SGLANG, "verify", (2, None, None, None), None),
        ("decode[bs=4 tok=4 p=0]", ATOM, "decode", (4, 0, 4, 4), 4),
        ("prefill[bs=2 tok=30]", ATOM, "prefill", (2, 30, 0, 30), None),
        (
            "[Executor] _forward_step 5: 2 ctx reqs, 100 ctx tokens, 0 gen reqs",
            TENSORRT, "prefill", (2, 100, 0, 100), None,
        ),
        (
            "[Executor] _forward_step 5: 0 ctx reqs, 3 gen reqs",
            TENSORRT, "decode", (3, 0, 3, 3), None,
        ),
        ("step[run]", None, None, (None, None, None, None), None),
        ("aten::mm", None, None, (None, None, None, None), None),
    ],
)  # fmt: skip
def test_a_name_means_the_same_everywhere(
    name: str, server: str | None, phase: str | None, counts: tuple[int | None, ...],
    replay: int | None,
) -> None:  # fmt: skip
    mark = mark_of(name, is_frame=False)
    assert (mark.phase if mark else None) == phase
    with duckdb.connect() as connection:
        load(connection, COUNTS)
        assert connection.execute(COUNTS, [name, phase]).fetchall() == [counts]
    assert size_of_replay(name) == replay
    assert replay in {None, counts[-1]}
    servers = loaded(event(name, 0, 9, category="user_annotation")).answer(
        sql_directory() / "file_summaries/frameworks.sql"
    )
    assert servers["framework"].to_list() == ([server] if server else [])
