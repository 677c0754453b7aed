"""Work in replays of graphs gets the Python stacks that torch saved of its nodes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from profframe import Trace, convert, load
from profframe.errors import NotATraceError, SourceError
from profframe.readers.bytes import ByteSource
from profframe.readers.graph_stacks import reading
from tests.builders import event
from tests.conftest import Run
from tests.graphs import calls, capture_rows, chrome
from tests.stack_files import node, rows_of, save, stack, work, write_replays

MAIN = ("/home/u/run.py", 3, "main")
ATTN = stack(("/home/u/model.py", 12, "attn"), ("/home/u/model.py", 40, "forward"), MAIN)
MLP = stack(("/home/u/model.py", 20, "mlp"), ("/home/u/model.py", 41, "forward"), MAIN)
NORM = stack(("/home/u/model.py", 13, "attn"), ("/home/u/model.py", 40, "forward"), MAIN)
LINES = {
    "/home/u/model.py(12): attn": 2, "/home/u/model.py(13): attn": 4,
    "/home/u/model.py(20): mlp": 14,
}  # fmt: skip
ATTN_TEXT = "/home/u/model.py(12): attn;/home/u/model.py(40): forward;/home/u/run.py(3): main"


def graph_7(*, is_whole: bool = False) -> list[tuple[str, dict[str, Any]]]:
    return [
        work("gemm", 7, 0, is_whole=is_whole),
        work("norm", 7, 1, is_whole=is_whole),
        work("gemm", 7, 2, is_whole=is_whole, module_fqn="layers.0.mlp"),
        work("act", 7, 3, is_whole=is_whole, name="x", module_fqn="layers.1.mlp"),
    ]


STACKS = {node(7, 0): ATTN, node(7, 1): NORM, node(7, 2): MLP, node(7, 3): MLP}


@pytest.fixture
def replays(tmp_path: Path) -> Path:
    """Two replays of graph 7."""
    return write_replays(tmp_path / "replays.json", graph_7(), graph_7())


@pytest.fixture
def stacks(tmp_path: Path) -> Path:
    """Stacks of all its nodes."""
    return save(tmp_path / "stacks.json.gz", STACKS)


def of_work(trace: Trace) -> list[tuple[str, str | None, str | None]]:
    """Name, stack and way of each piece of device work."""
    rows = trace.sql("""
        SELECT name, python_stack, attributed_by FROM events
        WHERE kind IN ('kernel', 'memcpy', 'memset') ORDER BY event_id
    """)
    return rows.rows()


def issues(trace: Trace) -> dict[str, int]:
    """Counts of the checks about stacks."""
    return dict(
        trace.sql("""
            SELECT issue, sum(events)::BIGINT FROM quality WHERE issue LIKE '%stack%' GROUP BY issue
        """).rows()
    )


@pytest.mark.parametrize("is_whole", [True, False], ids=["Kineto", "Cuspy"])
def test_lines_modules_and_launch_sites(tmp_path: Path, stacks: Path, is_whole: bool) -> None:
    path = write_replays(tmp_path / "r.json", *[graph_7(is_whole=is_whole)] * 2)
    trace = load(path, captures=stacks)
    assert issues(trace) == {}
    assert of_work(trace)[0] == ("gemm", ATTN_TEXT, "graph_stack")
    assert {way for *_, way in of_work(trace)} == {"graph_stack"}
    captured = trace.sql("SELECT DISTINCT replays, pid FROM events WHERE replays IS NOT NULL")
    assert captured.rows() == [(2, "captured graphs")]
    lines = trace.python_lines()
    own = {row["name"]: row["self_device_ns"] for row in lines.to_dicts() if row["self_device_ns"]}
    assert own == LINES
    [outer] = lines.filter(name="/home/u/run.py(3): main").to_dicts()
    assert (outer["calls"], outer["kernels"], outer["device_ns"]) == (None, 8, 20)
    modules = trace.modules().select("name", "calls", "kernels", "device_ns", "self_device_ns")
    assert modules.rows() == [
        ("layers", None, 4, 14, 0),
        ("layers.1", None, 2, 8, 0),
        ("layers.1.mlp", None, 2, 8, 8),
        ("layers.0", None, 2, 6, 0),
        ("layers.0.mlp", None, 2, 6, 6),
    ]
    op_kernels = trace.op_kernels().select("name", "kind", "launch_site", "calls", "device_ns")
    assert op_kernels.rows() == [
        ("x", "annotation", None, 2, 8),
        ("layers.0.mlp", "annotation", None, 2, 6),
        ("hipGraphLaunch", "runtime", "/home/u/model.py(13): attn", 2, 4),
        ("hipGraphLaunch", "runtime", "/home/u/model.py(12): attn", 2, 2),
    ]
    kernels = trace.kernels().select("name", "top_op", "launch_site", "launch_site_share").rows()
    assert ("norm", None, "/home/u/model.py(13): attn", 1.0) in kernels
    assert ("gemm", "layers.0.mlp", "/home/u/model.py(12): attn", 0.25) in kernels


def test_gaps_inside_a_replay_are_of_the_captured_line(replays: Path, stacks: Path) -> None:
    """Gaps of 9, 8 and 7 ns in each replay, and one of 966 between them, which is the host's."""
    trace = load(replays, captures=stacks)
    idle = trace.idle(by="line").select("name", "gaps", "idle_ns", "max_ns").rows()
    assert idle == [
        (None, 1, 966, 966),
        ("/home/u/model.py(20): mlp", 4, 30, 8),
        ("/home/u/model.py(13): attn", 2, 18, 9),
    ]
    modules = dict(trace.idle(by="module").select("name", "idle_ns").rows())
    assert modules == {None: 984, "layers.0.mlp": 16, "layers.1.mlp": 14}
    assert trace.idle(by="line")["idle_ns"].sum() == load(replays).idle(by="line")["idle_ns"].sum()


