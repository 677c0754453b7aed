"""How long the host waited for devices in all, in a line above the calls in which it did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from profframe.show import units

if TYPE_CHECKING:
    import polars as pl

_LARGE: Final = 0.1
_LITTLE: Final = 0.1


def headline(rows: pl.DataFrame, traces: pl.DataFrame) -> str:
    """The time of all waits, its share, and for how long devices were idle, for each run.

    Parameters
    ----------
    rows
        All rows of `host_waits`.
    traces
        ``run`` and ``rank`` of all traces: of several ranks the line has the mean, in which a rank
        without waits counts.

    Examples
    --------
    >>> import polars as pl
    >>> times = {"total_ns": [9_000], "device_idle_ns": [1_000], "idle_after_ns": [3_000]}
    >>> waits = pl.DataFrame({"run": ["a"], "rank": [0], "host_share": [0.3]} | times)
    >>> headline(waits, pl.DataFrame({"run": ["a", "a"], "rank": [0, 1]})).split("; ")[1]
    'devices were idle for 0.500 us of it, and for 1.500 us after it until the next work began'
    """
    lines = []
    for (run,), waits in rows.partition_by("run", as_dict=True, maintain_order=True).items():
        ranks = traces.filter(traces["run"] == run).height
        of = f" of {units.visible(str(run))}" if rows["run"].n_unique() > 1 else ""
        mean = f", mean of {units.plural(ranks, 'rank')}" if ranks > 1 else ""
        lines.append(f"The host{of} waited for devices{mean}: {_parts(waits, ranks)}")
    return "\n".join(lines)


def _parts(rows: pl.DataFrame, ranks: int) -> str:
    """Times and the share of the waits of a run, as means of so many ranks."""
    total, share, idle, after = (
        float(rows[name].sum()) / ranks
        for name in ("total_ns", "host_share", "device_idle_ns", "idle_after_ns")
    )
    text = (
        f"{units.duration(total)} in all, {units.share(share)} of the span of its waiting threads"
    )
    if not rows["device_idle_ns"].count():
        return text
    text += (
        f"; devices were idle for {units.duration(idle)} of it, and for {units.duration(after)} "
        "after it until the next work began"
    )
    if share >= _LARGE and idle + after < _LITTLE * total:
        text += "; waits while devices work cost little: advice judges the idle time alone"
    return text
