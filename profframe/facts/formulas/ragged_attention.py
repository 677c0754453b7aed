"""Attention of many sequences at once: one after the other, or in pages of a cache.

Their lengths are in a tensor, whose values no profiler records. The work is known if the other
numbers determine it: for a single sequence, or if all sequences with the maximum length exactly
fill the rows. Otherwise it is unknown because of the lengths, and the bytes are a lower bound: the
queries, the result, and one key and value for each query.

Softmax, masks and dropout count as in `attention`.

Sources of the order of arguments: flash-attn's ``flash_attn_interface.py`` and
``hopper/flash_api.cpp``, vLLM's ``flash_api_torch_lib.cpp``, ``csrc/torch_bindings.cpp``,
``csrc/rocm/torch_bindings.cpp`` and ``attention/layer.py``, AITER's ``ops/mha.py`` and
``ops/attention.py``, SGLang's ``flash_extension.cc``, FlashInfer's ``prefill.py`` and
``decode.py``, Transformer Engine's ``dot_product_attention/backends.py``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from profframe.facts.formulas.attention import Sizes, lengths_first
from profframe.facts.formulas.formula import Formula, by_op, dense, everything, read
from profframe.facts.formulas.ops import Op, Tensor, Unknown, UnknownLengths


class Call(NamedTuple):
    """Queries, keys and values of a call; the lengths are None if they were not recorded.

    ``key_heads`` are the heads of keys, ``pages`` says that keys are in pages of a cache.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    key_heads: int
    width: int
    value_width: int
    sequences: int
    lengths: tuple[int, int] | None
    pages: bool

    @property
    def sizes(self) -> Sizes:
        """Sizes of all sequences, which have one length."""
        if self.lengths is None:
            raise UnknownLengths
        heads = self.sequences * self.query.shape[-2]
        return Sizes(heads, *self.lengths, self.width, self.value_width)

    @property
    def key_bytes(self) -> int:
        """Minimum bytes of the keys and values that are read."""
        if not self.pages:
            return self.key.bytes + self.value.bytes
        keys = math.prod(self.query.shape[:-2])
        if self.lengths is not None:
            keys = self.sequences * self.lengths[1]
        each = self.width * self.key.size + self.value_width * self.value.size
        return keys * self.key_heads * each

    @property
    def result_bytes(self) -> int:
        """Bytes of a result with the heads of the queries."""
        return math.prod(self.query.shape[:-1]) * self.value_width * self.query.size


Reader: TypeAlias = Callable[[Op], Call]


def _tensors(op: Op, first: int) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = (op.tensor(first + i) for i in range(3))
    if min(len(query.shape), len(key.shape), len(value.shape)) < 3:
        raise Unknown
    return query, key, value


def _lengths(
    ends: Tensor | None, rows: tuple[int, int | None], longest: tuple[int, int] | None
) -> tuple[int, tuple[int, int] | None]:
    """Number of sequences, and the lengths of queries and keys if all are alike.

    Keys in pages have None as their number of rows. A sequence has at least as many keys as
    queries; so where the longest has no more keys than queries, and all sequences are as long as
    it, each has equally many of both.
    """
    if ends is None or ends.count < 2:
        raise Unknown
    count = ends.count - 1
    queries, keys = rows
    if keys is not None and count == 1:
        return count, (queries, keys)
    if longest is None:
        return count, None
    fills = queries == count * longest[0]
    fits = longest[0] == longest[1] if keys is None else keys == count * longest[1]
    return count, longest if fills and fits else None


def _longest(op: Op, *places: int) -> tuple[int, int] | None:
    """The maximum lengths of queries and keys, at the first of these places that has numbers."""
    for place in places:
        try:
            return op.ints(place, 1)[0], op.ints(place + 1, 1)[0]
        except Unknown:
            continue
    return None


def _joined(first: int, ends: int, *longest: int) -> Reader:
    """Sequences one after the other: ``(rows, heads, width)``; keys may be in pages."""

    def call(op: Op) -> Call:
        query, key, value = _tensors(op, first)
        if len(query.shape) != 3:
            raise Unknown
        pages = len(key.shape) != 3
        rows = query.shape[0], None if pages else key.shape[0]
        greatest = None if pages else _longest(op, *longest)
        count, lengths = _lengths(op.optional(ends), rows, greatest)
        sizes = key.shape[-2], key.shape[-1], value.shape[-1]
        return Call(query, key, value, *sizes, count, lengths, pages)

    return call


