"""Inputs of public reports, with the right values by hand."""

from __future__ import annotations

import polars as pl
import pytest

import profframe
from profframe import Trace
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
