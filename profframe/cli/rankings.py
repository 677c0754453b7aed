"""Rankings that `show` prints: what the host and the devices did, the most first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from profframe.cli.output import OutputOptions
from profframe.cli.rank_means import has_several_ranks

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType

    from profframe.query.header import Answer, RankKeys
    from profframe.show.trace_header import TraceHeader
    from profframe.trace.trace import Trace

_MAX_GAPS: Final = 5
_MAX_MODULES: Final = 5
_MAX_ANNOTATIONS: Final = 5
_HAS: Final = """
    SELECT
        coalesce(bool_or(python_module_id IS NOT NULL OR module_hierarchy <> ''), false) AS modules,
        coalesce(bool_or(kind = 'python' OR stack IS NOT NULL OR python_stack IS NOT NULL), false)
            AS frames,
        coalesce(
            bool_or(kind = 'annotation' AND NOT starts_with(coalesce(name, ''), 'ProfilerStep#')),
            false
        ) AS annotations
    FROM events
"""
"""What may have rows: what was not recorded is not asked for."""
_EACH: Final = "the longest of them; each is in answer annotations -p per=call"
_PACE: Final = "of a step from the completion before it to its own, at the pace of the devices"


@dataclass(frozen=True, slots=True)
class Ranking:
    """Sorted rows for a table, what makes rows of several ranks one, and notes."""

    title: str
    rows: pl.DataFrame
    answer: str
    """The answer that has all of its columns."""
    keys: RankKeys | None = None
    """None if each rank is a subject of its own."""
    by: str = ""
    """Which number says what rank is worst."""
    sort: str = ""
    """What means are sorted by, if it is something else."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Of the answer."""
    words: Mapping[str, str] = field(default_factory=dict)
    """What columns mean of which the header of the answer does not say it, or not all."""
    explains: bool = True
    """Whether words in it are explained, and not in a table above."""
    most: int | None = None
    """Maximum rows, however many are asked for; None for any."""

    def notes(self, shown: pl.DataFrame) -> Iterator[tuple[str, str]]:
        """What is said below the rows that are shown, by column."""
        from profframe.show.footnotes import footnotes

        return footnotes(shown, self._words(), self.answer if self.explains else "")

    def _words(self) -> Mapping[str, str]:
        """What percentages are of, as the header says, by their names here."""
        from profframe.show import compact_tables
        from profframe.show.footnotes import of_shares

        select = self._select()
        shown = _shown(compact_tables.NAMES.get(select.name, {}))
        shares = of_shares({column.name: column.doc for column in select.columns})
        here = {name: text for own, text in shares.items() for name in (own, *shown.get(own, ()))}
        return {**here, **self.words}

    def part(
        self, top: int, width: int | None, command: Callable[[Sequence[str]], str]
    ) -> RenderableType:
        """The first rows as a table; ``command`` makes what is typed of the words of a question."""
        from profframe.show import compact_tables, terminal
        from profframe.show.rank_means import worst

        select = self._select()
        names = compact_tables.NAMES.get(select.name, {})
        made_of = _shown(names)
        values = (word for n, v in self.parameters.items() for word in ("-p", f"{n}={v}"))
        return terminal.ranking(
            self.rows,
            top if self.most is None else min(top, self.most),
            width,
            self.title,
            keep={self.sort, self.by, worst(self.by), "worst_rank"},
            main=[shown for name in select.main for shown in (name, *made_of.get(name, ()))],
            names=terminal.Names(names, command=command(("answer", self.answer, *values))),
            notes=self.notes,
        )

    def means(self) -> Ranking:
        """The rows of the means, with a title that says so; as it is where there are none."""
        from profframe.show.rank_means import rank_means, title

        if self.keys is None:
            return self
        keys = replace(self.keys, wholes=(*self.keys.wholes, *self._wholes()))
        means = rank_means(self.rows, keys, self.by)
        if means is self.rows:
            return self
        if self.sort:
            from profframe.query.arrangement import arranged

            means = arranged("show", sort=self.sort).of_frame("show", means)
        rows = means.drop("run") if means["run"].n_unique() == 1 else means
        return replace(self, title=f"{self.title}, {title(self.rows)}", rows=rows)

    def _select(self) -> Answer:
        """The answer that has all of its columns, in the form that its parameters choose."""
        from profframe.query.catalogue import resolve

        return resolve(self.answer, self.parameters)[0]

    def _wholes(self) -> Iterator[tuple[str, ...]]:
        """Shares with what they divide, as the header of the answer says, by their names here."""
        from profframe.show import compact_tables

        select = self._select()
        shown = _shown(compact_tables.NAMES.get(select.name, {}))
        for ratio, *amounts in select.rank_keys.wholes if select.rank_keys else ():
            yield from ((name, *amounts) for name in (ratio, *shown.get(ratio, ())))