def _hopper(first: int, ends: int, used: int, longest: int, table: int) -> Reader:
    """FlashAttention 3, with separate or consecutive sequences, or with a cache of keys."""

    def call(op: Op) -> Call:
        query, key, value = _tensors(op, first)
        pages = op.optional(used) is not None or op.optional(table) is not None
        sizes = key.shape[-2], key.shape[-1], value.shape[-1]
        if pages:
            return Call(query, key, value, *sizes, 0, None, pages)
        if len(query.shape) == 3:
            return _joined(first, ends, longest)(op)
        apart = lengths_first(op, range(first, first + 3))
        lengths = apart.queries, apart.keys
        return Call(query, key, value, *sizes, query.shape[0], lengths, pages)

    return call


def _is_true(op: Op, place: int) -> bool:
    try:
        return op.value(place) is True
    except Unknown:
        return False


def _batch_prefill(op: Op) -> Call:
    """AITER's: ends of queries at 3, of pages at 4, the greatest lengths at 6, the mask at 12."""
    query, key, value = _tensors(op, 0)
    if len(query.shape) != 3:
        raise Unknown
    longest = _longest(op, 6) if _is_true(op, 12) else None
    count, lengths = _lengths(op.optional(3), (query.shape[0], None), longest)
    width = query.shape[-1]
    if len(key.shape) == 5:  # (pages, heads, width / 8, rows of a page, 8)
        sizes = key.shape[1], width, width
    else:
        sizes = key.shape[-2], key.shape[-1], value.shape[-1]
    return Call(query, key, value, *sizes, count, lengths, pages=True)


def _cached(query: int, key: int, heads: int) -> Reader:
    """Queries of ``(sequences, heads, width)``, and a cache whose heads are that dimension."""

    def call(op: Op) -> Call:
        source, cache, values = op.tensor(query), op.tensor(key), op.tensor(key + 1)
        if len(source.shape) != 3 or len(cache.shape) < 4:
            raise Unknown
        sizes = cache.shape[heads], source.shape[-1], source.shape[-1]
        return Call(source, cache, values, *sizes, 0, None, pages=True)

    return call


def _paged(query: int) -> Reader:
    """FlashInfer's pages: ``(pages, rows, heads, width)``, or heads before rows.

    Heads of the query are a multiple of those of the cache. Where both orders fit, the first is
    taken: it is FlashInfer's default.
    """

    def call(op: Op) -> Call:
        source, key, value = _tensors(op, query)
        if len(key.shape) != 4:
            raise Unknown
        heads = next((n for n in key.shape[2:0:-1] if n and source.shape[-2] % n == 0), None)
        if heads is None:
            raise Unknown
        sizes = heads, key.shape[-1], value.shape[-1]
        return Call(source, key, value, *sizes, 0, None, pages=True)

    return call


def _fused_attention(op: Op) -> Call:
    """Transformer Engine's: the first three in a row of three dimensions or more.

    One of the dimensions before the heads must be as long as the longest sequence: the other is the
    number of sequences.
    """
    tensors = [op.optional(place) for place in range(len(op.dims))]
    wide = [place for place, tensor in enumerate(tensors) if tensor and len(tensor.shape) > 2]
    query, key, value = _tensors(op, wide[0])
    if len(query.shape) == 3:
        return _joined(wide[0], 3, 1)(op)
    longest = op.ints(1, 1)[0], op.ints(2, 1)[0]
    sizes = key.shape[-2], key.shape[-1], value.shape[-1]
    outer = query.shape[:2]
    if longest[0] not in outer or longest[1] not in key.shape[:2]:
        raise Unknown
    count = math.prod(outer) // max(longest[0], 1)
    return Call(query, key, value, *sizes, count, longest, pages=False)


def _forward(reader: Reader, *others: int) -> Formula:
    """A formula of forward attention: inputs are read once, the result is written."""

    def bytes_(op: Op) -> int:
        call = reader(op)
        return call.query.bytes + call.key_bytes + call.result_bytes + read(op, *others)

    return Formula(
        lambda op: reader(op).sizes.forward, bytes_, lambda op: reader(op).query.dtype
    )  # fmt: skip


def _backward(reader: Reader, *others: int) -> Formula:
    """The gradients have the shapes of queries, keys and values."""

    def bytes_(op: Op) -> int:
        call = reader(op)
        inputs = call.query, call.key, call.value
        return read(op, *others) + sum(t.bytes for t in inputs) + dense(*inputs)

    return Formula(lambda op: reader(op).sizes.backward, bytes_)


def _never(_: Op) -> int:
    """No argument has the lengths."""
    raise UnknownLengths


def _latent(query: int, cache: int, *others: int) -> Formula:
    """A cache of latents, one for keys and values of all heads: a row for each query is read."""

    def bytes_(op: Op) -> int:
        source, rows = op.tensor(query), op.tensor(cache)
        if len(source.shape) < 3 or len(rows.shape) < 3:
            raise Unknown
        queries = math.prod(source.shape[:-2])
        return source.bytes + queries * rows.shape[-1] * rows.size + read(op, *others)

    return Formula(_never, bytes_, lambda op: op.tensor(query).dtype)


