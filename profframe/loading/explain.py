"""Why one side takes longer than the other: the difference of a step as a sum of causes."""

from __future__ import annotations

from typing import Any

from profframe.analysis.causes.explanation import Explanation, explanation
from profframe.errors import AnswerError, naming_arguments
from profframe.loading.load import load
from profframe.trace.jobs import parts_of
from profframe.trace.trace import Trace


@naming_arguments
def explain(base: Any, other: Any) -> Explanation:
    """Explain the difference of a step between two sides: each nanosecond of it has a cause.

    The steps of a side are aligned to each other and to those of the other side, call by call: by
    what a call is, what it contains and where it is, not by the names of kernels. Each nanosecond
    of a step belongs to one piece of work of a device, or to what the host did while none was
    busy. What the pieces of a call take on both sides has one cause, so the causes add up to the
    difference of the mean steps, exactly. Steps of the warm-up are left out, as `Trace.steps`
    has them; without profiler steps the whole trace is one.

    Parameters
    ----------
    base, other
        A `Trace`, or anything that `profframe.load` takes. Steps of all runs and ranks count alike.

    Returns
    -------
    Explanation
        ``base_ns`` and ``other_ns``, the mean length of a step, how many there are, and
        ``causes``, one row each, the largest change first:

        ``cause``
            ``kernel_swapped``, ``kernel_time`` (the same kernel takes more or less time),
            ``calls_added``, ``calls_removed``, ``shape_changed``, ``dtype_changed``, ``copies``,
            ``fusion_made``, ``fusion_lost``, ``graph_break``, ``recompile``,
            ``collective_transfer``, ``collective_wait`` (for another rank), ``launch_bound``
            (devices wait for ops and launches), ``data_loading``, ``synchronization``,
            ``host_code`` (devices wait for code between ops); and ``noise``: all
            that differs no more than steps do among themselves, as one row.
        ``base_op other_op base_kernel other_kernel``
            Calls and kernels of both sides; NULL where a side has none. Of ``host_code`` the
            Python frame or annotation.
        ``base_ns other_ns change_ns``
            Mean per step; they add up to the steps and to their difference.
        ``share``
            Part of the whole difference; NULL where there is none.
        ``change_low_ns change_high_ns p_value significant``
            Confidence interval of the change (95 %), and whether it is more than noise (of the
            rows that are, 1 % are noise on average); NULL without repeated steps.
        ``base_calls other_calls base_call_ns other_call_ns``
            Pieces of work per step, and the mean time of one, hidden or not; NULL for none.
        ``base_flops_per_s other_flops_per_s``
            Rate of the work whose operations are known, in its own time.
        ``base_shapes other_shapes base_types other_types``
            Of one of the calls, where they were recorded.
        ``reason``
            Of ``kernel_time``, where the trace shows it: ``launch_configuration`` (grid, block,
            registers or shared memory differ), ``clock`` (that of the device differs by more than
            2 %), or ``concurrent_work`` (more, or less, of its time other work ran beside it).
        ``base_clock_mhz other_clock_mhz``
            Mean clock of the device while the work ran, where the trace has samples of it.
        ``places``
            In how many places of the call tree.
        ``base_run base_rank base_event_ids other_run other_rank other_event_ids``
            Events of one step, to look at.

        ``tree``, one row per place of the call tree, in which both sides are aligned:

        ``slot parent depth``
            Its number, that of the call around it (-1: none), and how many are around it. A root
            is the step itself, or what is in none. What is in other calls on the two sides is in
            that of one of them.
        ``side kind base_name other_name``
            ``both``, or the only side that has it; its kind of event, and its names. A root has no
            name.
        ``cause``
            Of most of what it changed by itself, as above, before noise is told apart; NULL where
            that is nothing.
        ``base_self_ns other_self_ns``
            Mean per step of what belongs to it alone.
        ``base_ns other_ns change_ns``
            The same with all that is in it; roots add up to the steps.
        ``largest_change_ns``
            Size of the largest ``change_ns`` of it and of all that is in it.
        ``base_calls other_calls``
            Calls per step.
        ``base_run base_rank base_event_id other_run other_rank other_event_id``
            An event of it on each side.

    Raises
    ------
    SourceError
        A side cannot be read.
    AnswerError
        A side has no step: no op, call, annotation or work of a device takes time in it.

    Examples
    --------
    >>> why = explain("examples/fp32.json.gz", "examples/bf16.json.gz")
    >>> why.causes["change_ns"].sum() == why.other_ns - why.base_ns
    True
    >>> why.causes["cause"][0]
    'dtype_changed'
    >>> why.tree.filter(why.tree["parent"] < 0)["change_ns"].sum() == why.other_ns - why.base_ns
    True
    """
    traces = [source if isinstance(source, Trace) else load(source) for source in (base, other)]
    base_parts, other_parts = map(parts_of, traces)
    made = explanation(
        (base_parts.connection, other_parts.connection), (base_parts.keys, other_parts.keys)
    )
    for name, steps in (("base", made.base_steps), ("other", made.other_steps)):
        if not steps:
            raise AnswerError(
                f"{name}: nothing to explain, as no op, call, annotation or work of a device takes "
                "time in it"
            )
    return made
