"""Verbs that ask questions: `answer` and `sql`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from profframe.cli import completion
from profframe.cli.loading import load
from profframe.cli.output import Output, as_prose, with_output
from profframe.cli.part import Part, with_part
from profframe.cli.verbs import (
    SOURCE,
    Terms,
    verbs,
    with_facts,
    with_terms,
)
from profframe.errors import ParameterError, UnknownNameError

if TYPE_CHECKING:
    import polars as pl

    from profframe.query.header import Answer
    from profframe.trace.trace import Trace

_VERBS: Final = {
    "critical_path": "critical-path TRACE [--step N]",
    "regressions": "check TRACE --baseline RUN",
    "tree": "tree TRACE",
}
"""Questions without an SQL file, and the verbs that answer them."""
_METHODS: Final[Mapping[str, Mapping[str, type]]] = {
    "blame": {"per": str, "run": str, "step": int},
    "trend": {"metric": str, "per_step": int},
    "outliers": {"per": str, "top": int, "ops": int},
}
"""Questions without an SQL file that give one table, and their parameters."""
QUESTIONS: Final = (*_METHODS, "critical_path")
"""Names that `answer` takes besides those of the catalogue."""
_PATH: Final = {"step": int, "run": str, "rank": int, "annotation": str, "instance": int}


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
@click.option("--sql", "as_sql", is_flag=True, help="Its SQL with all macros, for a bare shell.")
@with_part
@with_terms
@with_facts
@with_output
def answer(
    name: str | None,
    sources: tuple[str, ...],
    parameters: tuple[str, ...],
    *,
    sort: str | None,
    top: str | None,
    as_sql: bool,
    part: Part,
    terms: Terms,
    facts: Mapping[str, Any],
    output: Output,
) -> None:
    """Ask a question of the catalogue.

    NAME is one of its names, or a path that ends in .sql. Alone: the list of questions. With a
    NAME alone: its columns and parameters. Every question takes --sort, --top and --columns.
    """
    from profframe.trace.query import answers

    if name is None:
        catalogue = answers()
        output.emit(catalogue, as_prose(catalogue))
        return
    values = _values(parameters, sort=sort, top=top)
    if not (sources and name in QUESTIONS):
        values, output = _checked(name, values, output, is_asked=bool(sources))
    if as_sql:
        from profframe.query.catalogue import find
        from profframe.query.run import script

        chosen = {"columns": ",".join(output.columns)} if output.columns else {}
        click.echo(script(find(name), values | chosen), nl=False)
        return
    if not sources:
        columns_of = _columns(name)
        output.emit(columns_of, as_prose(columns_of))
        return
    trace = terms.apply(part.apply(load(sources, facts=facts), sources))
    rows = _analysis(trace, name, values) if name in QUESTIONS else None
    if rows is None:
        rows = trace.answer(name, **values)
    output.emit(rows, readable=output.of(trace))


@verbs.command()
@click.argument("source", type=SOURCE)
@click.argument("query")
@with_terms
@with_facts
@with_output
def sql(
    source: str,
    query: str,
    *,
    terms: Terms,
    facts: Mapping[str, Any],
    output: Output,
) -> None:
    """Run one SELECT over the tables.

    The tables are: events, memory, flows, counters, instants, threads, devices, traces, quality;
    from execution traces, nodes and tensors; from memory snapshots, segments, blocks, allocations,
    allocator_events and stacks; from flight recorder dumps, recorded_collectives, process_groups
    and stacks. It can read nothing else except what --files names.
    """
    trace = load((source,), facts=facts)
    rows = terms.apply(trace).sql(query)
    output.emit(rows, readable=output.of(trace))


def _values(given: tuple[str, ...], **options: str | None) -> dict[str, str]:
    """Parameters by name, including those given as options."""
    values = dict(map(parameter, given))
    for name, value in options.items():
        if value is None:
            continue
        if values.setdefault(name, value) != value:
            raise click.UsageError(f"--{name} {value} and -p {name}={values[name]}: give only one")
    return values


def _checked(
    name: str, values: dict[str, str], output: Output, *, is_asked: bool
) -> tuple[dict[str, str], Output]:
    """Checked parameters, and the columns that they or the output name."""
    check_question(name, values)
    from profframe.query.arrangement import divided
    from profframe.query.catalogue import find

    arrangement, own = divided(find(name), values)
    if arrangement.columns:
        output = replace(output, columns=arrangement.columns, is_asked_for=True)
        values = {key: value for key, value in values.items() if key != "columns" or key in own}
    elif output.columns and is_asked and "columns" not in own:
        check_question(name, values | {"columns": ",".join(output.columns)})
    return values, output


def _analysis(trace: Trace, name: str, values: Mapping[str, str]) -> pl.DataFrame:
    """Rows of a question without an SQL file."""
    from profframe.query.arrangement import PARAMETERS, arranged

    types = _METHODS.get(name, _PATH)
    shared = {p.name for p in PARAMETERS} - types.keys()
    options = _options({key: value for key, value in values.items() if key not in shared}, types)
    wanted = {key: value for key, value in values.items() if key in shared}
    arrangement = arranged(name, **wanted)
    result = getattr(trace, name)(**options)
    return arrangement.of_frame(name, result.events if name == "critical_path" else result)


def check_question(name: str | Answer, parameters: Mapping[str, object]) -> None:
    """Check a question before loading a large trace for it."""
    if isinstance(name, str) and name in _VERBS:
        raise click.UsageError(f"{name} is a verb: profframe {_VERBS[name]}")
    if isinstance(name, str) and name in _METHODS:
        options = " ".join(f"[-p {key}=...]" for key in _METHODS[name])
        raise click.UsageError(f"{name} needs traces: profframe answer {name} TRACE {options}")
    import duckdb

    from profframe.query.catalogue import find
    from profframe.query.run import prepare

    try:
        with duckdb.connect() as connection:
            prepare(connection, find(name), parameters)
    except (UnknownNameError, ParameterError) as error:
        raise click.UsageError(str(error)) from error


def parameter(text: str) -> tuple[str, str]:
    """Name and value of a parameter."""
    key, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"-p needs KEY=VALUE, got {text!r}")
    return key, value


def _options(values: Mapping[str, str], types: Mapping[str, type]) -> dict[str, Any]:
    """Arguments of a method from parameters of the command line."""
    for key, value in values.items():
        if key not in types:
            raise click.UsageError(str(UnknownNameError.among("parameter", key, types)))
        if types[key] is int and not value.removeprefix("-").isdecimal():
            raise click.UsageError(f"parameter {key!r} is a whole number, not {value!r}")
    return {key: types[key](value) for key, value in values.items()}


def _columns(name: str) -> pl.DataFrame:
    """Columns and parameters of an answer."""
    import polars as pl

    from profframe.query.arrangement import shared
    from profframe.query.catalogue import find

    answer = find(name)
    rows = [("column", c.name, c.type, c.unit, c.doc) for c in answer.columns]
    parameters = [*answer.parameters, *shared(answer)]
    defaults = ["" if p.default is None else p.default for p in parameters]
    rows += [
        ("parameter", p.name, p.type, f"={default}", p.doc)
        for p, default in zip(parameters, defaults, strict=True)
    ]
    names = ("what", "name", "type", "unit", "meaning")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
