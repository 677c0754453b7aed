"""Strict JSON that recognises objects with a duplicate member."""

from __future__ import annotations

import json
from typing import Any, Final

from profframe.readers.json import exact


class _Doubled(dict[str, Any]):
    """Members of an object with a duplicate."""


def _members(pairs: exact.Pairs) -> dict[str, Any]:
    members = dict(pairs)
    return members if len(members) == len(pairs) else _Doubled(members)


def holds_doubled(value: object) -> bool:
    """Whether an object, or one that is a member of it, has a member twice."""
    if type(value) is not dict:
        return type(value) is _Doubled
    return _Doubled in map(type, value.values())


DECODER: Final = json.JSONDecoder(parse_constant=exact.refuse, object_pairs_hook=_members)


def has_doubled(text: str) -> bool:
    r"""Whether an object in valid JSON has a member twice.

    Examples
    --------
    >>> has_doubled('{"a": 1, "b": {"a": 2}}'), has_doubled(r'{"a": 1, "\u0061": 2}')
    (False, True)
    """
    try:
        return type(DECODER.decode(text)) is _Doubled
    except (ValueError, RecursionError):
        return False
