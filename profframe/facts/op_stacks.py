"""The source frames of an op; those of a backward op are its forward op's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe.facts.arrays import (
    coded,
    encoded,
    is_kind,
    last_equal,
    numbers,
    present,
    source_order,
)
from profframe.facts.fact import Output, Tables, any_of, columns, fact, of_events
from profframe.facts.forward import forward_threads
from profframe.facts.scopes import backward_functions
from profframe.facts.torch_compat.overloads import is_dropped
from profframe.intervals import Ints, nearest
from profframe.schema import HOST_KINDS

_HIDDEN: Final = (
    ("autograd/__init__", "_make_grads"),
    ("autograd/__init__", "backward"),
    ("torch/tensor", "backward"),
    ("_internal/common_utils", "prof_callable"),
    ("_internal/common_utils", "prof_func_call"),
    ("_internal/common_utils", "prof_meth_call"),
)
"""Torch hides frames that contain both words of a pair."""
_NO_NUMBER: Final = -1


@fact(
    inputs=columns(
        events="stack kind name scope start_ns dur_ns thread ev_idx parent_id merged_into"
        " sequence_nr fwd_thread fwd_id",
        threads="thread tid",
    ),
    outputs=columns(events="stack"),
    needs=any_of(events="stack"),
)
def stacks(tables: Tables) -> Output:
    """Turn the recorded ``stack`` into that of torch's events.

    Some frames inside torch are left out. Slices in a backward function get the stack of the first
    slice with the function's sequence number on its forward thread, or none.
    """
    return stack_column(tables, _numbered)


def _numbered(events: pa.Table, functions: Ints) -> Ints:
    """The functions that have a sequence number."""
    return functions[numbers(events, "sequence_nr", missing=_NO_NUMBER)[functions] >= 0]


def stack_column(tables: Tables, with_forward: Callable[[pa.Table, Ints], Ints]) -> Output:
    """The column, where the functions from ``with_forward`` get the stack of a forward slice."""
    events = tables["events"]
    if events["stack"].null_count == events.num_rows:
        return Output()
    codes, texts = coded(events, "stack")
    texts, number = _without_hidden(texts)
    codes = np.append(number, -1)[codes]
    function = _function_around(tables)
    inside = np.flatnonzero(function >= 0)
    if inside.size:
        functions = with_forward(events, np.unique(function[inside]))
        first = _first_stacks(tables, codes, function, functions)
        codes[inside] = first[function[inside]]
    return of_events(stack=encoded(codes, texts))


def _without_hidden(texts: pa.StringArray) -> tuple[pa.StringArray, Ints]:
    """Distinct stacks without hidden frames, and for each old stack its new number."""
    has_hidden = pc.equal(texts, "")
    for first, second in _HIDDEN:
        both = pc.and_(pc.match_substring(texts, first), pc.match_substring(texts, second))
        has_hidden = pc.or_(has_hidden, both)
    number = np.arange(len(texts))
    rows = np.flatnonzero(has_hidden.to_numpy(zero_copy_only=False))
    if not rows.size:
        return texts, number
    shortened = [_visible(text) for text in texts.take(pa.array(rows)).to_pylist()]
    distinct = sorted({*shortened} - {""})
    texts = pa.concat_arrays([texts, pa.array(distinct, pa.string())])
    number[rows] = pc.fill_null(pc.index_in(pa.array(shortened), value_set=texts), -1).to_numpy()
    # A stack of hidden frames alone is none.
    number[rows[[text == "" for text in shortened]]] = -1
    return texts, number


def _visible(stack: str) -> str:
    frames = stack.split(";")
    visible = [f for f in frames if not any(a in f and b in f for a, b in _HIDDEN)]
    return stack if len(visible) == len(frames) else ";".join(visible)


def _function_around(tables: Tables) -> Ints:
    """For each slice the backward function that it is or is inside, as in torch, or -1."""
    events = tables["events"]
    is_function = backward_functions(events)
    if not is_function.any():
        return np.full(events.num_rows, -1, np.int64)
    merged = numbers(events, "merged_into", missing=-1)
    parent = numbers(events, "parent_id", missing=-1)
    return nearest(parent, is_function & ~is_dropped(events) & (merged < 0))


def _first_stacks(tables: Tables, codes: Ints, function: Ints, functions: Ints) -> Ints:
    """For each row of ``functions`` the stack of its first forward slice; -1 for other rows."""
    events = tables["events"]
    sequence = numbers(events, "sequence_nr", missing=_NO_NUMBER)
    thread = numbers(events, "thread")
    forward = numbers(events, "fwd_id", missing=-1)
    with_forward = np.flatnonzero(forward >= 0)
    by_number = forward_threads(tables, functions, forward[with_forward], with_forward)
    forward_thread = np.where(forward[functions] < 0, by_number, thread[forward[functions]])
    is_candidate = (
        is_kind(events, HOST_KINDS) & present(events, "start_ns", "dur_ns") & (function < 0)
    )
    is_candidate &= ~is_dropped(events) & (numbers(events, "merged_into", missing=-1) < 0)
    rows = np.flatnonzero(is_candidate & np.isin(sequence, sequence[functions]))
    start, dur = numbers(events, "start_ns"), numbers(events, "dur_ns")
    rows = rows[np.lexsort((source_order(events)[rows], -dur[rows], start[rows]))]
    distinct, number = np.unique(
        np.concatenate([sequence[rows], sequence[functions]]), return_inverse=True
    )
    key = thread[rows] * distinct.size + number[: rows.size]
    function_key = forward_thread * distinct.size + number[rows.size :]
    first = last_equal(key[::-1], rows[::-1], np.where(forward_thread < 0, -1, function_key))
    stack = np.full(events.num_rows, -1, np.int64)
    stack[functions] = np.append(codes, -1)[first]
    return stack
