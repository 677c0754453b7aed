"""What is written as Perfetto's protobuf reads back as the same in Chrome's JSON does."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import polars as pl
from hypothesis import example, given, settings
from hypothesis import strategies as st

import profframe
from profframe.errors import SourceError
from tests import needs
from tests.builders import together
from tests.pftrace_round_trip import Viewed, differences_of_forms
from tests.property.test_export import of_another_format, without_typed_ends
from tests.property.test_export_job import _ALL
from tests.property.test_reading import documents

needs.module("perfetto")


@settings(max_examples=max(1, settings().max_examples // 3))
@given(documents(), st.booleans())
@example(_ALL, True)
@example(_ALL, False)
def test_one_trace_reads_back_as_from_json(text: str, is_json: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in.json")
        source.write_text(without_typed_ends(text))
        try:
            trace = profframe.load(source)
        except SourceError:
            return  # no event has a phase: it is no trace
        trace = trace if is_json else of_another_format(trace)
        assert differences_of_forms(trace, Path(folder)) == []


@settings(max_examples=max(1, settings().max_examples // 6))
@given(st.lists(documents(), min_size=2, max_size=3), st.booleans())
@example([_ALL, _ALL], True)
def test_ranks_together_read_back_as_from_json(texts: list[str], has_runs: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        traces = []
        for rank, text in enumerate(texts):
            source = Path(folder, "in.json")
            source.write_text(without_typed_ends(text))
            try:
                traces.append(profframe.load(source, f"run {rank % 2 if has_runs else 0}", rank))
            except SourceError:
                continue
        if len(traces) < 2:
            return
        trace = together(*sorted(traces, key=lambda t: t.traces.select("run", "rank").row(0)))
        options = {"clocks": "recorded", "collectives": True}
        assert differences_of_forms(trace, Path(folder), **options) == []


Interval = tuple[int, int, int]


@given(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 12), st.integers(0, 8)), max_size=14))
@example([(1, 0, 5), (1, 0, 8), (1, 5, 5), (1, 5, 0), (1, 3, 9), (1, 3, 9), (1, 2, 2)])
def test_a_viewer_sees_each_slice_as_long_as_it_is(slices: list[Interval]) -> None:
    events = [
        f'{{"ph":"X","name":"n{n}","pid":1,"tid":{tid},"ts":{start},"dur":{length}}}'
        for n, (tid, start, length) in enumerate(slices)
    ]
    with tempfile.TemporaryDirectory() as folder:
        source, written = Path(folder, "in.json"), Path(folder, "out.pftrace")
        source.write_text(f'{{"traceEvents":[{",".join(events)}]}}')
        trace = profframe.load(source)
        trace.export_chrome_trace(written)
        viewed = Viewed(written)
    assert (viewed.lone_ends, viewed.open_at_end) == (0, 0)
    first = trace.events.select(pl.col("start_ns").min()).item() or 0
    expected = Counter(
        (name, start - first, dur)
        for name, start, dur in trace.events.select("name", "start_ns", "dur_ns").iter_rows()
    )
    found = Counter[tuple[str | None, int, int]]()
    for (_, start, dur, name), count in viewed.slices.items():
        found[name, start, dur] += count
    assert found == expected
