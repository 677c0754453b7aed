"""Recomputation by activation checkpointing."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import is_kind, numbers, present, words
from profframe.facts.fact import Output, Tables, columns, fact, of_events
from profframe.facts.forward import backward_ops
from profframe.facts.scopes import backward_functions, evaluations
from profframe.intervals import Ints, Mask, nearest

_AGAIN: Final = re.compile(r"(.*[/\\])?torch[/\\]utils[/\\]checkpoint\.py\(\d+\): recompute_fn")
"""Frame of torch's checkpoint in which the forward function runs again."""
_BACKWARD_FRAME: Final = re.compile(
    r"(.*[/\\])?torch[/\\]autograd[/\\](__init__|graph)\.py\(\d+\): (backward|_engine_run_backward)"
)
_REENTRANT: Final = re.compile(r"\w*CheckpointFunctionBackward")
"""Backward function that runs forward once more, then backward inside of itself."""


@fact(
    inputs=columns(
        events="kind name scope sequence_nr fwd_thread parent_id preorder launch_id op_id replays"
    ),
    outputs=columns(events="is_recompute"),
)
def recompute(tables: Tables) -> Output:
    """Add ``is_recompute``.

    A slice is recomputed if it is inside torch's own frame for that; or inside the backward
    function of a reentrant checkpoint, but not in the backward that it starts; or, if no Python
    frames were recorded, if it is an op directly in a backward function and records for autograd
    while others there do not: backward functions normally run without autograd, and if not, all
    their ops record. Without frames, sequence numbers of ops, and evaluations of backward
    functions, nothing is known.
    """
    events = tables["events"]
    nests = present(events, "preorder")
    python = is_kind(events, ("python",)) & nests
    ops = is_kind(events, ("host_op",)) & nests
    evaluates = evaluations(events) & nests
    knows = python.any() or evaluates.any() or (ops & present(events, "sequence_nr")).any()
    if not knows:
        return of_events(is_recompute=pa.nulls(events.num_rows, pa.bool_()))
    parent = np.where(nests, numbers(events, "parent_id", missing=-1), -1)
    again = _within(parent, python & _matches(events, _AGAIN))
    again |= _within_reentrant(events, parent, ops, python, evaluates)
    if not python.any() and evaluates.any():
        again |= _within(parent, _recording(events, parent, ops, evaluates))
    launch, op = (numbers(events, name, missing=-1) for name in ("launch_id", "op_id"))
    launch = np.where(launch < 0, op, launch)
    if "replays" in events.column_names:
        launch = np.where(np.append(present(events, "replays"), False)[op], op, launch)
    of_device = is_kind(events, schema.ON_DEVICE_KINDS) & (launch >= 0)
    again = np.where(of_device, again[launch], again)
    return of_events(is_recompute=pa.array(again, mask=~(nests | of_device)))


def _matches(events: pa.Table, pattern: re.Pattern[str]) -> Mask:
    """Rows whose whole name matches."""
    codes, texts = words(events, "name")
    return np.array([*(bool(pattern.fullmatch(text)) for text in texts), False], np.bool_)[codes]


def _within(parent: Ints, roots: Mask) -> Mask:
    """Rows that are roots, or inside one."""
    if not roots.any():
        return roots
    inside: Mask = nearest(parent, roots) >= 0
    return inside


def _within_reentrant(
    events: pa.Table, parent: Ints, ops: Mask, python: Mask, evaluates: Mask
) -> Mask:
    """Rows inside a reentrant checkpoint's backward function, before and next to its backward."""
    outer = ops & _matches(events, _REENTRANT) & ~evaluates
    if not outer.any():
        return outer
    inner = evaluates | (python & _matches(events, _BACKWARD_FRAME))
    switch = nearest(parent, outer | inner)
    again: Mask = (switch >= 0) & outer[switch] & ~outer
    return again


def _recording(events: pa.Table, parent: Ints, ops: Mask, evaluates: Mask) -> Mask:
    """Ops that record for autograd directly in a backward function that does not itself record."""
    functions = ops & backward_functions(events)
    around = np.append(nearest(parent, ops), -1)[parent]
    direct = ops & (around >= 0) & functions[around] & ~functions & ~evaluates
    records = direct & present(events, "sequence_nr") & ~backward_ops(events)
    silent = np.zeros(parent.size, np.bool_)
    silent[around[direct & ~present(events, "sequence_nr")]] = True
    recording: Mask = records & silent[around]
    return recording
