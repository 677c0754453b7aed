"""What the host did in gaps, and how much of windows devices worked: cases typed by hand."""

from __future__ import annotations

from typing import Any, Final

from profframe.trace.trace import Trace
from tests.builders import event, loaded, stored

_GAPS: Final = """
    WITH gaps(gap, start_ns, end_ns, stream) AS (
        VALUES (1, 0, 100, 7), (2, 38, 45, 8), (3, 15, 33, 9), (4, 0, 12, 10), (5, 60, 70, 11)
    ),
    placed AS (SELECT *, run, rank, 0 AS device, 1 AS thread FROM gaps, traces)
    SELECT gap, label, part_ns
    FROM gap_stretches(events, placed, ['op'])
    ORDER BY gap, label, part_ns
"""


def host(event_id: int, name: str, start: int, end: int) -> dict[str, Any]:
    """An op of thread 1."""
    return {
        "event_id": event_id, "kind": "host_op", "name": name, "thread": 1, "start_ns": start,
        "dur_ns": end - start, "preorder": event_id,
    }  # fmt: skip


def test_gaps_have_the_stretches_of_innermost_ops_that_overlap_them() -> None:
    """`c` is in `b`; gaps begin before all ops, within one, and between two."""
    ops = [host(1, "a", 10, 20), host(2, "b", 30, 50), host(3, "c", 35, 40)]
    trace = stored(events=ops, traces=[{}])
    assert trace.sql(_GAPS).rows() == [
        (1, "a", 10), (1, "b", 5), (1, "b", 10), (1, "c", 5),
        (2, "b", 5), (2, "c", 2),
        (3, "a", 5), (3, "b", 3),
        (4, "a", 2),
    ]  # fmt: skip


def test_gaps_have_no_ops_of_other_threads() -> None:
    """The gap of thread 2 begins before all its ops, while `a` goes on in thread 1."""
    ops = [host(1, "a", 0, 100), host(2, "b", 50, 60) | {"thread": 2}]
    gaps = """
        WITH gaps(gap, thread, start_ns, end_ns) AS (VALUES (1, 1, 10, 20), (2, 2, 40, 70)),
        placed AS (SELECT *, run, rank, 0 AS device, 7 AS stream FROM gaps, traces)
        SELECT gap, label, part_ns FROM gap_stretches(events, placed, ['op']) ORDER BY gap
    """
    trace = stored(events=ops, traces=[{}])
    assert trace.sql(gaps).rows() == [(1, "a", 10), (2, "b", 10)]


def kernel(number: int, start: int, end: int, stream: int) -> dict[str, object]:
    """A kernel without a launch."""
    return event(
        f"kernel {number}", start, end, category="kernel", device=0, stream=stream,
        correlation=number, thread=9,
    )  # fmt: skip


def launched(number: int, at: int) -> dict[str, object]:
    """The call that launches a kernel."""
    return event(
        "cudaLaunchKernel", at, at + 1, category="cuda_runtime", correlation=number, thread=1
    )


def two_streams() -> Trace:
    """Stream 7 waits while the host is in `slow`, stream 8 while it is in `late`."""
    return loaded(
        event("slow", 100_000, 190_000, thread=1),
        launched(1, 1_000), launched(2, 189_000), launched(3, 2_000), launched(4, 399_000),
        event("late", 300_000, 400_000, thread=1),
        kernel(1, 10_000, 100_000, 7), kernel(2, 190_000, 300_000, 7),
        kernel(3, 20_000, 300_000, 8), kernel(4, 400_000, 500_000, 8),
    )  # fmt: skip


def test_each_stream_has_the_ops_of_its_own_gaps() -> None:
    idle = two_streams().idle(per="stream")
    assert idle.select("stream", "cause", "op_name").rows() == [
        (7, "host_wait", "slow"), (8, "host_wait", "late"),
    ]  # fmt: skip


def test_windows_that_begin_and_end_within_work_have_its_part() -> None:
    """Steps cut the kernels of two ranks' devices, so what ran before a step does not count."""
    trace = stored(
        traces=[{"rank": 0}, {"rank": 1}],
        events=[
            {
                "rank": rank, "event_id": number, "kind": "kernel", "name": "k", "device": 0,
                "stream": 7, "start_ns": start, "dur_ns": dur,
            }
            for rank in (0, 1)
            for number, start, dur in ((1, 0, 40 + 10 * rank), (2, 60, 50))
        ],
        profiler_steps=[
            {
                "rank": rank, "event_id": 9, "step": 1, "start_ns": 30, "host_ns": 50,
                "began_ns": 30, "completed_ns": 80, "step_ns": 50,
            }
            for rank in (0, 1)
        ],
    )  # fmt: skip
    # The whole time has the edges of the only step: of two windows at one moment both count.
    busy = trace.utilization().select("rank", "step", "busy_ns").sort("rank", "step").rows()
    assert busy == [(0, None, 10 + 20), (0, 1, 10 + 20), (1, None, 20 + 20), (1, 1, 20 + 20)]
