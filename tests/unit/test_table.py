"""Torch's table, of a few events typed by hand; `tests/parity/test_table.py` has torch's own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from profframe import ParameterError, Trace, UnknownNameError
from profframe.analysis.torch_table import float_times
from tests.builders import event, together
from tests.builders import loaded as trace


def cells(text: str) -> list[list[str]]:
    """Cells of the rows below the header."""
    lines = text.splitlines()
    rules = [number for number, line in enumerate(lines) if line.startswith("---")]
    return [re.split(r"\s{2,}", line.strip()) for line in lines[rules[1] + 1 : rules[2]]]


def self_times(text: str) -> dict[str, str]:
    """Own host times of the rows."""
    return {row[0]: row[2] for row in cells(text)}


class TestNumbers:
    def test_times(self) -> None:
        texts = {
            0: "0.000us",
            1: "0.001us",
            999_999: "999.999us",
            1_000_000: "1.000ms",
            1_000_500: "1.000ms",  # a tie goes to the even digit
            1_001_500: "1.002ms",
            999_999_499: "999.999ms",
            999_999_500: "1000.000ms",  # the unit goes by the number before it is rounded
            1_000_000_000: "1.000s",
            86_400_000_000_000: "86400.000s",
        }
        slices = (event(f"f{ns}", 0, ns, thread=thread) for thread, ns in enumerate(texts))
        shown = {row[0]: row[4] for row in cells(trace(*slices).table())}
        assert shown == {f"f{ns}": text for ns, text in texts.items()}

    def test_unit(self) -> None:
        one = trace(event("f", 0, 1_234_567))
        assert [cells(one.table(time_unit=unit))[0][4] for unit in ("s", "ms", "us")] == [
            "0.001s",
            "1.235ms",
            "1234.567us",
        ]

    def test_shares_are_of_all_self_times(self) -> None:
        # 1/8 is 12.50 %; 1/1600 of it lies halfway between 0.06 % and 0.07 %.
        found = cells(trace(event("f", 0, 1600), event("g", 100, 101)).table())
        assert [row[:2] for row in found] == [["f", "99.94%"], ["g", "0.06%"]]
        assert [row[3] for row in found] == ["100.00%", "0.06%"]

    def test_nothing_to_share(self) -> None:
        ((_, own, _, total, *_),) = cells(trace(event("f", 5, 5)).table())
        assert (own, total) == ("NaN", "NaN")

    def test_overlaps_make_own_time_negative(self) -> None:
        crossing = trace(event("f", 0, 10_000), event("g", 0, 8_000), event("h", 5_000, 10_000))
        assert cells(crossing.table())[0][1:3] == ["-30.00%", "-3.000us"]

    def test_average_of_thirds(self) -> None:
        found = cells(trace(*(event("f", n * 10, n * 10 + 1 + (n > 1)) for n in range(3))).table())
        assert found[0][5] == "0.001us"

    def test_memory(self) -> None:
        sizes = [1023, 1024, -1152, 3 << 20, 5 << 30]
        events = [event(f"f{n}", n * 10, n * 10 + 5) for n in range(len(sizes))]
        records = [
            {"time_ns": n * 10 + 1, "bytes": size, "device_type": "CPU"}
            for n, size in enumerate(sizes)
        ]
        found = cells(trace(*events, memory=records).table())
        assert [row[6] for row in found] == ["1023 B", "1.00 KB", "-1.12 KB", "3.00 MB", "5.00 GB"]

    @pytest.mark.parametrize(
        ("dims", "header", "cell"),
        [
            ("[[9]]", "Total FLOPs", "9.000"),
            ("[[999]]", "Total FLOPs", "999.000"),
            ("[[1000]]", "Total KFLOPs", "1.000"),
            ("[[1001,1000,500]]", "Total MFLOPs", "500.500"),
            ("[[1000,1000,1000,1000,1000,1000]]", "Total PFLOPs", "1000.000"),
        ],
    )
    def test_flops(self, dims: str, header: str, cell: str) -> None:
        one = trace(
            event("aten::add", 0, 1, input_dims=dims),
            event("other", 2, 3),
            header={"profiler_flags": '{"with_flops": 1}'},
        )
        text = one.table()
        assert text.splitlines()[1].split("  ")[-2].strip() == header
        assert [row[-1] for row in cells(text)] == [cell, "--"]


class TestColumns:
    def test_devices(self) -> None:
        one = trace(
            event("op", 0, 100),
            event("launch", 10, 20, category="cuda_runtime", correlation=1),
            event("gemm", 30, 70, category="kernel", thread=1, correlation=1, device=0),
            event("span", 30, 80, category="gpu_user_annotation", thread=1, device=0),
            header={"device_type": "XPU"},
        )
        text = one.table()
        header = re.split(r"\s{2,}", text.splitlines()[1].strip())
        assert header[6:10] == ["Self XPU", "Self XPU %", "XPU total", "XPU time avg"]
        assert text.endswith("Self XPU time total: 0.040us\n")
        own = {row[0]: row[6:8] for row in cells(text)}
        assert own["op"] == ["0.040us", "100.00%"]
        assert own["span"] == ["0.050us", "125.00%"]  # as in torch: not part of the whole

    def test_nodes(self) -> None:
        one = trace(event("f", 0, 1, node_id=3), event("f", 2, 3, node_id=4), event("f", 4, 5))
        text = one.table()
        assert text.splitlines()[1].endswith("# of Calls       Node ID  ")
        assert [row[-1] for row in cells(text)] == ["3", "4", "-1"]

    def test_asynchronous(self) -> None:
        found = cells(trace(event("f", 0, 9, is_async=True), event("g", 1, 10)).table())
        assert found[0][:5] == ["f", "0.00%", "0.000us", "0", "0.009us"]

    def test_top_level(self) -> None:
        one = trace(
            event("outer", 0, 9),
            event("inner", 1, 2),
            event("aten::is_leaf", 20, 29),
            event("in what torch drops", 21, 22),
        )
        found = cells(one.table(top_level_events_only=True))
        assert [row[0] for row in found] == ["outer", "in what torch drops"]


class TestSeveralTraces:
    def test_each_has_a_table(self) -> None:
        first, second = trace(event("f", 0, 1), run="a"), trace(event("g", 0, 2), run="b\x1b[31m")
        text = together(first, second).table(header="mine")
        above, below = text.split("\n\n")
        assert above + "\n" == first.table(header="run a, rank 0, mine")
        assert below == second.table(header="run b\\x1b[31m, rank 0, mine")

    def test_with_torchs_sums(self) -> None:
        first, second = trace(event("f", 5, 9), run="a"), trace(event("f", 7, 9), run="it's")
        text = together(first, second).table(compat="torch")
        assert text.split("\n\n")[1] == second.table(header="run it's, rank 0", compat="torch")

    def test_one_of_them(self) -> None:
        first, second = trace(event("f", 0, 1), run="a"), trace(event("g", 0, 2), run="b")
        assert together(first, second).filter(runs="a").table() == first.table()


class TestStore:
    def test_same_text(self, tmp_path: Path) -> None:
        whole = together(
            trace(event("f", 10, 90), event("f", 20, 30), event("k", 0, 5), run="2024-01-01"),
            trace(event("g", 7, 9, stack="a;b"), run="it's"),
        )
        whole.to_parquet(tmp_path / "store")
        stored = Trace.from_store(tmp_path / "store")
        for compat in (None, "torch"):
            assert stored.table(group_by_stack_n=1, compat=compat) == whole.table(
                group_by_stack_n=1, compat=compat
            )
        assert stored.self_cpu_time_total == 87


class TestHostileText:
    NAMES = ("a\x1b[31mb", "line\nbreak", "\N{SNOWMAN}" * 9, "{} %s", "", "  ", "\u202eright")

    def test_control_bytes_are_shown(self) -> None:
        one = trace(*(event(name, n, n) for n, name in enumerate(self.NAMES)))
        text = one.table()
        assert len(text.splitlines()) == 3 + len(self.NAMES) + 2
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "a\\x1b[31mb" in text
        assert len({len(line) for line in text.splitlines()[:-1]}) == 1

    def test_torch_writes_them(self) -> None:
        text = trace(*(event(name, n, n) for n, name in enumerate(self.NAMES))).table(
            compat="torch"
        )
        assert all(name in text for name in self.NAMES)

    def test_no_name(self) -> None:
        assert trace(event(None, 0, 1)).table() == trace(event("", 0, 1)).table()

    def test_odd_shapes(self) -> None:
        dims = ["no list", "[[2],[3,4]]", "[[2],null]", '[["x"]]', "[" * 2000, "[[2],[3,5]]", None]
        one = trace(*(event("f", n, n, input_dims=text) for n, text in enumerate(dims)))
        text = one.table(group_by_input_shape=True, sort_by="input_shapes")
        assert "no list" in text
        assert re.findall(r"\[\[2\], \[3, .\]\]", text) == ["[[2], [3, 5]]", "[[2], [3, 4]]"]


class TestUnknownTimes:
    def test_a_slice_that_never_ended(self) -> None:
        one = trace(event("f", 0, None), event("g", None, None), event("h", 0, 7))
        assert cells(one.table(compat="torch")) == cells(one.table())
        assert {row[0]: row[4] for row in cells(one.table())} == {
            "f": "0.000us",
            "g": "0.000us",
            "h": "0.007us",
        }

    def test_what_is_left_of_a_trace(self) -> None:
        whole = trace(
            event("frame", 0, 1000, category="python_function"),
            event("op", 100, 900),
            event("frame inside", 200, 700, category="python_function"),
            event("inner", 300, 400),
        )
        part = whole.filter(kinds="host_op")
        assert part.table(compat="torch") == part.table()
        assert self_times(part.table()) == {"op": "0.300us", "inner": "0.100us"}

    def test_time_that_two_children_share(self) -> None:
        slices = (
            event("op", 0, 1000),
            event("region", 100, 500),
            event("frame", 300, 700, category="python_function"),
        )
        whole = trace(*slices)
        assert self_times(whole.table(compat="torch"))["op"] == "0.200us"
        part = whole.filter(kinds="host_op")
        assert self_times(part.table(compat="torch"))["op"] == "0.400us"

    def test_sums_in_groups(self, monkeypatch: pytest.MonkeyPatch) -> None:
        one = trace(event("f", 0, 1000), *(event("g", n, n + 7) for n in range(3, 900, 9)))
        found = one.table(compat="torch")
        monkeypatch.setattr(float_times, "_COMPENSATES", True)
        assert one.table(compat="torch") == found


@pytest.fixture(scope="module")
def two() -> Trace:
    return trace(event("f", 0, 1), event("g", 2, 3))


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "error", "words"),
        [
            ({"sort_by": "self_cpu_time"}, UnknownNameError, "did you mean 'self_cpu_time_total'"),
            ({"sort_by": "self_cuda_time"}, UnknownNameError, "mean 'self_cuda_time_total'"),
            ({"sort_by": ""}, UnknownNameError, "no sort key named ''"),
            ({"sort_by": 3}, ParameterError, "sort_by: needs text, got 3"),
            ({"time_unit": "mss"}, UnknownNameError, "did you mean 'ms'"),
            ({"time_unit": 1}, ParameterError, "time_unit: needs text"),
            ({"header": 1}, ParameterError, "header: needs text"),
            ({"row_limit": "9"}, ParameterError, "row_limit: needs 64-bit integers"),
            ({"row_limit": 1.5}, ParameterError, "row_limit: needs 64-bit integers"),
            ({"max_name_column_width": -1}, ParameterError, "at least 0, got -1"),
            (
                {"max_src_column_width": "wide"},
                ParameterError,
                "max_src_column_width: needs 64-bit int",
            ),
            ({"compat": "toch"}, ParameterError, "needs None or 'torch', got 'toch'"),
            (
                {"group_by_stack_n": "many"},
                ParameterError,
                "group_by_stack_n: needs 64-bit integers",
            ),
            ({"group_by_input_shape": "false"}, ParameterError, "needs True or False, got 'false'"),
            ({"group_by_overload_name": 1}, ParameterError, "group_by_overload_name: needs True"),
            ({"top_level_events_only": None}, ParameterError, "needs True or False, got None"),
        ],
    )
    def test_bad(
        self, two: Trace, arguments: dict[str, object], error: type[Exception], words: str
    ) -> None:
        with pytest.raises(error) as raised:
            two.table(**arguments)  # type: ignore[arg-type]
        assert words in str(raised.value)

    @pytest.mark.parametrize("limit", [0, 1, 2, -1, -7])
    def test_rows(self, two: Trace, limit: int) -> None:
        text = two.table(row_limit=limit)
        printed = text.splitlines()[3:-2]
        assert len(printed) == (limit if limit >= 0 else 2)

    def test_order_of_equals_is_that_of_their_first_events(self) -> None:
        one = trace(event("b", 0, 1), event("c", 2, 3), event("a", 4, 6), event("d", 7, 8))
        found = cells(one.table(sort_by="cpu_time_total"))
        assert [row[0] for row in found] == ["a", "b", "c", "d"]


def test_nothing() -> None:
    assert trace().table() == ""
    assert trace().table(compat="torch", header="x") == ""
    assert trace().self_cpu_time_total == 0
