"""JSON values in which every number keeps its text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any, Final

Pairs = list[tuple[str, Any]]


_PLAIN: Final = frozenset((bool, float, int, str, type(None)))


class ExactNumber(float):
    """A number that Python would write differently, or not at all, such as 1e5, 1.10 or 1e400."""

    text: str


def _exact_number(text: str) -> ExactNumber:
    number = ExactNumber(text)
    number.text = text
    return number


def _float(text: str) -> float:
    number = float(text)
    return number if repr(number) == text else _exact_number(text)


def _int(text: str) -> float:
    try:
        number = int(text)
    except ValueError:  # more digits than Python reads, except as a float
        return _exact_number(f"{text}e0")
    return number if number or text == "0" else _exact_number(text)


def refuse(word: str) -> float:
    """Refuse NaN and Infinity in a decoder."""
    raise ValueError(f"{word} is not JSON")


def decoder(
    members: Callable[[Pairs], Any] | None = None, constant: Callable[[str], Any] = refuse
) -> json.JSONDecoder:
    """A decoder of strict JSON that also accepts half surrogate pairs.

    Parameters
    ----------
    members
        Makes an object from its members; by default the last of several with one name counts.
    constant
        Makes a value from NaN, Infinity and -Infinity.

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
    """The value of strict JSON, as `json.loads` returns it.

    Examples
    --------
    >>> loads("[1, 2.5, -0]")
    [1, 2.5, -0.0]
    """
    return _DECODER.decode(text)


def dumps(value: object) -> str:
    """JSON text as `json.dumps` writes it, except that numbers keep their text.

    Examples
    --------
    >>> dumps(loads("[1e400, 123456789.123456789123456789]"))
    '[1e400, 123456789.123456789123456789]'
    """
    out: list[str] = []
    stack = [(iter((("", value),)), "")]
    """Members not yet written, with the text before each, and the text after them all."""
    while stack:
        members, end = stack[-1]
        for separator, item in members:
            out.append(separator)
            if isinstance(item, ExactNumber):
                out.append(item.text)
            elif _is_plain(item):
                out.append(json.dumps(item))
            else:  # no recursion, so that any depth works
                out.append("{" if isinstance(item, dict) else "[")
                stack.append((_members(item), "}" if isinstance(item, dict) else "]"))
                break
        else:
            out.append(end)
            stack.pop()
    return "".join(out)


def _is_plain(item: object) -> bool:
    """Whether `json.dumps` keeps the text of all its numbers."""
    if isinstance(item, dict):
        return _PLAIN.issuperset(map(type, item.values()))
    return not isinstance(item, list) or _PLAIN.issuperset(map(type, item))


def _members(container: Any) -> Iterator[tuple[str, object]]:
    """Members of an object or an array, with the text before each."""
    commas = chain(("",), repeat(", "))
    if isinstance(container, dict):
        keys = (
            f"{comma}{json.dumps(key)}: " for comma, key in zip(commas, container, strict=False)
        )
        return zip(keys, container.values(), strict=True)
    return zip(commas, container, strict=False)
