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

DEFAULT: Final = "default_pg"
"""Description of the group of all ranks."""
_MOST_RANK: Final = 1 << 31
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
    unnamed: Mapping[str, Any]
    """The configuration under the empty name."""

    @staticmethod
    def of(dump: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]) -> Groups:
        """The groups that have a configuration, an entry or a status.

        gloo gives all of them the empty name: the configuration there is that of the group of all
        ranks, if the dump knows no other.
        """
        config, status = _object(dump.get("pg_config")), _object(dump.get("pg_status"))
        groups: dict[str | None, Group] = {}
        for key, value in config.items():
            member = _object(value)
            name = text(member.get("name")) or text(key)
            if name:
                groups[name] = Group(name, text(member.get("desc")), _ranks(member.get("ranks")))
        names: dict[str, str | None] = {}
        for entry in entries:
            name, description = names_of(entry)
            names.setdefault(str(entry.get("pg_id")), name)
            group = groups.setdefault(name, Group(name, description))
            if group.description is None and description is not None:
                groups[name] = Group(name, description, group.ranks)
        for key, value in status.items():
            number = str(key)
            name = names.get(number, number)
            group = groups.get(name, Group(name))
            member = _object(value)
            last = tuple(_sequence(member.get(f"last_{word}_collective")) for word in _STATUS)
            groups[name] = Group(name, group.description, group.ranks, (last[0], last[1], last[2]))
        unnamed = {str(key): value for key, value in config.items() if not text(key)}
        ranks = _ranks(_object(unnamed.get("")).get("ranks"))
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
        rows = [
            {
                "process_group": group.name,
                "process_group_description": group.description,
                "group_ranks": None if group.ranks is None else listed(group.ranks),
                "group_size": None if group.ranks is None else len(group.ranks),
                "last_enqueued_seq": group.status[0],
                "last_started_seq": group.status[1],
                "last_completed_seq": group.status[2],
            }
            for group in self.by_name.values()
        ]
        return pa.Table.from_pylist(rows, pa.schema([*schema.PROCESS_GROUPS.arrow][2:]))


_STATUS: Final = ("enqueued", "started", "completed")


def names_of(entry: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """Name and description of an entry's group."""
    pair = entry.get("process_group")
    if isinstance(pair, (tuple, list)) and pair:
        return text(pair[0]), text(pair[1]) if len(pair) > 1 else None
    number = entry.get("pg_id")
    return (None if number is None else str(number)), None


def listed(values: object) -> str:
    """A list as JSON text without spaces."""
    return json.dumps(values, separators=(",", ":"))


def peers(name: object) -> tuple[str, int, int] | None:
    """Whether it is a send or receive, its own rank in the group and that of its peer.

    Examples
    --------
    >>> peers("nccl:send 1->2"), peers("nccl:recv 3<-0"), peers("nccl:all_reduce")
    (('send', 1, 2), ('recv', 3, 0), None)
    """
    match = _PEERS.search(name) if isinstance(name, str) else None
    return None if match is None else (match[1], int(match[2]), int(match[3]))


def rank_in_name(path: Path, groups: Groups) -> int | None:
    """The rank in a file's name: after the word "rank", else the number at its end.

    torch writes ``<prefix><rank>``. A number at the end that is in none of the groups with known
    ranks is not a rank.
    """
    for name in (path.name, path.absolute().parent.name):
        if match := _NAMED_RANK.search(name):
            return _in_range(int(match[1]))
        match = _LAST_NUMBER.search(_ENDINGS.sub("", name)) if name == path.name else None
        if match:
            rank = int(match[1])
            members = [group.ranks for group in groups.by_name.values() if group.ranks]
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
    members = [set(group.ranks) for group in groups.by_name.values() if group.ranks]
    common: set[int] = reduce(set.intersection, members) if members else set()
    return min(common) if len(common) == 1 else None


def group_ranks(groups: Groups, entry: Mapping[str, Any]) -> Ranks | None:
    """The ranks in an entry's group, if they are known."""
    group = groups.by_name.get(names_of(entry)[0])
    return None if group is None else group.ranks


def text(value: object) -> str | None:
    """The value if it is text, else None."""
    return value if isinstance(value, str) else None


def _object(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _in_range(rank: int) -> int | None:
    return rank if 0 <= rank < _MOST_RANK else None


def _ranks(value: object) -> Ranks | None:
    """A list of ranks, also from text; None for an empty one, which gloo writes."""
    if isinstance(value, str):
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
