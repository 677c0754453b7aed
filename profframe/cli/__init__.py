"""The command line: verbs that bind arguments to functions, and exceptions to exit codes."""

from __future__ import annotations

import atexit
import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

import click

from profframe.cli import (  # noqa: F401 - their verbs
    advice,
    answers,
    ask,
    cache,
    comparisons,
    export,
    hang,
    reports,
    roofline,
    store,
    trace_views,
    what_if,
)
from profframe.cli.messages import INTERRUPTED, WRONG_USAGE, complain
from profframe.cli.output import close_streams, open_streams
from profframe.cli.verbs import verbs
from profframe.errors import AnswerError, MemoryLimitError, NoTraceFoundError, ProfframeError
from profframe.system.drafts import clean_up
from profframe.system.imports import without_pandas
from profframe.system.interrupts import stopping
from profframe.system.memory_limit import check_start, is_memory_error, refusal_message

if TYPE_CHECKING:
    from profframe.cli.suggestions import Suggestion

NAMED: Final = (NoTraceFoundError, AnswerError)
"""Errors that may come from what was typed, not from what was read."""
_LISTED: Final = re.compile(r" \(known: [^()]*\)| \(?Did you mean (one of: )?'.*'\??\)?$")
_IMPORTING: Final = "<frozen importlib._bootstrap>"
_COLLECTED_AFTER: Final = 1_000_000
"""Python's garbage collector runs after this many new objects."""
_RETRY_S: Final = 0.05
_GRACE_S: Final = 1.5
"""Seconds from Ctrl-C until the process ends, whatever it is doing."""


def main() -> NoReturn:
    """Run the command line; the exit code is 0, 1 for bad input, 2 for wrong usage.

    `diff` and `check` with `--fail-on` have 3 for what grew too much; 130 is Ctrl-C.
    """
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `profframe ... | head` ends quietly
    endings: list[int] = []
    atexit.register(_end, endings)  # what is registered later runs before it
    gc.set_threshold(_COLLECTED_AFTER)  # imports make few cycles and many objects
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # nothing is left to its threads
    open_streams()
    try:
        check_start()
    except MemoryLimitError as error:
        sys.exit(complain(str(error)))
    signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))  # nothing has begun
    sys.unraisablehook = _unraisable
    is_interrupted = threading.Event()

    def end_soon() -> None:
        """Give the process a moment to end normally, then end it: libraries may ignore Ctrl-C."""
        if is_interrupted.is_set():
            return
        is_interrupted.set()
        timer = threading.Timer(_GRACE_S, os._exit, (INTERRUPTED,))
        timer.daemon = True
        timer.start()

    with stopping(end_soon), without_pandas():
        signal.signal(signal.SIGINT, _interrupt)
        code = run(sys.argv[1:])
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        code = close_streams(code)
        clean_up()
    if code == INTERRUPTED or is_interrupted.is_set():
        os._exit(code)  # threads of libraries may still run: do not wait for them
    if plans := sys.modules.get("profframe.query.plans"):
        atexit.unregister(plans.PLANS.close)
    endings.append(code)
    sys.exit(code)


def _end(codes: Sequence[int]) -> None:
    """End the process, if it has an exit code, where Python would take all objects apart: 0.1 s."""
    if codes:
        with suppress(OSError):
            sys.stdout.flush()
        os._exit(codes[0])


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; during an import, which it could break, a little later."""
    outer = frame
    while outer is not None:
        if outer.f_code.co_filename == _IMPORTING:
            timer = threading.Timer(_RETRY_S, os.kill, (os.getpid(), number))
            timer.daemon = True
            timer.start()
            return
        outer = outer.f_back
    raise KeyboardInterrupt


def _unraisable(problem: sys.UnraisableHookArgs) -> None:
    """Ignore a Ctrl-C that Python cannot raise where it arrived: the process ends anyway."""
    if problem.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(problem)


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
    except click.exceptions.NoArgsIsHelpError as error:
        with suppress(OSError):
            error.show()
        return error.exit_code
    except click.ClickException as error:
        return _of_usage(arguments, error)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - all become exit codes
        if _is_interrupt(error):
            return INTERRUPTED
        return _report(error, arguments)
    return code if isinstance(code, int) else 0


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether it is Ctrl-C, DuckDB's form of it, or an error while it was handled."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt) or str(error) == "Query interrupted":
            return True
        error = error.__context__
    return False


def _of_usage(arguments: Sequence[str], error: click.ClickException) -> int:
    """Write the error line for wrong usage: what to type instead, or how the verb is used."""
    from profframe.cli.suggestions import suggestion

    # click's own suggestion compares dashes, too: for --top it is --output or --step
    is_option = isinstance(error, click.NoSuchOption)
    message = (error.message if is_option else error.format_message()).removesuffix(".")
    if suggested := suggestion(verbs, arguments, error):
        complain(_suggesting(message, suggested))
    elif isinstance(error, click.UsageError) and error.ctx is not None:
        usage = " ".join(error.ctx.get_usage().split())
        complain(f"{message} ({usage}; {error.ctx.command_path} --help)")
    else:
        complain(message)
    return error.exit_code


def _suggesting(message: str, suggested: Suggestion) -> str:
    """An error without its long list of known names, and a suggestion."""
    reason = suggested.reason or _LISTED.sub("", message)
    return f"{reason}{'' if reason.endswith('?') else ';'} try: {suggested.command}"


def _report(error: Exception, arguments: Sequence[str]) -> int:
    """Write the line of an error, and return the exit code."""
    from profframe.cli.suggestions import suggestion

    if isinstance(error, NAMED) and (suggested := suggestion(verbs, arguments, error)):
        complain(_suggesting(str(error), suggested))
        return WRONG_USAGE
    if isinstance(error, ProfframeError):
        return complain(str(error))
    if is_memory_error(error):
        return complain(refusal_message())
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return complain(f"{where}{error.strerror or error}")
    if "PROFFRAME_DEBUG" in os.environ:
        raise error
    name = type(error).__name__
    return complain(f"internal: {name}: {error} (PROFFRAME_DEBUG=1 shows where; please report)")
