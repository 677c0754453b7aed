"""Lengths of sequences in the annotations of servers, and which slices have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from profframe.facts.batch_lengths import lengths_of_step
from profframe.facts.formulas.sequence_lengths import NO_SEQUENCES, BatchLengths, SequenceSums
from profframe.facts.pipeline import add_facts
from tests.builders import Row, event, tables
from tests.graphs import Call, capture_rows, events, replay_rows, source
from tests.unit.work_rows import call, column, facts, inputs, kernel

PROMPT = SequenceSums(2, 6144, 7144, 20971520, 23019520)
THREE = SequenceSums(3, 3, 6144, 3, 6144)
VLLM = (
    "execute_6147_context_2(sq6144sk7144sqsq20971520sqsk23019520)"
    "_generation_3(sq3sk6144sqsq3sqsk6144)"
)
SGLANG = (
    "step[MIXED bs=5 c=2 g=3 c_sq=6144 c_sk=7144 c_sqsq=20971520 c_sqsk=23019520 g_sq=3 g_sk=6144"
    " g_sqsq=3 g_sqsk=6144]"
)


@pytest.mark.parametrize(
    ("name", "context", "generation"),
    [
        (VLLM, PROMPT, THREE),
        ("step[EXTEND bs=2 toks=6144 c_sq=6144 c_sqsq=20971520 c_sqsk=23019520 c_sk=7144]",
         PROMPT, NO_SEQUENCES),
        ("step[DECODE bs=3 g_sq=3 g_sqsq=3 g_sqsk=6144 g_sk=6144]", NO_SEQUENCES, THREE),
        (SGLANG, PROMPT, THREE),
        ("prefill[bs=2 tok=6144 ctx=[4096, 3048] sqsq=20971520 sqsk=23019520 sk=7144]",
         PROMPT, NO_SEQUENCES),
        ("decode[bs=3/4 tok=3 d=3 sqsq=3 sqsk=6144 sk=6144]", NO_SEQUENCES, THREE),
        ("eager_decode[bs=3 tok=3 ctx=2048 sqsq=3 sqsk=6144 sk=6144 tbo=1]", NO_SEQUENCES, THREE),
        ("decode[bs=5 tok=6147 p=2 d=3 sqsq=20971523 sqsk=23025664 sk=13288]",
         SequenceSums(5, 6147, 13288, 20971523, 23025664), NO_SEQUENCES),
    ],
)  # fmt: skip
def test_forms_of_servers(name: str, context: SequenceSums, generation: SequenceSums) -> None:
    assert lengths_of_step(name) == BatchLengths(context, generation)


@pytest.mark.parametrize(
    "name",
    [
        "execute_context_1(30)_generation_8(8)",
        "execute_context_1(888_788544)_generation_0(0)",
        "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk16sqsq32sqsk32785)",
        "execute_0_context_0(sq0sk0sqsq0sqsk0)_generation_0(sq0sk0sqsq0sqsk0)",
        "step[DECODE bs=32]",
        "step[DECODE bs=3 g_sq=3 g_sqsq=3 g_sk=6144]",
        "step[DECODE g_sq=3 g_sqsq=3 g_sqsk=6144 g_sk=6144]",
        "decode[bs=3 tok=3 d=3]",
        "decode[bs=3 tok=3 sqsq=3 sqsk=90e3 sk=90e3]",
        "decode[bs=3 tok=3 sqsq=3 sqsk=6144 sk=\u0666\u0661\u0664\u0664]",
        "dummy_decode[bs=3 tok=3 d=3 sqsq=3 sqsk=6144 sk=6144]",
        f"decode[bs=3 tok=3 sqsq={'9' * 5000} sqsk=1 sk=1]",
        "",
    ],
)
def test_names_without_lengths(name: str) -> None:
    assert lengths_of_step(name) is None


ROWS = "[3,4,8],[9,2,1,16,8],[9,2,8,16]"
DECODE = inputs(f"[[3,4,8],{ROWS},[]]", *["c10::BFloat16"] * 4, "Scalar")
"""Three queries in four heads of 8, and a cache with two heads."""
STEP = "execute_3_context_0(sq0sk0sqsq0sqsk0)_generation_3(sq3sk{0}sqsq3sqsk{0})"


def work(keys: int) -> tuple[int, int]:
    """Products for scores and for values; queries, as many results, keys and values."""
    return 2 * 4 * keys * (8 + 8), 2 * (3 * 4 * 8) * 2 + keys * 2 * (8 + 8) * 2


def step(keys: int, start: int, end: int) -> Row:
    return event(STEP.format(keys), start, end, category="user_annotation")


def attention(start: int, end: int) -> Row:
    return event("_C::paged_attention_v1", start, end, **DECODE)


def test_attention_has_the_lengths_of_the_innermost_step_around_it() -> None:
    rows = facts(
        step(999, 0, 100),
        step(50, 10, 40),
        attention(20, 30),
        call(25, 1),
        step(70, 50, 80),
        attention(60, 70),
        call(65, 2),
        attention(110, 120),
        kernel(130, 140, 1),
        kernel(140, 150, 2),
    )
    of = list(zip(column(rows, "flops"), column(rows, "bytes"), strict=True))
    assert of[2] == of[8] == work(50)
    assert of[5] == of[9] == work(70)
    assert of[7] == (None, None)


def test_a_phase_has_the_lengths_of_a_step_that_is_inside() -> None:
    """SGLang's runner calls attention beside the annotation with the lengths, in the same step."""
    outer = event("step[DECODE bs=3]", 0, 100, category="user_annotation")
    rows = facts(outer, step(50, 10, 20), attention(30, 40))
    assert column(rows, "flops")[2] == work(50)[0]
    differing = facts(outer, step(50, 10, 20), step(51, 60, 70), attention(30, 40))
    assert column(differing, "flops")[3] is None


