"""A worker that is killed while it sends a result: its executor would wait for ever."""

from __future__ import annotations

import importlib
import os
import signal
from concurrent.futures import CancelledError, Executor, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import connection, get_context
from pathlib import Path

import pytest

from profframe.workers import calls
from profframe.workers.calls import Call
from profframe.workers.crew import Crew
from profframe.workers.gathering import Gathering
from profframe.workers.pool import this_process
from tests import needs
from tests.members import few

CALLS = 6


def work(argument: tuple[str, int]) -> int:
    """Twice a number; the first process that is asked for it dies in the middle of sending it."""
    mark, number = argument
    if number == 2 and not Path(mark).exists():
        Path(mark).touch()
        connection.Connection._send = _die  # type: ignore[attr-defined]
    return 2 * number


def _die(self: connection.Connection, content: bytes) -> None:
    os.write(self.fileno(), content[:6])
    os.kill(os.getpid(), signal.SIGKILL)


def executor_of(name: str) -> Executor:
    if name == "loky":
        needs.modules("loky")
        executor: Executor = importlib.import_module("loky").ProcessPoolExecutor(2)
        return executor
    return ProcessPoolExecutor(2, get_context("spawn"))


@pytest.mark.parametrize("name", few(["concurrent.futures", "loky"], 1))
def test_its_call_is_run_again(name: str, tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    with executor_of(name) as executor:
        crew = Crew(executor, 2, 1)
        gathering = Gathering(crew, lambda n: Call.of(work, (mark, n), 1), range(CALLS))
        assert dict(gathering.results()) == {number: 2 * number for number in range(CALLS)}
    assert Path(mark).exists()


def test_a_call_that_nobody_waits_for_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "_end_with_parent", lambda _: None)
    ticket = tmp_path / "ticket"
    parent = this_process()[0], os.getppid()
    call = replace(Call.of(abs, -7, None), ticket=str(ticket), home=parent)
    with pytest.raises(CancelledError):
        calls.run(call)
    assert calls.result(calls.run(replace(call, home=(parent[0], 1)))) == 7
    ticket.touch()
    assert calls.result(calls.run(call)) == 7
