"""Stores in words: what they hold, and what was converted, removed, packed, or is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

from profframe import schema
from profframe.show import terminal, units
from profframe.show.summary import contents
from profframe.store.facts_version import facts_version
from profframe.store.layout import KEPT

if TYPE_CHECKING:
    from rich.console import RenderableType

_STATUSES: Final = ("written", "joined", "unchanged", "skipped", "failed")


def conversion(files: pl.DataFrame) -> str:
    """What the store has from the files, and the number of files of each status.

    Examples
    --------
    >>> row = {"status": "written", "run": "nightly", "rank": 0, "events": 1200}
    >>> conversion(pl.DataFrame([row, row | {"rank": 1}]))
    '1 run, 2 ranks, 2,400 events: 2 files written'
    """
    stored = files.filter(files["status"].is_in(["written", "joined", "unchanged"]))
    counts = {status: files.filter(files["status"] == status).height for status in _STATUSES}
    statuses = [(status, number) for status, number in counts.items() if number]
    parts = [f"{number:,} {status}" for status, number in statuses]
    if len(statuses) == 1:
        status, number = statuses[0]
        parts = [f"{units.plural(number, 'file')} {status}"]
    return f"{contents(stored)}: {', '.join(parts)}"


def errors(files: pl.DataFrame) -> list[str]:
    """One line for each file that failed."""
    return [str(error) for error in files.filter(files["status"] == "failed")["error"]]


def arrivals(files: pl.DataFrame) -> list[str]:
    """One line for each file that was converted.

    Examples
    --------
    >>> row = {"source": "a.json", "status": "written", "run": "a", "rank": 0, "events": 1200}
    >>> arrivals(pl.DataFrame([row]))
    ['a.json: run a, rank 0, 1,200 events']
    """
    new = files.filter(files["status"].is_in(["written", "joined"]))
    return [
        f"{source}: run {run}, rank {rank}, "
        + (units.plural(events or 0, "event") if status == "written" else "joined")
        for source, status, run, rank, events in new.select(
            "source", "status", "run", "rank", "events"
        ).iter_rows()
    ]


def watched(converted: int, failed: int) -> str:
    """How many files a watch has converted.

    Examples
    --------
    >>> watched(2, 1)
    '2 files converted, 1 file failed'
    """
    text = f"{units.plural(converted, 'file')} converted"
    return f"{text}, {units.plural(failed, 'file')} failed" if failed else text


def by_run(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per run: the number of its ranks, and sums over them.

    Examples
    --------
    >>> row = {"run": "a", "rank": 0, "events": 2, "bytes": 9, "start_ns": 5, "clock": "utc"}
    >>> rank = row | {"schema_version": "5", "facts_version": "1a", "folder": "run=a/rank=0"}
    >>> by_run(pl.DataFrame([rank, rank | {"rank": 1}])).rows()
    [('a', 2, 4, 18, 5, 'utc', '5', '1a')]
    """
    distinct = (
        pl.col("clock", "schema_version", "facts_version").drop_nulls().unique(maintain_order=True)
    )
    return (
        rows.group_by("run", maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("ranks"),
            pl.when(pl.col("events").count() > 0).then(pl.col("events").sum()).alias("events"),
            pl.col("bytes").sum(),
            pl.col("start_ns").min(),
            distinct.cast(pl.String).str.join(", "),
        )
        .sort("run")
    )


