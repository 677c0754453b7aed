"""Attention of many sequences at once: one after the other, or in pages of a cache.

Their lengths are in a tensor, whose values no profiler records. The work is known

- if the other numbers determine it: for a single sequence, or if all sequences with the maximum
  length exactly fill the rows;
- if the step of a server says the sums of the lengths (`facts.batch_lengths`).

Otherwise FLOPs are unknown, and so are the bytes of keys in pages. A layer of a step is one call,
which works on all of its sequences.

A causal mask counts only the pairs that it leaves, if the call has one, as steps of servers do
unless the call says otherwise. A window that is not among the arguments of a call, as in vLLM's
unified attention, is not known.

Softmax and dropout do not count, as in `attention`.

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
from typing import Any, Final, NamedTuple, TypeAlias

from profframe.facts.formulas.attention import lengths_first
from profframe.facts.formulas.formula import Formula, by_op, dense, everything, read
from profframe.facts.formulas.ops import Op, Tensor
from profframe.facts.formulas.sequence_lengths import BatchLengths, SequenceSums, alike
from profframe.facts.formulas.unknowns import Unknown, UnknownLengths


class Call(NamedTuple):
    """Queries, keys and values of a call, and the sums of its lengths: None without any.

    ``key_heads`` are the heads of keys, ``pages`` says that keys are in pages of a cache.
    ``causal`` is the mask, None if it is not recorded, and ``window`` the most keys that a query
    sees.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    key_heads: int
    width: int
    value_width: int
    sums: SequenceSums | None
    pages: bool
    causal: bool | None = None
    window: int | None = None

    def flops(self, for_query: int, for_value: int) -> int:
        """Operations with so many products of each width for a pair of a query and a key."""
        each = for_query * self.width + for_value * self.value_width
        pairs = self._sums.pairs(causal=self.causal is True, window=self.window)
        return 2 * self.query.shape[-2] * pairs * each

    @property
    def _sums(self) -> SequenceSums:
        if self.sums is None:
            raise UnknownLengths
        return self.sums

    @property
    def key_bytes(self) -> int:
        """Bytes of the keys and values that are read: in pages, of those of these sequences."""
        if not self.pages:
            return self.key.bytes + self.value.bytes
        each = self.width * self.key.size + self.value_width * self.value.size
        return self._sums.keys_read(self.window) * self.key_heads * each

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


def _mask(op: Op, place: int | None) -> tuple[bool | None, int | None]:
    """Whether a mask is causal, at a place, and the most keys that a query sees, at the next."""
    if place is None:
        return None, None
    causal = _value(op, place)
    before = _value(op, place + 1)
    has_window = type(before) is int and before >= 0
    return causal if isinstance(causal, bool) else None, before + 1 if has_window else None


def _value(op: Op, place: int) -> Any:
    try:
        return op.value(place)
    except Unknown:
        return None


def _sums_of_call(
    ends: Tensor | None,
    rows: tuple[int, int | None],
    longest: tuple[int, int] | None,
    *,
    causal: bool | None,
) -> SequenceSums | None:
    """The sums if all lengths are alike, and so follow from the call.

    Keys in pages have None as their number of rows. A sequence has at least as many keys as
    queries; so where the longest has no more keys than queries, and all sequences are as long as
    it, each has equally many of both.
    """
    if ends is None or ends.count < 2:
        raise Unknown
    count = ends.count - 1
    queries, keys = rows
    if keys is not None and count == 1:
        longest = queries, keys
    elif longest is None:
        return None
    else:
        fills = queries == count * longest[0]
        fits = longest[0] == longest[1] if keys is None else keys == count * longest[1]
        if not (fills and fits):
            return None
    # Queries before the first key see none.
    return alike(count, min(longest) if causal else longest[0], longest[1])


def _of_batch(
    op: Op, query: Tensor, key: Tensor | None, *, generates: bool = False
) -> SequenceSums | None:
    """The sums of the step that a call is in; keys that are not in pages must be as many."""
    if op.batch is None:
        return None
    rows = math.prod(query.shape[:-2])
    sums = op.batch.of_rows(rows, generates=generates)
    if key is not None and (sums.queries, sums.keys) != (rows, math.prod(key.shape[:-2])):
        raise UnknownLengths
    return sums


def _with_lengths(op: Op, call: Call, *, generates: bool = False) -> Call:
    """The call with the lengths of its step, if it does not determine them itself."""
    if call.sums is not None:
        return call
    sums = _of_batch(op, call.query, None if call.pages else call.key, generates=generates)
    return call._replace(sums=sums, causal=call.causal is not False)


