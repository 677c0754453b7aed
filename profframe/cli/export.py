"""The verb that writes traces for other tools: `export`."""

from __future__ import annotations

import warnings
from contextlib import closing
from pathlib import Path
from typing import Final

import click

from profframe.cli import completion
from profframe.cli.keeping import with_cache
from profframe.cli.loading import LoadingBar, load, naming
from profframe.cli.messages import warn
from profframe.cli.part import Part, with_part
from profframe.cli.verbs import (
    FILE,
    takes_sources,
    verbs,
)
from profframe.query import renamed
from profframe.show.units import visible

_FORMS: Final = ("chrome", "speedscope", "stacks")
_ENDINGS: Final = {".speedscope.json": "speedscope", ".folded": "stacks", ".txt": "stacks"}
_TRACKS: Final = (
    "queue_depth", "memory", "exposed_communication", "critical_path", "path_across_ranks", "blame",
    "achieved_flop_per_s",
)  # fmt: skip
_METRICS: Final = {"host": "self_ns", "device": "self_device_ns"}


@verbs.command()
@takes_sources
@click.option("-o", "--output", required=True, type=FILE, metavar="FILE", help="File to write.")
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
    help="Time that gives the widths in speedscope and stacks.",
)
@click.option(
    "--track",
    "tracks",
    multiple=True,
    metavar="NAME",
    shell_complete=completion.among(_TRACKS),
    help="Tracks to add to chrome: queue_depth, memory, exposed_communication, critical_path,"
    " path_across_ranks, blame, achieved_flop_per_s, or any answer; can be repeated.",
)
@click.option(
    "--collectives",
    is_flag=True,
    help="Arrows in chrome from the rank that came last to each collective to the others.",
)
@click.option(
    "--keep-clocks",
    is_flag=True,
    help="Keep the times of ranks as recorded, instead of on one clock (clock_skew).",
)
@click.option("--kind", "kinds", multiple=True, help="Only this kind of event; can be repeated.")
@with_part
@with_cache
def export(
    sources: tuple[str, ...],
    output: Path,
    form: str | None,
    *,
    metric: str,
    tracks: tuple[str, ...],
    collectives: bool,
    keep_clocks: bool,
    kinds: tuple[str, ...],
    part: Part,
) -> None:
    """Write traces for other tools.

    chrome: for Perfetto and chrome://tracing, with additional tracks; several ranks share one
    clock, as in export STORE --rank 0-63 --step 5 -o job.json.gz. speedscope: host threads, for
    https://www.speedscope.app. stacks: folded stacks of operators, for flamegraph.pl and similar
    tools. FILE is compressed if it ends in .gz or .zst. chrome is JSON, or Perfetto's protobuf if
    FILE ends in .pftrace or .perfetto-trace, optionally with .gz.
    """
    tool = form or _form(output)
    of_chrome = {"--track": tracks, "--collectives": collectives, "--keep-clocks": keep_clocks}
    for option in (name for name, is_given in of_chrome.items() if is_given and tool != "chrome"):
        raise click.UsageError(f"{option} works only with chrome, not with {tool}")
    trace = load(sources)
    with naming(sources):
        trace = trace.filter(kinds=kinds or None)
    trace = part.apply(trace, sources)
    if tool == "chrome":
        for name in (name for name in tracks if name in renamed.ANSWERS):
            warn(renamed.answer_sentence(name))
        quietly = warnings.catch_warnings(action="ignore", category=FutureWarning)
        with quietly, closing(LoadingBar("events")) as bar:
            trace.export_chrome_trace(
                output,
                tracks=tracks or None,
                clocks="recorded" if keep_clocks else "corrected",
                collectives=collectives,
                progress=lambda done, total, what: bar(done, total, f"writing {what}".rstrip()),
            )
    elif tool == "speedscope":
        trace.export_speedscope(output, _METRICS[metric])
    else:
        trace.export_stacks(output, _METRICS[metric], by="path")
    click.echo(f"{visible(str(output))}: written", err=True)


def _form(output: Path) -> str:
    name = output.name.lower().removesuffix(".gz").removesuffix(".zst")
    return next((form for ending, form in _ENDINGS.items() if name.endswith(ending)), "chrome")