def test_the_module_of_annotated_work_without_stacks(replays: Path) -> None:
    trace = load(replays)
    modules = dict(trace.modules().select("name", "self_device_ns").rows())
    assert modules == {
        "layers": 0, "layers.0": 0, "layers.0.mlp": 6, "layers.1": 0, "layers.1.mlp": 8,
    }  # fmt: skip
    by_sql = trace.sql("""
        SELECT module_hierarchy, sum(dur_ns)::BIGINT FROM events WHERE kind = 'kernel'
        GROUP BY 1 ORDER BY 1 NULLS LAST
    """)
    assert by_sql.rows() == [("layers.0.mlp", 6), ("layers.1.mlp", 8), (None, 6)]


def test_an_annotation_without_a_module(tmp_path: Path) -> None:
    """Torch writes None as a text."""
    path = write_replays(tmp_path / "r.json", [work("gemm", 7, 0, name="x", module_fqn="None")])
    assert load(path).modules().height == 0


def test_modules_of_the_host_do_not_hide_those_of_graphs(tmp_path: Path) -> None:
    ids = '{"Python id": 1, "Python module id": 0}'
    module: dict[str, Any] = {"args": ids, "category": "python_function"}
    rows = [event("nn.Module: Net_0", 99_000, 150_000, **module), *rows_of([graph_7()])]
    path = tmp_path / "r.json"
    path.write_text(chrome(rows), encoding="utf-8")
    names = load(path).modules()["name"].to_list()
    assert {"nn.Module: Net_0", "layers.0.mlp"} <= {*names}


def test_a_capture_wins(tmp_path: Path, replays: Path, stacks: Path) -> None:
    names = [name for name, _ in graph_7()]
    capture = tmp_path / "capture.json"
    capture.write_text(chrome(capture_rows(calls(names), 0)), encoding="utf-8")
    for given in ([capture, stacks], [stacks, capture]):
        trace = load(replays, captures=given)
        assert {way for *_, way in of_work(trace)} == {"graph_name"}
        assert "/home/u/run.py(3): main" not in trace.python_lines()["name"].to_list()
        assert issues(trace) == {}
        modules = trace.sql("SELECT name, module_hierarchy FROM events WHERE kind = 'host_op'")
        assert dict(modules.rows())["op2"] == "layers.0.mlp"


def test_stacks_for_what_a_capture_does_not_explain(tmp_path: Path, stacks: Path) -> None:
    """The capture is of another graph, so nothing is known by it."""
    capture = tmp_path / "capture.json"
    capture.write_text(chrome(capture_rows(calls(["conv", "act"]), 0)), encoding="utf-8")
    other = [work("conv", 8, 0), work("act", 8, 1)]
    path = write_replays(tmp_path / "r.json", graph_7(), other)
    trace = load(path, captures=[capture, stacks])
    ways = [way for *_, way in of_work(trace)]
    assert ways == ["graph_stack"] * 4 + ["graph_name"] * 2
    assert issues(trace) == {}