def _longest(op: Op, *places: int) -> tuple[int, int] | None:
    """The maximum lengths of queries and keys, at the first of these places that has numbers."""
    for place in places:
        try:
            return op.ints(place, 1)[0], op.ints(place + 1, 1)[0]
        except Unknown:
            continue
    return None


def _joined(first: int, ends: int, *longest: int, mask: int | None = None) -> Reader:
    """Sequences one after the other: ``(rows, heads, width)``; keys may be in pages."""

    def call(op: Op) -> Call:
        query, key, value = _tensors(op, first)
        if len(query.shape) != 3:
            raise Unknown
        pages = len(key.shape) != 3
        rows = query.shape[0], None if pages else key.shape[0]
        greatest = None if pages else _longest(op, *longest)
        masked = _mask(op, mask)
        sums = _sums_of_call(op.optional(ends), rows, greatest, causal=masked[0])
        sizes = key.shape[-2], key.shape[-1], value.shape[-1]
        return _with_lengths(op, Call(query, key, value, *sizes, sums, pages, *masked))

    return call


def _hopper(first: int, ends: int, used: int, longest: int, table: int, *, mask: int) -> Reader:
    """FlashAttention 3, with separate or consecutive sequences, or with a cache of keys."""

    def call(op: Op) -> Call:
        query, key, value = _tensors(op, first)
        pages = op.optional(used) is not None or op.optional(table) is not None
        sizes = key.shape[-2], key.shape[-1], value.shape[-1]
        masked = _mask(op, mask)
        if pages:
            return _with_lengths(op, Call(query, key, value, *sizes, None, pages, *masked))
        if len(query.shape) == 3:
            return _joined(first, ends, longest, mask=mask)(op)
        apart = lengths_first(op, range(first, first + 3))
        queries = min(apart.queries, apart.keys) if masked[0] else apart.queries
        sums = alike(query.shape[0], queries, apart.keys)
        return Call(query, key, value, *sizes, sums, pages, *masked)

    return call


def _batch_prefill(op: Op) -> Call:
    """AITER's: ends of queries at 3, of pages at 4, the greatest lengths at 6, the mask at 12."""
    query, key, value = _tensors(op, 0)
    if len(query.shape) != 3:
        raise Unknown
    causal, window = _mask(op, 12)
    longest = _longest(op, 6) if causal else None
    sums = _sums_of_call(op.optional(3), (query.shape[0], None), longest, causal=causal)
    width = query.shape[-1]
    if len(key.shape) == 5:  # (pages, heads, width / 8, rows of a page, 8)
        sizes = key.shape[1], width, width
    else:
        sizes = key.shape[-2], key.shape[-1], value.shape[-1]
    call = Call(query, key, value, *sizes, sums, pages=True, causal=causal, window=window)
    return _with_lengths(op, call)


def _cached(query: int, key: int, heads: int) -> Reader:
    """Queries of ``(sequences, heads, width)``, and a cache whose heads are that dimension."""

    def call(op: Op) -> Call:
        source, cache, values = op.tensor(query), op.tensor(key), op.tensor(key + 1)
        if len(source.shape) != 3 or len(cache.shape) < 4:
            raise Unknown
        sizes = cache.shape[heads], source.shape[-1], source.shape[-1]
        call = Call(source, cache, values, *sizes, None, pages=True)
        return _with_lengths(op, call, generates=True)

    return call


def _paged(query: int, window: int, *, generates: bool) -> Reader:
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
        _, most = _mask(op, window - 1)
        call = Call(source, key, value, *sizes, None, pages=True, window=most)
        return _with_lengths(op, call, generates=generates)

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
    return Call(query, key, value, *sizes, alike(count, *longest), pages=False)


def _forward(reader: Reader, *others: int) -> Formula:
    """A formula of forward attention: inputs are read once, the result is written."""

    def bytes_(op: Op) -> int:
        call = reader(op)
        return call.query.bytes + call.key_bytes + call.result_bytes + read(op, *others)

    return Formula(
        lambda op: reader(op).flops(1, 1), bytes_, lambda op: reader(op).query.dtype
    )  # fmt: skip


def _backward(reader: Reader, *others: int) -> Formula:
    """Scores again, then the gradients, which have the shapes of queries, keys and values."""

    def bytes_(op: Op) -> int:
        call = reader(op)
        inputs = call.query, call.key, call.value
        return read(op, *others) + sum(t.bytes for t in inputs) + dense(*inputs)

    return Formula(lambda op: reader(op).flops(3, 2), bytes_)


