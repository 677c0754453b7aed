"""Parse text of nodes into columns, by DuckDB; no node becomes a Python object."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import duckdb
import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.intervals import Ints
from profframe.readers.chrome.session import lent
from profframe.readers.json.numerals import marked, unmarked, unmarked_rows
from profframe.readers.json.pieces import parsed, pieces_of
from profframe.readers.json.stream import Parsed, Wave

_Text = Callable[[str], str]
"""SQL of a text from that of one that may have marks."""
_JSON_KEYS: Final = (
    "id", "parent", "ctrl_deps", "rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid",
    "op_schema", "name", "inputs", "input_shapes", "input_types", "input_strides", "outputs",
    "output_shapes", "output_types", "output_strides", "attrs",
)  # fmt: skip
_NODE_TYPE: Final = json.dumps([dict.fromkeys(_JSON_KEYS, "JSON")])
_ATTRS_TYPE: Final = json.dumps([{"name": "VARCHAR", "value": "JSON"}])
_LIST: Final = json.dumps(["JSON"])
_TEXTS: Final = json.dumps(["VARCHAR"])
_TENSOR: Final = r"Tensor\(((?:[^()]|\([^()]*\))*)\)"
_NUMBERS: Final = {
    "record_function_id": ("rf_id", "BIGINT"),
    "fwd_parent_id": ("fw_parent", "BIGINT"),
    "sequence_nr": ("seq_id", "BIGINT"),
    "scope": ("scope", "INTEGER"),
    "tid": ("tid", "BIGINT"),
    "fwd_tid": ("fw_tid", "BIGINT"),
    "group_size": ("pg_size", "INTEGER"),
    "in_elements": ("in_msg_nelems", "BIGINT"),
    "out_elements": ("out_msg_nelems", "BIGINT"),
    "group_start": ("global_rank_start", "INTEGER"),
    "group_stride": ("global_rank_stride", "INTEGER"),
}
"""Columns of numbers: the attribute, and its type."""
GROUP_COLUMNS: Final = ("group_start", "group_stride")
"""Columns that only the reader needs, for the ranks of a group."""
_TEXT_ATTRS: Final = {
    "op_schema": "op_schema",
    "kernel_backend": "kernel_backend",
    "kernel_file": "kernel_file",
    "collective": "collective_name",
    "process_group": "pg_name",
    "process_group_description": "pg_desc",
    "element_type": "dtype",
}
_FLAT: Final = ("rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid", "op_schema")
"""Attributes that are members of the node in the first versions of the format."""
_NONE: Final[Mapping[str, int]] = {
    "sequence_nr": -1,
    "fwd_parent_id": 0,
    "fwd_tid": 0,
    "record_function_id": 0,
}
"""The numbers that mean "none" in the source."""


def _value(attribute: str) -> str:
    """SQL: the text of an attribute."""
    listed = f"texts[list_position(names, '{attribute}')]"
    return f"coalesce(node.{attribute}->>'$', {listed})" if attribute in _FLAT else listed


def _number(column: str, text: _Text) -> str:
    attribute, type_ = _NUMBERS[column]
    cast = f"TRY_CAST({text(_value(attribute))} AS {type_})"
    return f"nullif({cast}, {_NONE[column]})" if column in _NONE else cast


_OWN: Final = (*(name for name, _ in _NUMBERS.values()), *_TEXT_ATTRS.values())
_TEXT_COLUMNS: Final = ", ".join(
    f"nullif({_value(name)}, '') AS {column}" for column, name in _TEXT_ATTRS.items()
)
_SIDES: Final = ", ".join(
    f"CASE WHEN json_type(node.{side}s) = 'OBJECT' THEN node.{side}s->'$.{part}'"
    f" ELSE node.{flat} END AS {flat}"
    for side in ("input", "output")
    for part in ("values", "types", "shapes", "strides")
    for flat in (f"{side}s" if part == "values" else f"{side}_{part}",)
)


def _nodes(text: _Text) -> str:
    """SQL: the nodes."""
    numbers = ", ".join(f"{_number(column, text)} AS {column}" for column in _NUMBERS)
    parent = "node.ctrl_deps->>'$[0]' ELSE node.ctrl_deps->>'$' END, node.parent->>'$')"
    parent = f"coalesce(CASE WHEN json_type(node.ctrl_deps) = 'ARRAY' THEN {parent}"
    return f"""
    WITH parsed AS (
        SELECT unnest(from_json(t, '{_NODE_TYPE}')) AS node FROM pieces),
    listed AS (
        SELECT node, from_json(node.attrs, '{_ATTRS_TYPE}') AS attrs,
               list_transform(attrs, lambda a: a.name) AS names,
               list_transform(attrs, lambda a: a.value->>'$') AS texts
        FROM parsed)
    SELECT TRY_CAST({text("node.id->>'$'")} AS BIGINT) AS node_id, node.name->>'$' AS name,
           TRY_CAST({text(parent)} AS BIGINT) AS parent_id,
           {numbers},
           {_TEXT_COLUMNS},
           {_SIDES},
           nullif('{{' || array_to_string(list_transform(
               list_filter(attrs,
                           lambda a: a.name NOT IN {_OWN!r} AND a.value NOT IN ('""', 'null')),
               lambda a: to_json(a.name)::VARCHAR || ':' || coalesce(a.value, 'null')), ',')
               || '}}', '{{}}') AS attributes,
           node IS NULL AS is_no_object, coalesce(node.id, node.name) IS NULL AS is_blank,
           row_number() OVER () AS row
    FROM listed"""  # noqa: S608 - of constants


_PARTS: Final = (("in", "input"), ("out", "output"))
_VALUES: Final = " UNION ALL ".join(
    f"""SELECT row, node_id, '{direction}' AS direction,
               unnest(from_json({word}s, '{_LIST}')) AS value,
               unnest(range(json_array_length({word}s)::BIGINT)) AS position,
               unnest(from_json({word}_types, '{_TEXTS}')) AS type,
               unnest(from_json({word}_shapes, '{_LIST}')) AS shape,
               unnest(from_json({word}_strides, '{_LIST}')) AS stride
        FROM nodes WHERE contains({word}_types::VARCHAR, 'Tensor(')
          AND json_type({word}s) = 'ARRAY'"""  # noqa: S608 - of constants
    for direction, word in _PARTS
)


def _tensors(text: _Text) -> str:
    """SQL: the tensors of the nodes."""
    members = (text(f"value->>'$[{place}]'") for place in range(5))
    tensor_id, storage_id, offset, elements, size = (f"TRY_CAST({m} AS BIGINT)" for m in members)
    return f"""
    WITH given AS ({_VALUES}),
    lists AS (
        SELECT row, node_id, direction, position,
               from_json(value, '{_LIST}') AS items,
               list_filter(range(len(items)),
                           lambda i: json_type(items[i + 1]) = 'ARRAY') AS tensors,
               regexp_extract_all(type, '{_TENSOR}', 1) AS types,
               from_json(shape, '{_LIST}') AS shapes,
               from_json(stride, '{_LIST}') AS strides
        FROM given
        WHERE NOT starts_with(type, 'Tensor(') AND contains(type, 'Tensor(')
          AND json_type(value) = 'ARRAY'),
    numbered AS (
        SELECT *, unnest(tensors) AS item, unnest(range(len(tensors))) AS place FROM lists),
    all_tensors AS (
        SELECT row, node_id, direction, position, NULL AS list_position, value,
               regexp_extract(type, '{_TENSOR}', 1) AS dtype, shape, stride
        FROM given WHERE starts_with(type, 'Tensor(')
        UNION ALL
        SELECT row, node_id, direction, position, item, items[item + 1], types[place + 1],
               shapes[item + 1], strides[item + 1]
        FROM numbered)
    SELECT row, node_id, direction, position::INTEGER AS position,
           list_position::INTEGER AS list_position,
           {tensor_id} AS tensor_id, nullif({storage_id}, 0) AS storage_id,
           {offset} AS offset_elements, {elements} AS elements, {size} AS element_bytes,
           nullif(value->>'$[5]', '') AS device, nullif(dtype, '') AS dtype,
           CASE WHEN json_type(shape) = 'ARRAY' THEN shape::VARCHAR END AS shape,
           CASE WHEN json_type(stride) = 'ARRAY' THEN stride::VARCHAR END AS strides,
           NOT coalesce(json_type(value) = 'ARRAY' AND json_array_length(value) >= 5
                        AND json_type(value, '$[0]') <> 'ARRAY', false) AS is_odd
    FROM all_tensors ORDER BY row, direction, position, all_tensors.list_position"""  # noqa: S608 - of constants


_NODES: Final = _nodes(str), _nodes(unmarked)
_TENSORS: Final = _tensors(str), _tensors(unmarked)
"""Without marks of numbers, and with them."""


def _columns(table: str, *others: str) -> frozenset[str]:
    """Columns that are in the text of a node, without those that are computed later."""
    return frozenset(schema.TABLES[table].names) - {"run", "rank", *others}


@dataclass(frozen=True, slots=True)
class ParsedNodes:
    """Some nodes and their tensors; ``unread`` are those of unknown form."""

    nodes: pa.Table
    tensors: pa.Table
    owners: Ints
    """Row of each tensor's node."""
    unread: int


