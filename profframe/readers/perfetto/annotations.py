"""Debug annotations of events as JSON objects, like the arguments in other traces."""

from __future__ import annotations

import json
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe.intervals import Ints, Mask
from profframe.readers.perfetto.state import State
from profframe.readers.perfetto.wire import (
    FIXED64,
    LENGTH,
    VARINT,
    Bytes,
    Fields,
    distinct_rows,
    fields,
    texts,
)

_NAME_IID: Final = 1
_BOOL: Final = 2
_UINT: Final = 3
_INT: Final = 4
_DOUBLE: Final = 5
_STRING: Final = 6
_POINTER: Final = 7
_NESTED: Final = 8
_PROTO: Final = 14
_LEGACY_JSON: Final = 9
_NAME: Final = 10
_DICT: Final = 11
_ARRAY: Final = 12
_STRING_IID: Final = 17
_LISTS_OF_LISTS: Final = ("Input Dims", "Input Strides")
_LISTS: Final = (*_LISTS_OF_LISTS, "Input type", "Concrete Inputs")
"""Annotations that have no value if their list is empty."""
_DEEPEST: Final = 64
_NEEDS_ESCAPE: Final = r'["\\\x00-\x1f]'


def objects(
    buffer: Bytes, annotations: Fields, count: int, state: State, epoch: Ints
) -> tuple[pa.Array, int]:
    """Text of an object with the annotations of each event, and how many could not be read.

    Parameters
    ----------
    annotations
        The messages, with the events that they belong to.
    count
        Number of events; one without annotations has NULL.
    epoch
        For each event, the part of its sequence in which interned texts are valid.
    """
    if not annotations.owner.size:
        return pa.nulls(count, pa.string()), 0
    is_in_list = np.zeros(annotations.owner.size, np.bool_)
    epochs = epoch[annotations.owner]
    names, values, unread = _named(buffer, annotations, state, epochs, is_in_list, 0)
    return joined(annotations.owner, member(names, values), count, "{", "}"), unread


def member(names: pa.Array, values: pa.Array) -> pa.Array:
    """Members of objects, from names and values that are JSON."""
    return pc.binary_join_element_wise(names, values, ":")


def _named(  # noqa: PLR0917
    buffer: Bytes, messages: Fields, state: State, epoch: Ints, is_in_list: Mask, depth: int
) -> tuple[pa.Array, pa.Array, int]:
    """Names and values of annotations, as JSON, and how many could not be read.

    An annotation in a list of lists, at any depth, is an empty list if it has no value.
    """
    count = messages.owner.size
    parts, damaged = fields(buffer, messages.value, messages.value + messages.size)
    names = _names(buffer, parts, count, state, epoch)
    is_of_lists = is_in_list | _is_in(names, _LISTS_OF_LISTS)
    values, unread = _values(buffer, parts, count, state, epoch, is_of_lists, depth)
    if values.null_count:
        is_list = pa.array(is_of_lists | _is_in(names, _LISTS))
        values = pc.coalesce(values, pc.if_else(is_list, "[]", "null"))
    return names, values, unread + int(damaged.sum())


def _is_in(names: pa.Array, chosen: tuple[str, ...]) -> Mask:
    wanted = pa.array([f'"{name}"' for name in chosen], pa.string())
    mask: Mask = pc.is_in(names, wanted).to_numpy(zero_copy_only=False)
    return mask


def _names(buffer: Bytes, parts: Fields, count: int, state: State, epoch: Ints) -> pa.Array:
    own = parts.of(_NAME, LENGTH)
    distinct = texts(buffer, own.value, own.size).dictionary_encode()
    code = np.full(count, -1, np.int64)
    code[own.owner] = distinct.indices.to_numpy()
    names: list[str | None] = distinct.dictionary.to_pylist()
    interned = parts.of(_NAME_IID, VARINT)
    if interned.owner.size:
        pairs, place = distinct_rows(epoch[interned.owner], interned.value)
        looked_up = state.texts("debug_annotation_names", pairs[:, 0], pairs[:, 1])
        code[interned.owner] = place + len(names)
        is_lost = np.array([text is None for text in looked_up])
        state.lost_texts += int(is_lost[place].sum())
        names += [
            f"#{iid}" if text is None else text
            for text, iid in zip(looked_up, pairs[:, 1].tolist(), strict=True)
        ]
    quoted_names = [json.dumps(name, ensure_ascii=False) for name in (*names, "")]
    code[code < 0] = len(names)
    return pa.array(quoted_names, pa.string()).take(pa.array(code))


