"""Pickles of plain data, decoded opcode by opcode: nothing in them is ever run.

What could run code (GLOBAL, REDUCE, BUILD, ...) is refused by name and place. Values are None,
bool, int, float, str, bytes, tuple, list, dict and set; values that the memo shares stay shared.
"""

from __future__ import annotations

from pathlib import Path

from profframe.readers.pickle.machine import Machine

__all__ = ["Machine", "plain_values"]


def plain_values(data: bytes, path: Path | str = "pickle") -> object:
    """The value of a pickle that is in memory; errors call it ``path``.

    Raises
    ------
    NotATraceError
        It is not a pickle, or it has more than plain data.
    SourceError
        It is damaged, ends early, contains itself, or would expand to far more than its size.

    Examples
    --------
    >>> import pickle
    >>> plain_values(pickle.dumps({"a": 1}))
    {'a': 1}
    """
    return Machine(iter((data,)), path).value()
