"""Inputs of public reports, with the right values by hand."""

from __future__ import annotations

import polars as pl
import pytest

import profframe
from profframe import Trace
from profframe.cli import run as command_line
from tests import needs


def ranks(trace: Trace) -> list[tuple[str, int]]:
    return sorted(trace.traces.select("run", "rank").rows())


class TestSeveralRanks:
    @pytest.mark.parametrize("name", ["08a_merged_ranks_pids", "08b_merged_ranks_dev"])
    def test_in_one_file_keep_their_kernels(self, name: str) -> None:
        trace = profframe.load(needs.case(f"{name}.json"))
        assert trace.traces.select("run", "rank", "rank_source").rows() == [
            (name, 0, "processes"),
            (name, 1, "processes"),
        ]
        assert trace.quality.height == 0
        rows = trace.scan("events").filter(pl.col("kind") == "host_op").collect()
        device = rows.group_by("rank", "name").agg(pl.col("device_ns").sum()).sort("rank")
        assert device.rows() == [(0, "aten::mm", 1_500_000), (1, "aten::addmm", 3_500_000)]

    @pytest.mark.parametrize(
        ("name", "numbers"),
        [
            ("28b_sglang_tp", [0, 1, 2, 3]),
            ("28c_sglang_ep", [0, 1, 2, 3]),
            ("29_primus_brackets", [0, 1, 12]),
            ("30_vllm_names", [0, 1, 2, 3]),
            ("31_host_names", [0, 1, 2, 3]),
        ],
    )
    def test_in_names_of_files_are_of_one_run(self, name: str, numbers: list[int]) -> None:
        folder = needs.case(name)
        for source in (folder, folder / "*"):
            assert ranks(profframe.load(source)) == [(name, number) for number in numbers]

    def test_in_odd_names(self) -> None:
        trace = profframe.load(needs.case("32_odd_names"))
        assert ranks(trace) == [("-rf", 0), *(("32_odd_names", rank) for rank in (1, 2, 3))]


def test_a_device_named_by_a_text() -> None:
    trace = profframe.load(needs.case("57_rocm_device_text.json"))
    kernels = trace.scan("events").filter(pl.col("kind") == "kernel").collect()
    assert kernels["device"].to_list() == [0, 0]


def test_step_numbers_that_are_there_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """Two of them are 5 ms long with 30 %, two with 36 % of work."""
    file = needs.case("63_repeated_steps.json")
    assert profframe.load(file).step_times()["step"].to_list() == [0, 1, 0, 1]
    assert command_line(["show", str(file)]) == 0
    first = capsys.readouterr().out.splitlines()
    assert ": 1 run, 1 rank, 4 steps, 120.000 ms" in first[0]
    assert "time         host-bound: compute 33.0 %, idle 67.0 %" in first[3]
    assert "5.000 ms per step, the mean of 4" in first[3]


class TestContainers:
    @pytest.mark.parametrize(
        "name",
        ["40_trace.pt.trace.zip", "41_traces.tar.gz", "42_utf16.json", "46.json.bz2"],
    )
    def test_is_the_trace_in_it(self, name: str) -> None:
        """The files hold what the plain one does."""
        trace, plain = (
            profframe.load(needs.case(name)),
            profframe.load(needs.case("48_plain.json.gz")),
        )
        assert trace.events.height == plain.events.height == 4
        for table in ("events", "flows"):
            rows = [one.scan(table).collect().drop("run", "rank") for one in (trace, plain)]
            assert rows[0].equals(rows[1])

    def test_ranks_in_a_tar_are_of_one_run(self) -> None:
        trace = profframe.load(needs.case("41b_two_ranks.tar.gz"))
        assert ranks(trace) == [("41b_two_ranks", 0), ("41b_two_ranks", 1)]
        assert trace.quality.height == 0
