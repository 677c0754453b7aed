"""Hardware counters of slices, and the ops that they belong to."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import profframe
from profframe import Trace
from tests.builders import stored
from tests.round_trip import differences


def slice_(cat: str, name: str, ts: int, dur: int, pid: int = 1, **args: object) -> dict[str, Any]:
    return {
        "ph": "X", "cat": cat, "name": name, "pid": pid, "tid": pid, "ts": ts, "dur": dur,
        "args": args,
    }  # fmt: skip


def loaded(folder: Path, *events: dict[str, Any]) -> Trace:
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return profframe.load(path)


OPS = (
    slice_("cpu_op", "aten::mm", 0, 30),
    slice_("cuda_runtime", "cudaLaunchKernel", 10, 2, correlation=1),
    slice_("cpu_op", "aten::add", 40, 30),
    slice_("cuda_runtime", "cudaLaunchKernelExC", 50, 2, correlation=2),
    slice_("cuda_runtime", "cudaMemcpyAsync", 60, 2, correlation=3),
)


def ops(trace: Trace) -> list[tuple[Any, ...]]:
    return trace.sql("""
        SELECT slice.name, op.name, slice.launch_id
        FROM events AS slice LEFT JOIN events AS op ON slice.op_id = op.event_id
        WHERE slice.category = 'cuda_profiler_range' ORDER BY slice.event_id""").rows()


def test_as_many_as_launches_belong_to_them_in_order(tmp_path: Path) -> None:
    trace = loaded(
        tmp_path,
        *OPS,
        slice_("cuda_profiler_range", "second", 9, 2, 0, fma=3, note="x"),
        slice_("cuda_profiler_range", "first", 5, 2, 0, fma=2, dram=0.5),
    )
    assert ops(trace) == [("second", "aten::add", 3), ("first", "aten::mm", 1)]
    columns = ("name", "series", "value", "time_ns", "event_id")
    assert trace.counters.select(columns).rows() == [
        ("second", "fma", 3.0, 9000, 5),
        ("first", "fma", 2.0, 5000, 6),
        ("first", "dram", 0.5, 5000, 6),
    ]
    assert trace.counters_by_op().select("op", "series", "matched_by", "total").rows() == [
        ("aten::mm", "dram", "order", 0.5),
        ("aten::mm", "fma", "order", 2.0),
        ("aten::add", "fma", "order", 3.0),
    ]
    assert json.loads(trace.traces["accounted"][0]) == {"events": 7}
    assert trace.counter_series().is_empty()
    assert trace.quality.is_empty()
    trace.export_chrome_trace(tmp_path / "again.json")
    assert differences(trace, profframe.load(tmp_path / "again.json")) == []
    profframe.convert([tmp_path / "trace.json"], tmp_path / "store")
    assert profframe.load(tmp_path / "store").counters_by_op().height == 3


def test_one_inside_an_op_belongs_to_it(tmp_path: Path) -> None:
    trace = loaded(tmp_path, *OPS, slice_("cuda_profiler_range", "r", 41, 9, fma=3))
    assert ops(trace) == [("r", "aten::add", None)]
    assert trace.counters_by_op()["matched_by"].to_list() == ["nesting"]


def test_others_have_no_op_and_are_counted(tmp_path: Path) -> None:
    trace = loaded(tmp_path, *OPS, slice_("cuda_profiler_range", "r", 5, 2, 0, fma=3))
    assert ops(trace) == [("r", None, None)]
    assert trace.counters_by_op().select("op", "total").rows() == [(None, 3.0)]
    (row,) = trace.quality.to_dicts()
    assert (row["issue"], row["events"], row["example_event_id"]) == (
        "counted_slice_without_launch", 1, 5,
    )  # fmt: skip
    assert row["detail"].endswith("1 slices, 2 launches")


def test_a_real_run_is_matched_as_another_tool_does(traces: Path) -> None:
    """By position among the launches: 77 of each, nine counters each."""
    source = "facebookresearch__HolisticTraceAnalysis/cupti_profiler_benchmark_result.json.gz"
    trace = profframe.load(traces / source)
    pairs = trace.sql("""
        SELECT row_number() OVER (ORDER BY slice.start_ns) AS place,
               (SELECT count(*) FROM events AS call
                WHERE call.name LIKE 'cudaLaunchKernel%' AND call.start_ns <= launch.start_ns)
        FROM events AS slice JOIN events AS launch ON slice.launch_id = launch.event_id
        WHERE slice.category = 'cuda_profiler_range' ORDER BY place""").rows()
    assert pairs == [(n, n) for n in range(1, 78)]
    answer = trace.counters_by_op()
    assert (trace.counters.height, answer["ranges"].sum()) == (693, 693)
    assert answer["total"].sum() == trace.counters["value"].sum()
    assert answer["op"].null_count() == 0


def test_what_is_no_number_takes_nothing_from_counters_beside_it() -> None:
    values = {1: ("hits", math.nan), 2: ("hits", 30), 3: ("hits", math.inf), 4: ("rate", math.nan)}
    trace = stored(
        events=[
            {"event_id": 0, "kind": "host_op", "name": "mm"},
            *({"event_id": n, "kind": "other", "op_id": 0} for n in values),
        ],
        counters=[
            {"event_id": n, "series": series, "value": value}
            for n, (series, value) in values.items()
        ],
    )
    columns = ("series", "ranges", "total", "mean_value", "min_value", "max_value")
    assert trace.counters_by_op().select(columns).rows() == [
        ("hits", 3, 30, 30, 30, 30), ("rate", 1, None, None, None, None),
    ]  # fmt: skip
