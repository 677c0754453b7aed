"""Values of a pickle as JSON text, in which a value that is shared is written wherever it is."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Final

from profframe.errors import SourceError
from profframe.readers.pickle import limits
from profframe.readers.pickle.machine import whole_text

_SETS: Final = (set, frozenset)
_LISTS: Final = (list, tuple, *_SETS)


class Unfolding:
    r"""Writes values of one file as JSON.

    Parameters
    ----------
    path
        The file, for errors.

    Examples
    --------
    >>> unfolding = Unfolding("dump")
    >>> unfolding.json({b"a": (1, None), "b": {3}}), unfolding.odd_values
    ('{"b\'a\'": [1, null], "b": [3]}', 2)
    """

    def __init__(self, path: Path | str) -> None:
        self.odd_values = 0
        """Number of keys and values that JSON does not have: their text is written."""
        self._path = path
        self._left = limits.MOST_UNFOLDED

    def json(self, value: object, separators: tuple[str, str] | None = None) -> str:
        """A value as JSON text.

        Raises
        ------
        SourceError
            All values of the file together are too long, or this one is nested too deeply.
        """
        return json.dumps(self._plain(value, limits.DEEPEST), separators=separators)

    def _plain(self, value: object, depth: int) -> Any:
        if not depth:
            raise SourceError(
                f"{self._path}: its metadata are nested more than {limits.DEEPEST} deep"
            )
        if isinstance(value, dict):
            self._count(2 * len(value))
            return {self._key(k): self._plain(v, depth - 1) for k, v in value.items()}
        if isinstance(value, _LISTS):
            self._count(2 + 2 * len(value))
            self.odd_values += isinstance(value, _SETS)
            items = sorted(value, key=repr) if isinstance(value, _SETS) else value
            return [self._plain(item, depth - 1) for item in items]
        return self._scalar(value)

    def _scalar(self, value: object) -> Any:
        if isinstance(value, str):
            self._count(len(value))
            return whole_text(value)
        if isinstance(value, int) or value is None:
            self._count(0 if value is None else value.bit_length() >> 2)
            return value
        if isinstance(value, float) and math.isfinite(value):
            return value
        return self._odd(value)

    def _key(self, key: object) -> Any:
        return self._odd(key) if isinstance(key, bytes) else self._scalar(key)

    def _odd(self, value: object) -> str:
        self.odd_values += 1
        self._count(4 * len(value) if isinstance(value, bytes) else 4)
        return str(value)

    def _count(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise SourceError(
                f"{self._path}: its metadata, with all that they share, are more than "
                f"{limits.MOST_UNFOLDED >> 20} MB of text"
            )
