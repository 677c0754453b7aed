"""Debug annotations of events as the JSON text of an object, as other traces have their arguments."""

from __future__ import annotations

import json
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe.intervals import Ints
from profframe.readers.perfetto.state import State
from profframe.readers.perfetto.wire import FIXED64, LENGTH, VARINT, Bytes, Fields, fields, texts

_NAME_IID: Final = 1
_BOOL: Final = 2
_UINT: Final = 3
_INT: Final = 4
_DOUBLE: Final = 5
_STRING: Final = 6
_POINTER: Final = 7
_LEGACY_JSON: Final = 9
_NAME: Final = 10
_DICT: Final = 11
_ARRAY: Final = 12
_STRING_IID: Final = 17
_DEEPEST: Final = 64
_NEEDS_ESCAPE: Final = r'["\\\x00-\x1f]'


def objects(
    buffer: Bytes, annotations: Fields, count: int, state: State, epoch: Ints
) -> tuple[pl.Series, int]:
    """Text of an object with the annotations of each event, and how many could not be read.

    Parameters
    ----------
    annotations
        The messages, with the events that they belong to.
    count
        Number of events; one without annotations has NULL.
    epoch
        Of each event the part of its sequence in which interned texts are valid.
    """
    if not annotations.owner.size:
        return pl.Series("args", [None] * count, dtype=pl.String), 0
    named = _named(buffer, annotations, state, epoch, 0)
    joined = _joined(annotations.owner, named.texts, count, "{", "}")
    return joined, named.unread


class _Named:
    """Annotations as texts of members, or of values alone."""

    def __init__(self, texts_: pl.Series, values: pl.Series, unread: int) -> None:
        self.texts = texts_
        self.values = values
        self.unread = unread


def _named(buffer: Bytes, messages: Fields, state: State, epoch: Ints, depth: int) -> _Named:
    count = messages.owner.size
    parts, damaged = fields(buffer, messages.value, messages.value + messages.size)
    unread = int(damaged.sum())
    values, unread_inside = _values(buffer, parts, count, state, epoch[messages.owner], depth)
    names = _names(buffer, parts, count, state, epoch[messages.owner])
    members = names + ":" + values
    return _Named(members, values, unread + unread_inside)


def _names(buffer: Bytes, parts: Fields, count: int, state: State, epoch: Ints) -> pl.Series:
    own = parts.of(_NAME, LENGTH)
    name = np.full(count, None, object)
    distinct = texts(buffer, own.value, own.size).dictionary_encode()
    quoted = [json.dumps(text, ensure_ascii=False) for text in distinct.dictionary.to_pylist()]
    name[own.owner] = np.array([*quoted, None], object)[distinct.indices.to_numpy()]
    interned = parts.of(_NAME_IID, VARINT)
    if interned.owner.size:
        looked_up = state.texts("debug_annotation_names", epoch[interned.owner], interned.value)
        name[interned.owner] = [
            json.dumps(text or f"#{iid}", ensure_ascii=False)
            for text, iid in zip(looked_up, interned.value.tolist(), strict=True)
        ]
    return pl.Series("name", name.tolist(), dtype=pl.String).fill_null('""')


def _values(
    buffer: Bytes, parts: Fields, count: int, state: State, epoch: Ints, depth: int
) -> tuple[pl.Series, int]:
    rows: list[Ints] = []
    found: list[pl.Series] = []

    def add(owner: Ints, values: pa.Array | pl.Series) -> None:
        if owner.size:
            rows.append(owner)
            found.append(pl.Series("value", values, dtype=pl.String))

    flags = parts.of(_BOOL, VARINT)
    add(flags.owner, pa.array(["false", "true"]).take(pa.array((flags.value != 0).astype(np.int8))))
    for number in (_INT, _POINTER, _UINT):
        own = parts.of(number, VARINT)
        values = own.value if number == _INT else own.value.view(np.uint64)
        add(own.owner, pa.array(values).cast(pa.string()))
    own = parts.of(_DOUBLE, FIXED64)
    doubles = own.value.view(np.float64)
    is_number = np.isfinite(doubles)
    shown = pc.if_else(pa.array(is_number), pa.array(doubles).cast(pa.string()), "null")
    add(own.owner, shown)
    own = parts.of(_STRING, LENGTH)
    add(own.owner, quoted(texts(buffer, own.value, own.size)))
    own = parts.of(_STRING_IID, VARINT)
    if own.owner.size:
        looked_up = state.texts(
            "debug_annotation_string_values", epoch[own.owner], own.value
        )
        add(own.owner, quoted(pa.array([text or "" for text in looked_up], pa.string())))
    own = parts.of(_LEGACY_JSON, LENGTH)
    if own.owner.size:
        add(own.owner, pa.array(map(_json, texts(buffer, own.value, own.size).to_pylist())))
    unread = 0
    for number, (opening, closing) in ((_DICT, "{}"), (_ARRAY, "[]")):
        own = parts.of(number, LENGTH)
        if not own.owner.size:
            continue
        if depth == _DEEPEST:
            unread += int(np.unique(own.owner).size)
            continue
        inner = _named(buffer, own, state, epoch, depth + 1)
        unread += inner.unread
        shown = inner.texts if number == _DICT else inner.values
        owners = np.unique(own.owner)
        add(owners, _joined(own.owner, shown, count, opening, closing).gather(owners))
    result = pl.Series("value", ["null"], dtype=pl.String).new_from_index(0, count)
    if rows:
        frame = pl.DataFrame({"row": np.concatenate(rows), "value": pl.concat(found)})
        place = np.full(count, -1, np.int64)
        place[frame["row"].to_numpy()] = np.arange(frame.height)
        taken = frame["value"].to_arrow().take(pa.array(place, mask=place < 0))
        result = pl.Series("value", taken).fill_null("null")
    return result, unread


def _json(text: str) -> str:
    """The JSON text that a writer gives, or a quoted text if it is none."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return json.dumps(text, ensure_ascii=False)
    return text


def _joined(owner: Ints, shown: pl.Series, count: int, opening: str, closing: str) -> pl.Series:
    """Texts of each owner with commas between them, in brackets; NULL where it has none."""
    frame = pl.DataFrame({"owner": owner, "text": shown})
    groups = frame.group_by("owner", maintain_order=True).agg(pl.col("text").str.join(","))
    place = np.full(count, -1, np.int64)
    place[groups["owner"].to_numpy()] = np.arange(groups.height)
    joined = groups.select(pl.lit(opening) + pl.col("text") + pl.lit(closing)).to_series()
    return pl.Series("args", joined.to_arrow().take(pa.array(place, mask=place < 0)))


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
