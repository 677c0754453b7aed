r"""Models of devices: how they are recognised, and their peaks; read from ``facts/devices.json``.

An entry of the file, or of the user::

    "NVIDIA T4": {
      "match": [{"name": "\\bT4\\b"}],
      "memory_bytes": 17179869184,
      "bandwidth_bytes_per_s": 320e9,
      "cache_bytes": 4194304,
      "dense_flop_per_s": {"fp32": 8.1e12, "fp16": 65e12, "int8": 130e12},
      "sparse_flop_per_s": {},
      "sources": {"https://...": ["bandwidth_bytes_per_s", "dense_flop_per_s.fp32"]}
    }

``match`` lists descriptions, and a device has the model if one of them holds: ``name`` is a regular
expression that is searched in the driver's name for it (empty, if it has none), ``memory_gb`` is
``[least, most]`` of 1e9 bytes, ``multiprocessors`` and ``compute_capability`` are those of table
`devices`. A device with unknown memory or multiprocessors may be any of the models that differ only
in these. ``sources`` lists the fields that come from each page; a page for ``dense_flop_per_s``
covers all its rates that no other page lists. Only ``match`` is required.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from profframe import schema
from profframe.errors import ParameterError, UnknownNameError
from profframe.facts.formulas.dtypes import peak_name


def document(parameter: str, given: Any, content: str) -> tuple[str, Any]:
    """The given mapping, or the content of the named file, with its name for errors.

    Raises
    ------
    ParameterError
        The file cannot be read, or is not JSON; the message names it.

    Examples
    --------
    >>> document("devices", {"Mine": {}}, "devices")
    ('devices', {'Mine': {}})
    """
    if not isinstance(given, (str, os.PathLike)):
        return parameter, given
    path = os.fspath(given)
    try:
        return path, json.loads(Path(given).read_text(encoding="utf-8"))
    except OSError as error:
        raise ParameterError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"{path}: not a JSON file of {content}: {error}") from error


Devices = str | os.PathLike[str] | Mapping[str, Any]
"""Entries by model, or the path of a JSON file of them."""

_FILE: Final = Path(__file__).parent / "devices.json"
_RATES: Final = ("dense_flop_per_s", "sparse_flop_per_s")
_LONGEST_NAME: Final = 200
"""Characters of a name that are matched; no driver gives more."""
_VALUES: Final = ("memory_bytes", "cache_bytes", "bandwidth_bytes_per_s")


@dataclass(frozen=True, slots=True)
class Description:
    """Conditions on a device; None is any value."""

    name: str
    """A regular expression; it is compiled when it is first tried."""
    memory_gb: tuple[float, float] | None = None
    multiprocessors: int | None = None
    compute_capability: str | None = None

    def holds(self, device: Mapping[str, Any]) -> bool | None:
        """Whether a row of `devices` meets them all; None if its size is not known.

        Devices with a name are told apart only by size; those without need all conditions.
        """
        memory, units = device["memory_bytes"], device["multiprocessors"]
        least, most = self.memory_gb or (0, float("inf"))
        if (
            self.compute_capability not in {None, device["compute_capability"]}
            or re.search(self.name, (device["name"] or "")[:_LONGEST_NAME], re.IGNORECASE) is None
            or (memory is not None and not least <= memory / 1e9 <= most)
            or (units is not None and self.multiprocessors not in {None, units})
        ):
            return False
        unknown = (memory is None and self.memory_gb is not None) or (
            units is None and self.multiprocessors is not None
        )
        return not unknown or (None if self.compute_capability is None else False)


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """One model: how it is recognised, its values for columns of `devices`, and its origin."""

    match: tuple[Description, ...]
    columns: Mapping[str, Any]
    is_own: bool = False

    @property
    def has_peaks(self) -> bool:
        """Whether it says how fast anything is; parts of devices do not."""
        return any(name.endswith("_per_s") for name in self.columns)

    def matches(self, device: Mapping[str, Any]) -> bool | None:
        """Whether a row of `devices` has this model; None if it may have."""
        answers = {description.holds(device) for description in self.match}
        return True if True in answers else None if None in answers else False


def fitting(device: Mapping[str, Any], models: Mapping[str, DeviceModel]) -> list[str]:
    """Models that fit a row of `devices`, with the one that it is taken for first.

    Parameters
    ----------
    device
        A row of `devices`.
    models
        Models by their names, in the order in which they are tried.

    Returns
    -------
    list of str
        Names of models: those that it has, then those that it may have, because what distinguishes
        them is not known. A model of the user, or a part of a device, excludes all others.

    Examples
    --------
    >>> t4 = {"name": "Tesla T4", "memory_bytes": None, "multiprocessors": None}
    >>> fitting(t4 | {"compute_capability": None}, models())
    ['NVIDIA T4']
    """
    if models is _builtin_models():
        return [*_builtin_fitting(*(device[name] for name in _DESCRIBED))]
    return _fitting(device, models)


_DESCRIBED: Final = ("name", "memory_bytes", "multiprocessors", "compute_capability")
"""Columns of `devices` that descriptions are about."""


@lru_cache(256)
def _builtin_fitting(*values: Any) -> tuple[str, ...]:
    """Names of the built-in models that fit these values, which few traces have first."""
    return tuple(_fitting(dict(zip(_DESCRIBED, values, strict=True)), _builtin_models()))


def _fitting(device: Mapping[str, Any], models: Mapping[str, DeviceModel]) -> list[str]:
    certain: list[str] = []
    possible: list[str] = []
    for name, model in models.items():
        if possible and not model.is_own and models[possible[0]].is_own:
            break
        answer = model.matches(device)
        if answer and (model.is_own or not model.has_peaks):
            return [name]
        if answer:
            certain.append(name)
        elif answer is None and (model.is_own or model.has_peaks):
            possible.append(name)
    return certain + possible


def models(devices: Devices | None = None) -> Mapping[str, DeviceModel]:
    """Models by their names, in the order in which they are tried.

    Parameters
    ----------
    devices
        Entries of the user's own, tried first. One with the name of a built-in model overrides
        values of that model; ``null`` is an unknown value.

    Returns
    -------
    Mapping of str to Model
        The user's, then the others of ``profframe/facts/devices.json``.

    Raises
    ------
    ParameterError
        The file cannot be read, or an entry does not have the form above; the message says which.

    Examples
    --------
    >>> next(iter(models({"Mine": {"match": [{"name": "^My GPU$"}]}})))
    'Mine'
    """
    if devices is None:
        return _builtin_models()
    builtin = builtin_entries()
    overrides = {
        name: _merged(builtin.get(name, {}), entry) for name, entry in entries(devices).items()
    }
    for name, entry in overrides.items():
        if "match" not in entry:
            raise ParameterError(
                f"devices: {name!r}: there is no such model; a new one needs match"
            )
    own = {name: _model(name, entry, is_own=True) for name, entry in overrides.items()}
    others = {name: model for name, model in _builtin_models().items() if name not in own}
    return MappingProxyType(own | others)


def entries(devices: Devices | None) -> dict[str, dict[str, Any]]:
    """Read a user's own entries.

    Parameters
    ----------
    devices
        Entries by model, or a file of them; None for no entry.

    Returns
    -------
    dict of str to dict
        The entries, checked.

    Raises
    ------
    ParameterError
        The file cannot be read, or an entry does not have the form above.
    """
    source, given = document("devices", devices, "devices")
    if devices is None:
        return {}
    if not isinstance(given, Mapping):
        raise ParameterError(f"{source}: needs an object of entries by model, got {given!r:.60}")
    builtin = builtin_entries() if given else {}
    for name, entry in given.items():
        _check(entry, f"{source}: {name!r}")
        if "match" not in entry and name not in builtin:
            message = UnknownNameError.among("model", str(name), builtin)
            raise ParameterError(f"{source}: {message}; a new one needs the field match")
    return {str(name): _with_peak_names(entry) for name, entry in given.items()}


def _with_peak_names(entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry with rates by profframe's names of peaks."""
    rates = {key: _renamed(entry[key]) for key in _RATES if key in entry}
    return {**entry, **rates}


