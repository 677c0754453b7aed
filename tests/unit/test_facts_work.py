"""Who owns work, and how kernels share it: small programs, worked out by hand, and a plain loop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from profframe.facts.formulas import Formula
from profframe.facts.formulas.formula import everything
from profframe.facts.pipeline import add_facts
from tests.builders import Row, event, tables
from tests.unit.work_rows import Inputs, call, column, facts, inputs, kernel

MM = inputs("[[4,5],[5,3]]", "float", "float")
"""120 FLOP and 188 bytes."""
LINEAR = inputs("[[4,5],[3,5],[]]", "float", "float", "")
"""As much."""
HALVES = inputs("[[4,5],[5,3]]", "c10::Half", "c10::Half")
LISTS = inputs("[[[4,6],[3]],[]]", "TensorList", "Scalar")
"""27 numbers."""
BF16 = inputs("[[4,6]]", "c10::BFloat16")


def test_the_outermost_known_op_owns_what_is_launched_inside_it() -> None:
    rows = facts(
        event("model", 0, 100, category="user_annotation"),
        event("aten::linear", 10, 50, **LINEAR),
        event("aten::t", 11, 12, input_dims="[[3,5]]"),
        event("aten::mm", 20, 40, **MM),
        call(25, 1),
        event("aten::mm", 60, 80, **MM),
        call(65, 2),
        kernel(70, 80, 1),
        kernel(80, 110, 2),
        kernel(110, 120, 3),
    )
    assert column(rows, "work_id") == [None, 1, 1, 1, 1, 5, 5, 1, 5, None]
    assert column(rows, "flops") == [None, 120, None, 120, None, 120, None, 120, 120, None]
    assert column(rows, "bytes") == [None, 188, None, 188, None, 188, None, 188, 188, None]
    assert column(rows, "work_dtype") == [row["flops"] and "fp32" for row in rows]


def test_kernels_of_one_owner_share_by_duration_and_add_up() -> None:
    rows = facts(
        event("aten::mm", 0, 50, **MM),
        *(call(start, start) for start in (1, 3, 5, 7)),
        kernel(60, 61, 1),
        kernel(61, 63, 3),
        kernel(63, 67, 5),
        kernel(67, None, 7),
    )
    assert column(rows, "flops")[5:] == [17, 34, 69, 0]
    assert column(rows, "bytes")[5:] == [26, 54, 108, 0]
    assert column(rows, "work_id")[5:] == [0, 0, 0, 0]


def test_without_durations_kernels_share_evenly() -> None:
    rows = facts(
        event("aten::mm", 0, 50, **MM),
        *(call(start, start) for start in (1, 3, 5)),
        kernel(60, 60, 1),
        kernel(61, 61, 3),
        kernel(63, None, 5),
    )
    assert column(rows, "flops")[4:] == [40, 40, 40]
    assert sum(column(rows, "bytes")[4:]) == 188


def test_copies_keep_what_was_moved_and_take_no_share() -> None:
    rows = facts(
        event("aten::copy_", 0, 50, **inputs("[[4,6],[4,6],[]]", "float", "float", "Scalar")),
        *(call(start, start) for start in (1, 3, 5)),
        kernel(60, 70, 1),
        kernel(70, 80, 3, name="Memcpy HtoD", category="gpu_memcpy", bytes=96),
        kernel(80, 90, 5, name="Memset", category="gpu_memset"),
    )
    assert column(rows, "flops") == [0, None, None, None, 0, None, None]
    assert column(rows, "bytes") == [192, None, None, None, 192, 96, None]
    assert column(rows, "work_id") == [0, 0, 0, 0, 0, None, None]
    assert column(rows, "work_dtype") == ["fp32", None, None, None, "fp32", None, None]


def test_what_the_source_says_goes_before_a_formula() -> None:
    rows = facts(
        event("aten::mm", 0, 50, **MM),
        *(call(start, start) for start in (1, 3, 5)),
        kernel(60, 70, 1),
        kernel(70, 80, 3),
        kernel(80, 90, 5, name="triton_bf16_fused"),
        event("triton_poi_fused_add", 100, 120),
        call(101, 7),
        kernel(130, 140, 7),
        kernel(150, 160, 99, name="triton_bf16_fused"),
        kernel(160, 170, 98),
        given={
            5: {"given_flops": 100},
            7: {"given_flops": 30, "given_bytes": 8},
            9: {"given_bytes": 5},
            10: {"given_flops": 3},
        },
    )
    assert column(rows, "flops") == [120, None, None, None, 10, 100, 10, 30, None, 30, 3, None]
    assert column(rows, "bytes") == [188, None, None, None, 62, 63, 63, 8, None, 5, None, None]
    assert column(rows, "work_id") == [0, 0, 0, 0, 0, 0, 0, 7, 7, 7, None, None]
    assert column(rows, "work_dtype")[9:] == ["fp32", "bf16", None]


def test_a_kernel_of_no_op_has_no_share_in_the_last_row() -> None:
    rows = facts(
        kernel(0, 10, 99),
        kernel(10, 20, 98),
        kernel(60, 70, 1),
        call(31, 1),
        event("aten::mm", 30, 50, **MM),
        given={1: {"given_flops": 100, "given_bytes": 100}},
    )
    assert column(rows, "flops") == [None, 100, 120, None, 120]
    assert column(rows, "bytes") == [None, 100, 188, None, 188]
    assert column(rows, "work_id") == [None, None, 4, 4, 4]


def test_a_kernel_may_have_done_nothing() -> None:
    """To say 0 is to say something, of a kernel and of an op."""
    rows = facts(
        event("aten::mm", 0, 50, **MM),
        *(call(start, start) for start in (1, 3)),
        kernel(60, 70, 1),
        kernel(70, 80, 3),
        event("triton_a", 100, 120, **inputs("[[3]]", "c10::Half")),
        call(101, 5),
        kernel(130, 140, 5, name="sgemm"),
        kernel(150, 160, 99, name="sgemm"),
        kernel(160, 170, 98, name="dgemm"),
        given={3: {"given_flops": 0}, 5: {"given_flops": 0}, 8: {"given_flops": 0}}
        | {9: {"given_bytes": 0}},
    )
    assert column(rows, "flops") == [120, None, None, 0, 120, 0, None, 0, 0, None]
    assert column(rows, "bytes")[5:] == [None] * 4 + [0]
    words = ["fp32", None, None, "fp32", "fp32", "fp16", None, "fp16", "fp32", "fp64"]
    assert column(rows, "work_dtype") == words


def test_work_may_be_known_in_part() -> None:
    rows = facts(
        event("triton_a", 0, 20),
        call(1, 1),
        kernel(30, 40, 1),
        event("triton_b", 100, 120),
        call(101, 2),
        kernel(130, 140, 2),
        kernel(150, 160, 99, name="sgemm"),
        given={0: {"given_bytes": 7}, 3: {"given_flops": 5}, 6: {"given_bytes": 3}},
    )
    assert column(rows, "flops") == [None, None, None, 5, None, 5, None]
    assert column(rows, "bytes") == [7, None, 7, None, None, None, 3]
    assert column(rows, "work_id") == [0, 0, 0, 3, 3, 3, None]
    assert column(rows, "work_dtype")[-1] == "fp32"


def test_only_ops_own_work() -> None:
    rows = facts(
        event("aten::mm", 0, 20, category="python_function", **MM),
        event("aten::t", 1, 2, bytes=5),
        event("Memcpy HtoD", 30, 40, category="gpu_memcpy", thread=9, bytes=96),
        given={2: {"given_flops": 3}},
    )
    assert column(rows, "flops") == [None, None, 3]
    assert column(rows, "bytes") == [None, None, 96]
    assert column(rows, "work_id") == [None] * 3


def test_work_that_is_given_is_done_in_the_type_of_the_inputs() -> None:
    rows = facts(
        event("triton_poi_fused_add", 0, 9, **inputs("[[3]]", "c10::Half")),
        call(1, 1),
        kernel(10, 20, 1),
        given={0: {"given_flops": 3}},
    )
    assert column(rows, "work_dtype") == ["fp16", None, "fp16"]


def test_under_autocast_the_op_inside_says_what_is_computed_in() -> None:
    rows = facts(
        event("aten::mm", 0, 90, **MM),
        event("aten::copy_", 1, 10, **inputs("[[4,5],[4,5]]", "c10::Half", "float")),
        call(2, 1),
        event("aten::mm", 20, 80, **HALVES),
        call(21, 2),
        kernel(100, 110, 1, name="vectorized_elementwise_kernel"),
        kernel(110, 120, 2, name="cutlass_75_tensorop_f16_s1688gemm_f16"),
    )
    assert column(rows, "work_id") == [0] * 7
    words = ["fp16", "fp16", None, "fp16", None, "fp16", "fp16"]
    assert column(rows, "work_dtype") == words


def product(start: int, end: int, columns: int, word: str) -> Row:
    """A product of so many columns, 40 FLOP each."""
    return event("aten::mm", start, end, **inputs(f"[[4,5],[5,{columns}]]", word, word))


@pytest.mark.parametrize(("columns", "word"), [(4, "fp16"), (3, "fp16"), (2, "fp16"), (1, "fp32")])
def test_an_op_inside_says_it_if_it_does_half_of_the_work(columns: int, word: str) -> None:
    rows = facts(
        product(0, 90, 4, "float"),
        product(1, 10, columns, "c10::Half"),
        call(2, 1),
        kernel(100, 110, 1),
    )
    assert column(rows, "work_dtype") == [word, "fp16", None, word]


@pytest.mark.parametrize(
    ("inside", "word"),
    [
        ([(1, 40, 4, "c10::Half"), (2, 30, 4, "c10::BFloat16")], "bf16"),
        ([(1, 40, 2, "c10::Half"), (50, 60, 2, "c10::BFloat16")], "bf16"),
        ([(1, 40, 3, "c10::Half"), (50, 60, 2, "c10::BFloat16")], "fp16"),
        ([(1, 40, 2, "c10::Half"), (50, 60, 3, "c10::BFloat16")], "bf16"),
        ([(1, 40, 4, "long int")], "fp32"),
        ([(1, 40, 4, "long int"), (50, 60, 2, "c10::Half")], "fp16"),
    ],
)
def test_of_several_ops_inside_the_one_that_does_most_says_it(
    inside: list[tuple[int, int, int, str]], word: str
) -> None:
    rows = facts(product(0, 90, 4, "float"), *(product(*one) for one in inside))
    assert rows[0]["work_dtype"] == word


def test_of_equal_ops_the_innermost_says_it_wherever_its_row_is() -> None:
    rows = facts(
        product(2, 30, 4, "c10::BFloat16"),
        product(1, 40, 4, "c10::Half"),
        product(0, 90, 4, "float"),
    )
    assert column(rows, "work_dtype") == ["bf16", "fp16", "bf16"]


def test_an_op_on_whole_numbers_keeps_their_type() -> None:
    rows = facts(product(0, 90, 4, "long int"), product(1, 80, 4, "c10::Half"))
    assert column(rows, "work_dtype") == ["int64", "fp16"]


def test_kernels_of_fp32_may_compute_in_tf32() -> None:
    rows = facts(
        event("aten::mm", 0, 10, **MM),
        call(1, 1),
        event("aten::mm", 20, 30, **MM),
        call(21, 2),
        event("aten::mm", 40, 50, **HALVES),
        call(41, 3),
        kernel(60, 61, 1, name="sm80_xmma_gemm_f32f32_TF32f32"),
        kernel(61, 62, 2, name="ampere_sgemm_64x64_tn"),
        kernel(62, 63, 3, name="cutlass_80_tensorop_f16_s16816gemm"),
    )
    assert column(rows, "work_dtype")[6:] == ["tf32", "fp32", "fp16"]


def test_tf32_is_of_the_kernels_of_one_owner() -> None:
    """Also of one that adds up parts of a product; a kernel without an owner speaks for itself."""
    rows = facts(
        event("aten::mm", 0, 10, **MM),
        call(1, 1),
        call(3, 2),
        event("aten::mm", 20, 30, **MM),
        call(21, 3),
        kernel(60, 61, 1, name="sm80_xmma_gemm_f32f32_tf32f32"),
        kernel(61, 62, 2, name="splitKreduce_kernel"),
        kernel(62, 63, 3, name="splitKreduce_kernel"),
        kernel(70, 71, 97, name="sm80_xmma_gemm_f32f32_tf32f32"),
        kernel(71, 72, 98, name="ampere_sgemm_64x64_tn"),
        kernel(72, 73, 99, name="sm80_tensorop_f16_gemm"),
        given={row: {"given_flops": 7} for row in (8, 9, 10)},
    )
    assert column(rows, "work_id")[5:] == [0, 0, 3, None, None, None]
    assert column(rows, "work_dtype")[5:] == ["tf32", "tf32", "fp32", "tf32", "fp32", "fp16"]


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("multi_tensor_apply_kernel<..., float, ...>", 4),
        ("CatArrayBatchedCopy<at::native::OpaqueType<2u>, unsigned int, 2>", 2),
        ("multi_tensor_apply_kernel<..., c10::BFloat16>", 2),
        ("multi_tensor_apply_kernel<..., double>", 8),
        ("multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>, float const*, double>", 4),
        ("TensorListScalarListMetadata<float, 1>, BinaryOpScalarListFunctor<c10::BFloat16, 1>", 2),
        ("CatArrayBatchedCopy<bool, unsigned int, 4, 64, 64>", 1),
        ("CatArrayBatchedCopy_contig<at::native::OpaqueType<16u>, unsigned int, 2>", 16),
        ("some_kernel", 4),
    ],
)
def test_tensors_in_lists_have_the_type_that_the_kernel_is_called_by(name: str, size: int) -> None:
    rows = facts(
        event("aten::_foreach_mul_", 0, 10, **LISTS), call(1, 1), kernel(20, 30, 1, name=name)
    )
    assert column(rows, "flops") == [27, None, 27]
    assert column(rows, "bytes") == [54 * size, None, 54 * size]


@pytest.mark.parametrize(
    ("others", "size"),
    [
        ((), 4),
        (("float", "double", "long int"), 4),
        (("c10::BFloat16", 'double",["float"],"'), 2),
        (("c10::BFloat16", "float"), None),
    ],
)
def test_without_kernels_they_have_the_only_type_in_the_trace(
    others: tuple[str, ...], size: int | None
) -> None:
    rows = facts(
        event("aten::cat", 0, 10, **LISTS),
        event("aten::_foreach_mul_", 20, 30, **LISTS),
        *(event("aten::t", 50, 60, **inputs("[[4,6]]", word)) for word in others),
    )
    moved = None if size is None else 54 * size
    assert column(rows, "flops")[:2] == [0, 27]
    assert column(rows, "bytes")[:2] == [moved, moved or 54 * 4]


def test_a_kernel_that_names_no_type_does_not_decide_that_of_a_list() -> None:
    rows = facts(
        event("aten::t", 0, 1, **BF16),
        event("aten::cat", 20, 30, **LISTS),
        call(21, 1),
        kernel(40, 50, 1, name="some_kernel"),
    )
    assert column(rows, "bytes")[1] == 54 * 2


def test_what_is_in_no_op_does_not_decide_the_type_of_a_list_in_the_last_row() -> None:
    rows = facts(
        event("aten::t", 0, 1, **BF16),
        event("aten::t", 2, 3, **inputs("[[4,6]]", "float")),
        kernel(5, 6, 99, name="CatArrayBatchedCopy<double, int>"),
        event("aten::cat", 20, 30, **LISTS),
    )
    assert column(rows, "bytes")[3] is None


def test_an_op_inside_tells_the_type_of_a_list() -> None:
    rows = facts(
        event("aten::_foreach_mul_", 0, 10, **LISTS),
        event("aten::mul_", 1, 9, **inputs("[[4,6],[]]", "c10::BFloat16", "double")),
        event("aten::_foreach_mul_", 20, 30, **LISTS),
        event("aten::mul_", 21, 29, **inputs("[[4,6],[]]", "float", "double")),
    )
    assert column(rows, "bytes")[::2] == [54 * 2, 54 * 4]
    assert column(rows, "work_dtype")[::2] == ["bf16", "fp32"]


def test_ops_elsewhere() -> None:
    """Op that does not nest; kernel whose op the External id names; two threads; no kernels."""
    rows = facts(
        event("aten::mm", 0, 50, is_async=True, external_id=7, **MM),
        event("aten::mm", 10, 20, thread=1, external_id=8, **MM),
        kernel(60, 70, None, external_id=7),
        kernel(70, 80, None, external_id=8),
        kernel(80, 90, None, external_id=6),
    )
    assert column(rows, "work_id") == [0, 1, 0, 1, None]
    assert column(rows, "flops") == [120, 120, 120, 120, None]


def test_nothing_is_known_where_nothing_was_recorded() -> None:
    assert facts() == []
    rows = facts(event("aten::mm", 0, 1), event(None, 2, None), event("aten::mm", None, None, **MM))
    assert column(rows, "flops") == [None, None, 120]
    hostile = ["'; DROP TABLE events; --", "<b>&amp;", "\x00\x1b[31m", '"', "aten::mm\n"]
    assert {row["flops"] for row in facts(*(event(n, 0, 1, **MM) for n in hostile))} == {None}


def test_inputs_in_one_text() -> None:
    """As Ascend writes them."""
    texts = {"input_dims": "4,5;\r\n3,5;\r\n3", "input_types": "float;\r\nfloat;\r\nfloat"}
    (row,) = facts(event("aten::linear", 0, 1) | texts)
    assert (row["flops"], row["bytes"], row["work_dtype"]) == (120, 4 * (20 + 15 + 3 + 12), "fp32")


@pytest.mark.parametrize("work", [(1 << 62) - 5, (1 << 61) + 100])
def test_huge_work_is_shared_exactly(work: int) -> None:
    rows = facts(
        event("my::op", 0, 50, input_dims="[[1]]"),
        *(call(start, start) for start in (1, 3, 5)),
        kernel(60, 60 + (1 << 50), 1),
        kernel(61, 61 + (1 << 51), 3),
        kernel(63, 64, 5),
        formulas={"my::op": Formula(lambda _: work)},
    )
    shares = column(rows, "flops")[4:]
    assert sum(shares) == work
    assert shares[2] < 1 << 12
    assert abs(2 * shares[0] - shares[1]) < 1 << 12


def test_small_work_is_shared_in_whole_numbers() -> None:
    """As doubles 49 * (1 / 49) are less than 1."""
    rows = facts(
        event("my::op", 0, 50, input_dims="[[1]]"),
        *(call(start, start) for start in (1, 3)),
        kernel(60, 61, 1),
        kernel(70, 118, 3),
        formulas={"my::op": Formula(lambda _: 49)},
    )
    assert column(rows, "flops")[3:] == [1, 48]


def test_work_is_shared_by_durations_of_any_length() -> None:
    rows = facts(
        event("my::op", 0, 50, input_dims="[[1]]"),
        *(call(start, start) for start in (1, 3, 5)),
        *(kernel(60, 60 + (1 << 62), number) for number in (1, 3, 5)),
        formulas={"my::op": Formula(lambda _: 300)},
    )
    assert column(rows, "flops")[4:] == [100, 100, 100]


KEYS = "[6,2,8]"
ATTENTION = inputs(f"[[6,4,8],{KEYS},{KEYS},[6,4,8],[]]", *["c10::BFloat16"] * 4, "")
"""Attention whose work depends on lengths; as tensors they have 1152 bytes."""
FILL = inputs("[[10],[]]", "float", "Scalar")
"""40 bytes."""


def notes(*events: Row) -> list[tuple[object, ...]]:
    rows = add_facts(tables(*events))["quality"].to_pylist()
    checks = [row for row in rows if row["issue"] == "work_needs_lengths"]
    return [(row["events"], row["example_event_id"], row["detail"]) for row in checks]


MINE = {"my::layer": Formula(None, everything)}


def test_an_op_of_known_bytes_owns_what_no_op_inside_has_launched() -> None:
    rows = facts(
        event("my::layer", 0, 50, **ATTENTION),
        event("aten::fill_", 10, 20, **FILL),
        call(15, 1),
        call(25, 2),
        kernel(60, 70, 1),
        kernel(70, 80, 2),
        formulas=MINE,
    )
    assert column(rows, "work_id") == [0, 1, 1, 0, 1, 0]
    assert column(rows, "bytes") == [1152, 40, None, None, 40, 1152]
    assert column(rows, "flops") == [None, 0, None, None, 0, None]


def test_an_op_of_known_bytes_leaves_all_to_one_inside_that_computes() -> None:
    events = (
        event("my::layer", 0, 50, **ATTENTION),
        event("aten::mm", 10, 20, **MM),
        call(15, 1),
        call(25, 2),
        kernel(60, 70, 1),
        kernel(70, 80, 2),
    )
    rows = facts(*events, formulas=MINE)
    assert column(rows, "work_id") == [None, 1, 1, None, 1, None]
    assert column(rows, "flops") == [None, 120, None, None, 120, None]


def test_attention_without_lengths_leaves_all_to_one_inside_that_computes() -> None:
    events = (
        event("vllm::unified_attention_with_output", 0, 50, **ATTENTION),
        event("aten::mm", 10, 20, **MM),
        call(15, 1),
        kernel(60, 70, 1),
    )
    assert column(facts(*events), "work_id") == [None, 1, 1, 1]
    assert notes(*events) == []


def test_ops_whose_lengths_nobody_records_are_counted_by_name() -> None:
    calls = [
        event(name, 100 * i, 100 * i + 50, **ATTENTION)
        for i, name in enumerate(
            ["vllm::unified_attention", *["vllm::unified_attention_with_output"] * 2, "aten::mm"]
        )
    ]
    ((count, example, detail),) = notes(*calls)
    assert (count, example) == (3, 0)
    assert str(detail).endswith(
        "vllm::unified_attention_with_output (2), vllm::unified_attention (1)"
    )
    assert notes(calls[3]) == []


def test_no_more_than_five_names_are_shown() -> None:
    names = ("vllm::unified_attention", "vllm::unified_mla_attention", "_C::paged_attention_v1",
             "_rocm_C::paged_attention", "aiter::pa_fwd_asm", "sgl_kernel::cutlass_mla_decode",
             "_flashmla_C::fwd_kvcache_mla")  # fmt: skip
    pages = "[9,2,1,16,8],[9,2,8,16]"
    dims = {
        "_C::paged_attention_v1": f"[[6,4,8],[6,4,8],{pages}]",
        "_rocm_C::paged_attention": f"[[6,4,8],[1],[1],[1],[6,4,8],{pages}]",
        "aiter::pa_fwd_asm": f"[[6,4,8],{pages}]",
        "sgl_kernel::cutlass_mla_decode": "[[6,4,8],[6,4,8],[6,4,4],[9,64,12]]",
        "_flashmla_C::fwd_kvcache_mla": "[[6,1,4,12],[9,64,1,12]]",
    }
    types = ["c10::BFloat16"] * 7
    calls = [
        event(name, 9 * i, 9 * i + 5, **inputs(dims.get(name, f"[[6,4,8],{KEYS},{KEYS}]"), *types))
        for i, name in enumerate(names)
    ]
    ((count, _, detail),) = notes(*calls)
    assert count == 7
    assert str(detail).endswith(" and 2 more")


VIEW = {"concrete_inputs": '["","[3,3,10]"]', **inputs("[[3,3,10],[]]", "unsigned char", "")}
DOWN = {"concrete_inputs": '["","[3,5,6]"]', **inputs("[[3,5,6],[]]", "c10::BFloat16", "")}
ROUTING = {"concrete_inputs": '["","2"]', **inputs("[[4,3],[]]", "c10::BFloat16", "Scalar")}
LAYER = inputs("[[4,6],[4,3],[]]", *["c10::BFloat16"] * 2, "")


def layer(start: int, *inner: tuple[str, Inputs], thread: int = 1) -> list[Row]:
    """A layer of experts and the ops inside it."""
    ops = [
        event(name, start + 10 * i + 1, start + 10 * i + 5, thread=thread, **columns)
        for i, (name, columns) in enumerate(inner)
    ]
    return [event("vllm::moe_forward", start, start + 90, thread=thread, **LAYER), *ops]


def test_a_formula_sees_the_ops_inside_in_their_order() -> None:
    routing, views = ("TopK", ROUTING), [("aten::view", VIEW), ("aten::view", DOWN)]
    rows = facts(
        *layer(0, routing, *views),
        *layer(100, routing, *reversed(views)),
        *layer(200, *views),
        *layer(300, routing, ("other", {}), *views),
        *layer(0, ("aten::mm", MM), routing, *views, thread=2),
        event("vllm::moe_forward", 500, 510, **LAYER),
    )
    layers = [0, 4, 8, 11, 16, 21]
    assert [rows[i]["flops"] for i in layers] == [1440, None, None, 1440, 1440, None]
    assert [rows[i]["bytes"] for i in layers] == [366, None, None, 366, 366, None]
    assert [rows[i]["work_dtype"] for i in (0, 11, 16)] == ["bf16"] * 3


def test_what_a_formula_computes_in_may_be_of_its_own() -> None:
    eight = inputs("[[4,5],[3,5],[4,1],[1,3]]", "signed char", "signed char", "float", "float")
    rows = facts(
        event("aiter::gemm_a8w8", 0, 50, **eight), call(10, 1), kernel(60, 70, 1),
        event("my::op", 100, 110, **MM),
        formulas={"my::op": Formula(lambda _: 7, dtype=lambda op: op.tensor(9).dtype)},
    )  # fmt: skip
    assert column(rows, "flops") == [120, None, 120, 7]
    assert column(rows, "work_dtype") == ["int8", None, "int8", "fp32"]


def test_none_takes_out_an_op_that_a_pattern_names() -> None:
    gemm = event("aiter::gemm_a16w16", 0, 50, **LINEAR)
    assert column(facts(gemm), "flops") == [120]
    assert column(facts(gemm, formulas={"aiter::gemm_a16w16": None}), "flops") == [None]


def test_formulas_of_a_user() -> None:
    rows = facts(
        event("my::op", 0, 50, input_dims="[[3]]"),
        event("aten::mm", 1, 2, **MM),
        event("aten::mm", 60, 70, **MM),
        event("aten::addmm", 80, 90, **MM),
        formulas={
            "my::op": Formula(lambda op: 5 * op.tensor(0).count),
            "aten::mm": None,
            "aten::addmm": Formula(lambda _: 1 // 0),
        },
    )
    assert column(rows, "flops") == [15, None, None, None]
    assert column(rows, "work_id") == [0, 0, None, None]


# A plain loop.


@st.composite
def programs(draw: st.DrawFn) -> list[dict[str, object]]:
    """Ops in ops, on two threads, with launches of any number of kernels."""
    events: list[dict[str, object]] = []
    number = 0
    for thread in range(2):
        at = 0
        for _ in range(draw(st.integers(0, 4))):
            depth = draw(st.integers(1, 4))
            for level in range(depth):
                name = draw(st.sampled_from((*WHOLE, "aten::normal_", "aten::t", "other")))
                known = {"aten::mm": MM, "aten::linear": LINEAR, "aten::normal_": MM}.get(name, {})
                given = known if draw(st.booleans()) else {}
                events.append(event(name, at + level, at + 50 - level, thread=thread, **given))
            for launch in range(draw(st.integers(0, 3))):
                number += 1
                events.append(call(at + 10 + 2 * launch, number, thread=thread))
                for _ in range(draw(st.integers(0, 3))):
                    dur = draw(st.integers(0, 20))
                    events.append(kernel(at + 60, at + 60 + dur, number))
            at += draw(st.integers(60, 70))
    return draw(st.permutations(events))


WHOLE = ("aten::mm", "aten::linear")
"""Ops whose operations are known; of `normal_` only the bytes are."""


def around(events: Sequence[Row], at: int, row: Row, names: Sequence[str]) -> list[int]:
    """The known ops of these names around a moment of the row's thread, the outermost first."""
    ops: Sequence[Mapping[str, Any]] = events
    rows = [
        (op["start_ns"], i)
        for i, op in enumerate(ops)
        if op["name"] in names
        and "input_dims" in op
        and op["thread"] == row["thread"]
        and op["start_ns"] <= at < op["start_ns"] + op["dur_ns"]
    ]
    return [i for _, i in sorted(rows)]


