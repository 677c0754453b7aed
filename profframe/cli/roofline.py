"""Verbs about what devices can do at most: `roofline` and `augment`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from profframe.cli.answers import check_question
from profframe.cli.dividing import Spread, with_spread
from profframe.cli.keeping import with_cache
from profframe.cli.loading import load
from profframe.cli.output import OutputOptions, with_output
from profframe.cli.part import Part, with_part
from profframe.cli.verbs import (
    FILE,
    SOURCE,
    takes_dtype,
    takes_sources,
    verbs,
    with_facts,
)
from profframe.show.units import visible

_OVERRIDE = click.option(
    "--override", is_flag=True, help="Compare all work with the peak of --dtype."
)


@verbs.command()
@takes_sources
@click.option(
    "--per",
    default="kernel",
    show_default=True,
    type=click.Choice(["kernel", "op", "shapes", "dtype"]),
    help="What each row is.",
)
@takes_dtype
@_OVERRIDE
@click.option("--devices", type=FILE, metavar="FILE", help="JSON file of your own devices' peaks.")
@click.option("--top", default=20, show_default=True, type=click.IntRange(1), help="Rows.")
@with_part
@with_facts
@with_cache
@with_spread
@with_output
def roofline(
    sources: tuple[str, ...],
    per: str,
    dtype: str | None,
    devices: Path | None,
    *,
    override: bool,
    top: int,
    part: Part,
    facts: Mapping[str, Any],
    spread: Spread,
    output: OutputOptions,
) -> int:
    """Show how close kernels came to the limits of their device.

    Achieved rates, their shares of the peaks, and lost time, the most first. With
    --format or -o: all rows and columns.
    """
    from rich.text import Text

    from profframe.query.catalogue import resolve
    from profframe.show import compact_tables, terminal
    from profframe.show.empty_frames import docs_of
    from profframe.show.footnotes import footnotes, of_shares

    if dtype is not None or override:
        check_question("roofline", {"dtype": dtype, "override": override})
    trace = part.apply(load(sources, facts=facts), sources)
    trace = trace if devices is None else trace.with_devices(devices)
    if spread:
        given = {"per": per, "dtype": dtype, "override": override}
        show = partial(output.emit, readable=output.of_parts(trace), top=top)
        question = spread.answer(*resolve("roofline", given))
        return spread.ask(trace, question, "roofline", output, show)
    rows = trace.roofline(per, dtype, override=override)
    if output.is_asked_for or not rows.height:
        output.emit(rows, readable=output.of(trace), top=top)
        return 0
    title, main = f"Roofline by {per}", resolve("roofline", {})[0].main
    headline = Text(compact_tables.roofline_headline(rows, trace.devices))
    first = output.of(trace)(compact_tables.roofline(rows))
    notes = partial(footnotes, shares=of_shares(docs_of(rows)))
    table = terminal.ranking(first, top, output.width, title, main=main, notes=notes)
    output.echo(headline, table)
    return 0


@verbs.command()
@click.argument("source", metavar="IN", type=SOURCE)
@click.argument("output", metavar="OUT", type=FILE)
@click.option("--devices", type=FILE, metavar="FILE", help="JSON file of your own devices' peaks.")
@takes_dtype
@_OVERRIDE
@with_part
@with_facts
@with_cache
def augment(
    source: str,
    output: Path,
    devices: Path | None,
    dtype: str | None,
    *,
    override: bool,
    part: Part,
    facts: Mapping[str, Any],
) -> None:
    """Write a trace again, with FLOPs, bytes and rates for Perfetto.

    They become arguments of ops and kernels: kernel_flop, kernel_num_gb, achieved_flops_pct,
    achieved_bandwidth_pct.
    """
    from profframe.trace.query import own_rows

    if dtype is not None or override:
        check_question("roofline", {"dtype": dtype, "override": override})
    trace = part.apply(load((source,), facts=facts), (source,))
    trace = trace if devices is None else trace.with_devices(devices)
    trace.augment(output, dtype, override=override)
    counts = own_rows(
        trace,
        "SELECT count(*) FILTER (coalesce(flops, bytes) IS NOT NULL) AS worked, count(*) AS kernels"
        " FROM events WHERE kind = 'kernel'",
    )
    worked, kernels = counts.row(0)
    line = f"FLOPs or bytes known for {worked:,} of {kernels:,} kernels"
    click.echo(f"{visible(str(output))}: {line}", err=True)
