"""Verbs that show what is in a trace: `show`, `info`, `tree`, `critical-path` and `blame`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from profframe.asking.pages import LEAST_TOKENS, MOST_TOKENS, page
from profframe.cli import completion
from profframe.cli.loading import load, naming
from profframe.cli.output import Output, with_output
from profframe.cli.part import Part, with_part
from profframe.cli.verbs import (
    FILE,
    one_option,
    takes_sources,
    verbs,
    with_facts,
)
from profframe.errors import AnswerError, UnknownNameError
from profframe.show.units import visible

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType

    from profframe.show.opening import Opening
    from profframe.show.summary import Summary
    from profframe.trace.trace import Trace

_MAX_THREADS: Final = 40
_MAX_GAPS: Final = 5
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
    "--budget",
    type=click.IntRange(LEAST_TOKENS, MOST_TOKENS),
    metavar="TOKENS",
    help="For a language model: a text of at most this many tokens, with event_ids.",
)
@with_part
@with_facts
@with_output
def show(
    sources: tuple[str, ...],
    top: int,
    sort: str,
    *,
    budget: int | None,
    part: Part,
    facts: Mapping[str, Any],
    output: Output,
) -> None:
    """Show where the time went (the default).

    Overview, what could be made faster, inference phases, what the devices did and why they waited,
    self times, kernels, and quality notes. With --columns, --format or -o: the self times.
    """
    from profframe.cli.next_commands import next_commands
    from profframe.query.catalogue import find
    from profframe.show.opening import text as opening_text

    columns = [column.name for column in find("self_times").columns]
    if sort not in columns:
        raise click.UsageError(str(UnknownNameError.among("column to sort by", sort, columns)))
    trace = load(sources, facts=facts)
    trace = part.apply(trace, sources)
    if budget is not None:
        from profframe.asking.tools import Limits, Subject, overview

        result = overview(Subject.of(trace, Limits(memory=None)))
        click.echo(page(result, budget, "a larger --budget, or profframe ask").text)
        return
    if output.is_asked_for:
        output.emit(trace.self_times(sort=sort), readable=output.of(trace), top=top)
        return
    with trace.asking() as session:  # a connection per question costs as much as the question
        opening = _opening(session, sort)
        commands = next_commands(opening, sources, facts, [*part.options()], output.width)
        more = f" and {len(sources) - 1:,} more" if len(sources) > 1 else ""
        first = opening_text(f"{sources[0]}{more}", opening, commands, output.width)
        output.echo(first, *_parts(session, opening, top, output))


def _parts(trace: Trace, opening: Opening, top: int, output: Output) -> list[RenderableType]:
    """What `show` prints below the first lines."""
    from rich.text import Text

    from profframe.show import excerpts, terminal

    width, summary = output.width, opening.summary
    parts: list[RenderableType] = []
    if not summary.words.is_all:
        parts.append(terminal.ranking(summary.overview, top, width, "Overview"))
    for words in summary.words.parts:
        if not summary.words.is_all:
            parts.append(Text("\n".join(f"{words.label}: {line}" for line in words.what)))
        parts += terminal.words(words, top, width)
    if summary.words.is_all:
        return [*parts, *_quality(summary, width)]
    rankings = [
        *_phases(opening),
        *_device_rankings(trace, opening, top),
        *_rank_rankings(trace),
        ("Self time", opening.self_times),
    ]
    kernels = excerpts.kernels(trace.kernels(per="name" if output.full_names else "short_name"))
    readable = output.of(trace, moments=False)
    for name, rows in (*rankings, ("Kernels", kernels)):
        if rows.height:
            parts.append(terminal.ranking(readable(rows), top, width, name))
    return [*parts, *_quality(summary, width)]


def _opening(trace: Trace, sort: str) -> Opening:
    """What the first lines need, each computed once."""
    import polars as pl

    from profframe.show.first_words import question
    from profframe.show.opening import Opening
    from profframe.trace.query import own_rows

    summary = trace.summary()
    none = pl.DataFrame()
    if summary.words.is_all:
        frameworks = pl.DataFrame(schema={"framework": pl.String})
        return Opening(summary, none, none, none, none, none, none, none, frameworks)
    has_phases = (
        own_rows(trace, "SELECT 1 FROM events WHERE phase_id IS NOT NULL LIMIT 1").height > 0
    )
    return Opening(
        summary=summary,
        breakdown=trace.time_breakdown(),
        categories=trace.kernel_categories(),
        idle=trace.idle(per="device"),
        phases=trace.phases() if has_phases else none,
        advice=trace.advice(),
        self_times=trace.self_times(sort=sort),
        used_devices=question(trace, "used_devices"),
        frameworks=question(trace, "frameworks"),
    )


def _quality(summary: Summary, width: int | None) -> Iterator[RenderableType]:
    from profframe.show import terminal

    if summary.quality.height:
        yield terminal.notes(summary.quality, width)


@verbs.command()
@takes_sources
@with_facts
@with_output
def info(sources: tuple[str, ...], facts: Mapping[str, Any], output: Output) -> None:
    """Show what a trace contains.

    Runs, ranks, the header of each trace, tables, threads, and quality notes. With --columns,
    --format or -o: the table `traces`, one row per rank.
    """
    from profframe.show import terminal

    trace = load(sources, facts=facts)
    if output.is_asked_for:
        output.emit(trace.traces)
        return
    summary, width = trace.summary(), output.width
    parts = [
        terminal.summary(summary, " ".join(sources)),
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
@one_option("--run", help="Which run, if there are several.")
@one_option("--rank", type=int, help="Which rank, if there are several.")
@click.option("--top", default=200, show_default=True, type=click.IntRange(1), help="Slices.")
@with_facts
@with_output
def tree(
    sources: tuple[str, ...],
    event_id: int | None,
    depth: int | None,
    *,
    run: str | None,
    rank: int | None,
    top: int,
    facts: Mapping[str, Any],
    output: Output,
) -> None:
    """Show the tree of host slices.

    Depth first, with their times. Without --event: all threads, the busiest first. With --columns,
    --format or -o: one row per slice, with its level.
    """
    from rich.text import Text

    trace = load(sources, facts=facts)
    with naming(sources, AnswerError):
        text = trace.tree(event_id, depth, run, rank, top)
    if output.is_asked_for:
        output.emit(text.slices, readable=output.of(trace))
        return
    output.echo(Text(text, no_wrap=True, overflow="ellipsis"))


@verbs.command("critical-path")
@takes_sources
@one_option("--step", type=int, help="Profiler step; default: the whole trace.")
@one_option("--annotation", metavar="NAME", help="First annotation with this name.")
@one_option("--run", help="Which run, if there are several.")
@one_option("--rank", type=int, help="Which rank, if there are several.")
@click.option("--across-ranks", is_flag=True, help="Through all ranks of a run, on one clock.")
@click.option(
    "--top", default=10, show_default=True, type=click.IntRange(1), help="Rows per table."
)
@click.option("--overlay", type=FILE, metavar="FILE", help="Write the trace with the path marked.")
@with_facts
@with_output
def critical_path(
    sources: tuple[str, ...],
    step: int | None,
    annotation: str | None,
    *,
    run: str | None,
    rank: int | None,
    across_ranks: bool,
    top: int,
    overlay: Path | None,
    facts: Mapping[str, Any],
    output: Output,
) -> None:
    """Show the critical path: what the end of a step had to wait for.

    For a step, an annotation or the whole trace, back to its start: host, launches, device work,
    waits. With --across-ranks through all ranks of a run, and what they waited for on other ranks.
    With --format or -o: every segment of the path.
    """
    from rich.text import Text

    from profframe.show import path, terminal

    trace = load(sources, facts=facts)
    with naming(sources, AnswerError):
        result = trace.critical_path(step, run, rank, annotation, across_ranks=across_ranks)
    if overlay is not None:
        trace.filter(runs=result.run, ranks=result.rank).export_chrome_trace(
            overlay, highlight=result if result.events.height else None
        )
    if output.is_asked_for:
        output.emit(result.events, readable=output.of(trace), top=top)
        return
    if result.run is None:
        output.echo(Text(f"Critical path of {result.headline}"))
        return
    width = output.width
    tables = [
        terminal.table(result.bounds, width, f"Critical path of {visible(result.headline)}"),
        terminal.ranking(
            path.longest(result.events, full_names=output.full_names),
            top,
            width,
            "What takes longest on the path",
        ),
    ]
    if across_ranks:
        waits = path.shortened_waits(result, full_names=output.full_names)
        tables.append(terminal.ranking(waits, top, width, "What ranks wait for on others"))
    output.echo(*tables)


@verbs.command()
@takes_sources
@click.option(
    "--per",
    default="name",
    show_default=True,
    type=click.Choice(["name", "op", "module", "cause", "rank"]),
    help="What each row is.",
)
@one_option("--step", type=int, help="Only collectives of this profiler step.")
@one_option("--run", help="Which run, if there are several.")
@click.option(
    "--top", default=10, show_default=True, type=click.IntRange(1), help="Rows per table."
)
@click.option("--as-recorded", is_flag=True, help="Times as recorded, without clock offsets.")
@with_facts
@with_output
def blame(
    sources: tuple[str, ...],
    per: str,
    step: int | None,
    *,
    run: str | None,
    top: int,
    as_recorded: bool,
    facts: Mapping[str, Any],
    output: Output,
) -> None:
    """Show which ranks hold up a job, and what they do meanwhile.

    Milliseconds per step that each rank, op, module and cause costs: first what makes ranks late to
    collectives, then what collectives take once all ranks are there. With --format or -o: all rows.
    """
    from rich.text import Text

    from profframe.show import blame as shown
    from profframe.show import terminal

    trace = load(sources, facts=facts)
    with naming(sources, AnswerError):
        rows = trace.blame(per, run, step, corrected=not as_recorded)
    if output.is_asked_for or not rows.height:
        output.emit(rows, readable=output.of(trace), top=top)
        return
    width = output.width
    output.echo(
        Text("\n".join((shown.headline(rows), *shown.sentences(rows)))),
        *(
            terminal.ranking(part, top, width, title)
            for title, part in shown.parts(rows, full_names=output.full_names)
        ),
    )


def _phases(opening: Opening) -> Iterator[tuple[str, pl.DataFrame]]:
    """Inference phases; nothing if there are none."""
    from profframe.show import excerpts

    if opening.phases.height:
        yield "Inference phases, from their start on the host", excerpts.phases(opening.phases)


def _device_rankings(
    trace: Trace, opening: Opening, top: int
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Time of the devices and causes of waiting; nothing without devices."""
    from profframe.show import columns, excerpts

    if not opening.breakdown.height:
        return
    times = excerpts.breakdown(opening.breakdown)
    whole = "" if "step" in times.columns else f", {excerpts.WHOLE}"
    yield f"Device time{whole}", times
    yield "Time of the devices by category", excerpts.categories(opening.categories)
    yield f"Idle time of the devices, {excerpts.WHOLE}", excerpts.causes(opening.idle)
    yield "Idle time by line of your code", excerpts.owners(trace.idle(by="line", per="device"))
    limit = min(top, _MAX_GAPS)
    gaps = columns.since_start(excerpts.gaps(trace.gaps(top=limit), limit), trace.traces)
    yield "Largest gaps", columns.compact(gaps)


def _rank_rankings(trace: Trace) -> Iterator[tuple[str, pl.DataFrame]]:
    """Ranks that others wait for; nothing if no ranks of a run communicate."""
    from profframe.show import excerpts

    if trace.traces.height == trace.traces["run"].n_unique():
        return
    late = trace.stragglers()
    if late.height:
        yield excerpts.stragglers_title(late), excerpts.stragglers(late)


def _row_counts(trace: Trace) -> pl.DataFrame:
    """Rows of each table, without those of optional tables that are empty."""
    import polars as pl

    from profframe.schema import OPTIONAL_TABLES, TABLES
    from profframe.trace.query import own_rows

    counts = [f"SELECT '{t}' AS table_name, count(*) AS rows FROM {t}" for t in TABLES]  # noqa: S608
    rows = own_rows(trace, " UNION ALL ".join(counts))
    return rows.filter((pl.col("rows") > 0) | ~pl.col("table_name").is_in([*OPTIONAL_TABLES]))
