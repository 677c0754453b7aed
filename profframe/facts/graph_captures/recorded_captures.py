"""Captured graphs: calls between the begin and the end of a capture, which ran nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import is_kind, numbers, present, words
from profframe.facts.column_views import once
from profframe.facts.fact import Tables
from profframe.intervals import Ints, Mask, nearest
from profframe.readers.demangle import demangled

BEGIN: Final = re.compile(r"(cuda|cu|hip)StreamBeginCapture\w*")
END: Final = re.compile(r"(cuda|cu|hip)StreamEndCapture\w*")
REPLAY: Final = re.compile(r".*GraphLaunch.*", re.IGNORECASE | re.DOTALL)
KERNEL: Final = re.compile(
    r"(cuda|cu|hip|ze|ur|mu)\w*(Launch\w*Kernel|KernelLaunch)\w*|hip(Ext)?LaunchByPtr\w*"
)
COPY: Final = re.compile(r"(cuda|cu|hip)Memcpy\w*")
FILL: Final = re.compile(r"(cuda|cu|hip)Memset\w*")


def is_call(events: pa.Table, *patterns: re.Pattern[str]) -> Mask:
    """Rows that are calls of the runtime or the driver whose whole name matches a pattern."""
    codes, texts = words(events, "name")
    matches = reduce(or_, [_matches(events, texts, pattern) for pattern in patterns])
    if not matches.any():
        return np.zeros(events.num_rows, np.bool_)
    return matches[codes] & is_kind(events, schema.LAUNCH_KINDS)


def _matches(events: pa.Table, texts: Sequence[str], pattern: re.Pattern[str]) -> Mask:
    """Which of the distinct names match, and at the end that NULL does not."""

    def matches(_: pa.ChunkedArray) -> Mask:
        return np.array([*(pattern.fullmatch(text) is not None for text in texts), False])

    return once(events, "name", pattern, matches)


def outermost(events: pa.Table, *patterns: re.Pattern[str]) -> Mask:
    """Rows that are calls with these names, but not within another one."""
    calls = is_call(events, *patterns) & present(events, "preorder")
    parent = numbers(events, "parent_id", missing=-1)
    if _have_children(parent, calls):
        # Nsight nests a call of the driver in one of the runtime: that is one launch, not two.
        calls &= np.append(nearest(parent, calls), -1)[parent] < 0
    return calls


def _have_children(parent: Ints, calls: Mask) -> bool:
    """Whether anything is directly inside one of the calls: of most sources nothing is."""
    is_parent = np.zeros(parent.size + 1, np.bool_)
    is_parent[parent] = True
    return bool((is_parent[:-1] & calls).any())


def without_work(events: pa.Table, launch: Ints, *patterns: re.Pattern[str]) -> Ints:
    """Calls with these names, by start, that launched no work; the outermost of nested ones.

    ``launch`` has the row of the call of each event, or -1.
    """
    calls = outermost(events, *patterns)
    if not calls.any():
        return np.empty(0, np.int64)
    ran = np.zeros(events.num_rows + 1, np.bool_)
    ran[launch[is_kind(events, schema.DEVICE_KINDS)]] = True
    parent = numbers(events, "parent_id", missing=-1)
    if _have_children(parent, calls):
        inner = np.flatnonzero(ran[:-1] & is_kind(events, schema.LAUNCH_KINDS))
        ran[np.append(nearest(parent, calls), -1)[inner]] = True
    rows = np.flatnonzero(calls & ~ran[:-1])
    order: Ints = np.argsort(numbers(events, "start_ns")[rows], kind="stable")
    return rows[order]


COPIES: Final = "(copy)"
FILLS: Final = "(fill)"
"""Names of what a copy and a fill do, whichever the call."""
_LABELS: Final = (
    re.compile(r"capture_(?P<size>\d{1,9})_\w+"),
    re.compile(
        r"(?:.*[^a-z])?(?:bs|batch_size|num_tokens)[ =_:]+(?P<size>\d{1,9})(?:\D.*)?", re.IGNORECASE
    ),
)
"""Annotations around captures that say for how many tokens or sequences they are: of vLLM, and
of others."""


@dataclass(frozen=True, slots=True)
class Capture:
    """One captured graph.

    Attributes
    ----------
    calls : Ints
        Rows of the calls that were captured, in their order.
    ops : Ints
        Row of the innermost host op around each, else annotation, else -1.
    names : Sequence of str or None
        Name of the kernel of each call without white space; `COPIES` and `FILLS`; None where the
        source does not say.
    outside : Ints
        Rows around the begin of the capture.
    size : int, optional
        Number of tokens or sequences that it is for.
    """

    calls: Ints
    ops: Ints
    names: Sequence[str | None]
    outside: Ints
    size: int | None

    @property
    def is_named(self) -> bool:
        """Whether the names of all kernels are known."""
        return None not in self.names


def has_captures(events: pa.Table) -> bool:
    """Whether the trace has the begin of a capture."""
    return bool(is_call(events, BEGIN).any())


def captures(tables: Tables, size: int | None = None) -> list[Capture]:
    """The captured graphs of a trace with the columns of ``launches``, by their begin.

    A graph has the calls for kernels, copies and fills between the begin and the end of its capture
    for which nothing ran: those on the capturing thread, and those of threads that capture nothing
    themselves, such as autograd's. In a trace without begins and ends all such calls are one graph.
    ``size`` is that of those whose annotations have none.
    """
    events = tables["events"]
    calls = without_work(events, numbers(events, "launch_id", missing=-1), KERNEL, COPY, FILL)
    if not calls.size:
        return []
    begins, ends = _regions(events)
    if not begins.size:
        # An end without its begin: nothing says which calls before it were captured.
        groups = [calls] if not is_call(events, END).any() else []
        begins = np.full(len(groups), -1, np.int64)
    else:
        groups = _grouped(events, calls, begins, ends)
    names = dict(zip(calls.tolist(), _names(events, calls), strict=True))
    ops = _ops(events, calls)
    parent = numbers(events, "parent_id", missing=-1)
    graphs = []
    for begin, rows in zip(begins.tolist(), groups, strict=True):
        if rows.size:
            outside = _around(parent, begin)
            labels = _around(parent, begin if begin >= 0 else int(rows[0]))
            tokens = [names[row] for row in rows.tolist()]
            own_size = _size(events, labels) or size
            graphs.append(Capture(rows, ops[rows], tokens, outside, own_size))
    return graphs


def _regions(events: pa.Table) -> tuple[Ints, Ints]:
    """Rows of the begins of captures, and the end of each: the next one on its thread."""
    start, thread = numbers(events, "start_ns"), numbers(events, "thread")
    timed = present(events, "start_ns", "dur_ns")
    begins = np.flatnonzero(is_call(events, BEGIN) & timed)
    ends = np.flatnonzero(is_call(events, END) & timed)
    marks = np.concatenate([begins, ends])
    is_begin = np.arange(marks.size) < begins.size
    order = np.lexsort((start[marks], thread[marks]))
    marks, is_begin = marks[order], is_begin[order]
    same = thread[marks[:-1]] == thread[marks[1:]]
    pairs = np.flatnonzero(is_begin[:-1] & ~is_begin[1:] & same)
    pairs = pairs[np.argsort(start[marks[pairs]], kind="stable")]
    return marks[pairs], marks[pairs + 1]


def _grouped(events: pa.Table, calls: Ints, begins: Ints, ends: Ints) -> list[Ints]:
    """The calls of each region; one that may belong to two belongs to none."""
    start, thread = numbers(events, "start_ns"), numbers(events, "thread")
    process, _ = words(events, "pid")
    at = start[calls]
    owner, count = np.full(calls.size, -1, np.int64), np.zeros(calls.size, np.int64)
    own = np.zeros(calls.size, np.bool_)
    for number, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        low, high = np.searchsorted(at, [start[begin], start[end]])
        rows = np.arange(low, high)
        rows = rows[process[calls[rows]] == process[begin]]
        mine = thread[calls[rows]] == thread[begin]
        owner[rows[mine]], own[rows[mine]] = number, True
        others = rows[~mine & ~own[rows]]
        owner[others] = number
        count[others] += 1
    # Two captures run at once on different threads: a call of autograd's thread may be of either.
    owner[~own & (count > 1)] = -1
    return [calls[owner == number] for number in range(begins.size)]


def _names(events: pa.Table, calls: Ints) -> list[str | None]:
    is_copy, is_fill = (is_call(events, pattern)[calls] for pattern in (COPY, FILL))
    args = pl.Series(events["args"].take(pa.array(calls)), dtype=pl.String)
    # ROCm writes the kernel among the arguments of the call; CUPTI has only cbid and correlation.
    kernels = args.str.extract(r'"kernel"\s*:\s*"((?:[^"\\]|\\.)*)"').to_list()
    plain = demangled(kernels)
    names = []
    for kernel, copies, fills in zip(kernels, is_copy.tolist(), is_fill.tolist(), strict=True):
        name = (
            None
            if not kernel
            else without_space(plain.get(kernel, kernel).replace('\\"', '"').replace("\\\\", "\\"))
        )
        names.append(COPIES if copies else FILLS if fills else name)
    return names


def without_space(name: str) -> str:
    """A kernel's name without white space, which differs between calls and kernels."""
    return "".join(name.split())


