"""Schema-typed tables from a few words per row.

A reader's tables, ready for the facts::

    >>> from tests.builders import event, tables
    >>> source = tables(
    ...     event("aten::linear", 0, 100),
    ...     event("aten::addmm", 10, 90),
    ...     event("cudaLaunchKernel", 20, 30, category="cuda_runtime", correlation=7),
    ...     event("sgemm", 50, 250, category="kernel", thread=1, correlation=7, device=0, stream=7),
    ...     memory=[{"time_ns": 15, "bytes": 512, "device_type": "CPU"}],
    ... )
    >>> source["events"]["name"].to_pylist()
    ['aten::linear', 'aten::addmm', 'cudaLaunchKernel', 'sgemm']

Tables as they are in a store, with any columns given and the rest NULL::

    >>> from tests.builders import table
    >>> stored = table("events", [{"rank": 3, "kind": "host_op", "self_ns": 5}])
    >>> stored.schema.equals(schema.EVENTS.arrow), stored["rank"].to_pylist()
    (True, [3])

Both as a trace: `loaded` has the facts that are computed of slices, `stored` the rows as given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

import pyarrow as pa

from profframe import schema
from profframe.facts.fact import Tables
from profframe.facts.kernel_categories import kernel_categories
from profframe.facts.nodes import Registry
from profframe.facts.pipeline import add_facts
from profframe.facts.step_times import step_times
from profframe.trace.trace import Trace

Row = Mapping[str, object]

KEYS: Final = ("run", "rank")


def event(
    name: str | None,
    start: int | None,
    end: int | None,
    *,
    category: str | None = "cpu_op",
    thread: int = 0,
    **columns: object,
) -> dict[str, object]:
    """One slice; ``columns`` are any other columns of the reader's ``events``, ``ev_idx`` too."""
    dur = None if start is None or end is None else end - start
    row = {"name": name, "start_ns": start, "dur_ns": dur, "category": category, "thread": thread}
    return row | columns


def tables(
    *events: Row,
    memory: Sequence[Row] = (),
    threads: Sequence[Row] = (),
    header: Row | None = None,
    **others: Sequence[Row],
) -> dict[str, pa.Table]:
    """The tables of one trace as a reader gives them: no ``run``, no ``rank``, no facts.

    ``pid`` is ``"1"`` and ``tid`` the number of the thread unless the rows say otherwise;
    ``threads`` has a row per thread that is used; ``header`` is the row of ``traces``.
    """
    slices = [
        {"event_id": i, "pid": "1", "tid": str(row.get("thread", 0))} | dict(row)
        for i, row in enumerate(events)
    ]
    given = {row["thread"]: row for row in threads}
    used = {row.get("thread", 0): row for row in (*slices, *memory)}
    lines = [
        {"thread": n, "pid": used.get(n, {}).get("pid", "1"), "tid": str(n)}
        | dict(given.get(n, {}))
        for n in sorted({*used, *given}, key=str)
    ]
    rows = {"events": slices, "memory": memory, "threads": lines, "traces": [header or {}]}
    return {name: _reader_table(name, (rows | others).get(name, ())) for name in schema.TABLES}


def facts(
    *events: Row,
    compat: str | None = None,
    registry: Registry | None = None,
    **others: Any,
) -> Tables:
    """The tables of one trace with their facts; ``others`` as `tables` takes them."""
    return add_facts(tables(*events, **others), compat=compat, registry=registry)


def column(of: Tables, name: str, table: str = "events") -> list[object]:
    values: list[object] = of[table][name].to_pylist()
    return values


def loaded(*events: Row, run: str = "r", rank: int = 0, **others: Any) -> Trace:
    """A trace of slices, with their facts; ``others`` as `tables` takes them."""
    made = facts(*events, **others).items()
    return Trace.from_tables({name: schema.conform(name, rows, run, rank) for name, rows in made})


def stored(**rows: Iterable[Row]) -> Trace:
    """A trace of rows as they are in a store, by their tables; see `table`.

    ``profiler_steps`` are what the fact says of ``events`` if they are not given.
    """
    rows = {name: [*given] for name, given in rows.items()}
    if "profiler_steps" not in rows:
        rows["profiler_steps"] = steps_of(categorised(_keyed("events", rows.get("events", ()))))
    return Trace.from_tables({name: table(name, rows.get(name, ())) for name in schema.TABLES})


def together(*traces: Trace) -> Trace:
    parts = {name: [trace.tables[name] for trace in traces] for name in schema.TABLES}
    return Trace.from_tables(
        {name: pa.concat_tables(rows).unify_dictionaries() for name, rows in parts.items()}
    )


def loaded_ranks(ranks: Iterable[Sequence[Row]]) -> Trace:
    """One trace of several ranks, each a list of slices, in two runs."""
    return together(
        *(loaded(*rows, run=f"run {number % 2}", rank=number) for number, rows in enumerate(ranks))
    )


