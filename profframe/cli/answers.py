"""Verbs that ask questions: `answer` and `sql`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from profframe.cli import completion
from profframe.cli.dividing import Spread, check_folder, with_spread
from profframe.cli.keeping import with_cache
from profframe.cli.loading import load
from profframe.cli.messages import warn, warn_of_library
from profframe.cli.output import OutputOptions, as_prose, with_metrics, with_output
from profframe.cli.part import Part, with_part
from profframe.cli.rank_means import RankMeans
from profframe.cli.verbs import (
    SOURCE,
    TermOptions,
    usage_errors,
    verbs,
    with_facts,
    with_into,
    with_terms,
)
from profframe.query.renamed import with_new_columns, with_new_names
from profframe.remote.urls import is_url

if TYPE_CHECKING:
    import polars as pl

    from profframe.query.analyses import Analysis
    from profframe.query.arrangement import Arrangement
    from profframe.query.header import Answer, Division
    from profframe.trace.trace import Trace

_NEARLY_ALL: Final = 0.9


@verbs.command()
@click.argument("name", required=False, shell_complete=completion.answers)
@click.argument(
    "sources", metavar="[TRACE...]", nargs=-1, shell_complete=completion.sources_or_answers
)
@click.option(
    "-p",
    "parameters",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a parameter.",
    shell_complete=completion.parameters,
)
@click.option(
    "--sort",
    metavar="A,-B",
    help="Columns to sort by: numbers the largest first, texts from A to Z; +A the smallest first, "
    "-A the largest.",
    shell_complete=completion.columns,
)
@click.option("--top", metavar="N", help="Maximum rows, as with `-p top=N`.")
@click.option(
    "--per",
    metavar="NAME",
    help="What each row is, as with `-p per=NAME`; rank: no means of several ranks.",
)
@with_into
@click.option("--sql", "as_sql", is_flag=True, help="Its SQL with all macros, for a bare shell.")
@with_part
@with_terms
@with_facts
@with_cache
@with_spread
@with_metrics
def answer(
    name: str | None,
    sources: tuple[str, ...],
    parameters: tuple[str, ...],
    *,
    sort: str | None,
    top: str | None,
    per: str | None,
    into: str | None,
    as_sql: bool,
    part: Part,
    terms: TermOptions,
    facts: Mapping[str, Any],
    spread: Spread,
    output: OutputOptions,
) -> int:
    """Ask a question of the catalogue.

    NAME is one of its names, or a path that ends in .sql. Alone: the list of questions. With a
    NAME alone: its columns and parameters. Every question takes --sort, --top and --columns. Of
    several ranks, tables show the mean and the worst rank; files and other formats have the rows of
    each.
    """
    from profframe.query.division import tables_by
    from profframe.show.rank_means import worst
    from profframe.trace.query import answers

    if name is None:
        catalogue = answers()
        output.emit(catalogue, as_prose(catalogue.drop("parameters", "needs", "divides_by")))
        return 0
    if not sources and _is_source(name):
        raise click.UsageError(
            f"{name} is no answer: name one before it; `profframe answer` lists them"
        )
    analysis = _analysis(name)
    is_for_us = per == "rank" and _takes_per_rank(name)
    given = _values(
        parameters,
        sort=sort,
        top=top,
        per=None if is_for_us else per,
        into=_of_lines(name, into),
    )
    if analysis is None:
        select, values, output = _checked(name, given, output, is_asked=bool(sources))
    elif as_sql:
        raise click.UsageError(f"--sql: {name} has no SQL")
    else:
        given = with_new_names(name, given, warn=warn)
        if part.steps and any(own.name == "step" for own in analysis.parameters):
            given, part = given | {"step": part.step_words}, part.of_any_step()
        arrangement, arguments = _request(analysis, given)
    if as_sql:
        from profframe.query.run import script

        chosen = {"columns": ",".join(output.columns)} if output.columns else {}
        click.echo(script(select, values | chosen), nl=False)
        return 0
    if not sources:
        columns_of = _columns(select if analysis is None else analysis)
        output.emit(columns_of, as_prose(columns_of))
        return 0
    if spread:
        check_folder(output, given)
        has_sql = analysis is None
        question = (
            spread.answer(select, _for_people(select, values, output))
            if has_sql
            else spread.call(name, arguments)
        )
    trace = terms.apply(part.apply(load(sources, facts=facts), sources))
    if spread:
        show = partial(output.emit, readable=output.of_parts(trace), answer=name)
        arranged = show if analysis is None else lambda rows: show(arrangement.of_frame(name, rows))
        return spread.ask(trace, question, name, output, arranged)
    keep = _words({key: value for key, value in given.items() if key != "per"})
    if analysis is None:
        keep |= {*tables_by(select), *map(worst, tables_by(select)), "worst_rank"}
        values = _for_people(select, values, output)
        means = RankMeans.of(select, values)
        is_per_rank = "rank" in {per, given.get("per")}
        has_means = not is_per_rank and means.are_wanted(trace, part, output)
        rows = means.rows(trace, output) if has_means else means.of_each(trace, values, output)
    else:
        result = getattr(trace, name)(**arguments)
        rows = arrangement.of_frame(name, result.events if name == "critical_path" else result)
    main = (analysis or select).main
    _emit(name, given, trace, rows, output, keep=keep, main=main)
    _say_next(name, given, trace, rows, output, sources=sources, facts=facts, part=part)
    return 0


def _emit(
    name: str,
    given: Mapping[str, str],
    trace: Trace,
    rows: pl.DataFrame,
    output: OutputOptions,
    *,
    keep: set[str],
    main: Sequence[str],
) -> None:
    """Write the rows, for people with what is said above and below them."""
    from profframe.show.openmetrics import of_runs

    metrics = of_runs if name == "runs" else None
    top, title = _opening(name, given, trace, rows, output)
    shown = _with_paths(rows, trace, output)
    readable = output.of(trace)
    output.emit(
        shown,
        readable=readable,
        top=top,
        keep=keep,
        main=main,
        metrics=metrics,
        title=title,
        answer=name,
    )


def _opening(
    name: str, given: Mapping[str, str], trace: Trace, rows: pl.DataFrame, output: OutputOptions
) -> tuple[int | None, str]:
    """Number of rows for people, and a line above them: how much it is in all."""
    from profframe.query.header import sql_directory
    from profframe.show import answer_totals, host_waits_text, recompute_text

    if output.form != "table" or not rows.height:
        return None, ""
    lines: Mapping[str, Callable[[], str]] = {
        "gaps": lambda: answer_totals.idle_total(trace.idle(per="device")),
        "host_waits": lambda: host_waits_text.headline(trace.host_waits(), trace.traces),
        "launches": lambda: answer_totals.kernel_total(trace.launches()),
        "step_times": lambda: answer_totals.step_means(trace.step_times()),
    }
    if name != "recompute":
        return None, lines[name]() if name in lines else ""
    totals = trace.answer(sql_directory() / "inner" / "recompute_totals.sql")
    most = None if "top" in given else recompute_text.MOST_ROWS
    return most, recompute_text.title(totals, rows.height, most)


def _with_paths(rows: pl.DataFrame, trace: Trace, output: OutputOptions) -> pl.DataFrame:
    """Rows for people with a note on where runs are from, if names do not tell them apart."""
    from profframe.show.empty_frames import docs_of, note_of
    from profframe.show.frame import frame
    from profframe.show.run_paths import note_of_paths

    if output.form != "table" or not rows.height:
        return rows
    notes = [note for note in (note_of(rows), note_of_paths(rows, trace.traces)) if note]
    return frame(rows, docs=docs_of(rows), note="\n".join(notes)) if notes else rows


def _notes_of_lines(
    name: str, given: Mapping[str, str], trace: Trace, rows: pl.DataFrame, output: OutputOptions
) -> None:
    """Say that no frame is of a library, or how to look into some if one line has all the time."""
    if "into" in given and not name.endswith(".sql"):
        warn_of_library(trace, given["into"])
        return
    if name != "python_lines" or output.form != "table":
        return
    if any(share >= _NEARLY_ALL for share in rows["self_share"].drop_nulls()):
        click.echo(
            "note: one line has nearly all the time; --into torch (or all) looks inside it",
            err=True,
        )


def _say_next(
    name: str,
    given: Mapping[str, str],
    trace: Trace,
    rows: pl.DataFrame,
    output: OutputOptions,
    *,
    sources: Sequence[str],
    facts: Mapping[str, Any],
    part: Part,
) -> None:
    """Show to people what to ask next: after lines, into libraries; after memory, whose it is."""
    from rich.console import Group

    from profframe.cli.next_commands import commands, following
    from profframe.show.trace_header import next_lines

    _notes_of_lines(name, given, trace, rows, output)
    if output.form != "table" or output.file is not None or not rows.height:
        return
    verbs = [*following(name, given, rows)]
    if verbs:
        click.echo()
        width = output.width
        lines = next_lines(commands(verbs, sources, facts, [*part.options()], width), width)
        output.echo(Group(*lines))


@verbs.command()
@click.argument("source", type=SOURCE)
@click.argument("query")
@with_part
@with_terms
@with_facts
@with_cache
@with_spread
@with_output
def sql(
    source: str,
    query: str,
    *,
    part: Part,
    terms: TermOptions,
    facts: Mapping[str, Any],
    spread: Spread,
    output: OutputOptions,
) -> int:
    """Run one SELECT over the tables.

    The tables are: events, memory, flows, counters, instants, threads, devices, traces, quality;
    from execution traces, nodes and tensors; from memory snapshots, segments, blocks, allocations,
    allocator_events and stacks; from flight recorder dumps, recorded_collectives, process_groups
    and stacks; from NCCL's Inspector, recorded_collectives. It can read nothing else except what
    --files names. With --each it runs over each rank or run by itself: what the rows mean together
    is for you to say.
    """
    from profframe.trace.query import check_sql

    trace = part.apply(load((source,), facts=facts), (source,))
    limited = terms.apply(trace)
    if spread:
        check_sql(limited, query)
        question = spread.call("sql", {"query": query})
        show = partial(output.emit, readable=output.of_parts(trace))
        return spread.ask(limited, question, "query", output, show)
    keep = _words({"query": query})
    output.emit(limited.sql(query), readable=output.of(trace), keep=keep)
    return 0


def _takes_per_rank(name: str) -> bool:
    """Whether ``--per rank`` asks for the rows of each rank, and is no parameter of the answer."""
    from profframe.query import analyses
    from profframe.query.catalogue import resolve

    if analyses.find(name) is not None:
        return False
    with usage_errors():
        answer = resolve(name, {}, lambda _: None)[0]
    own = [parameter for parameter in answer.parameters if parameter.name == "per"]
    has_rank = any(column.name == "rank" for column in answer.columns)
    return (answer.rank_keys is not None or has_rank) and all(
        parameter.choices and "rank" not in parameter.choices for parameter in own
    )


def _of_lines(name: str, into: str | None) -> str | None:
    """The value of ``--into``, which is refused where no row is a line of code."""
    from profframe.query import analyses
    from profframe.query.catalogue import catalogue, resolve

    if into is None:
        return None
    with usage_errors():
        has_lines = analyses.find(name) is None and _has_into(resolve(name, {}, lambda _: None)[0])
    if not has_lines:
        names = ", ".join(answer.name for answer in catalogue() if _has_into(answer))
        raise click.UsageError(f"--into: {name} has no rows by line of code; these have: {names}")
    return into


def _has_into(answer: Answer) -> bool:
    return any(parameter.name == "into" for parameter in answer.all_parameters)


def _is_source(name: str) -> bool:
    """Whether it names a file instead of an answer."""
    from profframe.query import analyses
    from profframe.query.catalogue import catalogue

    if not (Path(name).exists() or is_url(name)) or name.endswith(".sql"):
        return False
    return name not in {answer.name for answer in catalogue()} and analyses.find(name) is None


def _values(given: tuple[str, ...], **options: str | None) -> dict[str, str]:
    """Parameters by name, including those given as options."""
    values = dict(map(parameter, given))
    for name, value in options.items():
        if value is None:
            continue
        if values.setdefault(name, value) != value:
            raise click.UsageError(f"--{name} {value} and -p {name}={values[name]}: give only one")
    return values


def _words(given: Mapping[str, str]) -> set[str]:
    """Words of parameters, some of which may name columns."""
    return {word for value in given.values() for word in re.findall(r"\w+", value)}


def _checked(
    name: str, given: Mapping[str, str], output: OutputOptions, *, is_asked: bool
) -> tuple[Answer, dict[str, object], OutputOptions]:
    """The SELECT, checked parameters, and the columns that they or the output name."""
    from profframe.cli.rank_means import arrangement_of, without_means
    from profframe.query.catalogue import resolve

    with usage_errors():
        question, values = resolve(name, given, warn)
    check_question(question, without_means(question, values))
    named = with_new_columns(question.name, output.columns, warn)
    output = replace(output, columns=tuple(named))
    arrangement, own = arrangement_of(question, values)
    if arrangement.columns:
        output = replace(output, columns=arrangement.columns, is_asked_for=True)
        values = {key: value for key, value in values.items() if key != "columns" or key in own}
    elif output.columns and is_asked and "columns" not in own:
        columns = values | {"columns": ",".join(output.columns)}
        check_question(question, without_means(question, columns))
    return question, values, output


def _for_people(
    answer: Answer, values: dict[str, object], output: OutputOptions
) -> dict[str, object]:
    """Parameters with the order of tables, where people see one and name no other."""
    if output.form != "table" or not answer.tables_by:
        return values
    return {"sort": ",".join(answer.tables_by)} | values


def _analysis(name: str) -> Analysis | None:
    """The analysis of this name, unless it has a verb of its own."""
    from profframe.query import analyses

    analysis = analyses.find(name)
    if analysis is not None and analysis.verb:
        raise click.UsageError(f"{name} is a verb: profframe {analysis.verb}")
    return analysis


def _request(
    analysis: Analysis, values: Mapping[str, str]
) -> tuple[Arrangement, Mapping[str, Any]]:
    """The arrangement of rows, and the arguments of the question."""
    from profframe.query.arrangement import arranged, shared

    names = {parameter.name for parameter in shared(analysis)}
    wanted = {name: value for name, value in values.items() if name in names}
    own = {name: value for name, value in values.items() if name not in names}
    with usage_errors():
        return arranged(analysis.name, **wanted), analysis.arguments(own)


def check_question(name: str | Answer, parameters: Mapping[str, object]) -> None:
    """Check a question before loading a large trace for it."""
    import duckdb

    from profframe.query.catalogue import resolve
    from profframe.query.run import prepare

    with usage_errors(), duckdb.connect() as connection:
        prepare(connection, *resolve(name, parameters, lambda _: None))


def parameter(text: str) -> tuple[str, str]:
    """Name and value of a parameter."""
    key, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"-p needs KEY=VALUE, got {text!r}")
    return key, value


def _division(division: Division | None) -> tuple[str | None, str | None, None, str]:
    """What a question divides by, as the row of a column: name, type, unit and meaning."""
    if division is None:
        return None, None, None, "the header does not say by what (`-- divides by: run`)"
    name = str(division).partition(":")[0]
    each = "rank or run" if division.unit == "rank" else division.unit
    return name, None, None, division.instead or f"--each {each}: ask each of them by itself"


def _columns(question: Answer | Analysis) -> pl.DataFrame:
    """Columns and parameters of an answer, or the parameters of an analysis."""
    import polars as pl

    from profframe.query.arrangement import shared
    from profframe.query.header import Answer

    selects = question.selects if isinstance(question, Answer) else ()
    rows: list[tuple[str | None, ...]] = [
        (f"column, {select.choice}" if select.choice else "column", c.name, c.type, c.unit, c.doc)
        for select in selects
        for c in select.columns
    ]
    rows += [
        (f"divides, {select.choice}" if select.choice else "divides", *_division(select.division))
        for select in selects
    ] or [("divides", *_division(question.division))]
    parameters = [*question.all_parameters]
    parameters += [p for p in shared(question) if p.name not in {one.name for one in parameters}]
    defaults = ["" if p.default is None else p.default for p in parameters]
    rows += [
        ("parameter", p.name, p.type, f"={default}", p.doc)
        for p, default in zip(parameters, defaults, strict=True)
    ]
    names = ("what", "name", "type", "unit", "meaning")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
