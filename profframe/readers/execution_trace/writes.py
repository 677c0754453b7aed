"""The tensors that a node writes: new outputs, and those that its signature marks."""

from __future__ import annotations

import re
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

_MUTABLE: Final = re.compile(r"\([a-z0-9|> -]*!")
_OVERWRITES: Final = re.compile(
    r"aten::(_foreach_)?(copy|fill|zero|uniform|normal|random|bernoulli|exponential"
    r"|geometric|cauchy|log_normal)_[.(]"
)
"""Operators that do not read what they overwrite."""
_WRITES: Final = """
    WITH signed AS (
        SELECT t.*, n.op_schema, n.kernel_backend, n.collective, n.name AS node_name
        FROM tensors t LEFT JOIN (
            SELECT node_id, any_value(op_schema::VARCHAR) AS op_schema,
                   any_value(kernel_backend::VARCHAR) AS kernel_backend,
                   any_value(collective::VARCHAR) AS collective, any_value(name::VARCHAR) AS name
            FROM nodes GROUP BY node_id) n USING (node_id)),
    marked AS (
        SELECT s.*,
               CASE WHEN direction = 'out' THEN false
                    WHEN s.op_schema IS NOT NULL THEN w.position IS NOT NULL
                    ELSE ends_with(s.node_name, '_') AND s.position = 0 END AS is_changed,
               direction = 'in' AND NOT coalesce(w.is_out, false) AS is_read
        FROM signed s LEFT JOIN written w ON w.op_schema = s.op_schema AND w.position = s.position),
    storages AS (
        SELECT node_id, storage_id, bool_or(is_changed) AS is_changed
        FROM marked WHERE direction = 'in' GROUP BY ALL)
    SELECT m.number, m.is_read,
           CASE WHEN direction = 'in' THEN m.is_changed
                WHEN m.storage_id IS NULL THEN true
                WHEN s.storage_id IS NULL THEN true
                ELSE s.is_changed OR (op_schema IS NULL AND (
                    kernel_backend IS NOT NULL OR collective IS NOT NULL)) END AS is_written
    FROM marked m LEFT JOIN storages s
      ON s.node_id IS NOT DISTINCT FROM m.node_id AND s.storage_id = m.storage_id
    ORDER BY m.number"""


def written_arguments(signature: str) -> dict[int, bool]:
    """Positions of the arguments that an operator writes to, and whether it only writes them.

    Examples
    --------
    >>> written_arguments("aten::add_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)")
    {0: False}
    >>> written_arguments("aten::mm.out(Tensor self, Tensor m, *, Tensor(a!) out) -> Tensor(a!)")
    {2: True}
    >>> written_arguments("aten::copy_(Tensor(a!) self, Tensor src) -> Tensor(a!)")
    {0: True}
    """
    arguments = _arguments(signature)
    overwrites = _OVERWRITES.match(signature) is not None
    return {
        place: overwrites or text.rpartition(" ")[2].startswith("out")
        for place, text in enumerate(arguments)
        if _MUTABLE.search(text)
    }


def _arguments(signature: str) -> list[str]:
    """Texts of the arguments of a signature, without the star before keyword arguments."""
    _, _, text = signature.partition("(")
    arguments, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        if letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        if (letter == "," and depth == 0) or depth < 0:
            arguments.append(text[start:place].strip())
            start = place + 1
        if depth < 0:
            break
    return [argument for argument in arguments if argument not in {"", "*"}]


def with_writes(
    nodes: pa.Table, tensors: pa.Table, connection: duckdb.DuckDBPyConnection
) -> pa.Table:
    """Tensors with ``is_read`` and ``is_written``."""
    signatures = [text for text in nodes["op_schema"].unique().to_pylist() if text]
    pairs = [
        (text, place, is_out)
        for text in signatures
        for place, is_out in written_arguments(text).items()
    ]
    written = pa.table(
        {
            "op_schema": pa.array([text for text, _, _ in pairs], pa.string()),
            "position": pa.array([place for _, place, _ in pairs], pa.int32()),
            "is_out": pa.array([is_out for _, _, is_out in pairs], pa.bool_()),
        }
    )
    numbered = tensors.append_column("number", pa.array(np.arange(tensors.num_rows)))
    for name, rows in (("nodes", nodes), ("tensors", numbered), ("written", written)):
        connection.register(name, rows)
    values = connection.sql(_WRITES).to_arrow_table()
    for name in ("nodes", "tensors", "written"):
        connection.unregister(name)
    for name in ("is_read", "is_written"):
        tensors = tensors.append_column(name, values[name])
    return tensors
