from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from profframe.facts.fact import Tables
from profframe.facts.memory import DEVICE_MEMORY, HOST_MEMORY
from profframe.facts.pipeline import add_facts
from tests.builders import Row, event, tables
from tests.oracles import facts as oracle
from tests.oracles.intervals import Interval, stab, window_sum

PLACE = st.integers(0, 25)
HOST = ("cpu_op", "cpu_op", "python_function", "user_annotation", "cuda_runtime", "cuda_driver")
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "gpu_user_annotation")


@st.composite
def slices(draw: st.DrawFn, categories: tuple[str, ...]) -> Row:
    start, end = sorted((draw(PLACE), draw(PLACE)))
    return event(
        draw(st.sampled_from(["f", "g"])),
        start,
        end,
        category=draw(st.sampled_from(categories)),
        thread=draw(st.integers(0, 2)),
        pid=draw(st.sampled_from(["1", "1", "2"])),
        correlation=draw(st.none() | st.integers(0, 6)),
        external_id=draw(st.none() | st.integers(0, 3)),
        is_async=draw(st.sampled_from([None, False, True])),
        ev_idx=draw(st.none() | st.integers(0, 3)),
    )


RECORDS = st.fixed_dictionaries(
    {
        "time_ns": PLACE,
        "bytes": st.integers(-9, 9),
        "thread": st.integers(0, 3),
        "device_type": st.sampled_from(["CPU", "MKLDNN", "CUDA", "MPS", None]),
    }
)
SOURCES = st.builds(
    lambda events, memory: tables(*events, memory=memory),
    st.lists(slices(HOST) | slices(DEVICE), max_size=30),
    st.lists(RECORDS, min_size=1, max_size=12),
)
TRACES = SOURCES.map(add_facts)


def rows_of(trace: Tables) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = trace["events"].to_pylist()
    return rows


@given(TRACES)
def test_duplicates_are_those_of_torchs_fixpoint(trace: Tables) -> None:
    rows = rows_of(trace)
    parents = [-1 if row["parent_id"] is None else oracle.integer(row["parent_id"]) for row in rows]
    expected = oracle.duplicates(parents, [str(row["name"]) for row in rows])
    assert [row["merged_into"] for row in rows] == expected


@given(TRACES)
def test_launches_and_their_ops_are_those_of_a_search_of_all(trace: Tables) -> None:
    rows = rows_of(trace)
    for row in rows:
        on_device = row["kind"] in {"kernel", "memcpy", "memset", "sync", "device_annotation"}
        launch = oracle.launch(row, rows) if on_device else None
        assert row["launch_id"] == launch
        if launch is not None or not on_device:
            assert row["op_id"] == oracle.op_around(launch, rows)
        else:
            assert row["op_id"] == oracle.op_of_external_id(row, rows)


@given(TRACES)
def test_device_time_is_the_sum_over_all_that_is_inside(trace: Tables) -> None:
    rows = rows_of(trace)
    assert [row["device_ns"] for row in rows] == oracle.device_ns(rows)


@given(TRACES)
def test_own_times_add_up_to_those_of_the_roots(trace: Tables) -> None:
    """Slices that cross have time in common: self times leave out what frames beside them have."""
    rows = [row for row in rows_of(trace) if row["depth"] is not None]
    crosses = "crossing_slices" in trace["quality"]["issue"].to_pylist()
    for own, whole in (("self_ns", "dur_ns"), ("self_device_ns", "device_ns")):
        of_roots = sum(oracle.integer(row[whole]) for row in rows if row["depth"] == 0)
        of_all = sum(oracle.integer(row[own]) for row in rows)
        if own == "self_ns" and crosses:
            assert of_all + sum(oracle.integer(row["shared_ns"] or 0) for row in rows) >= of_roots
        else:
            assert of_all == of_roots


@given(TRACES)
def test_bytes_are_those_of_a_search_of_all(trace: Tables) -> None:
    records = trace["memory"].to_pylist()
    for row in rows_of(trace):
        for name, types in (("cpu_bytes", HOST_MEMORY), ("device_bytes", DEVICE_MEMORY)):
            if row["self_cpu_bytes"] is None:
                assert row[name] is None
                continue
            start, dur = oracle.integer(row["start_ns"]), oracle.integer(row["dur_ns"])
            points = [(r["time_ns"], r["bytes"]) for r in records if r["device_type"] in types]
            assert row[name] == window_sum(points, start, start + dur)


@given(TRACES)
def test_the_op_of_a_record_is_that_of_a_search_of_all(trace: Tables) -> None:
    rows = [row for row in rows_of(trace) if row["cpu_bytes"] is not None]
    of_ops = [row for row in rows if row["kind"] == "host_op"]
    for record in trace["memory"].to_pylist():
        at, thread = record["time_ns"], record["thread"]
        found = [
            near[row]
            for near, group in ((of_ops, thread), (rows, thread), (rows, None))
            if (row := stab([interval(one, group) for one in near], 0, at)) >= 0
        ]
        assert record["op_id"] == (found[0]["event_id"] if found else None)


def interval(row: Row, thread: int | None) -> Interval:
    """A slice, in group 0 if it is on the thread or no thread is asked for."""
    start, dur = oracle.integer(row["start_ns"]), oracle.integer(row["dur_ns"])
    return Interval(int(thread is not None and row["thread"] != thread), start, start + dur)
