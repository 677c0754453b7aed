"""A limit on repairs that do not lead to a useful element."""

from __future__ import annotations

import re
from typing import Final

_MOST: Final = 1 << 16
"""Repairs without a useful element, in total."""
_GAIN: Final = 8
"""Repairs that a useful element adds for its neighbours."""
_NO_END: Final = 1 << 10
"""Number of repairs that take as long as finding that an element does not end."""


class RepairBudget:
    """Repairs that may still be spent without an element that has a mark.

    Parameters
    ----------
    mark
        Name of the member, a string, that makes an element useful; empty: all elements are.

    Examples
    --------
    >>> budget = RepairBudget("ph")
    >>> budget.charge('{"ph":null}', 70_000)
    >>> budget.is_spent
    True
    >>> budget.next_marked('{"a":1},{"a":2},{"ph":"X"}', 0)
    16
    """

    def __init__(self, mark: str = "") -> None:
        self.mark = mark
        self._mark = re.compile(rf'"{re.escape(mark)}"\s*+:\s*+"' if mark else "")
        self._left = _MOST

    @property
    def is_spent(self) -> bool:
        """Whether to try only what looks like an element with the mark."""
        return self._left <= 0

    def charge(self, element: str | None, repairs: int) -> None:
        """Charge the repairs of one element, None if it is dropped."""
        if element is not None and self._mark.search(element):
            self._left = min(_MOST, max(0, self._left) + _GAIN)
        else:
            self._left -= 1 + repairs

    def charge_endless(self, repairs: int) -> None:
        """Charge an element that does not end."""
        self._left -= _NO_END + repairs

    def next_marked(self, text: str, position: int) -> int:
        """Where the next element with the mark may begin, or the text's end."""
        for match in self._mark.finditer(text, position):
            begin = str.rfind(text, "{", position, match.start())
            if begin >= 0:
                return begin
        return len(text)
