"""A Trace answers the same from memory and from a store, filtered or not, and never changes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import profframe
from profframe import schema, store
from profframe.errors import AnswerError, ParameterError, StoreError, UnknownNameError
from profframe.query.catalogue import find
from profframe.trace.trace import Trace
from tests.builders import Row, stored, table
from tests.members import few

STEPS = 4
TIMED = ("memory", "flows", "counters", "instants")


def rank_tables(run: str, rank: int) -> dict[str, list[dict[str, object]]]:
    """Steps of 100 ns, 110 ns apart; in each an op of 60 ns, a kernel, a record of each kind."""
    key = {"run": run, "rank": rank}
    events = []
    for step in range(STEPS):
        start = 110 * step
        events += [
            {"kind": "annotation", "name": f"ProfilerStep#{step}", "step": step, "self_ns": 40}
            | {"start_ns": start, "dur_ns": 100},
            {"kind": "host_op", "name": "aten::mm", "step": step, "self_ns": 60, "category": "op"}
            | {"start_ns": start + 10, "dur_ns": 60},
            {"kind": "kernel", "name": "gemm", "step": step, "self_ns": 30, "device": 0}
            | {"start_ns": start + 150, "dur_ns": 30, "op_id": 3 * step + 1},
        ]
    times = [110 * step + 50 for step in range(STEPS)]
    records = [key | {"time_ns": time, "name": "n", "phase": "s", "bytes": 8} for time in times]
    known = {name: set(schema.TABLES[name].names) for name in TIMED}
    return {
        "events": [key | {"event_id": i, "thread": 0} | e for i, e in enumerate(events)],
        "threads": [key | {"thread": 0, "pid": "1", "tid": "2"}],
        "devices": [key | {"device": 0, "name": "A", "bandwidth_bytes_per_s": 1e12}],
        "traces": [key | {"source": "t.json", "clock": "utc", "start_ns": 0, "end_ns": 470}],
        "quality": [key | {"issue": "truncated", "events": 1, "action": "kept"}],
    } | {name: [{k: r[k] for k in r if k in known[name]} for r in records] for name in TIMED}


def trace_of(*traces: tuple[str, int]) -> Trace:
    parts = [rank_tables(run, rank) for run, rank in traces]
    return stored(**{name: [r for part in parts for r in part[name]] for name in parts[0]})


def made_of(events: Iterable[Row], memory: Iterable[Row] = ()) -> Trace:
    return stored(events=events, memory=memory, traces=[{}])


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Two runs, one of two ranks."""
    return trace_of(("a", 0), ("a", 1), ("it's", 0))


