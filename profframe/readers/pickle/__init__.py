"""Pickles of plain data, decoded opcode by opcode: nothing in them is ever run.

What could run code (GLOBAL, REDUCE, BUILD, ...) is refused by name and place. Values are None,
bool, int, float, str, bytes, tuple, list, dict and set; what the memo shares is shared.
"""

from __future__ import annotations

from pathlib import Path

from profframe.readers.pickle.machine import Machine

__all__ = ["Machine", "plain_values"]


def plain_values(data: bytes, path: Path | str = "pickle") -> object:
    """The value of a pickle that is in memory; ``path`` is what errors call it.

    Raises
    ------
    NotATraceError
        It is no pickle, or one of more than plain data.
    SourceError
        It is damaged, ends early, contains itself, or would unfold to far more than it is.

    Examples
    --------
    >>> import pickle
    >>> plain_values(pickle.dumps({"a": 1}))
    {'a': 1}
    """
    return Machine(iter((data,)), path).value()
