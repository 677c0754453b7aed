"""The most memory that was allocated, in a line: on which device, and what the host did then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from profframe.show import units
from profframe.show.device_time import LONGEST_NAME

_MODULE: Final = "nn.Module: "


def memory_texts(peaks: pl.DataFrame) -> tuple[str, ...]:
    """The largest peak of any device, or of the host where no device has one; the longest first.

    Parameters
    ----------
    peaks
        Rows of `memory_peak`.
    """
    rows = peaks.drop_nulls("allocated_bytes") if peaks.height else peaks
    if not rows.height:
        return ()
    on_devices = rows.filter(pl.col("device").is_not_null())
    of_both = on_devices if on_devices.height else rows
    peak = of_both.sort("allocated_bytes", descending=True, maintain_order=True).row(0, named=True)
    amount = f"at most {units.size(peak['allocated_bytes'])} allocated"
    if not peak["has_totals"]:
        amount += " since the trace began"
    if reserved := peak["reserved_bytes"]:
        amount += f" ({units.size(reserved)} reserved)"
    text = f"{amount} on {_place(peak, peaks)}"
    op, module = peak["op_name"], peak["module_name"]
    if op is None:
        return (text,)
    at = f"{text}, at {_short(op)}"
    of_module = () if module is None else (f"{at} in {_short(module.removeprefix(_MODULE))}",)
    return (*of_module, at, text)


def _place(peak: Mapping[str, Any], peaks: pl.DataFrame) -> str:
    """The device, with its rank and run where there are several."""
    place = "the host" if peak["device"] is None else f"device {peak['device']}"
    if peaks.group_by("run").agg(pl.col("rank").n_unique())["rank"].max() != 1:
        place += f" of rank {peak['rank']}"
    if peaks["run"].n_unique() > 1:
        place += f" in {_short(peak['run'])}"
    return place


def _short(name: str) -> str:
    return units.middle(units.visible(name), LONGEST_NAME)
