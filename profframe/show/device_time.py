"""Devices and their time in words: how many of which model, what they spent it on, and why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import polars as pl

from profframe.show import units
from profframe.show.columns import KEYS
from profframe.show.compact_tables import with_copies_apart

_CAUSES: Final = MappingProxyType(
    {"host_wait": "waiting for the host", "sync": "waiting for another stream"}
)
"""Causes of idle time that are understood without an explanation."""
_QUEUED: Final = "mostly between a launch and its start: other work may be missing"
"""Work that was launched long before it ran, on a device that seems to do nothing."""
_HOST: Final = f"mostly {_CAUSES['host_wait']}"
_IDLE: Final = 0.1
"""Devices that are idle for no larger share of the time set the pace themselves."""
_MOST: Final = 0.5
"""What takes a larger share of the time limits the pace by itself."""
_COMPUTES: Final = 0.8
"""Devices that compute for a smaller share of the time are not what limits the pace alone."""
MOST_PARTS: Final = 6
"""Maximum names in a line."""
LEAST_SHARE: Final = 0.005
"""Smaller shares are left out of a line."""
_LITTLE: Final = 0.5
"""Where the time of the devices is a smaller share of the trace, that share is told."""
_ALL_BUT: Final = ", all but "
_LEAST_SHOWN: Final = 0.0005
"""Smaller shares are shown as 0.0 %."""
_FEW_CLASSES: Final = 3
"""A line with fewer shares has all of them at any width."""
LONGEST_NAME: Final = 40


@dataclass(frozen=True, slots=True)
class TimeParts:
    """Device time by class: sums over rows of `time_breakdown`.

    The rows are those of steps if all runs have any, else those of whole traces.
    """

    rows: int
    """Number of steps, or of traces if there are no steps."""
    has_steps: bool
    by_rank: tuple[int, ...]
    """Number of rows of each rank."""
    span_ns: int
    compute_ns: int
    exposed_communication_ns: int
    exposed_copy_ns: int
    unrecorded_ns: int
    idle_ns: int
    hidden_communication_ns: int

    @classmethod
    def of(cls, breakdown: pl.DataFrame) -> TimeParts | None:
        """The sums; None if no device did anything."""
        if breakdown.is_empty():
            return None
        is_step = pl.col("step").is_not_null() & pl.col("lack").is_null() & (pl.col("span_ns") > 0)
        steps = breakdown.filter(is_step)
        whole = breakdown.filter(pl.col("step").is_null(), pl.col("span_ns") > 0)
        is_apart = whole["run"].n_unique() > max(steps["run"].n_unique(), 1)
        has_steps = steps.height > 0 and not is_apart
        rows = steps if has_steps else whole
        sums = {name: int(rows[name].sum()) for name in cls.__slots__[3:]}
        by_rank = number_by_rank(rows)
        return cls(rows.height, has_steps, by_rank, **sums) if sums["span_ns"] else None

    def share(self, part_ns: int) -> float:
        """A part of the time, from 0 to 1."""
        return part_ns / self.span_ns

    @property
    def communicates(self) -> bool:
        """Whether there is communication, exposed or hidden."""
        return self.exposed_communication_ns + self.hidden_communication_ns > 0


def devices(
    overview: pl.DataFrame, traces: pl.DataFrame, used: pl.DataFrame, *, has_time: bool
) -> str:
    """How many devices did something, and their models.

    Parameters
    ----------
    overview, traces
        Rows of the answer and of the table.
    used
        ``run rank device model`` of the devices that did something.
    has_time
        Whether there is time of devices, of which number ever.

    Examples
    --------
    >>> keys = {"run": ["a"], "rank": [0]}
    >>> counts = pl.DataFrame(keys | {"devices": [1]})
    >>> types = pl.DataFrame(keys | {"device_type": ["CUDA"]})
    >>> used = pl.DataFrame(keys | {"device": [0], "model": ["NVIDIA H200"]})
    >>> devices(counts, types, used, has_time=True)
    '1 x NVIDIA H200'
    """
    types = sorted(traces["device_type"].drop_nulls().unique())
    kind = units.visible(" + ".join(types)) or "device"
    if overview["run"].n_unique() > 1 and overview["devices"].sum():
        return _devices_of_runs(used, kind)
    if not overview["devices"].sum():
        return f"{kind}, of an unknown number" if has_time else "no device work in this trace"
    return models(used["model"], kind)


def _devices_of_runs(used: pl.DataFrame, kind: str) -> str:
    """The devices of each trace: those of several runs may be the same ones."""
    sets = Counter(models(rows["model"].sort(), kind) for rows in used.partition_by(KEYS))
    most = sets.most_common(MOST_PARTS)
    parts = [
        f"{models} in {f'each of {count:,} traces' if count > 1 else '1 trace'}"
        for models, count in most
    ]
    rest = sets.total() - sum(count for _, count in most)
    return ", ".join([*parts, *([f"others in {units.plural(rest, 'trace')}"] if rest else [])])


def models(column: pl.Series, kind: str) -> str:
    """The number of devices of each model.

    Examples
    --------
    >>> models(pl.Series(["NVIDIA H200", "NVIDIA H200", None]), "CUDA")
    '2 x NVIDIA H200, 1 x CUDA (model not in the trace)'
    """
    counts = Counter(column.fill_null(""))
    parts = [
        f"{count:,} x {units.middle(units.visible(model), LONGEST_NAME)}"
        if model
        else f"{count:,} x {kind} (model not in the trace)"
        for model, count in counts.most_common(MOST_PARTS)
    ]
    rest = len(counts) - MOST_PARTS
    return ", ".join([*parts, *([f"and {rest} more models"] if rest > 0 else [])])


def number_by_rank(rows: pl.DataFrame) -> tuple[int, ...]:
    """How many rows each rank has."""
    return tuple(rows.group_by(KEYS, maintain_order=True).len()["len"])


def mean_step(step_ns: int, by_rank: Sequence[int]) -> str:
    """The mean of the steps of one run, and of how many, given the number on each rank.

    Examples
    --------
    >>> mean_step(48_000, [4, 4, 4, 4])
    '3.000 us per step, the mean of 16 = 4 ranks x 4 steps'
    >>> mean_step(24_000, [3, 5])
    '3.000 us per step, the mean of 8 on 2 ranks'
    """
    steps, ranks, each = sum(by_rank), len(by_rank), {*by_rank}
    mean = f"{units.duration(step_ns / steps)} per step"
    if steps == 1:
        return mean
    on_ranks = ""
    if ranks > 1:
        product = f" = {ranks:,} ranks x {units.plural(by_rank[0], 'step')}"
        on_ranks = product if len(each) == 1 else f" on {ranks:,} ranks"
    return f"{mean}, the mean of {steps:,}{on_ranks}"


def _on_devices(parts: TimeParts, overview: pl.DataFrame) -> str:
    """The time from the first to the last work of the devices, and how much of the traces it is."""
    several = f" of {units.plural(parts.rows, 'rank')}" if parts.rows > 1 else ""
    whole, share = _of_traces(parts, overview)
    plural = "s" if parts.rows > 1 else ""
    of = ""
    if share < _LITTLE:
        of = f", {units.share(share)} of the trace{plural}"
    elif 1 - share >= LEAST_SHARE:
        rest = units.duration(whole - parts.span_ns)
        of = f"{_ALL_BUT}{rest} of the trace{plural}"
    return f"{units.duration(parts.span_ns)} on the devices{several}{of}"


def _of_traces(parts: TimeParts, overview: pl.DataFrame) -> tuple[int, float]:
    """The time of the traces with device work, and what share of it the devices' time is."""
    whole = int(overview.filter(pl.col("devices") > 0)["span_ns"].sum())
    return whole, parts.span_ns / whole if whole else 1.0


