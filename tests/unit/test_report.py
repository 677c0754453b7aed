"""Reports without a browser: options, errors, the command line, what is in the file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

import profframe
from profframe import Trace
from profframe.cli import run
from profframe.errors import ExportError, MissingExtraError, ParameterError, UnknownNameError
from profframe.pages.report import frame_columns, page
from tests import needs
from tests.conftest import ROOT
from tests.reports import check_numbers, data, tables_of


@pytest.fixture(scope="module")
def trace(example: Path) -> Trace:
    return profframe.load(example)


def test_only_some_sections(trace: Trace, tmp_path: Path) -> None:
    done: list[tuple[int, int, str]] = []
    trace.report(
        tmp_path / "page.html",
        title="<b>mine</b>",
        sections=["memory", "operators"],
        top=3,
        progress=lambda *said: done.append(said),
    )
    text = (tmp_path / "page.html").read_text()

    assert re.findall(r'<section id="(\w+)"', text) == ["operators", "memory"]
    assert "<h1>&lt;b&gt;mine&lt;/b&gt;</h1>" in text
    assert "This page has 3 of 139 rows, those with the most self_ns" in text
    assert done == [(0, 2, "operators"), (1, 2, "memory"), (2, 2, "done")]
    assert data(tmp_path / "page.html")["frames"]["self_times"]["rows"] == 3


def test_errors(trace: Trace, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="no section named 'memry'; did you mean 'memory'"):
        trace.report(tmp_path / "page.html", sections="memry")
    with pytest.raises(ParameterError, match="at least one"):
        trace.report(tmp_path / "page.html", top=0)
    with pytest.raises(ParameterError, match="at least one"):
        trace.report(tmp_path / "page.html", sections=[])
    with pytest.raises(ExportError, match="cannot be written"):
        trace.report(tmp_path / "none" / "page.html", sections="operators")
    with pytest.raises(ParameterError, match="there is nothing to show in quality"):
        trace.report(tmp_path / "page.html", sections="quality")
    assert not [*tmp_path.iterdir()]


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "find_spec", lambda name: None if name == "jinja2" else name)
    told = r"needs jinja2: pip install 'profframe\[report\]'"
    with pytest.raises(MissingExtraError, match=told):
        page.check_installed()


def test_command_line(
    example: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    needs.charts()
    monkeypatch.chdir(tmp_path)
    assert run(["report", str(example), "--section", "operators"]) == 0
    assert re.fullmatch(r"report.html: \d\.\d MB\n", capsys.readouterr().err)
    assert run(["report", str(example), "--section", "memry"]) == 2
    assert "did you mean 'memory'" in capsys.readouterr().err
    assert run(["report", str(tmp_path / "none.json"), "-o", "other.html"]) == 1
    assert not (tmp_path / "other.html").exists()


def test_an_empty_trace(tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text('{"traceEvents": []}')
    profframe.load(tmp_path / "empty.json").report(tmp_path / "page.html")
    sections = re.findall(r'<section id="(\w+)"', (tmp_path / "page.html").read_text())
    assert sections == ["overview", "quality", "provenance"]


def test_columns() -> None:
    frame = pl.DataFrame(
        {
            "run": ["r", "r"],
            "start_ns": [2**60 + 5, None],
            "address": [2**60, 1],
            "share": [0.5, float("nan")],
            "ids": [[1, 2], None],
        }
    )
    stored = frame_columns.document(
        {
            "one": frame_columns.FrameView(
                frame, origin=pl.Series([2**60, 2**60]), docs={"share": "a part"}
            )
        }
    )
    found = {column["name"]: column for column in stored["frames"]["one"]["columns"]}

    assert found["start_ns"]["values"] == [5, None]
    assert found["start_ns"]["bases"] == [str(2**60)]
    assert [stored["texts"][id_] for id_ in found["address"]["ids"]] == [str(2**60), "1"]
    assert found["share"]["values"] == [0.5, None]
    assert (found["share"]["sort"], found["share"]["doc"]) == ("share", "a part")
    assert [stored["texts"][id_] for id_ in found["ids"]["ids"] if id_ is not None] == ["1, 2"]


def test_very_long_texts_are_cut_until_they_fit() -> None:
    names = [f"{number:05}{'x' * 3000}" for number in range(3000)] + ["\x1b[31m" + "x" * 3000]
    stored = frame_columns.document({"one": frame_columns.FrameView(pl.DataFrame({"name": names}))})
    assert sum(map(len, stored["texts"])) < 3_200_000
    assert stored["texts"][0].startswith("\\x1b[31mxxx")
    assert stored["texts"][1].endswith("x... (3,005 characters)")


def test_answers_are_asked_once(trace: Trace) -> None:
    with trace.session() as same:
        times = same.self_times()
        assert same.self_times() is times
        assert same.queue_depth(points=10) is not same.queue_depth()
        step = same.filter(steps=2)
        assert step.self_times().height < times.height
    assert times.equals(trace.self_times())


def test_a_name_of_another_form_is_refused_at_once(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profframe.trace.report.SECTIONS", {})  # nothing is computed before
    trace = profframe.load(root / "examples" / "cpu_training.json.gz")
    with pytest.raises(ExportError, match="choose another ending"):
        trace.report(tmp_path / "report.pftrace")
    assert not [*tmp_path.iterdir()]


def test_counters_lines_and_ranks_have_their_tables(tmp_path: Path) -> None:
    """Each has the rows of its answer, and is there only if it has some."""
    for rank in (0, 1):
        text = json.dumps({"distributedInfo": {"rank": rank}, "traceEvents": _RANK})
        (tmp_path / f"rank{rank}.json").write_text(text)
    both = profframe.load([str(tmp_path / f"rank{rank}.json") for rank in (0, 1)], run="r")
    sections = ["operators", "counters", "ranks", "time"]
    both.report(tmp_path / "page.html", sections=sections, per="rank")
    tables = tables_of(data(tmp_path / "page.html"))
    named = {"counter_series.counter", "counters_by_op.op", "python_lines", "pipeline_actions"}
    assert named | {"pipeline_bubbles", "input_balance", "utilization"} <= tables.keys()
    assert not {"expert_balance", "collective_traffic"} & tables.keys()
    check_numbers(tables, both)
    assert [row["stage"] for row in tables["pipeline_actions"]] == ["0", "0"]


def test_rows_of_a_report_can_be_told_apart(tmp_path: Path) -> None:
    """Kernels of one function, copies and kernels that copy, and work in no line have names."""
    work = [
        ("kernel", "void add<Half>(int*)", 30),
        ("kernel", "void add<Double>(int*)", 40),
        ("kernel", "void direct_copy_kernel(int*)", 50),
        ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 60),
    ]
    events = [_slice("python_function", "train.py(3): main", 0, 10)]
    for number, (kind, name, start) in enumerate(work):
        ids = {"correlation": number}
        events.append(_slice("cuda_runtime", "cudaLaunchKernel", 5 * number, 2, **ids))
        events.append(_slice(kind, name, start, 8 - number, 7, **ids, device=0, stream=7))
    (tmp_path / "trace.json").write_text(json.dumps({"traceEvents": events}))
    profframe.load(tmp_path / "trace.json").report(
        tmp_path / "page.html", sections=["operators", "kernels"]
    )
    tables = tables_of(data(tmp_path / "page.html"))

    def column(table: str, name: str) -> list[str]:
        return [row[name] for row in tables[table]]

    copy = "Memcpy HtoD (Pinned -> Device)"
    kernels = ["add [Half]", "add [Double]", "direct_copy_kernel"]
    assert [n for n in column("self_times", "name") if n[0] in "adM"] == [*kernels, copy]
    assert column("kernels", "short_name") == kernels
    assert column("kernel_categories", "category")[-2:] == ["copy", "memcpy"]
    assert column("python_lines", "name") == ["train.py(3): main", "(no line of your own code)"]


def test_code_in_a_suggestion_is_code(tmp_path: Path) -> None:
    trace = profframe.load(ROOT / "examples" / "gpu_training.json.gz")
    trace.report(tmp_path / "page.html", sections="overview")
    text = (tmp_path / "page.html").read_text()
    assert "; <code>roofline</code> has the limit of each kernel." in text


def _slice(kind: str, name: str, ts: int, dur: int, tid: int = 1, **args: object) -> dict[str, Any]:
    times = {"ts": ts, "dur": dur}
    return {"ph": "X", "cat": kind, "name": name, "pid": 1, "tid": tid, **times, "args": args}


_RANK: Final = [
    _slice("python_function", "train.py(3): main", 0, 100),
    _slice("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1, 5),
    _slice("user_annotation", "PP:0F0", 10, 40),
    _slice("cpu_op", "aten::mm", 12, 20),
    _slice("cuda_runtime", "cudaLaunchKernel", 14, 4, correlation=1),
    _slice("kernel", "gemm", 30, 15, 7, correlation=1, device=0, stream=7),
    _slice("cuda_profiler_range", "range", 13, 2, fma=3),
    {"ph": "C", "name": "memory", "pid": 1, "ts": 5, "args": {"used": 4}},
    {"ph": "C", "name": "memory", "pid": 1, "ts": 9, "args": {"used": 6}},
]
