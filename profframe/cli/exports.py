"""The verb that writes traces for other tools: `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from profframe.cli.loading import load, naming
from profframe.cli.verbs import takes_sources, verbs, with_parts
from profframe.show.units import visible

_FORMS: Final = ("chrome", "speedscope", "stacks")
_ENDINGS: Final = {".speedscope.json": "speedscope", ".folded": "stacks", ".txt": "stacks"}
_METRICS: Final = {"host": "self_ns", "device": "self_device_ns"}


@verbs.command()
@takes_sources
@click.option("-o", "--output", required=True, type=Path, metavar="FILE", help="File to write.")
@click.option(
    "--as",
    "form",
    type=click.Choice(_FORMS),
    help="Default: by the ending of FILE: .speedscope.json, .folded or .txt, else chrome.",
)
@click.option(
    "--metric",
    default="host",
    show_default=True,
    type=click.Choice([*_METRICS]),
    help="Time that speedscope and stacks are as wide as.",
)
@click.option(
    "--track",
    "tracks",
    multiple=True,
    metavar="NAME",
    help="Add to chrome: queue_depth, memory, exposed_communication, critical_path,"
    " achieved_flop_per_s, or any answer; can be repeated.",
)
@click.option("--run", "runs", multiple=True, help="Only this run; can be repeated.")
@with_parts
def export(
    sources: tuple[str, ...],
    output: Path,
    form: str | None,
    *,
    metric: str,
    tracks: tuple[str, ...],
    runs: tuple[str, ...],
    ranks: tuple[int, ...],
    steps: tuple[int, ...],
    phases: tuple[str, ...],
) -> None:
    """Write traces for other tools.

    chrome: for Perfetto and chrome://tracing, of one rank, with tracks beside it. speedscope: host
    threads, for https://www.speedscope.app. stacks: operators inside one another, folded, for
    flamegraph.pl and the like. FILE is compressed if it ends in .gz or .zst. Perfetto's protobuf
    (.pftrace) is not written.
    """
    tool = form or _form(output)
    if tracks and tool != "chrome":
        raise click.UsageError(f"--track is for chrome, not for {tool}")
    trace = load(sources)
    with naming(sources):
        trace = trace.filter(
            runs=runs or None, ranks=ranks or None, steps=steps or None, phase=phases or None
        )
    if tool == "chrome":
        trace.export_chrome_trace(output, tracks=tracks or None)
    elif tool == "speedscope":
        trace.export_speedscope(output, _METRICS[metric])
    else:
        trace.export_stacks(output, _METRICS[metric], by="path")
    click.echo(f"{visible(str(output))}: written", err=True)


def _form(output: Path) -> str:
    name = output.name.lower().removesuffix(".gz").removesuffix(".zst")
    return next((form for ending, form in _ENDINGS.items() if name.endswith(ending)), "chrome")
