"""Traces of ranks that a tool of others merged into one file are what the parts are."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profframe
from profframe import Trace
from profframe.errors import ProfframeError, SourceError
from profframe.query.catalogue import selects
from tests import mergers
from tests.mergers import COLLECTIVE, Document, Event

Merger = Callable[[Sequence[Document]], Document]

FEW: Final = ("self_times", "op_kernels", "idle", "collectives")
"""Answers of which each would be wrong if a kernel went to another rank."""
PLACE: Final = ("traces.source", "traces.rank_source")
"""What says where a trace is from."""
NAMES: Final = ("threads.process_name", "threads.process_labels", "threads.thread_name")
HEADER: Final = ("traces.world_size", "traces.backend", "traces.metadata")
ARGS: Final = ("events.args", "flows.args", "instants.args")
ONE_PROCESS: Final = (
    *("events.pid", "flows.pid", "instants.pid", "profiler_steps.pid", "threads"),
    *("events.thread", "flows.thread", "instants.thread", "memory.thread"),
    *("traces.source_events", "traces.accounted"),
)
"""Ids of processes are lost, and with them which threads have which number."""


def in_order_of_time(one: Document) -> Document:
    return one | {"traceEvents": sorted(one["traceEvents"], key=lambda event: event.get("ts", 0))}


def without_header(one: Document) -> Document:
    kept = ("distributedInfo", "traceEvents")
    return {name: mergers.without_lost(one)[name] for name in kept}


WAYS: Final[dict[str, tuple[Merger, Callable[[Document], Document], Collection[str]]]] = {
    "SGLang": (mergers.by_label, dict, ()),
    "names in ids": (partial(mergers.by_label, form="rank{rank}_{pid}"), dict, ()),
    "ranks behind ids": (partial(mergers.by_label, form="{pid}_{rank}"), dict, ()),
    "TraceLens": (mergers.by_args, without_header, HEADER),
    "arguments": (mergers.by_args_alone, dict, ARGS),
    "Triton-distributed": (mergers.by_offset_and_name, dict, NAMES),
    "offset": (mergers.by_offset, in_order_of_time, ()),
    "small offset": (partial(mergers.by_offset, stride=1000, lines=0), in_order_of_time, ()),
    "one process": (mergers.by_process, dict, ONE_PROCESS),
}
"""Mergers, what they leave of a part, and columns that they spoil."""


def differences(
    parts: Trace, whole: Trace, answers: Collection[str], spoiled: Collection[str]
) -> list[str]:
    """Columns of tables, and answers, that are not equal."""
    names = []
    for table in sorted({*parts.tables, *whole.tables} - {*spoiled}):
        before, after = (trace.scan(table).collect() for trace in (parts, whole))
        pairs = ((f"{table}.{c}", before[c], after[c]) for c in before.columns)
        names += [name for name, a, b in pairs if not a.equals(b, null_equal=True)]
    names += [name for name in answers if answered(parts, name) != answered(whole, name)]
    return sorted({*names} - {*PLACE, *spoiled})


def answered(trace: Trace, name: str) -> object:
    try:
        return trace.answer(name).rows()
    except ProfframeError as error:
        return type(error)


def loaded(documents: Sequence[Document], folder: Path) -> Trace:
    folder.mkdir()
    for place, one in enumerate(documents):
        rank = one.get("distributedInfo", {}).get("rank", place)
        (folder / f"rank{rank}.json").write_text(json.dumps(one))
    return profframe.load(folder, run="r")


def check(way: str, ranks: Sequence[int], seed: int, answers: Collection[str]) -> None:
    merge, left, spoiled = WAYS[way]
    parts = [mergers.part(rank, seed, devices=1 + seed % 2) for rank in ranks]
    with tempfile.TemporaryDirectory() as name:
        before = loaded([left(one) for one in parts], Path(name, "parts"))
        file = Path(name, "merged.json")
        file.write_text(json.dumps(merge(parts)))
        after = profframe.load(file, run="r")
        assert after.traces["rank"].to_list() == sorted(ranks)
        assert differences(before, after, answers, spoiled) == []


SEEDS: Final = st.integers(0, 10_000)


@pytest.mark.parametrize("way", WAYS)
@given(seed=SEEDS, count=st.integers(2, 4))
@settings(max_examples=1)
def test_a_merged_file_is_its_parts(way: str, seed: int, count: int) -> None:
    check(way, range(count), seed, FEW)


@pytest.mark.long
@given(way=st.sampled_from([*WAYS]), seed=SEEDS, count=st.integers(2, 3))
@settings(max_examples=50)
def test_in_every_answer(way: str, seed: int, count: int) -> None:
    check(way, range(count), seed, [answer.name for answer in selects()])


@pytest.mark.parametrize("way", ["SGLang", "TraceLens", "Triton-distributed", "one process"])
def test_ranks_keep_their_numbers(way: str) -> None:
    check(way, (2, 5, 11), 3, FEW[:2])


def test_memory_of_one_process_id_is_refused(tmp_path: Path) -> None:
    """Its records have no rank where all the other events of the process have one."""
    parts = [mergers.part(rank, 3, pid=1) for rank in range(2)]
    (tmp_path / "a.json").write_text(json.dumps(mergers.by_args_alone(parts)))
    with pytest.raises(SourceError, match=r"several ranks in one file.*name no rank"):
        profframe.load(tmp_path / "a.json")


def without(documents: Sequence[Document], is_left: Callable[[Event], bool]) -> list[Document]:
    return [one | {"traceEvents": list(filter(is_left, one["traceEvents"]))} for one in documents]


def own_devices(event: Event, rank: int) -> None:
    """Each rank works on a device of its own."""
    if event["pid"] == 0:
        event["pid"] = rank
        event.get("args", {}).update({"device": rank} if event["ph"] == "X" else {})


@given(seed=SEEDS, is_labelled=st.booleans(), is_sorted=st.booleans(), way=st.sampled_from("abcd"))
def test_ranks_that_nothing_names_are_told_apart_or_refused(
    seed: int, is_labelled: bool, is_sorted: bool, way: str
) -> None:
    """Every kernel of an op of its own rank, or an error that says what to do."""
    parts = [mergers.part(rank, seed, devices=1) for rank in range(2)]
    parts = without(parts, lambda e: e["name"] != "Record Window End")
    if not is_labelled:
        parts = without(parts, lambda e: e["ph"] != "M")
    merge: dict[str, Merger] = {
        "a": lambda parts: mergers.together(parts, lambda *_: None),
        "b": lambda parts: mergers.together(parts, own_devices),
        "c": mergers.by_offset,
        "d": lambda parts: mergers.by_process(parts, is_named=False),
    }
    one = merge[way](parts)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name, "merged.json")
        file.write_text(json.dumps(in_order_of_time(one) if is_sorted else one))
        if way == "a" or (way == "b" and is_sorted):
            with pytest.raises(SourceError, match=r"several ranks in one file.*a folder of these"):
                profframe.load(file)
            return
        trace = profframe.load(file)
    assert trace.traces["rank"].to_list() == [0, 1]
    rows = trace.scan("events").collect()
    names = {(row["rank"], row["event_id"]): row["name"] for row in rows.rows(named=True)}
    for kernel in rows.filter(rows["kind"] == "kernel").rows(named=True):
        op, rank = names[kernel["rank"], kernel["op_id"]], kernel["rank"]
        assert kernel["name"] in (f"{op[6:]}_kernel_{rank}", COLLECTIVE)
