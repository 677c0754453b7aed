"""What comes through a pipe is read once, by every way in."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import profframe
from profframe.conversion.convert import convert
from tests.databases import write

CPU = Path("examples/cpu_training.json.gz").absolute()
GPU = Path("examples/gpu_training.json.gz").absolute()


def fifo(path: Path, content: bytes) -> Path:
    """A named pipe into which a thread writes, once."""
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(content,), daemon=True).start()
    return path


def profframe_with(stdin: bytes, *arguments: str) -> tuple[str, int]:
    command = [sys.executable, "-m", "profframe", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=120, check=False)
    return (done.stdout + done.stderr).decode(), done.returncode


def test_a_named_pipe_is_loaded_as_its_file_is(tmp_path: Path) -> None:
    trace = profframe.load(fifo(tmp_path / "night.json", GPU.read_bytes()))
    assert trace.events.drop("run").equals(profframe.load(GPU).events.drop("run"))
    assert trace.traces["run"].to_list() == ["night"]


def test_a_descriptor_is_loaded_and_called_a_pipe() -> None:
    read, write = os.pipe()
    with io.FileIO(write, "w") as pipe:
        pipe.write(b'{"traceEvents": []}')
    try:
        trace = profframe.load(f"/dev/fd/{read}")
    finally:
        os.close(read)
    assert trace.traces["run"].to_list() == ["pipe"]


def test_a_database_through_a_pipe_is_copied_first(tmp_path: Path) -> None:
    rows = {"StringTable": [{"_id_": 1, "value": "a"}], "CUPTI_ACTIVITY_KIND_KERNEL": []}
    database = write(tmp_path / "a.sqlite", rows)
    trace = profframe.load(fifo(tmp_path / "b.sqlite", database.read_bytes()))
    assert trace.traces["format"].to_list() == ["nvprof"]
    with pytest.raises(profframe.NotATraceError) as caught:
        profframe.load(fifo(tmp_path / "c.sqlite", b"SQLite format 3\0" + bytes(5000)))
    assert str(caught.value).startswith(f"{tmp_path / 'c.sqlite'}: not a trace: ")


def test_pipes_are_converted_and_none_takes_the_place_of_another(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for _ in range(2):
        path = tmp_path / "night.json"
        done = convert(fifo(path, GPU.read_bytes()), store)
        assert done["status"].to_list() == ["written"]
        path.unlink()
    both = [fifo(tmp_path / name, CPU.read_bytes()) for name in ("a.json", "b.json")]
    assert convert(both, store)["status"].to_list() == ["written", "written"]
    assert set(profframe.load(store).traces["run"]) == {"night", "night.1", "a", "b"}


def test_a_pipe_in_a_folder_is_no_file_of_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "a.json.gz").write_bytes(GPU.read_bytes())
    assert profframe.load(tmp_path).traces["run"].to_list() == ["a"]


def test_a_cache_refuses_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(profframe.ParameterError, match="a pipe can be read only once"):
        profframe.load(tmp_path / "pipe.json", cache=tmp_path / "cache")


@pytest.mark.parametrize("verb", [(), ("info",)])
def test_the_command_line_reads_standard_input(verb: tuple[str, ...]) -> None:
    said, code = profframe_with(GPU.read_bytes(), *verb, "-")
    assert code == 0, said
    assert said.startswith("-: 1 run, 1 rank, ")


def test_empty_standard_input_is_an_error_of_one_line() -> None:
    said, code = profframe_with(b"", "info", "-")
    assert code == 1
    assert said.startswith("error: /dev/stdin: not a trace: the file is empty")
    assert said.count("\n") == 1