def _ops(events: pa.Table, calls: Ints) -> Ints:
    """For each row the innermost op around it, if it is one of the calls; else -1."""
    parent = numbers(events, "parent_id", missing=-1)
    ops = np.full(events.num_rows, -1, np.int64)
    # Ops come second and overwrite: an annotation stands in only where no op is around.
    for kind in ("annotation", "host_op"):
        around = nearest(parent, is_kind(events, (kind,)))[calls]
        ops[calls[around >= 0]] = around[around >= 0]
    return ops


def _around(parent: Ints, row: int) -> Ints:
    rows = []
    while row >= 0 and (row := int(parent[row])) >= 0:
        rows.append(row)
    return np.array(rows, np.int64)


def _size(events: pa.Table, around: Ints) -> int | None:
    """The size in the name of an annotation around it, the innermost first."""
    names = events["name"].take(pa.array(around)).to_pylist()
    kinds = is_kind(events, ("annotation", "host_op"))[around].tolist()
    for name, is_mark in zip(names, kinds, strict=True):
        size = size_in(name) if is_mark and name else None
        if size is not None:
            return size
    return None


def size_in(text: str) -> int | None:
    """The number of tokens or sequences in the name of a capture.

    Examples
    --------
    >>> size_in("capture_8192_PIECEWISE"), size_in("decode_capture_bs_32_rank0"), size_in("model")
    (8192, 32, None)
    """
    matches = (pattern.fullmatch(text) for pattern in _LABELS)
    return next((int(match["size"]) for match in matches if match), None)
