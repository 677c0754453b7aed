"""Fields of many objects at once, by their own getters, without a Python loop over the objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Flags: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]
Getter: TypeAlias = Callable[[Any], Any]
Fields: TypeAlias = dict[str, Any]
"""By name: an array of numbers, or a list of anything else."""

UNDECODABLE: Final = "(undecodable)"
"""Key for the number of texts that were not UTF-8; these have U+FFFD for the bad bytes."""
_BLOCK: Final = 2048
"""This many objects stay in the processor's cache while all their fields are read."""


def read_fields(
    objects: Sequence[Any],
    types: Mapping[str, npt.DTypeLike],
    getter: Callable[[type, str], Getter] = getattr,
) -> Fields:
    """Fields of objects of one type.

    Parameters
    ----------
    objects
        Of one type.
    types
        Name of each field, and the type of its numbers; ``object`` gives a list.
    getter
        Returns the getter for the objects' type and the name of a field; by default the method of
        that name.

    Returns
    -------
    Fields
        The fields, and in `UNDECODABLE` a count.

    Examples
    --------
    >>> read_fields([3 + 4j, 5j], {"conjugate": object})["conjugate"]
    [(3-4j), -5j]
    """
    fields: Fields = {
        name: [] if type_ is object else np.empty(len(objects), type_)
        for name, type_ in types.items()
    }
    undecodable = 0
    getters = {name: getter(type(objects[0]), name) for name in types} if objects else {}
    for start in range(0, len(objects), _BLOCK):
        block = objects[start : start + _BLOCK]
        for name, get in getters.items():
            values = fields[name]
            if isinstance(values, list):
                decoded, failed = _all(get, block)
                values += decoded
                undecodable += failed
            else:
                values[start : start + len(block)] = np.fromiter(
                    map(get, block), values.dtype, len(block)
                )
    return fields | {UNDECODABLE: undecodable}


def _all(get: Getter, objects: Sequence[Any]) -> tuple[list[Any], int]:
    try:
        return list(map(get, objects)), 0
    except UnicodeDecodeError:
        decoded = [_decoded(get, obj) for obj in objects]
        return [value for value, _ in decoded], sum(failed for _, failed in decoded)


def _decoded(get: Getter, obj: Any) -> tuple[Any, bool]:
    try:
        return get(obj), False
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