def steps_of(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows of ``profiler_steps``: what the fact says of rows of ``events``."""
    by_trace: dict[tuple[object, object], list[Row]] = {}
    for row in rows:
        by_trace.setdefault((row["run"], row["rank"]), []).append(row)
    made: list[dict[str, Any]] = []
    for (run, rank), events in by_trace.items():
        if any(str(row.get("name")).startswith("ProfilerStep#") for row in events):
            places = {row["event_id"]: place for place, row in enumerate(events)}
            ids = ("event_id", "launch_id", "op_id", "parent_id")
            placed = [{**row, **{n: places.get(row.get(n)) for n in ids}} for row in events]
            steps = step_times.output({"events": _typed(schema.EVENTS.arrow, placed)}).columns
            table = pa.table({name.partition(".")[2]: of for name, of in steps.items()})
            for step in table.to_pylist():
                event_id = events[step["event_id"]]["event_id"]
                made.append({"run": run, "rank": rank} | step | {"event_id": event_id})
    return made


def categorised(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Rows of events with what the fact says of kernels, where they do not say it themselves."""
    full: list[dict[str, Any]] = [dict(row) for row in rows]
    names = {tuple(map(row.get, (*KEYS, "event_id"))): row.get("name") for row in full}
    kernels: list[tuple[dict[str, Any], _Kernel]] = [
        (row, (row["kind"], row.get("name"), op, row.get("collective")))
        for row in full
        if row.get("kind") in schema.DEVICE_KINDS and "kernel_category" not in row
        for op in [names.get(tuple(map(row.get, (*KEYS, "op_id"))))]
    ]
    new = [
        kernel
        for kernel in dict.fromkeys(kernel for _, kernel in kernels)
        if kernel not in _CATEGORIES
    ]
    if new:
        _CATEGORIES.update(zip(new, _categories(new), strict=True))
    for row, kernel in kernels:
        row["kernel_category"], row["computes_and_communicates"] = _CATEGORIES[kernel]
    return full


_Kernel: TypeAlias = tuple[str, str | None, str | None, str | None]
"""Kind, name, name of the op, and collective."""
_CATEGORIES: Final[dict[_Kernel, tuple[str | None, bool | None]]] = {}
"""What the fact says of each: to ask it of one takes as long as of a hundred."""


def _categories(kernels: Sequence[_Kernel]) -> Iterator[tuple[str | None, bool | None]]:
    """Category of each kernel, and whether it computes and communicates."""
    ops = [*dict.fromkeys(op for _, _, op, _ in kernels if op is not None)]
    rows = {
        "kind": [*(kernel[0] for kernel in kernels), *("host_op" for _ in ops)],
        "name": [*(kernel[1] for kernel in kernels), *ops],
        "op_id": [
            *(None if op is None else len(kernels) + ops.index(op) for _, _, op, _ in kernels),
            *(None for _ in ops),
        ],
        "collective": [*(kernel[3] for kernel in kernels), *(None for _ in ops)],
    }
    fields = [pa.field(column, schema.EVENTS.arrow.field(column).type) for column in rows]
    output = kernel_categories.compute({"events": pa.table(rows, pa.schema(fields))}).columns
    columns = ("kernel_category", "computes_and_communicates")
    found = (output[f"events.{column}"].to_pylist()[: len(kernels)] for column in columns)
    return zip(*found, strict=True)


def table(name: str, rows: Iterable[Row]) -> pa.Table:
    """A table with every column of the schema; what a row leaves out is NULL, 0 or ``""``.

    ``event_id`` of events counts up, ``run`` is ``"run"`` and kernels have the category of their
    name unless the rows say otherwise.
    """
    full = _keyed(name, rows)
    if not full:
        return _empty(schema.TABLES[name].arrow)
    return _typed(schema.TABLES[name].arrow, categorised(full) if name == "events" else full)


def _keyed(name: str, rows: Iterable[Row]) -> list[Row]:
    return [
        {"run": "run", "rank": 0} | ({"event_id": i} if name == "events" else {}) | dict(row)
        for i, row in enumerate(rows)
    ]


def _reader_table(name: str, rows: Sequence[Row]) -> pa.Table:
    columns = _reader_columns(name)
    known = {*columns.names}
    if unknown := {key for row in rows for key in row} - known:
        raise KeyError(f"{name} as read has no column {', '.join(sorted(unknown))}")
    return _typed(columns, rows) if rows else _empty(columns)


@cache
def _reader_columns(name: str) -> pa.Schema:
    dropped = {*KEYS, *(schema.FACT_COLUMNS if name == "events" else ())}
    dropped |= {"op_id"} if name == "memory" else set()
    fields = [field for field in schema.TABLES[name].arrow if field.name not in dropped]
    if name == "events":
        fields.append(pa.field("ev_idx", pa.int64()))
    return pa.schema(fields)


@cache
def _empty(columns: pa.Schema) -> pa.Table:
    return columns.empty_table()


def _typed(columns: pa.Schema, rows: Sequence[Row]) -> pa.Table:
    arrays = [
        pa.array([row.get(field.name, _missing(field)) for row in rows], field.type)
        for field in columns
    ]
    return pa.table(arrays, schema=columns)


def _missing(field: pa.Field) -> object:
    if field.nullable:
        return None
    if pa.types.is_boolean(field.type):
        return False
    return 0 if pa.types.is_integer(field.type) else ""
