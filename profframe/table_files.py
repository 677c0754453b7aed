"""One table of a trace as one Parquet file."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from profframe import schema

VERSION_KEY: Final = b"profframe.schema_version"
"""Key of the schema version in the metadata of every Parquet file."""
ROW_GROUP: Final = 131_072
"""Rows per row group, about: enough to compress, and few enough to skip and to read in parallel."""
_FEW_TEXTS: Final = 1000
"""So few distinct texts are written with each row group, whether it has them or not."""


def write_file(file: Path, name: str, parts: Iterable[pa.Table]) -> None:
    """Write the rows of a table; only one of its parts needs to be in memory at a time.

    Parameters
    ----------
    file
        Where.
    name
        Which table of the schema.
    parts
        Its rows in the schema's columns and types, in their order.
    """
    table = schema.TABLES[name]
    with pq.ParquetWriter(
        file,
        table.arrow,
        compression="zstd",
        use_dictionary=[c.name for c in table if c.type != schema.TEXT],
        store_schema=False,
    ) as writer:
        writer.add_key_value_metadata({VERSION_KEY: str(schema.SCHEMA_VERSION)})
        for part in parts:
            groups = max(1, round(part.num_rows / ROW_GROUP))
            size = max(1, -(-part.num_rows // groups))
            for start in range(0, part.num_rows, size):
                writer.write_table(_with_own_texts(part.slice(start, size)), size)


def _with_own_texts(rows: pa.Table) -> pa.Table:
    """The same rows with none but their own distinct texts: a row group holds what is given."""
    for place, field in enumerate(rows.schema):
        if not pa.types.is_dictionary(field.type):
            continue
        values = rows.column(place).unify_dictionaries()
        texts = values.chunk(0).dictionary
        if len(texts) <= _FEW_TEXTS:
            continue
        codes = pa.chunked_array([chunk.indices for chunk in values.chunks]).combine_chunks()
        used = np.bincount(codes.drop_null().to_numpy(), minlength=len(texts)) > 0
        number = pa.array(np.cumsum(used) - 1, codes.type)
        own = pa.DictionaryArray.from_arrays(number.take(codes), texts.filter(pa.array(used)))
        rows = rows.set_column(place, field, own)
    return rows