def _values(  # noqa: PLR0917
    buffer: Bytes,
    parts: Fields,
    count: int,
    state: State,
    epoch: Ints,
    is_of_lists: Mask,
    depth: int,
) -> tuple[pa.Array, int]:
    rows: list[Ints] = []
    shown: list[pa.Array] = []

    def add(owner: Ints, values: pa.Array) -> None:
        if owner.size:
            rows.append(owner)
            shown.append(values.cast(pa.string()))

    flags = parts.of(_BOOL, VARINT)
    add(flags.owner, pa.array(["false", "true"]).take(pa.array((flags.value != 0).astype(np.int8))))
    for number in (_INT, _POINTER, _UINT):
        own = parts.of(number, VARINT)
        add(own.owner, pa.array(own.value if number == _INT else own.value.view(np.uint64)))
    own = parts.of(_DOUBLE, FIXED64)
    add(own.owner, doubles(own.value.view(np.float64), state))
    own = parts.of(_STRING, LENGTH)
    add(own.owner, quoted(texts(buffer, own.value, own.size)))
    own = parts.of(_STRING_IID, VARINT)
    if own.owner.size:
        looked_up = state.texts("debug_annotation_string_values", epoch[own.owner], own.value)
        state.lost_texts += sum(text is None for text in looked_up)
        add(own.owner, pc.coalesce(quoted(pa.array(looked_up, pa.string())), "null"))
    own = parts.of(_LEGACY_JSON, LENGTH)
    if own.owner.size:
        add(own.owner, _json(texts(buffer, own.value, own.size), state))
    # Messages of their own types, and values in the form used before 2021.
    unread = int(np.isin(parts.number, (_NESTED, _PROTO)).sum())
    for number, (opening, closing) in ((_DICT, "{}"), (_ARRAY, "[]")):
        own = parts.of(number, LENGTH)
        owners = np.flatnonzero(np.bincount(own.owner, minlength=count))
        if depth == _DEEPEST:
            unread += owners.size
        elif owners.size:
            names, inner, unread_inside = _named(
                buffer, own, state, epoch[own.owner], is_of_lists[own.owner], depth + 1
            )
            unread += unread_inside
            inner = member(names, inner) if number == _DICT else inner
            whole = joined(own.owner, inner, count, opening, closing)
            add(owners, whole.take(pa.array(owners)))
    if not rows:
        return pa.nulls(count, pa.string()), unread
    place = np.full(count, -1, np.int64)
    place[np.concatenate(rows)] = np.arange(sum(own.size for own in rows))
    return pa.concat_arrays(shown).take(pa.array(place, mask=place < 0)), unread


def doubles(values: npt.NDArray[np.float64], state: State) -> pa.Array:
    """Numbers as JSON; what is not a number becomes null, and is counted."""
    state.non_finite += int((~np.isfinite(values)).sum())
    return pc.if_else(pa.array(np.isfinite(values)), pa.array(values).cast(pa.string()), "null")


def joined(owner: Ints, shown: pa.Array, count: int, opening: str, closing: str) -> pa.Array:
    """Texts of each owner with commas between them, in brackets; NULL if it has none.

    The rows of an owner are neighbours, in the order of owners.
    """
    counts = np.bincount(owner, minlength=count)
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(bounds), shown)
    inside = pc.binary_join(lists, ",")
    brackets = [pa.scalar(text, pa.string()) for text in (opening, closing, "")]
    whole = pc.binary_join_element_wise(brackets[0], inside, *brackets[1:])
    return pc.if_else(pa.array(counts > 0), whole, pa.scalar(None, pa.string()))


def _json(values: pa.Array, state: State) -> pa.Array:
    """The texts of a writer, quoted if they are not JSON; those that profframe wrote all are."""
    if state.exported is not None:
        return values
    encoded = values.dictionary_encode()
    shown = pa.array(map(_json_of, encoded.dictionary.to_pylist()), pa.string())
    return shown.take(encoded.indices)


def _json_of(text: str) -> str:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps(text, ensure_ascii=False)
    return text


def quoted(values: pa.Array) -> pa.Array:
    """Texts as JSON; few need more than quotation marks."""
    encoded = values.dictionary_encode()
    distinct = pl.Series(encoded.dictionary)
    plain = '"' + distinct + '"'
    odd = distinct.str.contains(_NEEDS_ESCAPE)
    if odd.any():
        escaped = [json.dumps(t, ensure_ascii=False) for t in distinct.filter(odd).to_list()]
        plain = plain.scatter(odd.arg_true(), escaped)
    return plain.to_arrow().cast(pa.string()).take(encoded.indices)
