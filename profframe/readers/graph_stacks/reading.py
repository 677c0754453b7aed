"""Read the Python stacks of kernels in CUDA graphs: ``torch.cuda.graph_annotations``.

`dump_kernel_py_stacks` writes one JSON object without a header, compressed by gzip. The name of a
member is a decimal number: the graph in its upper 32 bits, the node in the lower. Its value is a
text with a frame per line, ``file:line:function``, the innermost first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from profframe.errors import SourceError
from profframe.readers.bytes import ByteSource
from profframe.readers.graph_stacks import Frames, GraphStacks
from profframe.readers.json.exact import Pairs
from profframe.system import memory_limit

_KEY: Final = re.compile(r"[1-9]\d{0,18}")
_KEYS: Final = range(1 << 32, 1 << 63)
"""Nodes of graphs: graphs are numbered from 1, and the column has 63 bits."""
_FRAME: Final = re.compile(r"(.*):(\d{1,9}):(.*)", re.DOTALL)
"""Names of files may have colons and digits between them: the last ones count."""
_MOST_FRAMES: Final = 1024
"""Torch writes at most 64."""
_MOST_BREAKS: Final = 8
_MOST_LINES: Final = _MOST_FRAMES * 2
_TIMES_TEXT: Final = 4
"""Memory for the parsed values, over the length of the text."""


def read(source: ByteSource) -> GraphStacks:
    r"""Read one file.

    Raises
    ------
    SourceError
        It cannot be read, ends early, or is not JSON.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "stacks.json")
    ...     _ = path.write_text('{"30064771073": "a.py:7:step\\nb.py:3:main", "x": 1}')
    ...     stacks = read(ByteSource(path))
    >>> stacks.stacks, stacks.nodes.tolist(), stacks.unreadable
    ([('a.py(7): step', 'b.py(3): main')], [30064771073], 1)
    """
    return _stacks(_members(source))


def _members(source: ByteSource) -> Pairs:
    parts: list[bytes] = []
    size = 0
    for block in source.blocks():
        parts.append(block)
        size += len(block)
        memory_limit.check(size * _TIMES_TEXT)
    if source.damage is not None:
        raise SourceError(
            f"{source.path}: Python stacks of graph kernels that end early: {source.damage}; "
            "save them again"
        )
    try:
        # Numbers have no meaning here, and as text they may have any length.
        members = json.loads(b"".join(parts), object_pairs_hook=_Members, parse_int=str)
    except (ValueError, RecursionError) as error:
        reason = (str(error).partition("\n")[0] or type(error).__name__)[:200]
        raise SourceError(
            f"{source.path}: Python stacks of graph kernels that are not JSON: {reason}; save "
            "them again"
        ) from error
    if not isinstance(members, _Members):
        raise SourceError(
            f"{source.path}: Python stacks of graph kernels that are not one JSON object; save "
            "them again"
        )
    return members


class _Members(list[tuple[str, Any]]):
    """Members of an object, in which a name may occur more than once."""


def _stacks(members: Iterable[tuple[str, Any]]) -> GraphStacks:
    frames: dict[str, Frames | None] = {}
    number: dict[Frames, int] = {}
    of_node: dict[int, int] = {}
    unreadable = 0
    for name, text in members:
        if not isinstance(text, str) or not _KEY.fullmatch(name) or int(name) not in _KEYS:
            unreadable += 1
            continue
        if text not in frames:  # most kernels share a stack with others
            frames[text] = _frames(text)
        stack = frames[text]
        if stack is None:
            unreadable += 1
            continue
        code = number.setdefault(stack, len(number))
        if of_node.setdefault(int(name), code) != code:
            of_node[int(name)] = -1
    nodes = np.array([*of_node], np.int64)
    order = np.argsort(nodes)
    codes = np.array([*of_node.values()], np.int64)
    return GraphStacks(nodes[order], codes[order], [*number], unreadable)


def _frames(text: str) -> Frames | None:
    """The frames of a stack; None if it has none, or a part that is no frame."""
    frames: list[str] = []
    begun: list[str] = []
    for line in text.split("\n", _MOST_LINES):
        begun.append(line)  # the name of a file may have line breaks
        match = _FRAME.fullmatch("\n".join(begun))
        if match is not None:
            begun = []
            frames.append(_as_utf8(f"{match[1]}({match[2]}): {match[3]}"))
        elif len(begun) > _MOST_BREAKS:
            return None
    return None if begun or len(frames) > _MOST_FRAMES else tuple(frames)


def _as_utf8(text: str) -> str:
    """The text with U+FFFD for half surrogate pairs."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
