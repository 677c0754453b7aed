from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from profframe import schema
from profframe.errors import NotATraceError
from profframe.readers.build.row_tables import RawTrace
from profframe.readers.reading import read

Load = Callable[[object], RawTrace]
Row = dict[str, Any]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Read JSON text, or a value as JSON."""

    def load(document: object) -> RawTrace:
        path = tmp_path / "trace.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return read(path)

    return load


def event(**keys: object) -> Row:
    """A slice of 2 us at 1 us."""
    return {"ph": "X", "name": "op", "pid": 1, "tid": 2, "ts": 1, "dur": 2} | keys


def rows(trace: RawTrace, table: str = "events") -> list[Row]:
    found: list[Row] = trace.tables[table].to_pylist()
    return found


def one(trace: RawTrace, table: str = "events") -> Row:
    (row,) = rows(trace, table)
    return row


def found(trace: RawTrace) -> dict[str, int]:
    return {row["issue"]: row["events"] for row in rows(trace, "quality")}


def header(load: Load, **members: object) -> Row:
    return one(load(members | {"traceEvents": [event()]}), "traces")


# Columns


def test_the_tables_have_the_columns_of_the_schema(load: Load) -> None:
    trace = load([event()])
    assert trace.tables.keys() == schema.TABLES.keys() - schema.MAY_BE_MISSING
    loading_adds = {
        "source",
        "rank_source",
        "content_hash",
        "convert_options",
        "joined_files",
        "facts_version",
    }
    for name, table in trace.tables.items():
        expected = set(schema.READER_COLUMNS[name]) - loading_adds
        assert set(table.column_names) - {"ev_idx"} == expected, name
        for column in expected:
            assert table[column].type == schema.TABLES[name].arrow.field(column).type, column


def test_a_slice_has_every_argument_in_its_column(load: Load) -> None:
    args = {
        "External id": 11,
        "Sequence number": 12,
        "Fwd thread id": 13,
        "Ev Idx": 14,
        "Python id": 15,
        "Python parent id": 16,
        "Python module id": 17,
        "Module Hierarchy": "net.layer",
        "Input Dims": [[2, 3], [], [[4], [5, 6]]],
        "Input type": ["float", "Scalar", "TensorList"],
        "Input Strides": [[3, 1], []],
        "Concrete Inputs": ["", "[2, 2]", "a b"],
        "Call stack": "f.py(1): f;g.py(2): g;",
        "correlation": 18,
        "anything else": {"of": ["any", 1.50, None]},
    }
    row = one(load([event(cat="cpu_op", args=args)]))
    assert json.loads(row["args"]) == args
    assert {column: value for column, value in row.items() if value is not None} == {
        "event_id": 0,
        "category": "cpu_op",
        "name": "op",
        "start_ns": 1000,
        "dur_ns": 2000,
        "pid": "1",
        "tid": "2",
        "thread": 0,
        "correlation": 18,
        "external_id": 11,
        "sequence_nr": 12,
        "fwd_thread": 13,
        "ev_idx": 14,
        "python_id": 15,
        "python_parent_id": 16,
        "python_module_id": 17,
        "module_hierarchy": "net.layer",
        "input_dims": "[[2,3],[],[[4],[5,6]]]",
        "input_types": '["float","Scalar","TensorList"]',
        "input_strides": "[[3,1],[]]",
        "concrete_inputs": '["","[2, 2]","a b"]',
        "stack": "f.py(1): f;g.py(2): g",
        "args": row["args"],
    }


def test_writers_that_space_their_lists_differently_agree(load: Load) -> None:
    text = '[{"ph":"X","ts":1,"dur":1,"args":{"Input Dims": [[2, 3],[ ] , [4\n]]}}]'
    assert one(load(text))["input_dims"] == "[[2,3],[],[4]]"


@pytest.mark.parametrize("value", [0, -1, "text", None, [1], {"a": 1}, 1 << 64, 2.5, True])
def test_an_argument_of_an_unusual_type_is_kept_among_the_arguments(
    load: Load, value: object
) -> None:
    keys = ["External id", "correlation", "Python id", "stream", "finished", "Call stack"]
    args = dict.fromkeys(keys, value)
    row = one(load([event(cat="kernel", args=args)]))
    assert json.loads(row["args"]) == args


def test_old_spellings_have_the_same_columns(load: Load) -> None:
    old = load([event(args={"external id": 7, "Input dims": [[1, 2]]}), event(args={"x": 1})])
    new = load([event(args={"External id": 7, "Input Dims": [[1, 2]]})])
    assert [r["external_id"] for r in rows(old)] == [7, None]
    assert [r["input_dims"] for r in rows(old)] == ["[[1,2]]", None]
    assert one(new)["external_id"] == 7
    assert one(new)["input_dims"] == "[[1,2]]"


def test_an_argument_whose_name_differs_in_case_is_another(load: Load) -> None:
    row = one(load([event(cat="kernel", args={"CORRELATION": 1, "Stream": 5, "ev idx": 3})]))
    assert (row["correlation"], row["stream"], row["ev_idx"]) == (None, 2, None)


@pytest.mark.parametrize(
    ("members", "args"),
    [
        ('"more":1', {"more": 1}),
        ('"a:b":{"c:d":"e:f"}', {"a:b": {"c:d": "e:f"}}),
        ('"more":":","name":"a::b"', {"more": ":"}),
        ('"more":1,"cat":"\\u003a"', {"more": 1}),
        ('"name":"\\u003A","args":{"k":"\\u003a"},"more":null', {"k": ":", "more": None}),
        ('"dur":null,"more":1', {"more": 1}),
        ('"name":"x","name":"y"', None),
        ('"args":{"a":{"b":[":"]},"c:":":"}', {"a": {"b": [":"]}, "c:": ":"}),
        ('"args":"t:ext","more":2', {"args": "t:ext", "more": 2}),
    ],
)
def test_a_key_without_a_column_is_found_whatever_colons_there_are(
    load: Load, members: str, args: object
) -> None:
    plain = '{"ph":"i","ts":1,"name":"aten::add","args":{"a:":":"}}'
    found = load(f'[{plain},{{"ph":"i","ts":2,{members}}},{plain}]').tables["instants"]["args"]
    texts = found.to_pylist()
    assert [None if text is None else json.loads(text) for text in texts] == [
        {"a:": ":"},
        args,
        {"a:": ":"},
    ]


def test_no_sequence_number_is_null(load: Load) -> None:
    assert one(load([event(args={"Sequence number": -1})]))["sequence_nr"] is None


@pytest.mark.parametrize(("finished", "is_async"), [(False, True), (True, None), (None, None)])
def test_what_never_finished_is_asynchronous(
    load: Load, finished: bool | None, is_async: bool | None
) -> None:
    assert one(load([event(args={"finished": finished})]))["is_async"] is is_async


@pytest.mark.parametrize(
    ("args", "text"), [(None, None), ({}, "{}"), ({"a": 1}, '{"a":1}'), ([1], "[1]"), ("x", '"x"')]
)
def test_arguments_are_kept_whatever_they_are(load: Load, args: object, text: str | None) -> None:
    assert one(load([event(args=args)]))["args"] == text


def test_keys_without_a_column_are_kept_among_the_arguments(load: Load) -> None:
    trace = load(
        [
            event(sf=5, esf=[1]),
            event(sf=None, args={"a": 1}),
            event(sf=6, args={}),
            event(sf=7, args=[1]),
            {"ph": "i", "name": "mark", "ts": 1, "tts": 2.5, "cname": 'a "b"'},
        ]
    )
    assert [json.loads(row["args"]) for row in rows(trace)] == [
        {"sf": 5, "esf": [1]},
        {"a": 1, "sf": None},
        {"sf": 6},
        {"args": [1], "sf": 7},
    ]
    assert json.loads(one(trace, "instants")["args"]) == {"tts": 2.5, "cname": 'a "b"'}


def test_names_keep_every_character(load: Load) -> None:
    names = ['"}, {"', "\\", "\0 \x1f \x7f", "\u00fc \u65e5 \U0001f680 \u2028", "", " ", "a\nb"]
    trace = load([event(name=name) for name in names])
    assert [row["name"] for row in rows(trace)] == names


def test_what_is_missing_is_null(load: Load) -> None:
    row = one(load([{"ph": "X"}]))
    given = {column for column, value in row.items() if value is not None}
    assert given == {"event_id", "thread"}


# Devices


@pytest.mark.parametrize(
    ("keys", "device", "stream"),
    [
        ({"cat": "kernel", "args": {"device": 3, "stream": 7}}, 3, 7),
        ({"cat": "Kernel", "pid": 2, "tid": "stream 9"}, 2, 9),
        ({"cat": "gpu_memcpy", "pid": 0, "tid": 20}, 0, 20),
        ({"cat": "gpu_memset", "pid": "0", "tid": "20"}, 0, 20),
        ({"cat": "cuda_sync", "args": {"device": 0, "stream": -1}}, 0, None),
        ({"cat": "cuda_sync", "args": {"device": 0, "stream": 4294967295}}, 0, None),
        ({"cat": "gpu_user_annotation", "pid": 1, "tid": 7, "args": {}}, 1, 7),
        ({"cat": "kernel", "pid": "GPU", "tid": "queue"}, None, None),
        ({"cat": "cpu_op", "args": {"device": 3, "stream": 7}}, None, None),
        ({"cat": "cuda_runtime", "pid": 5, "tid": 6}, None, None),
        ({"pid": 5, "tid": 6}, None, None),
    ],
)
def test_device_slices_have_a_device_and_a_stream(
    load: Load, keys: Row, device: int | None, stream: int | None
) -> None:
    row = one(load([event(**keys)]))
    assert (row["device"], row["stream"]) == (device, stream)


@pytest.mark.parametrize(
    ("category", "device_type"),
    [
        ("kernel", "CUDA"),
        ("Memcpy", "CUDA"),
        ("mtia_ccp_events", "MTIA"),
        ("cpu_op", None),
        ("cuda_runtime", None),
        (None, None),
    ],
)
def test_devices_are_named_by_what_is_in_the_trace(
    load: Load, category: str | None, device_type: str | None
) -> None:
    trace = load([event(cat=category), event(cat="cpu_op")])
    assert one(trace, "traces")["device_type"] == device_type


# Times


@pytest.mark.parametrize(
    ("ts", "dur", "start_ns", "dur_ns"),
    [
        ("1690000000000123", "7", 1_690_000_000_000_123_000, 7_000),
        ("1690000000000123.456", "7.001", 1_690_000_000_000_123_456, 7_001),
        ("4369123456789.012", "0.001", 4_369_123_456_789_012, 1),
        ("12.5", "1.25", 12_500, 1_250),
        ('"1727592872422811.759"', '"3.1"', 1_727_592_872_422_811_759, 3_100),
        ('"12"', '"0"', 12_000, 0),
        ("0", "0", 0, 0),
        ("-5.5", "1", -5_500, 1_000),
        ("1e3", "1.5E-2", 1_000_000, 15),
        ("1690000000000123.456000", "7.000000", 1_690_000_000_000_123_456, 7_000),
        ("4503599627370495.999", "0.999", 4_503_599_627_370_495_999, 999),
    ],
)
def test_every_form_of_a_time_is_exact(
    load: Load, ts: str, dur: str, start_ns: int, dur_ns: int
) -> None:
    trace = load(f'[{{"ph":"X","name":"op","ts":{ts},"dur":{dur}}}]')
    assert (one(trace)["start_ns"], one(trace)["dur_ns"]) == (start_ns, dur_ns)
    assert found(trace) == {}


@pytest.mark.parametrize(
    ("ts", "start_ns"),
    [("1.0004", 1000), ("1.0005", 1001), ("1.00149", 1001), ("1.234567", 1235), ('"2.9996"', 3000)],
)
def test_a_time_finer_than_a_nanosecond_is_rounded_and_said_to_be(
    load: Load, ts: str, start_ns: int
) -> None:
    trace = load(f'[{{"ph":"X","ts":{ts},"dur":1}},{{"ph":"i","ts":{ts}}}]')
    assert one(trace)["start_ns"] == start_ns
    assert one(trace, "instants")["time_ns"] == start_ns
    assert found(trace) == {"sub_nanosecond_time": 2}


def test_the_base_is_added_to_every_time(load: Load) -> None:
    base = 1_700_000_000_000_000_001
    events = [
        event(),
        {"ph": "i", "name": "mark", "ts": 2},
        {"ph": "C", "name": "counter", "ts": 3, "args": {"v": 1}},
        {"ph": "s", "id": 1, "ts": 4},
        {"ph": "i", "name": "[memory]", "cat": "cpu_instant_event", "ts": 5, "args": {"Bytes": 1}},
    ]
    for members in (
        {"baseTimeNanoseconds": base, "traceEvents": events},
        {"traceEvents": events, "baseTimeNanoseconds": base},
    ):
        trace = load(members)
        assert one(trace)["start_ns"] == base + 1000
        times = [
            one(trace, table)["time_ns"] for table in ("instants", "counters", "flows", "memory")
        ]
        assert times == [base + 2000, base + 3000, base + 4000, base + 5000]
        row = one(trace, "traces")
        assert (row["clock"], row["base_ns"]) == ("utc", base)
        assert (row["start_ns"], row["end_ns"]) == (base + 1000, base + 5000)


@pytest.mark.parametrize(
    ("members", "ts", "clock"),
    [
        ({"baseTimeNanoseconds": 0}, 5, "utc"),
        ({}, 1_690_000_000_000_123, "utc"),
        ({}, 1_199_999_999_999_999, "relative"),
        ({}, 5, "relative"),
        ({}, 5.5, "relative"),
        ({"schemaVersion": 1}, 5, "relative"),
        ({"schemaVersion": 1}, 5.123, "unknown"),
        ({"schemaVersion": 1}, 1_690_000_000_000_123.5, "utc"),
    ],
)
def test_the_clock_is_named(load: Load, members: Row, ts: float, clock: str) -> None:
    trace = load(members | {"traceEvents": [event(ts=ts)]})
    assert one(trace, "traces")["clock"] == clock


@pytest.mark.parametrize(
    ("dur", "check"),
    [
        ("-1", "negative_duration"),
        ("-0.001", "negative_duration"),
        ('"-5"', "negative_duration"),
        ("-1000000000000", "negative_duration"),
        ("9223372036854775807", "impossible_duration"),
        ("18446744073709551615", "impossible_duration"),
        ("9223372036854775.807", "impossible_duration"),
        ('"9223372036854775807"', "impossible_duration"),
        ("1e300", "impossible_duration"),
        ('"soon"', "impossible_duration"),
        ("[1]", "impossible_duration"),
        ("null", "missing_duration"),
    ],
)
def test_a_duration_that_cannot_be_is_null_and_named(load: Load, dur: str, check: str) -> None:
    trace = load(f'[{{"ph":"X","ts":1,"dur":2}},{{"ph":"X","name":"bad","ts":1,"dur":{dur}}}]')
    assert [row["dur_ns"] for row in rows(trace)] == [2000, None]
    assert [row["start_ns"] for row in rows(trace)] == [1000, 1000]
    quality = one(trace, "quality")
    assert (quality["issue"], quality["events"], quality["example_event_id"]) == (check, 1, 1)


@pytest.mark.parametrize(
    ("ts", "check"),
    [
        ("9223372036854775807", "impossible_time"),
        ("-9223372036854775808", "impossible_time"),
        ("1e300", "impossible_time"),
        ('"now"', "impossible_time"),
        ('""', "impossible_time"),
        ("{}", "impossible_time"),
        ("null", "missing_time"),
    ],
)
def test_a_time_that_cannot_be_is_null_and_named(load: Load, ts: str, check: str) -> None:
    events = [
        f'{{"ph":"X","ts":{ts},"dur":1}}',
        '{"ph":"X","ts":7,"dur":1}',
        f'{{"ph":"i","ts":{ts}}}',
        f'{{"ph":"f","ts":{ts}}}',
    ]
    trace = load(f"[{','.join(events)}]")
    assert [row["start_ns"] for row in rows(trace)] == [None, 7000]
    assert one(trace, "instants")["time_ns"] is None
    assert one(trace, "flows")["time_ns"] is None
    assert [(row["issue"], row["events"]) for row in rows(trace, "quality")] == [(check, 1)] * 3
    assert one(trace, "traces")["start_ns"] == 7000


# Where events go


def test_flows_keep_their_ends_and_their_id(load: Load) -> None:
    trace = load(
        [
            {"ph": "s", "id": 5, "cat": "ac2g", "name": "ac2g", "pid": 1, "tid": 2, "ts": 1},
            {"ph": "t", "id": "0x5", "ts": 2},
            {"ph": "f", "id": 5, "bp": "e", "ts": 3, "args": {"a": 1}},
        ]
    )
    columns = ("flow_id", "category", "phase", "time_ns", "binding_point", "args")
    assert [tuple(row[c] for c in columns) for row in rows(trace, "flows")] == [
        ("5", "ac2g", "s", 1000, None, None),
        ("0x5", None, "t", 2000, None, None),
        ("5", None, "f", 3000, "e", '{"a":1}'),
    ]


@pytest.mark.parametrize("form", [{"ph": "i", "s": "t"}, {"ph": "X", "dur": 9}, {"ph": "I"}])
@pytest.mark.parametrize("category", ["cpu_instant_event", None])
def test_memory_events_of_every_writer_are_allocations(
    load: Load, form: Row, category: str | None
) -> None:
    args = {"Addr": 140_000_000_000_000, "Bytes": -512, "Device Type": 1, "Device Id": 3}
    totals = {"Total Allocated": 1024, "Total Reserved": 1 << 40}
    keys = form | {"name": "[memory]", "ts": 5, "pid": 1, "tid": 2, "args": args | totals}
    trace = load([keys | ({"cat": category} if category else {})])
    assert one(trace, "memory") == {
        "time_ns": 5000,
        "address": 140_000_000_000_000,
        "bytes": -512,
        "device_type": "CUDA",
        "device": 3,
        "total_allocated_bytes": 1024,
        "total_reserved_bytes": 1 << 40,
        "category": None,
        "thread": 0,
    }
    assert found(trace) == {}


@pytest.mark.parametrize(
    ("number", "device_type"),
    [(0, "CPU"), (1, "CUDA"), (6, "HIP"), (12, "XPU"), (20, "PRIVATEUSEONE")],
)
def test_the_allocators_device_is_named(load: Load, number: int, device_type: str) -> None:
    args = {"Bytes": 1, "Device Type": number, "Device Id": -1 if number == 0 else 0}
    row = one(load([{"ph": "i", "name": "[memory]", "ts": 1, "args": args}]), "memory")
    assert (row["device_type"], row["device"]) == (device_type, None if number == 0 else 0)


@pytest.mark.parametrize("number", [-1, 21, 1 << 40])
def test_an_allocators_device_that_there_is_not_has_no_name(load: Load, number: int) -> None:
    args = {"Bytes": 1, "Device Type": number, "Device Id": 0}
    row = one(load([{"ph": "i", "name": "[memory]", "ts": 1, "args": args}]), "memory")
    assert (row["bytes"], row["device_type"]) == (1, None)


def test_a_region_that_a_user_called_memory_is_a_slice(load: Load) -> None:
    trace = load([event(name="[memory]", cat="user_annotation")])
    assert one(trace)["name"] == "[memory]"
    assert rows(trace, "memory") == []


def test_a_counter_has_a_row_for_each_value(load: Load) -> None:
    trace = load(
        [
            {"ph": "C", "name": "c", "id": 3, "pid": 1, "ts": 1, "args": {"b": 2.5, "a": -1}},
            {"ph": "C", "name": "d", "ts": 2, "args": {"x": None, "y": [1]}},
            {"ph": "C", "name": "e", "ts": 3, "args": {}},
            {"ph": "C", "name": "f", "ts": 4},
        ]
    )
    columns = ("name", "series", "value", "time_ns", "counter_id")
    assert [tuple(row[c] for c in columns) for row in rows(trace, "counters")] == [
        ("c", "b", 2.5, 1000, "3"),
        ("c", "a", -1.0, 1000, "3"),
        ("d", "x", None, 2000, None),
        ("d", "y", None, 2000, None),
        ("e", None, None, 3000, None),
        ("f", None, None, 4000, None),
    ]
    assert json.loads(one(trace, "traces")["accounted"]) == {"counters": 4}


@pytest.mark.parametrize(
    "phase", ["i", "I", "N", "O", "D", "e", "F", "n", "T", "P", "R", "v", "Z", ""]
)
def test_every_other_phase_is_an_instant(load: Load, phase: str) -> None:
    keys = {"name": "x", "cat": "c", "ts": 1, "id": 9, "s": "p", "args": {"a": 1}}
    row = one(load([keys | {"ph": phase}]), "instants")
    scope = None if phase in {"e", "F"} else "p"
    assert (row["phase"], row["name"], row["category"], row["scope"]) == (phase, "x", "c", scope)
    assert (row["time_ns"], row["instant_id"], row["args"]) == (1000, "9", '{"a":1}')


def test_an_event_without_a_phase_is_an_instant(load: Load) -> None:
    trace = load({"traceEvents": [{"name": "x", "ts": 1}, {"ph": 7, "ts": 1}]})
    assert [row["phase"] for row in rows(trace, "instants")] == [None, "7"]


def label(what: str, pid: object, tid: object = None, **args: object) -> Row:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": args}


def test_threads_have_the_names_that_metadata_gives(load: Load) -> None:
    trace = load(
        [
            event(pid=1, tid=2),
            event(pid=1, tid="2"),
            event(pid=0, tid="stream 7"),
            label("process_name", 1, 0, name="python"),
            label("process_labels", 1, 0, labels="CPU"),
            label("process_sort_index", 1, 0, sort_index=1),
            label("thread_name", 1, 2, name="old"),
            label("thread_name", 1, 2, name="thread 2 (main)"),
            label("thread_sort_index", 1, 2, sort_index=-3),
            label("thread_name", 1, 9, name="never seen"),
            label("process_name", 5, name="no threads"),
            label("process_name", 6),
        ]
    )
    assert [row["thread"] for row in rows(trace)] == [0, 0, 1]
    names = ("thread", "pid", "tid", "process_name", "thread_name", "thread_sort_index")
    assert [tuple(row[n] for n in names) for row in rows(trace, "threads")] == [
        (0, "1", "2", "python", "thread 2 (main)", -3),
        (1, "0", "stream 7", None, None, None),
        (2, "1", "9", "python", "never seen", None),
        (3, "5", None, "no threads", None, None),
    ]
    assert json.loads(one(trace, "traces")["accounted"]) == {"events": 3, "metadata": 9}


def test_metadata_of_another_name_is_an_instant(load: Load) -> None:
    trace = load([event(), {"ph": "M", "name": "trace_config", "ts": 1, "args": {"a": 1}}])
    assert one(trace, "instants")["args"] == '{"a":1}'


# The header


@pytest.mark.parametrize(
    ("info", "rank", "world_size", "backend"),
    [
        ({"rank": 3, "world_size": 8, "backend": "nccl"}, 3, 8, "nccl"),
        ({"rank": 3}, 3, None, None),
        ({"backend": "gloo"}, None, None, "gloo"),
        ({"rank": "3", "world_size": "8"}, 3, 8, None),
        ('{"rank": 3, "backend": "nccl"}', 3, None, "nccl"),
        ([{"rank": 3, "world_size": 8}], 3, 8, None),
        ({"rank": -1, "world_size": None}, None, None, None),
        ({"rank": 3, "pg_config": [{"pg_name": "0", "ranks": [0, 1]}]}, 3, None, None),
        ({}, None, None, None),
        ([], None, None, None),
        ("nonsense", None, None, None),
        (None, None, None, None),
        (5, None, None, None),
        ({"rank": 1 << 40}, None, None, None),
        ({"rank": [3], "backend": {"x": 1}}, None, None, None),
    ],
)
def test_every_shape_of_distributed_info_is_understood(
    load: Load, info: object, rank: int | None, world_size: int | None, backend: str | None
) -> None:
    around = {"distributedInfo": info}
    events = {"traceEvents": [event()]}
    for document in (around | events, events | around):
        trace = load(document)
        row = one(trace, "traces")
        assert (trace.header.rank, row["world_size"], row["backend"]) == (rank, world_size, backend)
        assert json.loads(row["metadata"]) == around


def test_what_the_header_says_has_columns(load: Load) -> None:
    devices = [{"id": 0, "name": "GPU"}, {"id": 1, "name": "GPU"}]
    row = header(
        load,
        schemaVersion=1,
        deviceProperties=devices,
        with_stack=1,
        record_shapes=0,
        trace_id="ABC",
        host_name="h",
        displayTimeUnit="ms",
        baseTimeNanoseconds=7,
        INFO=[{"a": 1}],
    )
    assert row["format"] == "kineto"
    assert json.loads(row["device_properties"]) == devices
    assert json.loads(row["profiler_flags"]) == {"with_stack": 1, "record_shapes": 0}
    assert json.loads(row["metadata"]) == {
        "schemaVersion": 1,
        "trace_id": "ABC",
        "host_name": "h",
        "displayTimeUnit": "ms",
        "INFO": [{"a": 1}],
    }


def test_a_header_that_says_nothing_is_null(load: Load) -> None:
    row = header(load)
    assert row["format"] == "chrome"
    for column in ("base_ns", "device_properties", "profiler_flags", "metadata", "backend"):
        assert row[column] is None


@pytest.mark.parametrize("base", ["12", 12.0])
def test_a_base_may_be_text(load: Load, base: object) -> None:
    assert header(load, baseTimeNanoseconds=base)["base_ns"] == 12


@pytest.mark.parametrize("base", [None, "x", [], 1 << 70, {}])
def test_a_base_that_is_no_number_is_none(load: Load, base: object) -> None:
    assert header(load, baseTimeNanoseconds=base)["base_ns"] is None


# Accounts


def test_every_event_is_accounted_for(load: Load) -> None:
    events = [
        event(),
        {"ph": "B", "ts": 1},
        {"ph": "E", "ts": 2},
        {"ph": "s", "ts": 1},
        {"ph": "C", "ts": 1, "args": {"a": 1, "b": 2}},
        {"ph": "i", "ts": 1},
        {"ph": "i", "ts": 1, "name": "[memory]"},
        label("thread_name", 1, 2, name="t"),
        {"ph": "E", "ts": 9, "tid": 5},
    ]
    row = one(load({"traceEvents": [*events, 5]}), "traces")
    assert row["source_events"] == 10
    assert json.loads(row["accounted"]) == {
        "events": 3,
        "memory": 1,
        "flows": 1,
        "counters": 1,
        "metadata": 1,
        "instants": 2,
        "dropped": 1,
    }


@pytest.mark.parametrize("document", ['{"traceEvents": []}', '{"traceEvents": [], "a": 1}'])
def test_a_trace_without_events_is_empty_and_said_to_be(load: Load, document: str) -> None:
    trace = load(document)
    assert {name: table.num_rows for name, table in trace.tables.items()} == {
        **dict.fromkeys(schema.TABLES.keys() - schema.MAY_BE_MISSING, 0),
        "traces": 1,
        "quality": 1,
    }
    assert found(trace) == {"no_events": 0}
    row = one(trace, "traces")
    assert (row["source_events"], row["accounted"], row["start_ns"]) == (0, "{}", None)


@pytest.mark.parametrize("document", [[], [1, 2], ["a"], [{"a": 1}], [[1]], [None]])
def test_an_array_without_events_is_no_trace(load: Load, document: object) -> None:
    with pytest.raises(NotATraceError, match="no element of the JSON array is an event"):
        load(document)


def test_two_lists_of_events_are_not_taken_for_one(load: Load) -> None:
    trace = load('{"traceEvents": [{"ph":"i","ts":1}], "traceEvents": [{"ph":"i","ts":2}]}')
    assert found(trace)