def _shown(names: Mapping[str, str]) -> dict[str, list[str]]:
    """Columns that are only shown, by those that they are made of."""
    return {own: [name for name, of in names.items() if of == own] for own in names.values()}


def ranked(
    trace: Trace,
    opening: TraceHeader,
    top: int,
    sort: str,
    output: OutputOptions,
    *,
    has_means: bool,
    into: str | None = None,
) -> Iterator[Ranking]:
    """All rankings, as people read them."""
    from profframe.trace.at_once import at_once

    readable = output.of(trace, moments=False)
    with at_once(trace) as begin:
        asked_for = _rankings(trace, opening, top, sort, output, into=into)
        for ranking in [begin(ask) for ask in asked_for]:
            shown = ranking().means() if has_means else ranking()
            yield replace(shown, rows=readable(shown.rows))


def _rankings(
    trace: Trace,
    opening: TraceHeader,
    top: int,
    sort: str,
    output: OutputOptions,
    *,
    into: str | None,
) -> Iterator[Callable[[], Ranking]]:
    """What the host and the devices did, ranked."""
    from profframe.trace.query import own_rows

    if opening.words.is_all:
        return
    has = own_rows(trace, _HAS).row(0, named=True)
    if opening.phases.height:
        yield partial(_phases, opening)
    if opening.breakdown.height:
        yield from _device_rankings(trace, opening, top, into, has)
    if has["annotations"]:
        yield partial(_annotations, trace)
    if has_several_ranks(trace):
        yield partial(_late_ranks, trace)
    yield partial(_self_times, opening, sort)
    if opening.breakdown.height:
        yield partial(_kernels, trace, output)


def _device_rankings(
    trace: Trace, opening: TraceHeader, top: int, into: str | None, has: Mapping[str, bool]
) -> Iterator[Callable[[], Ranking]]:
    """Time of the devices and causes of waiting."""
    yield partial(_breakdown, opening)
    yield partial(_categories, opening)
    if not {"memcpy", "memset"}.isdisjoint(opening.kinds["kind"]):
        yield partial(_copies, trace)
    if "host_op" in opening.kinds["kind"]:
        yield partial(_ops, trace, opening)
    if has["modules"]:
        yield partial(_modules, trace, opening)
    yield partial(_idle, opening)
    if has["frames"]:
        yield partial(_idle_lines, trace, into)
    yield partial(_gaps, trace, min(top, _MAX_GAPS))


def _phases(opening: TraceHeader) -> Ranking:
    """Inference phases."""
    from profframe.show import compact_tables

    title = "Inference phases, from their start on the host"
    return Ranking(title, compact_tables.phases(opening.phases), "phases")


def _breakdown(opening: TraceHeader) -> Ranking:
    """What the devices did."""
    from profframe.show import compact_tables
    from profframe.show.device_time import together
    from profframe.show.footnotes import HOST

    times = compact_tables.breakdown(opening.breakdown)
    idle_of = together(opening.overview)
    of = {"idle_share": f"of the span{idle_of and f', in which {idle_of}'}"}
    if "host_ns" in times.columns:
        of |= {"span_ns": _PACE, "host_ns": HOST}
    return Ranking(
        f"Device time{'' if 'step' in times.columns else f', {compact_tables.WHOLE}'}",
        times,
        "time_breakdown",
        words=of,
    )


def _categories(opening: TraceHeader) -> Ranking:
    """Device time by category."""
    from profframe.query.header import RankKeys
    from profframe.show import compact_tables

    return Ranking(
        "Time of the devices by category",
        compact_tables.categories(opening.categories),
        "kernel_categories",
        RankKeys(("category", "class")),
        "total_ns",
    )


def _idle(opening: TraceHeader) -> Ranking:
    """Why the devices had nothing to do."""
    from profframe.query.header import RankKeys
    from profframe.show import compact_tables

    return Ranking(
        f"Idle time of the devices, {compact_tables.WHOLE}",
        compact_tables.causes(opening.idle),
        "idle",
        RankKeys(("cause",), ("device",)),
        "idle_ns",
        parameters={"per": "device"},
    )