def time_texts(
    parts: TimeParts, overview: pl.DataFrame, idle: pl.DataFrame | None = None
) -> tuple[str, ...]:
    """Device time by class, as shares of the steps or of the whole time; the longest text first.

    Rows of `idle` tell the cause of most of it, and with it what limits the pace.
    """
    if parts.has_steps:
        whole = mean_step(parts.span_ns, parts.by_rank)
    else:
        whole = _on_devices(parts, overview)
    classes = {
        "compute": parts.compute_ns,
        "exposed communication": parts.exposed_communication_ns,
        "exposed copies": parts.exposed_copy_ns,
        "not recorded": parts.unrecorded_ns,
        "idle": parts.idle_ns,
    }
    shown = {
        f"{name} {units.share(parts.share(ns))}": ns
        for name, ns in classes.items()
        if parts.share(ns) >= _LEAST_SHOWN
        or name in {"compute", "idle"}
        or (name == "exposed communication" and parts.communicates)
    }
    listed = ", ".join(shown)
    cause = "" if idle is None else _cause(idle)
    of_step = whole.partition(",")[0]
    least = min(shown, key=lambda text: shown[text])
    most = ", ".join(text for text in shown if text != least or len(shown) < _FEW_CLASSES)
    idle_of = together(overview)
    note = idle_of and f"; idle is when {idle_of}"
    bound = "" if idle is None else bound_of(parts, overview, cause)
    with_cause = f"{listed}{cause and f' ({cause})'}"
    shorter = whole.partition(" = ")[0].partition(_ALL_BUT)[0]
    texts = (
        f"{with_cause} of {whole}{note}",
        f"{with_cause} of {shorter}{note}",
        f"{listed} of {whole}{note}",
        f"{listed} of {whole}",
        f"{listed} of {of_step}",
        f"{most} of {of_step}",
        f"{most} of {'steps' if parts.has_steps else 'the time on devices'}",
    )
    return (*(f"{bound}: {text}" for text in texts), texts[-1]) if bound else texts


