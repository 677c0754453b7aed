"""Ids of calls among the arguments of events: few questions need them."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from profframe.readers import parsing_database
from profframe.system.disk_tables import SpooledTable

_IDS: Final = """
    SELECT coalesce(TRY_CAST(json_extract_string(args, '$."Record function id"') AS BIGINT), -1)
           AS id
    FROM (SELECT CASE WHEN contains(args, '"Record function id"') THEN args END AS args FROM events)
"""


def record_function_ids(events: pa.Table) -> npt.NDArray[np.int64]:
    """``Record function id`` of each event; -1 where it has none."""
    args = events.select(["args"])
    parts = args.parts() if isinstance(args, SpooledTable) else (args,)
    ids = [np.empty(0, np.int64)]
    with parsing_database.connect() as connection:
        for part in parts:
            connection.register("events", part)
            ids.append(connection.sql(_IDS).to_arrow_table()["id"].to_numpy())
            connection.unregister("events")
    return np.concatenate(ids)