def _unified(result: int | None) -> Formula:
    """VLLM's layer: new queries, keys and values; the rest of the keys is in its cache.

    The cache has the type of the new keys, unless the call stores them in another one.
    """

    def widths(op: Op) -> tuple[SequenceSums, int, int]:
        query, key, value = (op.tensor(place) for place in range(3))
        if key.shape[:1] != query.shape[:1]:  # of another model, such as an encoder
            raise Unknown
        if op.batch is None:
            raise UnknownLengths
        rows, each = query.shape[0], math.prod(query.shape[1:])
        if result is not None:
            return op.batch.of_rows(rows), each, math.prod(op.tensor(result).shape[1:])
        if key.shape[1:] != value.shape[1:]:
            raise Unknown
        return op.batch.of_rows(rows), each, each

    def flops(op: Op) -> int:
        sums, width, value_width = widths(op)
        return 2 * sums.pairs(causal=True, window=None) * (width + value_width)

    def bytes_(op: Op) -> int:
        sums, _, value_width = widths(op)
        query, key, value = (op.tensor(place) for place in range(3))
        kept = [inner.optional(2) for inner in op.inside]
        sizes = [kept[0].size] * 2 if kept and kept[0] else [key.size, value.size]
        counts = math.prod(key.shape[1:]), math.prod(value.shape[1:])
        each = sum(count * size for count, size in zip(counts, sizes, strict=True))
        return query.bytes + sums.keys * each + query.shape[0] * value_width * query.size

    stores = ("_C_cache_ops::reshape_and_cache", "_C_cache_ops::reshape_and_cache_flash")
    return Formula(flops, bytes_, lambda op: op.tensor(0).dtype, stores)


def _latent(
    query: int, cache: int, *others: int, value_width: Callable[[Op], int], write: bool = True
) -> Formula:
    """Absorbed latent attention: one latent for keys and values of all heads, in a cache.

    Scores take the whole latent, values its first part. ``others`` are more tensors that are
    read or written; with ``write`` the result is not among them.
    """

    def sums(op: Op) -> SequenceSums:
        source, rows = op.tensor(query), op.tensor(cache)
        if len(source.shape) < 3 or len(rows.shape) < 3:
            raise Unknown
        lengths = _of_batch(op, source, None, generates=True)
        if lengths is None:
            raise UnknownLengths
        return lengths

    def flops(op: Op) -> int:
        pairs = sums(op).pairs(causal=True, window=None)
        width = op.tensor(cache).shape[-1] + value_width(op)
        return 2 * op.tensor(query).shape[-2] * pairs * width

    def bytes_(op: Op) -> int:
        source, rows = op.tensor(query), op.tensor(cache)
        latents = sums(op).keys * rows.shape[-1] * rows.size
        written = math.prod(source.shape[:-1]) * value_width(op) * source.size if write else 0
        return source.bytes + latents + written + read(op, *others)

    return Formula(flops, bytes_, lambda op: op.tensor(query).dtype)


def _result_width(op: Op) -> int:
    """AITER's stages write a result with the heads of the queries."""
    source = op.tensor(0)
    tensors = [op.optional(place) for place in range(2, len(op.dims))]
    written = [t for t in tensors if t and len(t.shape) == 3 and t.shape[:2] == source.shape[:2]]
    if not written:
        raise Unknown
    return written[0].shape[-1]


def _width_of(place: int) -> Callable[[Op], int]:
    return lambda op: op.tensor(place).shape[-1]


def _number_at(place: int) -> Callable[[Op], int]:
    return lambda op: op.ints(place, 1)[0]


class _LatentLayer(NamedTuple):
    """A call of vLLM's layer of latent attention, by the sizes of a head and of the latent."""

    batch: BatchLengths
    heads: int
    unturned: int
    turned: int
    value_width: int
    latent: int

    @property
    def flops(self) -> int:
        """Prompts: keys and values from all latents. Generation: queries and results to latents."""
        context, generation = self.batch
        widths = self.unturned + self.value_width
        prompts = context.keys * self.latent * widths
        prompts += context.pairs(causal=True, window=None) * (widths + self.turned)
        generated = generation.queries * self.latent * widths
        pairs = generation.pairs(causal=True, window=None)
        generated += pairs * (2 * self.latent + self.turned)
        return 2 * self.heads * (prompts + generated)

    @property
    def weights(self) -> int:
        return self.heads * self.latent * (self.unturned + self.value_width)