def together(overview: pl.DataFrame) -> str:
    """When a rank of several devices is idle; empty if each has one.

    Examples
    --------
    >>> together(pl.DataFrame({"devices": [2]})), together(pl.DataFrame({"devices": [1, 1]}))
    ('none of the 2 devices works', '')
    """
    most = overview["devices"].max()
    if not isinstance(most, int) or most < 2:
        return ""
    of = f"the {most:,}" if overview.height == 1 else "a rank's"
    return f"none of {of} devices works"


def _cause(idle: pl.DataFrame) -> str:
    """The cause of most of the idle time.

    Time after the call that launched the next work is not the host's, unless it had more before.
    """
    recorded = idle.filter(pl.col("cause") != "unrecorded")
    sums = recorded.group_by("cause").agg(pl.col("idle_ns", "launch_wait_ns").sum())
    if not sums.height:
        return ""
    cause, longest, late = sums.sort("idle_ns", "cause").row(-1)
    total = sums["idle_ns"].sum()
    if 2 * longest <= total or cause not in _CAUSES:
        return ""
    if cause == "host_wait" and 2 * late < longest:
        return _QUEUED if 2 * (longest - late) > total else ""
    return f"mostly {_CAUSES[cause]}"


def bound_of(parts: TimeParts, overview: pl.DataFrame, cause: str) -> str:
    """What limits the pace, in a word; empty where the trace does not show it.

    Devices that are hardly idle do, and compute for most of the time: what they wait for in
    communication may be another rank. Of several of a rank, one is enough to be busy, which
    says nothing of the others, and so does work that is only a part of the trace.

    Parameters
    ----------
    parts
        The time of the devices.
    overview
        Rows of the answer.
    cause
        The cause of most of their idle time, if it is known.

    Examples
    --------
    >>> sums = dict.fromkeys(TimeParts.__slots__, 0) | {"has_steps": True, "span_ns": 100}
    >>> one = pl.DataFrame({"devices": [1], "span_ns": [100]})
    >>> for idle, cause in ((4, ""), (30, _HOST), (70, _HOST), (70, "")):
    ...     parts = TimeParts(**sums | {"compute_ns": 100 - idle, "idle_ns": idle})
    ...     print(repr(bound_of(parts, one, cause)))
    'device-bound'
    'partly host-bound'
    'host-bound'
    ''
    """
    if parts.share(parts.unrecorded_ns) >= LEAST_SHARE or cause == _QUEUED:
        return ""
    idle = parts.share(parts.idle_ns)
    of_work = {
        "device-bound": parts.compute_ns,
        "communication-bound": parts.exposed_communication_ns,
        "copy-bound": parts.exposed_copy_ns,
    }
    word = max(of_work, key=lambda word: of_work[word])
    if idle > _IDLE and (word == "device-bound" or parts.share(of_work[word]) < _MOST):
        if cause != _HOST:
            return ""
        return "host-bound" if idle >= _MOST else "partly host-bound"
    if word == "device-bound" and parts.share(parts.compute_ns) < _COMPUTES:
        return ""
    is_part = not parts.has_steps and _of_traces(parts, overview)[1] < _LITTLE
    return "" if is_part or together(overview) else word


def shares(sums: pl.DataFrame, total: int, what: str = "") -> tuple[str, ...]:
    """Names with their share of a total, the largest first: many of them, or fewer."""
    parts = [
        f"{units.middle(units.visible(str(name)), LONGEST_NAME)} {units.share(ns / total)}"
        for name, ns in sums.head(MOST_PARTS).iter_rows()
        if ns >= LEAST_SHARE * total
    ]
    return tuple(listed(parts[:size], sums.height, what) for size in range(len(parts), 0, -1))


def listed(parts: Sequence[str], number: int, what: str = "") -> str:
    """The first ones, with the number of the others."""
    rest = number - len(parts)
    return f"{', '.join(parts)}{what}{f', {rest:,} more' if rest > 0 else ''}"


def kernel_texts(categories: pl.DataFrame) -> tuple[str, ...]:
    """Categories of what ran on the devices, with their shares of the time."""
    if categories.is_empty():
        return ()
    sums = (
        with_copies_apart(categories.drop_nulls("total_ns"))
        .group_by("category", maintain_order=True)
        .agg(pl.col("total_ns").sum())
        .sort("total_ns", descending=True, maintain_order=True)
    )
    total = int(sums["total_ns"].sum())
    return shares(sums, total) if total else ()
