"""Trees of host slices as text, against recursion over parents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe.errors import AnswerError, ParameterError, UnknownNameError
from profframe.show.tree_text import Tree, fitted
from profframe.trace.trace import Trace
from tests.builders import Row, event, loaded, stored, together
from tests.conftest import Run

EXAMPLE = str(Path(__file__).parent.parent.parent / "examples" / "cpu_training.json.gz")
TRAINING = (
    event("ProfilerStep#1", 0, 1000, category="user_annotation"),
    event("aten::linear", 100, 600),
    event("aten::addmm", 200, 500),
    event("cudaLaunchKernel", 300, 400, category="cuda_runtime", correlation=7),
    event("aten::relu", 700, 800),
    event("autograd", 50, 5050, thread=1),
    event("sgemm", 1000, 4000, category="kernel", thread=2, correlation=7, device=0, stream=7),
)
WHOLE = """\
   total      self    device        %  event  name
thread 1: pid 1, tid 1
5.000 us  5.000 us  0.000 us  100.0 %      5  autograd
thread 0: pid 1, tid 0, main
1.000 us  0.400 us  3.000 us  100.0 %      0  ProfilerStep#1
0.500 us  0.200 us  3.000 us   50.0 %      1    aten::linear
0.300 us  0.200 us  3.000 us   30.0 %      2      aten::addmm
0.100 us  0.100 us  0.000 us   10.0 %      3        cudaLaunchKernel
0.100 us  0.100 us  0.000 us   10.0 %      4    aten::relu"""
ADDMM = """\
   total      self    device        %  event  name
