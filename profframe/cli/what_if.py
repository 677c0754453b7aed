"""The verb that predicts how long a job would take after a change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from profframe.cli.keeping import with_cache
from profframe.cli.loading import load, naming
from profframe.cli.output import OutputOptions, with_output
from profframe.cli.part import Part, heading, together, with_part
from profframe.cli.verbs import one_option, takes_sources, verbs, with_facts
from profframe.errors import AnswerError
from profframe.show.units import visible

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
@one_option(
    "--communication", type=_FACTOR, metavar="FACTOR", help="Factor for the time of transfers."
)
@one_option(
    "--bandwidth-gb-per-s", type=_FACTOR, metavar="RATE", help="Or: bandwidth of the links."
)
@one_option("--latency-us", type=_FACTOR, metavar="TIME", help="And latency of the links.")
@click.option("--no-stragglers", is_flag=True, help="Each op takes as long as on the median rank.")
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    metavar="NAME=FACTOR",
    callback=_factors,
    help="Factor for kernels by name; * stands for anything; can be repeated.",
)
@click.option(
    "--category",
    "categories",
    multiple=True,
    metavar="NAME=FACTOR",
    callback=_factors,
    help="Factor for kernels of a category, such as gemm; can be repeated.",
)
@click.option("--free-launches", is_flag=True, help="Launches take no time, as in a graph.")
@one_option("--host", type=_FACTOR, metavar="FACTOR", help="Factor for what host threads do.")
@click.option("--hide-copies", is_flag=True, help="Copies run beside everything else.")
@click.option(
    "--fuse",
    "fused",
    multiple=True,
    metavar="NAME",
    help="An op whose kernels become one; can be repeated.",
)
@one_option("--device", metavar="MODEL", help="Another device, such as 'NVIDIA H200 SXM'.")
@with_part
@with_facts
@with_cache
@with_output
def what_if(
    sources: tuple[str, ...],
    *,
    no_stragglers: bool,
    free_launches: bool,
    hide_copies: bool,
    part: Part,
    facts: Mapping[str, Any],
    output: OutputOptions,
    **changes: Any,
) -> None:
    """Predict how long a step would take after a change.

    The recording is replayed on all ranks of a run: each activity begins when everything it waited
    for is done. Each change has a row, and so have all of them together; one table for each --step
    and --run, or for the whole trace.
    """
    from profframe.show import prediction_text, terminal

    arguments = {name: value for name, value in changes.items() if value not in (None, (), {})}
    arguments |= {"stragglers": False} if no_stragglers else {}
    arguments |= {"launches": False} if free_launches else {}
    arguments |= {"copies": False} if hide_copies else {}
    if not arguments:
        raise click.UsageError("give a change, such as --communication 0.5 or --no-stragglers")
    trace = part.of_any_step().apply(load(sources, facts=facts), sources)
    with naming(sources, AnswerError):
        predicted = [
            (one, trace.what_if(**one, **arguments)) for one in part.each(trace, "run", "step")
        ]
    if output.is_asked_for:
        output.emit(together(predicted), readable=output.of(trace))
        return
    width, tables = output.width, []
    for one, rows in predicted:
        above = f"{visible(heading(one)).capitalize()}. " if len(predicted) > 1 else ""
        tables += [
            terminal.table(
                prediction_text.lengths(rows), width, f"{above}{prediction_text.title(rows)}"
            ),
            terminal.table(prediction_text.bounds(rows), width, "What the end has to wait for"),
        ]
    output.echo(*tables)
