"""Work of attention by ops of serving stacks, in steps with lengths: closed forms against loops.

The loops go over each sequence, query, visible key and head, and count a product and a sum for each
element; keys and values are counted once in each sequence in which a query sees them.
"""

from __future__ import annotations

import pytest

from profframe.facts.formulas import FORMULAS, Op, counted, formula_of
from profframe.facts.formulas.sequence_lengths import BatchLengths
from tests.oracles.sequences import Sequences, sums
from tests.unit.calls import NONE, Argument, f, fp8, h, op_of, v
from tests.unit.library_calls import i32, u8

PROMPTS: Sequences = [(4, 0), (3, 5)]
GENERATING: Sequences = [(1, 6), (1, 11), (1, 2)]
VERIFYING: Sequences = [(3, 6), (3, 11)]
NOBODY: Sequences = []


def loops(
    sequences: Sequences, heads: int, widths: tuple[int, int], window: int | None = None
) -> tuple[int, int]:
    """Operations, and keys that are read."""
    flops = keys = 0
    for new, cached in sequences:
        seen = set()
        for place in range(cached, cached + new):
            for key in range(place + 1):
                if window is None or key > place - window:
                    seen.add(key)
                    for _ in range(heads):
                        flops += 2 * sum(widths)
        keys += len(seen)
    return flops, keys


def counts(op: str, arguments: list[Argument], context: Sequences, generation: Sequences,
           inside: tuple[Op, ...] = ()) -> tuple[int | None, int | None]:  # fmt: skip
    formula = formula_of(op)
    assert formula is not None
    made = op_of(op, *arguments)
    batch = BatchLengths(sums(context), sums(generation))
    call = Op(made.name, made.dims, made.types, [], made.values, None, inside, batch)
    return counted(formula.flops, call)[0], counted(formula.bytes, call)[0]


def queries(context: Sequences, generation: Sequences) -> int:
    return sum(new for new, _ in (*context, *generation))


CASES = pytest.mark.parametrize(
    ("context", "generation"),
    [(PROMPTS, NOBODY), (NOBODY, GENERATING), (PROMPTS, GENERATING), (NOBODY, VERIFYING)],
    ids=["prompts in chunks", "generating", "both", "verifying"],
)


@CASES
@pytest.mark.parametrize("key_heads", [1, 2, 4])
def test_grouped_queries_of_unified_attention(
    context: Sequences, generation: Sequences, key_heads: int
) -> None:
    """Four heads of queries share the heads of keys; widths are 8 and 6."""
    rows = queries(context, generation)
    flops, keys = loops(context + generation, 4, (8, 6))
    new = [h(rows, 4, 8), h(rows, key_heads, 8), h(rows, key_heads, 6), h(rows, 4, 6), NONE]
    moved = rows * 4 * 8 * 2 + keys * key_heads * (8 + 6) * 2 + rows * 4 * 6 * 2
    name = "vllm::unified_attention_with_output"
    assert counts(name, new, context, generation) == (flops, moved)
    stored = op_of("_C_cache_ops::reshape_and_cache_flash", *new[1:3], fp8(9, 16, key_heads, 8))
    in_bytes = moved - keys * key_heads * (8 + 6)
    assert counts(name, new, context, generation, (stored,)) == (flops, in_bytes)


@CASES
def test_heads_joined_in_one_dimension(context: Sequences, generation: Sequences) -> None:
    rows = queries(context, generation)
    flops, keys = loops(context + generation, 4, (8, 8))
    new = [h(rows, 32), h(rows, 16), h(rows, 16), NONE]
    moved = 2 * rows * 32 * 2 + keys * 2 * 16 * 2
    assert counts("vllm::unified_attention", new, context, generation) == (flops, moved)


PAGES = [h(9, 2, 1, 16, 8), h(9, 2, 8, 16)]


