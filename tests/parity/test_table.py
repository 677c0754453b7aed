"""The text of the table against torch's own."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from typing import Any, Final

import pytest

import profframe
from profframe import Trace
from profframe.facts.torch_compat.releases import averages_frames, installed
from tests import needs
from tests.members import few
from tests.parity.profiles import SCENARIOS, Library, Taken
from tests.parity.test_key_averages import loaded

Options = Mapping[str, Any]

GROUPINGS: Final[tuple[Options, ...]] = (
    {},
    {"group_by_input_shape": True},
    {"group_by_stack_n": 1},
    {"group_by_stack_n": 5},
    {"group_by_overload_name": True},
    {"group_by_input_shape": True, "group_by_stack_n": 3, "group_by_overload_name": True},
)
STYLES: Final[tuple[Options, ...]] = (
    {},
    {"sort_by": "self_cpu_time_total", "row_limit": 10, "header": "Where it went"},
    {"sort_by": "count", "time_unit": "ms", "row_limit": -1, "max_name_column_width": 20},
    {
        "sort_by": "self_cpu_memory_usage",
        "time_unit": "s",
        "max_name_column_width": None,
        "max_src_column_width": 30,
    },
    {"sort_by": "cuda_time_total", "top_level_events_only": True, "row_limit": 200},
)
OTHER_STYLES: Final[tuple[Options, ...]] = (
    *({"sort_by": name, "row_limit": 30} for name in (
        "key", "flops", "cpu_time", "cpu_time_total", "xpu_time_total", "cuda_time", "node_id",
        "self_xpu_memory_usage", "self_privateuse1_time_total", "cpu_memory_usage", "scope",
        "is_async", "is_remote", "is_legacy", "is_user_annotation", "input_shapes", "stack",
        "overload_name", "cpu_time_str", "self_cpu_time_total_str",
    )),
    {"row_limit": 0},
    {"row_limit": 1},
    {"time_unit": "us"},
    {"max_name_column_width": 0, "row_limit": 3},
    {"max_name_column_width": 3, "max_src_column_width": 0, "row_limit": 3},
    {"max_src_column_width": 3, "row_limit": 3},
    {"max_src_column_width": None, "row_limit": 3},
    {"header": ""},
    {"header": "h", "top_level_events_only": True},
)  # fmt: skip
RICH: Final = (
    "training", "verbose", "several_threads", "double_backward", "scheduled_cycles", "flops",
)  # fmt: skip
READABLE: Final = sorted({*SCENARIOS} - {"deep_recursion"})
NOT_IN_THE_FILE: Final[Mapping[str, str]] = {
    "async_regions": "that a region is asynchronous",
    "unfinished_region": "when a region that was still open was cut off",
    "hostile_names": "names that the exporter changes",
    "python_export": "that flops were asked for, and when the profiler began",
}
"""Profiles whose table needs what their file does not hold."""
IN_THE_FILE: Final = sorted({*READABLE} - {*NOT_IN_THE_FILE})
ONE_WAY: Final = sorted({*IN_THE_FILE} - {*RICH[2:]})
"""Those that are not held live in every run, and two that are."""
_NUMBER: Final = re.compile(r"(-?\d+\.\d+)(\D*)")


def combinations(groupings: int, styles: int) -> list[tuple[Options, Options]]:
    return list(itertools.product(GROUPINGS[:groupings], STYLES[:styles]))


def some_combinations(name: str, styles: int) -> list[tuple[Options, Options]]:
    """Every grouping with one style; the rich profiles together have each pair at least once."""
    first = RICH.index(name)
    return [
        (grouping, STYLES[(first + number) % styles]) for number, grouping in enumerate(GROUPINGS)
    ]


def text_of_torch(taken: Taken, grouping: Options, style: Options) -> str:
    averages = taken.events.key_averages(
        group_by_input_shapes=grouping.get("group_by_input_shape", False),
        group_by_stack_n=grouping.get("group_by_stack_n", 0),
        group_by_overload_name=grouping.get("group_by_overload_name", False),
    )
    return str(averages.table(**style))


def assert_same(trace: Trace, taken: Taken, grouping: Options, style: Options) -> None:
    found = trace.table(**grouping, **style, compat="torch")
    assert found == text_of_torch(taken, grouping, style), (grouping, style)


class TestAsTorch:
    @pytest.mark.parametrize("name", few(READABLE, (*RICH, *NOT_IN_THE_FILE)))
    def test_live(self, profiles: Library, name: str) -> None:
        trace = loaded(profiles[name], "live")
        for grouping, style in some_combinations(name, 4) if name in RICH else combinations(3, 1):
            assert_same(trace, profiles[name], grouping, style)

    @pytest.mark.parametrize("name", few(IN_THE_FILE, ONE_WAY))
    def test_file(self, profiles: Library, name: str) -> None:
        trace = loaded(profiles[name], "file")
        for grouping, style in some_combinations(name, 3) if name in RICH else combinations(3, 1):
            assert_same(trace, profiles[name], grouping, style)

    @pytest.mark.long
    @pytest.mark.parametrize("source", ["live", "file"])
    @pytest.mark.parametrize("name", sorted({*RICH} & {*IN_THE_FILE}))
    def test_every_grouping_in_every_style(self, profiles: Library, name: str, source: str) -> None:
        trace = loaded(profiles[name], source)
        for grouping, style in combinations(6, 4):
            assert_same(trace, profiles[name], grouping, style)

    @pytest.mark.parametrize("name", few(["async_regions", "training", "hostile_names"], 1))
    def test_event_list(self, profiles: Library, name: str) -> None:
        trace = profframe.load(profiles[name].events)
        for grouping, style in combinations(6, 2):
            assert_same(trace, profiles[name], grouping, style)

    @pytest.mark.parametrize("style", few([*STYLES[4:], *OTHER_STYLES], 8), ids=str)
    def test_every_option(self, profiles: Library, style: Options) -> None:
        taken = profiles["verbose"]
        assert_same(loaded(taken, "live"), taken, GROUPINGS[-1], style)

    def test_nothing_is_no_text(self, profiles: Library) -> None:
        assert text_of_torch(profiles["empty"], {}, {}) == ""
        assert profframe.load(profiles["empty"].path).table(compat="torch") == ""
        assert profframe.load(profiles["empty"].path).table() == ""

    def test_what_torch_cannot(self, profiles: Library) -> None:
        taken = profiles["deep_recursion"]
        live, file = profframe.load(taken.profiler), profframe.load(taken.path)
        text = live.table(row_limit=-1, compat="torch")
        assert text == file.table(row_limit=-1, compat="torch")
        assert text.count("\n") > 1200


class TestByDefault:
    @pytest.mark.parametrize("name", RICH)
    def test_as_torch_but_for_ties_and_the_order_of_flops_and_source(
        self, profiles: Library, name: str
    ) -> None:
        trace, taken = loaded(profiles[name], "live"), profiles[name]
        for grouping, style in some_combinations(name, 3):
            theirs = text_of_torch(taken, grouping, style)
            if "FLOPs" in theirs and "Source Location" in theirs:
                continue
            frames = averages_frames(installed())
            text = trace.table(**grouping, **style, include_python_functions=frames)
            assert_same_but_for_ties(text, theirs)

    def test_flops_and_source_stand_below_their_headers(self, profiles: Library) -> None:
        trace = profframe.load(profiles["verbose"].profiler)
        text = trace.table(group_by_stack_n=3, row_limit=-1, max_name_column_width=None)
        _, header, rule, *lines = text.splitlines()
        ends = [match.end() for match in re.finditer(r"-+", rule)]
        assert header[: ends[-2]].endswith("FLOPs")
        assert header[ends[-2] :].strip() == "Source Location"
        flops = {line[ends[-3] : ends[-2]].strip() for line in lines[:-3]}
        assert "" in flops  # the further frames of a stack
        assert all(re.fullmatch(r"|--|\d+\.\d{3}", cell) for cell in flops)
        assert any(".py(" in line[ends[-2] :] for line in lines)


def assert_same_but_for_ties(found: str, theirs: str) -> None:
    """Equal, or numbers of one unit that differ by one in the last place."""
    assert found.count("\n") == theirs.count("\n")
    for mine, its in zip(found.splitlines(), theirs.splitlines(), strict=True):
        assert len(mine) == len(its)
        for left, right in zip(mine.split(), its.split(), strict=True):
            if left != right:
                one, other = _NUMBER.fullmatch(left), _NUMBER.fullmatch(right)
                assert one is not None
                assert other is not None
                places = len(one[1].partition(".")[2])
                assert abs(float(one[1]) - float(other[1])) < 1.5 * 10**-places
                assert one[2] == other[2]


@pytest.mark.parametrize("device_bytes", [1536, 0])
@pytest.mark.parametrize("use_device", ["cuda", "xpu", None])
def test_device_memory_has_its_columns_without_device_slices(
    use_device: str | None, device_bytes: int
) -> None:
    util = needs.module("torch.autograd.profiler_util")
    events = util.EventList(
        [
            util.FunctionEvent(
                number, name, 1, 100 * number, 100 * number + 50, input_shapes=[], stack=[],
                use_device=use_device, cpu_memory_usage=10, device_memory_usage=device_bytes,
            )
            for number, name in enumerate(("aten::mm", "aten::add"))
        ],
        use_device=use_device,
        profile_memory=True,
    )  # fmt: skip
    ours = profframe.load(events, compat="torch").table(compat="torch")
    events._build_tree()
    assert ours == events.key_averages().table()
    if use_device is not None and device_bytes:
        assert f"{use_device.upper()} Mem" in ours
