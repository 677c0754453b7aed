"""Ctrl-C, and the end of a time, in the middle of a query."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from profframe.system.interrupts import stopping

LIMIT_S = 60
"""Against a hang: nothing here would end by itself."""

BEGINNING = """
import os, signal, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from profframe import cli, load

ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT sum(n) FROM t"

def functions():
    for frame in sys._current_frames().values():
        while frame is not None:
            yield frame.f_code.co_name
            frame = frame.f_back

def has_begun(since):
    return time.process_time() > since + 0.1  # it computes

def interrupt():
    while not {"query", "materialize"} <= {*functions()}:  # a thread that waits for DuckDB
        time.sleep(0.01)
    since = time.process_time()
    while not has_begun(since):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
source = sys.argv[1]
"""


def child(example: Path, script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BEGINNING + script, str(example)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_a_verb_ends_in_the_middle_of_a_query(example: Path) -> None:
    done = child(example, "sys.argv = ['profframe', 'sql', source, ENDLESS]; cli.main()")
    assert (done.returncode, done.stderr.strip()) == (130, "")


def test_a_trace_answers_after_an_interrupt(example: Path) -> None:
    done = child(
        example,
        """
trace = load(source)
try:
    trace.sql(ENDLESS)
except KeyboardInterrupt:
    print(trace.sql("SELECT 42 AS answer")["answer"][0], trace.self_times().height > 0)
""",
    )
    assert (done.stdout, done.stderr) == ("42 True\n", "")


def test_all_threads_of_a_conversation_end(example: Path) -> None:
    done = child(
        example,
        """
try:
    with load(source).session(2) as trace, ThreadPoolExecutor(2) as pool:
        [pool.submit(trace.sql, sql) for sql in (ENDLESS, ENDLESS + " WHERE n > 0")][0].result()
except KeyboardInterrupt:
    print("ended")
""",
    )
    assert (done.stdout, done.stderr) == ("ended\n", "")


def test_a_verb_ends_though_a_library_does_not_listen(example: Path) -> None:
    done = child(
        example,
        """
listens = threading.Event()
listens.set()
has_begun = lambda _: not listens.is_set()

def materialize():
    while True:
        try:
            listens.clear()
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            pass

def query(_):
    materialize()

cli.run = query
cli.main()
""",
    )
    assert (done.returncode, done.stderr.strip()) == (130, "")


def test_a_module_that_is_imported_is_not_interrupted(example: Path, tmp_path: Path) -> None:
    (tmp_path / "delicate.py").write_text("""
import os, signal, sys, time
try:
    os.kill(os.getpid(), signal.SIGINT)
    while sys.signals < 3:  # it is told again and again
        time.sleep(0.01)
except KeyboardInterrupt:
    os._exit(9)
""")
    done = child(
        example,
        f"""
sys.signals = 0
put_off = cli._interrupt

def counted(number, frame):
    sys.signals += 1
    put_off(number, frame)

def run(_):
    sys.path.insert(0, {str(tmp_path)!r})
    import delicate
    threading.Event().wait()

cli._interrupt = counted
cli.verbs.main = lambda *_, **__: run(_)
cli.main()
""",
    )
    assert (done.returncode, done.stderr) == (130, "")


def test_another_reader_of_signals_still_gets_them() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    stopped, handled = threading.Event(), threading.Event()
    handler = signal.signal(signal.SIGINT, lambda *_: handled.set())
    before = signal.set_wakeup_fd(write)
    try:
        with stopping(lambda: None), stopping(stopped.set):
            os.kill(os.getpid(), signal.SIGINT)
            assert stopped.wait(LIMIT_S)
        assert os.read(read, 1) == bytes([signal.SIGINT])
        assert signal.set_wakeup_fd(before) == write
        assert handled.is_set()
    finally:
        signal.set_wakeup_fd(before)
        signal.signal(signal.SIGINT, handler)
        os.close(read)
        os.close(write)


def watcher() -> threading.Thread | None:
    """The thread that waits for Ctrl-C, from the first time on."""
    found = (one for one in threading.enumerate() if one.name == "profframe-interrupts")
    return next(found, None)


@pytest.mark.parametrize("where", ["main thread", "other thread"])
def test_a_time_ends(where: str) -> None:
    stopped = threading.Event()

    def wait() -> None:
        with stopping(stopped.set, timeout_s=0.01) as is_late:
            assert stopped.wait(LIMIT_S)
            assert is_late.is_set()

    if where == "main thread":
        wait()
    else:
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
    assert stopped.is_set()


def test_what_ends_in_time_is_not_stopped() -> None:
    stopped = threading.Event()
    before = {*threading.enumerate()}
    with stopping(stopped.set, timeout_s=LIMIT_S) as is_late:
        (timer,) = {*threading.enumerate()} - before - {watcher()}
    timer.join(LIMIT_S / 2)
    assert not timer.is_alive()
    assert not stopped.is_set()
    assert not is_late.is_set()


def test_a_profiler_goes_on_after_a_limit(example: Path) -> None:
    """CPython 3.11 calls a profiler for ever while an error is announced and none is there."""
    done = child(
        example,
        """
from profframe.system.interrupts import within
for _ in range(5):
    try:
        with within(0.01):
            while True:
                pass
    except TimeoutError:
        pass
calls = []
sys.setprofile(lambda frame, event, argument: calls.append(event))
len([*functions()])
sys.setprofile(None)
print(len(calls))
""",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 0
