"""Rows that go into caches of keys and values, and rotary embeddings.

A cache is as large as the memory allows: only the rows that a call writes count. A rotation takes 4
products and 2 sums for two elements, 3 for each; its table is small and read many times, and does
not count.

Sources of the order of arguments: vLLM's ``csrc/torch_bindings.cpp`` (``_C_cache_ops``), SGLang's
``mem_cache/memory_pool.py`` and ``common_extension.cc``, AITER's ``ops/cache.py``, ``ops/rope.py``,
``ops/pos_encoding.py`` and ``ops/triton/fusions``, FlashInfer's ``page.py`` and ``rope.py``,
Transformer Engine's ``attention/rope.py``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from profframe.facts.formulas.formula import Count, Formula, by_op, dense, none, once, read
from profframe.facts.formulas.ops import Op
from profframe.facts.formulas.unknowns import Unknown


def _stored(sources: Iterable[int], cache: int, slots: int | None = None) -> Count:
    """Rows are read, and written in the type of the cache; no more than there are slots."""
    places = tuple(sources)

    def bytes_(op: Op) -> int:
        rows, target = [op.tensor(place) for place in places], op.tensor(cache)
        count = rows[0].shape[0]
        if any(row.shape[0] != count for row in rows) or not target.shape:
            raise Unknown
        places_of_rows = 0 if slots is None else op.tensor(slots).bytes
        written = count if slots is None else min(count, op.tensor(slots).count)
        each = sum(math.prod(row.shape[1:]) * (row.size + target.size) for row in rows)
        return written * each + places_of_rows

    return bytes_


def _gathered(op: Op) -> int:
    """Rows of a cache become a tensor."""
    cache, target = op.tensor(0), op.tensor(1)
    return target.count * (cache.size + target.size)


def _turned(op: Op, *places: int, head: int, table: int) -> int:
    """Elements that are rotated: as many of each head as the table has columns."""
    width, columns = op.ints(head, 1)[0], op.tensor(table).shape[-1]
    elements = sum(tensor.count for tensor in map(op.optional, places) if tensor is not None)
    if not 0 < columns <= width or elements % width:
        raise Unknown
    return elements // width * columns


def _in_place_flops(op: Op) -> int:
    return 3 * _turned(op, 1, 2, head=3, table=4)


def _in_place_bytes(op: Op) -> int:
    """Queries and keys, which may be missing, are read and written where they are rotated."""
    query, key = op.tensor(1), op.optional(2)
    total = 2 * _turned(op, 1, head=3, table=4) * query.size
    if key is not None:
        total += 2 * _turned(op, 2, head=3, table=4) * key.size
    return total + read(op, 0)


def _heads_flops(op: Op) -> int:
    """Queries and keys by heads, and a table with a column for each element that is turned."""
    query, key = op.tensor(0), op.tensor(1)
    columns = op.tensor(4).shape[-1]
    if columns > query.shape[-1] or query.shape[-1] != key.shape[-1]:
        raise Unknown
    return 3 * (query.count + key.count) // query.shape[-1] * columns


def _normed_flops(op: Op) -> int:
    """A norm (4) and a rotation (3) of the heads of queries and keys in one tensor."""
    return 7 * _normed_count(op)


def _normed_count(op: Op) -> int:
    queries, keys, values, width = (op.ints(place, 1)[0] for place in (1, 2, 3, 4))
    source = op.tensor(0)
    if min(queries, keys, values) < 0 or source.shape[-1] != (queries + keys + values) * width:
        raise Unknown
    return math.prod(source.shape[:-1]) * (queries + keys) * width


def _rotated(sources: Iterable[int], results: Iterable[int]) -> Formula:
    """All elements of these tensors count, rotated or not; the recorded angles say no more."""
    places = (*results, *sources)
    first = tuple(sources)
    return Formula(
        lambda op: 3 * sum(op.tensor(place).count for place in first), once(*places)
    )  # fmt: skip


def _angles_flops(op: Op) -> int:
    """Transformer Engine's: ``(length, batch, heads, width)``, and angles of some of the width."""
    source, columns = op.tensor(0), op.tensor(1).shape[-1]
    if not 0 < columns <= source.shape[-1]:
        raise Unknown
    return 3 * source.count // source.shape[-1] * columns


