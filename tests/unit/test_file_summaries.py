"""What is said first of files that are no trace of a profiler."""

from __future__ import annotations

import json
import pickle
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import profframe
from profframe import cli
from profframe.errors import ParameterError
from profframe.trace.file_summaries import VIEWS, file_summaries
from profframe.trace.trace import Trace
from tests.members import few
from tests.pages import Page
from tests.unit.test_execution_traces import OPS, ROOTS
from tests.unit.test_execution_traces import written as execution_trace
from tests.unit.test_flight_recorder import dump, entry

MIB = 2**20
START = 1_759_252_584_000_000
HOSTILE = "<b>\x1b[31m'\""


def late(folder: Path) -> list[Path]:
    """Dumps of two ranks, of which one has not called the second collective."""
    folder.mkdir()
    calls = [entry(0), entry(1, state="started", frames=[frame("wait"), frame(HOSTILE)])]
    files = [folder / "rank_0", folder / "rank_1"]
    for file, own in zip(files, (calls, calls[:1]), strict=True):
        file.write_bytes(pickle.dumps(dump(*own)))
    return files


def frame(name: str) -> dict[str, Any]:
    return {"name": name, "filename": "train.py", "line": 7}


def snapshot(folder: Path) -> list[Path]:
    """Memory of 3 MiB that `keep` holds."""
    record = {"action": "alloc", "addr": 4096, "size": 3 * MIB, "stream": 0, "time_us": START}
    trace = [record | {"frames": [frame(HOSTILE)]}]
    folder.mkdir()
    file = folder / "snapshot.pickle"
    file.write_bytes(pickle.dumps({"segments": [], "device_traces": [trace]}))
    return [file]


def timeline(folder: Path) -> list[Path]:
    """What `export_memory_timeline` writes: 64 bytes of a parameter before, 32 of an activation."""
    folder.mkdir()
    file = folder / "mem.raw.json"
    file.write_text(json.dumps([[-1, 1, 64, 0], [1000, 2, 32, 4], [2000, 4, -32, 4]]))
    return [file]


def tensors(folder: Path) -> list[Path]:
    folder.mkdir()
    return [execution_trace(folder / "et.json", [*ROOTS, *OPS])]


def inspected(folder: Path) -> list[Path]:
    """Lines of NCCL's Inspector of two ranks."""
    folder.mkdir()
    paths = []
    for rank in (0, 1):
        communicator = {"id": "0x1", "comm_name": HOSTILE, "rank": rank, "n_ranks": 2}
        process = {
            "inspector_output_format_version": "v4.2", "dump_timestamp_us": 1_700_000_000_000_000,
            "hostname": HOSTILE, "pid": rank,
        }  # fmt: skip
        said = {"coll": "AllReduce", "coll_sn": 0, "coll_msg_size_bytes": 16384}
        said |= {"coll_exec_time_us": 20 + rank}
        line = {"header": communicator, "metadata": process, "coll_perf": said}
        paths.append(folder / f"node-a-pid{rank}.log")
        paths[-1].write_text(json.dumps(line) + "\n")
    return paths


FILES: dict[str, tuple[Callable[[Path], list[Path]], str, str]] = {
    "dumps": (
        late,
        "ranks 0, 1 of 2, nccl, 3 records, 1 of them not ended, 1 process group",
        "Rank 1 did not arrive at all_reduce 2 of group default_pg",
    ),
    "snapshots": (
        snapshot,
        "1 record, 1 allocation",
        "eak at 2025-09-30 17:16:24.000 UTC: 3.00 MiB (3,145,728 bytes) in 1 block",
    ),
    "nccl_records": (
        inspected,
        "records of 2 collectives, 1 communicator, the largest of 2 ranks",
        "Most time is in all_reduce of 16.00 KiB in",
    ),
    "timeline": (timeline, "2 allocations", "eak at"),
    "execution_traces": (
        tensors,
        "6 nodes, 4 operator calls, 5 tensors, 4 data dependencies",
        "Of all ops aten::",
    ),
}