0.300 us  0.200 us  3.000 us  100.0 %      2  aten::addmm
0.100 us  0.100 us  0.000 us   33.3 %      3    cudaLaunchKernel"""


NO_SLICE = (
    "event 6 ('sgemm', kernel) is not a host slice that nests, so it has no tree; "
    "event 3 launched it"
)


traced = partial(loaded, threads=[{"thread": 0, "thread_name": "main"}])


@pytest.fixture(scope="module")
def trace() -> Trace:
    """A step with a launch on one thread, one slice on another."""
    return traced(*TRAINING)


def events_of(tree: str) -> list[tuple[int, int, int]]:
    """Event, level and hidden slices of each line."""
    head, *lines = tree.splitlines()
    end = head.index("event  name") + len("event")
    found = []
    for line in lines:
        if not line.startswith(("thread ", "not shown: ")):
            inside = re.search(r"\(\+([\d,]+) inside\)$", line)
            indent = len(line[end:]) - len(line[end:].lstrip())
            hidden = int(inside[1].replace(",", "")) if inside else 0
            found.append((int(line[:end].split()[-1]), indent // 2 - 1, hidden))
    return found


def hidden_below(tree: str) -> int:
    last = re.fullmatch(r"not shown: ([\d,]+) slices?;.*", tree.splitlines()[-1])
    return int(last[1].replace(",", "")) if last else 0


def test_all_threads_the_busiest_first(trace: Trace) -> None:
    assert str(trace.tree()) == WHOLE


def test_one_event_is_the_root(trace: Trace) -> None:
    assert str(trace.tree(2)) == ADDMM


def test_deeper_slices_are_counted(trace: Trace) -> None:
    shallow = trace.tree(0, depth=1)
    assert events_of(shallow) == [(0, 0, 0), (1, 1, 2), (4, 1, 0)]
    assert shallow.splitlines()[-1] == (
        "not shown: 2 slices; ask for a larger depth or top, or for one event"
    )
    assert events_of(trace.tree(0, depth=0)) == [(0, 0, 4)]


def test_as_many_levels_as_fit(trace: Trace) -> None:
    assert events_of(trace.tree(top=4)) == [(5, 0, 0), (0, 0, 0), (1, 1, 2), (4, 1, 0)]
    assert events_of(trace.tree(top=3)) == [(5, 0, 0), (0, 0, 4)]


def test_rows_are_limited(trace: Trace) -> None:
    some = trace.tree(depth=9, top=3)
    assert events_of(some) == [(5, 0, 0), (0, 0, 0), (1, 1, 0)]
    assert hidden_below(some) == 3
    assert str(trace.tree(top=0)) == WHOLE


def test_no_column_for_devices_without_device_time() -> None:
    assert str(traced(event("f", 0, 0), event(None, 5, 1_000_000_005)).tree()) == (
        "   total      self        %  event  name\n"
        "0.000 us  0.000 us               0  f\n"
        "1.000 s   1.000 s   100.0 %      1  (no name)"
    )


def test_nothing_to_draw(trace: Trace) -> None:
    assert str(trace.filter(kinds="kernel").tree()).startswith(
        "no rows: the filter leaves no host sl"
    )
    assert stored().tree().startswith("no rows: no host slices in this trace; record with")


def test_names_do_nothing_and_stay_on_their_line() -> None:
    hostile = "a\x1b[31m\nb\u202e<b>\r" + "x" * 10_000
    drawn = traced(event(hostile, 0, 10), event("[red]", 2, 4)).tree()
    assert len(drawn.splitlines()) == 3
    assert max(map(len, drawn.splitlines())) < 200
    assert r"a\x1b[31m\nb\u202e<b>\r" in drawn
    assert "<b>" not in drawn._repr_html_()


def test_it_shows_itself(trace: Trace) -> None:
    drawn = trace.tree(1)
    assert isinstance(drawn, Tree)
    assert repr(drawn) == str(drawn) == f"{drawn}"
    assert "<pre>   total" in drawn._repr_html_()


def test_one_trace_of_several(tmp_path: Path) -> None:
    both = together(traced(*TRAINING), traced(event("other", 0, 10), rank=1))
    with pytest.raises(
        ParameterError, match=r"there are 2 \(run 'r', ranks 0, 1\); choose a run and a rank"
    ):
        both.tree()
    assert str(both.tree(rank=0)) == WHOLE
    assert events_of(both.tree(0, rank=1, run="r")) == [(0, 0, 0)]
    both.to_parquet(tmp_path / "store")
    assert str(Trace.from_store(tmp_path / "store").tree(run="r", rank=0)) == WHOLE


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"event_id": 7}, UnknownNameError, "no event 7; they are 0 to 6"),
        ({"event_id": -1}, UnknownNameError, "no event -1; they are 0 to 6"),
        ({"event_id": 6}, ParameterError, NO_SLICE),
        (
            {"event_id": 1.5},
            ParameterError,
            "event_id: needs 64-bit integers (whole numbers), got 1.5",
        ),
        ({"depth": -1}, ParameterError, "depth: needs 0 or more levels, got -1"),
        ({"top": "all"}, ParameterError, "top: needs 64-bit integers (whole numbers), got 'all'"),
        ({"rank": 3}, UnknownNameError, "no rank 3 (known: 0)"),
    ],
)
def test_errors_say_what_there_is(
    trace: Trace, arguments: dict[str, int], error: type[AnswerError], message: str
) -> None:
    with pytest.raises(error) as raised:
        trace.tree(**arguments)  # type: ignore[arg-type]
    assert str(raised.value) == message


def test_levels_may_be_missing() -> None:
    nested = [event("op", 0, 9), event("note", 1, 8, category="user_annotation"), event("op", 2, 7)]
    drawn = traced(*nested).filter(kinds="host_op").tree(0)
    assert events_of(drawn) == [(0, 0, 0), (2, 2, 0)]
    assert hidden_below(drawn) == 0


def test_numbers_of_any_integer_type(trace: Trace) -> None:
    drawn = trace.tree(np.int64(2), np.int32(1), top=np.int8(9))  # type: ignore[arg-type]
    assert str(drawn) == ADDMM


def test_filtered_traces_have_what_is_left(trace: Trace) -> None:
    ops = trace.filter(kinds="host_op")
    assert events_of(ops.tree()) == [(5, 0, 0), (1, 0, 0), (2, 1, 0), (4, 0, 0)]
    assert [line for line in ops.tree().splitlines() if "aten::relu" in line] == [
        "0.100 us  0.100 us  0.000 us               4  aten::relu"
    ]
    assert events_of(trace.filter(end_ns=250).tree(0)) == [(0, 0, 0), (1, 1, 0), (2, 2, 0)]


SLICES = st.builds(
    lambda start, dur, thread: event("f", start, start + dur, thread=thread),
    st.integers(0, 20),
    st.integers(0, 20),
    st.integers(0, 2),
)


@given(st.lists(SLICES, min_size=1, max_size=20), st.integers(0, 4), st.integers(1, 25))
def test_as_recursion_over_parents(events: list[Row], depth: int, top: int) -> None:
    trace = traced(*events)
    rows = trace.events.sort("preorder").to_dicts()
    children: dict[int | None, list[int]] = {}
    for row in rows:
        children.setdefault(row["parent_id"], []).append(row["event_id"])

    def size(event_id: int) -> int:
        return 1 + sum(size(child) for child in children.get(event_id, []))

    def walk(event_id: int, level: int) -> Iterator[tuple[int, int, int]]:
        inside = size(event_id) - 1
        yield event_id, level, inside if level == depth else 0
        if level < depth:
            for child in children.get(event_id, []):
                yield from walk(child, level + 1)

    of = {row["event_id"]: row for row in rows}
    busy = dict.fromkeys((row["thread"] for row in rows), 0)
    for root in children.get(None, []):
        busy[of[root]["thread"]] += of[root]["dur_ns"]
    roots = sorted(
        children.get(None, []),
        key=lambda i: (-busy[of[i]["thread"]], of[i]["thread"], of[i]["preorder"]),
    )
    expected = [line for root in roots for line in walk(root, 0)]

    drawn = trace.tree(depth=depth, top=top)
    assert events_of(drawn) == expected[:top]
    assert hidden_below(drawn) == len(rows) - min(top, len(expected))
    for root in roots[-2:]:
        assert events_of(trace.tree(root, depth=depth)) == list(walk(root, 0))


@pytest.mark.parametrize(
    ("width", "names"),
    [
        (38, ["ProfilerStep#1", "  aten::zeros", "    hipGetDevicePropertiesR0600"]),
        (31, ["ProfilerStep#1", "  aten::zeros", "    hipGetDevice…esR0600"]),
        (24, ["ProfilerStep#1", "aten::zeros", " hipGetDev…sR0600"]),
    ],
)
def test_names_fit_a_width_and_stay_below_each_other(width: int, names: list[str]) -> None:
    whole = ["ProfilerStep#1", "  aten::zeros", "    hipGetDevicePropertiesR0600"]
    lines = [f"    {number}  {name}" for number, name in enumerate(whole)]
    text = "\n".join(["event  name", "thread 1: pid 597913, tid 597913", *lines])
    expected = [f"    {number}  {name}" for number, name in enumerate(names)]
    assert fitted(text, width).split("\n")[2:] == expected


class TestCommandLine:
    def test_tree_is_a_verb(self, run: Run) -> None:
        code, out, _ = run("tree", EXAMPLE, "--event", 0, "--depth", 1)
        assert code == 0
        head, step, load, *_ = out.splitlines()
        assert head.split() == ["total", "self", "%", "event", "name"]
        assert step.endswith("  ProfilerStep#1")
        assert load.endswith("    load batch  (+6 inside)")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--event", "999999"], "no event 999999; they are 0 to 6243"),
            (["--rank", "4"], "no rank 4 (known: 0)"),
            (["--run", "x"], "no run named 'x'"),
        ],
    )
    def test_errors_are_one_line(self, arguments: list[str], message: str, run: Run) -> None:
        code, out, err = run("tree", EXAMPLE, *arguments)
        assert (code, out) == (1, "")
        assert re.fullmatch(rf"error: .*{re.escape(message)}.*\n", err)

    def test_device_slices_have_no_tree(self, tmp_path: Path, run: Run) -> None:
        store = tmp_path / "store"
        stored(events=[{"kind": "kernel", "name": "sgemm"}], traces=[{}]).to_parquet(store)
        code, _, err = run("tree", store, "--event", 0)
        assert code == 1
        assert "is not a host slice that nests" in err
