"""Dumps that do not list the ranks of groups: what cannot be told, against the ranks drawn."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profframe
from profframe.show import hang_text
from tests.unit.test_flight_recorder import dump, entry

RANKS = range(4)
Groups = list[frozenset[int]]
"""For each group besides that of all ranks, those that called its only collective."""
GROUPS: st.SearchStrategy[Groups] = st.lists(
    st.frozensets(st.sampled_from(RANKS), min_size=1), max_size=3
)


def records(rank: int, groups: Groups) -> list[dict[str, Any]]:
    called = [entry(0, "gloo:all_reduce", state="scheduled")]
    for number, group in enumerate(groups, 1):
        own = entry(number, "gloo:all_reduce", state="scheduled", collective_seq_id=1)
        called += [own | {"process_group": (str(number), f"sub {number}")}] if rank in group else []
    return called


def headline(groups: Groups, *, listed: bool) -> str:
    config = {
        str(number): {"name": str(number), "desc": f"sub {number}", "ranks": json.dumps([*RANKS])}
        for number, _ in enumerate(groups, 1)
    }
    with TemporaryDirectory() as folder:
        for rank in RANKS:
            contents = dump(*records(rank, groups), pg_config=config if listed else {})
            (Path(folder) / f"dump_rank_{rank}.json").write_text(json.dumps(contents))
        trace = profframe.load(folder)
    return hang_text.headline(trace.hangs(), trace.hangs(per="rank"), trace.collective_progress())


def check(groups: Groups) -> None:
    partly = [(n, [*set(RANKS) - group]) for n, group in enumerate(groups, 1) if len(group) < 4]
    text = headline(groups, listed=False)
    assert text.startswith("These dumps show no hang")
    assert ("equally far" in text) is (not partly)
    assert ("cannot be told" in text) is bool(partly)
    if partly:
        number, absent = partly[0]
        who = hang_text.ranks(",".join(map(str, sorted(absent))))
        assert f"whether {who} " in text
        assert f"late in group sub {number}: {who} called nothing there" in text
        assert len(partly) == 1 or f"with {len(partly) - 1} other group" in text
    listed = headline(groups, listed=True)  # then it is known who is late
    assert "cannot be told" not in listed
    assert listed.count("did not arrive") == len(partly)


@settings(max_examples=max(1, settings().max_examples // 4))
@given(GROUPS)
def test_what_cannot_be_told(groups: Groups) -> None:
    check(groups)


@pytest.mark.long
@settings(max_examples=50)
@given(GROUPS)
def test_what_cannot_be_told_of_many(groups: Groups) -> None:
    check(groups)
