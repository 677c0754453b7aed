"""Cases that are read from Markdown: events in, rows out, typed by hand.

A case is a title, a table per input table, optionally ``parameters``, and the expected ``rows``. An
empty cell is NULL, a cell in double quotes is JSON text, ``2/3`` is the double nearest to it, and
``[3, 1]`` a list. Columns that are not written are NULL in the input (``run`` is r, ``rank`` and
``thread`` 0, ``event_id`` of events the row's number, ``kernel_category`` what the fact says) and
not compared in the result. Without a table ``traces`` there is one per (run, rank) of the events,
and without ``profiler_steps`` they are what the fact says.
Without ``rows``, none are expected.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa

from profframe import schema
from profframe.query.header import Answer
from profframe.query.run import run
from tests.builders import categorised, steps_of

Rows = list[dict[str, object]]


@dataclass(frozen=True)
class Case:
    """One golden case."""

    answer: Answer
    tables: Mapping[str, Rows]
    parameters: Mapping[str, object]
    columns: tuple[str, ...]
    rows: list[tuple[object, ...]]


def read_case(path: Path, answer: Answer) -> Case:
    sections = {}
    for section in path.read_text(encoding="utf-8").split("\n## ")[1:]:
        name, _, body = section.partition("\n")
        sections[name] = [
            [cell.strip() for cell in line.strip("|").split("|")]
            for line in body.splitlines()
            if line.startswith("|") and not line.startswith("|--")
        ]
    header, *expected = sections.pop("rows", [[]])
    parameters = dict(sections.pop("parameters", [[]])[1:])
    types = {column.name: column.type for column in answer.columns}
    tables = {name: input_rows(name, cells) for name, cells in sections.items()}
    if "profiler_steps" not in tables:
        tables["profiler_steps"] = steps_of(tables.get("events", []))
    if "traces" not in tables:
        keys = {(row["run"], row["rank"]) for row in tables.get("events", [])}
        tables["traces"] = [{"run": run, "rank": rank} for run, rank in sorted(keys)]
    return Case(
        answer,
        tables,
        parameters,
        tuple(header),
        [
            tuple(value(cell, types[name]) for name, cell in zip(header, row, strict=True))
            for row in expected
        ],
    )


def input_rows(table: str, cells: list[list[str]]) -> Rows:
    header, *rows = cells
    types = {column.name: schema.type_word(column.type) for column in schema.TABLES[table]}
    defaults = {"run": "r", "rank": 0, "thread": 0}
    read = [
        {k: v for k, v in defaults.items() if k in types}
        | ({"event_id": number} if table == "events" else {})
        | {name: value(cell, types[name]) for name, cell in zip(header, row, strict=True)}
        for number, row in enumerate(rows)
    ]
    return categorised(read) if table == "events" else read


def value(cell: str, type_word: str) -> object:
    if not cell:
        return None
    if type_word == "VARCHAR":
        return json.loads(cell) if cell.startswith('"') else cell
    if type_word == "BIGINT[]":
        return json.loads(cell)
    if type_word == "BOOLEAN":
        return {"true": True, "false": False}[cell]
    return float(Fraction(cell)) if type_word == "DOUBLE" else int(cell)


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """One for all cases: to open it takes longer than most. One thread: what ties is always so."""
    return duckdb.connect(config={"threads": 1})


def bare() -> duckdb.DuckDBPyConnection:
    """A connection of its own that nothing is registered on; it opens at once."""
    return connection().cursor()


@cache
def registered() -> dict[str, Rows]:
    """What the tables of the one connection have; most are empty in every case."""
    return {}


def connected(tables: Mapping[str, Rows]) -> duckdb.DuckDBPyConnection:
    for name, table in schema.TABLES.items():
        rows = tables.get(name, [])
        if rows or registered().get(name, [{}]):
            nullable = pa.schema([pa.field(c.name, c.type) for c in table])
            connection().register(name, pa.Table.from_pylist(rows, schema=nullable))
            registered()[name] = rows
    return connection()


def result(case: Case, tables: Mapping[str, Rows]) -> list[tuple[object, ...]]:
    relation = run(connected(tables), case.answer, case.parameters)
    return [
        tuple(row[name] for name in case.columns)
        for row in (dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall())
    ]


def all_beside(
    cases: Iterable[Case], keys: Sequence[str]
) -> Iterator[tuple[Case, list[tuple[object, ...]]]]:
    """The rows of each case where all that are asked alike stand beside each other.

    Each has runs of its own, and its rows come in another order, among those of other traces.
    ``keys`` tell the traces apart that do not change each other: ``run``, or ``run`` and ``rank``.
    """
    alike: dict[str, list[Case]] = {}
    for case in cases:
        alike.setdefault(repr(sorted(case.parameters.items())), []).append(case)
    for some in alike.values():
        tables: dict[str, Rows] = {}
        for number, case in enumerate(some):
            for name, rows in beside(case, keys).items():
                own = [{**row, "run": f"{number}:{row['run']}"} for row in rows]
                tables.setdefault(name, []).extend(own)
        columns = {column: None for case in some for column in case.columns}
        wide = replace(some[0], columns=tuple({**dict.fromkeys(keys), **columns}))
        found = [dict(zip(wide.columns, row, strict=True)) for row in result(wide, tables)]
        for number, case in enumerate(some):
            yield case, of_case(found, case, keys, f"{number}:")


def beside(case: Case, keys: Sequence[str]) -> dict[str, Rows]:
    """The rows of a case in another order, with those of other traces among them."""
    return {
        name: [
            *({**row, "run": f"{row['run']}.1"} for row in rows),
            *rows,
            *({**row, "rank": int(str(row["rank"])) + 100} for row in rows if "rank" in keys),
        ][::-1]
        for name, rows in case.tables.items()
    }


def of_case(
    found: Iterable[Mapping[str, object]], case: Case, keys: Sequence[str], prefix: str
) -> list[tuple[object, ...]]:
    """The rows that are found of the traces of one case, as it writes them."""
    without_events = ("memory", *schema.OPTIONAL_TABLES)
    traces = (
        *case.tables["traces"],
        *(row for name in without_events for row in case.tables.get(name, [])),
    )
    alone = {tuple(row[key] for key in keys) for row in traces}
    own = [
        {**row, "run": str(row["run"]).removeprefix(prefix)}
        for row in found
        if str(row["run"]).startswith(prefix)
    ]
    return [
        tuple(row[column] for column in case.columns)
        for row in own
        if tuple(row[key] for key in keys) in alone
    ]
