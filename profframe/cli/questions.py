"""Verbs that ask questions: `answer` and `sql`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import click

from profframe.cli.loading import load
from profframe.cli.output import Output, as_prose, with_output
from profframe.cli.verbs import (
    Terms,
    verbs,
    with_facts,
    with_terms,
)
from profframe.errors import ParameterError, UnknownNameError

if TYPE_CHECKING:
    import polars as pl

    from profframe.query.header import Answer

_VERBS: Final = {
    "critical_path": "critical-path TRACE [--step N]",
    "regressions": "check TRACE --baseline RUN",
    "tree": "tree TRACE",
}
"""Questions without a file of SQL, and the verbs that answer them."""
_METHODS: Final[Mapping[str, Mapping[str, type]]] = {
    "blame": {"per": str, "run": str, "step": int},
    "trend": {"metric": str, "per_step": int},
    "outliers": {"per": str, "top": int, "ops": int},
}
"""Questions without a file of SQL that give one table, and their parameters."""
_PATH: Final = {"step": int, "run": str, "rank": int, "annotation": str, "instance": int}


@verbs.command()
@click.argument("name", required=False)
@click.argument("sources", metavar="[TRACE...]", nargs=-1)
@click.option("-p", "parameters", multiple=True, metavar="KEY=VALUE", help="Set a parameter.")
@click.option("--sql", "as_sql", is_flag=True, help="Its SQL with all macros, for a bare shell.")
@with_terms
@with_facts
@with_output
def answer(
    name: str | None,
    sources: tuple[str, ...],
    parameters: tuple[str, ...],
    *,
    as_sql: bool,
    terms: Terms,
    facts: Mapping[str, Any],
    output: Output,
) -> None:
    """Ask a question of the catalogue.

    NAME is one of its names, or a path that ends in .sql. Alone: the list of questions. With a
    NAME alone: its columns and parameters.
    """
    from profframe.trace.query import answers

    if name is None:
        catalogue = answers()
        output.emit(catalogue, as_prose(catalogue))
        return
    values = dict(map(parameter, parameters))
    if sources and (name in _METHODS or name == "critical_path"):
        options = _options(values, _METHODS.get(name, _PATH))
        trace = load(sources, facts=facts)
        result = getattr(terms.apply(trace), name)(**options)
        rows = result.events if name == "critical_path" else result
        output.emit(rows, readable=output.of(trace))
        return
    check_question(name, values)
    if as_sql:
        from profframe.query.catalogue import find
        from profframe.query.run import script

        click.echo(script(find(name), values), nl=False)
    elif not sources:
        columns = _columns(name)
        output.emit(columns, as_prose(columns))
    else:
        trace = load(sources, facts=facts)
        rows = terms.apply(trace).answer(name, **values)
        output.emit(rows, readable=output.of(trace))


@verbs.command()
@click.argument("source")
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
            raise click.UsageError(f"parameter {key!r} is an integer, got {value!r}")
    return {key: types[key](value) for key, value in values.items()}


def _columns(name: str) -> pl.DataFrame:
    """Columns and parameters of an answer."""
    import polars as pl

    from profframe.query.catalogue import find

    answer = find(name)
    rows = [("column", c.name, c.type, c.unit, c.doc) for c in answer.columns]
    rows += [("parameter", p.name, p.type, f"={p.default}", p.doc) for p in answer.parameters]
    names = ("what", "name", "type", "unit", "meaning")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