@pytest.fixture(scope="module")
def from_store(trace: Trace, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The same in a store."""
    path = tmp_path_factory.mktemp("trace") / "[a] *store"
    trace.to_parquet(path)
    return Trace.from_store(path)


FILTERS: dict[str, Callable[[Trace], Trace]] = {
    "one step": lambda t: t.filter(steps=2),
    "steps": lambda t: t.filter(steps=[0, 3]),
    "range": lambda t: t.filter(steps=range(1, 3)),
    "range beyond": lambda t: t.filter(steps=range(2, 10**30)),
    "numpy": lambda t: t.filter(steps=np.array([1, 2]), ranks=np.int32(1)),
    "rank": lambda t: t.filter(ranks=1),
    "ranks": lambda t: t.filter(ranks=range(8)),
    "run": lambda t: t.filter(runs="it's"),
    "runs": lambda t: t.filter(runs=["a", "it's"]),
    "kinds": lambda t: t.filter(kinds=("kernel", "host_op")),
    "time": lambda t: t.filter(start_ns=110, end_ns=220),
    "none of them": lambda t: t.filter(steps=[]),
    "all": lambda t: t.filter(
        steps=range(1, 4), runs="a", ranks=0, kinds="host_op", start_ns=0, end_ns=330
    ),
    "one after the other": lambda t: t.filter(kinds="host_op").filter(steps=[1, 2]).filter(steps=2),
}


SOME_FILTERS = ("range beyond", "numpy", "run", "none of them", "all", "one after the other")
"""Each argument, as a name, a range, an array and nothing; the others are long."""

"""What is filtered has other rows, but the same answers: of all rows, more are asked."""
SOME_ANSWERS = ("self_times", "memory_peak", "time_breakdown")
FILLED = (*rank_tables("", 0), "allocations", "nodes")
"""Tables with rows, and two of those without."""


def reading_every_table() -> list[str]:
    """The fewest answers, by and large, that together read every table; the others read no more."""
    needs = {
        name: {*find(name).needs} for name in profframe.answers().filter(kind="answer")["name"]
    }
    chosen: list[str] = []
    while any(needs.values()):
        chosen.append(max(needs, key=lambda name: len(needs[name])))
        read = needs[chosen[-1]]
        needs = {name: tables - read for name, tables in needs.items()}
    return chosen


def everything(
    trace: Trace, answers: Iterable[str], tables: Iterable[str] = FILLED
) -> dict[str, pl.DataFrame]:
    """Tables, and answers without parameters."""
    with trace.session() as asked:
        return rows_of(asked, answers, tables)


def rows_of(
    asked: Trace, answers: Iterable[str], tables: Iterable[str] = FILLED
) -> dict[str, pl.DataFrame]:
    rows = {name: getattr(asked, name) for name in tables}
    return rows | {name: asked.answer(name) for name in answers}


@pytest.fixture(scope="module")
def asked(trace: Trace) -> Iterator[Trace]:
    """The trace in memory; what was asked once is not computed again."""
    with trace.session() as asked:
        yield asked


@pytest.fixture(scope="module", params=["some", pytest.param("all", marks=pytest.mark.long)])
def answers(request: pytest.FixtureRequest) -> list[str]:
    """Those that are asked of all rows; each one by itself is in `tests/sql`."""
    if request.param == "all":
        return profframe.answers().filter(kind="answer")["name"].to_list()
    return reading_every_table()


@pytest.fixture(scope="module")
def whole(asked: Trace, answers: list[str]) -> dict[str, pl.DataFrame]:
    """Tables and answers of the trace in memory."""
    return rows_of(asked, answers, schema.TABLES)


@pytest.fixture(scope="module")
def whole_of_store(from_store: Trace, answers: list[str]) -> dict[str, pl.DataFrame]:
    """Tables and answers of the trace in a store."""
    return everything(from_store, answers, schema.TABLES)


@pytest.mark.parametrize(
    "choose",
    few(
        FILTERS.values(),
        [FILTERS[name] for name in SOME_FILTERS],
    ),
    ids=FILTERS,
)
def test_memory_and_store_say_the_same(
    choose: Callable[[Trace], Trace], trace: Trace, from_store: Trace
) -> None:
    in_memory, stored = choose(trace), choose(from_store)

    ours, theirs = everything(in_memory, SOME_ANSWERS), everything(stored, SOME_ANSWERS)

    for name, frame in ours.items():
        assert frame.equals(theirs[name]), name
    check_tables(in_memory, stored, ours)


def test_memory_and_store_say_the_same_of_all(
    trace: Trace,
    from_store: Trace,
    whole: dict[str, pl.DataFrame],
    whole_of_store: dict[str, pl.DataFrame],
) -> None:
    for name, frame in whole.items():
        assert frame.equals(whole_of_store[name]), name
    check_tables(trace, from_store, whole)


def check_tables(in_memory: Trace, stored: Trace, ours: dict[str, pl.DataFrame]) -> None:
    here, there = in_memory.tables, stored.tables
    for name, arrow in here.items():
        assert arrow.schema.equals(schema.TABLES[name].arrow)
        assert arrow.to_pylist() == there[name].to_pylist()
        if name in ours:
            assert arrow.to_pylist() == ours[name].to_dicts()
            assert in_memory.sql(f"FROM {name}").equals(ours[name])


def test_a_chosen_trace_can_be_stored_and_is_the_same(from_store: Trace, tmp_path: Path) -> None:
    chosen = from_store.filter(runs="a", steps=range(1, 3))

    chosen.to_parquet(tmp_path / "chosen")

    kept = Trace.from_store(tmp_path / "chosen")
    assert kept.traces["run"].to_list() == ["a", "a"]
    ours, theirs = everything(chosen, SOME_ANSWERS), everything(kept, SOME_ANSWERS)
    for name, frame in ours.items():
        assert frame.equals(theirs[name]), name


def test_steps_choose_events_by_step_and_the_rest_by_window(trace: Trace) -> None:
    chosen = trace.filter(runs="a", ranks=0, steps=[1, 3])

    assert sorted(chosen.events["step"].unique()) == [1, 3]
    assert chosen.events.filter(kind="kernel")["start_ns"].to_list() == [260, 480]
    for name in TIMED:
        assert getattr(chosen, name)["time_ns"].to_list() == [160, 380]
    assert [chosen.traces.height, chosen.threads.height, chosen.quality.height] == [1, 1, 1]


def test_a_step_that_never_ended_has_no_end() -> None:
    step = {"kind": "annotation", "name": "ProfilerStep#0", "step": 0, "start_ns": 10}
    trace = made_of([step], [{"time_ns": t} for t in (9, 10, 99)])

    assert trace.filter(steps=0).memory["time_ns"].to_list() == [10, 99]


def test_times_are_half_open_and_what_has_no_time_is_left_out() -> None:
    trace = made_of([{"start_ns": t} for t in (None, 1, 2, 3)])

    assert trace.filter(start_ns=1, end_ns=3).events["start_ns"].to_list() == [1, 2]
    assert trace.filter(start_ns=2).events["start_ns"].to_list() == [2, 3]
    assert trace.filter().events["start_ns"].to_list() == [None, 1, 2, 3]


def test_facts_are_kept(trace: Trace) -> None:
    kept = trace.filter(ranks=0, runs="a", kinds="kernel")

    assert kept.events["op_id"].to_list() == [1, 4, 7, 10]
    assert kept.events["event_id"].to_list() == [2, 5, 8, 11]


@given(
    st.lists(st.integers(0, STEPS - 1)),
    st.integers(-50, 500),
    st.integers(-50, 500),
    st.lists(st.sampled_from(schema.KINDS)),
)
def test_a_filter_is_what_plain_python_keeps(
    steps: list[int], start: int, end: int, kinds: list[str]
) -> None:
    trace = trace_of(("a", 0))

    chosen = trace.filter(steps=steps, start_ns=start, end_ns=end, kinds=kinds)

    assert chosen.events.to_dicts() == [
        event
        for event in trace.events.to_dicts()
        if event["step"] in steps and start <= event["start_ns"] < end and event["kind"] in kinds
    ]
    assert chosen.memory.to_dicts() == [
        record
        for record in trace.memory.to_dicts()
        if start <= record["time_ns"] < end
        and any(110 * step <= record["time_ns"] < 110 * step + 100 for step in steps)
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kinds": "kernl"}, "no kind named 'kernl'; did you mean 'kernel'?"),
        ({"runs": "b"}, "no run named 'b'"),
        ({"ranks": 7}, "no rank 7 (known: 0-1)"),
        ({"ranks": range(7, 9)}, "no rank from 7 to 8 (known: 0-1)"),
        ({"steps": [1, 9, 10]}, "no step 9-10 (known: 0-3)"),
        ({"kinds": "kernel", "steps": 9}, "no step 9 (known: 0-3)"),
    ],
)
def test_unknown_names_are_refused_with_what_there_is(
    arguments: dict[str, object], message: str, trace: Trace, from_store: Trace
) -> None:
    for of in (trace, from_store):
        with pytest.raises(UnknownNameError) as error:
            of.filter(**arguments)  # type: ignore[arg-type]
        assert message in str(error.value)


@pytest.mark.parametrize(
    "arguments",
    [
        {"steps": "two"},
        {"steps": 1.5},
        {"ranks": True},
        {"runs": 3},
        {"kinds": [1]},
        {"end_ns": 1e9},
    ],
)
def test_values_of_another_type_are_refused(arguments: dict[str, object], trace: Trace) -> None:
    with pytest.raises(ParameterError, match=next(iter(arguments))):
        trace.filter(**arguments)  # type: ignore[arg-type]


def test_a_kind_of_ones_own_is_known_where_it_occurs() -> None:
    trace = made_of([{"kind": "collective"}, {"kind": "kernel"}])

    assert trace.filter(kinds="collective").events.height == 1


def test_nothing_can_be_set_or_changed(trace: Trace) -> None:
    for name in ("events", "anything", "_session"):
        with pytest.raises(AttributeError, match="frozen"):
            setattr(trace, name, 1)
    with pytest.raises(AttributeError, match="frozen"):
        del trace._session
    before = trace.events.clone()
    trace.events[0, "name"] = "changed"
    trace.events.insert_column(0, pl.Series("x", range(before.height)))
    trace.tables.clear()
    assert trace.events.equals(before)


def test_it_can_be_copied_and_sent_to_another_process(trace: Trace, from_store: Trace) -> None:
    for of in (trace.filter(steps=1), from_store.filter(steps=1)):
        sent = pickle.loads(pickle.dumps(of))  # noqa: S301 - it comes from the line above
        for other in (sent, copy.copy(of), copy.deepcopy(of)):
            assert other.self_times().equals(of.self_times())


def test_text_is_plain_and_sums_are_integers(
    trace: Trace,
    from_store: Trace,
    whole: dict[str, pl.DataFrame],
    whole_of_store: dict[str, pl.DataFrame],
) -> None:
    for of, found in ((trace, whole), (from_store, whole_of_store)):
        frames = [*found.values(), of.sql("SELECT 'a'::ENUM('a') AS e FROM events")]
        types = {type_ for frame in frames for type_ in frame.dtypes} - {pl.List(pl.Int64)}
        assert types <= {pl.String, pl.Int32, pl.Int64, pl.Float64, pl.Boolean}
    assert trace.sql("SELECT sum(dur_ns) AS s FROM events").dtypes == [pl.Int64]
    assert trace.sql("SELECT sum(1e18::BIGINT) AS s FROM events").item() == 36 * 10**18


def test_methods_are_their_answers(
    trace: Trace, asked: Trace, answers: list[str], whole: dict[str, pl.DataFrame]
) -> None:
    for name in answers:
        assert getattr(asked, name)().equals(whole[name])
    options = {"group_by_input_shape": True, "group_by_stack_n": 2, "group_by_overload_name": True}
    grouped = trace.key_averages(True, 2, True)
    assert grouped.equals(trace.answer("key_averages", **options))


def test_a_file_of_ones_own_is_an_answer(trace: Trace, tmp_path: Path) -> None:
    file = tmp_path / "longest.sql"
    file.write_text("SELECT max(dur_ns) AS dur_ns FROM events")

    assert trace.answer(file).item() == trace.answer(str(file)).item() == 100


def test_what_cannot_be_asked_is_refused_with_the_nearest(trace: Trace) -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'self_times'"):
        trace.answer("self_time")
    with pytest.raises(UnknownNameError, match="did you mean 'events'"):
        trace.scan("event")
    with pytest.raises(UnknownNameError, match="dur_ns"):
        trace.sql("SELECT dur FROM events")
    with pytest.raises(UnknownNameError, match="events"):
        trace.sql("SELECT 1 FROM evnts")
    with pytest.raises(ParameterError, match="group_by_stack_n"):
        trace.answer("key_averages", group_by_stack=1)
    with pytest.raises(AnswerError, match="exactly one SELECT"):
        trace.sql("DROP VIEW events")


def test_scan_of_a_store_reads_what_is_asked_for(from_store: Trace) -> None:
    lazy = from_store.filter(kinds="kernel").scan("events").select(pl.len())

    assert "PROJECT" in lazy.explain()
    assert lazy.collect().item() == 12


def test_a_store_that_is_damaged_later_is_named(trace: Trace, tmp_path: Path) -> None:
    trace.to_parquet(tmp_path)
    opened = Trace.from_store(tmp_path)
    (tmp_path / "run=a/rank=1/events.parquet").write_bytes(b"PAR1 no more")

    for ask in (opened.self_times, lambda: opened.events, lambda: opened.tables):
        with pytest.raises(StoreError, match=r"rank=1/events\.parquet"):
            ask()


def test_a_store_that_is_gone_is_named(trace: Trace, tmp_path: Path) -> None:
    trace.to_parquet(tmp_path / "store")
    opened = Trace.from_store(tmp_path / "store")
    (tmp_path / "store").rename(tmp_path / "moved")

    with pytest.raises(StoreError, match=r"rank=0/events\.parquet"):
        opened.self_times()


def test_a_store_can_be_written_onto_itself(trace: Trace, tmp_path: Path) -> None:
    trace.to_parquet(tmp_path)
    Trace.from_store(tmp_path).filter(ranks=1, steps=2).to_parquet(tmp_path)

    kept = Trace.from_store(tmp_path)
    assert kept.filter(ranks=1).events["step"].unique().to_list() == [2]
    assert kept.filter(runs="it's").events.equals(trace.filter(runs="it's").events)


def test_tables_in_memory_are_not_copied(trace: Trace) -> None:
    tables = trace.tables

    for name, rows in Trace.from_tables(tables).tables.items():
        given, got = tables[name]["rank"].chunk(0), rows["rank"].chunk(0)
        assert given.buffers()[1].address == got.buffers()[1].address


def test_text_in_several_chunks_with_other_dictionaries_is_read() -> None:
    rows = [table("events", [{"name": name, "kind": "host_op"}]) for name in ("a", "b")]
    tables = {name: table(name, []) for name in schema.TABLES} | {"events": pa.concat_tables(rows)}

    trace = Trace.from_tables(tables)

    assert trace.events["name"].to_list() == ["a", "b"]
    assert trace.filter(kinds="host_op").tables["events"]["name"].to_pylist() == ["a", "b"]


def test_answers_lists_what_can_be_asked() -> None:
    listed = profframe.answers()

    assert listed.columns == ["name", "kind", "sentence", "parameters", "needs", "divides_by"]
    needs = dict(listed.select("name", "needs").iter_rows())
    assert needs["blame"] == "communication kernels or collectives, sends or receives"
    assert needs["kernels"] == "kernels"
    assert needs["hangs"] == "flight recorder dump"
    assert "group_by_stack_n=0" in listed.filter(name="key_averages")["parameters"].item()
    assert store.is_store(Path("/nonexistent")) is False
