"""Manifests of a store's folders, with every value checked.

A store may come from anybody, and its manifests decide what is shown and deleted. So a value of
another type than profframe writes, or a name of another form, is an error.
"""

from __future__ import annotations

import json
import re
import reprlib
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeVar

from profframe import schema
from profframe.errors import StoreError
from profframe.remote.trees import remote

Key = tuple[str, int]
"""Run and rank."""
Item = TypeVar("Item")

NAME: Final = "manifest.json"
_OPTIONAL: Final = {f"{name}.parquet".encode(): name for name in schema.OPTIONAL_TABLES}
PACK: Final = "pack-"
MOST_RANK: Final = 2**31 - 1
_MOST: Final = 2**63 - 1
_FOLDER: Final = re.compile(r"run=[\w.%~-]*/rank=(0|[1-9][0-9]*)", re.ASCII)
_PACK: Final = re.compile(r"pack-([0-9]+)(-[0-9a-f]+)?", re.ASCII)
_IDENTITY: Final = re.compile(r"[0-9]+-[0-9]+", re.ASCII)
_FILE: Final = re.compile(r"[a-z_]+\.parquet", re.ASCII)
_SHA256: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was written."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Manifest of a folder; empty for a folder without one."""

    files: Mapping[str, File] = field(default_factory=dict)
    members: Mapping[Key, int] | None = None
    """Events of each (run, rank) of a pack; None where it does not list them."""
    replaces: Mapping[str, str] = field(default_factory=dict)
    """Identity by name of folders that it replaces; empty for packs."""


def read(folder: Path) -> Manifest:
    """Read the manifest of a folder.

    Parameters
    ----------
    folder
        A folder of a store.

    Returns
    -------
    Manifest
        Its values; an empty one for a folder without a manifest.

    Raises
    ------
    StoreError
        It cannot be read, or is not as profframe writes it.

    Examples
    --------
    >>> read(Path("no/such/folder")).members is None
    True
    """
    file = folder / NAME
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise StoreError(f"{file}: not a file")
        content = json.loads(file.read_bytes(), parse_constant=_no_number)
    except FileNotFoundError:
        return Manifest()
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{file}: cannot be read: {error}") from error
    try:
        entries = _object(content, "it")
        return Manifest(
            _checked(entries.get("files", {}), "files", _file),
            None if "members" not in entries else _members(entries["members"]),
            _checked(entries.get("replaces", {}), "replaces", _check_replaced(folder.name)),
        )
    except (TypeError, ValueError) as error:
        raise StoreError(f"{file}: not a profframe manifest: {error}") from error


def optional_tables(content: bytes) -> frozenset[str]:
    """Optional tables that the text of a manifest lists.

    Most manifests list none, which shows without parsing.

    Raises
    ------
    ValueError, RecursionError
        It is not a manifest.

    Examples
    --------
    >>> optional_tables(b'{"files": {"events.parquet": {}, "nodes.parquet": {}}}')
    frozenset({'nodes'})
    """
    if not any(name in content for name in _OPTIONAL):
        return frozenset()
    value = json.loads(content, parse_constant=_no_number)
    listed = value.get("files") if isinstance(value, dict) else None
    if not isinstance(listed, dict):
        raise ValueError("no files in it")  # noqa: TRY004 - the text is wrong, not an argument
    return frozenset(table for name, table in _OPTIONAL.items() if name.decode() in listed)


def optional_in(folder: Path) -> frozenset[str]:
    """Optional tables that the manifest of a folder lists; none without a manifest.

    Raises
    ------
    StoreError
        It cannot be read.
    """
    file = f"{folder}/{NAME}"
    try:
        if remote(folder) is not None:
            return optional_tables((folder / NAME).read_bytes())
        with open(file, "rb", buffering=0) as stream:  # noqa: PTH123 - each folder pays for it
            return optional_tables(stream.read())
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError, RecursionError) as error:
        raise StoreError(f"{file}: cannot be read: {error}") from error


def is_name(name: str) -> bool:
    """Whether a folder's name in a store has a form that profframe writes.

    Examples
    --------
    >>> [is_name(name) for name in ("run=a%2Fb/rank=0", "pack-000001-0a1b2c3d", "../other")]
    [True, True, False]
    """
    return bool(_FOLDER.fullmatch(name) or _PACK.fullmatch(name))


def age(pack: str) -> tuple[int, str]:
    """Sort key of a pack's name: a later pack has a greater one.

    Examples
    --------
    >>> age("pack-000010-ff") > age("pack-000009-00") > age("pack-of-another")
    True
    """
    match = _PACK.fullmatch(pack)
    return int(match[1]) if match else -1, pack


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _object(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{what} is {reprlib.repr(value)}, not an object")
    return value


def _checked(value: object, what: str, check: Callable[[str, object], Item]) -> Mapping[str, Item]:
    entries = _object(value, what)
    return MappingProxyType({name: check(name, entry) for name, entry in entries.items()})


def _file(name: str, value: object) -> File:
    if not _FILE.fullmatch(name):
        raise ValueError(f"files names {reprlib.repr(name)}, not a table's file")
    entry = _object(value, name)
    digest = entry.get("sha256")
    if not isinstance(digest, str) or not _SHA256.fullmatch(digest):
        raise ValueError(f"{name} has a sha256 of {reprlib.repr(digest)}")
    return File(_number(entry.get("bytes"), f"bytes of {name}", _MOST), digest)


def _members(value: object) -> Mapping[Key, int]:
    if not isinstance(value, list):
        raise TypeError(f"members is {reprlib.repr(value)}, not a list")
    events: dict[Key, int] = {}
    for item in value:
        member = _object(item, "a member")
        key = _run(member.get("run")), _number(member.get("rank"), "a member's rank", MOST_RANK)
        if key in events:
            raise ValueError(f"run {reprlib.repr(key[0])}, rank {key[1]} is a member twice")
        events[key] = _number(member.get("events"), "a member's number of events", _MOST)
    return MappingProxyType(events)


def _run(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a member's run is {reprlib.repr(value)}, not text")
    value.encode()
    return value


def _number(value: object, what: str, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{what} is {reprlib.repr(value)}, not an integer up to {most}")
    return value


def _check_replaced(pack: str) -> Callable[[str, object], str]:
    """A check of a name that a pack replaces: an earlier pack, or a folder with its identity."""

    def check(name: str, value: object) -> str:
        if not is_name(name):
            raise ValueError(f"it replaces {reprlib.repr(name)}, which is not a folder of a store")
        is_pack = name.startswith(PACK)
        if is_pack and age(name) >= age(pack):
            raise ValueError(f"it replaces {name}, which is later than itself")
        is_identity = value == "" if is_pack else _IDENTITY.fullmatch(str(value))
        if not isinstance(value, str) or not is_identity:
            raise ValueError(f"it replaces {name} as it was at {reprlib.repr(value)}")
        return value

    return check
