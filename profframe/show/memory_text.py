"""The most memory that was allocated, in a line: on which device, and what the host did then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import polars as pl

from profframe.show import units
from profframe.show.device_time import LONGEST_NAME

_MODULE: Final = "nn.Module: "
_LEAST_BEFORE: Final = 0.01
"""Minimum part of the peak from before the trace that is worth words."""


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
    reserved = f" ({units.size(peak['reserved_bytes'])} reserved)" if peak["reserved_bytes"] else ""
    place = f" on {_place(peak, peaks)}"
    text = f"{amount}{reserved}{place}"
    texts = [*_where(text, peak), text]
    before = peak.get("before_trace_bytes") or 0
    if before < _LEAST_BEFORE * peak["allocated_bytes"] or not before:
        return (*texts,)
    of_it = f"; {units.size(before)} of it from before the trace"
    with_it = [f"{one}{of_it} (usually weights)" for one in texts]
    return (*with_it, f"{text}{of_it}", f"{amount}{place}{of_it}", *texts)


def _where(text: str, peak: Mapping[str, Any]) -> Iterator[str]:
    """The text with the op and the module, and with the op alone, as far as they are known."""
    op, module = peak["op_name"], peak["module_name"]
    if op is None:
        return
    at = f"{text}, at {_short(op)}"
    if module is not None:
        yield f"{at} in {_short(module.removeprefix(_MODULE))}"
    yield at


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
