"""Layers of experts: each row is multiplied with the weights of every expert that it is sent to.

Which experts those are is in a tensor. So the weights of as many experts as possible count as read:
all, or one for each row and choice if those are fewer. Sorting, activation and the weighted sum are
not counted.

Sources of the order of arguments: vLLM's ``layers/fused_moe/fused_moe.py`` and ``_aiter_ops.py``,
SGLang's ``fused_moe_triton/fused_moe.py``, AITER's ``ops/moe_op.py`` and ``fused_moe.py``, Triton's
``triton_kernels/matmul_ogs.py`` and ``routing.py``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from profframe.facts.formulas.dtypes import BF16, FP4, FP8, UINT8, Dtype
from profframe.facts.formulas.formula import Formula, by_op, dense, everything, read
from profframe.facts.formulas.ops import Op, Tensor
from profframe.facts.formulas.products import marlin_rows
from profframe.facts.formulas.unknowns import Unknown


class ExpertLayer(NamedTuple):
    """Rows with all their choices, elements of one expert's weights, and bytes of its weights.

    ``moved`` are the bytes of rows read and written.
    """

    rows: int
    terms: int
    experts: int
    weight_bytes: int
    moved: int

    @property
    def flops(self) -> int:
        """A product and a sum for each element of an expert's weights, for each row."""
        return 2 * self.rows * self.terms

    @property
    def bytes(self) -> int:
        """Rows, and the weights of the experts that they can reach."""
        return self.weight_bytes * min(self.experts, self.rows) // self.experts + self.moved


Layout: TypeAlias = Callable[[Op], ExpertLayer]


def _weight(op: Op, place: int) -> Tensor:
    weight = op.tensor(place)
    if len(weight.shape) != 3 or not weight.shape[0]:
        raise Unknown
    return weight


def _packing(width: int, stored: int) -> int:
    """Numbers in each element of a weight: 1, 2 of four bits, or 8 in 32 bits."""
    packing = width // max(stored, 1)
    if packing not in {1, 2, 8} or packing * stored != width:
        raise Unknown
    return packing


def _pair(rows: Tensor, width: int, first: Tensor, second: Tensor, choices: int) -> ExpertLayer:
    """Both products of gate, up and down: ``(experts, inner, width)``, ``(experts, width, inner)``.

    The first product has one row for each inner number, or two with a gate.
    """
    experts, outputs, stored = first.shape
    packing = _packing(width, stored)
    inner = second.shape[2] * packing
    if second.shape[:2] != (experts, width) or outputs not in {inner, 2 * inner}:
        raise Unknown
    terms = width * (outputs + inner)
    count = math.prod(rows.shape[:-1])
    weights = first.bytes + second.bytes
    return ExpertLayer(
        count * choices, terms, experts, weights, 2 * count * width * max(rows.size, 2)
    )


def _fused(rows: int, first: int, choices: int) -> Layout:
    """Rows, both weights behind each other, and the experts of each row."""

    def layer(op: Op) -> ExpertLayer:
        source = op.tensor(rows)
        places = op.tensor(choices).shape
        if len(places) != 2 or places[0] != math.prod(source.shape[:-1]):
            raise Unknown
        weights = _weight(op, first), _weight(op, first + 1)
        return _pair(source, source.shape[-1], *weights, places[1])

    return layer


def _fused_by_number(op: Op) -> ExpertLayer:
    """AITER's ``fmoe``: result, rows, both weights; the number of choices is an argument."""
    result = op.tensor(0)
    weights = _weight(op, 2), _weight(op, 3)
    return _pair(result, result.shape[-1], *weights, op.ints(8, 1)[0])


