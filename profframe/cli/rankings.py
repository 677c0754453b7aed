"""Rankings that `show` prints: what the host and the devices did, the most first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from profframe.cli.output import OutputOptions
from profframe.cli.rank_means import has_several_ranks

if TYPE_CHECKING:
    import polars as pl

    from profframe.query.header import RankKeys
    from profframe.show.trace_header import TraceHeader
    from profframe.trace.trace import Trace

_MAX_GAPS: Final = 5


@dataclass(frozen=True, slots=True)
class Ranking:
    """Sorted rows for a table, and what makes rows of several ranks one."""

    title: str
    rows: pl.DataFrame
    keys: RankKeys | None = None
    """None if each rank is a subject of its own."""
    by: str = ""
    """Which number says what rank is worst."""
    sort: str = ""
    """What means are sorted by, if it is something else."""

    def means(self) -> tuple[str, pl.DataFrame]:
        """The title and the rows of the means, or of each rank where there are none."""
        from profframe.show.rank_means import rank_means, title

        means = self.rows if self.keys is None else rank_means(self.rows, self.keys, self.by)
        if means is self.rows:
            return self.title, self.rows
        if self.sort:
            from profframe.query.arrangement import arranged

            means = arranged("show", sort=self.sort).of_frame("show", means)
        is_one_run = means["run"].n_unique() == 1
        return f"{self.title}, {title(self.rows)}", means.drop("run") if is_one_run else means


def ranked(
    trace: Trace,
    opening: TraceHeader,
    top: int,
    sort: str,
    output: OutputOptions,
    *,
    has_means: bool,
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Titles and rows of all rankings, as people read them."""
    readable = output.of(trace, moments=False)
    for ranking in _rankings(trace, opening, top, sort, output):
        title, rows = ranking.means() if has_means else (ranking.title, ranking.rows)
        yield title, readable(rows)


def _rankings(
    trace: Trace, opening: TraceHeader, top: int, sort: str, output: OutputOptions
) -> Iterator[Ranking]:
    """What the host and the devices did, ranked."""
    from profframe.query.header import RankKeys
    from profframe.show import compact_tables

    if opening.words.is_all:
        return
    yield from _phases(opening)
    yield from _device_rankings(trace, opening, top)
    yield from _rank_rankings(trace)
    keys = (
        None if sort == "rank" else RankKeys(("name", "kind"), wholes=(("self_share", "self_ns"),))
    )
    order = "" if sort == "self_ns" else sort
    yield Ranking("Self time", opening.self_times, keys, "self_ns", order)
    if opening.breakdown.height:
        kernels = trace.kernels(per="name" if output.full_names else "short_name")
        rows = compact_tables.kernels(kernels)
        title = "Kernels" if output.full_names else "Kernels by short name"
        wholes = (("kernels_share", "total_ns"),)
        keys = RankKeys(("name",), ("category",), wholes=wholes)
        yield Ranking(title, rows, keys, "total_ns")


def _phases(opening: TraceHeader) -> Iterator[Ranking]:
    """Inference phases; nothing if there are none."""
    from profframe.show import compact_tables

    if opening.phases.height:
        title = "Inference phases, from their start on the host"
        yield Ranking(title, compact_tables.phases(opening.phases))


def _device_rankings(trace: Trace, opening: TraceHeader, top: int) -> Iterator[Ranking]:
    """Time of the devices and causes of waiting; nothing without devices."""
    from profframe.query.header import RankKeys
    from profframe.show import columns, compact_tables

    if not opening.breakdown.height:
        return
    times = compact_tables.breakdown(opening.breakdown)
    yield Ranking(
        f"Device time{'' if 'step' in times.columns else f', {compact_tables.WHOLE}'}", times
    )
    yield Ranking(
        "Time of the devices by category",
        compact_tables.categories(opening.categories),
        RankKeys(("category", "class"), wholes=(("share", "total_ns"),)),
        "total_ns",
    )
    yield Ranking(
        f"Idle time of the devices, {compact_tables.WHOLE}",
        compact_tables.causes(opening.idle),
        RankKeys(("cause",), ("device",), wholes=(("idle_share", "idle_ns"),)),
        "idle_ns",
    )
    yield Ranking(
        "Idle time by line of your code",
        compact_tables.owners(trace.idle(by="line", per="device")),
        RankKeys(("line",), ("device",), wholes=(("share", "idle_ns"),)),
        "idle_ns",
    )
    limit = min(top, _MAX_GAPS)
    gaps = columns.since_start(compact_tables.gaps(trace.gaps(top=limit), limit), trace.traces)
    yield Ranking("Largest gaps", columns.compact(gaps))


def _rank_rankings(trace: Trace) -> Iterator[Ranking]:
    """Ranks that others wait for; nothing if no ranks of a run communicate."""
    from profframe.show import compact_tables

    if not has_several_ranks(trace):
        return
    late = trace.stragglers()
    if late.height:
        yield Ranking(compact_tables.stragglers_title(late), compact_tables.stragglers(late))