@pytest.mark.parametrize("generation", [GENERATING, VERIFYING])
def test_paged_attention_of_what_generates(generation: Sequences) -> None:
    """Beside prompts it has the rows of the sequences that generate."""
    rows = queries(NOBODY, generation)
    flops, keys = loops(generation, 4, (8, 8))
    arguments = [h(rows, 4, 8), h(rows, 4, 8), *PAGES]
    expected = flops, 2 * rows * 4 * 8 * 2 + keys * 2 * 16 * 2
    for context in (NOBODY, [(40, 0)]):
        assert counts("_C::paged_attention_v1", arguments, context, generation) == expected
    assert counts("_C::paged_attention_v1", arguments, [(40, 0)], NOBODY) == (None, None)


def test_equally_many_rows_of_both_parts() -> None:
    """A kernel that only generates has those that generate; any other is ambiguous."""
    rows = queries(NOBODY, GENERATING)
    flops, _ = loops(GENERATING, 4, (8, 8))
    paged = [h(rows, 4, 8), h(rows, 4, 8), *PAGES]
    assert counts("_C::paged_attention_v1", paged, [(3, 0)], GENERATING)[0] == flops
    new = [h(rows, 4, 8), h(rows, 2, 8), h(rows, 2, 8), h(rows, 4, 8)]
    unified = "vllm::unified_attention_with_output"
    assert counts(unified, new, [(3, 0)], GENERATING) == (None, None)


VARLEN = "_vllm_fa2_C::varlen_fwd"


def varlen(rows: int, window: int, *, causal: bool = True) -> list[Argument]:
    pages = h(9, 16, 2, 8)
    left, right = v(window), v(0 if window >= 0 else -1)
    return [h(rows, 4, 8), pages, pages, NONE, i32(3), i32(3), i32(2), NONE, i32(2, 4), NONE,
            v(9), v(9), v(0.0), v(0.5), v(value=False), v(value=causal), left, right]  # fmt: skip


@CASES
def test_sequences_in_pages(context: Sequences, generation: Sequences) -> None:
    rows = queries(context, generation)
    flops, keys = loops(context + generation, 4, (8, 8))
    expected = flops, 2 * rows * 4 * 8 * 2 + keys * 2 * 16 * 2
    assert counts(VARLEN, varlen(rows, -1), context, generation) == expected


@pytest.mark.parametrize("before", [0, 3, 20])
@pytest.mark.parametrize(
    "sequences", [[(1, 9)], [(5, 7)], [(6, 0)], [(4, 0), (4, 0), (4, 0)]]
)  # fmt: skip
def test_a_window_over_one_sequence_or_equal_new_ones(sequences: Sequences, before: int) -> None:
    rows = queries(sequences, NOBODY)
    flops, keys = loops(sequences, 4, (8, 8), window=before + 1)
    expected = flops, 2 * rows * 4 * 8 * 2 + keys * 2 * 16 * 2
    assert counts(VARLEN, varlen(rows, before), sequences, NOBODY) == expected


def test_a_window_that_cuts_some_of_several_sequences_is_not_known() -> None:
    """Sums do not tell how many keys of which sequence are outside: the longest has 12."""
    rows = queries(NOBODY, GENERATING)
    for before in (4, 9):
        assert counts(VARLEN, varlen(rows, before), NOBODY, GENERATING) == (None, None)
    flops, _ = loops(GENERATING, 4, (8, 8))
    assert counts(VARLEN, varlen(rows, 20), NOBODY, GENERATING)[0] == flops


def test_without_a_mask_each_query_sees_all_keys() -> None:
    rows = queries(PROMPTS, NOBODY)
    pairs = sum(new * (new + cached) for new, cached in PROMPTS)
    flops = counts(VARLEN, varlen(rows, -1, causal=False), PROMPTS, NOBODY)[0]
    assert flops == 2 * 4 * pairs * 16


