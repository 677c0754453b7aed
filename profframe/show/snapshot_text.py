"""Memory snapshots in words, from rows of their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from profframe import schema
from profframe.show import units
from profframe.show.hang_text import moment

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN: Final = (
    "run", "rank", "device_type", "device", "name", "peak_bytes", "peak_blocks", "peak_share",
    "end_bytes", "unfreed_bytes", "allocations",
)  # fmt: skip
NAMES: Final = MappingProxyType(
    {f"held_{what}": f"peak_{what}" for what in ("bytes", "blocks", "share")}
)
"""Names of columns in `memory_stacks`, of those that have another one in tables."""
UNTOLD: Final = frozenset({None, "unknown", "[0,0]"})
"""Names of groups of memory that say nothing: without one, or the default pool."""
PINNED_MEMORY: Final = "pinned host"
"""Rows of `profframe.diff_memory` of pinned memory of the host."""
_LEAST_BEFORE: Final = 0.01
"""Minimum part of a peak from before the first record that is called weights."""
_ROUNDED: Final = 1024
"""From here on a size is rounded."""
_NAMED: Final = pl.col("name").fill_null("(no name)")
_KEYS: Final = ("run", "rank", "device_type", "device")


def headline(
    failures: pl.DataFrame,
    stacks: pl.DataFrame,
    moments: pl.DataFrame,
    segments: pl.DataFrame,
    earlier: pl.DataFrame,
) -> list[str]:
    """What matters most, one sentence per line: what failed, else the peak; leaks, and free memory.

    Parameters
    ----------
    failures
        Rows of `out_of_memory`.
    stacks
        All rows of `memory_stacks` by frame, at the peak.
    moments
        Rows of `snapshot_timeline`.
    segments
        Rows of `fragmentation`.
    earlier
        Rows of `sql/file_summaries/earlier_memory.sql`.
    """
    several = [name for name in ("run", "rank") if stacks[name].n_unique() > 1]
    lines = []
    for row in failures.group_by(_KEYS, maintain_order=True).last().to_dicts():
        lines += [_where(row, several) + line for line in _failure(row)]
        number = failures.filter(_is_of({name: row[name] for name in _KEYS})).height
        if number > 1:
            lines.append(f"It is the last of {units.plural(number, 'time')} that memory ran out")
    for key, rows in stacks.group_by(_KEYS, maintain_order=True):
        place = dict(zip(_KEYS, key, strict=True))
        start = _where(place, several)
        own = _is_of(place)
        before = int(earlier.filter(own)["bytes"].sum())
        lines.append(start + _peak(rows, moments.filter(own), before))
        lines += [start + line for line in (_unfreed(rows), _free(segments.filter(own))) if line]
    return lines


def _is_of(place: Mapping[str, Any]) -> list[pl.Expr]:
    """Whether rows are of a device; pinned host memory has no number."""
    return [pl.col(name).eq_missing(pl.lit(value)) for name, value in place.items()]


def contents(row: Mapping[str, Any]) -> str:
    """What a snapshot contains, in numbers, and when it was made.

    Parameters
    ----------
    row
        A row of `sql/file_summaries/snapshots.sql`.
    """
    names = ("record", "allocation", "segment", "block", "device")
    parts = [units.plural(row[f"{name}s"], name) for name in names if row[f"{name}s"]]
    if row["first_ns"] is not None:
        span = units.duration(row["last_ns"] - row["first_ns"])
        parts.append(f"{span} until {_when(row['last_ns'])}")
    return ", ".join(parts) or "nothing"


def table(stacks: pl.DataFrame) -> pl.DataFrame:
    """Rows of `memory_stacks` by a name, with the columns that people look at first."""
    rows = stacks.filter((pl.col("peak_bytes") > 0) | (pl.col("end_bytes") > 0)).select(_SHOWN)
    constant = [name for name in _KEYS if rows[name].n_unique() < 2]
    named = rows.drop(constant).with_columns(_NAMED)
    return named.rename({name: shown for shown, name in NAMES.items()})


def changes(rows: pl.DataFrame) -> tuple[str, pl.DataFrame]:
    """The difference of two snapshots as a sentence, and the rows that changed.

    Parameters
    ----------
    rows
        As `profframe.diff_memory` returns them.
    """
    base, other = (units.visible(rows[side][0]) for side in ("base", "other"))
    pinned = rows.filter(pl.col("memory") == PINNED_MEMORY)
    texts = [_held(rows.filter(pl.col("memory") != PINNED_MEMORY))]
    texts += [f"of pinned host memory {_held(pinned)}"] if pinned.height else []
    text = f"{base} and {other} hold {'; '.join(texts)}"
    changed = rows.filter(pl.col("status") != "equal")
    return text, changed.select(
        *(["memory"] if pinned.height else []),
        _NAMED, "base_peak_bytes", "other_peak_bytes", "change_peak_bytes", "base_end_bytes",
        "other_end_bytes", "change_end_bytes", "status",
    )  # fmt: skip


def _held(rows: pl.DataFrame) -> str:
    """What two snapshots hold of one kind of memory."""
    parts = []
    for what in ("peak", "end"):
        before, after = (int(rows[f"{side}_{what}_bytes"].sum()) for side in ("base", "other"))
        change = f"{'+' if after >= before else '-'}{units.size(abs(after - before))}"
        parts.append(f"at the {what} {units.size(before)} and {units.size(after)} ({change})")
    return ", ".join(parts)


def _where(row: Mapping[str, Any], several: Sequence[str]) -> str:
    """The device, and the run and rank if there are several."""
    texts = {"run": f"run {row['run']!r}", "rank": f"rank {row['rank']}"}
    parts = [texts[name] for name in several]
    if row["device_type"] == schema.PINNED:
        parts.append("pinned host memory")
    parts += [] if row["device"] is None else [f"device {row['device']}"]
    return f"{', '.join(parts)}: " if parts else ""


def _failure(row: Mapping[str, Any]) -> Iterator[str]:
    when = "" if row["time_ns"] is None else f" at {_when(row['time_ns'])}"
    by = f" by {row['frame']}" if row["frame"] else ""
    free = row["device_free_bytes"]
    owner = "the host" if row["device_type"] == schema.PINNED else "the device"
    had = "" if free is None else f", and {owner} had {units.size(free)} free"
    yield f"memory ran out{when}: {units.size(row['requested_bytes'] or 0)} were requested{by}{had}"
    blocks = units.plural(row["held_blocks"], "block")
    most = ""
    if row["holder_bytes"]:
        frame = row["holder_frame"] or "an unknown stack"
        most = f", the most by one stack: {units.size(row['holder_bytes'])} of {frame}"
    yield f"{units.size(row['held_bytes'])} were allocated in {blocks}{most}"
    if row["fits_sum"] is None:
        return
    if not row["inactive_bytes"]:
        yield "nothing is free in segments"
        return
    free = f"{units.size(row['inactive_bytes'])} are free in segments"
    largest = f"the largest free block has {units.size(row['largest_free_bytes'] or 0)}"
    if row["fits_block"]:
        yield f"{free}; {largest}, enough for the request, but not its stream, pool or time"
    elif row["fits_sum"]:
        yield f"{free}, enough for the request, but in pieces (fragmentation): {largest}"
    else:
        yield f"{free}, not enough for the request; {largest}"


def _peak(rows: pl.DataFrame, moments: pl.DataFrame, before: int) -> str:
    first = rows.row(0, named=True)
    when = "" if first["peak_ns"] is None else f" at {_when(first['peak_ns'])}"
    held = int(rows["peak_bytes"].sum())
    blocks = units.plural(int(rows["peak_blocks"].sum()), "block")
    tops: Sequence[Any] = moments["reserved_bytes"].drop_nulls().to_list()
    # segments that were there before the first record are in no moment: then nobody knows
    reserved = (
        f", with at most {units.size(max(tops))} reserved" if tops and max(tops) >= held else ""
    )
    by = ""
    if first["peak_bytes"] and rows["name"].drop_nulls().len():
        part = units.share(first["peak_share"] or 0)
        by = f"; the most by {first['name'] or 'an unknown stack'} ({part})"
    of_it = f"; {units.size(before)} of it from before the first record" if before else ""
    of_it += " (usually weights)" if before and before >= _LEAST_BEFORE * held else ""
    exact = f" ({held:,} bytes)" if held >= _ROUNDED else ""
    return f"peak{when}: {units.size(held)}{exact} in {blocks}{reserved}{by}{of_it}"


def _unfreed(rows: pl.DataFrame) -> str:
    left = rows.filter(pl.col("unfreed_blocks") > 0).sort(
        "unfreed_bytes", descending=True, maintain_order=True
    )
    if not left.height:
        return ""
    blocks = units.plural(int(left["unfreed_blocks"].sum()), "block")
    first = left.row(0, named=True)
    most = ""
    if rows["name"].drop_nulls().len():
        name = first["name"] or "an unknown stack"
        most = f"; the most by {name} ({units.size(first['unfreed_bytes'])})"
    size = units.size(int(left["unfreed_bytes"].sum()))
    return f"allocated after the first record and never freed: {size} in {blocks}{most}"


def _free(segments: pl.DataFrame) -> str:
    if not segments.height:
        return ""
    free = int(segments["inactive_bytes"].sum())
    size = units.size(int(segments["bytes"].sum()))
    text = f"at the end {size} in {units.plural(segments.height, 'segment')}"
    if not free:
        return f"{text}, none of it free in blocks"
    blocks = units.plural(int(segments["free_blocks"].sum()), "block")
    largest = max(segments["largest_free_bytes"].drop_nulls().to_list(), default=0)
    return f"{text}, {units.size(free)} of it free in {blocks}, the largest {units.size(largest)}"


def _when(time_ns: int) -> str:
    """A time in words: a date, or a time without a known origin."""
    return moment(time_ns) if time_ns >= schema.UTC_NS else units.duration(time_ns)
