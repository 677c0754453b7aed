"""Verbs that show what is in a trace: `show`, `info`, `tree`, `critical-path` and `blame`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from profframe.cli import completion
from profframe.cli.dividing import Spread, with_spread
from profframe.cli.keeping import with_cache
from profframe.cli.loading import load, naming
from profframe.cli.messages import warn, warn_of_library
from profframe.cli.output import OutputOptions, with_output
from profframe.cli.part import Part, heading, together, with_part
from profframe.cli.rank_means import has_several_ranks
from profframe.cli.rankings import Ranking, ranked
from profframe.cli.verbs import (
    FILE,
    one_option,
    takes_sources,
    verbs,
    with_facts,
    with_into,
)
from profframe.errors import AnswerError, UnknownNameError, without_secrets
from profframe.server.paging import LEAST_TOKENS, MOST_TOKENS, page
from profframe.show.units import visible

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType

    from profframe.show.path_text import ShownPath
    from profframe.show.summary import Summary
    from profframe.show.trace_header import TraceHeader
    from profframe.trace.trace import Trace

_MAX_THREADS: Final = 40
_OF_PATH: Final = MappingProxyType({"share": "of the length of the path"})
_OF_PART: Final = MappingProxyType({"part_share": "of all cost of its kind, late or transfer"})
"""What percentages are of, by column."""
_THREAD: Final = ("run", "rank", "thread", "pid", "tid", "process_name", "thread_name")


@verbs.command()
@takes_sources
@click.option(
    "--top", default=10, show_default=True, type=click.IntRange(1), help="Rows per table."
)
@click.option(
    "--sort",
    default="self_ns",
    show_default=True,
    metavar="COLUMN",
    help="Sort self times: numbers the largest first, texts from A to Z.",
    shell_complete=completion.self_time_columns,
)
@click.option(
    "--per", type=click.Choice(["rank"]), help="A row for each rank: no means of several ranks."
)
@with_into
@click.option(
    "--budget",
    type=click.IntRange(LEAST_TOKENS, MOST_TOKENS),
    metavar="TOKENS",
    help="For a language model: a text of at most this many tokens, with event_ids.",
)
@with_part
@with_facts
@with_cache
@with_output
def show(
    sources: tuple[str, ...],
    top: int,
    sort: str,
    per: str | None,
    *,
    into: str | None,
    budget: int | None,
    part: Part,
    facts: Mapping[str, Any],
    output: OutputOptions,
) -> None:
    """Show where the time went (the default).

    Overview, what could be made faster, inference phases, what the devices did, for which ops, and
    why they waited, self times, kernels, and quality notes. Of several ranks the mean and the worst
    one. With --columns, --format or -o: the self times.
    """
    from profframe.cli.next_commands import next_commands, typed
    from profframe.query.catalogue import find
    from profframe.show.trace_header import text as opening_text
    from profframe.trace.text_views import header

    columns = [column.name for column in find("self_times").columns]
    if sort not in columns:
        raise click.UsageError(str(UnknownNameError.among("column to sort by", sort, columns)))
    if into is not None and (budget is not None or output.is_asked_for):
        raise click.UsageError("--into: only the tables of the terminal have rows by line of code")
    trace = part.apply(load(sources, facts=facts), sources)
    if budget is not None:
        from profframe.server.tools import QuestionLimits, Subject, overview

        result = overview(Subject.of(trace, QuestionLimits(memory=None)))
        click.echo(page(result, budget, "a larger --budget, or profframe ask").text)
        return
    if output.is_asked_for:
        output.emit(trace.self_times(sort=sort), readable=output.of(trace), top=top)
        return
    with trace.session() as session:  # a connection per question costs as much as the question
        opening = header(session, sort)
        commands = next_commands(opening, sources, facts, [*part.options()], output.width)
        more = f" and {len(sources) - 1:,} more" if len(sources) > 1 else ""
        first = opening_text(
            without_secrets(f"{sources[0]}{more}"), opening, commands, output.width
        )
        has_means = per is None and not part.ranks and has_several_ranks(session)
        if into is not None and not opening.breakdown.height:
            warn("--into: no device work, so no idle time by line: see answer python_lines --into")
        elif into is not None:
            warn_of_library(session, into)
        tables = ranked(session, opening, top, sort, output, has_means=has_means, into=into)
        command = typed(sources, facts, [*part.options()], output.width)
        output.echo(first, *_parts(opening, tables, top, output.width, command))


def _parts(
    opening: TraceHeader,
    tables: Iterable[Ranking],
    top: int,
    width: int | None,
    command: Callable[[Sequence[str]], str],
) -> list[RenderableType]:
    """Tables that `show` prints below the first lines."""
    from rich.text import Text

    from profframe.show import compact_tables, terminal
    from profframe.show.run_paths import with_paths

    parts: list[RenderableType] = []
    if not opening.words.is_all:
        overview = with_paths(compact_tables.overview(opening.overview), opening.traces)
        parts.append(Ranking("Overview", overview, "overview").part(top, width, command))
    for words in opening.words.parts:
        if not opening.words.is_all:
            parts.append(Text("\n".join(f"{words.label}: {line}" for line in words.what)))
        parts += terminal.words(words, top, width, command)
    parts += [ranking.part(top, width, command) for ranking in tables if ranking.rows.height]
    return [*parts, *_quality(opening, width)]


def _quality(summary: Summary, width: int | None) -> Iterator[RenderableType]:
    from profframe.show import terminal

    if summary.quality.height:
        yield terminal.notes(summary.quality, width)


@verbs.command()
@takes_sources
@with_part
@with_facts
@with_cache
@with_output
def info(
    sources: tuple[str, ...], part: Part, facts: Mapping[str, Any], output: OutputOptions
) -> None:
    """Show what a trace contains.

    Runs, ranks, the header of each trace, tables, threads, and quality notes. With --columns,
    --format or -o: the table `traces`, one row per rank.
    """
    from profframe.show import terminal
    from profframe.trace.text_views import contents

    trace = part.apply(load(sources, facts=facts), sources)
    if output.is_asked_for:
        output.emit(trace.traces)
        return
    summary, width = contents(trace), output.width
    parts = [
        terminal.summary(summary, without_secrets(" ".join(sources))),
        *(terminal.sentences(words) for words in summary.words.parts),
        *terminal.headers(summary.traces),
        terminal.table(_row_counts(trace), width, "Tables"),
        terminal.ranking(trace.threads.select(_THREAD), _MAX_THREADS, width, "Threads"),
    ]
    if summary.quality.height:
        parts.append(terminal.notes(summary.quality, width))
    output.echo(*parts)


@verbs.command()
@takes_sources
@one_option("--event", "event_id", type=int, metavar="ID", help="Only what is inside this event.")
@click.option("--depth", type=click.IntRange(0), help="Levels below it; default: as many as fit.")
@click.option("--top", default=200, show_default=True, type=click.IntRange(1), help="Slices.")
@with_part
@with_facts
@with_cache
@with_output
def tree(
    sources: tuple[str, ...],
    event_id: int | None,
    depth: int | None,
    *,
    top: int,
    part: Part,
    facts: Mapping[str, Any],
    output: OutputOptions,
) -> None:
    """Show the tree of host slices.

    Depth first, with their times. Without --event: all threads, the busiest first. One tree for
    each --run and --rank. With --columns, --format or -o: one row per slice, with its level.
    """
    from rich.text import Text

    from profframe.show.tree_text import fitted

    trace = part.apply(load(sources, facts=facts), sources)
    with naming(sources, AnswerError):
        ones = part.each(trace, "run", "rank")
        trees = [trace.tree(event_id, depth, **one, top=top) for one in ones]
    if output.is_asked_for:
        slices = [(one, text.slices) for one, text in zip(ones, trees, strict=True)]
        output.emit(together(slices), readable=output.of(trace))
        return
    headings = [f"{visible(heading(one))}\n" for one in ones] if len(ones) > 1 else [""]
    width = None if output.full_names else output.width
    output.echo(
        *(
            Text(f"{above}{text if width is None else fitted(text, width)}")
            for above, text in zip(headings, trees, strict=True)
        )
    )


@verbs.command("critical-path")
@takes_sources
@one_option("--annotation", metavar="NAME", help="First annotation with this name.")
@click.option("--across-ranks", is_flag=True, help="Through all ranks of a run, on one clock.")
@click.option(
    "--top", default=10, show_default=True, type=click.IntRange(1), help="Rows per table."
)
@click.option("--overlay", type=FILE, metavar="FILE", help="Write the trace with the path marked.")
@with_part
@with_facts
@with_cache
@with_spread
@with_output
def critical_path(
    sources: tuple[str, ...],
    annotation: str | None,
    *,
    across_ranks: bool,
    top: int,
    overlay: Path | None,
    part: Part,
    facts: Mapping[str, Any],
    spread: Spread,
    output: OutputOptions,
) -> int:
    """Show the critical path: what the end of a step had to wait for.

    For each --step (and --run and --rank), an annotation or the whole trace, back to its start:
    host, launches, device work, waits. With --across-ranks through all ranks of a run, and what
    they waited for on other ranks. With --format, -o or --each: every segment of the path.
    """
    if spread:
        if overlay is not None:
            raise click.UsageError("--overlay marks one path, and --each finds several")
        named = {"annotation": annotation, "across_ranks": across_ranks}
        question = spread.call("critical_path", named | {"step": part.step_words or None})
        trace = part.of_any_step().apply(load(sources, facts=facts), sources)
        show = partial(output.emit, readable=output.of_parts(trace), top=top)
        return spread.ask(trace, question, "critical_path", output, show)
    trace = part.of_any_step().apply(load(sources, facts=facts), sources)
    with naming(sources, AnswerError):
        ones = part.each(trace, "run", *(() if across_ranks else ("rank",)), "step")
        if overlay is not None and len(ones) > 1:
            raise click.UsageError(f"--overlay marks one path, and there are {len(ones)}")
        paths = [
            trace.critical_path(**one, annotation=annotation, across_ranks=across_ranks)
            for one in ones
        ]
    if overlay is not None:
        trace.filter(runs=paths[0].run, ranks=paths[0].rank).export_chrome_trace(
            overlay, highlight=paths[0] if paths[0].events.height else None
        )
    if output.is_asked_for:
        events = together([(one, path.events) for one, path in zip(ones, paths, strict=True)])
        output.emit(events, readable=output.of(trace), top=top)
        return 0
    output.echo(*(table for path in paths for table in _path_tables(path, top, output)))
    return 0


def _path_tables(result: ShownPath, top: int, output: OutputOptions) -> list[RenderableType]:
    """What a critical path consists of, and what it waits for on other ranks."""
    from rich.text import Text

    from profframe.show import path_text, terminal
    from profframe.show.footnotes import footnotes

    if result.run is None:
        return [Text(f"Critical path of {result.headline}")]
    width = output.width
    tables: list[RenderableType] = [
        terminal.table(
            result.bounds,
            width,
            f"Critical path of {visible(result.headline)}",
            notes=footnotes(result.bounds, _OF_PATH),
        ),
        terminal.ranking(
            path_text.longest(result.events, full_names=output.full_names),
            top,
            width,
            "What takes longest on the path",
            notes=partial(footnotes, shares=_OF_PATH),
        ),
    ]
    if result.rank is None:
        waits = path_text.shortened_waits(result, full_names=output.full_names)
        tables.append(terminal.ranking(waits, top, width, "What ranks wait for on others"))
    return tables


@verbs.command()
@takes_sources
@click.option(
    "--per",
    default="name",
    show_default=True,
    type=click.Choice(["name", "op", "module", "cause", "rank"]),
    help="What each row is.",
)
@click.option(
    "--top", default=10, show_default=True, type=click.IntRange(1), help="Rows per table."
)
@click.option("--as-recorded", is_flag=True, help="Times as recorded, without clock offsets.")
@with_part
@with_facts
@with_cache
@with_spread
@with_output
def blame(
    sources: tuple[str, ...],
    per: str,
    *,
    top: int,
    as_recorded: bool,
    part: Part,
    facts: Mapping[str, Any],
    spread: Spread,
    output: OutputOptions,
) -> int:
    """Show which ranks hold up a job, and what they do meanwhile.

    Milliseconds per step that each rank, op, module and cause costs: first what makes ranks late to
    collectives, then what collectives take once all ranks are there. --step: only collectives of
    these steps. With --format or -o: all rows. With --each run: those of all runs.
    """
    if spread:
        named = {"per": per, "corrected": not as_recorded, "step": part.step_words or None}
        question = spread.call("blame", named)
        trace = part.of_any_step().apply(load(sources, facts=facts), sources)
        show = partial(output.emit, readable=output.of_parts(trace), top=top)
        return spread.ask(trace, question, "blame", output, show)
    trace = part.of_any_step().apply(load(sources, facts=facts), sources)
    with naming(sources, AnswerError):
        steps, ones = part.steps_of(trace) or None, part.each(trace, "run")
        blamed = [
            (one, trace.blame(per, **one, step=steps, corrected=not as_recorded)) for one in ones
        ]
    rows = together(blamed)
    if output.is_asked_for or not rows.height:
        output.emit(rows, readable=output.of(trace), top=top)
        return 0
    output.echo(*(table for one in blamed for table in _blame_tables(*one, top, output)))
    return 0


_WHO_CAME_LAST: Final = "`profframe answer stragglers` counts how often each rank came last."


def _blame_tables(
    one: Mapping[str, object], rows: pl.DataFrame, top: int, output: OutputOptions
) -> list[RenderableType]:
    """What holds up one run, in sentences and tables."""
    from rich.text import Text

    from profframe.show import blame_text as shown
    from profframe.show import terminal
    from profframe.show.empty_frames import why_empty
    from profframe.show.footnotes import footnotes

    above = [visible(heading(one))] if one else []
    notes = partial(footnotes, shares=_OF_PART)
    if not rows.height:
        return [Text("\n".join((*above, terminal.no_rows(why_empty(rows)))))]
    return [
        Text("\n".join((*above, shown.headline(rows), *shown.sentences(rows), _WHO_CAME_LAST))),
        *(
            terminal.ranking(table, top, output.width, title, notes=notes)
            for title, table in shown.parts(rows, full_names=output.full_names)
        ),
    ]


def _row_counts(trace: Trace) -> pl.DataFrame:
    """Rows of each table, without those of optional tables that are empty."""
    import polars as pl

    from profframe.schema import OPTIONAL_TABLES, TABLES
    from profframe.trace.query import own_rows

    counts = [f"SELECT '{t}' AS table_name, count(*) AS rows FROM {t}" for t in TABLES]  # noqa: S608
    rows = own_rows(trace, " UNION ALL ".join(counts))
    return rows.filter((pl.col("rows") > 0) | ~pl.col("table_name").is_in([*OPTIONAL_TABLES]))
