"""Host slices inside one another, as indented lines."""

from __future__ import annotations

from typing import Final

from profframe.analysis.call_tree import CallTree, Slice
from profframe.show import units
from profframe.show.lines import Lines

_GAP: Final = "  "
_INDENT: Final = "  "
_LONGEST_NAME: Final = 120


class Tree(Lines):
    """Text of a tree; it shows itself as it is, also where a value is shown without ``print``."""

    __slots__ = ()


def text(tree: CallTree) -> Tree:
    """A line for each slice, below a line of headings; a last line counts what is not shown."""
    return Tree("\n".join(_drawn(tree)))


def _drawn(tree: CallTree) -> list[str]:
    """Lines of text; numbers to the left, so that names may be of any length."""
    lines, threads = tree.slices, tree.threads
    if not lines and not tree.left_out:
        return ["no host slices"]
    cells = {
        "total": [units.duration(line.dur_ns) for line in lines],
        "self": [_time(line.self_ns) for line in lines],
        "device": [_time(line.device_ns) for line in lines],
        "%": [_share(line) for line in lines],
        "event": [str(line.event_id) for line in lines],
    }
    if not any(line.device_ns for line in lines):
        del cells["device"]
    widths = {name: max(map(len, [name, *column])) for name, column in cells.items()}
    head = _GAP.join([*(f"{name:>{width}}" for name, width in widths.items()), "name"])
    drawn = [head]
    thread = None
    for number, line in enumerate(lines):
        if threads and line.thread != thread:
            thread = line.thread
            drawn.append(f"thread {thread}: {units.visible(threads.get(thread, 'unknown'))}")
        left = (f"{cells[name][number]:>{width}}" for name, width in widths.items())
        inside = f"  (+{line.hidden:,} inside)" if line.hidden else ""
        drawn.append(_GAP.join([*left, _INDENT * line.level + _name(line.name) + inside]))
    if tree.left_out:
        hidden = units.plural(tree.left_out, "slice")
        drawn.append(f"not shown: {hidden}; ask for more depth or rows, or for one event")
    return drawn


def _time(ns: int | None) -> str:
    return "" if ns is None else units.duration(ns)


def _share(line: Slice) -> str:
    return units.share(line.dur_ns / line.root_ns) if line.root_ns else ""


def _name(name: str | None) -> str:
    """A name on one line, cut where it is very long."""
    if name is None:
        return "(no name)"
    shown = units.visible(name[: _LONGEST_NAME + 1])
    return shown if len(shown) <= _LONGEST_NAME else shown[: _LONGEST_NAME - 1] + "…"
