"""What changed between two sides, each a trace or many: ops, kernels and annotations by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from profframe.analysis.differences import Side, compare
from profframe.errors import ParameterError, UnknownNameError
from profframe.loading.load import load
from profframe.show.frame import frame
from profframe.trace.trace import Trace

KERNEL_BY: Final = ("name", "short_name", "shapes")
PER: Final = ("run", "step")


def diff(
    base: Any,
    other: Any,
    names: Sequence[str] = ("base", "other"),
    *,
    kernel_by: str = "name",
    per: str = "run",
    copies: bool = False,
) -> pl.DataFrame:
    """Compare two sides: what took more or less time, what is new and what is gone.

    The time of an op is its self time on the host, that of a kernel its duration, that of an
    annotation its whole duration; so ops add up to the host's self time, kernels to all kernel
    time, and annotations to nothing. Ranks of a run are added up. Where a side holds several runs
    (or steps), its numbers are means per run (per step); where a row is absent it counts as 0.
    Where both do, each row is tested against the noise: of the rows that are ``significant``, 5 %
    are noise on average, and where there is nothing but noise, at most one comparison in twenty
    has any. `profframe.analysis.stats.noise` says how. One run alone says nothing of the noise.

    Parameters
    ----------
    base, other
        A `Trace`, or anything that `profframe.load` takes: a path, a glob, a list, a store.
    names
        What to call the sides; they are the columns ``base`` and ``other``.
    kernel_by
        What kernels are matched by: ``"name"``; ``"short_name"``, without return type, template
        arguments and parameters; or ``"shapes"``, the op that launched them and its input shapes.
    per
        What is counted, averaged and compared: ``"run"``, or ``"step"``, which leaves out all that
        is in no profiler step.
    copies
        Copies and fills of memory are kernels, too.

    Returns
    -------
    polars.DataFrame
        One row per ``what`` (op, kernel, annotation) and ``name``, in this order, the largest
        change first:

        ``base_calls other_calls``
            Executions, mean per sample.
        ``base_ns other_ns change_ns ratio``
            Time, mean per sample rounded half up; other less base; other / base, NULL where that
            is nothing. NULL where no time is known.
        ``contribution``
            ``change_ns`` over the sum of its kind; NULL where that is 0, and of annotations.
        ``status``
            ``added``, ``removed``, ``changed`` or ``equal``, by calls and time.
        ``change_low_ns change_high_ns``
            Confidence interval of the change (95 %); NULL, as the next three, without repetitions.
        ``p_value q_value significant``
            Of each row alone; the part of the rows up to this p-value that is noise; q at most 5 %.
        ``base_device_ns other_device_ns``
            Device time: launched by the op itself, of the kernel, or launched in the annotation.
        ``base_flops other_flops base_flops_per_s other_flops_per_s``
            Known floating-point work, in the row of the op that owns it and of the kernels that do
            it, and the rate in the time of its kernels (of the op where it launched none).
        ``base_bytes other_bytes base_bytes_per_s other_bytes_per_s``
            Bytes read and written, in the same way.
        ``base_samples other_samples base other``
            Runs or steps of the sides, and their names.

    Raises
    ------
    ParameterError
        A value cannot be used, or a side has no steps.
    SourceError
        A side cannot be read.

    Examples
    --------
    >>> rows = diff("examples/fp32.json.gz", "examples/bf16.json.gz", ("fp32", "bf16"))
    >>> ops = rows.filter(what="op")
    >>> ops["change_ns"].sum() == ops["other_ns"].sum() - ops["base_ns"].sum()
    True
    >>> rows["base", "other", "base_samples"].unique().rows()
    [('fp32', 'bf16', 1)]
    """
    _check(names, kernel_by, per)
    sides = [_side(source, kernel_by, per, copies) for source in (base, other)]
    for name, side in zip(names, sides, strict=True):
        if per == "step" and not side.samples.height:
            raise ParameterError(f"per='step': nothing of {name!r} is in a profiler step")
    side_names = (
        pl.lit(name).alias(side) for side, name in zip(("base", "other"), names, strict=True)
    )
    return frame(compare(*sides).with_columns(side_names))


def _check(names: Any, kernel_by: str, per: str) -> None:
    if (
        isinstance(names, str)
        or len(names) != 2
        or not all(isinstance(name, str) and name for name in names)
        or names[0] == names[1]
    ):
        raise ParameterError(f"names: two different texts, not {names!r}")
    for parameter, value, choices in (("kernel_by", kernel_by, KERNEL_BY), ("per", per, PER)):
        if value not in choices:
            raise UnknownNameError.among(parameter, value, choices)


def _side(source: Any, kernel_by: str, per: str, copies: bool) -> Side:
    """Samples of a side; its trace is released before the other side is loaded."""
    trace = source if isinstance(source, Trace) else load(source)
    rows = trace.samples(per=per, kernel_by=kernel_by, copies=copies)
    if per == "step":
        samples = rows.select("run", "step").unique()
    else:
        runs = pl.concat([trace.traces["run"], rows["run"]]).unique()
        samples = pl.DataFrame({"run": runs}).with_columns(step=pl.lit(None, pl.Int64))
    samples = samples.sort("run", "step").with_row_index("sample")
    rows = rows.join(samples, on=["run", "step"], nulls_equal=True)
    return Side(rows.drop("run", "rank", "step"), samples)