def test_a_folder_of_both_and_of_other_files(tmp_path: Path, replays: Path) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    save(folder / "stacks.json.gz", STACKS)
    capture = chrome(capture_rows(calls(["conv", "act"]), 0))
    (folder / "capture.json").write_text(capture, encoding="utf-8")
    (folder / "readme.txt").write_text("captures of today", encoding="utf-8")
    trace = load(replays, captures=folder)
    assert {way for *_, way in of_work(trace)} == {"graph_stack"}
    assert trace.quality.filter(issue="skipped_file").height == 1


class TestWhatFitsNothing:
    def test_another_graph(self, replays: Path, tmp_path: Path) -> None:
        """As with ``key_by="source"``, where the number is that of the graph before it is made."""
        other = save(tmp_path / "s.json.gz", {node(6, n): ATTN for n in range(4)})
        trace = load(replays, captures=other)
        assert {text for _, text, _ in of_work(trace)} == {None}
        assert issues(trace) == {"stack_without_kernel": 4, "kernel_without_stack": 8}
        details = " ".join(trace.quality["detail"].to_list())
        assert "keyed by source" in details
        assert "(graphs 6)" in details
        assert "no stacks of their graphs" in details

    def test_another_node(self, replays: Path, tmp_path: Path) -> None:
        other = save(tmp_path / "s.json.gz", {node(7, 0): ATTN, node(7, 9): NORM})
        trace = load(replays, captures=other)
        assert [text is not None for _, text, _ in of_work(trace)] == [
            True,
            False,
            False,
            False,
        ] * 2
        assert issues(trace) == {"stack_without_kernel": 1, "kernel_without_stack": 6}

    def test_a_node_whose_number_says_another_graph(self, tmp_path: Path, stacks: Path) -> None:
        odd = ("gemm", {"graph_node_id": node(7, 0), "args": '{"graph id": 8}'})
        path = write_replays(tmp_path / "r.json", [odd])
        trace = load(path, captures=stacks)
        assert of_work(trace)[0][1] is None
        assert issues(trace) == {"stack_without_kernel": 4, "kernel_without_stack": 1}

    def test_work_without_numbers(self, tmp_path: Path, stacks: Path) -> None:
        path = write_replays(tmp_path / "r.json", [("gemm", {}), ("act", {})])
        trace = load(path, captures=stacks)
        assert issues(trace) == {"stack_without_kernel": 4, "kernel_without_stack": 2}
        assert "does not say their nodes" in " ".join(trace.quality["detail"].to_list())

    def test_a_trace_without_graphs(self, tmp_path: Path, stacks: Path) -> None:
        path = tmp_path / "r.json"
        path.write_text(chrome([event("aten::mm", 0, 10)]), encoding="utf-8")
        assert issues(load(path, captures=stacks)) == {"stack_without_kernel": 4}

    def test_work_whose_launch_is_not_in_the_trace(self, tmp_path: Path, stacks: Path) -> None:
        rows = [row for row in rows_of([graph_7()]) if row["name"] != "hipGraphLaunch"]
        path = tmp_path / "r.json"
        path.write_text(chrome(rows), encoding="utf-8")
        trace = load(path, captures=stacks)
        assert {text for _, text, _ in of_work(trace)} == {None}
        assert issues(trace) == {"kernel_without_stack": 4}


class TestSeveralProcesses:
    def ranks(self, tmp_path: Path) -> list[Path]:
        return [write_replays(tmp_path / f"job_rank{rank}.json", graph_7()) for rank in range(2)]

    def test_each_rank_has_its_file(self, tmp_path: Path) -> None:
        """Their graphs have the same numbers."""
        files = [
            save(tmp_path / f"stacks_rank{rank}.json.gz", {**STACKS, node(7, 0): text})
            for rank, text in enumerate((ATTN, NORM))
        ]
        trace = load(self.ranks(tmp_path), captures=files)
        first = trace.sql("""
            SELECT rank, min_by(python_stack, event_id) FROM events
            WHERE kind = 'kernel' GROUP BY rank ORDER BY rank
        """)
        assert [text.partition(";")[0] for _, text in first.rows()] == [
            "/home/u/model.py(12): attn", "/home/u/model.py(13): attn",
        ]  # fmt: skip
        assert issues(trace) == {"stack_of_another_rank": 8}

    def test_a_file_without_a_rank_is_of_none_of_several(self, tmp_path: Path) -> None:
        trace = load(self.ranks(tmp_path), captures=save(tmp_path / "s.json.gz", STACKS))
        assert {text for _, text, _ in of_work(trace)} == {None}
        assert issues(trace) == {"stack_of_another_rank": 8}

    def test_one_trace_of_another_rank(self, tmp_path: Path) -> None:
        other = save(tmp_path / "s_rank1.json.gz", STACKS)
        trace = load(self.ranks(tmp_path)[0], captures=other)
        assert {text for _, text, _ in of_work(trace)} == {None}
        assert issues(trace) == {"stack_of_another_rank": 4}

    def test_one_trace_of_an_unknown_rank(self, tmp_path: Path, replays: Path) -> None:
        files = [save(tmp_path / f"s_rank{rank}.json.gz", STACKS) for rank in range(2)]
        assert issues(load(replays, captures=files[1])) == {}
        assert issues(load(replays, captures=files)) == {"stack_of_another_rank": 8}

    def test_two_files_that_disagree(self, tmp_path: Path, replays: Path, stacks: Path) -> None:
        other = save(tmp_path / "later.json.gz", {node(7, 0): MLP, node(7, 1): NORM})
        trace = load(replays, captures=[stacks, other])
        assert [text is not None for _, text, _ in of_work(trace)] == [False, True, True, True] * 2
        assert issues(trace) == {"stacks_disagree": 1, "kernel_without_stack": 2}
        details = " ".join(trace.quality["detail"].to_list())
        assert "stacks.json.gz, later.json.gz" in details
        assert "their stacks disagree" in details


