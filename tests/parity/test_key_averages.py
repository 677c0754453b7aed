"""``key_averages`` against torch's, to the nanosecond: of the live profile and of its file."""

from __future__ import annotations

import atexit
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any, Final

import pytest

from profframe import ParameterError, Trace
from profframe.facts.torch_compat.releases import averages_frames, installed
from tests import needs
from tests.members import few
from tests.parity.profiles import SCENARIOS, Library, Taken

Grouping = Mapping[str, Any]
Rows = list[dict[str, Any]]

SOURCES: Final = ("live", "file")
GROUPINGS: Final[Mapping[str, Grouping]] = {
    "nothing": {},
    "shape": {"group_by_input_shape": True},
    "one frame": {"group_by_stack_n": 1},
    "five frames": {"group_by_stack_n": 5},
    "overload": {"group_by_overload_name": True},
    "all": {
        "group_by_input_shape": True,
        "group_by_stack_n": 100,
        "group_by_overload_name": True,
    },
}
OF_FILES: Final = ("nothing", "all")
"""Groupings of what was loaded from files; of live profiles they group the same columns."""
ASKED: Final = [
    *(("live", by) for by in GROUPINGS),
    *(
        pytest.param("file", by, marks=() if by in OF_FILES else pytest.mark.long)
        for by in GROUPINGS
    ),
]
WITH_FRAMES: Final = ("stacks", "verbose", "double_backward")
SUMS: Final = (
    "calls", "cpu_ns", "self_cpu_ns", "device_ns", "self_device_ns", "cpu_bytes",
    "self_cpu_bytes", "device_bytes", "self_device_bytes", "torch_flops",
)  # fmt: skip
NOT_IN_THE_FILE: Final[Mapping[str, set[str]]] = {
    "async_regions": {"self_cpu_ns", "self_cpu_bytes"},  # that a region is asynchronous
    "unfinished_region": {"cpu_ns"},  # when a region that was still open was cut off
    "hostile_names": {"name"},  # names that the exporter changes
    "python_export": {"torch_flops"},  # that flops were asked for
}


@pytest.fixture(params=SOURCES)
def source(request: pytest.FixtureRequest) -> str:
    return str(request.param)


EACH_RUN: Final = (*WITH_FRAMES, *NOT_IN_THE_FILE, "training", "several_threads", "flops")
"""Profiles of every run; the table of `test_table.py` is made of the same rows of all."""


@pytest.fixture(params=few(sorted({*SCENARIOS} - {"deep_recursion"}), EACH_RUN))
def readable(request: pytest.FixtureRequest, profiles: Library) -> Taken:
    """Each of the profiles that torch itself can make its events of."""
    return profiles[request.param]


_LOADED: Final[dict[tuple[str, str], Trace]] = {}
_ASKED: Final = ExitStack()
atexit.register(_ASKED.close)


def loaded(taken: Taken, source: str) -> Trace:
    """The trace of a profile or of its file, loaded once, and asked over one connection."""
    key = taken.name, source
    if key not in _LOADED:
        trace = taken.loaded("profiler" if source == "live" else "path", taken.compat)
        _LOADED[key] = _ASKED.enter_context(trace.session())
    return _LOADED[key]


def torchs(averages: Any) -> Rows:
    """Rows of an `EventList` of averages, in our words and units."""
    return [
        {
            "name": row.key,
            "device_type": row.device_type.name,
            "node_id": None if row.node_id == -1 else row.node_id,
            "is_annotation": bool(row.is_user_annotation),
            "input_dims": str(row.input_shapes).replace(" ", "") if row.input_shapes else None,
            "stack": ";".join(row.stack) or None,
            "overload_name": row.overload_name or None,
        }
        | sums_of(row)
        for row in averages
    ]


def sums_of(row: Any) -> dict[str, int]:
    return {
        "calls": row.count,
        "cpu_ns": round(row.cpu_time_total * 1000),
        "self_cpu_ns": round(row.self_cpu_time_total * 1000),
        "device_ns": round(row.device_time_total * 1000),
        "self_device_ns": round(row.self_device_time_total * 1000),
        "cpu_bytes": row.cpu_memory_usage,
        "self_cpu_bytes": row.self_cpu_memory_usage,
        "device_bytes": row.device_memory_usage,
        "self_device_bytes": row.self_device_memory_usage,
        "torch_flops": row.flops,
    }


def averages(events: Any, grouping: Grouping, **frames: bool) -> Any:
    """torch's `key_averages` in our words; `frames` is what only newer releases take."""
    return events.key_averages(
        group_by_input_shapes=grouping.get("group_by_input_shape", False),
        group_by_stack_n=grouping.get("group_by_stack_n", 0),
        group_by_overload_name=grouping.get("group_by_overload_name", False),
        **frames,
    )