def _latent_result(op: Op) -> int:
    """AITER's stages: queries, rows of latents, and a result with the heads of the queries."""
    source, cache = op.tensor(0), op.tensor(1)
    places = range(2, len(op.dims))
    results = [tensor for tensor in map(op.optional, places) if tensor is not None]
    written = [t for t in results if len(t.shape) == 3 and t.shape[:2] == source.shape[:2]]
    queries = math.prod(source.shape[:-2])
    return source.bytes + queries * cache.shape[-1] * cache.size + dense(*written[:1])


SEQUENCES: Final = by_op(
    {
        "flash_attn::_flash_attn_varlen_forward FlashAttnVarlenFunc aiter::mha_varlen_fwd"
        " aiter::fmha_v3_varlen_fwd aiter::_flash_attn_varlen_forward": (
            _forward(_joined(0, 3, 5))
        ),
        "aiter::mha_varlen_bwd aiter::fmha_v3_varlen_bwd": _backward(_joined(1, 6, 8), 0, 4, 5),
        "flash_attn::_flash_attn_varlen_backward aiter::_flash_attn_varlen_backward": (
            _backward(_joined(1, 9, 11), 0, 4, 5)
        ),
        "_vllm_fa2_C::varlen_fwd": _forward(_joined(0, 4, 10, 9)),
        "flash_attn_3::fwd flash_attn_3::_flash_attn_forward _vllm_fa3_C::fwd sgl_kernel::fwd": (
            _forward(_hopper(0, 7, 11, 12, 14))
        ),
        "flash_attn_3::bwd": _backward(_hopper(1, 9, 12, 13, 99), 0, 4, 5),
        "aiter::mha_batch_prefill": _forward(_batch_prefill),
        "FusedAttnFunc": _forward(_fused_attention),
        # result, workspace, queries, cache
        "aiter::paged_attention_ragged sglang_profiler::attention_paged_attention_ragged": (
            _forward(_cached(2, 3, 2))
        ),
        "_C::paged_attention_v1 aiter::pa_decode_gluon": _forward(_cached(1, 2, 1)),
        "_C::paged_attention_v2 _rocm_C::paged_attention aiter::paged_attention_rocm": _forward(
            _cached(4, 5, 1)
        ),
        "aiter::pa_fwd_asm": _forward(_cached(0, 1, 1)),
        # queries, keys, values of the new rows, result
        "vllm::unified_attention_with_output sglang::unified_attention_with_output": (
            Formula(_never, lambda op: _all(op, 4))
        ),
        "vllm::unified_attention": Formula(
            _never, lambda op: _all(op, 3) + dense(op.tensor(0))
        ),
        "vllm::unified_mla_attention_with_output": Formula(_never, lambda op: _all(op, 4)),
        "vllm::unified_mla_attention": Formula(_never, lambda op: _all(op, 3)),
        "aiter::mla_decode_stage1_asm_fwd aiter::mla_prefill_asm_fwd"
        " vllm::rocm_aiter_mla_decode_fwd": Formula(
            _never, _latent_result
        ),
        "_flashmla_C::fwd_kvcache_mla": _latent(0, 1),
        "sgl_kernel::cutlass_mla_decode": _latent(1, 3, 0, 2),
        "_C::sm100_cutlass_mla_decode": _latent(2, 4, 0, 3),
        # results and sums of two parts, and of both
        "sgl_kernel::merge_state sgl_kernel::merge_state_v2": Formula(
            lambda op: 3 * op.tensor(0).count, everything
        ),
        "_C::merge_attn_states": Formula(lambda op: 3 * op.tensor(0).count, everything),
        # layers of which the sizes inside are not among the arguments
        "vllm::gdn_attention_core vllm::mamba_mixer vllm::mamba_mixer2 vllm::short_conv"
        " vllm::linear_attention": Formula(None, everything),
    },
    "{}",
)  # fmt: skip
"""Name of the op -> its formula."""


def _all(op: Op, count: int) -> int:
    return op.tensor(0).bytes + read(op, *range(1, count))


SEQUENCE_NAMES: Final = (
    (re.compile(r"flashinfer::\w+_ragged_run"), _forward(_joined(3, 6))),
    (re.compile(r"flashinfer::\w+_paged_run"), _forward(_paged(3))),
    (re.compile(r"flashinfer::batch_decode\w+_run"), _forward(_paged(3))),
)
"""FlashInfer's kernels, whose names hold data types and widths."""
