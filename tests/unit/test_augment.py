"""A trace written back with the work of its ops and kernels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from profframe import load
from profframe.errors import ParameterError
from profframe.trace.trace import Trace
from tests.builders import Row, stored, table
from tests.members import few
from tests.round_trip import differences, document, faults

NAMES = ("kernel_flop", "kernel_num_gb", "achieved_flops_pct", "achieved_bandwidth_pct")
DEVICE = {"device": 0, "bf16_flop_per_s": 2e12, "bandwidth_bytes_per_s": 1e12}


def made(*events: Row, **traces: object) -> Trace:
    slices: list[Row] = [
        {"pid": "1", "tid": "1", "start_ns": 0, "dur_ns": 100, "name": "n"} | dict(e)
        for e in events
    ]
    rows: dict[str, list[Row]] = {
        "events": slices,
        "devices": [DEVICE],
        "threads": [{"pid": "1", "tid": "1"}],
        "traces": [{"format": "kineto", "clock": "relative"} | traces],
    }
    return stored(**rows)


def written(trace: Trace, path: Path) -> list[dict[str, Any]]:
    """Arguments of the slices in a file."""
    trace.augment(path)
    assert faults(path) == []
    events = document(path)["traceEvents"]
    return [event.get("args", {}) for event in events if event["ph"] == "X"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.json"


KERNEL = {"kind": "kernel", "category": "kernel", "device": 0, "work_dtype": "bf16"}


def test_kernels_have_their_work_and_shares_and_ops_their_work(path: Path) -> None:
    found = written(
        made(
            {"kind": "host_op", "category": "cpu_op", "flops": 100_000, "bytes": 50_000_000_001},
            KERNEL | {"flops": 100_000, "bytes": 50_000, "args": '{"stream": 7}'},
            KERNEL | {"flops": 0, "bytes": 5, "dur_ns": 3},
            KERNEL | {"flops": 7},
            KERNEL,
        ),
        path,
    )
    assert [{k: float(v) for k, v in args.items()} for args in found] == [
        {"kernel_flop": 100_000, "kernel_num_gb": 50.000000001},
        {
            "stream": 7,
            "kernel_flop": 100_000,
            "kernel_num_gb": 0.00005,
            "achieved_flops_pct": 50.0,
            "achieved_bandwidth_pct": 50.0,
        },
        {
            "kernel_flop": 0,
            "kernel_num_gb": 0.000000005,
            "achieved_flops_pct": 0.0,
            "achieved_bandwidth_pct": 0.1667,
        },
        {"kernel_flop": 7, "achieved_flops_pct": 0.0035},
        {},
    ]


@pytest.mark.parametrize(
    ("args", "kept"),
    few(
        [
            (None, {}),
            ("{}", {}),
            (" { } ", {}),
            ('{"a": 1}', {"a": 1}),
            (' {"a": {"kernel_flop": 1}}\n', {"a": {"kernel_flop": 1}}),
            ('{"kernel_flop": 5.0, "kernel_num_gb": 7, "a": "}"}', {"a": "}"}),
            ('{"achieved_flops_pct": 1, "achieved_bandwidth_pct": 2, "a": [1e400]}', None),
            (
                '{"a": "\\"achieved_flops_pct\\": 1", "b": null}',
                {"a": '"achieved_flops_pct": 1', "b": None},
            ),
            ('{"<b>": "\'; DROP TABLE events; --"}', {"<b>": "'; DROP TABLE events; --"}),
        ],
        4,
        arguments=2,
    ),
)
def test_other_arguments_stay(path: Path, args: str | None, kept: dict[str, Any] | None) -> None:
    (found,) = written(made(KERNEL | {"flops": 100_000, "bytes": 50_000, "args": args}), path)
    assert [float(found.pop(name)) for name in NAMES] == [100_000, 0.00005, 50.0, 50.0]
    if kept is not None:
        assert found == kept


@pytest.mark.parametrize("args", few(["[1, 2]", '"text"', "7", "not {JSON"], 2))
def test_arguments_that_are_no_object_stay_as_they_are(path: Path, args: str) -> None:
    trace = made(KERNEL | {"flops": 7, "args": args})
    trace.augment(path)
    plain = path.with_name("plain.json")
    trace.export_chrome_trace(plain)
    assert path.read_bytes() == plain.read_bytes()


def test_numbers_keep_their_text_where_old_members_go(path: Path) -> None:
    old = '{"kernel_flop": 5, "a": 1.10, "b": [1e5, -0, "x: 1.10"]}'
    work = {"flops": 7, "bytes": 123456789012345678}
    made(KERNEL | work | {"device": 3, "args": old}).augment(path)
    text = path.read_text()
    assert '{"a":1.10,"b":[1e5,-0,"x: 1.10"],"kernel_flop":7,' in text
    assert '"kernel_num_gb":123456789.012345678}' in text


def test_old_percentages_go_where_there_are_no_new_ones(path: Path) -> None:
    old = '{"achieved_flops_pct": 1, "kernel_flop": 0, "a": 2}'
    (found,) = written(made(KERNEL | {"args": old}), path)
    assert found == {"kernel_flop": 0, "a": 2}


def test_no_time_and_no_device_are_no_percentages(path: Path) -> None:
    work = {"flops": 5, "bytes": 5}
    found = written(
        made(
            KERNEL | work | {"dur_ns": 0},
            KERNEL | work | {"device": 3},
            KERNEL | work | {"work_dtype": None},
        ),
        path,
    )
    assert [sorted(args) for args in found] == [
        ["kernel_flop", "kernel_num_gb"],
        ["kernel_flop", "kernel_num_gb"],
        ["achieved_bandwidth_pct", "kernel_flop", "kernel_num_gb"],
    ]


def test_a_trace_without_known_work_is_written_as_it_is(path: Path) -> None:
    trace = load("examples/cpu_training.json.gz").filter(kinds="python")
    trace.augment(path)
    plain = path.with_name("plain.json")
    trace.export_chrome_trace(plain)
    assert path.read_bytes() == plain.read_bytes()


def test_an_empty_trace_can_be_written(path: Path) -> None:
    empty = stored()
    empty.augment(path)
    assert json.loads(path.read_text())["traceEvents"] == []


def test_a_file_holds_one_run_and_rank(path: Path) -> None:
    traces = table("traces", [{"rank": 0}, {"rank": 1}])
    both = {**made(KERNEL).tables, "traces": traces}
    with pytest.raises(ParameterError, match=r"a file holds one \(run, rank\), and there are 2"):
        Trace.from_tables(both).augment(path)


SOURCES = ("examples/bf16.json.gz", "examples/fp32.json.gz")


@pytest.mark.parametrize("source", few(SOURCES, 1))
def test_an_augmented_trace_is_the_same_trace(source: str, path: Path) -> None:
    trace = load(source, run="r")
    trace.augment(path)
    again = load(path, run="r")
    assert differences(trace, again, apart=("args",)) == []
    assert faults(path) == []
    for by in ("kernel", "op", "shapes", "dtype"):
        assert trace.roofline(per=by).equals(again.roofline(per=by))

    twice = path.with_name("twice.json")
    again.augment(twice)
    assert document(twice)["traceEvents"] == document(path)["traceEvents"]


@pytest.mark.parametrize("source", SOURCES)
def test_only_arguments_are_other_ones(source: str, path: Path) -> None:
    trace = load(source)
    trace.augment(path)
    plain = path.with_name("plain.json")
    trace.export_chrome_trace(plain)
    ours, theirs = document(path), document(plain)
    changed = 0
    for event, before in zip(ours.pop("traceEvents"), theirs.pop("traceEvents"), strict=True):
        added = {k: event["args"].pop(k) for k in NAMES if k in event.get("args", {})}
        changed += bool(added)
        assert {"args": {}} | event == {"args": {}} | before
    assert ours == theirs
    known = trace.sql(
        "SELECT count(*) FROM events WHERE coalesce(flops, bytes) IS NOT NULL"
        " AND kind IN ('host_op', 'kernel')"
    )
    assert changed == known.item() > 0
