"""The rules of torch's validator of traces, held against torch's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import profframe
from tests import needs
from tests.builders import event, loaded
from tests.members import few

Row = dict[str, Any]

CHECKS: Final = {
    "_check_gpu_kernel_causality": "kernel_before_launch",
    "_check_stream_sync_overlap": "kernel_during_sync",
    "_check_stream_wait_corr_id_populated": "wait_for_unknown_event",
    "_check_stream_wait_corr_id_in_past": "wait_for_unknown_event",
    "_check_nccl_metadata": "collective_without_metadata",
    "_check_backward_seq_id_uniqueness": "repeated_sequence_number",
}
EVALUATE: Final = "autograd::engine::evaluate_function: "
METADATA: Final[Row] = {
    "Collective name": "allreduce",
    "dtype": "Float",
    "In msg nelems": 8,
    "Out msg nelems": 8,
    "Group size": 2,
}


def by_torch(path: Path) -> dict[str, int]:
    """How many violations torch's validator finds, by our checks."""
    validator = needs.module("torch.profiler._trace_validator")
    counts: dict[str, int] = {}
    for violation in validator.validate_trace(str(path))[1]:
        check = CHECKS[violation.rule_name]
        counts[check] = counts.get(check, 0) + 1
    return counts


def by_us(path: Path) -> dict[str, int]:
    rows = profframe.load(path).quality.select("issue", "events").rows()
    return {check: events for check, events in rows if check in CHECKS.values()}


def written(folder: Path, events: list[Row]) -> Path:
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def slice_(cat: str, name: str, ts: int, dur: int, *, tid: int = 1, **args: object) -> Row:
    row: Row = {"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur}
    return row | {"args": args}


def launched(number: int, launch: int, kernel: int, dur: int, stream: int) -> list[Row]:
    ids = {"External id": number, "correlation": number}
    on = {"device": 0, "stream": stream}
    return [
        slice_("cuda_runtime", "cudaLaunchKernel", launch, 1, **ids),
        slice_("kernel", "mm", kernel, dur, tid=stream, **ids, **on),
    ]


def sync(kind: str, ts: int, stream: int, **args: object) -> Row:
    on = {"device": 0, "stream": stream}
    return slice_("cuda_sync", kind, ts, 2, tid=stream, cuda_sync_kind=kind, **on, **args)


TIMES: Final = st.integers(0, 30)
STREAMS: Final = st.integers(7, 8)


@st.composite
def documents(draw: st.DrawFn) -> list[Row]:
    events: list[Row] = []
    for number in range(1, draw(st.integers(0, 6)) + 1):
        launch, kernel, dur = (draw(TIMES) for _ in range(3))
        events += launched(number, launch, kernel, dur, draw(STREAMS))
    for number in range(20, 20 + draw(st.integers(0, 3))):
        name = draw(st.sampled_from(["cudaEventRecord", "cudaEventRecordWithFlags"]))
        ids = {"External id": number, "correlation": number + 2}
        events.append(slice_("cuda_runtime", name, draw(TIMES), 1, **ids))
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["Stream Sync", "Stream Wait Event", "Event Sync"]))
        record = draw(st.none() | st.just(-1) | st.integers(19, 25))
        args = {} if record is None else {"wait_on_cuda_event_record_corr_id": record}
        events.append(sync(kind, draw(TIMES), draw(STREAMS), **args))
    for _ in range(draw(st.integers(0, 3))):
        lacks = draw(st.sets(st.sampled_from([*METADATA]), max_size=2))
        args = {key: value for key, value in METADATA.items() if key not in lacks}
        events.append(slice_("cpu_op", "record_param_comms", draw(TIMES), 1, **args))
    for _ in range(draw(st.integers(0, 4))):
        name = EVALUATE + draw(st.sampled_from("AB"))
        sequence = {"Sequence number": draw(st.integers(1, 3))}
        events.append(slice_("cpu_op", name, draw(TIMES), 1, **sequence))
    return events


@given(documents())
def test_counts_are_those_of_torchs_validator(
    tmp_path_factory: pytest.TempPathFactory, events: list[Row]
) -> None:
    path = written(tmp_path_factory.mktemp("trace"), events)
    assert by_us(path) == by_torch(path)


