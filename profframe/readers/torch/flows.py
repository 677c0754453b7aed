"""Rows of the flows that Kineto draws between activities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from profframe.readers.build.row_tables import RowTable, conform
from profframe.readers.torch.getters import Flags
from profframe.schema import TEXT

FORWARD: Final = 1
"""Type of the flows from a forward to a backward op; others lead from a launch to device work."""


def flow_rows(columns: Mapping[str, pa.Array], is_forward: Flags, is_end: Flags) -> pa.Table:
    """Both ends of each flow, as the exporter writes them, with their ids, times and threads."""
    category = pa.array(["ac2g", "fwdbwd"], TEXT).take(pa.array(is_forward.astype(np.int8)))
    end = pa.array(is_end.astype(np.int8))
    shared = {
        "category": category,
        "name": category,
        "phase": pa.array(["s", "f"], TEXT).take(end),
        "binding_point": pa.array([None, "e"], TEXT).take(end),
    }
    return conform(RowTable.FLOWS, {**columns, **shared})