def _latent_layer(op: Op) -> _LatentLayer:
    """Queries of ``(rows, heads, width)``, the new latents and turned keys, and the result."""
    query, latent, turned, result = (op.tensor(place) for place in range(4))
    if op.batch is None:
        raise UnknownLengths
    whole = op.batch.context.joined(op.batch.generation)
    if op.batch.of_rows(query.shape[0]) != whole:
        raise UnknownLengths
    rows, heads, width = query.shape
    value_width, rest = divmod(math.prod(result.shape), rows * heads)
    if rest or width <= turned.shape[-1]:
        raise Unknown
    sizes = width - turned.shape[-1], turned.shape[-1], value_width, latent.shape[-1]
    return _LatentLayer(op.batch, heads, *sizes)


def _latent_layer_bytes(op: Op) -> int:
    """Queries, all latents, the result, and the weights, in the type of the queries."""
    layer, query = _latent_layer(op), op.tensor(0)
    keys = layer.batch.context.keys + layer.batch.generation.keys
    kept = [inner.optional(2) for inner in op.inside]
    size = kept[0].size if kept and kept[0] else op.tensor(1).size
    latents = keys * (layer.latent + layer.turned) * size
    return query.bytes + latents + layer.weights * query.size + dense(op.tensor(3))


def _never(_: Op) -> int:
    """No argument has the lengths."""
    raise UnknownLengths


SEQUENCES: Final = by_op(
    {
        "flash_attn::_flash_attn_varlen_forward aiter::_flash_attn_varlen_forward": (
            _forward(_joined(0, 3, 5, mask=9))
        ),
        "FlashAttnVarlenFunc": _forward(_joined(0, 3, 5)),
        "aiter::mha_varlen_fwd aiter::fmha_v3_varlen_fwd": _forward(_joined(0, 3, 5, mask=12)),
        "aiter::mha_varlen_bwd aiter::fmha_v3_varlen_bwd": _backward(_joined(1, 6, 8), 0, 4, 5),
        "flash_attn::_flash_attn_varlen_backward aiter::_flash_attn_varlen_backward": (
            _backward(_joined(1, 9, 11), 0, 4, 5)
        ),
        "_vllm_fa2_C::varlen_fwd": _forward(_joined(0, 4, 10, 9, mask=15)),
        "flash_attn_3::fwd flash_attn_3::_flash_attn_forward _vllm_fa3_C::fwd sgl_kernel::fwd": (
            _forward(_hopper(0, 7, 11, 12, 14, mask=24))
        ),
        "flash_attn_3::bwd": _backward(_hopper(1, 9, 12, 13, 99, mask=99), 0, 4, 5),
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
        "vllm::unified_attention_with_output sglang::unified_attention_with_output": _unified(3),
        "vllm::unified_attention": _unified(None),
        "vllm::unified_mla_attention_with_output": Formula(
            lambda op: _latent_layer(op).flops,
            _latent_layer_bytes,
            lambda op: op.tensor(0).dtype,
            ("_C_cache_ops::concat_and_cache_mla",),
        ),
        "vllm::unified_mla_attention": Formula(_never, _never),
        "aiter::mla_decode_stage1_asm_fwd aiter::mla_prefill_asm_fwd"
        " vllm::rocm_aiter_mla_decode_fwd": _latent(0, 1, value_width=_result_width),
        "_flashmla_C::fwd_kvcache_mla": _latent(0, 1, value_width=_number_at(2)),
        "sgl_kernel::cutlass_mla_decode": _latent(
            1, 3, 0, 2, value_width=_width_of(0), write=False
        ),
        "_C::sm100_cutlass_mla_decode": _latent(2, 4, 0, 3, value_width=_width_of(0), write=False),
        # results and sums of two parts, and of both
        "sgl_kernel::merge_state sgl_kernel::merge_state_v2": Formula(
            lambda op: 3 * op.tensor(0).count, everything
        ),
        "_C::merge_attn_states": Formula(lambda op: 3 * op.tensor(0).count, everything),
    },
    "{}",
)  # fmt: skip
"""Name of the op -> its formula."""


SEQUENCE_NAMES: Final = (
    (re.compile(r"flashinfer::\w+_ragged_run"), _forward(_joined(3, 6))),
    (re.compile(r"flashinfer::batch_decode\w+_run"), _forward(_paged(3, 12, generates=True))),
    (re.compile(r"flashinfer::\w+_paged_run"), _forward(_paged(3, 14, generates=False))),
)
"""FlashInfer's kernels, whose names hold data types and widths."""