@pytest.fixture(params=FILES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[list[Path], str, str]:
    make, what, finding = FILES[request.param]
    return make(tmp_path / "files"), what, finding


def test_a_command_line_says_what_it_is_and_what_matters(
    case: tuple[list[Path], str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    check_said(case, [], capsys)


def test_info_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make, what, finding = FILES["snapshots"]
    check_said((make(tmp_path / "files"), what, finding), ["info"], capsys)


def check_said(
    case: tuple[list[Path], str, str], verb: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    files, what, finding = case
    assert cli.run([*verb, *map(str, files)]) == 0
    said = capsys.readouterr().out
    assert what in said
    assert finding in said
    assert "\x1b" not in said
    assert "No rule" not in said


def test_a_notebook_says_the_same(case: tuple[list[Path], str, str]) -> None:
    files, what, finding = case
    page = Page(profframe.load(files)._repr_html_())
    assert what in page.text
    assert finding in page.text
    assert "<b>" not in page.text.replace("<b>\\x1b", "")


@pytest.mark.parametrize("kind", few(FILES, ["dumps", "snapshots"]))
def test_a_report_says_the_same(kind: str, tmp_path: Path) -> None:
    """Words of a report are those of the terminal: one kind of rank, and one with memory."""
    make, _, finding = FILES[kind]
    profframe.load(make(tmp_path / "files")).report(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert finding in text
    assert HOSTILE not in text
    if kind == "dumps":  # no slices, whose clocks could be apart
        assert "How far each rank got" in text
        assert "How far apart the clocks are" not in text


def test_a_trace_has_no_such_words(example: Path) -> None:
    trace = profframe.load(example)
    words = file_summaries(trace, trace.traces["format"])
    assert words.parts == ()
    assert not words.is_all


def test_each_view_has_a_case() -> None:
    assert VIEWS.keys() <= FILES.keys()


def test_one_dump_says_that_the_others_are_needed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = late(tmp_path / "files")
    assert cli.run([str(second)]) == 0
    said = capsys.readouterr().out
    assert "This dump alone shows no hang: the last call is all_reduce 1 of group default" in said
    assert "the dumps of all ranks together show which rank is late" in said
    assert cli.run([str(first)]) == 0
    assert "Rank 0 waits in all_reduce 2 of group default_pg" in capsys.readouterr().out


def test_files_without_rows_say_how_to_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "snapshot.pickle"
    empty.write_bytes(pickle.dumps({"segments": [], "device_traces": [[]]}))
    assert cli.run([str(empty)]) == 0
    assert "_record_memory_history() makes torch record" in capsys.readouterr().out
    dumped = tmp_path / "rank_0"
    dumped.write_bytes(pickle.dumps(dump()))
    assert cli.run([str(dumped)]) == 0
    assert "TORCH_FR_BUFFER_SIZE=2000 makes torch record" in capsys.readouterr().out


def test_beside_a_trace_its_own_words_stay(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 7, "tid": 7, "ts": 1, "dur": 2}
        | {"args": {"Record function id": 13}}
    ]
    file = tmp_path / "t.json"
    file.write_text(json.dumps({"traceEvents": events}))
    trace: Trace = profframe.load(file, execution_trace=tensors(tmp_path / "files")[0])
    words = trace.summary().words
    assert [part.label for part in words.parts] == ["execution trace"]
    assert not words.is_all
    assert "events" in repr(trace)
    assert "data dependencies" in repr(trace)


def test_runs_keep_their_names_in_sentences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name is told only where it differs, and as it is."""
    first = snapshot(tmp_path / "job")[0].rename(tmp_path / "job" / "snapshot_rank0.pickle")
    second = tmp_path / "job" / "snapshot_rank1.pickle"
    second.write_bytes(first.read_bytes())
    assert cli.run([str(tmp_path / "job")]) == 0
    said = capsys.readouterr().out
    assert "Rank 1, device 0: peak at" in said
    assert "Job" not in said


def test_verbs_about_times_have_no_empty_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (dumped, _) = late(tmp_path / "files")
    for verb, said in (
        ("critical-path", "Critical path of nothing: no slices of any kind in this trace"),
        ("roofline", "no rows: no kernels in this trace; record with activities="),
    ):
        assert cli.run([verb, str(dumped)]) == 0
        [line] = capsys.readouterr().out.splitlines()
        assert line.startswith(said)


def test_advice_of_files_without_times_is_what_matters_in_them(
    case: tuple[list[Path], str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    files, _, finding = case
    assert cli.run(["advice", *map(str, files)]) == 0
    said = capsys.readouterr().out
    assert "no findings: rules look at times" in said
    assert finding in said


def test_such_advice_has_no_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["advice", *map(str, timeline(tmp_path / "files")), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize(
    ("make", "what"),
    few(
        [
            (
                late,
                "flight recorder dumps have no times of ops or devices (profframe hang says",
            ),
            (snapshot, "a memory snapshot has no times of ops or devices (two of them can be"),
            (timeline, "a memory snapshot has no times of ops or devices (two of them can be"),
            (tensors, "an execution trace has no times (--execution-trace joins it"),
        ],
        2,
        arguments=2,
    ),
)
def test_what_has_no_times_is_not_compared_with_a_trace(
    make: Callable[[Path], list[Path]],
    what: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, plain = make(tmp_path / "files")[0], tmp_path / "plain.json"
    plain.write_text('[{"ph": "X", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 4}]')
    assert cli.run(["diff", str(plain), str(file)]) == 1
    assert capsys.readouterr().err.startswith(f"error: other ({file}): {what}")
    assert cli.run(["diff", str(file), str(plain)]) == 1
    assert capsys.readouterr().err.startswith(f"error: base ({file}): {what}")


def test_dumps_are_not_compared_with_dumps(tmp_path: Path) -> None:
    first, second = late(tmp_path / "files")
    with pytest.raises(ParameterError, match="profframe hang says who is late"):
        profframe.diff(first, second)


@pytest.mark.parametrize("example", ["snapshot.pickle", "nccl_inspector"])
def test_each_command_that_is_shown_can_be_typed(
    example: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A path that a shell would divide is quoted; tables that are cut say where the rest is."""
    source, copy = Path("examples") / example, tmp_path / f"it's a {example}"
    (shutil.copytree if source.is_dir() else shutil.copy)(source, copy)
    assert cli.run([str(copy), "--top", "1"]) == 0
    text = capsys.readouterr().out.replace("\\\n", " ")
    commands = re.findall(r"^(?:next|more)? +profframe .*$", text, re.MULTILINE)
    typed = [shlex.split(line.partition("profframe ")[2], comments=True) for line in commands]
    assert all(words[-1] == str(copy) for words in typed)
    answers = {" ".join(words[:-1]) for words in typed}
    if source.is_dir():
        assert {"answer collectives -p per=size", "answer stragglers"} <= answers
    else:
        assert {f"answer memory_stacks -p {p}" for p in ("at=change", "per=frame")} <= answers
    for words in typed:
        assert cli.run(words) == 0
        assert capsys.readouterr().err == ""


def test_memory_from_before_the_first_record_is_in_words(tmp_path: Path) -> None:
    trace = profframe.load(timeline(tmp_path / "files"))
    (part,) = file_summaries(trace, trace.traces["format"]).parts
    assert part.sentences[0].endswith(
        "96 B in 2 blocks; 64 B of it from before the first record (usually weights)"
    )
