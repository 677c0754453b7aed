"""Names that are too long for their column: cut so that unlike ones stay unlike."""

from __future__ import annotations

import itertools
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profframe.show.units import middle, middles

GEMM: Final = (
    "sm80_xmma_gemm_f32f32_f32f32_f32_{}_n_tilesize{}x8_stage{}_warpsize2x2x1_execute_kernel"
)


def test_names_that_differ_in_the_middle_are_told_apart() -> None:
    names = [
        GEMM.format(*of) for of in (("tn", "64x64", 3), ("tn", "32x32", 3), ("nn", "64x64", 3))
    ]
    assert len({middle(name, 40) for name in names}) == 1
    assert list(middles(names, 40).values()) == [
        "sm80_xmma_gem…2_tn_n_tilesize64x64x8_st…",
        "sm80_xmma_gem…2_tn_n_tilesize32x32x8_st…",
        "sm80_xmma_gem…2_nn_n_tilesize64x64x8_st…",
    ]


def test_names_that_two_of_three_share_further_are_told_apart() -> None:
    names = [
        GEMM.format(*of) for of in (("tn", "64x64", 3), ("tn", "64x64", 4), ("nn", "64x64", 3))
    ]
    assert list(middles(names, 30).values()) == [
        "sm80_xmma_…2_tn_n_t…ge3_warps…",
        "sm80_xmma_…2_tn_n_t…ge4_warps…",
        "sm80_xmma_…2_nn_n_tilesize64x…",
    ]


@pytest.mark.parametrize("most", [12, 14, 20, 28, 40, 60])
def test_names_that_differ_in_places_far_apart_are_told_apart(most: int) -> None:
    form = "ampere_bf16_gemm_tile_{}x128_warpgroup_specialized_epilogue_stages_{}_align8_kernel"
    names = [form.format(tile, stages) for tile in (64, 96) for stages in (3, 4)]
    assert len({*middles(names, most).values()}) == 4


def test_names_that_differ_in_too_many_places_are_numbered() -> None:
    names = ["_____".join(letters) for letters in itertools.product("ab", repeat=7)]
    written = [*middles(names, 12).values()]
    assert len({*written}) == len(names)
    assert written[:3] == ["a_____a…___a", "a_____a…___b", "a_____a__…#2"]


def test_a_name_keeps_its_file_and_line_if_they_and_what_differs_have_room() -> None:
    names = [f"p{n}/{'q' * 60}/file_of_module.py(10): function_of" for n in (12, 34)]
    assert list(middles(names, 36).values()) == [
        "p12/qqqqqqqqqqqqqq…(10): function_of",
        "p34/qqqqqqqqqqqqqq…(10): function_of",
    ]
    assert all(
        text.endswith("(10): function_of")
        for most in range(30, 60)
        for text in middles(names, most).values()
    )
    paths = [f"site-packages/of/{n}/{'q' * 60}/linear.py(10): forward" for n in (12, 34)]
    assert list(middles(paths, 40).values()) == [
        "site-p…f/12/qqqqq…linear.py(10): forward",
        "site-p…f/34/qqqqq…linear.py(10): forward",
    ]


def test_the_beginning_goes_on_to_a_place_that_is_near() -> None:
    names = [f"{'x' * 7}{number}{'q' * 60}_end" for number in (1, 2)]
    assert list(middles(names, 12).values()) == ["xxxxxxx1qqq…", "xxxxxxx2qqq…"]


def test_names_with_room_or_nothing_alike_are_as_before() -> None:
    names = ["aten::mm", GEMM, "void at::native::vectorized_elementwise_kernel(int)"]
    assert list(middles(names, 20).values()) == [middle(name, 20) for name in names]
    assert list(middles(["ab" * 9, "cd" * 9], 4).values()) == ["ab…b", "cd…d"]


def test_a_name_that_begins_another_one() -> None:
    names = ["x" * 30, "x" * 40]
    assert list(middles(names, 14).values()) == ["xxxx…xx", "xxxx…xxxxxxxx…"]


@given(st.lists(st.text("ab_", max_size=30), unique=True), st.integers(4, 40))
def test_texts_fit_and_begin_alike(texts: list[str], most: int) -> None:
    cut = middles(texts, most)
    assert list(cut) == texts
    for text, written in cut.items():
        assert len(written) <= most
        assert text.startswith(written.partition("…")[0])
        assert written == text or "…" in written
    assert most < 12 or len({*cut.values()}) == len(texts)