def owner_of(events: Sequence[Row], at: int, row: Row) -> int | None:
    """The outermost op that is known in whole, else one known in part with none inside."""
    whole = around(events, at, row, WHOLE)
    if whole:
        return whole[0]
    for i in around(events, at, row, ["aten::normal_"]):
        ops: Sequence[Mapping[str, Any]] = events
        inner = (op["start_ns"] for op in ops if op["name"] in WHOLE and "input_dims" in op
                 and op["thread"] == row["thread"])  # fmt: skip
        end = ops[i]["start_ns"] + ops[i]["dur_ns"]
        if not any(ops[i]["start_ns"] < start < end for start in inner):
            return i
    return None


def expected_owners(events: Sequence[Row]) -> Iterator[int | None]:
    calls = {row["correlation"]: row for row in events if row["category"] == "cuda_runtime"}
    for row in events:
        place = calls[row["correlation"]] if row["category"] == "kernel" else row
        yield owner_of(events, place["start_ns"], place)  # type: ignore[arg-type]


@given(programs())
def test_owners_and_sums_are_those_of_a_plain_loop(events: list[dict[str, object]]) -> None:
    rows = facts(*events)
    assert column(rows, "work_id") == list(expected_owners(events))
    total: dict[int, int] = defaultdict(int)
    for row, source in zip(rows, events, strict=True):
        if source["category"] == "kernel" and row["work_id"] is not None:
            if events[row["work_id"]]["name"] == "aten::normal_":
                assert row["flops"] is None
                continue
            total[row["work_id"]] += row["flops"]
            weights = [
                s["dur_ns"]
                for s, r in zip(events, rows, strict=True)
                if s["category"] == "kernel" and r["work_id"] == row["work_id"]
            ]
            whole = sum(weights) or len(weights)  # type: ignore[arg-type]
            weight = source["dur_ns"] if sum(weights) else 1  # type: ignore[arg-type]
            assert abs(row["flops"] - 120 * weight / whole) < 1  # type: ignore[operator]
    assert all(total[owner] == rows[owner]["flops"] == 120 for owner in total)


def test_nothing_is_known_of_a_list_without_shapes() -> None:
    """Torch has not always written those of lists."""
    rows = facts(
        event("aten::cat", 0, 9, **inputs("[[],[]]", "TensorList", "Scalar")),
        event("aten::cat", 10, 19, **inputs("[[[4],[2]],[]]", "TensorList", "Scalar")),
    )
    assert column(rows, "bytes") == [None, 2 * 6 * 4]
    assert column(rows, "flops")[1] == 0