class Parser:
    """Turns text into rows; calls may run in parallel."""

    COLUMNS: ClassVar[Mapping[str, frozenset[str]]] = {
        "nodes": _columns("nodes", "event_id", "linked_by", "group_ranks"),
        "tensors": _columns("tensors", "event_id", "is_read", "is_written"),
    }

    def wave(self, wave: Wave) -> Parsed[ParsedNodes]:
        """Rows of each run of valid pieces; None for a run that needs repair."""
        return parsed(wave, lambda pieces: self._rows(pieces, strict=True))

    def array(self, text: bytes) -> ParsedNodes | None:
        """Rows of one array of repaired nodes, or None if it does not parse."""
        return self._rows(pieces_of(text, [0, len(text)]), strict=False)

    def _rows(self, pieces: pa.LargeStringArray, *, strict: bool) -> ParsedNodes | None:
        try:
            pieces.validate(full=True)
            texts = marked(pieces)
            is_marked = texts is not pieces
            with lent() as session, session.registered("pieces", pa.table({"t": texts})):
                nodes = session.rows_of(_NODES[is_marked])
            if strict and nodes["is_blank"].to_numpy().any():  # it may be no object
                return None
            flags = nodes["is_no_object"].to_numpy()
            if flags.any():
                nodes = nodes.filter(pa.array(~flags))
            with lent() as session, session.registered("nodes", nodes):
                tensors = session.rows_of(_TENSORS[is_marked])
            if is_marked:
                nodes, tensors = map(unmarked_rows, (nodes, tensors))
        except duckdb.OutOfMemoryException:
            raise
        except (duckdb.Error, pa.ArrowInvalid, UnicodeDecodeError):
            return None
        odd = tensors["is_odd"].to_numpy()
        sound = tensors.filter(pa.array(~odd)) if odd.any() else tensors
        rows = nodes["row"].to_numpy()
        order = np.argsort(rows)
        owners = order[np.searchsorted(rows[order], sound["row"].to_numpy())]
        numbered = _typed("nodes", nodes, GROUP_COLUMNS)
        return ParsedNodes(numbered, _typed("tensors", sound), owners, int(odd.sum()))


def _typed(table: str, rows: pa.Table, extra: tuple[str, ...] = ()) -> pa.Table:
    """Rows in the types of the schema, and columns that only the reader needs."""
    fields = [f for f in schema.TABLES[table].arrow if f.name in Parser.COLUMNS[table]]
    columns = {field.name: _cast(rows[field.name].combine_chunks(), field.type) for field in fields}
    return pa.table(columns | {name: rows[name] for name in extra})


def _cast(values: pa.Array, type_: pa.DataType) -> pa.Array:
    values = values.storage if isinstance(values, pa.ExtensionArray) else values
    return (
        values.cast(pa.string()).dictionary_encode() if type_ == schema.NAME else values.cast(type_)
    )
