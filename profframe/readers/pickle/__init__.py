"""Pickles of plain data, decoded opcode by opcode: nothing in them is ever run.

What could run code (GLOBAL, REDUCE, BUILD, ...) is refused by name and place. Values are None,
bool, int, float, str, bytes, tuple, list, dict and set; values that the memo shares stay shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from profframe.readers.pickle.machine import Machine

__all__ = ["Machine", "plain_values"]


def plain_values(blocks: bytes | Iterator[bytes], path: Path | str = "pickle") -> object:
    """The value of a pickle, from its bytes or blocks of them; errors call it ``path``.

    Raises
    ------
    NotATraceError
        It is not a pickle, or it has more than plain data.
    SourceError
        It is damaged, ends early, contains itself, or would take far more than its size (`limits`).

    Examples
    --------
    >>> import pickle
    >>> plain_values(pickle.dumps({"a": 1}))
    {'a': 1}
    """
    return Machine(iter((blocks,)) if isinstance(blocks, bytes) else blocks, path).value()
