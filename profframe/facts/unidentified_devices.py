"""Work on devices without a name, or with a name that fits several models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import is_kind, numbers, present
from profframe.facts.device_catalogue import DeviceModel, fitting
from profframe.facts.device_catalogue import models as builtin_models
from profframe.facts.fact import Note, Output, Tables, any_of, columns, fact, note
from profframe.intervals import Ints


@fact(
    inputs=columns(
        events="kind device",
        devices="device name memory_bytes multiprocessors compute_capability",
    ),
    outputs=columns(),
    options=("models",),
    needs=any_of(kinds=schema.DEVICE_KINDS),
)
def device_names(tables: Tables, models: Mapping[str, DeviceModel] | None = None) -> Output:
    """Count work that names no device (``unnamed_device``), and work on devices of several models.

    The trace does not tell these apart, so they have the peaks of the first (``several_models``).
    This needs the sizes from the source, so it runs before those of models are filled in.

    Parameters
    ----------
    tables : Tables
        The tables of one trace.
    models : Mapping of str to DeviceModel, optional
        Models by their names, in the order in which they are tried; by default the built-in ones.
    """
    events = tables["events"]
    work = np.flatnonzero(is_kind(events, schema.DEVICE_KINDS))
    if not work.size:
        return Output()
    unnamed = work[~present(events, "device")[work]]
    texts = _several(tables["devices"], builtin_models() if models is None else models)
    return Output(
        notes=(*note("unnamed_device", unnamed), *_several_models(events, work, texts)),
    )


def _several(devices: pa.Table, models: Mapping[str, DeviceModel]) -> dict[int, str]:
    """The model that devices are taken for and what else they may be, by device number."""
    texts = {}
    for row in devices.to_pylist():
        names = fitting(row, models)
        if len(names) > 1:
            others = " or ".join(names[1:])
            texts[row["device"]] = f"{row['name'] or ''!r} is taken for {names[0]}, may be {others}"
    return texts


def _several_models(events: pa.Table, work: Ints, texts: Mapping[int, str]) -> Iterator[Note]:
    """A note on work on these devices."""
    if texts:
        rows = work[np.isin(numbers(events, "device", missing=-1)[work], list(texts))]
        if rows.size:
            detail = "; ".join(dict.fromkeys(texts.values()))
            yield "several_models", rows.size, detail, int(rows[0])
