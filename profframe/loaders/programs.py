"""Programs: which traces belong to one, and run names for those that do not."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema

_STAMP: Final = re.compile(r"[._-]\d{9,}(?!\d)")
"""The time in the name that torch gives a file: ``<worker>.<time>.pt.trace.json``."""

ORIGIN_COLUMNS: Final = ("world_size", "clock", "start_ns", "end_ns", "metadata")
"""Columns of `traces` that say something about the program."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The process that a trace was recorded in, as far as the trace says.

    Attributes
    ----------
    file : str
        Name of the file.
    name : str
        The same without suffixes: the run of a file of which nothing else is known.
    program : str
        ``name`` without rank, and without the time if it has a rank: the same for all ranks.
    rank : int
        Rank.
    world_size : int, optional
        Number of ranks of its job.
    host : str, optional
        Machine.
    pids : frozenset of str
        Processes with slices of the host.
    span : tuple of int, optional
        Start and end in nanoseconds since the epoch; None for other clocks.
    """

    file: str
    name: str
    program: str
    rank: int
    world_size: int | None = None
    host: str | None = None
    pids: frozenset[str] = frozenset()
    span: tuple[int, int] | None = None

    def with_tables(self, traces: pa.Table, events: pa.Table) -> Origin:
        """The origin completed from the tables of the trace."""
        row = traces.select([*ORIGIN_COLUMNS]).slice(0, 1).to_pylist()[0]
        start, end = row["start_ns"], row["end_ns"]
        is_dated = row["clock"] == "utc" and start is not None and end is not None
        return replace(
            self,
            world_size=row["world_size"],
            host=_host(row["metadata"]),
            pids=_host_pids(events),
            span=(start, end) if is_dated else None,
        )

    @property
    def worker(self) -> str | None:
        """The name of the worker, if torch named the file: host and process by default."""
        worker = without_stamp(self.name)
        return worker if worker and worker != self.name else None


def without_stamp(name: str) -> str:
    """The name of a file without the time that torch writes into it.

    Examples
    --------
    >>> without_stamp("host_1234.1694128201545")
    'host_1234'
    """
    return _STAMP.sub("", name)


def names_of_programs(run: str, origins: Sequence[Origin], *, is_stray: bool = False) -> list[str]:
    """Runs of traces that have one run by what they and their paths say.

    Traces keep that run if they are ranks and cycles of one program, and not a stray among others.
    Else each is named after its file: so the ranks of a job still share a run if other jobs have
    files in the same folder.

    Examples
    --------
    >>> names_of_programs("jobs", [Origin("a.json", "a", "a", 0), Origin("b.json", "b", "b", 0)])
    ['a', 'b']
    """
    if not is_stray and is_one_program(origins):
        return [run] * len(origins)
    names = [origin.program or run for origin in origins]
    for name in dict.fromkeys(names):
        places = [place for place, own in enumerate(names) if own == name]
        group = [origins[place] for place in places]
        files = {origin.file for origin in group}
        if len(files) == len(group) > 1 and not is_one_program(group):
            for place in places:
                names[place] = origins[place].file
    return names


def may_differ(ranks: Sequence[int], world_sizes: Iterable[int | None]) -> bool:
    """Whether traces of one run need a closer look: one rank twice, or several sizes of a job."""
    return len(set(ranks)) < len(ranks) or len({*world_sizes} - {None}) > 1


def is_one_program(origins: Sequence[Origin]) -> bool:
    """Whether traces may be ranks of one job, and those of one rank cycles of one process."""
    if len({origin.world_size for origin in origins} - {None}) > 1:
        return False
    ranks: dict[int, list[Origin]] = {}
    for origin in origins:
        ranks.setdefault(origin.rank, []).append(origin)
    return all(_are_cycles(group) for group in ranks.values())


def _are_cycles(origins: Iterable[Origin]) -> bool:
    """Whether each continues the one before it."""
    ordered = sorted(origins, key=lambda origin: origin.span or (0, 0))
    return all(_is_next(one, other) for one, other in pairwise(ordered))


def _is_next(one: Origin, other: Origin) -> bool:
    """Whether a trace may be a later cycle of the process of another one.

    Torch names files of one worker alike, also when the program was started again.
    """
    if _overlap(one, other) or (one.host and other.host and one.host != other.host):
        return False
    if one.worker is not None and one.worker == other.worker:
        return True
    if one.pids and other.pids:
        return not one.pids.isdisjoint(other.pids)
    return one.program == other.program


def _overlap(one: Origin, other: Origin) -> bool:
    """Whether more than half of the shorter trace was recorded while the other one was."""
    if one.span is None or other.span is None:
        return False
    common = min(one.span[1], other.span[1]) - max(one.span[0], other.span[0])
    return 2 * common > min(end - start for start, end in (one.span, other.span))


def _host(metadata: str | None) -> str | None:
    try:
        host = json.loads(metadata or "{}").get("host_name")
    except (ValueError, AttributeError, RecursionError):
        return None
    return host if isinstance(host, str) and host else None


def _host_pids(events: pa.Table) -> frozenset[str]:
    """Processes with slices of the host."""
    kinds = pa.array(sorted(schema.HOST_KINDS), pa.string())
    is_host = pc.is_in(events["kind"].cast(pa.string()), kinds)
    pids = pc.unique(events["pid"].filter(is_host)).drop_null()
    return frozenset(pids.cast(pa.string()).to_pylist())
