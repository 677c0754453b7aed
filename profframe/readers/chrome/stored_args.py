"""Values of arguments that no column of the schema has, from the stored arguments.

A reader gives them to facts beside its columns; `args` of a stored slice has them still.
"""

from __future__ import annotations

import json
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers import parsing_database
from profframe.readers.build.row_tables import RowTable
from profframe.readers.chrome.columns import ARGS, MEMBERS
from profframe.readers.chrome.device_args import WORK_ARGS, WORK_COLUMNS, WORK_TYPES
from profframe.schema import INT64

_ORDER: Final = MEMBERS[RowTable.EVENTS]["ev_idx"]
_TYPES: Final = {_ORDER: ARGS[_ORDER], **WORK_TYPES}
_MARKS: Final = f'"(?:{"|".join((_ORDER, *WORK_ARGS))})"'
_VALUES: Final = f"""
    SELECT row, unnest(from_json(args, '{json.dumps(_TYPES)}')) FROM stored_args
    WHERE json_valid(args)"""  # noqa: S608
_QUERY: Final = f"""
    SELECT row, try_cast(members."{_ORDER}" AS BIGINT) AS ev_idx, given_flops, given_bytes
    FROM ({_VALUES}) AS members
    JOIN ({WORK_COLUMNS.format(rows=f"({_VALUES})", **WORK_TYPES)}) AS work USING (row)
    ORDER BY row"""  # noqa: S608


def stored_values(args: pa.ChunkedArray) -> dict[str, pa.Array]:
    """Columns ``ev_idx given_flops given_bytes`` of slices, from their arguments.

    Parameters
    ----------
    args
        Arguments as JSON text.

    Returns
    -------
    dict of str to pyarrow.Array
        The profiler's own number of each slice, and its work as the source counted it; NULL where
        the arguments do not say.

    Examples
    --------
    >>> values = stored_values(pa.chunked_array([['{"Ev Idx": 7}', None, '{"kernel_flop": 12.0}']]))
    >>> {name: column.to_pylist() for name, column in values.items()}
    {'ev_idx': [7, None, None], 'given_flops': [None, None, 12], 'given_bytes': [None, None, None]}
    """
    texts = args.cast(pa.string())
    may_have = pc.fill_null(pc.match_substring_regex(texts, _MARKS), fill_value=False)
    rows = pc.indices_nonzero(may_have)
    names = ("ev_idx", "given_flops", "given_bytes")
    if not len(rows):
        return {name: pa.nulls(len(texts), INT64) for name in names}
    given = pa.table({"row": rows.cast(INT64), "args": texts.take(rows)})
    with parsing_database.connect() as cursor:
        cursor.register("stored_args", given)
        read = cursor.sql(_QUERY).to_arrow_table()
    place = np.full(len(texts), -1, np.int64)
    place[read["row"].to_numpy()] = np.arange(read.num_rows)
    places = pa.array(place, mask=place < 0)
    return {name: read[name].cast(INT64).combine_chunks().take(places) for name in names}
