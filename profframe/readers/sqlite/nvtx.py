"""Parse the names that PyTorch's ``emit_nvtx`` gives to ranges.

A name is ``aten::add, seq = 7, op_id = 12, sizes = [[2, 3], []], input_op_ids = [(9,0)]``; parts
after the first are optional. Until 2020 a backward function had ``stashed seq = 7``, the number of
its forward op.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from profframe.schema import INT32, INT64, TEXT

BACKWARD: Final = 1
"""RecordScope of a backward function."""

_PARTS: Final = (
    r"(?s)^(?P<name>.*?)"
    r"(?P<numbered>, (?P<stashed>stashed )?seq = (?P<seq>-?\d{0,18}))?"
    r"(?:, op_id = (?P<op>\d{1,18}))?"
    r"(?:, sizes = (?P<sizes>\[[\[\]\d, -]*\]))?"
    r"(?:, input_op_ids = (?P<inputs>\[[()\d, -]*\]))?$"
)

_OPERATOR: Final = r"^\w+(?:::\w+)*::[\w.&=-]+$"
_REGION: Final = r"^FSDP::"
"""A namespace that torch gives to regions, with ``record_function``."""


def split(texts: pa.Array) -> dict[str, pa.Array]:
    """The parts of each name; a name that PyTorch did not write has one part.

    ``is_op`` means that PyTorch named the range after an operator: a region of the user has no
    sequence number, no shapes and usually no namespace. ``inputs`` are the ops that made its
    inputs.

    Examples
    --------
    >>> parts = split(pa.array(["aten::add, seq = 7, sizes = [[2, 3]]", "forward"]))
    >>> parts["name"].to_pylist(), parts["sequence_nr"].to_pylist(), parts["is_op"].to_pylist()
    (['aten::add', 'forward'], [7, None], [True, False])
    """
    encoded = texts.dictionary_encode()
    distinct = _distinct(encoded.dictionary)
    columns = {name: part.take(encoded.indices) for name, part in distinct.items()}
    return columns | {"is_op": pc.fill_null(columns["is_op"], fill_value=False)}


def _distinct(texts: pa.Array) -> dict[str, pa.Array]:
    parts = pc.extract_regex(texts, _PARTS)
    name, numbered, stashed, seq, op, sizes, inputs = (
        _not_empty(parts.field(group))
        for group in ("name", "numbered", "stashed", "seq", "op", "sizes", "inputs")
    )
    names = pc.fill_null(name, "")
    in_namespace = pc.and_(pc.is_valid(op), pc.match_substring_regex(names, _OPERATOR))
    is_op = pc.and_not(
        pc.or_(pc.or_(pc.is_valid(numbered), pc.is_valid(sizes)), in_namespace),
        pc.match_substring_regex(names, _REGION),
    )
    sequence = pc.if_else(pc.equal(seq, "-"), None, seq).cast(INT64)
    number = pc.if_else(pc.greater_equal(sequence, 0), sequence, None)
    scope = pc.if_else(pc.is_valid(stashed), pa.scalar(BACKWARD, INT32), pa.scalar(None, INT32))
    return {
        "name": names,
        "is_op": is_op,
        "sequence_nr": number,
        "external_id": op.cast(INT64),
        "input_dims": pc.replace_substring(sizes, " ", ""),
        "scope": scope,
        "inputs": inputs,
    }


def _not_empty(texts: pa.Array) -> pa.Array:
    """Text of a part; NULL if it is missing."""
    return pc.if_else(pc.not_equal(texts, ""), texts, pa.scalar(None, TEXT))
