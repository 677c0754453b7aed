"""Asynchronous operations are slices; arrows know the slices that they are bound to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import profframe
from profframe import Trace
from tests.round_trip import differences, faults

Row = dict[str, Any]


def at(ph: str, ts: int | None, name: str | None = "x", **keys: Any) -> Row:
    row = {"ph": ph, "cat": "net", "name": name, "pid": 1, "tid": 1, "ts": ts} | keys
    return {key: value for key, value in row.items() if value is not None}


@pytest.fixture
def load(tmp_path: Path) -> Any:
    def load(*events: Row, **options: Any) -> Trace:
        path = tmp_path / "trace.json"
        path.write_text(json.dumps({"traceEvents": events}))
        return profframe.load(path, **options)

    return load


def slices(trace: Trace) -> list[tuple[Any, ...]]:
    """Name, id, start and duration in microseconds."""
    rows = trace.events.select("name", "async_id", "start_ns", "dur_ns").rows()
    return [
        (name, id_, start // 1000, None if dur is None else dur // 1000)
        for name, id_, start, dur in rows
    ]


def checks(trace: Trace) -> dict[str, tuple[int, int | None]]:
    rows = trace.quality.select("issue", "events", "example_event_id").rows()
    return {check: (events, example) for check, events, example in rows}


def test_pairs_are_slices_apart_from_the_stack_of_their_thread(load: Any) -> None:
    trace = load(
        at("X", 0, "around", dur=50),
        at("b", 10, "one", id=1),
        at("b", 12, "two", id=2),
        at("n", 13, "mark", id=1),
        at("e", 20, "one", id=1, tid=2),
        at("e", 60, "two", id=2),
        at("X", 15, "inside", dur=5),
    )
    assert slices(trace) == [
        ("around", None, 0, 50),
        ("one", "1", 10, 10),
        ("two", "2", 12, 48),
        ("inside", None, 15, 5),
    ]
    assert trace.events["is_async"].to_list() == [None, True, True, None]
    assert trace.events["parent_id"].to_list() == [None, None, None, 0]
    assert trace.events["self_ns"].to_list() == [45_000, None, None, 5_000]
    assert trace.instants.select("phase", "name", "instant_id").rows() == [("n", "mark", "1")]
    assert checks(trace) == {}
    (accounted,) = trace.traces["accounted"]
    assert json.loads(accounted) == {"events": 6, "instants": 1}


def test_those_of_one_id_nest_and_end_by_name(load: Any) -> None:
    trace = load(
        at("b", 0, "request", id="0xa", args={"url": "u"}),
        at("b", 1, "body", id="0xa"),
        at("e", 5, "request", id="0xa", args={"status": 200, "url": "u"}),
        at("e", 7, "body", id="0xa"),
        at("b", 8, "request", id="0xa"),
        at("e", 9, None, id="0xa"),
    )
    assert slices(trace) == [
        ("request", "0xa", 0, 5), ("body", "0xa", 1, 6), ("request", "0xa", 8, 1),
    ]  # fmt: skip
    assert trace.events["args"].to_list() == ['{"url":"u","status":200}', None, None]


def test_an_id_is_of_its_category_and_scope_and_a_local_one_of_its_process(load: Any) -> None:
    local: Row
    everywhere: Row
    local, everywhere = {"id2": {"local": "0x1"}}, {"id2": {"global": "0x1"}}
    trace = load(
        at("b", 0, **local),
        at("b", 1, pid=2, **local),
        at("b", 2, **everywhere),
        at("b", 3, cat="other", id="0x1"),
        at("b", 4, id="0x1", scope="s"),
        at("e", 10, pid=2, id="0x1"),
        at("e", 11, **local),
        at("e", 12, pid=2, **local),
        at("e", 13, id="0x1", scope="s"),
        at("e", 14, cat="other", id="0x1"),
        at("b", 20, scope="s", **local),
        at("e", 21, scope="s", **local),
    )
    assert slices(trace) == [
        ("x", "local:0x1", 0, 11),
        ("x", "local:0x1", 1, 11),
        ("x", "0x1", 2, 8),
        ("x", "0x1", 3, 11),
        ("x", "s:0x1", 4, 9),
        ("x", "local:s:0x1", 20, 1),
    ]
    assert checks(trace) == {}


@pytest.mark.parametrize("key", [7, "7", "0x7"])
def test_a_local_id_is_written_as_it_was_read(load: Any, tmp_path: Path, key: int | str) -> None:
    local: Row = {"id2": {"local": key}}
    scoped: Row = {"scope": "s", **local}
    rows = [
        at("b", 0, **local), at("b", 1, **scoped), at("n", 2, **local), at("n", 3, **scoped),
        at("e", 4, **local), at("e", 5, **scoped), at("e", 6, id="local:7"),
    ]  # fmt: skip
    trace = load(*rows)
    assert slices(trace) == [("x", f"local:{key}", 0, 4), ("x", f"local:s:{key}", 1, 4)]
    trace.export_chrome_trace(tmp_path / "again.json")
    again = profframe.load(tmp_path / "again.json")
    assert differences(trace, again) == []
    written = json.loads((tmp_path / "again.json").read_text())["traceEvents"]
    ids = [{k: row[k] for k in ("id", "scope", "id2") if k in row} for row in written]
    assert sorted(ids, key=str) == sorted([local, scoped] * 3 + [{"id": "local:7"}], key=str)


def test_the_older_form_has_steps_that_stay_instants(load: Any) -> None:
    trace = load(
        at("S", 0, id=5),
        at("T", 3, id=5, args={"step": "sent"}),
        at("p", 4, id=5, args={"step": "came"}),
        at("F", 9, id=5),
        at("b", 0, id=5),
        at("F", 10, id=5),
    )
    assert slices(trace) == [("x", "5", 0, 9), ("x", "5", 0, None)]
    assert trace.instants["phase"].to_list() == ["T", "p", "F"]
    assert checks(trace) == {"unmatched_begin": (1, 1), "unmatched_end": (1, None)}


def test_what_has_no_other_half_is_kept_and_counted(load: Any) -> None:
    trace = load(
        at("e", 1, "early", id=1),
        at("X", 2, dur=1),
        at("b", 3, "never ends", id=1),
        at("b", 4, "has no id"),
        at("e", 6, "has no id"),
        at("b", None, "has no time", id=1),
    )
    assert trace.events.select("name", "async_id").rows() == [
        ("x", None), ("never ends", "1"), ("has no id", ""), ("has no time", "1"),
    ]  # fmt: skip
    assert trace.events["dur_ns"].to_list() == [1000, None, 2000, None]
    counts = trace.quality.filter(issue="unmatched_begin")
    assert counts.select("events", "example_event_id").rows() == [(2, 1)]
    assert counts["detail"][0].endswith("asynchronous")
    assert trace.instants.select("phase", "name", "instant_id").rows() == [("e", "early", "1")]


def test_an_end_of_another_name_is_counted(load: Any) -> None:
    trace = load(
        at("X", 0, "first", dur=1),
        at("B", 1, "f"),
        at("B", 2, "g"),
        at("E", 3, "h"),
        at("E", 4, None),
    )
    (row,) = trace.quality.to_dicts()
    assert (row["issue"], row["events"], row["example_event_id"]) == ("end_of_another_name", 1, 2)
    assert row["detail"].endswith("first 'g', which 'h' closes")
    assert slices(trace)[1:] == [("f", None, 1, 3), ("g", None, 2, 1)]


@pytest.mark.parametrize("name", [None, ""])
def test_an_end_without_a_name_closes_what_is_open(load: Any, name: str | None) -> None:
    trace = load(
        at("b", 0, "request", id="1"),
        at("e", 5, name, id="1"),
        at("B", 6, "f"),
        at("E", 9, name),
    )
    assert slices(trace) == [("request", "1", 0, 5), ("f", None, 6, 3)]
    assert not trace.quality.height


Event = tuple[str, int, int, str]
"""Phase, time, id and name."""
EVENTS: Final = st.lists(
    st.tuples(st.sampled_from("be"), st.integers(0, 9), st.integers(1, 2), st.sampled_from("fg")),
    max_size=24,
)


def by_stacks(events: list[Event]) -> dict[int, int | None]:
    """For each begin its duration, by a stack for each id and name."""
    found: dict[int, int | None] = {}
    stacks: dict[tuple[int, str], list[int]] = {}
    for number in sorted(range(len(events)), key=lambda i: events[i][1]):
        phase, time, id_, name = events[number]
        stack = stacks.setdefault((id_, name), [])
        if phase == "b":
            stack.append(number)
            found[number] = None
        elif stack:
            begin = stack.pop()
            found[begin] = time - events[begin][1]
    return dict(sorted(found.items()))


@given(EVENTS)
def test_pairs_are_those_of_stacks_and_come_back_from_a_file(
    tmp_path_factory: pytest.TempPathFactory, events: list[Event]
) -> None:
    folder = tmp_path_factory.mktemp("async")
    path = folder / "trace.json"
    rows = [at(phase, time, name, id=id_) for phase, time, id_, name in events]
    path.write_text(json.dumps({"traceEvents": [at("X", 0, dur=1), *rows]}))
    trace = profframe.load(path)
    expected = by_stacks(events)
    assert [row[3] for row in slices(trace)[1:]] == [*expected.values()]
    trace.export_chrome_trace(folder / "again.json")
    assert faults(folder / "again.json") == []
    assert differences(trace, profframe.load(folder / "again.json")) == []


ARROWS: Final = [
    at("X", 0, "outer", dur=100),
    at("X", 10, "left", dur=20),
    at("X", 0, "line", dur=100, tid=2),
    at("X", 40, "right", dur=10, tid=2),
    at("X", 45, "within", dur=2, tid=2),
    at("b", 20, "apart", id=3),
    at("e", 30, "apart", id=3),
]


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ({"ph": "s", "ts": 15}, "left"),
        ({"ph": "s", "ts": 30}, "left"),
        ({"ph": "s", "ts": 31}, "outer"),
        ({"ph": "t", "ts": 46, "tid": 2}, "within"),
        ({"ph": "f", "ts": 30, "tid": 2}, "right"),
        ({"ph": "f", "ts": 40, "tid": 2}, "right"),
        ({"ph": "f", "ts": 41, "tid": 2}, "within"),
        ({"ph": "f", "ts": 46, "tid": 2}, None),
        ({"ph": "f", "ts": 46, "tid": 2, "bp": "e"}, "within"),
        ({"ph": "f", "ts": 90, "tid": 2, "bp": "e"}, "line"),
        ({"ph": "s", "ts": 101}, None),
        ({"ph": "s", "ts": 15, "tid": 7}, None),
        ({"ph": "s", "ts": 25}, "left"),
    ],
)
def test_an_end_is_bound_to_a_slice_by_the_rules_of_the_format(
    load: Any, keys: Row, name: str | None
) -> None:
    trace = load(*ARROWS, at("s", 0, "arrow", id=1) | keys)
    (bound,) = trace.flows["event_id"]
    assert (None if bound is None else trace.events["name"][bound]) == name


def test_of_slices_that_start_at_once_the_id_tells_which(load: Any) -> None:
    """In whole microseconds a launch begins with its op, and a kernel with the one before it."""
    ids = {"correlation": 7}
    kernel = {"cat": "kernel", "pid": 0, "tid": 9}
    trace = load(
        at("X", 10, "op", dur=10, cat="cpu_op"),
        at("X", 10, "launch", dur=4, cat="cuda_runtime", args=ids),
        at("X", 10, "driver", dur=2, cat="cuda_driver", args={"correlation": 8}),
        at("X", 30, "before", dur=0, args={"correlation": 6}, **kernel),
        at("X", 30, "mine", dur=5, args=ids, **kernel),
        at("X", 30, "third", dur=0, args={"correlation": 9}, **kernel),
        at("s", 10, "ac2g", cat="ac2g", id=7),
        at("f", 30, "ac2g", id=7, bp="e", **kernel | {"cat": "ac2g"}),
    )
    assert [trace.events["name"][i] for i in trace.flows["event_id"]] == ["launch", "mine"]


def test_slices_name_arrows_themselves(load: Any, tmp_path: Path) -> None:
    trace = load(
        at("X", 0, "a", dur=1, bind_id="0x7", flow_out=True, args={"k": 1}),
        at("X", 5, "b", dur=1, bind_id="0x7", flow_in=True, flow_out=True),
        at("X", 9, "c", dur=1, tid=2, bind_id="0x7", flow_in=True),
        at("X", 9, "d", dur=1, tid=3, bind_id="0x7"),
        at("s", 0, "arrow", id=1),
    )
    columns = ("flow_id", "phase", "name", "time_ns", "binding_point", "event_id")
    assert trace.flows.select(columns).rows() == [
        ("1", "s", "arrow", 0, None, 0),
        ("0x7", "s", "a", 0, "bind_id", 0),
        ("0x7", "t", "b", 5000, "bind_id", 1),
        ("0x7", "f", "c", 9000, "bind_id", 2),
    ]
    assert json.loads(trace.traces["accounted"][0]) == {"events": 4, "flows": 1}
    trace.export_chrome_trace(tmp_path / "again.json")
    assert differences(trace, profframe.load(tmp_path / "again.json")) == []
    written = json.loads((tmp_path / "again.json").read_text())["traceEvents"]
    assert [row.get("flow_out") for row in written] == [True, True, None, None, None]


def test_a_store_and_a_file_read_in_pieces_have_the_same(load: Any, tmp_path: Path) -> None:
    many = [
        at(phase, 10 * n + length, f"op {n % 7}", id=n, tid=n % 3)
        for n in range(3000)
        for phase, length in (("b", 0), ("e", n % 50))
    ]
    linked = [at("X", 5, "y", dur=1, bind_id=4, flow_out=True)]
    trace = load(*many, *linked)
    assert [row[3] for row in slices(trace)[:3000]] == [n % 50 for n in range(3000)]
    profframe.convert([tmp_path / "trace.json"], tmp_path / "store")
    stored = profframe.load(tmp_path / "store")
    assert differences(trace, stored, {"content_hash", "convert_options", "source"}) == []
