"""Lines of NCCL's Inspector: communicators, gaps and losses as a plain loop finds them."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

import profframe
from examples.synthetic_nccl import SMALLEST, VERSIONS, Call, Job, write_inspector

_TIME: Final = 1_700_000_000_000_000
_COMMUNICATORS: Final = ("0xa", "0xb")
Line = dict[str, Any] | None
"""An object, or None for a line that cannot be read."""


def _said(communicator: str, version: str) -> dict[str, Any]:
    return {
        "header": {"id": communicator, "rank": 0, "n_ranks": 1, "nnodes": 1},
        "metadata": {
            "inspector_output_format_version": version, "dump_timestamp_us": _TIME,
            "hostname": "a", "pid": 1,
        },
    }  # fmt: skip


def _record(is_p2p: bool, number: int) -> dict[str, Any]:
    of, word = ("p2p", "Send") if is_p2p else ("coll", "AllReduce")
    said = {of: word, f"{of}_sn": number, f"{of}_msg_size_bytes": 8192, f"{of}_exec_time_us": 5}
    return {f"{of}_perf": said}


_COMMUNICATOR: Final = st.sampled_from(_COMMUNICATORS)
_RECORDS: Final = st.builds(_record, st.booleans(), st.integers(0, 6))
_MARKERS: Final = st.builds(
    lambda communicator, counts: (
        _said(communicator, "v4.3")
        | {"dump_stats": {"coll_records": counts[0], "p2p_records": counts[1]}}
    ),
    _COMMUNICATOR,
    st.tuples(st.integers(0, 3), st.integers(0, 3)),
)
_WHOLE: Final = st.builds(
    lambda communicator, record: _said(communicator, "v4.2") | record, _COMMUNICATOR, _RECORDS
)
_LINES: Final = st.lists(st.one_of(_RECORDS, _RECORDS, _MARKERS, _WHOLE, st.none()), min_size=1)


def _expected(lines: list[Line]) -> tuple[list[tuple[str, bool, int]], dict[str, int]]:
    """Records with their communicator, and what is counted."""
    records: list[tuple[str, bool, int]] = []
    counts: dict[str, int] = defaultdict(int)
    communicator, left, highest, taken, is_dump = "", 0, False, 0, False

    def end() -> None:
        if is_dump and left > 0:
            counts["missing_lines"] += left

    for line in lines:
        if line is None:
            left -= 1
            counts["unreadable_event"] += 1
            continue
        record = line.get("coll_perf") or line.get("p2p_perf")
        is_p2p = "p2p_perf" in line
        if "header" in line:
            end()
            communicator, left, highest, is_dump = line["header"]["id"], 0, False, False
            if "dump_stats" in line:
                left, is_dump = sum(line["dump_stats"].values()), True
            elif record is not None:
                records.append((communicator, is_p2p, record[f"{'p2p' if is_p2p else 'coll'}_sn"]))
            continue
        assert record is not None
        if not is_dump or left <= 0 or (highest and not is_p2p):
            counts["orphan_line"] += 1
            if is_dump and left > 0:  # nothing more of this dump is certain
                counts["missing_lines"] += left
            left, is_dump = 0, False
            continue
        left, highest = left - 1, is_p2p
        records.append((communicator, is_p2p, record[f"{'p2p' if is_p2p else 'coll'}_sn"]))
        taken += 1
    end()
    numbers: dict[tuple[str, bool], list[int]] = defaultdict(list)
    for name, is_p2p, number in records:
        numbers[name, is_p2p].append(number)
    for (_, is_p2p), of in numbers.items():
        first = min(of) if is_p2p and min(of) < 1 else int(is_p2p)
        counts["unrecorded_collectives"] += len({*range(first, max(of) + 1)} - {*of})
        counts["repeated_record"] += len(of) - len({*of})
    return records, {name: count for name, count in counts.items() if count}


@given(_LINES)
def test_lines_have_the_communicator_of_a_plain_loop(lines: list[Line]) -> None:
    if all(line is None for line in lines):
        lines = [*lines, _said("0xa", "v4.2") | _record(is_p2p=False, number=0)]
    records, counts = _expected(lines)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "job", "node-a-pid1.log")
        path.parent.mkdir()
        # The first line tells the format, whatever the others are.
        texts = ['{"coll_perf": {' if line is None else json.dumps(line) for line in lines]
        path.write_text("".join(text + "\n" for text in texts))
        trace = profframe.load(path)
    rows = trace.recorded_collectives.to_dicts()
    assert records == [
        (row["communicator"], row["is_p2p"], row["p2p_seq" if row["is_p2p"] else "collective_seq"])
        for row in rows
    ]
    notes = trace.sql("SELECT issue, sum(events)::BIGINT AS n FROM quality GROUP BY issue")
    assert {n: c for n, c in notes.rows() if n != "truncated"} == counts


@given(st.integers(0, 1000), st.sampled_from(VERSIONS), st.integers(1, 3))
def test_collectives_are_those_of_a_plain_loop(seed: int, version: str, steps: int) -> None:
    job = Job(steps, seed)
    with tempfile.TemporaryDirectory() as folder:
        write_inspector(job, Path(folder, "job"), version)
        rows = profframe.load(Path(folder, "job")).collectives(per="rank").to_dicts()
    meetings: dict[tuple[object, ...], list[Call]] = defaultdict(list)
    for call in job.calls:
        if call.size >= SMALLEST:
            kind = "p2p" if call.is_p2p else call.kind
            meetings[call.group.name, kind, call.number].append(call)
    expected = []
    for calls in meetings.values():
        last = max(call.start for call in calls)
        latency = min(call.duration for call in calls)
        ranks = len(calls[0].group.ranks)
        whole = calls[0].size
        if calls[0].kind in {"all_gather", "reduce_scatter"}:
            whole *= ranks
        expected += [
            (
                call.rank, call.group.name, whole, 1000 * call.duration,
                1000 * (last - call.start), 1000 * (call.stop - last), 1000 * latency,
                whole / (1000 * latency),
            )
            for call in calls
        ]  # fmt: skip
    names = (
        "rank", "process_group", "bytes", "dur_ns", "wait_ns", "transfer_ns", "latency_ns",
        "algorithm_gb_per_s",
    )  # fmt: skip
    assert sorted(tuple(row[name] for name in names) for row in rows) == sorted(expected)
