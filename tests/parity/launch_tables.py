"""Tables of a few launches, and the answers about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from profframe import schema
from profframe.facts.kinds import kinds
from profframe.facts.launching_ops import launches
from profframe.facts.nesting import nesting
from profframe.query.catalogue import find
from profframe.query.run import run
from tests.builders import event, tables
from tests.cases import connection
from tests.oracles.launching import Row


def on(category: str, start: int | None, dur: int | None, name: str | None, **more: Any) -> Row:
    end = None if start is None or dur is None else start + dur
    return event(name, start, end, category=category, **more)


def events_of(*ranks: Sequence[Row]) -> pa.Table:
    """Rows of ``events`` with who launched what: one trace per list of slices, in two runs."""
    parts = []
    for number, rows in enumerate(ranks):
        events = launches(nesting(kinds(tables(*rows))))["events"]
        parts.append(schema.conform("events", events, f"run {number % 2}", number))
    return pa.concat_tables(parts, promote_options="none").unify_dictionaries()


def answer(of: str, events: pa.Table, **parameters: object) -> list[tuple[Any, ...]]:
    connection().register("events", events)
    return run(connection(), find(of), parameters).fetchall()


def named(of: str, events: pa.Table, **parameters: object) -> list[dict[str, Any]]:
    header = [column.name for column in find(of).columns]
    return [dict(zip(header, row, strict=True)) for row in answer(of, events, **parameters)]
