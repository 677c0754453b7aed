"""The model of each device, and the model's peaks."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from profframe import schema
from profframe.facts.device_catalogue import DeviceModel, fitting
from profframe.facts.device_catalogue import models as builtin_models
from profframe.facts.fact import Output, Tables, columns, fact

_RATES: Final = tuple(f"{dtype}_flop_per_s" for dtype in schema.DTYPES)
_MODEL_COLUMNS: Final = ("model", *_RATES)
_SHARED_COLUMNS: Final = ("cache_bytes", "bandwidth_bytes_per_s")
"""Columns that the source may also fill."""
_OUTPUTS: Final = (*_MODEL_COLUMNS, *_SHARED_COLUMNS, "memory_bytes")
_TYPES: Final = MappingProxyType({name: schema.DEVICES.arrow.field(name).type for name in _OUTPUTS})

PEAKS: Final = ("bandwidth_bytes_per_s", *_RATES)
"""Columns with the peaks of a device."""


@fact(
    inputs=columns(
        devices="name memory_bytes multiprocessors compute_capability model"
        " cache_bytes bandwidth_bytes_per_s"
    ),
    outputs=columns(devices=" ".join(_OUTPUTS)),
    options=("models",),
)
def devices(tables: Tables, models: Mapping[str, DeviceModel] | None = None) -> Output:
    """Fill ``model`` and the peaks of ``devices``.

    A device has the first model that matches its name, memory, multiprocessors and compute
    capability (see `device_names`). Values that the model lacks stay as the source has them.

    Parameters
    ----------
    tables : Tables
        The tables of one trace.
    models : Mapping of str to DeviceModel, optional
        Models by their names, in the order in which they are tried; by default the built-in ones.
    """
    rows = _match(tables["devices"], builtin_models() if models is None else models)
    return Output(
        {
            f"devices.{name}": pa.array([row[name] for row in rows], type_)
            for name, type_ in _TYPES.items()
        }
    )


def match_models(devices: pa.Table, models: Mapping[str, DeviceModel]) -> pa.Table:
    """Match the devices of any number of traces again.

    Parameters
    ----------
    devices : pyarrow.Table
        The table `devices`.
    models : Mapping of str to DeviceModel
        Models by their names, in the order in which they are tried.

    Returns
    -------
    pyarrow.Table
        The same devices, with the values of these models.
    """
    return pa.Table.from_pylist(_match(devices, models), schema.DEVICES.arrow)


def _match(devices: pa.Table, models: Mapping[str, DeviceModel]) -> list[dict[str, Any]]:
    rows = [_without_model(row) for row in devices.to_pylist()]
    return [row | _model_values(row, models) for row in rows]


def _without_model(row: Mapping[str, Any]) -> dict[str, Any]:
    """A device without the values of a model."""
    names = _MODEL_COLUMNS if row.get("model") is None else (*_MODEL_COLUMNS, *_SHARED_COLUMNS)
    return {**row, **dict.fromkeys(names)}


def _model_values(row: Mapping[str, Any], models: Mapping[str, DeviceModel]) -> dict[str, Any]:
    """Values of a device's model; for memory, the size that the driver reports is used."""
    names = fitting(row, models)
    values = dict(models[names[0]].columns) if names else {}
    if row["memory_bytes"] is not None:
        values.pop("memory_bytes", None)
    return values
