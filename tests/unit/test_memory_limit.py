"""What does not fit ends in one line that says what to do."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import profframe
from profframe.errors import MemoryLimitError
from profframe.readers.chrome import parsing
from profframe.system import memory_limit

GPU = Path("examples/gpu_training.json.gz").absolute()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        pa.ArrowMemoryError("malloc of size 64 failed"),
        duckdb.OutOfMemoryException("Out of Memory Error: Allocation failure"),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
        RuntimeError("can't start new thread"),
        ImportError("libarrow.so: failed to map segment from shared object"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_refused_memory_is_one_error_that_names_what_did_not_fit(error: Exception) -> None:
    expected = r"^a.json: this process was refused memory.*profframe convert"
    with pytest.raises(MemoryLimitError, match=expected), memory_limit.within("a.json"):
        raise error


@pytest.mark.parametrize("error", [ValueError("x"), SystemError("x"), OSError(2, "x")])
def test_other_errors_stay_what_they_are(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limit, "available_bytes", lambda: None)
    with pytest.raises(type(error)), memory_limit.within("a.json"):
        raise error


def test_an_error_of_the_system_is_memory_error_where_little_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_limit, "available_bytes", lambda: 1 << 20)
    assert memory_limit.is_memory_error(SystemError("returned NULL without setting an exception"))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("is_seen", [True, False], ids=["of the machine", "of a container"])
@pytest.mark.parametrize(
    ("limit", "expected"), [("900", 620), ("max", None), ("9223372036854771712", None)]
)
def test_the_room_of_a_group_is_its_limit_without_what_it_uses(  # noqa: PLR0917
    version: int, is_seen: bool, limit: str, expected: int | None,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    names = ("memory.max", "memory.current") if version == 2 else (
        "memory.limit_in_bytes", "memory.usage_in_bytes"
    )  # fmt: skip
    folder = tmp_path / ("" if version == 2 else "memory") / ("a/b" if is_seen else "")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in zip(names, (limit, "300"), strict=True):
        (folder / name).write_text(f"{text}\n")
    before = "" if version == 2 else "total_"
    (folder / "memory.stat").write_text(f"{before}inactive_file 15\n{before}active_file 5\n")
    own = tmp_path / "own"
    own.write_text("9:name=systemd:/\n4:memory:/a/b\n1:cpu:/\n0::/a/b\n")
    monkeypatch.setattr(memory_limit, "_CGROUPS", tmp_path)
    monkeypatch.setattr(memory_limit, "_OWN_CGROUP", own)
    assert memory_limit._group() == expected


def test_a_load_is_refused_before_memory_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limit, "available_bytes", lambda: memory_limit.RESERVE + 1)
    with pytest.raises(MemoryLimitError, match=r"^examples/.*: needs more than the 256 MB"):
        profframe.load("examples/gpu_training.json.gz")


def test_a_piece_for_which_there_is_no_memory_is_not_taken_for_damage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise duckdb.OutOfMemoryException("Out of Memory Error")

    monkeypatch.setattr(parsing.Parser, "_parse", refuse)
    monkeypatch.setattr(parsing, "library", lambda: None)
    with pytest.raises(MemoryLimitError, match="this process was refused memory"):
        profframe.load(GPU)


@pytest.mark.parametrize("megabytes", [400, 1000, 1500])
def test_a_limit_that_is_too_low_to_begin_with_is_one_line(megabytes: int) -> None:
    limit = megabytes << 20
    done = subprocess.run(
        [sys.executable, "-m", "profframe", "info", str(GPU)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ")
    assert "address space" in done.stderr
    assert done.stderr.count("\n") == 1