def _renamed(rates: Mapping[str, Any]) -> dict[str, Any]:
    return {peak_name(dtype, schema.DTYPES): rate for dtype, rate in rates.items()}


@cache
def builtin_entries() -> Mapping[str, Mapping[str, Any]]:
    """Entries of ``profframe/facts/devices.json`` by model, as they are in the file."""
    builtin: dict[str, dict[str, Any]] = json.loads(_FILE.read_text(encoding="utf-8"))
    return MappingProxyType(builtin)


@cache
def _builtin_models() -> Mapping[str, DeviceModel]:
    models = {name: _model(name, entry, is_own=False) for name, entry in builtin_entries().items()}
    return MappingProxyType(models)


def _merged(builtin: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """An entry over the built-in one of its name; rates one by one."""
    rates = {key: {**builtin.get(key, {}), **entry[key]} for key in _RATES if key in entry}
    return {**builtin, **entry, **rates}


def _model(name: str, entry: Mapping[str, Any], *, is_own: bool) -> DeviceModel:
    rates = entry.get("dense_flop_per_s", {})
    values = {key: entry.get(key) for key in _VALUES}
    values |= {f"{dtype}_flop_per_s": rate for dtype, rate in rates.items()}
    columns = {"model": name} | {
        key: float(value) if key.endswith("_per_s") else value
        for key, value in values.items()
        if value is not None
    }
    match = tuple(Description(**{"name": "", **conditions}) for conditions in entry["match"])
    return DeviceModel(match, columns, is_own)


def _is_positive(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 < value < 1e300  # type: ignore[operator]


def _is_whole(value: object) -> bool:
    return type(value) is int and 0 < value < 1 << 63


def _is_rates(value: object) -> bool:
    """Whether it has rates, and none twice by two names of one type."""
    if not isinstance(value, Mapping):
        return False
    try:
        is_distinct = len(_renamed(value)) == len(value)
    except UnknownNameError:
        return False
    return is_distinct and all(rate is None or _is_positive(rate) for rate in value.values())


def _is_range(value: object) -> bool:
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(map(_is_positive, value))


def _is_pattern(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(re.compile(value))
    except re.error:
        return False


def _is_list(value: object) -> bool:
    return isinstance(value, (list, tuple)) and bool(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


_Forms = Mapping[str, tuple[Callable[[object], bool], str]]
_MATCH: Final[_Forms] = MappingProxyType(
    {
        "name": (_is_pattern, "a regular expression"),
        "memory_gb": (_is_range, "[least, most]"),
        "multiprocessors": (_is_whole, "a whole number"),
        "compute_capability": (_is_text, 'text, as "9.0"'),
    }
)
_RATES_FORM: Final = f"rates in FLOP/s by data type, out of {' '.join(schema.DTYPES)}"
_FORMS: Final[_Forms] = MappingProxyType(
    {
        "match": (_is_list, "a list of descriptions"),
        "memory_bytes": (_is_whole, "a whole number of bytes"),
        "cache_bytes": (_is_whole, "a whole number of bytes"),
        "bandwidth_bytes_per_s": (_is_positive, "a number above 0"),
        "dense_flop_per_s": (_is_rates, _RATES_FORM),
        "sparse_flop_per_s": (_is_rates, _RATES_FORM),
        "sources": (lambda value: isinstance(value, Mapping), "an object of fields by link"),
        "comment": (_is_text, "text"),
    }
)
"""Fields of an entry: a check of their values, and the form for the error message."""


def _check(entry: object, source: str, forms: _Forms = _FORMS) -> None:
    """Raise an error for the first field that cannot be used."""
    if not isinstance(entry, Mapping):
        raise ParameterError(f"{source}: needs an object of fields, got {entry!r:.60}")
    for key, value in entry.items():
        if key not in forms:
            raise ParameterError(f"{source}: {UnknownNameError.among('field', str(key), forms)}")
        is_valid, form = forms[key]
        if not is_valid(value) and not (value is None and key in _VALUES):
            raise ParameterError(f"{source}: {key} must be {form}, got {value!r:.60}")
        if key == "match":
            for description in value:
                _check(description, f"{source}: match", _MATCH)