def test_a_node_of_a_loop_runs_several_times(tmp_path: Path, stacks: Path) -> None:
    """The body of a loop has one node for each kernel, whose number its kernels share."""
    path = write_replays(tmp_path / "r.json", [graph_7()[0]] * 3)
    trace = load(path, captures=stacks)
    assert [text for _, text, _ in of_work(trace)] == [ATTN_TEXT] * 3


def test_a_part_of_a_trace_has_its_own_replays(replays: Path, stacks: Path) -> None:
    cut = load(replays, captures=stacks).filter(end_ns=100_900)
    own = dict(cut.python_lines().select("name", "self_device_ns").rows())
    assert {name: time for name, time in own.items() if time} == {
        name: time // 2 for name, time in LINES.items()
    }


@pytest.mark.parametrize(
    "frame",
    [
        ("C:\\work\\a b.py", 7, "f"),
        ("/srv/a:9:b.py", 7, "<lambda>"),
        ("<string>", 1, "<module>"),
        ("/srv/line\nbreak.py", 7, "f"),
        ("/srv/'; DROP TABLE events; --.py", 7, '"><script>alert(1)</script>'),
        ("/srv/\x00\x1b[31m\u202e.py", 7, "f"),
        ("/srv/\ud800.py", 7, "f\udfff"),
        ("/srv/🦙" + "x" * 5000 + ".py", 999_999_999, "é" * 1000),
        ("", 0, ""),
    ],
    ids=["Windows", "colons", "string", "break", "SQL", "control", "surrogates", "long", "empty"],
)
def test_hostile_frames(tmp_path: Path, frame: tuple[str, int, str]) -> None:
    path = write_replays(tmp_path / "r.json", [work("gemm", 7, 0)])
    stacks = save(tmp_path / "s.json.gz", {node(7, 0): stack(frame, MAIN)})
    trace = load(path, captures=stacks)
    assert issues(trace) == {}
    file, line, function = (
        str(part).encode("utf-8", "surrogatepass").decode("utf-8", "replace") for part in frame
    )
    rows = trace.sql("SELECT name FROM events WHERE kind = 'python' AND depth = 1").rows()
    assert rows == [(f"{file}({line}): {function}",)]
    assert trace.python_lines().height
    assert trace.op_kernels().height == 1
    assert str(trace.tree())


GOOD = {str(node(7, 1)): NORM}


