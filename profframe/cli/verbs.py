"""The group of all verbs, what several of them take, and exit codes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import click

from profframe import __version__

BAD_INPUT: Final = 1
GREW: Final = 3
INTERRUPTED: Final = 130

ENDINGS: Final[Mapping[str, str]] = {".csv": "csv", ".json": "json", ".parquet": "parquet"}


class _Verbs(click.Group):
    """Verbs; what starts with none of them is a trace to show."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {*self.commands, "--version", "-h", "--help"}
        return super().parse_args(ctx, ["show", *args] if args and args[0] not in own else args)


takes_sources = click.argument("sources", metavar="TRACE...", nargs=-1, required=True)
with_form = click.option(
    "--format",
    "form",
    type=click.Choice(["table", *ENDINGS.values()]),
    help="Default: by the ending of FILE, else a table.",
)
with_compat = click.option(
    "--compat",
    type=click.Choice(["torch"]),
    help="Facts as torch has them, also where those are wrong.",
)
with_output = click.option("-o", "--output", type=Path, metavar="FILE", help="Write into a file.")


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def verbs() -> None:
    """Where the time of a PyTorch program went.

    A TRACE is a trace file, a glob, a folder of traces, or a store. Without a verb it is shown:
    `profframe trace.json`. A file that is named like a verb needs its folder: `./info`.
    """
