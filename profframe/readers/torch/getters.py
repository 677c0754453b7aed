"""Fields of many objects at once, by their own getters; no object is looked at in a Python loop."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Getter: TypeAlias = Callable[[Any], Any]
Fields: TypeAlias = dict[str, Any]
"""By name: an array of numbers, or a list of anything else."""

UNDECODABLE: Final = "(undecodable)"
"""Where `fields` says how many texts were no UTF-8; these have U+FFFD for what was none."""
_PART: Final = 2048
"""So many objects stay in the processor's cache while all their fields are asked for."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Let no garbage be collected meanwhile.

    There is none while fields are asked for, and to look for it among all those objects again and
    again takes a third of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def fields(
    objects: Sequence[Any],
    wanted: Mapping[str, npt.DTypeLike],
    getter: Callable[[type, str], Getter] = getattr,
) -> Fields:
    """Fields of objects of one type.

    Parameters
    ----------
    objects
        Of one type.
    wanted
        Name of each field, and the type of its numbers; ``object`` gives a list.
    getter
        From the objects' type and the name of a field to what gives it; by default the method of
        that name.

    Returns
    -------
    Fields
        The fields, and in `UNDECODABLE` a count.

    Examples
    --------
    >>> fields([3 + 4j, 5j], {"conjugate": object})["conjugate"]
    [(3-4j), -5j]
    """
    found: Fields = {
        name: [] if type_ is object else np.empty(len(objects), type_)
        for name, type_ in wanted.items()
    }
    undecodable = 0
    getters = {name: getter(type(objects[0]), name) for name in wanted} if objects else {}
    for start in range(0, len(objects), _PART):
        part = objects[start : start + _PART]
        for name, get in getters.items():
            values = found[name]
            if isinstance(values, list):
                got, failed = _all(get, part)
                values += got
                undecodable += failed
            else:
                values[start : start + len(part)] = np.fromiter(
                    map(get, part), values.dtype, len(part)
                )
    return found | {UNDECODABLE: undecodable}


def _all(get: Getter, objects: Sequence[Any]) -> tuple[list[Any], int]:
    try:
        return list(map(get, objects)), 0
    except UnicodeDecodeError:
        found = [_decoded(get, one) for one in objects]
        return [value for value, _ in found], sum(failed for _, failed in found)


def _decoded(get: Getter, one: Any) -> tuple[Any, bool]:
    try:
        return get(one), False
    except UnicodeDecodeError as error:
        return error.object.decode("utf-8", "replace"), True


def as_texts(numbers: npt.NDArray[Any]) -> pa.DictionaryArray:
    """Numbers as dictionary-encoded text.

    Examples
    --------
    >>> as_texts(np.array([7, 7, 12])).to_pylist()
    ['7', '7', '12']
    """
    encoded = pa.array(numbers).dictionary_encode()
    return pa.DictionaryArray.from_arrays(encoded.indices, encoded.dictionary.cast(pa.string()))
