"""Nodes and their threads, as lists of torch's own events name them."""

from __future__ import annotations

import json
from pathlib import Path

import profframe

REMOTE = " node_id:1, thread_id:3 "


def listed(name: str, start: int, end: int, tid: object, pid: str = "CPU functions") -> object:
    return {
        "name": name,
        "ph": "X",
        "ts": start,
        "dur": end - start,
        "tid": tid,
        "pid": pid,
        "args": {},
    }


def test_a_remote_event_has_its_node_and_a_thread_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text(
        json.dumps(
            [
                listed("aten::add", 0, 10, 3),
                listed("aten::mul", 2, 8, REMOTE),
                listed("aten::mm", 3, 7, REMOTE),
                listed("aten::mm", 3, 7, " node_id:2, thread_id:3 "),
            ]
        )
    )
    events = profframe.load(path).events
    assert events["node_id"].to_list() == [None, 1, 1, 2]
    assert events["is_remote"].to_list() == [False, True, True, True]
    assert events["is_legacy"].to_list() == [None] * 4
    assert events["parent_id"].to_list() == [None, None, 1, None]


def test_what_only_looks_like_a_node_is_none(tmp_path: Path) -> None:
    path = tmp_path / "events.json"
    path.write_text(
        json.dumps([listed("a", 0, 1, REMOTE, pid="1"), listed("b", 0, 1, "x node_id:1")])
    )
    events = profframe.load(path).events
    assert events["node_id"].to_list() == [None, None]
    assert events["is_remote"].to_list() == [None, False]


def test_kineto_knows_no_other_node_and_no_older_profiler(example: Path) -> None:
    events = profframe.load(example).events
    assert set(events["is_remote"]) == {False}
    assert set(events["is_legacy"]) == {False}
    assert set(events["node_id"]) == {None}