def ours(trace: Trace, grouping: Grouping, **frames: bool) -> Rows:
    rows = trace.key_averages(**grouping, **frames, compat="torch").to_dicts()  # type: ignore[arg-type]
    return [
        {name: row[name] for name in ("device_type", "node_id", "input_dims", "overload_name")}
        | {"name": plain(row["name"]), "stack": row["stack"] or None}
        | {"is_annotation": row["kind"] in {"annotation", "device_annotation"}}
        | {name: row[name] or 0 for name in SUMS}
        for row in rows
    ]


def plain(name: str) -> str:
    torch = needs.torch()
    return str(torch._C._demangle(name)) if len(name) > 1 else name


@pytest.mark.parametrize(("source", "by"), ASKED)
def test_rows(readable: Taken, source: str, by: str) -> None:
    grouping = GROUPINGS[by]
    theirs = torchs(averages(readable.events, grouping))
    found = ours(loaded(readable, source), grouping)
    missing = NOT_IN_THE_FILE.get(readable.name, set()) if source == "file" else set()
    if "name" in missing:
        needs.another_trace("keys are names, and the exporter changes them")
    for row in (*theirs, *found):
        for name in missing:
            del row[name]
    assert found == theirs


@pytest.mark.parametrize("by", OF_FILES)
@pytest.mark.parametrize("name", WITH_FRAMES)
def test_rows_with_python_functions_and_without(
    profiles: Library, name: str, source: str, by: str
) -> None:
    taken, grouping = profiles[name], GROUPINGS[by]
    trace = loaded(taken, source)
    without = [event for event in taken.events if not event.is_python_function]
    assert 0 < len(without) < len(taken.events)
    if averages_frames(installed()):
        expected = torchs(averages(taken.events, grouping))
        part = type(taken.events)(without)
        part._tree_built = True
        kept = torchs(averages(part, grouping))
    else:
        expected = torchs(averages(taken.events, grouping, include_python_functions=True))
        kept = torchs(averages(taken.events, grouping))
    assert ours(trace, grouping, include_python_functions=True) == expected
    assert ours(trace, grouping, include_python_functions=False) == kept
    by_default = trace.key_averages(**grouping)
    assert by_default.equals(trace.key_averages(**grouping, include_python_functions=True))
    assert set(by_default["kind"]) > set(
        trace.key_averages(**grouping, include_python_functions=False)["kind"]
    )


def test_total(readable: Taken, source: str) -> None:
    total = sums_of(readable.events.total_average())
    trace = loaded(readable, source)
    missing = NOT_IN_THE_FILE.get(readable.name, set()) if source == "file" else set()
    rows = trace.total_average().to_dicts() or [dict.fromkeys(SUMS, 0)]
    assert {n: rows[0][n] or 0 for n in SUMS if n not in missing} == {
        n: v for n, v in total.items() if n not in missing
    }
    if "self_cpu_ns" not in missing:
        assert trace.self_cpu_time_total == round(readable.events.self_cpu_time_total * 1000)


def test_kinds_add_up_to_torchs_rows(readable: Taken) -> None:
    trace = loaded(readable, "live")

    def by_key(rows: Rows) -> dict[tuple[object, ...], list[int]]:
        sums: dict[tuple[object, ...], list[int]] = {}
        for row in rows:
            is_annotation = row["kind"] in {"annotation", "device_annotation"}
            key = (row["name"], row["node_id"], row["device_type"], is_annotation)
            had = sums.get(key, [0] * len(SUMS))
            sums[key] = [a + (row[name] or 0) for a, name in zip(had, SUMS, strict=True)]
        return sums

    apart = by_key(trace.key_averages().to_dicts())
    merged = by_key(trace.key_averages(compat="torch", include_python_functions=True).to_dicts())
    assert list(apart) == list(merged)
    assert apart == merged


def test_first_event(readable: Taken) -> None:
    trace = loaded(readable, "live")
    events = {row["event_id"]: row for row in trace.events.iter_rows(named=True)}
    for row in trace.key_averages().iter_rows(named=True):
        if row["first_event_id"] is None:
            assert row["name"] in {"[memory]", "[OutOfMemory]"}
            continue
        first = events[row["first_event_id"]]
        assert first["kind"] == row["kind"]
        assert row["name"] in {first["name"], "ProfilerStep*"}


def test_deeper_than_torch_can(profiles: Library, source: str) -> None:
    trace = loaded(profiles["deep_recursion"], source)
    rows = trace.key_averages(compat="torch")
    levels = rows.filter(rows["name"].str.starts_with("level "))
    assert levels["name"].to_list() == [f"level {n}" for n in range(1200)]
    assert levels["calls"].to_list() == [1] * 1200
    assert levels["cpu_ns"].is_sorted(descending=True)


def test_other_compat(profiles: Library) -> None:
    with pytest.raises(ParameterError, match="compat: needs None or 'torch', got 'toch'"):
        loaded(profiles["plain"], "live").key_averages(compat="toch")
