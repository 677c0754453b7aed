"""The verb `report`: everything on one page."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from profframe.cli.loading import Bar, load
from profframe.cli.verbs import takes_sources, verbs, with_categories, with_compat
from profframe.show.units import visible


@verbs.command()
@takes_sources
@click.option(
    "-o",
    "--output",
    type=Path,
    default=Path("report.html"),
    show_default=True,
    metavar="FILE",
    help="HTML file to write.",
)
@click.option("--title", help="What stands above the page; default: the run.")
@click.option(
    "--section",
    "sections",
    multiple=True,
    metavar="NAME",
    help="Only this section; also several.",
)
@click.option(
    "--rows",
    default=1000,
    show_default=True,
    type=click.IntRange(1),
    help="Most rows of a table.",
)
@with_compat
@with_categories
def report(
    sources: tuple[str, ...],
    output: Path,
    title: str | None,
    *,
    sections: tuple[str, ...],
    rows: int,
    compat: str | None,
    categories: Path | None,
) -> None:
    """Write everything on one HTML page.

    Overview, advice, time, operators, kernels, idle time, queues, memory, modules, flame graph,
    roofline, ranks, runs: tables to sort and search, and charts. The file needs nothing else, no
    network either. Sections: overview, advice, time, operators, kernels, idle, queues, memory,
    regions, flame, roofline, ranks, runs, quality, provenance.
    """
    from profframe.trace.report import Options

    Options(title, sections or None, rows).check()
    trace = load(sources, compat=compat, categories=categories)
    with closing(Bar()) as bar:
        trace.report(
            output,
            title=title,
            sections=sections or None,
            rows=rows,
            progress=lambda done, total, what: bar(done, total, f"report: {what}"),
        )
    size = output.stat().st_size / 1e6
    click.echo(f"{visible(str(output))}: {size:.1f} MB", err=True)
