"""`explain`: the difference of a step between two sides as a sum of causes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from profframe.analysis.causes.explanation import Explanation, explanation
from profframe.errors import explain_unknown_arguments
from profframe.loaders.load import load
from profframe.show.frame import frame
from profframe.trace.jobs import parts_of
from profframe.trace.trace import Trace

_NO_CAUSE: Final = "a step takes equally long on both sides, and so does each of its parts"


@explain_unknown_arguments
def explain(base: Any, other: Any) -> Explanation:
    """Explain the difference of a step between two sides: each nanosecond of it has a cause.

    The steps of a side are aligned with each other and with those of the other side, call by call:
    by what a call is, what it contains and where it is, not by kernel names. Each nanosecond of a
    step belongs to one piece of device work, or to what the host did while no device was busy. The
    time of a call on both sides has one cause, so the causes add up exactly to the difference of
    the mean steps. Warm-up steps, as in `Trace.steps`, and those with launches whose work is not in
    the trace are left out; without any profiler step of known length the whole trace is one step.

    Parameters
    ----------
    base, other
        A `Trace`, or anything that `profframe.load` takes. Steps of all runs and ranks count alike.

    Returns
    -------
    Explanation
        ``base_ns`` and ``other_ns``, the mean length of a step, the number of steps,
        ``base_lost_calls`` and ``other_lost_calls``, how many launches in them have work that is
        not in the trace, and ``causes``, one row each, the largest change first:

        ``cause``
            ``kernel_swapped``, ``kernel_time`` (the same kernel takes more or less time),
            ``calls_added``, ``calls_removed``, ``shape_changed``, ``dtype_changed``, ``copies``,
            ``fusion_made``, ``fusion_lost``, ``graph_break``, ``recompile``,
            ``collective_transfer``, ``collective_wait`` (for another rank), ``launch_bound``
            (devices wait for ops and launches), ``data_loading``, ``synchronization``,
            ``host_code`` (devices wait for code between ops); ``unrecorded`` (work that is not in
            the trace may have run, or a side lacks work where a launch of its call lost some); and
            ``noise``: everything that differs no more than steps of one side differ from each
            other, as one row.
        ``base_op other_op base_kernel other_kernel``
            Calls and kernels of both sides; NULL if a side has none. For ``host_code``, the Python
            frame or annotation.
        ``base_ns other_ns change_ns``
            Mean per step; they add up to the steps and to their difference.
        ``share``
            Share of the whole difference; NULL if there is none.
        ``change_low_ns change_high_ns p_value significant``
            Confidence interval of the change (95 %), and whether it is more than noise (of the
            rows that are, 1 % are noise on average), by its steps or by its calls; calls that only
            one side has are a change of the program. NULL without repeated steps.
        ``base_calls other_calls base_call_ns other_call_ns``
            Pieces of work per step, and the mean time of one, hidden or not; NULL if there are
            none.
        ``base_flops_per_s other_flops_per_s``
            Rate of work with known FLOPs, over its own time.
        ``base_shapes other_shapes base_types other_types``
            Those of one of the calls, if they were recorded.
        ``reason``
            For ``kernel_time``, if the trace shows it: ``launch_configuration`` (grid, block,
            registers or shared memory differ), ``clock`` (the device clock differs by more than
            2 %), or ``concurrent_work`` (other work ran beside it for more, or less, of its time).
        ``base_clock_mhz other_clock_mhz``
            Mean device clock while the work ran, if the trace has samples of it.
        ``places``
            Number of places in the call tree.
        ``base_run base_rank base_event_ids other_run other_rank other_event_ids``
            Example events from one step.

        ``tree``, one row per place of the call tree, in which both sides are aligned:

        ``slot parent depth``
            Its number, that of the call around it (-1: none), and the number of calls around it. A
            root is the step itself, or what is outside steps. A call with different parents on the
            two sides is placed in one of them.
        ``side kind base_name other_name``
            ``both``, or the only side that has it; its kind of event, and its names. A root has no
            name.
        ``cause``
            The cause of most of its own change, as above, before noise is separated; NULL if it did
            not change.
        ``base_self_ns other_self_ns``
            Mean per step of its own time.
        ``base_ns other_ns change_ns``
            The same with everything inside it; roots add up to the steps.
        ``largest_change_ns``
            Size of the largest ``change_ns`` of it and everything inside it.
        ``base_calls other_calls``
            Calls per step.
        ``base_run base_rank base_event_id other_run other_rank other_event_id``
            Example event on each side.

    Raises
    ------
    SourceError
        A side cannot be read.
    AnswerError
        A side has no step: no op, call, annotation or device work takes time in it.

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
    return replace(made, causes=frame(made.causes, why=lambda: _NO_CAUSE), tree=frame(made.tree))
