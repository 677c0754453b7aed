"""The verb `report`: everything on one page."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import click

from profframe.cli import completion
from profframe.cli.keeping import with_cache
from profframe.cli.loading import LoadingBar, load
from profframe.cli.part import Part, with_part
from profframe.cli.verbs import (
    FILE,
    takes_sources,
    verbs,
    with_facts,
)
from profframe.show.units import visible

SECTIONS: Final = (
    "overview", "advice", "timeline", "time", "inference", "operators", "kernels", "idle", "queues",
    "counters", "memory", "snapshot", "hangs", "execution", "regions", "flame", "roofline", "ranks",
    "job", "runs", "quality", "provenance",
)  # fmt: skip
"""Sections of a report, for completion; importing the code of reports takes a second."""


@verbs.command()
@takes_sources
@click.option(
    "-o",
    "--output",
    type=FILE,
    default=Path("report.html"),
    show_default=True,
    metavar="FILE",
    help="HTML file to write.",
)
@click.option("--title", help="Title of the page; default: the run.")
@click.option(
    "--section",
    "sections",
    multiple=True,
    metavar="NAME",
    help="Only this section; can be repeated.",
    shell_complete=completion.among(SECTIONS),
)
@click.option(
    "--top",
    default=1000,
    show_default=True,
    type=click.IntRange(1),
    help="Maximum rows per table.",
)
@click.option(
    "--timeline",
    type=click.Choice(["budget", "full", "none"]),
    default="budget",
    show_default=True,
    help="Slices of the timeline: as many as fit, all, or no timeline.",
)
@click.option(
    "--per", type=click.Choice(["rank"]), help="Rows of each rank: no means of several ranks."
)
@with_part
@with_facts
@with_cache
def report(
    sources: tuple[str, ...],
    output: Path,
    title: str | None,
    *,
    sections: tuple[str, ...],
    top: int,
    timeline: str,
    per: str | None,
    part: Part,
    facts: Mapping[str, Any],
) -> None:
    """Write a report: one HTML page with everything.

    Overview, advice, timeline, time, operators, kernels, idle time, queues, memory, modules, flame
    graph, roofline, ranks, runs: tables to sort and search, and charts. The file needs nothing
    else, not even a network. Sections: overview, advice, timeline, time, inference, operators,
    kernels, idle, queues, counters, memory, snapshot, hangs, execution, regions, flame, roofline,
    ranks, job, runs, quality, provenance.
    """
    from profframe.trace.report import PageOptions

    PageOptions(title, sections or None, top, timeline, per).check()
    trace = part.apply(load(sources, facts=facts), sources)
    with closing(LoadingBar("sections")) as bar:
        trace.report(
            output,
            title=title,
            sections=sections or None,
            top=top,
            timeline=timeline,
            per=per,
            progress=lambda done, total, what: bar(done, total, f"report: {what}"),
        )
    size = output.stat().st_size / 1e6
    click.echo(f"{visible(str(output))}: {size:.1f} MB", err=True)
