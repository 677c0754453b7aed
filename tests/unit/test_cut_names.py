"""Names that are too long for their column: cut so that unlike ones stay unlike."""

from __future__ import annotations

from typing import Final

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
        "sm80_xmma_…ge3_warpsize2x2x1_…",
        "sm80_xmma_…ge4_warpsize2x2x1_…",
        "sm80_xmma_…2_nn_n_tilesize64x…",
    ]


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
