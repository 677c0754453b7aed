"""What is packed of a timeline is what the tables say, and what is left out is said."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profframe
from profframe import Trace, cli
from profframe.pages.timeline import Timeline, extra_columns, lanes
from profframe.pages.timeline.encoding import PackedColumn, packed
from profframe.pages.timeline.lanes import placed, spread
from profframe.pages.timeline.page_budget import TimelineDocument, document, longest
from profframe.trace.timeline_selection import timeline_rows
from tests import hostile, needs
from tests.builders import Row, event, loaded, loaded_ranks, together
from tests.conftest import ROOT
from tests.members import few
from tests.oracles.timeline import numbers, slices, sums

LARGE = 2**52
STREAM: dict[str, Any] = {"category": "kernel", "thread": 9, "device": 0, "stream": 7}


def packed_slices(
    trace: Trace, most_bytes: int | None = None
) -> tuple[TimelineDocument, list[dict[str, Any]]]:
    rows = timeline_rows(trace)
    made = document(rows, most_bytes)
    return made, slices(made)


def cut(value: object) -> object:
    """What the page has of a value: 500 characters of a long text."""
    return value[:500] + "…" if isinstance(value, str) and len(value) > 500 else value


def check(trace: Trace) -> None:
    """Every slice with a start is there once, where its columns say, with all columns."""
    made, rows = packed_slices(trace)
    traces = made.head["traces"]
    found = {}
    for row in rows:
        of = traces[row["trace"]]
        found[of["run"], of["rank"], row["event_id"]] = row | {
            "start_ns": row["begin"] + int(of["zero"])
        }
    events = trace.events.filter(pl.col("start_ns").is_not_null())
    assert len(found) == len(rows) == events.height
    assert made.head["untimed"] == trace.events.height - events.height
    for one in events.iter_rows(named=True):
        row = found[one["run"], one["rank"], one["event_id"]]
        for column, name in (
            ("start_ns", "start_ns"), ("dur_ns", "dur"), ("name", "name"), ("kind", "kind"),
            ("category", "category"), ("parent_id", "parent"), ("self_ns", "self"),
            ("launch_id", "launch"), ("op_id", "op"), ("step", "step"), ("input_dims", "dims"),
        ):  # fmt: skip
            assert row[name] == cut(one[column]), column
        lane = made.head["lanes"][row["lane"]]
        if lane["sort"] == "host":
            assert row["row"] == one["depth"]
        if lane["sort"] == "device":
            assert (lane["device"], lane["stream"]) == (one["device"], one["stream"])


@pytest.mark.parametrize(
    "name", few(["cpu_training", "gpu_training", "cuda"], ["cpu_training", "cuda"])
)
def test_examples(name: str) -> None:
    check(profframe.load(ROOT / "examples" / f"{name}.json.gz"))


@st.composite
def rank(draw: st.DrawFn) -> list[Row]:
    rows: list[Row] = []
    for number in range(draw(st.integers(1, 12))):
        begin = draw(st.integers(0, 50) | st.integers(0, LARGE))
        end = draw(st.none() | st.integers(0, 40).map(begin.__add__))
        name = draw(st.sampled_from(["f", "g", "ProfilerStep#3", "", None]))
        if draw(st.booleans()):
            rows.append(event(name, begin, end, **STREAM, correlation=draw(st.integers(1, 3))))
        else:
            category = draw(st.sampled_from(["cpu_op", "cuda_runtime", "user_annotation", "odd"]))
            given_columns: dict[str, Any] = {
                "correlation": draw(st.integers(1, 3)),
                "input_dims": f"[[{number}]]",
            }
            thread = draw(st.integers(0, 1))
            rows.append(event(name, begin, end, category=category, thread=thread, **given_columns))
    if draw(st.booleans()):
        rows.append(event("untimed", None, None))
    return rows


@settings(max_examples=max(1, settings().max_examples // 3))
@given(st.lists(rank(), min_size=1, max_size=3))
def test_drawn(ranks: list[list[Row]]) -> None:
    check(loaded_ranks(ranks))


@given(st.lists(st.integers(-(2**50), 2**50), min_size=1), st.data())
def test_columns(values: list[int], data: st.DataObject) -> None:
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))))
    heads, body = packed(
        [PackedColumn("a", np.array(values), mask), PackedColumn("b", np.array(values))]
    )
    columns = {name: [*of] for name, of in numbers(TimelineDocument({"columns": heads}, body))}
    assert columns["b"] == values
    assert columns["a"] == [None if no else one for one, no in zip(values, mask, strict=True)]


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(0, 9)), min_size=1))
def test_rows_of_what_does_not_nest(rows: list[tuple[int, int, int]]) -> None:
    lane, begin, dur = (np.array(column) for column in zip(*rows, strict=True))
    row = spread(lane, begin, dur)
    for key in set(zip(lane.tolist(), row.tolist(), strict=True)):
        on_it = [(b, b + d) for (g, b, d), r in zip(rows, row, strict=True) if (g, r) == key]
        assert all(other[0] >= one[1] for one, other in pairwise(sorted(on_it)))


def test_what_is_farthest_from_the_others_is_drawn_and_no_farther() -> None:
    far = 2**52
    rows = [(0, 0), (0, far), (0, far + 1), (0, None), (far, 0), (far + 1, 0)]
    frame = pl.DataFrame(rows, {"start_ns": pl.Int64, "dur_ns": pl.Int64}, orient="row")
    drawn = frame.select(pl.lit(0).alias("_trace"), "start_ns", "dur_ns").select(lanes._is_drawn())
    assert drawn.to_series().to_list() == [True, True, False, True, True, False]


def test_slices_that_overlap_go_to_the_next_row_in_the_order_of_time() -> None:
    begin, dur = np.array([2, 3, 4, 5]), np.array([5, 1, 2, 3])
    assert spread(np.zeros(4, np.int64), begin, dur).tolist() == [0, 1, 1, 2]


@pytest.mark.parametrize(
    ("lane", "row", "order"),
    [
        pytest.param([1, 0], [0, 1], [1, 0], id="a row of the lane before"),
        pytest.param([65_536, 1, 65_535], [0, 0, 0], [1, 2, 0], id="more lanes than 16 bits hold"),
    ],
)
def test_slices_are_by_lane_then_row(lane: list[int], row: list[int], order: list[int]) -> None:
    begin = np.arange(len(lane))
    assert lanes._order(np.array(lane), np.array(row), begin).tolist() == order


def test_a_lane_for_each_thread_and_stream() -> None:
    trace = loaded(
        event("f", 0, 10),
        event("g", 0, 10, thread=3),
        event("k", 5, 9, **STREAM),
        event("k", 7, 12, **STREAM),
        event("k", 5, 9, **STREAM | {"stream": 20}),
        threads=[{"thread": 0, "thread_name": "main"}, {"thread": 3, "thread_name": "\x1b[31m"}],
    )
    lanes = document(timeline_rows(trace)).head["lanes"]
    assert [(lane["title"], lane["rows"]) for lane in lanes] == [
        ("device 0 stream 7", [1, 1]),
        ("device 0 stream 20", [1]),
        ("main", [1]),
        ("\\x1b[31m", [1]),
    ]


def test_the_shortest_of_each_lane_are_left_out_and_said() -> None:
    generator = np.random.default_rng(1)
    begins = np.cumsum(generator.integers(10_000, 20_000, 4_000))
    durs = generator.integers(1, 9_999, 4_000)
    pairs = zip(begins.tolist(), durs.tolist(), strict=True)
    trace = loaded(
        *(event("f", b, b + d, thread=number % 2) for number, (b, d) in enumerate(pairs))
    )
    whole, rows = packed_slices(trace)
    most = len(whole.body) * 3 // 4
    made, kept = packed_slices(trace, most)
    assert 0.8 * most < len(made.body) <= most
    for number, lane in enumerate(made.head["lanes"]):
        all_of_it = sorted((row["dur"] for row in rows if row["lane"] == number), reverse=True)
        there = sorted((row["dur"] for row in kept if row["lane"] == number), reverse=True)
        assert there == all_of_it[: len(there)]
        assert lane["left_out"] == len(all_of_it) - len(there) > 0
        assert lane["shortest"] == there[-1]
    assert [lane["left_out"] for lane in whole.head["lanes"]] == [0, 0]


def test_of_very_many_the_longest_are_read() -> None:
    trace = loaded(*(event("f", 100 * n, 100 * n + n) for n in range(1, 21)), event("g", 5, None))
    rows = timeline_rows(trace, 6)
    durs = sorted(rows.slices["dur_ns"].drop_nulls().to_list())
    assert 5 <= len(durs) <= 6
    assert durs == [*range(21 - len(durs), 21)]
    head = document(rows).head
    assert head["unread"] == {"slices": 21 - rows.slices.height, "longest": rows.unread_ns}
    assert rows.unread_ns == durs[0] - 1


def test_backward_leads_to_its_forward() -> None:
    trace = profframe.load(ROOT / "examples" / "gpu_training.json.gz")
    made, rows = packed_slices(trace)
    places = [*sums([*numbers_of(made, "forward")])]
    found = {
        row["event_id"]: rows[place]["event_id"]
        for row, place in zip(rows, places, strict=True)
        if place is not None
    }
    given = trace.events.drop_nulls("fwd_id").select("event_id", "fwd_id")
    assert found == dict(given.iter_rows())
    assert len(found) > 20


def numbers_of(made: TimelineDocument, name: str) -> list[int | None]:
    return {column: [*of] for column, of in numbers(made)}[name]


def test_each_run_has_its_path() -> None:
    made, rows = packed_slices(
        together(loaded(event("f", 0, 900), run="a"), loaded(event("g", 50, 90), run="b"))
    )
    path = made.head["path"]
    assert path["of"] == ["the whole trace"] * 2
    assert path["traces"] == [0, 1]
    assert path["lacks"] == ""
    assert numbers_of(made, "path_dur") == [row["dur"] for row in rows]


def test_it_is_said_why_there_is_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = loaded(event("f", 0, 900), event("g", 1000, 1100))
    monkeypatch.setattr("profframe.trace.timeline_selection._MOST_PATH_EVENTS", 1)
    path = packed_slices(trace)[0].head["path"]
    assert path["of"] == [""]
    assert path["lacks"] == "the trace has no steps, and more than 1 events"


def test_what_advice_and_the_path_are_of() -> None:
    trace = profframe.load(ROOT / "examples" / "gpu_training.json.gz")
    made, rows = packed_slices(trace)
    advice = trace.advice()
    assert [
        [rows[place]["event_id"] for place in mark["slices"]] for mark in made.head["marks"]
    ] == advice["evidence_events"].to_list()
    steps = trace.step_times()
    slowest = steps.sort("step_ns", descending=True)["step"][0]
    assert made.head["path"]["of"] == [f"step {slowest}, the slowest"]
    assert made.head["path"]["lacks"] == ""
    path = trace.critical_path(slowest).events
    columns = {name: [*of] for name, of in numbers(made)}
    zero = int(made.head["traces"][0]["zero"])
    assert [zero + (one or 0) for one in sums(columns["path_begin"])] == path["start_ns"].to_list()
    assert columns["path_dur"] == path["dur_ns"].to_list()
    places = [*sums(columns["path_slice"])]
    events = [None if place is None else rows[place]["event_id"] for place in places]
    assert events == path["event_id"].to_list()
    bounds = made.head["path"]["bounds"]
    assert [bounds[n] for n in columns["path_bound"]] == path["bound"].to_list()


def test_counters() -> None:
    trace = profframe.load(ROOT / "examples" / "gpu_training.json.gz")
    head = document(timeline_rows(trace)).head
    zero = int(head["traces"][0]["zero"])
    counters = {(one["name"], one["device"], one["stream"]): one for one in head["counters"]}
    queue = trace.queue_depth(points=1000)
    assert counters["queue depth", 0, 7]["value"] == queue["depth"].to_list()
    times = [zero + begin for begin in counters["queue depth", 0, 7]["begin"]]
    assert times == queue["time_ns"].to_list()
    memory = trace.memory_timeline()
    for what in ("allocated", "reserved"):
        one = counters[f"memory {what}: CUDA", 0, None]
        assert one["value"] == memory[f"{what}_bytes"].to_list()
        assert one["unit"] == "bytes"


def test_sampled_counters_keep_their_greatest_values() -> None:
    values = [float(number % 997) for number in range(5_000)]
    rows = [
        {"name": "power", "series": "W", "value": value, "unit": "W", "time_ns": 10 * number}
        for number, value in enumerate(values)
    ]
    made = document(timeline_rows(loaded(event("f", 0, 60_000), counters=rows)))
    (counter,) = made.head["counters"]
    assert (counter["name"], counter["unit"]) == ("power W", "W")
    assert 900 <= len(counter["value"]) <= 1000
    assert max(counter["value"]) == max(values)
    assert counter["begin"] == sorted(counter["begin"])
    at = dict(zip(counter["begin"], counter["value"], strict=True))
    assert all(values[begin // 10] == value for begin, value in at.items())


def test_ranks_are_on_one_clock_where_it_is_known() -> None:
    starts = enumerate((5, 9))
    trace = together(*(loaded(event("f", at, at + 10), run="r", rank=n) for n, at in starts))
    assert set(trace.traces["clock"]) != {"utc"}
    assert [int(one["zero"]) for one in document(timeline_rows(trace)).head["traces"]] == [5, 9]


def step_of_a_job(rank: int, begun: int, launches: int) -> Trace:
    """A step in which an op, a launch and a collective follow each other, and an op after it.

    The clock of rank 1 is 1,000 ahead of that of rank 0. Both collectives end at 300.
    """
    at = 1_000 * rank
    call: dict[str, Any] = {"category": "cuda_runtime"}
    group: dict[str, Any] = {"collective": "allreduce", "process_group": "0", "collective_seq": 1}
    return loaded(
        event("ProfilerStep#7", at + 50, at + 500, category="user_annotation"),
        event("f", at + begun, at + launches),
        event("cudaLaunchKernel", at + launches, at + launches + 20, **call, correlation=1),
        event("cudaDeviceSynchronize", at + launches + 20, at + 305, **call, correlation=2),
        event("ncclDevKernel_AllReduce", at + launches + 30, at + 300, **STREAM, **group,
              correlation=1),
        event("g", at + 310, at + 340),
        run="a", rank=rank,
        counters=[{"name": "power", "series": "W", "value": 1.0, "time_ns": at + 60}],
    )  # fmt: skip


@pytest.fixture(scope="module")
def several() -> tuple[TimelineDocument, list[dict[str, Any]]]:
    """Two ranks of run a, whose clocks differ, and run b, two of whose steps take the longest."""
    steps = [(1, 5, 45), (2, 55, 105), (3, 105, 155), (4, 155, 195)]
    marks = [
        event(f"ProfilerStep#{number}", start, end, category="user_annotation")
        for number, start, end in steps
    ]
    return packed_slices(
        together(step_of_a_job(0, 100, 120), step_of_a_job(1, 150, 250), loaded(*marks, run="b"))
    )


def test_a_clock_that_is_ahead_begins_as_much_later(
    several: tuple[TimelineDocument, list[dict[str, Any]]],
) -> None:
    made, rows = several
    assert [int(one["zero"]) for one in made.head["traces"]] == [50, 1_050, 5]
    assert [(row["trace"], row["begin"]) for row in rows if row["name"] == "f"] == [
        (0, 50), (1, 100),
    ]  # fmt: skip


def test_the_first_slices_of_every_trace_have_no_parent(
    several: tuple[TimelineDocument, list[dict[str, Any]]],
) -> None:
    outermost = {(row["trace"], row["name"]) for row in several[1] if row["parent"] is None}
    assert outermost == {
        (0, "ProfilerStep#7"), (0, "ncclDevKernel_AllReduce"),
        (1, "ProfilerStep#7"), (1, "ncclDevKernel_AllReduce"),
        *((2, f"ProfilerStep#{number}") for number in range(1, 5)),
    }  # fmt: skip


def test_of_equally_slow_steps_the_path_is_of_the_first(
    several: tuple[TimelineDocument, list[dict[str, Any]]],
) -> None:
    slowest = ["step 7, the slowest"] * 2 + ["step 2, the slowest"]
    assert several[0].head["path"]["of"] == slowest


def test_a_path_across_ranks_is_on_the_clock_of_the_lowest_one(
    several: tuple[TimelineDocument, list[dict[str, Any]]],
) -> None:
    """Until 280 it is on rank 1, whose kernel the other waits for; run b has a path by itself."""
    made, rows = several
    columns = {name: [*of] for name, of in numbers(made)}
    places = [place or 0 for place in sums(columns["path_slice"])]
    assert [(rows[place]["trace"], rows[place]["name"]) for place in places] == [
        (1, "ProfilerStep#7"), (1, "f"), (1, "cudaLaunchKernel"), (0, "ncclDevKernel_AllReduce"),
        (0, "cudaDeviceSynchronize"), (0, "ProfilerStep#7"), (0, "g"), (0, "ProfilerStep#7"),
        (2, "ProfilerStep#2"),
    ]  # fmt: skip
    assert [*sums(columns["path_begin"])] == [0, 100, 200, 230, 250, 255, 260, 290, 50]
    assert columns["path_dur"] == [100, 100, 30, 20, 5, 5, 30, 160, 50]


def test_steps_and_counters_begin_by_the_clock_of_their_rank(
    several: tuple[TimelineDocument, list[dict[str, Any]]],
) -> None:
    steps, counters = several[0].head["steps"], several[0].head["counters"]
    assert [*zip(steps["trace"], steps["begin"], strict=True)] == [
        (0, 0), (1, 0), (2, 0), (2, 50), (2, 100), (2, 150),
    ]  # fmt: skip
    assert [(one["name"], one["trace"], one["begin"]) for one in counters] == [
        ("queue depth", 0, [70, 100]), ("queue depth", 1, [200, 230]),
        ("power W", 0, [10]), ("power W", 1, [10]),
    ]  # fmt: skip


def test_hostile_texts_do_not_act(hostile_trace: Trace) -> None:
    made = document(timeline_rows(hostile_trace))
    head = made.head
    texts = [
        *head["names"], *head["categories"], *head["dims"],
        *(lane["title"] for lane in head["lanes"]), *(one["title"] for one in head["traces"]),
        *(one["name"] for one in head["counters"]), *(one["text"] for one in head["marks"]),
    ]  # fmt: skip
    assert [text for text in texts if text and hostile.ACTS.search(text)] == []
    assert max(len(text or "") for text in head["names"]) < 4_000
    names = Counter(hostile_trace.events["name"].fill_null("").to_list())
    assert names["<!-- --> ]]> <![CDATA[ <plaintext>"] > 0
    assert "<!-- --> ]]> <![CDATA[ <plaintext>" in head["names"]


def test_a_notebook_shows_it() -> None:
    shown = profframe.load(ROOT / "examples" / "cpu_training.json.gz").plot.timeline()
    assert isinstance(shown, Timeline)
    assert "slices; a notebook draws it" in repr(shown)
    assert shown.document.text in shown._repr_html_()


@pytest.mark.parametrize("form", ["budget", "none"])
def test_reports_have_it_or_not(form: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    trace = loaded(event("f", 0, 9))
    trace.report(page, sections=["timeline", "provenance"], timeline=form)
    html = page.read_text()
    assert (
        html.count('data-timeline="timeline"')
        == html.count("const timeline = ")
        == (form == "budget")
    )


def test_the_verb_has_the_option(tmp_path: Path) -> None:
    needs.charts()
    source, page = str(ROOT / "examples" / "cpu_training.json.gz"), tmp_path / "report.html"
    sections = ["--section", "timeline", "--section", "provenance"]
    for form, has_it in (("full", True), ("none", False)):
        assert cli.run(["report", source, "-o", str(page), *sections, "--timeline", form]) == 0
        assert ('id="timeline-packed"' in page.read_text()) == has_it
    assert cli.run(["report", source, "-o", str(page), "--timeline", "all"]) == 2


def test_forms_are_named(tmp_path: Path) -> None:
    with pytest.raises(profframe.UnknownNameError, match="budget"):
        loaded(event("f", 0, 9)).report(tmp_path / "report.html", timeline="all")


def test_times_that_are_months_away_are_counted() -> None:
    """A script has no exact numbers for them, and all others would be a point."""
    now = 1_790_000_000_000_000_000
    rows = [event("f", now + n, now + n + 5) for n in range(3)]
    head, slices_of = packed_slices(
        loaded(event("g", 0, 9), *rows, event("h", now, now + 2**60), event("i", -(2**62), 0))
    )
    assert [row["name"] for row in slices_of] == ["f", "f", "f"]
    assert (head.head["untimed"], head.head["traces"][0]["zero"]) == (3, str(now))


def test_numbers_that_a_script_has_not_are_texts() -> None:
    """Those of the page are doubles, which differences of numbers have to fit, too."""
    most = 2**51
    for values, is_number in (
        ([1 - most, most - 1], True),
        ([-most, 0], False),
        ([0, most], False),
    ):
        assert extra_columns._is_number(pl.Series(values)) is is_number


def test_nothing_to_draw() -> None:
    with pytest.raises(profframe.ParameterError, match="no slice has a start"):
        loaded(event("f", None, None)).plot.timeline()


def test_the_longest_of_a_lane_are_drawn_first() -> None:
    """Of two as long, the one that began first."""
    slices_ = placed(
        timeline_rows(
            loaded(event("f", 0, 3), event("g", 4, 9), event("h", 10, 15), event("i", 20, 21))
        )
    )
    drawn = [longest(slices_, share).tolist() for share in (0.25, 0.5)]
    assert drawn == [[False, True, False, False], [False, True, True, False]]


def test_places_of_what_is_kept() -> None:
    whole = placed(timeline_rows(loaded(event("f", 0, 9), event("g", 1, 2), event("h", 3, 4))))
    assert whole.kept(np.array([True, False, True])).source.tolist() == [0, 2]
