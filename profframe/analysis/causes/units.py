"""Kind, name and enclosing call of each piece of a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from profframe.analysis.causes.delays import Delays
from profframe.analysis.causes.pieces import (
    BUSY,
    HOST,
    LAUNCH,
    NOTHING,
    UNRECORDED,
    WAIT,
    Pieces,
)
from profframe.analysis.causes.rows import (
    COMPILE,
    FRAME,
    LOAD,
    OP,
    RESUME,
    SYNC,
    Slices,
)
from profframe.analysis.causes.trees import Trees
from profframe.intervals import Ints, nearest

KINDS: Final = (
    "work",
    "wait",
    "launch",
    "op",
    "code",
    "synchronization",
    "data_loading",
    "recompile",
    "graph_break",
    "nothing",
    "unrecorded",
)
"""What happens in a piece; a collective waits for another rank, code is everything but ops."""
_WORK, _WAIT, _LAUNCH, _OP, _CODE, _SYNC, _LOAD, _COMPILE, _RESUME, _NOTHING, _UNRECORDED = range(
    len(KINDS)
)
LATE: Final = [KINDS.index(kind) for kind in ("launch", "op", "code", "nothing")]
"""Kinds of pieces in which a device may wait because the host was late before."""
_OF_PIECE: Final = {
    BUSY: _WORK,
    WAIT: _WAIT,
    LAUNCH: _LAUNCH,
    HOST: _CODE,  # or what `_kinds` says
    NOTHING: _NOTHING,
    UNRECORDED: _UNRECORDED,
}
_OF_SORT: Final = {SYNC: _SYNC, LOAD: _LOAD, COMPILE: _COMPILE, RESUME: _RESUME}
_DELAY_KINDS: Final = np.array([_OF_SORT.get(sort, _OP) for sort in range(max(_OF_SORT) + 1)])


@dataclass(frozen=True, slots=True)
class Units:
    """Window, node and kind of each piece, in the order of pieces.

    Attributes
    ----------
    window, node, kind : Ints
        Number of the window, node of the trees, and index of ``KINDS``.
    line : Ints
        For code the row of the innermost Python frame, for loading and compiling that of the
        outermost slice that does so, else -1.
    delay, delay_kind : Ints
        While devices are idle, the earlier call that may have made the host late: its node, and the
        kind of its purpose; else -1.
    ns : Ints
        Its time.
    """

    window: Ints
    node: Ints
    kind: Ints
    line: Ints
    delay: Ints
    delay_kind: Ints
    ns: Ints


def units(of: Slices, made: Pieces, tree: Trees, steps: Ints, late: Delays) -> Units:
    """Find the unit of each piece of a rank in windows of some steps."""
    own = np.flatnonzero(tree.part == late.part)
    node_of = tree.node_of(late.part, of.event_id.size)
    row = made.row
    slice_of = np.where(made.what == HOST, np.append(of.call, -1)[row], row)
    node = node_of[slice_of]
    roots = own[tree.row[own] < 0]
    root_of = dict(zip(tree.step[tree.tree[roots]].tolist(), roots.tolist(), strict=True))
    fallback = np.array([root_of.get(step, roots[0]) for step in steps.tolist()] or [0], np.int64)
    # What is in no call belongs to the step itself.
    node = np.where(node >= 0, node, fallback[made.window])
    kind = np.array([_OF_PIECE[what] for what in range(len(_OF_PIECE))])[made.what]
    host = np.flatnonzero(made.what == HOST)
    kind[host] = _kinds(of)[row[host]]
    kind[(kind == _SYNC) & (late.around[node] >= 0) & (late.sort[node] != SYNC)] = _OP
    line = np.full(row.size, -1, np.int64)
    for number, lines in _lines(of):
        has_line = np.flatnonzero(kind == number)
        line[has_line] = lines[row[has_line]]
    delay = np.where(np.isin(kind, LATE), late.before(made.window, made.start_ns), -1)
    delay_kind = np.where(delay >= 0, _DELAY_KINDS[late.sort[delay]], -1)
    return Units(made.window, node, kind, line, delay, delay_kind, made.ns)


def _lines(of: Slices) -> Iterator[tuple[int, Ints]]:
    """Kinds of host time that have a line, and the row of the slice that names it."""
    host = of.work == 0
    yield _CODE, nearest(of.parent, host & (of.sort == FRAME))
    for sort, kind in ((LOAD, _LOAD), (COMPILE, _COMPILE)):
        marked = host & (of.sort == sort)
        above = np.append(nearest(of.parent, marked), -1)[of.parent]
        yield kind, nearest(of.parent, marked & (above < 0))


def _kinds(of: Slices) -> Ints:
    """The kind of host time in which each slice is the innermost."""
    host = of.work == 0
    kind = np.full(of.sort.size, _CODE, np.int64)
    inside_op = nearest(of.parent, host & (of.sort == OP)) >= 0
    # Python frames inside an op are the op's: code is only what runs outside of ops.
    kind[inside_op | ((of.sort > FRAME) & host)] = _OP
    marked = host & np.isin(of.sort, [*_OF_SORT])
    mark = nearest(of.parent, marked)
    for sort, number in _OF_SORT.items():
        kind[(mark >= 0) & (of.sort[mark] == sort)] = number
    return kind
