"""Lines above tables that say what their rows come to: idle time, kernels, steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profframe.show import units

if TYPE_CHECKING:
    import polars as pl


def idle_total(idle: pl.DataFrame) -> str:
    """How long devices were idle in all, of rows of `idle` per device; empty if none is known.

    Time in which work that is not in the trace may have run is not idle.

    Examples
    --------
    >>> import polars as pl
    >>> keys = {"run": ["a"] * 2, "rank": [0] * 2, "device": [0] * 2}
    >>> times = {"idle_ns": [30_000, 10_000], "span_ns": [80_000] * 2, "gaps": [3, 1]}
    >>> idle_total(pl.DataFrame(keys | {"cause": ["host_wait", "sync"]} | times))
    'Idle in all: 40.000 us of 80.000 us from the first to the last work (50.0 %), in 4 gaps'
    """
    import polars as pl

    of_device = ["run", "rank", "device"]
    is_idle = pl.col("cause") != "unrecorded"
    sums = idle.group_by(of_device).agg(
        pl.col("idle_ns", "gaps").filter(is_idle).sum(), pl.col("span_ns").first()
    )
    if sums["span_ns"].null_count() or not sums["span_ns"].sum():
        return ""
    devices = sums.height
    idle_ns, span_ns, gaps = (float(sums[name].sum()) for name in ("idle_ns", "span_ns", "gaps"))
    of = f", mean of {devices:,} devices" if devices > 1 else ""
    return (
        f"Idle in all{of}: {units.duration(idle_ns / devices)} of "
        f"{units.duration(span_ns / devices)} from the first to the last work "
        f"({units.share(idle_ns / span_ns)}), in {units.plural(round(gaps / devices), 'gap')}"
    )


def kernel_total(launches: pl.DataFrame) -> str:
    """How many kernels there are in all, of rows of `launches`, and how many lack their launch.

    Examples
    --------
    >>> import polars as pl
    >>> names = ["cudaGraphLaunch", "cudaLaunchKernel", None]
    >>> kernel_total(pl.DataFrame({"name": names, "calls": [1, 9, None], "kernels": [300, 9, 2]}))
    '311 kernels in all; the launch of 2 of them is not in the trace'
    """
    import polars as pl

    every = int(launches["kernels"].sum())
    apart = launches.filter(pl.col("name").is_null(), pl.col("calls").fill_null(0) == 0)
    lost = int(apart["kernels"].sum())
    left = (
        f"the launch of {lost:,} of them is not in the trace"
        if lost
        else "the launch of each is in the trace"
    )
    return f"{units.plural(every, 'kernel')} in all; {left}" if every else ""


def step_means(steps: pl.DataFrame) -> str:
    """How long steps took on average, of rows of `step_times`, a line for each run.

    Steps that lack something count on the host alone.

    Examples
    --------
    >>> import polars as pl
    >>> keys = {"run": ["a"] * 2, "rank": [0] * 2, "lack": [None, "cut"]}
    >>> step_means(pl.DataFrame(keys | {"host_ns": [30_000, 10_000], "step_ns": [50_000, 10_000]}))
    'On average a step took 20.000 us on the host (2 steps), 50.000 us step time (1 step)'
    """
    import polars as pl

    lines = []
    for (run,), rows in steps.partition_by("run", as_dict=True, maintain_order=True).items():
        of = f" of {units.visible(str(run))}" if steps["run"].n_unique() > 1 else ""
        ranks = rows["rank"].n_unique()
        parts = [
            f"{units.duration(float(times.sum()) / len(times))} {what} "
            f"({units.plural(len(times), 'step')}{f' of {ranks:,} ranks' if ranks > 1 else ''})"
            for what, times in (
                ("on the host", rows["host_ns"].drop_nulls()),
                ("step time", rows.filter(pl.col("lack").is_null())["step_ns"].drop_nulls()),
            )
            if len(times)
        ]
        if parts:
            lines.append(f"On average a step{of} took {', '.join(parts)}")
    return "\n".join(lines)
