"""Nested host slices as indented lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import astuple
from typing import Final

import polars as pl

from profframe.analysis.call_tree import CallTree, Slice
from profframe.show import units
from profframe.show.frame import Frame, frame
from profframe.show.lines import Lines

_SCHEMA: Final = {
    "event_id": pl.Int64,
    "level": pl.Int64,
    "thread": pl.Int64,
    "name": pl.String,
    "dur_ns": pl.Int64,
    "self_ns": pl.Int64,
    "device_ns": pl.Int64,
    "root_ns": pl.Int64,
    "hidden": pl.Int64,
}
_GAP: Final = "  "
_INDENT: Final = "  "
_LONGEST_NAME: Final = 120
_NARROWEST_NAME: Final = 16
"""What is left for a name where levels are too deep for the width."""
_INSIDE: Final = re.compile(r"  \(\+[\d,]+ inside\)$")


class Tree(Lines):
    """Text of a tree, and its slices as rows."""

    slices: Frame
    """A row for each: ``event_id``, ``level`` from 0, ``thread``, ``name``, ``dur_ns``,
    ``self_ns``, ``device_ns``, ``root_ns`` (length of the outermost one that is drawn) and
    ``hidden`` (slices inside it that are too deep)."""


def text(tree: CallTree, why: Callable[[], str | None] | None = None) -> Tree:
    """A line for each slice below a line of headings; a last line counts what is not shown.

    If there is no slice, ``why`` says why.
    """
    rows = pl.DataFrame(map(astuple, tree.slices), schema=_SCHEMA, orient="row")
    slices = frame(rows, why=why)
    if tree.slices or tree.left_out:
        result = Tree("\n".join(_lines(tree)))
    else:
        from profframe.show.terminal import no_rows

        result = Tree(no_rows(slices.why_empty))
    result.slices = slices
    return result


def fitted(text: str, width: int) -> str:
    r"""Lines of a tree in a width: names are cut in the middle, and all indented less if need be.

    Examples
    --------
    >>> tree = "event  name\n    7    aten::_local_scalar_dense  (+2 inside)"
    >>> print(fitted(tree, 41))
    event  name
        7    aten::_loca…r_dense  (+2 inside)
    """
    head, *lines = text.split("\n")
    begin = head.rfind("name")
    names = [line[begin:] for line in lines]
    indents = [len(name) - len(name.lstrip(" ")) for name in names]
    most, deepest = max(width - begin - _NARROWEST_NAME, 0), max(indents, default=0)
    fitting = [head]
    for line, name, indent in zip(lines, names, indents, strict=True):
        if line[:1].isalpha():  # of a thread, or of what is not shown
            fitting.append(line)
            continue
        left = indent if deepest <= most else indent * most // deepest
        label = _shortened(name.lstrip(" "), width - begin - left)
        fitting.append(f"{line[:begin]}{' ' * left}{label}")
    return "\n".join(fitting)


def _shortened(label: str, room: int) -> str:
    """A name that fits, with what is said behind it."""
    end = _INSIDE.search(label)
    inside = end[0] if end else ""
    return f"{units.middle(label.removesuffix(inside), max(room - len(inside), 1))}{inside}"


def _lines(tree: CallTree) -> list[str]:
    """Lines of text; numbers on the left, so that names can have any length."""
    nodes, threads = tree.slices, tree.threads
    cells = {
        "total": [_time(node.dur_ns) for node in nodes],
        "self": [_time(node.self_ns) for node in nodes],
        "device": [_time(node.device_ns) for node in nodes],
        "%": [_share(node) for node in nodes],
        "event": [str(node.event_id) for node in nodes],
    }
    if not any(node.device_ns for node in nodes):
        del cells["device"]
    widths = {name: max(map(len, [name, *column])) for name, column in cells.items()}
    head = _GAP.join([*(f"{name:>{width}}" for name, width in widths.items()), "name"])
    lines = [head]
    thread = None
    for row, node in enumerate(nodes):
        if threads and node.thread != thread:
            thread = node.thread
            lines.append(f"thread {thread}: {units.visible(threads.get(thread, 'unknown'))}")
        numbers = (f"{cells[name][row]:>{width}}" for name, width in widths.items())
        suffix = f"  (+{node.hidden:,} inside)" if node.hidden else ""
        lines.append(_GAP.join([*numbers, _INDENT * node.level + _name(node.name) + suffix]))
    if tree.left_out:
        hidden = units.plural(tree.left_out, "slice")
        lines.append(f"not shown: {hidden}; ask for a larger depth or top, or for one event")
    return lines


def _time(ns: int | None) -> str:
    return "" if ns is None else units.lined_up(units.duration(ns))


def _share(node: Slice) -> str:
    if node.dur_ns is None or not node.root_ns:
        return ""
    return units.share(node.dur_ns / node.root_ns)


def _name(name: str | None) -> str:
    """A name on one line, cut if it is very long."""
    if name is None:
        return "(no name)"
    text = units.visible(name[: _LONGEST_NAME + 1])
    return text if len(text) <= _LONGEST_NAME else text[: _LONGEST_NAME - 1] + "…"
