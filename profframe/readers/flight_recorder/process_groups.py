"""Process groups of a dump, and its rank."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from profframe import schema
from profframe.readers.build.row_tables import repeated

DEFAULT: Final = "default_pg"
"""Description of the group of all ranks."""
_MOST_RANK: Final = 1 << 31
_LONGEST_NAME: Final = 1 << 10
_LONGEST_RANKS: Final = 1 << 20
"""Characters of a list of ranks, of which there are some ten thousand."""
_NAMED_RANK: Final = re.compile(r"(?<![a-z])rank[-_]?(\d{1,9})(?!\d)", re.IGNORECASE)
_ENDINGS: Final = re.compile(
    r"(?:\.(?:gz|zst|json|pkl|pickle|bin|dump|trace|fr))+\Z", re.IGNORECASE
)
_LAST_NUMBER: Final = re.compile(r"(?<!\d)(\d{1,6})\Z")
_PEERS: Final = re.compile(r":(send|recv) (\d{1,9})(?:->|<-)(\d{1,9})\Z")

Ranks = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """One process group; None for what the dump does not say."""

    name: str | None
    description: str | None = None
    ranks: Ranks | None = None
    status: tuple[int | None, int | None, int | None] = (None, None, None)
    """Numbers of the last collectives that were enqueued, started and completed."""


@dataclass(frozen=True, slots=True)
class Groups:
    """The process groups of a dump, by name, in the order in which the dump names them."""

    by_name: Mapping[str | None, Group]
    unnamed: Mapping[str | None, Any]
    """The configuration under the empty name."""

    @staticmethod
    def of(dump: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> Groups:
        """The groups that have a configuration, an entry or a status.

        gloo gives every group the empty name. The configuration of that name is the one of the
        group of all ranks, if the dump knows no other.
        """
        config, status = _object(dump.get("pg_config")), _object(dump.get("pg_status"))
        groups: dict[str | None, Group] = {}
        lists = _Lists()
        for key, value in config.items():
            member = _object(value)
            name = text(member.get("name")) or text(key)
            if name:
                ranks = lists.ranks(member.get("ranks"))
                groups[name] = Group(name, text(member.get("desc")), ranks)
        names: dict[str | None, str | None] = {}
        for entry in entries:
            name, description = names_of(entry)
            names.setdefault(_label(entry.get("pg_id")), name)
            group = groups.setdefault(name, Group(name, description))
            if group.description is None and description is not None:
                groups[name] = Group(name, description, group.ranks)
        for key, value in status.items():
            number = _label(key)
            name = names.get(number, number)
            group = groups.get(name, Group(name))
            member = _object(value)
            last = tuple(_sequence(member.get(f"last_{word}_collective")) for word in _STATUS)
            groups[name] = Group(name, group.description, group.ranks, (last[0], last[1], last[2]))
        unnamed = {_label(key): value for key, value in config.items() if not text(key)}
        ranks = lists.ranks(_object(unnamed.get("")).get("ranks"))
        if ranks is not None and [group.ranks for group in groups.values()] == [None]:
            ((name, group),) = groups.items()
            if group.description in {DEFAULT, None}:
                groups[name] = replace(group, ranks=ranks)
        return Groups(MappingProxyType(groups), MappingProxyType(unnamed))

    @property
    def world_size(self) -> int | None:
        """Number of ranks in the default group, if the dump says it."""
        sizes = [
            len(group.ranks)
            for group in self.by_name.values()
            if group.ranks is not None and group.description == DEFAULT
        ]
        return sizes[0] if sizes else None

    def table(self) -> pa.Table:
        """Rows of ``process_groups``."""
        groups = self.by_name.values()
        texts = Listed()
        last = zip(*(group.status for group in groups), strict=True) if groups else ((), (), ())
        columns: dict[str, Any] = {
            "process_group": repeated(group.name for group in groups),
            "process_group_description": repeated(group.description for group in groups),
            "group_ranks": repeated(texts.of(group.ranks) for group in groups),
            "group_size": [None if group.ranks is None else len(group.ranks) for group in groups],
            **dict(zip((f"last_{word}_seq" for word in _STATUS), last, strict=True)),
        }
        fields = pa.schema([*schema.PROCESS_GROUPS.arrow][2:])
        return pa.table({f.name: pa.array(columns[f.name], f.type) for f in fields}, fields)


_STATUS: Final = ("enqueued", "started", "completed")


def names_of(entry: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Name and description of an entry's group."""
    pair = entry.get("process_group")
    if isinstance(pair, (tuple, list)) and pair:
        return text(pair[0]), text(pair[1]) if len(pair) > 1 else None
    return _label(entry.get("pg_id")), None


