"""What the command line says on stderr, how wide its lines are, and its exit codes."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click

from profframe.errors import without_secrets
from profframe.show.units import visible

if TYPE_CHECKING:
    from profframe.trace.trace import Trace

BAD_INPUT: Final = 1
WRONG_USAGE: Final = 2
GREW: Final = 3
INTERRUPTED: Final = 130


def line_width() -> int:
    """Width of the lines that people read: that of the terminal, or the one for a pipe."""
    from profframe.show.terminal import PIPE_WIDTH, console

    return console().width if sys.stdout.isatty() else PIPE_WIDTH


def complain(message: str) -> int:
    """Write one line of error, and return the exit code of bad input."""
    with suppress(OSError):  # the exit code still tells
        click.echo(f"error: {visible(without_secrets(message))}", err=True)
    return BAD_INPUT


def warn(message: str) -> None:
    """Write one line of warning."""
    click.echo(f"warning: {visible(without_secrets(message))}", err=True)


def warn_of_library(trace: Trace, into: str) -> None:
    """Warn if no frame is of a library that was named: the rows are as without it."""
    from profframe.trace.libraries import absent_library

    if absent := absent_library(trace, into):
        warn(f"--into: {absent}")
