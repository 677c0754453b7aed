"""What is around slices on paths, and time in slices of a name, against plain loops."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from profframe.analysis.critical_path import late_costs
from profframe.analysis.critical_path.graph import NONE
from profframe.analysis.critical_path.late_costs import RankSlices, SliceLabels

_GONE: Final = -2
_LABELS: Final = 4
_LOAD: Final = 3


@st.composite
def ranks(draw: st.DrawFn) -> RankSlices:
    """Slices whose outer ones come before them; some are in no table, or in a circle by forward."""
    size = draw(st.integers(1, 12))
    outer = [draw(st.sampled_from([NONE, _GONE, *range(row)])) for row in range(size)]
    forward = [draw(st.sampled_from([NONE, NONE, _GONE, *range(row)])) for row in range(size)]

    def column(elements: st.SearchStrategy[int]) -> np.ndarray:
        return np.array(draw(st.lists(elements, min_size=size, max_size=size)), np.int64)

    is_op, is_module = (column(st.integers(0, 1)) > 0 for _ in range(2))
    name, hierarchy = column(st.integers(-1, _LABELS - 1)), column(st.integers(-1, _LABELS - 1))
    event = np.arange(size) * 3
    return RankSlices(
        event,
        np.where(is_op | is_module, np.maximum(name, 0), name),
        hierarchy,
        np.array(outer),
        np.array(forward),
        is_op,
        is_module,
        np.full(size, NONE),
    )


def labels() -> SliceLabels:
    texts = pa.chunked_array([[f"name {code}" for code in range(_LABELS)]])
    return SliceLabels(texts, np.arange(_LABELS) == _LOAD)


def around(slices: RankSlices, row: int) -> tuple[int, int, int]:
    """Op, module and input of one slice: outwards, and where that ends to the forward op."""
    op = module = hierarchy = NONE
    is_input, forward = 0, NONE
    while row >= 0:
        if slices.is_op[row] and op == NONE:
            op = int(slices.name[row])
        if slices.is_module[row] and module == NONE:
            module = int(slices.name[row])
        if slices.hierarchy[row] >= 0 and hierarchy == NONE:
            hierarchy = int(slices.hierarchy[row])
        is_input |= int(slices.name[row] == _LOAD)
        if forward == NONE:
            forward = int(slices.forward[row])
        if slices.outer[row] != NONE:
            row = int(slices.outer[row])
        else:
            row, forward = forward, NONE
    return op, hierarchy if module == NONE else module, is_input


@given(ranks())
def test_what_is_around_slices_is_what_a_walk_outwards_meets(slices: RankSlices) -> None:
    rows = np.arange(slices.event.size)
    found = late_costs.places(slices, labels(), rows)
    columns = (found[name].tolist() for name in ("op", "module", "is_input"))
    assert [*zip(*columns, strict=True)] == [around(slices, row) for row in rows.tolist()]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 9)), min_size=1, max_size=12
    ),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), min_size=1, max_size=8),
)
def test_time_in_slices_of_a_name_until_a_moment(
    slices: list[tuple[int, int, int]], moments: list[tuple[int, int]]
) -> None:
    """Of slices that begin one after the other: all that began before, and a part of the last."""
    slices = [*{(name, start): (name, start, own) for name, start, own in slices}.values()]
    name, start, own = np.array(slices, np.int64).reshape(-1, 3).T
    of_name, at = np.array(moments, np.int64).T
    columns = {"name": name, "start_ns": start, "self_ns": own}
    spent, is_known = late_costs._spent(columns, of_name, at)
    for place, (wanted, moment) in enumerate(moments):
        begun = sorted((s, o) for n, s, o in slices if n == wanted and s < moment)
        assert is_known[place] == bool(begun)
        if begun:
            last_start, last_own = begun[-1]
            before = sum(o for _, o in begun[:-1])
            assert spent[place] == before + min(last_own, moment - last_start)


@given(st.integers(0, 10**15), st.lists(st.integers(0, 10**15), min_size=1, max_size=6))
def test_parts_of_a_number_add_up_to_it(whole: int, sizes: list[int]) -> None:
    rows = pl.DataFrame(
        {"own": sizes, "so_far": np.cumsum(sizes), "every": [sum(sizes)] * len(sizes)}
    )
    part = late_costs._part(pl.lit(whole, pl.Int64), "so_far", "own", "every")
    parts = rows.select(part=part)["part"].to_list()
    assert sum(parts) == (whole if sum(sizes) else 0)
    for got, size in zip(parts, sizes, strict=True):
        assert abs(got * sum(sizes) - whole * size) < max(sum(sizes), 1)