def test_keys_that_are_not_in_pages_must_be_those_of_the_step() -> None:
    ends = [i32(3), i32(3), NONE, NONE, NONE, NONE, v(9), v(9)]
    fitting = [h(7, 4, 8), h(12, 2, 8), h(12, 2, 8), NONE, *ends]
    assert counts(VARLEN, fitting, PROMPTS, NOBODY)[0] == loops(PROMPTS, 4, (8, 8))[0]
    images = [h(7, 4, 8), h(11, 2, 8), h(11, 2, 8), NONE, *ends]
    assert counts(VARLEN, images, PROMPTS, NOBODY)[0] is None


LATENT = "vllm::unified_mla_attention_with_output"


@CASES
def test_latent_attention_of_a_layer(context: Sequences, generation: Sequences) -> None:
    """Four heads of 10 unturned and 2 turned elements and values of 6, latents of 16.

    Prompts compute keys and values of all their tokens; what generates turns queries into latents,
    attends to them, and turns the result into values.
    """
    rows = queries(context, generation)
    flops = loops(context, 4, (12, 6))[0] + loops(generation, 4, (18, 16))[0]
    flops += sum(2 * 4 * 16 * (10 + 6) * (new + cached) for new, cached in context)
    flops += sum(2 * 4 * 16 * (10 + 6) * new for new, _ in generation)
    keys = loops(context + generation, 1, (1, 1))[1]
    new = [h(rows, 4, 12), h(rows, 16), h(rows, 1, 2), h(rows, 24), NONE]
    moved = rows * 48 * 2 + keys * 18 * 2 + 4 * 16 * (10 + 6) * 2 + rows * 24 * 2
    assert counts(LATENT, new, context, generation) == (flops, moved)
    stored = op_of("_C_cache_ops::concat_and_cache_mla", *new[1:3], u8(9, 16, 18))
    assert counts(LATENT, new, context, generation, (stored,)) == (flops, moved - keys * 18)


@pytest.mark.parametrize(
    ("op", "arguments"),
    [
        ("aiter::mla_decode_stage1_asm_fwd",
         [h(3, 4, 18), h(50, 1, 1, 18), i32(4), i32(4), i32(99), i32(3), h(3, 4, 16)]),
        ("_flashmla_C::fwd_kvcache_mla", [h(3, 1, 4, 18), h(9, 64, 1, 18), v(16), i32(3)]),
        ("sgl_kernel::cutlass_mla_decode",
         [h(3, 4, 16), h(3, 4, 16), h(3, 4, 2), h(9, 64, 18), i32(3)]),
        ("_C::sm100_cutlass_mla_decode",
         [h(3, 4, 16), f(3, 4), h(3, 4, 16), h(3, 4, 2), h(9, 64, 18)]),
    ],
)  # fmt: skip
def test_latents_of_a_cache(op: str, arguments: list[Argument]) -> None:
    """Scores take the 18 elements of a latent, values the first 16."""
    flops, keys = loops(GENERATING, 4, (18, 16))
    moved = 3 * 4 * 18 * 2 + keys * 18 * 2 + 3 * 4 * 16 * 2
    assert counts(op, arguments, NOBODY, GENERATING) == (flops, moved)
    assert op in FORMULAS


def test_keys_of_another_model_are_not_those_of_the_step() -> None:
    """Attention to the output of an encoder, which has other rows."""
    new = [h(3, 4, 8), h(40, 2, 8), h(40, 2, 8), h(3, 4, 8)]
    assert counts("vllm::unified_attention_with_output", new, NOBODY, GENERATING) == (None, None)


def test_padded_rows_of_a_kernel_that_only_generates() -> None:
    """Beside prompts whose rows would fill the padding."""
    flops, _ = loops(GENERATING, 4, (8, 8))
    arguments = [h(5, 4, 8), h(5, 4, 8), *PAGES]
    assert counts("_C::paged_attention_v1", arguments, [(1, 50)], GENERATING)[0] == flops