class Listed:
    """Ranks as JSON text without spaces; the text of those that groups share is made once."""

    def __init__(self) -> None:
        self._texts: dict[int, tuple[Ranks, str]] = {}

    def of(self, ranks: Ranks | None) -> str | None:
        """The text of some ranks."""
        if ranks is None:
            return None
        if id(ranks) not in self._texts:
            self._texts[id(ranks)] = ranks, json.dumps(ranks, separators=(",", ":"))
        return self._texts[id(ranks)][1]


def peers(name: object) -> tuple[str, int, int] | None:
    """Whether it is a send or receive, its own rank in the group and that of its peer.

    Examples
    --------
    >>> peers("nccl:send 1->2"), peers("nccl:recv 3<-0"), peers("nccl:all_reduce")
    (('send', 1, 2), ('recv', 3, 0), None)
    """
    match = _PEERS.search(name) if (name := short_name(name)) is not None else None
    return None if match is None else (match[1], int(match[2]), int(match[3]))


def rank_in_name(path: Path, groups: Groups) -> int | None:
    """The rank in a file's name: after the word "rank", else the number at its end.

    torch writes ``<prefix><rank>``. A number at the end that is in none of the groups with known
    ranks is not a rank.
    """
    for name in (path.name, path.absolute().parent.name):
        if match := _NAMED_RANK.search(name):
            rank = int(match[1])
            return rank if 0 <= rank < _MOST_RANK else None
        match = _LAST_NUMBER.search(_ENDINGS.sub("", name)) if name == path.name else None
        if match:
            rank = int(match[1])
            members = _distinct(groups)
            if not members or any(rank in ranks for ranks in members):
                return rank
    return None


def own_rank(groups: Groups, entries: Sequence[Mapping[str, Any]]) -> int | None:
    """The rank of a dump from its content: its sends and receives, or only its groups.

    A process has only groups that it belongs to: if exactly one rank is in all of them, it is that.
    """
    for entry in entries:
        ranks = group_ranks(groups, entry)
        both = peers(entry.get("profiling_name"))
        if both is not None and ranks is not None and both[1] < len(ranks):
            return ranks[both[1]]
    members = _distinct(groups)
    common: set[int] = reduce(set.intersection, members[1:], set(members[0])) if members else set()
    return min(common) if len(common) == 1 else None


def group_ranks(groups: Groups, entry: Mapping[str, Any]) -> Ranks | None:
    """The ranks in an entry's group, if they are known."""
    group = groups.by_name.get(names_of(entry)[0])
    return None if group is None else group.ranks


def text(value: object) -> str | None:
    """The value if it is text, else None."""
    return value if isinstance(value, str) else None


def short_name(value: object) -> str | None:
    """The name of an operation, which is looked at for each record; else None."""
    return value if isinstance(value, str) and len(value) <= _LONGEST_NAME else None


def _label(value: object) -> str | None:
    """Text, also of a number; else None."""
    return str(value) if isinstance(value, (str, int)) else None


def _distinct(groups: Groups) -> list[Ranks]:
    """The lists of ranks, each once if groups share it."""
    return [
        *{id(group.ranks): group.ranks for group in groups.by_name.values() if group.ranks}.values()
    ]


class _Lists:
    """Lists of ranks; one that groups share is looked at once."""

    def __init__(self) -> None:
        self._ranks: dict[int, tuple[object, Ranks | None]] = {}

    def ranks(self, value: object) -> Ranks | None:
        """A list of ranks, also from text; None for an empty one, which gloo writes."""
        if id(value) not in self._ranks:
            self._ranks[id(value)] = value, _ranks(value)
        return self._ranks[id(value)][1]


def _object(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _ranks(value: object) -> Ranks | None:
    if isinstance(value, str) and len(value) <= _LONGEST_RANKS:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if not isinstance(value, (list, tuple)) or not value:
        return None
    is_sound = all(type(rank) is int and 0 <= rank < _MOST_RANK for rank in value)
    return tuple(value) if is_sound else None


def _sequence(value: object) -> int | None:
    """A number, also from text; None for -1, which means none yet."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        value = int(value)
    return value if type(value) is int and 0 <= value < 1 << 63 else None
