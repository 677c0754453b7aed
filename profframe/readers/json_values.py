"""JSON values in which every number keeps its text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

Pairs = list[tuple[str, Any]]


class Written(float):
    """A number that Python would write in another way, or not at all, as 1e5, 1.10 or 1e400."""

    text: str


def _written(text: str) -> Written:
    number = Written(text)
    number.text = text
    return number


def _float(text: str) -> float:
    number = float(text)
    return number if repr(number) == text else _written(text)


def _int(text: str) -> float:
    try:
        number = int(text)
    except ValueError:  # more digits than Python reads: as a float it does
        return _written(f"{text}e0")
    return number if number or text == "0" else _written(text)


def refuse(word: str) -> float:
    """For a decoder that is to refuse NaN and Infinity."""
    raise ValueError(f"{word} is not JSON")


def decoder(members: Callable[[Pairs], Any] | None = None) -> json.JSONDecoder:
    """Reads strict JSON, but for half surrogate pairs.

    Parameters
    ----------
    members
        Makes an object of its members; without it the last of two with one name counts.

    Examples
    --------
    >>> value = decoder().decode('{"a": 1e5, "b": [-0, 2.50], "a": 1.10}')
    >>> dumps(value)
    '{"a": 1.10, "b": [-0, 2.50]}'
    """
    return json.JSONDecoder(
        parse_float=_float, parse_int=_int, parse_constant=refuse, object_pairs_hook=members
    )


_DECODER: Final = decoder()


def loads(text: str) -> Any:
    """The value of strict JSON, as `json.loads` gives it.

    Examples
    --------
    >>> loads("[1, 2.5, -0]")
    [1, 2.5, -0.0]
    """
    return _DECODER.decode(text)


def dumps(value: object) -> str:
    """JSON text as `json.dumps` writes it, but for numbers: they are as they were written.

    Examples
    --------
    >>> dumps(loads("[1e400, 123456789.123456789123456789]"))
    '[1e400, 123456789.123456789123456789]'
    """
    out: list[str] = []
    left: list[object] = [value]
    """What is to be written, the last first: no depth is too deep."""
    while left:
        item = left.pop()
        if isinstance(item, dict):
            keys = (_Mark(f", {json.dumps(key)}: ") for key in item)
            left.append(_Mark("}"))
            left += reversed(
                [part for member in zip(keys, item.values(), strict=True) for part in member]
            )
            out.append("{")
        elif isinstance(item, list):
            left.append(_Mark("]"))
            left += reversed([part for each in item for part in (_Mark(", "), each)])
            out.append("[")
        elif isinstance(item, _Mark):
            out.append(item.removeprefix(", ") if out[-1] in ("{", "[") else item)
        else:
            out.append(item.text if isinstance(item, Written) else json.dumps(item))
    return "".join(out)


class _Mark(str):
    """Text between values."""

    __slots__ = ()
