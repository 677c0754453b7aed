"""JSON values in which every number keeps its text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any, Final

Pairs = list[tuple[str, Any]]


_PLAIN: Final = frozenset((bool, float, int, str, type(None)))


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


def decoder(
    members: Callable[[Pairs], Any] | None = None, constant: Callable[[str], Any] = refuse
) -> json.JSONDecoder:
    """Reads strict JSON, but for half surrogate pairs.

    Parameters
    ----------
    members
        Makes an object of its members; without it the last of two with one name counts.
    constant
        Makes a value of NaN, Infinity and -Infinity.

    Examples
    --------
    >>> value = decoder().decode('{"a": 1e5, "b": [-0, 2.50], "a": 1.10}')
    >>> dumps(value)
    '{"a": 1.10, "b": [-0, 2.50]}'
    """
    return json.JSONDecoder(
        parse_float=_float, parse_int=_int, parse_constant=constant, object_pairs_hook=members
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
    opened = [(iter((("", value),)), "")]
    """Members that are not yet written, with what is before each, and what is behind them all."""
    while opened:
        members, end = opened[-1]
        for before, item in members:
            out.append(before)
            if isinstance(item, Written):
                out.append(item.text)
            elif _is_plain(item):
                out.append(json.dumps(item))
            else:  # not by recursion: no depth is too deep
                out.append("{" if isinstance(item, dict) else "[")
                opened.append((_members(item), "}" if isinstance(item, dict) else "]"))
                break
        else:
            out.append(end)
            opened.pop()
    return "".join(out)


def _is_plain(item: object) -> bool:
    """Whether there is nothing in it that Python would write in another way."""
    if isinstance(item, dict):
        return _PLAIN.issuperset(map(type, item.values()))
    return not isinstance(item, list) or _PLAIN.issuperset(map(type, item))


def _members(item: Any) -> Iterator[tuple[str, object]]:
    """Members of an object or an array, with what is before each."""
    commas = chain(("",), repeat(", "))
    if isinstance(item, dict):
        keys = (f"{comma}{json.dumps(key)}: " for comma, key in zip(commas, item, strict=False))
        return zip(keys, item.values(), strict=True)
    return zip(commas, item, strict=False)
