"""What each device can do at most: its model, by its name, and the peaks of that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from profframe import schema
from profframe.facts.fact import Output, Tables, columns, fact
from profframe.facts.models import Model
from profframe.facts.models import models as known_models

_RATES: Final = tuple(f"{dtype}_flop_per_s" for dtype in schema.DTYPES)
_OF_MODEL: Final = ("model", *_RATES)
_OF_EITHER: Final = ("cache_bytes", "bandwidth_bytes_per_s")
"""Columns that the source may fill, too."""
_OUTPUTS: Final = (*_OF_MODEL, *_OF_EITHER, "memory_bytes")

PEAKS: Final = ("bandwidth_bytes_per_s", *_RATES)
"""Columns of what a device can do at most."""


@fact(
    inputs=columns(
        devices="name memory_bytes multiprocessors compute_capability model"
        " cache_bytes bandwidth_bytes_per_s"
    ),
    outputs=columns(devices=" ".join(_OUTPUTS)),
    options=("models",),
)
def devices(tables: Tables, models: Mapping[str, Model] | None = None) -> Output:
    """Fill ``model`` and the peaks of ``devices``.

    A device is of the first model whose patterns its name matches, and whose memory, units and
    version it has. What the model does not say stays as the source has it.

    Parameters
    ----------
    tables : Tables
        The tables of one trace.
    models : Mapping of str to Model, optional
        Models by their names, in the order in which they are tried; those that come with profframe
        if there are none.
    """
    rows = _matched(tables["devices"], known_models() if models is None else models)
    types = {name: schema.DEVICES.arrow.field(name).type for name in _OUTPUTS}
    return Output(
        {
            f"devices.{name}": pa.array([row[name] for row in rows], type_)
            for name, type_ in types.items()
        }
    )


def matched(devices: pa.Table, known: Mapping[str, Model]) -> pa.Table:
    """Match the devices of any number of traces anew.

    Parameters
    ----------
    devices : pyarrow.Table
        The table `devices`.
    known : Mapping of str to Model
        Models by their names, in the order in which they are tried.

    Returns
    -------
    pyarrow.Table
        The same devices, with what these models say.
    """
    return pa.Table.from_pylist(_matched(devices, known), schema.DEVICES.arrow)


def _matched(devices: pa.Table, known: Mapping[str, Model]) -> list[dict[str, Any]]:
    rows = [_as_read(row) for row in devices.to_pylist()]
    return [row | _of_model(row, known) for row in rows]


def _as_read(row: Mapping[str, Any]) -> dict[str, Any]:
    """A device without what a model has said of it."""
    names = _OF_MODEL if row.get("model") is None else (*_OF_MODEL, *_OF_EITHER)
    return {**row, **dict.fromkeys(names)}


def _of_model(row: Mapping[str, Any], known: Mapping[str, Model]) -> dict[str, Any]:
    """What its model says of a device; of its memory, what the driver lets be used counts."""
    model = next((model for model in known.values() if model.matches(row)), None)
    said = {} if model is None else dict(model.columns)
    if row["memory_bytes"] is not None:
        said.pop("memory_bytes", None)
    return said
