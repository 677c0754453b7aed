"""The verb that predicts what a job would take if something were otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from profframe.cli.loading import load, naming
from profframe.cli.output import Output, with_output
from profframe.cli.verbs import one_option, takes_sources, verbs, with_facts
from profframe.errors import AnswerError

_FACTOR: Final = click.FloatRange(0)


def _factors(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, float]:
    """Names with their factors."""
    factors = {}
    for text in texts:
        name, separator, factor = text.rpartition("=")
        try:
            factors[name] = float(factor)
        except ValueError:
            separator = ""
        if not name or not separator:
            raise click.BadParameter(f"{text!r} is not NAME=FACTOR, such as '*gemm*=0.5'")
    return factors


@verbs.command("what-if")
@takes_sources
@one_option("--step", type=int, help="Of this profiler step; default: of the whole trace.")
@one_option("--run", help="Which run, where there are several.")
@one_option("--communication", type=_FACTOR, metavar="FACTOR", help="Transfers times a factor.")
@one_option(
    "--bandwidth-gb-per-s", type=_FACTOR, metavar="RATE", help="Or: at this rate of the links."
)
@one_option("--latency-us", type=_FACTOR, metavar="TIME", help="And with this latency.")
@click.option("--no-stragglers", is_flag=True, help="Each op takes what the median rank needs.")
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    metavar="NAME=FACTOR",
    callback=_factors,
    help="Kernels of a name, where * stands for anything; can be repeated.",
)
@click.option(
    "--category",
    "categories",
    multiple=True,
    metavar="NAME=FACTOR",
    callback=_factors,
    help="Kernels of a category, as gemm; can be repeated.",
)
@click.option("--free-launches", is_flag=True, help="What launches takes no time, as in a graph.")
@one_option("--host", type=_FACTOR, metavar="FACTOR", help="All that threads do times a factor.")
@click.option("--hide-copies", is_flag=True, help="Copies run beside everything else.")
@click.option(
    "--fuse",
    "fused",
    multiple=True,
    metavar="NAME",
    help="An op whose kernels are one; repeatable.",
)
@one_option("--device", metavar="MODEL", help="On another device, as 'NVIDIA H200 SXM'.")
@with_facts
@with_output
def what_if(
    sources: tuple[str, ...],
    *,
    no_stragglers: bool,
    free_launches: bool,
    hide_copies: bool,
    facts: Mapping[str, Any],
    output: Output,
    **changes: Any,
) -> None:
    """Predict what a step would take if something were otherwise.

    What happened is replayed on all ranks of a run: each activity begins when all that it waited
    for is done. Several changes have a row each, and one together.
    """
    from profframe.show import predictions, terminal

    arguments = {name: value for name, value in changes.items() if value not in (None, (), {})}
    arguments |= {"stragglers": False} if no_stragglers else {}
    arguments |= {"launches": False} if free_launches else {}
    arguments |= {"copies": False} if hide_copies else {}
    if not arguments.keys() - {"step", "run"}:
        raise click.UsageError("give a change, such as --communication 0.5 or --no-stragglers")
    trace = load(sources, facts=facts)
    with naming(sources, AnswerError):
        rows = trace.what_if(**arguments)
    if output.is_asked_for:
        output.emit(rows, readable=output.of(trace))
        return
    width = output.width
    output.echo(
        terminal.table(predictions.lengths(rows), width, predictions.title(rows)),
        terminal.table(predictions.bounds(rows), width, "What the end waits for"),
    )