def _latent_flops(op: Op) -> int:
    return 3 * (op.tensor(1).count + op.tensor(3).count)


def _latent_bytes(op: Op) -> int:
    """Queries in two parts, joined; the latent of keys and values in two, put into the cache."""
    parts = [op.tensor(place) for place in range(4)]
    queries, latent = parts[:2], parts[2:]
    if queries[0].shape[:2] != queries[1].shape[:2] or latent[0].shape[0] != latent[1].shape[0]:
        raise Unknown
    result = op.optional(5)
    count = sum(part.count for part in queries)
    fits = result is not None and result.count == count
    size = result.size if result is not None and fits else queries[0].size
    written = count * size + sum(part.count for part in latent) * op.tensor(4).size
    return dense(*parts) + written


def _fused_latent_bytes(op: Op) -> int:
    """Positions, both parts that are turned in place, the latent, and the row of the cache."""
    turned, latent, cache = (op.tensor(1), op.tensor(2)), op.tensor(3), op.tensor(7)
    written = (latent.count + turned[1].count) * cache.size
    return read(op, 0, 6) + 2 * dense(turned[0]) + dense(turned[1], latent) + written


CACHES: Final = by_op(
    {
        "sglang::store_cache": Formula(none, _stored((0, 1), 2, 4)),
        "_C_cache_ops::reshape_and_cache _C_cache_ops::reshape_and_cache_flash"
        " aiter::reshape_and_cache aiter::reshape_and_cache_flash": Formula(
            none, _stored((0, 1), 2, 4)
        ),
        "aiter::reshape_and_cache_with_pertoken_quant"
        " aiter::reshape_and_cache_with_block_quant": Formula(none, _stored((0, 1), 2, 6)),
        "_C_cache_ops::concat_and_cache_mla aiter::concat_and_cache_mla": Formula(
            none, _stored((0, 1), 2, 3)
        ),
        "flashinfer::append_paged_kv_cache": Formula(none, _stored((0, 1), 4)),
        "_C_cache_ops::concat_mla_q sgl_kernel::concat_mla_absorb_q sgl_kernel::concat_mla_k": (
            Formula(none, once(0, 1, 2))
        ),
        "_C_cache_ops::gather_and_maybe_dequant_cache _C_cache_ops::cp_gather_cache"
        " _C_cache_ops::gather_cache": Formula(none, _gathered),
        "_C_cache_ops::concat_and_cache_mla_rope_fused": Formula(
            lambda op: 3 * (op.tensor(1).count + op.tensor(2).count), _fused_latent_bytes
        ),
        "aiter::fused_qk_rope_concat_and_cache_mla aiter::fused_qk_rope_cat_and_cache_mla": (
            Formula(_latent_flops, _latent_bytes)
        ),
        # positions, queries, keys, width of a head, table
        "_C::rotary_embedding sgl_kernel::rotary_embedding aiter::rotary_embedding_fwd": Formula(
            _in_place_flops, _in_place_bytes, lambda op: op.tensor(1).dtype
        ),
        # queries, keys, both turned, table
        "sgl_kernel::apply_rope_pos_ids_cos_sin_cache"
        " flashinfer::apply_rope_pos_ids_cos_sin_cache": Formula(_heads_flops, once(0, 1, 2, 3)),
        "_C::fused_qk_norm_rope": Formula(
            _normed_flops, lambda op: 2 * _normed_count(op) * op.tensor(0).size
        ),
        "aiter::rope_2c_fwd_impl aiter::rope_cached_2c_fwd_impl"
        " aiter::rope_cached_positions_2c_fwd_impl"
        " aiter::rope_cached_positions_offsets_2c_fwd_impl": _rotated((2, 3), (0, 1)),
        "aiter::rope_fwd_impl aiter::rope_cached_fwd_impl"
        " aiter::rope_cached_positions_fwd_impl": _rotated((1,), (0,)),
        "FusedRoPEFunc": Formula(_angles_flops, lambda op: 2 * dense(op.tensor(0))),
    },
    "{}",
)
"""Name of the op -> its formula."""
