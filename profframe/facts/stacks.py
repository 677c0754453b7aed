"""The source frames that an op is shown with: of a backward op, those of its forward op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.facts.columns import (
    coded,
    encoded,
    is_kind,
    last_equal,
    numbers,
    present,
    source_order,
)
from profframe.facts.fact import Output, Tables, columns, fact, of_events
from profframe.facts.forward import forward_threads
from profframe.facts.scopes import backward_functions
from profframe.facts.torch_compat.torch_names import is_dropped
from profframe.intervals import Ints, nearest
from profframe.schema import HOST_KINDS

_LEFT_OUT: Final = (
    ("autograd/__init__", "_make_grads"),
    ("autograd/__init__", "backward"),
    ("torch/tensor", "backward"),
    ("_internal/common_utils", "prof_callable"),
    ("_internal/common_utils", "prof_func_call"),
    ("_internal/common_utils", "prof_meth_call"),
)
"""Frames that have both words of a pair torch shows to nobody."""
_NO_NUMBER: Final = -1


@fact(
    inputs=columns(
        events="stack kind name scope start_ns dur_ns thread ev_idx parent_id merged_into"
        " sequence_nr fwd_thread fwd_id",
        threads="thread tid",
    ),
    outputs=columns(events="stack"),
)
def stacks(tables: Tables) -> Output:
    """Make ``stack`` what torch's events have, out of what was recorded.

    Frames inside torch that say nothing are left out. Whatever is in a backward function has the
    stack of the first slice with the function's sequence number on its forward thread, or none.
    """
    return shown(tables, _numbered)


def _numbered(events: pa.Table, functions: Ints) -> Ints:
    """Those of the functions that have a sequence number."""
    return functions[numbers(events, "sequence_nr", missing=_NO_NUMBER)[functions] >= 0]


def shown(tables: Tables, with_forward: Callable[[pa.Table, Ints], Ints]) -> Output:
    """The stacks, where some of the backward functions have that of a forward slice."""
    events = tables["events"]
    if events["stack"].null_count == events.num_rows:
        return Output()
    codes, texts = coded(events, "stack")
    texts, number = _without_left_out(texts)
    codes = np.append(number, -1)[codes]
    function = _function_around(tables)
    inside = np.flatnonzero(function >= 0)
    if inside.size:
        functions = with_forward(events, np.unique(function[inside]))
        first = _first_stacks(tables, codes, function, functions)
        codes[inside] = first[function[inside]]
    return of_events(stack=encoded(codes, texts))


def _without_left_out(texts: pa.StringArray) -> tuple[pa.StringArray, Ints]:
    """Distinct stacks without the frames that are left out, and for each stack its new number."""
    hit = pc.equal(texts, "")
    for first, second in _LEFT_OUT:
        both = pc.and_(pc.match_substring(texts, first), pc.match_substring(texts, second))
        hit = pc.or_(hit, both)
    number = np.arange(len(texts))
    rows = np.flatnonzero(hit.to_numpy(zero_copy_only=False))
    if not rows.size:
        return texts, number
    kept = [_kept(text) for text in texts.take(pa.array(rows)).to_pylist()]
    new = sorted({*kept} - {""})
    texts = pa.concat_arrays([texts, pa.array(new, pa.string())])
    number[rows] = pc.fill_null(pc.index_in(pa.array(kept), value_set=texts), -1).to_numpy()
    number[rows[[text == "" for text in kept]]] = -1
    return texts, number


def _kept(stack: str) -> str:
    frames = stack.split(";")
    kept = [f for f in frames if not any(a in f and b in f for a, b in _LEFT_OUT)]
    return stack if len(kept) == len(frames) else ";".join(kept)


def _function_around(tables: Tables) -> Ints:
    """For each slice the backward function that it is or is in, or -1; as torch nests them."""
    events = tables["events"]
    is_function = backward_functions(events)
    if not is_function.any():
        return np.full(events.num_rows, -1, np.int64)
    merged = numbers(events, "merged_into", missing=-1)
    parent = numbers(events, "parent_id", missing=-1)
    return nearest(parent, is_function & ~is_dropped(events) & (merged < 0))


def _first_stacks(tables: Tables, codes: Ints, function: Ints, functions: Ints) -> Ints:
    """For each of the functions the stack of its forward slices, by row; -1 elsewhere."""
    events = tables["events"]
    sequence = numbers(events, "sequence_nr", missing=_NO_NUMBER)
    thread = numbers(events, "thread")
    forward = numbers(events, "fwd_id", missing=-1)
    known = np.flatnonzero(forward >= 0)
    by_number = forward_threads(tables, functions, forward[known], known)
    of_function = np.where(forward[functions] < 0, by_number, thread[forward[functions]])
    there = is_kind(events, HOST_KINDS) & present(events, "start_ns", "dur_ns") & (function < 0)
    there &= ~is_dropped(events) & (numbers(events, "merged_into", missing=-1) < 0)
    rows = np.flatnonzero(there & np.isin(sequence, sequence[functions]))
    start, dur = numbers(events, "start_ns"), numbers(events, "dur_ns")
    rows = rows[np.lexsort((source_order(events)[rows], -dur[rows], start[rows]))]
    distinct, number = np.unique(
        np.concatenate([sequence[rows], sequence[functions]]), return_inverse=True
    )
    key = thread[rows] * distinct.size + number[: rows.size]
    wanted = of_function * distinct.size + number[rows.size :]
    first = last_equal(key[::-1], rows[::-1], np.where(of_function < 0, -1, wanted))
    stack = np.full(events.num_rows, -1, np.int64)
    stack[functions] = np.append(codes, -1)[first]
    return stack