@pytest.mark.parametrize(
    ("member", "value"),
    [
        *((str(node(7, 0)), value) for value in (7, 1.5, None, True, [ATTN], {"a": ATTN}, "", "x")),
        (str(node(7, 0)), "a.py:12"),
        (str(node(7, 0)), "a.py:-1:f"),
        (str(node(7, 0)), f"{ATTN}\nrest"),
        (str(node(7, 0)), "\n".join(["a.py:1:f"] * 2000)),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_members_that_are_no_stack(tmp_path: Path, replays: Path, member: str, value: Any) -> None:
    check_unreadable(replays, tmp_path / "s.json.gz", {member: value})


def test_members_that_are_of_no_node(tmp_path: Path, replays: Path) -> None:
    names = ("", "x", "-1", "0", "5", "1e3", " 30064771072", "0x1", "٣", "9" * 19, "9" * 5000)
    check_unreadable(replays, tmp_path / "s.json.gz", dict.fromkeys(names, ATTN))


def check_unreadable(replays: Path, path: Path, members: dict[str, Any]) -> None:
    """Each of the members is passed over and counted, and a good one beside them is read."""
    path.write_bytes(gzip.compress(json.dumps(GOOD | members).encode()))
    trace = load(replays, captures=path)
    assert [text is not None for _, text, _ in of_work(trace)] == [False, True, False, False] * 2
    assert issues(trace)["unreadable_stack"] == len(members)


def test_numbers_of_any_length(tmp_path: Path, replays: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps(GOOD)[:-1] + f', "4294967297": {"7" * 100_000}}}', encoding="utf-8")
    assert issues(load(replays, captures=path))["unreadable_stack"] == 1


def test_a_member_twice(tmp_path: Path, replays: Path) -> None:
    name = str(node(7, 0))
    for other, count in ((ATTN, 0), (MLP, 1)):
        path = tmp_path / "s.json"
        members = ", ".join(f'"{name}": {json.dumps(text)}' for text in (ATTN, other))
        path.write_text(f"{{{members}}}", encoding="utf-8")
        assert issues(load(replays, captures=path)).get("stacks_disagree", 0) == count


TEXT = json.dumps({str(key): value for key, value in STACKS.items()}).encode()


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(TEXT)[:-20],
        gzip.compress(TEXT)[:60],
        gzip.compress(TEXT)[:-4] + b"abcd",
        gzip.compress(TEXT[:-9]),
        TEXT[:-1],
        TEXT + b"]",
        TEXT[:30] + b"\xff" + TEXT[31:],
        TEXT[:-1] + b', "1": ' + b"[" * 100_000,
    ],
    ids=["cut", "cut early", "checksum", "cut text", "open", "more", "no UTF-8", "deep"],
)
def test_damaged_files_are_one_error_that_names_them(
    tmp_path: Path, replays: Path, data: bytes, run: Run
) -> None:
    path = tmp_path / "stacks of today.json.gz"
    path.write_bytes(data)
    with pytest.raises(SourceError) as caught:
        load(replays, captures=path)
    assert str(caught.value).count(str(path)) == 1
    assert len(str(caught.value).splitlines()) == 1
    code, _, message = run("show", str(replays), "--captures", str(path))
    assert code == 1
    assert path.name in message
    assert "Traceback" not in message


def test_every_cut_of_a_file_is_an_error(tmp_path: Path) -> None:
    whole = gzip.compress(TEXT)
    path = tmp_path / "s.json.gz"
    for size in range(30, len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(SourceError, match=r"s\.json\.gz"):
            reading.read(ByteSource(path))


def test_files_without_stacks_are_refused_by_name(tmp_path: Path, replays: Path) -> None:
    with pytest.raises(NotATraceError, match=r"s\.json\.gz: .*record_py_stacks"):
        load(replays, captures=save(tmp_path / "s.json.gz", {}))


def test_stacks_are_no_trace(stacks: Path) -> None:
    with pytest.raises(NotATraceError, match=r"Python stacks of graph kernels.*--captures"):
        load(stacks)


def _answers(trace: Trace) -> dict[str, pl.DataFrame]:
    return {
        "lines": trace.python_lines().drop("run"),
        "modules": trace.modules().drop("run"),
        "idle": trace.idle(by="line").drop("run"),
        "op_kernels": trace.op_kernels().drop("run"),
        "kernels": trace.kernels().drop("run"),
        "averages": trace.key_averages().drop("run"),
        "quality": trace.quality.drop("run"),
    }


def test_a_store_has_the_same(tmp_path: Path, replays: Path, stacks: Path) -> None:
    rows = convert(replays, tmp_path / "store", captures=stacks)
    assert rows["status"].to_list() == ["written"]
    stored, loaded = _answers(load(tmp_path / "store")), _answers(load(replays, captures=stacks))
    for name, frame in loaded.items():
        assert stored[name].equals(frame), name


def test_the_command_line(tmp_path: Path, replays: Path, stacks: Path, run: Run) -> None:
    store = str(tmp_path / "store")
    arguments = ("--captures", str(stacks))
    assert run("convert", str(replays), "-o", store, *arguments)[0] == 0
    asked = ("answer", "python_lines", "--format", "json")
    texts = [run(*asked, str(replays), *arguments)[1], run(*asked, store)[1]]
    own = [{row["name"]: row["self_device_ns"] for row in json.loads(text)} for text in texts]
    assert own[0] == own[1]
    assert {name: time for name, time in own[0].items() if time} == LINES
