"""Processes that a test starts: none outlives it, whatever fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def python(
    *arguments: object, env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Start Python for a block, with a pipe from its stdout.

    It leads a group of processes, which is killed at the end of the block.
    """
    command = [sys.executable, *map(str, arguments)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=None if env is None else os.environ | env,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):  # all have ended
                os.killpg(process.pid, signal.SIGKILL)


def line(process: subprocess.Popen[str]) -> str:
    """The next line of its stdout."""
    assert process.stdout is not None
    return process.stdout.readline()
