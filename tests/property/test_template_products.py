"""FLOPs of Inductor's templates of products, whatever else they are given, against the sizes drawn.

The order of arguments is that of ``KernelArgs.python_argdefs`` and ``def_kernel`` in PyTorch's
``torch/_inductor/codegen/common.py`` and ``select_algorithm.py``: what is changed in place, what
is added before the factors, the factors, scales, what an epilogue reads, what it writes.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profframe.facts.formulas import Op, count, formula_of

Shape = tuple[int, ...]


class Call(NamedTuple):
    name: str
    shapes: list[Shape]
    flops: int
    sizes: Shape


@st.composite
def calls(draw: st.DrawFn, sizes: st.SearchStrategy[int]) -> Call:
    kind = draw(st.sampled_from(["mm", "bmm", "addmm", "baddbmm", "_scaled_mm", "add_mm"]))
    rows, inner, columns, batch = (draw(sizes) for _ in range(4))
    batches = (batch,) if "bmm" in kind else ()
    factors = [(*batches, rows, inner), (*batches, inner, columns)]
    result = (*batches, rows, columns)
    added = [result[-1:], result[-2:], (1, columns), (rows, 1), (1,), result]
    scales = [(rows, 1), (1, columns)] if kind == "_scaled_mm" else []
    bias = [draw(st.sampled_from(added))] if "add" in kind and kind != "add_mm" else []
    is_epilogue = draw(st.booleans())
    before, behind = ([], bias) if is_epilogue else (bias, [])
    twice = 2 if kind == "add_mm" else 1
    epilogue = draw(st.lists(st.sampled_from(added), max_size=3))
    inputs = [*before, *factors * twice, *scales, *behind, *epilogue]
    shapes = [result, *inputs] if draw(st.booleans()) else [*inputs, result]
    flops = twice * 2 * (batch if batches else 1) * rows * inner * columns
    words = "_relu" if epilogue else ""
    return Call(f"triton_tem_fused_{kind}{words}_7", shapes, flops, (rows, inner, columns, batch))


def flops_of(call: Call) -> int | None:
    shapes = [list(shape) for shape in call.shapes]
    formula = formula_of(call.name)
    assert formula is not None
    return count(formula.flops, Op(call.name, shapes, ["float"] * len(shapes)))


def check(call: Call) -> None:
    flops = flops_of(call)
    assert flops in {call.flops, None}
    assert flops == call.flops or len({*call.sizes}) < 4


DIFFERENT = calls(st.integers(2, 9))
SMALL = calls(st.integers(1, 3))


@given(DIFFERENT)
def test_products(call: Call) -> None:
    check(call)


@given(SMALL)
def test_products_whose_sizes_are_alike(call: Call) -> None:
    assert flops_of(call) in {call.flops, None}


@pytest.mark.long
@settings(max_examples=500)
@given(DIFFERENT | SMALL)
def test_many_products(call: Call) -> None:
    check(call)