def _idle_lines(trace: Trace, into: str | None) -> Ranking:
    """Where the host was while the devices had nothing to do."""
    from profframe.query.header import RankKeys
    from profframe.show import compact_tables

    lines = trace.idle(by="line", per="device", into=into or "none")
    return Ranking(
        f"Idle time by line, into {into}" if into else "Idle time by line of your code",
        compact_tables.owners(lines, "(no line)") if into else compact_tables.owners(lines),
        "idle",
        RankKeys(("line",), ("device",)),
        "idle_ns",
        parameters={"by": "line", "per": "device", **({"into": into} if into else {})},
    )


def _gaps(trace: Trace, most: int) -> Ranking:
    """The largest gaps."""
    from profframe.show import columns, compact_tables

    gaps = columns.since_start(compact_tables.gaps(trace.gaps(top=most), most), trace.traces)
    return Ranking("Largest gaps", columns.compact(gaps), "gaps", explains=False)


def _ops(trace: Trace, opening: TraceHeader) -> Ranking:
    """Device time by op of the host; no rows where no op launched any."""
    from profframe.query.header import RankKeys
    from profframe.show import compact_tables

    rows = trace.key_averages(include_python_functions=False)
    return Ranking(
        "Device time of ops",
        compact_tables.ops(rows, opening.categories),
        "key_averages",
        RankKeys(("name",), ("node_id",), wholes=(("self_device_share", "self_device_ns"),)),
        "self_device_ns",
    )


def _copies(trace: Trace) -> Ranking:
    """Copies and fills, by direction."""
    from profframe.query.header import RankKeys
    from profframe.show import compact_tables

    return Ranking(
        "Copies and fills by direction",
        compact_tables.copies(trace.memory_bandwidth()),
        "memory_bandwidth",
        RankKeys(("name",), ("device",)),
        "total_ns",
    )


def _modules(trace: Trace, opening: TraceHeader) -> Ranking:
    """Device time by class of nn.Module; no rows where none launched any."""
    from profframe.query.header import RankKeys
    from profframe.show import compact_tables

    return Ranking(
        "Device time of modules by class",
        compact_tables.modules(trace.modules(per="class"), opening.categories),
        "modules",
        RankKeys(("name",), wholes=(("self_device_share", "total_self_device_ns"),)),
        "total_self_device_ns",
        parameters={"per": "class"},
        words={
            "self_device_share": "of the time of all kernels, copies and fills",
            "total_self_device_ns": "launched by a module of the class itself, backward too",
            "total_device_ns": "with the modules inside",
        },
        most=_MAX_MODULES,
    )


def _annotations(trace: Trace) -> Ranking:
    """Annotations of all steps together."""
    from profframe.query.header import RankKeys
    from profframe.show import compact_tables

    rows = compact_tables.sums_by_annotation(trace.annotations())
    return Ranking(
        "Annotations",
        rows,
        "annotations",
        RankKeys(("name",)),
        "device_ns" if "device_ns" in rows.columns else "host_ns",
        words={"max_host_ns": _EACH},
        explains=False,
        most=_MAX_ANNOTATIONS,
    )


def _late_ranks(trace: Trace) -> Ranking:
    """Ranks that others wait for; no rows if no ranks of a run communicate."""
    from profframe.show import compact_tables

    late = trace.stragglers()
    rows, title = compact_tables.stragglers(late), compact_tables.stragglers_title(late)
    return Ranking(title, rows, "stragglers", by="held_up_ns")


def _self_times(opening: TraceHeader, sort: str) -> Ranking:
    """Self times, in the order that is asked for."""
    from profframe.query.header import RankKeys

    return Ranking(
        "Self time",
        opening.self_times,
        "self_times",
        None if sort == "rank" else RankKeys(("name", "kind")),
        "self_ns",
        "" if sort == "self_ns" else sort,
    )


def _kernels(trace: Trace, output: OutputOptions) -> Ranking:
    """Kernels by name."""
    from profframe.query.header import RankKeys
    from profframe.show import compact_tables

    per = "name" if output.full_names else "short_name"
    kernels = trace.kernels(per=per)
    return Ranking(
        "Kernels" if output.full_names else "Kernels by short name",
        compact_tables.kernels(kernels),
        "kernels",
        RankKeys(("name",), ("category",)),
        "total_ns",
        parameters={} if output.full_names else {"per": per},
        words={
            "calls": compact_tables.calls_of_kernels(kernels),
            "precision": "by the names of kernels; tensor: on units for matrices",
        },
    )
