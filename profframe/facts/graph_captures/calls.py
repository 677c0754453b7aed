"""Calls that launch work, and those that capture and replay graphs, by their names."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.columns import is_kind, numbers, present, words
from profframe.intervals import Ints, Mask, nearest

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
    matches = [any(pattern.fullmatch(text) for pattern in patterns) for text in texts]
    if not any(matches):
        return np.zeros(events.num_rows, np.bool_)
    return np.array([*matches, False], np.bool_)[codes] & is_kind(events, schema.LAUNCH_KINDS)


def outermost(events: pa.Table, *patterns: re.Pattern[str]) -> Mask:
    """Rows that are calls with these names, but not within another one."""
    calls = is_call(events, *patterns) & present(events, "preorder")
    if calls.any():
        parent = numbers(events, "parent_id", missing=-1)
        # Nsight nests a call of the driver in one of the runtime: that is one launch, not two.
        calls &= np.append(nearest(parent, calls), -1)[parent] < 0
    return calls


def without_work(events: pa.Table, launch: Ints, *patterns: re.Pattern[str]) -> Ints:
    """Calls with these names, by start, that launched no work; the outermost of nested ones.

    ``launch`` has the row of the call of each event, or -1.
    """
    calls = outermost(events, *patterns)
    if not calls.any():
        return np.empty(0, np.int64)
    ran = np.zeros(events.num_rows + 1, np.bool_)
    ran[launch[is_kind(events, schema.DEVICE_KINDS)]] = True
    inner = np.flatnonzero(ran[:-1] & is_kind(events, schema.LAUNCH_KINDS))
    ran[np.append(nearest(numbers(events, "parent_id", missing=-1), calls), -1)[inner]] = True
    rows = np.flatnonzero(calls & ~ran[:-1])
    order: Ints = np.argsort(numbers(events, "start_ns")[rows], kind="stable")
    return rows[order]
