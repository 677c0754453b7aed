"""Purpose of allocations: by when and where they were made, and when they were freed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import is_kind, is_text, numbers, present, words
from profframe.facts.scopes import backward_functions, evaluations
from profframe.facts.snapshots.frames import places_of_events, places_of_stacks
from profframe.intervals import Ints, Mask, nearest

CATEGORIES: Final = (
    "parameter", "gradient", "optimizer_state", "activation", "input", "temporary",
)  # fmt: skip
_CODE: Final = {name: code for code, name in enumerate(CATEGORIES)}
_STEP: Final = "Optimizer.step#"
_LAST: Final = np.iinfo(np.int64).max
_COPIES: Final = ("aten::to", "aten::_to_copy", "aten::copy_", "aten::pin_memory")


@dataclass(frozen=True, slots=True)
class PhaseSpans:
    """Times in which one thing was done, without overlap, by start."""

    start: Ints
    end: Ints

    def at(self, moment: Ints) -> Ints:
        """Number of the span around each moment, both ends included, or -1."""
        place = np.searchsorted(self.start, moment, side="right") - 1
        inside = (place >= 0) & (moment <= np.append(self.end, -1)[place])
        return np.where(inside, place, -1)

    def next_start(self, moment: Ints) -> Ints:
        """When the next one starts; the largest integer for never."""
        place = np.searchsorted(self.start, moment, side="left")
        return np.append(self.start, _LAST)[place]


@dataclass(frozen=True, slots=True)
class Training:
    """When a trace runs backward, when its optimizers step, and which ops are forward."""

    backward: PhaseSpans
    steps: PhaseSpans
    in_backward: Mask
    in_forward: Mask
    first_ns: int
    """When the first of these begins."""
    starts_ns: int
    """When the trace begins."""


def training(events: pa.Table) -> Training:
    """The phases of a trace."""
    parent = numbers(events, "parent_id", missing=-1)
    is_timed = present(events, "start_ns", "dur_ns")
    is_op = is_kind(events, ("host_op",)) & is_timed
    start = numbers(events, "start_ns")
    end = start + numbers(events, "dur_ns")
    name, texts = words(events, "name")
    is_mark = is_kind(events, ("annotation", "host_op")) & is_timed
    is_step = np.array([*(text.startswith(_STEP) for text in texts), False])[name] & is_mark
    goes_back = is_op & (backward_functions(events) | evaluations(events))
    in_backward = nearest(parent, goes_back) >= 0
    around = np.append(nearest(parent, is_op), -1)[parent]
    outermost = is_op & (around < 0)
    root = nearest(parent, outermost)
    has_gradient = np.zeros(events.num_rows + 1, np.bool_)
    forward = numbers(events, "fwd_id", missing=-1)
    has_gradient[root[forward[forward >= 0]]] = True
    has_gradient[-1] = False
    in_forward = has_gradient[root] & ~in_backward
    backward = _backward(events, outermost, goes_back, start, end)
    steps = _merged(start[is_step], end[is_step])
    firsts = [start[in_forward & is_timed], backward.start, steps.start]
    first = min((int(of.min()) for of in firsts if of.size), default=_LAST)
    since = int(start[is_timed].min()) if is_timed.any() else _LAST
    return Training(backward, steps, in_backward, in_forward, first, since)


def _merged(start: Ints, end: Ints) -> PhaseSpans:
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(end[order])
    is_first = np.append(True, start[1:] > reach[:-1])[: start.size]
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], start.size)[: first.size] - 1
    return PhaseSpans(start[first], reach[last])


def _backward(
    events: pa.Table, outermost: Mask, goes_back: Mask, start: Ints, end: Ints
) -> PhaseSpans:
    """From the first of several backward functions to the last of them before other ops begin.

    Ops on a loader's threads may begin at any time: only threads that run backward, or whose ops
    have backward functions, count.
    """
    thread = numbers(events, "thread", missing=-1)
    forward = numbers(events, "fwd_id", missing=-1)
    threads = np.unique(np.append(thread[goes_back], thread[forward[forward >= 0]]))
    rows = np.flatnonzero(outermost & np.isin(thread, threads))
    rows = rows[np.lexsort((~goes_back[rows], start[rows]))]
    back = goes_back[rows]
    if not back.any():
        none = np.empty(0, np.int64)
        return PhaseSpans(none, none)
    run = np.cumsum(np.append(True, back[1:] != back[:-1]))[back]
    first = np.flatnonzero(np.append(True, run[1:] != run[:-1]))
    backs = rows[back]
    return _merged(start[backs[first]], np.maximum.reduceat(end[backs], first))


def categories(events: pa.Table, stacks: pa.Table, allocations: pa.Table) -> Ints:
    """Code of the category of each allocation in `CATEGORIES`, or -1 if it is not known.

    Parameters
    ----------
    events
        A trace with its facts.
    stacks
        Frames of the snapshot.
    allocations
        With ``op_id``.
    """
    phases = training(events)
    op = numbers(allocations, "op_id", missing=-1)
    stack = numbers(allocations, "stack_id", missing=-1)
    has_time = present(allocations, "alloc_ns")
    made = np.where(has_time, numbers(allocations, "alloc_ns"), -1)
    requested = numbers(allocations, "free_requested_ns", missing=-1)
    freed = np.where(requested < 0, numbers(allocations, "free_ns", missing=_LAST), requested)
    size = numbers(allocations, "bytes", missing=-1)
    places = places_of_stacks(stacks).of(stack) | places_of_events(events).of(op)
    category = np.full(op.size, -1, np.int64)

    def put(name: str, mask: Mask) -> None:
        category[mask & (category < 0)] = _CODE[name]

    step = np.where(has_time, phases.steps.at(made), -1)
    in_step = places.optimizer | (step >= 0)
    step_end = np.append(phases.steps.end, -1)[step]
    is_over = (step >= 0) & (freed <= step_end)
    # Order matters: the first rule that holds decides, and those that need most evidence come
    # first.
    put("temporary", in_step & is_over)
    put("optimizer_state", in_step & ((step >= 0) | (freed == _LAST)))
    backward = np.where(has_time, phases.backward.at(made), -1)
    in_backward = np.append(phases.in_backward, False)[op] & (backward >= 0)
    ends = np.append(phases.backward.end, -1)[backward]
    put("temporary", in_backward & (freed <= ends))
    put("gradient", in_backward)
    # Parameters live to the end; what their makers allocate and free is scratch space.
    put("parameter", places.maker & (freed == _LAST))
    is_copy = _copies(events)
    comes_in = places.loader | np.append(is_copy, False)[op]
    put("input", comes_in & ~places.module & ~places.maker)
    is_seen = has_time & (made >= phases.starts_ns)
    in_forward = is_seen & (places.module | np.append(phases.in_forward, False)[op])
    # An activation is kept for backward; what is freed before it begins was temporary.
    turns = phases.backward.next_start(made)
    put("activation", in_forward & (turns < _LAST) & (freed >= turns))
    put("temporary", in_forward & (freed < turns))
    # Without stacks: what lived before training began, and is as large as some gradient there.
    is_pinned = is_text(allocations["device_type"], schema.PINNED)
    is_gradient, has_gradient = category == _CODE["gradient"], np.zeros(op.size, np.bool_)
    for of_kind in (is_pinned, ~is_pinned):
        has_gradient[of_kind] = np.isin(size[of_kind], size[of_kind & is_gradient])
    put(
        "parameter",
        is_seen & (made < phases.first_ns) & (freed == _LAST) & has_gradient & ~comes_in,
    )
    return category


def _copies(events: pa.Table) -> Mask:
    """Slices inside ops that copied from the host to a device."""
    is_op = is_kind(events, ("host_op",))
    name, texts = words(events, "name")
    copies = np.array([*(text in _COPIES for text in texts), False])[name] & is_op
    to_device = np.array([*("HtoD" in text for text in texts), False])[name]
    moved = numbers(events, "op_id", missing=-1)[to_device & is_kind(events, ("memcpy",))]
    parent = numbers(events, "parent_id", missing=-1)
    copier = nearest(parent, copies)
    # The outermost of nested ops: it also is the one that allocates.
    above = np.append(copier, -1)[parent]
    outermost = nearest(parent, copies & (above < 0))
    did = np.zeros(events.num_rows + 1, np.bool_)
    did[outermost[moved[moved >= 0]]] = True
    did[-1] = False
    return did[outermost]
