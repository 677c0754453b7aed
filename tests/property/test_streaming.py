"""A trace that is converted piece by piece is the one that `load` has in memory."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl
import pytest
from hypothesis import example, given, settings
from polars.testing import assert_frame_equal

import profframe
from benchmarks import large
from profframe import schema, store
from profframe.errors import NotATraceError
from profframe.loaders import trace_files
from profframe.system import disk_tables
from tests.conftest import chrome_traces
from tests.property.test_reading import damaged, documents, pieces

MOST_BYTES = 20_000
"""Of a real trace, as it is compressed."""
LONE_ENDS = """[{"ph":"B","name":"a","ts":1,"args":{"x":1}},{"ph":"i","name":"m","ts":2},
{"ph":"E","ts":3,"args":{"y":2}},{"ph":"E","name":"z","ts":4},{"ph":"X","ts":5,"dur":1},
{"ph":"C","name":"c","ts":6,"args":{"a":1,"b":2}},{"ph":"B","name":"never","ts":7}]"""


def converted(source: Path, folder: Path, *, in_pieces: bool) -> dict[str, pl.DataFrame] | str:
    """The tables of the store that it becomes, or why it is no trace."""
    beside = folder if in_pieces else None
    target = folder / ("pieces" if in_pieces else "memory")
    try:
        trace = trace_files.read_trace(source, spool_folder=beside)
    except NotATraceError as error:
        return str(error)
    trace_files.write_trace(trace, target)
    return {name: store.scan(target).scan(name).collect() for name in schema.TABLES}


def assert_same(source: Path, folder: Path) -> None:
    """Both ways give the same rows in the same order."""
    in_memory = converted(source, folder, in_pieces=False)
    in_pieces = converted(source, folder, in_pieces=True)
    if isinstance(in_memory, str) or isinstance(in_pieces, str):
        assert in_pieces == in_memory
        return
    for name in schema.TABLES:
        assert_frame_equal(in_pieces[name], in_memory[name])


@settings(max_examples=max(1, settings().max_examples // 2))
@given(documents() | damaged())
@example(LONE_ENDS)
@example("[]")
@example('{"traceEvents": []}')
@example('[{"ph":"X","name":"a","ts":1,"dur":2}')
def test_made_up_traces(document: str | bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, pieces(64) as patch:
        patch.setattr(disk_tables, "PIECE_ROWS", 2)
        source = Path(folder, "trace.json")
        source.write_bytes(document.encode() if isinstance(document, str) else document)
        assert_same(source, Path(folder))


def test_real_traces(traces: Path, tmp_path: Path) -> None:
    """One of each repository, cut often; what is in memory is compared with a plain reader's."""
    small = [path for path in chrome_traces() if path.stat().st_size <= MOST_BYTES]
    largest_last = sorted(small, key=lambda path: path.stat().st_size)
    for name, source in {path.relative_to(traces).parts[0]: path for path in largest_last}.items():
        folder = tmp_path / name
        folder.mkdir()
        with pieces(1 << 10) as patch:
            patch.setattr(disk_tables, "PIECE_ROWS", 5)
            assert_same(source, folder)


def test_answers_are_those_of_the_parts(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_tables, "PIECE_ROWS", 5000)
    part, whole, copies = large.made(example, 5_000_000, tmp_path)
    trace_files.write_trace(
        trace_files.read_trace(whole, spool_folder=tmp_path), tmp_path / "store"
    )
    assert copies == 2
    trace, one = profframe.load(tmp_path / "store"), profframe.load(part)
    assert large.differs(trace, one, copies) == []
    assert large.differs(trace, one, copies + 1) == ["self_times", "key_averages"]


@pytest.mark.long
def test_two_gigabytes_need_less_memory_than_that() -> None:
    command = [sys.executable, large.__file__, "--alone"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    assert done.stdout.count("< 2 GB met") == 2, done.stdout
