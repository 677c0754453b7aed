"""Damaged records and odd values of public reports: right, or refused, or counted."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import profframe
from profframe import Trace
from profframe.show.kernel_names import short_name
from tests import needs


def case(name: str, **options: Any) -> Trace:
    """One of the inputs of public reports, loaded."""
    return profframe.load(needs.case(name), **options)


def checks(trace: Trace) -> dict[str, int]:
    """Numbers of events by what `quality` says of them."""
    return dict(trace.quality.select("issue", "events").rows())


class TestPythonFrames:
    def test_one_without_its_return_ends_with_its_caller(self) -> None:
        trace = case("16_python_overrun.json")
        frames = trace.events.filter(name="model.py(5): boxed_call")
        assert sorted(frames["dur_ns"].to_list()) == [*4 * [300_000], 900_000]
        assert sorted(frames["self_ns"].to_list()) == [*4 * [200_000], 800_000]
        assert min(trace.events["self_ns"].drop_nulls()) >= 0
        assert checks(trace)["cut_frame"] == 1
        rows = trace.events.rows(named=True)
        numbers = {row["event_id"]: row["python_id"] for row in rows}
        for row in rows:
            if row["python_parent_id"] is not None:
                assert numbers[row["parent_id"]] == row["python_parent_id"]

    def test_as_torch_it_is_as_long_as_recorded(self) -> None:
        trace = case("16_python_overrun.json", compat="torch")
        assert trace.events["dur_ns"].max() == 10_000_000_000
        assert trace.events["self_ns"].min() == -800_000

    def test_annotations_that_cross(self) -> None:
        trace = case("17_crossing_annotations.json")
        own = dict(trace.events.select("event_id", "self_ns").rows())
        assert own == {
            0: 100_000,
            1: 530_000,  # without the 20 us that it shares with the two frames of step()
            2: 70_000,  # without the 250 us that it shares with f()
            3: 300_000,
            4: 80_000,
            5: 100_000,
            6: 910_000,
            7: 80_000,
        }
        assert checks(trace)["crossing_slices"] == 4


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Trace]:
    """Loads a text, written to a file."""

    def load(text: str, name: str = "trace.json") -> Trace:
        (tmp_path / name).write_text(text)
        return profframe.load(tmp_path / name)

    return load


drawn = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


class TestCutRecords:
    def test_what_follows_a_cut_event_is_kept(self) -> None:
        trace = case("12c_cut_event.json")
        assert trace.events["name"].to_list() == [f"aten::op{i}" for i in range(12) if i != 6]
        assert checks(trace) == {"unreadable_event": 1}
        assert json.loads(trace.traces["accounted"][0]) == {"events": 11, "dropped": 1}

    def test_wherever_it_is_cut(self, load: Callable[..., Trace]) -> None:
        lines = needs.case("12c_cut_event.json").read_text().split("\n")
        whole = lines[5].replace("op5", "op6").rstrip(",")
        for place in range(1, len(whole) - 1, 5):
            trace = load("\n".join([*lines[:6], whole[:place] + ",", *lines[7:]]))
            assert trace.events["name"].to_list() == [f"aten::op{i}" for i in range(12) if i != 6]
            assert checks(trace) == {"unreadable_event": 1}, whole[:place]
        trace = load("\n".join([*lines[:6], whole[:-1] + ",", *lines[7:]]))
        assert trace.events.height == 12
        assert checks(trace) == {"missing_bracket": 1}

    @drawn
    @given(st.data())
    def test_several_of_any_form(self, load: Callable[..., Trace], data: st.DataObject) -> None:
        texts = st.text('ab {}[]\\,:"\n', max_size=6)
        args = st.dictionaries(
            st.sampled_from(["Input Dims", "name", "id", "k"]),
            texts | st.integers(-9, 9) | st.lists(st.lists(st.integers(0, 9), max_size=2))
            | st.lists(st.fixed_dictionaries({"name": texts, "value": texts}), max_size=3),
            max_size=4,
        )  # fmt: skip
        events = [
            {"ph": "X", "cat": "cpu_op", "name": f"op{i}", "pid": 1, "tid": 1, "ts": 100 * i,
             "dur": 50, "args": data.draw(args)} for i in range(8)
        ]  # fmt: skip
        cut = data.draw(st.sets(st.integers(0, 6), min_size=1, max_size=3))
        parts = [json.dumps(event) for event in events]
        for i in cut:
            parts[i] = parts[i][: data.draw(st.integers(1, len(parts[i]) - 2))]
        between = data.draw(st.sampled_from([",\n", ", ", ",\n  "]))
        trace = load('{"traceEvents": [' + between.join(parts) + "]}")
        rows = trace.events.select("name", "dur_ns").rows()
        assert rows == [(f"op{i}", 50_000) for i in range(8) if i not in cut]
        assert checks(trace) == {"unreadable_event": len(cut)}

    @pytest.mark.parametrize("places", [(10, 1), (1, 1), (1, 10)])
    def test_two_that_follow_each_other(
        self, load: Callable[..., Trace], places: tuple[int, int]
    ) -> None:
        lines = needs.case("12c_cut_event.json").read_text().split("\n")
        event = lines[5].rstrip(",")
        cut = [event[:place] + "," for place in places]
        trace = load("\n".join([*lines[:6], *cut, *lines[8:]]))
        names = [f"aten::op{i}" for i in range(12) if i not in {6, 7}]
        assert trace.events["name"].to_list() == names
        assert checks(trace) == {"unreadable_event": 2}

    def test_two_writers_in_one_file(self) -> None:
        trace = case("12a_interleaved.json")
        recorded = needs.case("12a_interleaved.json").read_text().count('"ph"')
        assert trace.events.height == 17
        assert set(trace.events["pid"]) == {"100", "0"}
        found = checks(trace)
        assert found["unreadable_event"] + found["second_array"] == recorded - 17 - 4
        accounted = json.loads(trace.traces["accounted"][0])
        assert accounted == {"events": 17, "metadata": 4, "dropped": recorded - 21}

    @pytest.mark.parametrize(
        ("name", "nodes", "found"),
        [
            ("23a_et_ok.json", 12, {}),
            ("23b_et_missing_commas.json", 12, {"odd_comma": 11}),
            ("23c_et_cut_node.json", 11, {"unreadable_event": 1}),
            ("23d_et_attr_comma.json", 12, {"odd_comma": 1}),
            ("23e_et_no_tail.json", 12, {"truncated": 0}),
            ("23f_et_missing_brace.json", 12, {"missing_bracket": 1}),
        ],
    )
    def test_execution_traces(self, name: str, nodes: int, found: dict[str, int]) -> None:
        trace = case(name)
        assert trace.scan("nodes").collect().height == nodes
        assert checks(trace) == found

    @drawn
    @given(st.data())
    def test_no_attribute_of_a_node_is_a_node(
        self, load: Callable[..., Trace], data: st.DataObject
    ) -> None:
        self.cut_a_node(load, data.draw(st.integers(1, 11)), data.draw(st.integers(2, 495)))

    @pytest.mark.parametrize("place", [61, 131, 244, 393, 495])
    def test_a_node_is_cut(self, load: Callable[..., Trace], place: int) -> None:
        """In a name with brackets, behind an object, and in the last array of a node."""
        self.cut_a_node(load, 1, place)

    def cut_a_node(self, load: Callable[..., Trace], node: int, place: int) -> None:
        lines = needs.case("23a_et_ok.json").read_text().split("\n")
        first = next(i for i, line in enumerate(lines) if line.startswith('{"id": 1,'))
        cut = first + node - 1
        left = lines[cut][: min(place, len(lines[cut]) - 3)]
        lines[cut] = left + ","
        trace = load("\n".join(lines), "et.json")
        told = checks(trace)
        told.pop("missing_parent", None)  # where the one that was cut has others in it
        nodes = trace.scan("nodes").collect()["node_id"].to_list()
        if "missing_bracket" in told:  # nobody knows that it had more
            assert left.rstrip(", ").endswith("}")
            assert told == {"missing_bracket": 1}
            assert nodes == [*range(1, 13)]
        else:
            assert told == {"unreadable_event": 1}
            assert nodes == [i for i in range(1, 13) if i != node]


class TestBeginAndEnd:
    def test_they_are_closed_by_name(self) -> None:
        trace = case("68_real_crossing_begin_end.json")
        assert trace.events.filter(name="add_11 Cmpt Prep")["dur_ns"].sum() == 1_232_737
        assert checks(trace) == {"crossing_slices": 7}


def test_a_parent_that_is_no_node_is_told() -> None:
    trace = case("26_et_missing_parent.json")
    assert trace.scan("nodes").collect().height == 11
    assert set(checks(trace)) == {"missing_parent"}
    assert not checks(case("23a_et_ok.json"))


def test_an_instruction_of_hlo_is_named_by_its_result() -> None:
    trace = case("13_tpu_quotes.json")
    kernels = trace.events.filter(kind="kernel")["name"]
    assert [short_name(name) for name in kernels] == [f"%own-call.{i}" for i in range(5)]
    assert sorted(trace.kernels()["name"]) == sorted(kernels)


class TestSnapshots:
    def test_stacks_do_not_begin_with_what_recorded_them(self) -> None:
        trace = case("69_real_cpp_stacks.pickle")
        stacks = trace.memory_stacks(top=0)
        for text in [*stacks["stack"].drop_nulls(), *stacks["name"].drop_nulls()]:
            assert not text.startswith(("torch::unwind", "??", "torch::CapturedTraceback"))
            assert "Allocator::" not in text.partition(";")[0]
        assert (
            trace.scan("stacks").collect()["name"].to_list().count("torch::unwind::unwind()") == 88
        )

    def test_the_peak_is_one(self) -> None:
        trace = case("69_real_cpp_stacks.pickle")
        peak = trace.snapshot_timeline(points=0)["allocated_bytes"].max()
        assert trace.memory_stacks(top=0)["peak_bytes"].sum() == peak
        assert trace.memory_peak()["allocated_bytes"].to_list() == [peak]

    def test_what_the_program_freed_is_not_unfreed(self, tmp_path: Path) -> None:
        def record(action: str, address: int, size: int) -> dict[str, Any]:
            return {"action": action, "addr": address, "size": size, "stream": 0, "frames": []}

        records = [
            record("alloc", 1, 100),
            record("free_requested", 1, 100),
            record("alloc", 2, 10),
            record("alloc", 3, 5),
        ]
        path = tmp_path / "waiting.pickle"
        path.write_bytes(pickle.dumps({"segments": [], "device_traces": [records]}))
        (row,) = profframe.load(path).memory_stacks().to_dicts()
        assert (row["peak_bytes"], row["end_bytes"], row["unfreed_blocks"]) == (100, 15, 2)


class TestMemoryRecords:
    def test_numbers_beyond_64_bits_are_told(self) -> None:
        trace = case("65_odd_memory.json")
        assert checks(trace) == {"odd_value": 1}
        last = trace.memory.rows(named=True)[-1]
        assert (last["address"], last["total_allocated_bytes"], last["bytes"]) == (
            None,
            None,
            -(2**63),
        )

    @drawn
    @given(
        st.lists(
            st.dictionaries(
                st.sampled_from(["Bytes", "Addr", "Total Allocated", "Total Reserved"]),
                st.none() | st.integers(-(2**66), 2**66) | st.integers(-9, 2**40) | st.just("x"),
                min_size=1,
            ),
            min_size=1,
            max_size=6,
        )
    )
    def test_so_are_any(self, load: Callable[..., Trace], records: list[dict[str, Any]]) -> None:
        events = [
            {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 1,
             "tid": 1, "ts": 10 + i, "args": {"Device Type": 1, "Device Id": 0, **record}}
            for i, record in enumerate(records)
        ]  # fmt: skip
        trace = load(json.dumps({"traceEvents": events}))
        numbers = [[v for v in record.values() if v is not None] for record in records]
        odd = sum(any(v == "x" or not -(2**63) <= v < 2**63 for v in some) for some in numbers)
        assert checks(trace).get("odd_value", 0) == odd
        names = {"Bytes": "bytes", "Addr": "address", "Total Allocated": "total_allocated_bytes"}
        for row, record in zip(trace.memory.rows(named=True), records, strict=True):
            for member, column in names.items():
                value = record.get(member)
                fits = isinstance(value, int) and -(2**63) <= value < 2**63
                assert row[column] == (value if fits else None)
