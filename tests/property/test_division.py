"""The rows of parts, put together, are the rows of the whole: for every answer and form of one.

Runs are drawn from the traces of an answer's golden cases, which have what it is about, and some
of them several times: so rows of different runs tie in everything but their run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profframe import schema
from profframe.query import macros
from profframe.query.catalogue import selects
from profframe.query.division import KEYS_OF, keys, with_keys
from profframe.query.header import UNITS, Answer, Parameter
from profframe.query.rules import Advice
from profframe.trace.gains import MOST_RUNS
from profframe.trace.trace import Trace
from tests.cases import Rows, read_case
from tests.members import few

CASES = Path(__file__).parent.parent / "sql" / "cases"
ANSWERS = selects()
KEPT = (
    *("self_times", "kernels", "launches", "roofline", "sequences", "stragglers", "collectives"),
    *("collectives.size", "memory_peak.block", "recompute", "time_breakdown.combination", "runs"),
)
"""One for each form of order."""
NUMBERS = (0, 1, 2, 100)
SOME = settings(max_examples=max(1, settings().max_examples // 2))
"""Each example asks twenty parts: what one form of order draws less of, the eleven others draw."""


def name_of(answer: Answer) -> str:
    return answer.name


@cache
def pool(answer: Answer) -> tuple[Mapping[str, Rows], ...]:
    """The tables of each run of the golden cases."""
    found = []
    for path in sorted((CASES / answer.name).glob("*.md")):
        tables = read_case(path, answer).tables
        for run in sorted({str(row["run"]) for rows in tables.values() for row in rows}):
            of_run = {n: [row for row in rows if row["run"] == run] for n, rows in tables.items()}
            found.append(of_run)
    return (*found,)


def renamed(tables: Mapping[str, Rows], run: str, gap: int) -> dict[str, Rows]:
    """A run under another name, with its ranks once more under other numbers."""
    shift = 1 + gap + max(int(str(row["rank"])) for rows in tables.values() for row in rows)
    return {
        name: [
            {**row, "run": run, "rank": int(str(row["rank"])) + more}
            for more in (0, shift)
            for row in rows
        ]
        for name, rows in tables.items()
    }


def trace_of(runs: list[dict[str, Rows]]) -> Trace:
    tables: dict[str, Rows] = {name: [] for name in schema.TABLES}
    for run in runs:
        for name, rows in run.items():
            tables[name] += rows
    keys_of = {(row["run"], row["rank"]) for rows in tables.values() for row in rows}
    there = {(row["run"], row["rank"]) for row in tables["traces"]}
    tables["traces"] += [{"run": r, "rank": k} for r, k in sorted(keys_of - there, key=str)]
    return Trace.from_tables(
        {
            name: pa.Table.from_pylist(
                tables[name], pa.schema([pa.field(c.name, c.type) for c in table])
            )
            for name, table in schema.TABLES.items()
        }
    )


def value(parameter: Parameter) -> st.SearchStrategy[Any]:
    if parameter.choices:
        return st.sampled_from(parameter.choices)
    if parameter.type == "BOOLEAN":
        return st.booleans()
    if parameter.type in {"BIGINT", "INTEGER"}:
        return st.sampled_from((*NUMBERS, parameter.default))
    return st.just(parameter.default)


@st.composite
def questions(draw: st.DrawFn, answer: Answer) -> tuple[Trace, dict[str, Any]]:
    """Three runs or more, each of two ranks or more, and parameters."""
    most = MOST_RUNS if isinstance(answer, Advice) else 5
    chosen = draw(st.lists(st.sampled_from(pool(answer)), min_size=2, max_size=most - 1))
    chosen.append(chosen[0])  # at least one run is there twice
    names = draw(st.permutations(["b", "B", "a.10", "a.9", "é"]))
    runs = [
        renamed(tables, name, draw(st.sampled_from([0, 90])))
        for tables, name in zip(chosen, names, strict=False)
    ]
    given = {} if isinstance(answer, Advice) else {
        one.name: draw(value(one))
        for one in answer.parameters
        if draw(st.booleans())
    }  # fmt: skip
    if answer.choice is not None:
        given[answer.choice.parameter] = draw(st.sampled_from(answer.choice.values))
    else:  # another form has its own test
        for form in (form for one in ANSWERS if one.name == answer.name for form in one.forms):
            if form.choice and given.get(form.choice.parameter) in form.choice.values:
                del given[form.choice.parameter]
    if given.get("override"):
        given["dtype"] = "fp32"
    own = {one.name for one in answer.parameters}
    arranged = {
        "top": st.sampled_from([0, 1, 3, 1000]),
        "sort": st.sampled_from([None, *(c.name for c in answer.columns), "-run"]),
    }
    for name, values in arranged.items():
        if name not in own:
            given[name] = draw(values)
    return trace_of(runs), given


def check(answer: Answer, trace: Trace, given: Mapping[str, Any]) -> None:
    name = answer.name.partition(".")[0]
    whole = pl.DataFrame(trace.answer(name, **given))
    assert answer.division is not None
    least = UNITS.index(answer.division.unit)
    for unit in (unit for unit in KEYS_OF if UNITS.index(unit) >= least):
        parts = pl.DataFrame(trace.answer(name, each=unit, **given))
        assert parts.schema == whole.schema
        assert parts.rows() == whole.rows(), f"each={unit!r}, {given}"


@pytest.mark.parametrize(
    "answer", few(ANSWERS, [a for a in ANSWERS if a.name in KEPT]), ids=name_of
)
def test_the_rows_of_parts_are_those_of_the_whole(answer: Answer) -> None:
    @SOME
    @given(questions(answer))
    def of_drawn(question: tuple[Trace, dict[str, Any]]) -> None:
        check(answer, *question)

    of_drawn()


def test_no_answer_divides_by_rank_that_looks_at_other_ranks() -> None:
    """Whatever the cases have: a macro that groups by run and not by rank looks at all of them."""
    by_run = re.compile(r"(?:(?:PARTITION|GROUP) BY|USING \() *(?P<names>[^\n)]*)")
    for answer in ANSWERS:
        texts = [answer.sql, *macros.definitions(answer.sql).values()]
        names = [m["names"] for text in texts for m in by_run.finditer(re.sub("--.*", "", text))]
        words = [set(re.split(r"\W+", line)) for line in names]
        needs_run = any("run" in line and "rank" not in line for line in words)
        assert answer.division is not None
        assert answer.division.unit == ("run" if needs_run else "rank"), answer.name


@pytest.mark.parametrize("answer", [a for a in ANSWERS if not isinstance(a, Advice)], ids=name_of)
def test_what_it_sorts_by_can_be_had_of_each_part(answer: Answer) -> None:
    from tests.sql.test_headers import empty

    of = keys(answer, "rank" if answer.division and answer.division.unit == "rank" else "run")
    sql = with_keys(answer, of)
    assert (sql == answer.sql) == (not [key for key in of if key.sql])
    with empty(*answer.needs) as connection:
        macros.load(connection, answer.sql)
        columns = connection.sql(sql).columns
    assert columns == [*(c.name for c in answer.columns), *(k.column for k in of if k.sql)]
