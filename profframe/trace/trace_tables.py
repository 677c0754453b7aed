"""Tables of a trace, and traces with fewer rows or more tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TypeVar

import polars as pl
import pyarrow as pa

from profframe import schema
from profframe.errors import UnknownNameError
from profframe.facts.device_catalogue import Devices, models
from profframe.facts.device_models import match_models
from profframe.query import reasons
from profframe.query.sandbox import Paths, user_files, user_tables
from profframe.query.selection import Numbers, Text, texts
from profframe.query.session import Session
from profframe.query.sources import Overlay
from profframe.show.columns import KEYS, MOMENTS
from profframe.show.frame import Frame, frame
from profframe.store import Store
from profframe.store.kept.validity import explained
from profframe.trace.base_trace import BaseTrace
from profframe.trace.empty_reasons import late_reason

AnyTrace = TypeVar("AnyTrace", bound=BaseTrace)

_NO_DOCS: Mapping[str, str] = MappingProxyType({})


def scan(self: BaseTrace, table: str) -> pl.LazyFrame:
    """One table as a LazyFrame; from a store, only what a query needs is read.

    Parameters
    ----------
    table
        Name of a table of the schema.

    Returns
    -------
    polars.LazyFrame
        Its rows, text as plain String.

    Raises
    ------
    UnknownNameError
        There is no such table; the message suggests the nearest.
    """
    return self._session.scan(table)


def selected(
    self: AnyTrace,
    *,
    steps: Numbers | None = None,
    ranks: Numbers | None = None,
    runs: Text | None = None,
    kinds: Text | None = None,
    phases: Text | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> AnyTrace:
    """Keep the rows that meet all conditions, with their facts unchanged.

    Parameters
    ----------
    steps
        Number or numbers of profiler steps: events in these steps, and rows of the other timed
        tables within the steps' windows. A range may reach beyond the existing steps.
    ranks, runs
        Rank or ranks, run or runs, in every table. Here too a range may reach beyond.
    kinds
        Kind or kinds of events; the other tables stay whole.
    phases
        Inference phase or phases, such as ``"decode"``: events in these phases, device work with
        its launch, and rows of the other timed tables while such a phase runs on the host.
    start_ns, end_ns
        Keep events that start within ``[start_ns, end_ns)``, on the clock of ``traces.clock``.

    Returns
    -------
    Trace
        A trace on the same data; nothing is copied. It can be filtered further.

    Raises
    ------
    UnknownNameError
        There is no such run, rank, kind, phase or step; the message lists the existing ones.
    ParameterError
        A value is of the wrong type.
    """
    source = self._session.source
    try:
        session = self._session.filter(
            steps=steps,
            ranks=ranks,
            runs=runs,
            kinds=kinds,
            phases=phases,
            start_ns=start_ns,
            end_ns=end_ns,
        )
    except UnknownNameError as error:
        if runs is None or not isinstance(source, Store):
            raise
        raise explained(error, source.path, texts("runs", runs)) from error
    return type(self)(session)


def with_limits(
    self: AnyTrace,
    memory_limit: str | None = None,
    *,
    timeout_s: float | None = None,
    rows: int | None = None,
    cut_rows: bool = False,
) -> AnyTrace:
    """Ask questions within limits; a question that exceeds one raises an error.

    Parameters
    ----------
    memory_limit
        Such as ``"2GB"`` (of 1e9 bytes) or ``"512MiB"``, for DuckDB, which runs the queries and
        spills to a temporary folder first. Returned rows do not count. Questions of all traces in
        memory with the same limit share it. None for most of the machine's memory.
    timeout_s
        Seconds that a question may take.
    rows
        Rows that `sql` and `answer` may return.
    cut_rows
        Cut the result to ``rows`` instead of raising an error.

    Returns
    -------
    Trace
        A trace on the same data.

    Raises
    ------
    ParameterError
        A value is of the wrong type.

    Examples
    --------
    >>> from profframe import load
    >>> load("examples/cpu_training.json.gz").with_limits("1GB").self_times().height > 0
    True
    """
    terms = self._session.terms.with_limits(memory_limit, timeout_s, rows, cut_rows=cut_rows)
    return type(self)(self._session.with_terms(terms))


def with_tables(
    self: AnyTrace, *, tables: Mapping[str, object] | None = None, files: Paths = ()
) -> AnyTrace:
    """Let questions read more than the tables of the trace.

    Parameters
    ----------
    tables
        polars, pandas or Arrow frames, by their names in SQL.
    files
        Files, and folders with everything in them, that SQL may read, for example with
        ``read_csv``.

    Returns
    -------
    Trace
        A trace on the same data, with these in addition.

    Raises
    ------
    ParameterError
        A name is taken or invalid, a value is not a frame, or there is no such file.

    Examples
    --------
    >>> import polars as pl
    >>> from profframe import load
    >>> mine = pl.DataFrame({"name": ["aten::mm"], "budget_ns": [1000]})
    >>> trace = load("examples/cpu_training.json.gz").with_tables(tables={"mine": mine})
    >>> trace.sql("SELECT count(*) AS rows FROM mine")["rows"][0]
    1
    """
    terms = replace(self._session.terms, tables=user_tables(tables), files=user_files(files))
    return type(self)(self._session.with_terms(terms))


def with_devices(self: AnyTrace, devices: Devices) -> AnyTrace:
    """Match the devices again, with additional models, which take precedence.

    Parameters
    ----------
    devices
        Models by their names, or a JSON file of them, as `profframe.load` takes them.

    Returns
    -------
    Trace
        A trace on the same data, except for the table `devices`; `quality` stays as it is.

    Raises
    ------
    ParameterError
        The file cannot be read, or an entry does not have the form of
        `profframe.facts.device_catalogue`.

    Examples
    --------
    >>> from profframe import load
    >>> mine = {"Mine": {"match": [{"name": ""}], "bandwidth_bytes_per_s": 1e12}}
    >>> load("examples/cpu_training.json.gz").with_devices(mine).devices.height
    0
    """
    session = self._session
    rows = match_models(pa.concat_tables(session.source.parts("devices")), models(devices))
    return type(self)(session.with_source(Overlay(session.source, "devices", rows)))


@contextmanager
def shared_session(self: AnyTrace, at_once: int = 1) -> Iterator[AnyTrace]:
    """Ask many questions over one connection, and compute equal questions and shared steps once.

    Parameters
    ----------
    at_once
        Number of threads that ask at the same time.

    Yields
    ------
    Trace
        A trace on the same data, for as long as the block lasts.

    Examples
    --------
    >>> from profframe import load
    >>> with load("examples/cpu_training.json.gz").session() as trace:
    ...     times, same = trace.self_times(), trace.self_times()
    >>> times is same
    True
    """
    with self._session.cached(at_once) as session:
        yield type(self)(session)


def tables(self: BaseTrace) -> dict[str, pa.Table]:
    """Every table as Arrow."""
    return {name: self._session.table(name) for name in schema.TABLES}


def table(self: BaseTrace, name: str) -> Frame:
    """A table as a `Frame`."""
    rows = self._session.rows(name)
    docs = {column.name: column.doc for column in schema.TABLES[name]}
    return as_frame(self, rows, docs, lambda session: reasons.of_table(session, name))


def only_answers(session: Session) -> str | None:
    """Why a store without events has no rows; None of any other trace."""
    source = session.source
    if not isinstance(source, Store) or source.places:
        return None
    return (
        "the store has only kept answers of its runs, whose events were removed "
        "(profframe store rm --keep-answers); `profframe store kept` shows them"
    )


def as_frame(
    self: BaseTrace,
    rows: pl.DataFrame,
    docs: Mapping[str, str] = _NO_DOCS,
    why: Callable[[Session], str | None] | None = None,
) -> Frame:
    """Rows as a `Frame`, which shows times relative to the starts of these traces.

    If there are none, ``why`` is asked when the frame is shown.
    """
    starts = None
    if any(name in rows.columns for name in MOMENTS):
        starts = self._session.scan("traces").select(*KEYS, "start_ns")
    if why is None or rows.height:
        return frame(rows, starts, docs)
    return frame(rows, starts, docs, late_reason(self, why))
