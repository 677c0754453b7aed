"""The command line: verbs that bind arguments to functions, and exceptions to exit codes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

import click

from profframe.cli import (  # noqa: F401 - their verbs
    advising,
    asking,
    comparing,
    devices,
    exporting,
    looking,
    reporting,
    storing,
)
from profframe.cli.output import close_streams, complain, open_streams
from profframe.cli.verbs import INTERRUPTED, verbs
from profframe.errors import MemoryLimitError, ProfframeError
from profframe.headroom import check_start, is_of_memory, refused


def main() -> NoReturn:
    """Run the command line; the exit code is 0, 1 for bad input, 2 for wrong usage.

    `diff` and `check` with `--fail-on` have 3 for what grew too much.
    """
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `profframe ... | head` ends quietly
    open_streams()
    try:
        check_start()
    except MemoryLimitError as error:
        sys.exit(complain(str(error)))
    sys.exit(close_streams(run(sys.argv[1:])))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and turn an exception into one line of error and an exit code.

    Parameters
    ----------
    arguments
        What follows the program's name.

    Returns
    -------
    int
        The exit code.
    """
    try:
        code = verbs.main([*arguments], prog_name="profframe", standalone_mode=False)
    except click.ClickException as error:
        with suppress(OSError):
            error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except ProfframeError as error:
        return complain(str(error))
    except Exception as error:
        if "PROFFRAME_DEBUG" in os.environ and not isinstance(error, OSError):
            raise
        return complain(_said(error))
    return code if isinstance(code, int) else 0


def _said(error: Exception) -> str:
    """One line about an error that nobody expected."""
    if is_of_memory(error):
        return refused()
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    name = type(error).__name__
    return f"internal: {name}: {error} (PROFFRAME_DEBUG=1 shows where; please report)"