def test_each_rule_names_its_first_event(tmp_path: Path) -> None:
    events = [
        *launched(1, 10, 9, 30, 7),
        *launched(2, 10, 10, 1, 8),
        sync("Stream Sync", 20, 7),
        sync("Stream Sync", 39, 7),
        sync("Stream Sync", 20, 8),
        sync("Stream Wait Event", 50, 7, wait_on_cuda_event_record_corr_id=5),
        sync("Event Sync", 51, 7),
        slice_("cpu_op", "record_param_comms", 60, 1),
        slice_("cpu_op", f"{EVALUATE}A", 70, 1, **{"Sequence number": 3}),
        slice_("cpu_op", f"{EVALUATE}B", 72, 1, **{"Sequence number": 3}),
    ]
    path = written(tmp_path, events)
    trace = profframe.load(path)
    found = {
        row["issue"]: (row["events"], row["example_event_id"], row["detail"].partition(": ")[2])
        for row in trace.quality.to_dicts()
        if row["issue"] in CHECKS.values()
    }
    assert found == {
        "kernel_before_launch": (1, 1, "with 1 external_id"),
        "kernel_during_sync": (1, 4, "in 1 synchronisations, the first is event 4"),
        "wait_for_unknown_event": (
            2,
            7,
            "1 name no event, of 1 no record is in the trace, 0 are before the record",
        ),
        "collective_without_metadata": (
            1,
            9,
            "collective, element_type, in_elements, out_elements, group_size",
        ),
        "repeated_sequence_number": (1, 10, "first 3"),
    }
    assert {check: events for check, (events, *_) in found.items()} == by_torch(path)


def test_a_kernel_is_held_against_its_own_launch_of_whatever_name() -> None:
    """torch's validator looks at the first kernel of an External id, and at cudaLaunchKernel."""
    trace = loaded(
        event("aten::mm", 0, 50, external_id=3),
        event("cuLaunchKernel", 10, 12, category="cuda_driver", correlation=5, external_id=3),
        event("hipLaunchKernel", 30, 32, category="cuda_runtime", correlation=6, external_id=3),
        event("a", 10, 20, category="kernel", thread=7, device=0, correlation=5, external_id=3),
        event("b", 29, 31, category="kernel", thread=7, device=0, correlation=6, external_id=3),
        event("c", 9, 11, category="kernel", thread=8, device=0, correlation=9, external_id=3),
    )
    rows = trace.quality.filter(issue="kernel_before_launch").select("events", "example_event_id")
    assert rows.rows() == [(2, 4)]


def test_nothing_of_the_kind_is_no_row() -> None:
    trace = loaded(
        event("cudaLaunchKernel", 10, 12, category="cuda_runtime", correlation=5),
        event("k", 10, 20, category="kernel", thread=7, device=0, stream=7, correlation=5),
        event(
            "s", 20, 21, category="cuda_sync", thread=7, device=0, stream=7, sync_kind="Stream Sync"
        ),
        event(
            "t", 15, 16, category="cuda_sync", thread=7, device=0, stream=8, sync_kind="Stream Sync"
        ),
    )
    assert trace.quality.rows() == []


NEGATIVE: Final = "Ascend"
"""Part of the names of traces whose evaluations have sequence numbers below zero."""


@pytest.mark.parametrize(
    ("large", "each"), few([(False, 3), (False, 1), (True, 1)], 1, arguments=2)
)
def test_real_traces_have_torchs_counts(traces: Path, large: bool, each: int) -> None:
    """All but one number below zero, which is no sequence number and which torch counts."""
    paths = [path for path in sorted(traces.rglob("*.json*")) if path.suffix != ".csv"]
    sizes = {path: path.stat().st_size for path in paths}
    of_size = [p for p in paths if sizes[p] <= 4_000_000 and (sizes[p] > 150_000) is large]
    compared = 0
    for path in of_size[::each]:
        try:
            ours = by_us(path)
        except profframe.ProfframeError:
            continue
        theirs = by_torch(path)
        if NEGATIVE in str(path):
            assert theirs.pop("repeated_sequence_number", 1) == 1
        assert ours == theirs, path
        compared += 1
    assert compared > 5
