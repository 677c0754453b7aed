"""What each device can do at most: its model, by its name, and the peaks of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from profframe import schema
from profframe.facts.columns import Tables
from profframe.facts.models import Model, models


def devices(tables: Tables, known: Mapping[str, Model] | None = None) -> Tables:
    """Fill ``model`` and the peaks of ``devices``.

    A device is of the first model whose patterns its name matches, and whose memory, units and
    version it has. What the model does not say stays as the source has it.

    Parameters
    ----------
    tables : Tables
        The tables of one trace.
    known : Mapping of str to Model, optional
        Models by their names, in the order in which they are tried; those that come with profframe
        if there are none.
    """
    known = models() if known is None else known
    rows = [row | _of_model(row, known) for row in tables["devices"].to_pylist()]
    fields = [field for field in schema.DEVICES.arrow if field.name not in {"run", "rank"}]
    return {**tables, "devices": pa.Table.from_pylist(rows, pa.schema(fields))}


def _of_model(row: Mapping[str, Any], known: Mapping[str, Model]) -> dict[str, Any]:
    """What its model says of a device; of its memory, what the driver lets be used counts."""
    model = next((model for model in known.values() if model.matches(row)), None)
    said = {} if model is None else dict(model.columns)
    if row["memory_bytes"] is not None:
        said.pop("memory_bytes", None)
    return said