def _stage(rows: int, weight: int, result: int, choices: int) -> Layout:
    """One of two products; ``choices`` is the place of a tensor of (rows, choices, width)."""

    def layer(op: Op) -> ExpertLayer:
        source, written, factor = op.tensor(rows), op.tensor(result), _weight(op, weight)
        experts, outputs, stored = factor.shape
        packing = 2 if factor.dtype in {FP4, UINT8} else 1
        tokens, each = op.tensor(choices).shape[:2]
        width = stored * packing
        if written.shape[-1] not in {outputs, outputs // 2}:
            raise Unknown
        if source.shape[-1] not in {width, stored} or source.shape[0] != tokens:
            raise Unknown
        moved = dense(source, written)
        return ExpertLayer(tokens * each, outputs * width, experts, factor.bytes, moved)

    return layer


def _grouped(op: Op) -> ExpertLayer:
    """SGLang's launch of one product: rows, weight, (bias), result, ..., choices at 8."""
    factor, choices = _weight(op, 1), op.tensor(8)
    experts, outputs, width = factor.shape
    if len(choices.shape) != 2 or op.tensor(0).shape[-1] != width:
        raise Unknown
    rows = choices.count
    result = op.optional(3) or op.tensor(2)
    moved = op.tensor(0).bytes + rows * outputs * result.size
    return ExpertLayer(rows, outputs * width, experts, factor.bytes, moved)


def _ogs(op: Op) -> ExpertLayer:
    """A layer around ``triton_kernels``, whose weights are seen inside, as views of themselves.

    The routing op inside says how many experts a row has. A byte of a weight holds two numbers.
    """
    rows, logits = op.tensor(0), op.tensor(1)
    routing = [call for call in op.inside if call.name == "TopK"]
    views = [_weight(call, 0) for call in op.inside if _is_weight(call, logits.shape[-1])]
    if len(routing) != 1 or len(views) != 2 or routing[0].tensor(0).shape != logits.shape:
        raise Unknown
    sizes = [(w.shape[1] * (2 if w.dtype in {UINT8, FP4} else 1), w.shape[2]) for w in views]
    (width, outputs), (inner, columns) = sizes
    if (width, columns) != (rows.shape[-1],) * 2 or outputs not in {inner, 2 * inner}:
        raise Unknown
    choices = routing[0].ints(1, 1)[0]
    count = math.prod(rows.shape[:-1])
    terms = width * outputs + inner * columns
    return ExpertLayer(count * choices, terms, logits.shape[-1], dense(*views), 2 * rows.bytes)


def _is_weight(call: Op, experts: int) -> bool:
    """Whether a view is a weight of all experts, in its own shape."""
    if call.name != "aten::view":
        return False
    tensor = call.optional(0)
    if tensor is None or len(tensor.shape) != 3 or tensor.shape[0] != experts:
        return False
    return bool(call.value(1) == list(tensor.shape))


def _formula(layout: Layout, dtype: Callable[[Op], Dtype | None] | None = None) -> Formula:
    return Formula(lambda op: layout(op).flops, lambda op: layout(op).bytes, dtype)


def _of_rows(op: Op) -> Dtype | None:
    return op.tensor(0).dtype


def _of_weight(op: Op) -> Dtype | None:
    """Eight or four bits if the weights have them, as rows are converted to that; else as the rows.

    Integer weights are converted into the type of the rows.
    """
    weight = op.tensor(1).dtype
    return weight if weight in {FP8, FP4} else op.tensor(0).dtype


def _stage_dtype(op: Op) -> Dtype | None:
    """Four bits where both have four, else the type of the rows."""
    rows, weight = op.tensor(0).dtype, op.tensor(1).dtype
    return FP4 if rows in {FP4, UINT8} and weight in {FP4, UINT8} else rows


def _marlin_bytes(op: Op) -> int:
    """All weights, rows and results."""
    product = marlin_rows(op)
    return read(op, 0, 2, 3) + product.elements * BF16.size


def _routing(logits: int) -> Formula:
    """The choice among experts: one operation for each of them, and everything is moved once."""
    return Formula(lambda op: op.tensor(logits).count, everything)


EXPERTS: Final = by_op(
    {
        "vllm::outplace_fused_experts vllm::inplace_fused_experts sglang::inplace_fused_experts"
        " sglang::outplace_fused_experts": _formula(_fused(0, 1, 4), _of_weight),
        "aiter::fused_moe_ vllm::rocm_aiter_fused_moe vllm::rocm_aiter_asm_moe_tkw1": _formula(
            _fused(0, 1, 3), _of_weight
        ),
        "aiter::fmoe aiter::fmoe_g1u1 aiter::fmoe_g1u1_tkw1 aiter::fmoe_int8_g1u0"
        " aiter::fmoe_fp8_blockscale_g1u1": _formula(
            _fused_by_number, lambda op: op.tensor(1).dtype
        ),
        "aiter::ck_moe_stage1 aiter::ck_moe_stage1_fwd aiter::moe_stage1_g1u1": _formula(
            _stage(0, 1, 6, 6), _stage_dtype
        ),
        "aiter::ck_moe_stage2 aiter::ck_moe_stage2_fwd": _formula(_stage(0, 2, 6, 0), _stage_dtype),
        "aiter::moe_cktile2stages_gemm1_ck aiter::moe_cktile2stages_gemm1": _formula(
            _stage(0, 1, 2, 2), _stage_dtype
        ),
        "aiter::moe_cktile2stages_gemm2_ck aiter::moe_cktile2stages_gemm2": _formula(
            _stage(0, 1, 2, 0), _stage_dtype
        ),
        "sglang_profiler::fused_moe_triton_kernels_invoke_fused_moe_kernel": _formula(
            _grouped, _of_weight
        ),
        "_moe_C::moe_wna16_marlin_gemm sgl_kernel::moe_wna16_marlin_gemm": Formula(
            lambda op: marlin_rows(op).flops, _marlin_bytes, _of_rows
        ),
        "vllm::moe_forward vllm::moe_forward_shared": Formula(
            lambda op: _ogs(op).flops, lambda op: _ogs(op).bytes, _of_rows, ("TopK", "aten::view")
        ),
        # weights and ids of the chosen, (a table), logits
        "_moe_C::topk_softmax _moe_C::topk_sigmoid aiter::topk_softmax aiter::topk_softmax_asm"
        " aiter::topk_sigmoid": _routing(3),
        "sgl_kernel::topk_softmax": _routing(2),
        # logits, bias
        "aiter::biased_grouped_topk_hip aiter::biased_grouped_topk aiter::grouped_topk"
        " sgl_kernel::moe_fused_gate aiter::moe_fused_gate _moe_C::grouped_topk TopK": _routing(0),
        "_moe_C::moe_align_block_size sgl_kernel::moe_align_block_size"
        " aiter::moe_align_block_size aiter::moe_sorting_fwd aiter::moe_sorting_opus_fwd"
        " SortTokens": Formula(lambda _: 0, everything),
        # rows with all their choices, result
        "_moe_C::moe_sum aiter::moe_sum": Formula(lambda op: op.tensor(0).count, everything),
    },
    "{}",
)
"""Name of the op -> its formula."""