def listing(traces: pl.DataFrame, rows: pl.DataFrame, width: int | None) -> RenderableType:
    """A table of runs or ranks, with the sums of all traces above it."""
    starts = [
        units.moment(ns)[:19] if ns is not None and clock == "utc" else ""
        for ns, clock in rows.select("start_ns", "clock").rows()
    ]
    columns = rows.drop("start_ns", "clock").insert_column(1, pl.Series("start (UTC)", starts))
    past = set(traces.filter(folder=KEPT)["run"])
    if past:
        own = ["answers only" if run in past else "events" for run in rows["run"]]
        columns = columns.insert_column(2, pl.Series("holds", own))
    runs = traces["run"].n_unique()
    size, packs = int(traces["bytes"].sum()), traces["folder"].str.starts_with("pack-").sum()
    title = (
        f"{units.plural(runs, 'run')}, {units.plural(traces.height, 'trace')}"
        f" ({packs:,} packed), {units.plural(int(traces['events'].sum()), 'event')},"
        f" {units.size(size)}"
    )
    if past:
        title += f"; {units.plural(len(past), 'run')} with answers only"
    others = traces.filter(
        pl.col("folder") != KEPT,
        (pl.col("facts_version") != facts_version())
        | (pl.col("schema_version") != str(schema.SCHEMA_VERSION)),
    ).height
    if others:
        title += (
            f"\n{units.plural(others, 'trace')} read by another version of profframe, so facts may"
            f" differ from those of {facts_version()}: `profframe store upgrade` derives them "
            "anew, `profframe convert` reads the sources again"
        )
    return terminal.table(columns, width, title, {"start (UTC)": "start (UTC)"})


def trace_count(keys: Sequence[tuple[str, int]]) -> str:
    """The number of traces and runs.

    Examples
    --------
    >>> trace_count([("a", 0), ("a", 1)])
    '2 traces of 1 run'
    """
    runs = len({run for run, _ in keys})
    return f"{units.plural(len(keys), 'trace')} of {units.plural(runs, 'run')}"


def pack_count(number: int) -> str:
    """How many traces were packed."""
    return f"{units.plural(number, 'trace')} packed" if number else "nothing to compact"


def kept_runs(computed: int, current: int) -> str:
    """Of how many runs answers were kept.

    Examples
    --------
    >>> kept_runs(2, 0), kept_runs(0, 3)
    ('answers of 2 runs kept', 'answers of 3 runs were kept already')
    """
    there = f"answers of {units.plural(current, 'run')} were kept already"
    if not computed:
        return there
    return f"answers of {units.plural(computed, 'run')} kept{f'; {there}' if current else ''}"


_UPGRADES: Final = {
    "derived": "derived anew from stored columns",
    "read": "read from the source",
    "kept": "kept as it was",
    "current": "current already",
    "failed": "failed",
}


def upgraded(traces: pl.DataFrame) -> str:
    """How many traces became current, and how.

    Examples
    --------
    >>> upgraded(pl.DataFrame({"status": ["derived", "kept", "derived"]}))
    '3 traces: 2 derived anew from stored columns, 1 kept as it was'
    """
    counts = {status: traces.filter(traces["status"] == status).height for status in _UPGRADES}
    parts = [f"{count:,} {_UPGRADES[status]}" for status, count in counts.items() if count]
    return f"{units.plural(traces.height, 'trace')}: {', '.join(parts) or 'none'}"


def upgrade_problems(traces: pl.DataFrame) -> list[str]:
    """One line for each trace that failed."""
    return [str(reason) for reason in traces.filter(traces["status"] == "failed")["reason"]]


def upgrade_notes(traces: pl.DataFrame) -> list[str]:
    """One line for each reason why stored columns were not enough, with an example.

    Examples
    --------
    >>> row = {"run": "a", "rank": 0, "status": "kept", "reason": "converted with captures"}
    >>> upgrade_notes(pl.DataFrame([row, row | {"rank": 1}]))
    ['2 traces kept as it was, such as run a, rank 0: converted with captures']
    """
    rows = traces.filter(traces["status"].is_in(["derived", "read", "kept"])).drop_nulls("reason")
    groups = rows.group_by("status", "reason", maintain_order=True).agg(
        pl.len(), pl.col("run", "rank").first()
    )
    return [
        f"{units.plural(row['len'], 'trace')} {_UPGRADES[row['status']]}, such as run"
        f" {units.visible(row['run'])}, rank {row['rank']}: {units.visible(row['reason'])}"
        for row in groups.iter_rows(named=True)
    ]


def problems(rows: pl.DataFrame) -> list[str]:
    """A line for each damaged file."""
    return [f"{file}: {problem}" for file, problem in rows.select("file", "problem").rows()]
