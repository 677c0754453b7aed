"""How much is mended in vain before the rest is passed over."""

from __future__ import annotations

import re
from typing import Final

_MOST: Final = 1 << 16
"""Repairs of what is worth nothing, from first to last."""
_GAIN: Final = 8
"""Repairs that an element which is worth something allows for what is around it."""
_END_MISSED: Final = 1 << 10
"""Repairs that take as long as to find that an element does not end."""


class Patience:
    """What may still be mended that leads to no element with a mark.

    Parameters
    ----------
    mark
        Name of the member, a text, that makes an element worth to be mended; empty: all are.

    Examples
    --------
    >>> patience = Patience("ph")
    >>> patience.weigh('{"ph":null}', 70_000)
    >>> patience.is_over
    True
    >>> patience.likely('{"a":1},{"a":2},{"ph":"X"}', 0)
    16
    """

    def __init__(self, mark: str = "") -> None:
        self._mark = re.compile(rf'"{re.escape(mark)}"\s*+:\s*+"' if mark else "")
        self._left = _MOST

    @property
    def is_over(self) -> bool:
        """Whether only what looks like an element with the mark is worth a try."""
        return self._left <= 0

    def weigh(self, element: str | None, repairs: int) -> None:
        """Take one element into account, None for one that is dropped, and what it cost."""
        if element is not None and self._mark.search(element):
            self._left = min(_MOST, max(0, self._left) + _GAIN)
        else:
            self._left -= 1 + repairs

    def miss(self, repairs: int) -> None:
        """Take an element into account that does not end."""
        self._left -= _END_MISSED + repairs

    def likely(self, text: str, position: int) -> int:
        """Where the next element with the mark may begin; the text's end where none does."""
        for found in self._mark.finditer(text, position):
            begin = str.rfind(text, "{", position, found.start())
            if begin >= 0:
                return begin
        return len(text)
