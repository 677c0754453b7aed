"""Torch's RecordScope of each slice, if the source lacks it."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from profframe.facts.arrays import column, is_kind, numbers, present, words
from profframe.facts.fact import Output, Tables, any_of, columns, fact, of_events
from profframe.intervals import Ints, Mask

FUNCTION: Final = 0
BACKWARD_FUNCTION: Final = 1
USER_SCOPE: Final = 7

_EVALUATION: Final = "autograd::engine::evaluate_function: "
"""Prefix of the function's name in the engine's own slice around a backward function."""


@fact(
    inputs=columns(events="scope kind name thread preorder"),
    outputs=columns(events="scope"),
    needs=any_of(kinds=("host_op", "annotation"), events="scope"),
)
def scopes(tables: Tables) -> Output:
    """Fill ``scope`` of host ops and annotations where it is missing.

    A backward function is the op right after the engine's evaluation of that function, on its
    thread. Trace files do not tell other scopes (TorchScript, kernel function, ...) from 0.
    """
    events = tables["events"]
    recorded = events["scope"]
    if not recorded.null_count:
        return Output()
    is_op = is_kind(events, ("host_op",))
    scope = np.full(events.num_rows, -1, np.int64)
    scope[is_op] = FUNCTION
    scope[is_kind(events, ("annotation",))] = USER_SCOPE
    scope[_backward_functions(tables, np.flatnonzero(is_op))] = BACKWARD_FUNCTION
    valid = present(events, "scope")
    scope[valid] = numbers(events, "scope")[valid]
    return of_events(scope=column("scope", scope, scope >= 0))


def _backward_functions(tables: Tables, ops: Ints) -> Ints:
    """The ops that the engine evaluates."""
    events = tables["events"]
    names, texts = words(events, "name")
    code_of = {text: code for code, text in enumerate(texts)}
    evaluates = [
        code_of.get(text.removeprefix(_EVALUATION), -1) if text.startswith(_EVALUATION) else -1
        for text in texts
    ]
    if not any(code >= 0 for code in evaluates):
        return np.empty(0, np.int64)
    ops = _in_preorder(events, ops)
    function = np.array([*evaluates, -1], np.int64)[names[ops]]
    thread = numbers(events, "thread")[ops]
    # The engine's slice contains the function's, which is the next in preorder.
    follows = (function[:-1] == names[ops[1:]]) & (function[:-1] >= 0)
    functions: Ints = ops[1:][follows & (thread[:-1] == thread[1:])]
    return functions


def _in_preorder(events: pa.Table, rows: Ints) -> Ints:
    """The rows that nest, by thread and time."""
    preorder = numbers(events, "preorder", missing=-1)[rows]
    at = np.full(events.num_rows, -1, np.int64)
    at[preorder[preorder >= 0]] = rows[preorder >= 0]
    return at[at >= 0]


def backward_functions(events: pa.Table) -> Mask:
    """Slices that are backward functions."""
    functions: Mask = numbers(events, "scope", missing=FUNCTION) == BACKWARD_FUNCTION
    return functions


def evaluations(events: pa.Table) -> Mask:
    """The engine's own slices around backward functions."""
    names, texts = words(events, "name")
    return np.array([*(text.startswith(_EVALUATION) for text in texts), False])[names]