def test_calls_without_lengths_are_counted() -> None:
    quality = add_facts(tables(step(50, 0, 10), attention(2, 4), attention(20, 30)))["quality"]
    (note,) = [row for row in quality.to_pylist() if row["issue"] == "work_needs_lengths"]
    assert (note["events"], note["example_event_id"]) == (1, 2)


def test_each_replay_of_a_captured_call_has_the_lengths_of_its_step() -> None:
    dims, types = DECODE["input_dims"], DECODE["input_types"]
    graph = capture_rows([Call("pa", "_C::paged_attention_v1", dims=dims, types=types)] * 2, 0)
    rows = [
        row
        for at, keys in enumerate((50, 70, 50))
        for row in replay_rows(["pa", "pa"], 100_000 * (at + 1), 500 + at, STEP.format(keys))
    ]
    rows += replay_rows(["pa", "pa"], 900_000, 600)
    table = events(rows, source(graph)).to_pylist()
    kernels = [(row["flops"], row["bytes"]) for row in table if row["kind"] == "kernel"]
    none = (None, None)
    assert kernels == [work(50)] * 2 + [work(70)] * 2 + [work(50)] * 2 + [none] * 2
    calls = [row["flops"] for row in table if row["name"] == "_C::paged_attention_v1"]
    assert calls == [None, None]
    alone = events(rows[:4], source(graph)).to_pylist()
    calls = [row["flops"] for row in alone if row["name"] == "_C::paged_attention_v1"]
    assert calls == [work(50)[0]] * 2


def uneven(times: Sequence[int]) -> list[Any]:
    """What quality says of one step, whose calls of attention have kernels of these times."""
    rows: list[Row] = [step(50, 0, 900)]
    for place, time in enumerate(times):
        rows += [attention(10 * place + 1, 10 * place + 9), call(10 * place + 2, place + 1)]
        rows.append(kernel(1000 * place, 1000 * place + time, place + 1))
    quality = add_facts(tables(*rows))["quality"].to_pylist()
    return [(row["events"], row["detail"]) for row in quality if row["issue"] == "uneven_attention"]


def test_equal_calls_that_take_very_different_times() -> None:
    """As layers with and without a window, of which nothing is recorded."""
    ((calls, detail),) = uneven([100, 300] * 4)
    assert calls == 8
    assert detail.endswith("a quarter in at most 100 ns, a quarter in at least 300 ns")
    assert uneven([100, 149] * 4) == []
    assert uneven([100] * 7 + [900]) == []
    assert uneven([100, 300] * 3) == []  # too few
