r"""Models of devices: which names they have, and their peaks; read from ``profframe/devices.json``.

An entry of the file, or of a user's own::

    "NVIDIA T4": {
      "names": ["\\bT4\\b"],
      "memory_bytes": 17179869184,
      "bandwidth_bytes_per_s": 320e9,
      "cache_bytes": 4194304,
      "dense_flop_per_s": {"fp32": 8.1e12, "fp16": 65e12, "int8": 130e12},
      "sparse_flop_per_s": {},
      "sources": {"https://...": ["bandwidth_bytes_per_s", "dense_flop_per_s.fp32"]}
    }

``names`` are regular expressions, searched in what the driver calls the device; a device without a
name has the empty one. Where they are given, ``memory_gb`` ([least, most], of 1e9 bytes),
``multiprocessors`` and ``compute_capability`` must be those of the device, too.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from profframe import schema
from profframe.errors import ParameterError, UnknownNameError

Devices = str | os.PathLike[str] | Mapping[str, Any]
"""Entries by model, or the path of a JSON file of them."""

_FILE: Final = Path(__file__).parent.parent / "devices.json"
_RATES: Final = ("dense_flop_per_s", "sparse_flop_per_s")
_VALUES: Final = ("memory_bytes", "cache_bytes", "bandwidth_bytes_per_s")


@dataclass(frozen=True, slots=True)
class Model:
    """One model of device: how it is known, and what it can do.

    Attributes
    ----------
    names
        Patterns of its names.
    columns
        What it says of a device, by columns of `devices`.
    asked
        Columns that a device must have these values in, besides.
    memory_gb
        Least and most memory that a device of it may have, in 1e9 bytes; None for any.
    """

    names: tuple[re.Pattern[str], ...]
    columns: Mapping[str, Any]
    asked: Mapping[str, Any]
    memory_gb: tuple[float, float] | None

    def matches(self, device: Mapping[str, Any]) -> bool:
        """Whether a row of `devices` is of this model."""
        name, memory = device["name"] or "", device["memory_bytes"] or 0
        if (
            self.memory_gb is not None
            and not self.memory_gb[0] <= memory / 1e9 <= self.memory_gb[1]
        ):
            return False
        if any(device[column] != value for column, value in self.asked.items()):
            return False
        return any(pattern.search(name) for pattern in self.names)


def models(devices: Devices | None = None) -> Mapping[str, Model]:
    """Models by their names, in the order in which they are tried.

    Parameters
    ----------
    devices
        Entries of the user's own, tried first. One with the name of a model that comes with
        profframe is that model with some other values; ``null`` is a value that is not known.

    Returns
    -------
    Mapping of str to Model
        The user's, then the others of ``profframe/devices.json``.

    Raises
    ------
    ParameterError
        The file cannot be read, or an entry is not of the form above; the message says which.

    Examples
    --------
    >>> next(iter(models({"Mine": {"names": ["^My GPU$"], "bandwidth_bytes_per_s": 1e12}})))
    'Mine'
    """
    known: dict[str, dict[str, Any]] = json.loads(_FILE.read_text(encoding="utf-8"))
    given, where = _given(devices)
    own = {}
    for name, entry in given.items():
        _check(entry, f"{where}: {name!r}")
        own[name] = _merged(known.get(name, {}), entry)
        if "names" not in own[name]:
            raise ParameterError(
                f'{where}: {name!r}: a new model needs "names", {_FORMS["names"][1]}'
            )
    listed = own | {name: entry for name, entry in known.items() if name not in own}
    return MappingProxyType({name: _model(name, entry) for name, entry in listed.items()})


def _given(devices: Devices | None) -> tuple[Mapping[str, Any], str]:
    """The user's entries, and what to call their place in a message."""
    where, given = "devices", devices
    if isinstance(devices, (str, os.PathLike)):
        where = os.fspath(devices)
        try:
            given = json.loads(Path(devices).read_text(encoding="utf-8"))
        except OSError as error:
            raise ParameterError(f"{where}: cannot be read: {error.strerror or error}") from error
        except ValueError as error:
            raise ParameterError(f"{where}: not a JSON file of devices: {error}") from error
    if given is None:
        return {}, where
    if not isinstance(given, Mapping):
        raise ParameterError(f"{where}: needs an object of entries by model, got {given!r:.60}")
    return given, where


def _merged(known: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry over the one that comes with profframe; rates one by one."""
    rates = {key: {**known.get(key, {}), **entry[key]} for key in _RATES if key in entry}
    return {**known, **entry, **rates}


def _model(name: str, entry: Mapping[str, Any]) -> Model:
    rates = entry.get("dense_flop_per_s", {})
    said = {key: entry.get(key) for key in _VALUES}
    said |= {f"{dtype}_flop_per_s": rate for dtype, rate in rates.items()}
    asked = ("multiprocessors", "compute_capability")
    return Model(
        tuple(re.compile(text, re.IGNORECASE) for text in entry["names"]),
        {"model": name} | {key: value for key, value in said.items() if value is not None},
        {key: entry[key] for key in asked if entry.get(key) is not None},
        entry.get("memory_gb"),
    )


def _is_positive(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 < value < 1e300  # type: ignore[operator]


def _is_whole(value: object) -> bool:
    return type(value) is int and 0 < value < 1 << 63


def _is_rates(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        dtype in schema.DTYPES and (rate is None or _is_positive(rate))
        for dtype, rate in value.items()
    )


def _is_patterns(value: object) -> bool:
    if not isinstance(value, list) or not value or not all(isinstance(one, str) for one in value):
        return False
    try:
        return all(re.compile(one) for one in value)
    except re.error:
        return False


def _is_range(value: object) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(map(_is_positive, value))


_RATES_FORM: Final = f"rates in FLOP/s by data type, out of {' '.join(schema.DTYPES)}"
_FORMS: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = MappingProxyType(
    {
        "names": (_is_patterns, "a list of regular expressions"),
        "memory_gb": (_is_range, "[least, most]"),
        "multiprocessors": (_is_whole, "a whole number"),
        "compute_capability": (lambda value: isinstance(value, str), 'text, as "9.0"'),
        "memory_bytes": (_is_whole, "a whole number of bytes"),
        "cache_bytes": (_is_whole, "a whole number of bytes"),
        "bandwidth_bytes_per_s": (_is_positive, "a number above 0"),
        "dense_flop_per_s": (_is_rates, _RATES_FORM),
        "sparse_flop_per_s": (_is_rates, _RATES_FORM),
        "sources": (lambda value: isinstance(value, Mapping), "fields by link"),
        "comment": (lambda value: isinstance(value, str), "text"),
    }
)
"""Fields of an entry: whether a value can be used, and what it is to be."""


def _check(entry: object, where: str) -> None:
    """Raise an error for the first thing that cannot be used."""
    if not isinstance(entry, Mapping):
        raise ParameterError(f"{where}: needs an object of fields, got {entry!r:.60}")
    for key, value in entry.items():
        if key not in _FORMS:
            raise ParameterError(f"{where}: {UnknownNameError.among('field', str(key), _FORMS)}")
        is_right, form = _FORMS[key]
        if not is_right(value) and not (value is None and key in _VALUES):
            raise ParameterError(f"{where}: {key} is to be {form}, got {value!r:.60}")
