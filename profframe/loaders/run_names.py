"""Run and rank of a trace."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa

from profframe import schema
from profframe.errors import ParameterError
from profframe.facts.fact import Tables
from profframe.loaders.companion_files import fit_together, own_parts, with_rows_of
from profframe.loaders.programs import Origin, may_differ, names_of_programs, without_stamp
from profframe.loaders.recorded_kernels import with_kernels
from profframe.readers.archives import archive_of, without_suffix
from profframe.readers.build.row_tables import RawTrace
from profframe.readers.formats import JOINED_FORMATS
from profframe.readers.ranks import PLACES, PLAIN, Place, place_of, rank_at, rank_of
from profframe.readers.reading import members_of
from profframe.remote.urls import path_of

RankedFile: TypeAlias = tuple[Path, str | None, str | None]
"""A file of a trace, where its rank is from, and its format."""
_RANK: Final = re.compile(rf"{PLAIN}|(?<![a-z])worker(\d+)", re.IGNORECASE)
_RANK_PART: Final = re.compile(rf"[._-]*(?:{_RANK.pattern})", re.IGNORECASE)
_PLACES_PART: Final = re.compile(rf"[._-]*{PLACES.pattern}")
_ACCELERATE: Final = re.compile(r"profile_(\d+)(\.json(?:\.gz)?)")
"""Name of a file that Accelerate writes; the numbers begin at 0."""
_HANDLER: Final = re.compile(r"(.+)\.\d+\.pt\.trace\.json(?:\.gz)?")
"""Name of a file of torch's ``tensorboard_trace_handler``: a worker, and the time of its cycle."""
_SUFFIX: Final = re.compile(
    r"(?:\.(?:gz|zst|bz2|xz|json|trace|pt|sqlite|sql|nvvp|nvprof|db|pftrace|perfetto-trace))+\Z"
)

_STREAM: Final = re.compile(r"/dev/(stdin|fd/\d+)\Z")


@dataclass(frozen=True, slots=True)
class NamedTrace:
    """One trace with its run and rank; ``is_run_of_path`` if its path alone names the run."""

    path: Path | str
    raw: RawTrace
    run: str
    rank: int
    rank_source: str
    is_run_of_path: bool = False

    @property
    def place(self) -> Path:
        """Its path, also of a URL."""
        return self.path if isinstance(self.path, Path) else Path(path_of(self.path))

    @property
    def start_ns(self) -> int:
        """Start, for the order of the cycles of one run."""
        start: int | None = self.raw.tables["traces"]["start_ns"][0].as_py()
        return start or 0

    @property
    def world_size(self) -> int | None:
        """Number of ranks of its job, if it says."""
        size: int | None = self.raw.tables["traces"]["world_size"][0].as_py()
        return size

    def as_cycle(self, run: str) -> NamedTrace:
        """A copy as a later cycle with its own run; ``quality`` notes it."""
        events = self.raw.tables["events"].num_rows
        note = later_cycle_note(readable(str(self.path)), self.run, self.rank, events)
        quality = pa.concat_tables([self.raw.tables["quality"], note])
        raw = replace(self.raw, tables={**self.raw.tables, "quality": quality})
        return replace(self, raw=raw, run=run)


def later_cycle_note(source: str, run: str, rank: int, events: int) -> pa.Table:
    """Row of ``quality`` for a trace whose run gets a number in its name."""
    detail = f"{source} is run {run!r}, rank {rank} too"
    return schema.quality_rows(("same_run_and_rank", events, detail, None))


def name_trace(
    path: Path, raw: RawTrace, run: str | None = None, rank: int | None = None
) -> NamedTrace:
    """Name a trace by the arguments, else by its header, else by its path."""
    if rank is not None:
        rank_source = "argument"
    elif raw.header.rank is not None:
        rank, rank_source = raw.header.rank, raw.header.rank_source
    elif (path_rank := rank_in_path(path)) is not None:
        rank, rank_source = path_rank, "path"
    else:
        rank, rank_source = 0, "assumed"
    if run is None:
        run = raw.header.run
    if run is not None:
        return NamedTrace(path, raw, run, rank, rank_source)
    run = _run_of(path, is_rank_known=rank_source != "assumed")
    return NamedTrace(path, raw, run, rank, rank_source, is_run_of_path=True)


def known_rank(path: Path, raw: RawTrace, rank: int | None = None) -> int | None:
    """The rank that `name_trace` gives a trace; None where it would be assumed."""
    named = name_trace(path, raw, rank=rank)
    return None if named.rank_source == "assumed" else named.rank


def name_parts(
    path: Path, parts: Sequence[RawTrace], run: str | None = None, rank: int | None = None
) -> list[NamedTrace]:
    """Name the traces of one file: by what it says, else the first as `name_trace` does.

    The others are numbered then.

    Raises
    ------
    ParameterError
        A rank is given for several ranks.
    """
    are_named = len(parts) > 1 and all(raw.header.run is not None for raw in parts)
    are_ranks = len({raw.header.rank for raw in parts} - {None}) == len(parts) > 1
    if rank is not None and (are_named or are_ranks):
        raise ParameterError(
            f"rank: {path} has {len(parts)} traces, with their own ranks; "
            f"to keep one of them: ranks={rank}"
        )
    if are_named:
        return [name_trace(path, raw, run) for raw in parts]
    if are_ranks:
        run = run or _run_of(path, is_rank_known=False)
        return [replace(name_trace(path, raw, run), is_run_of_path=True) for raw in parts]
    first = name_trace(path, parts[0], run, rank)
    source = "argument" if first.rank_source == "argument" else "assumed"
    later = [
        replace(first, raw=raw, run=f"{first.run}.{number}", rank_source=source)
        for number, raw in enumerate(parts[1:], 1)
    ]
    return [first, *later]


def possible_runs(path: Path, rank: int | None = None) -> tuple[str, ...]:
    """Possible runs of a file by its path alone; its header decides.

    Examples
    --------
    >>> possible_runs(Path("/jobs/nightly/rank3.json.gz"))
    ('nightly',)
    >>> possible_runs(Path("/jobs/nightly/trace.json.gz"))
    ('nightly', 'trace')
    """
    run = _run_of(path, is_rank_known=True)
    if rank is not None or rank_in_path(path) is not None:
        return (run,)
    return tuple(dict.fromkeys((run, _run_of(path, is_rank_known=False))))


def origin_of(path: Path, rank: int) -> Origin:
    """The program of a trace, as far as its path says.

    Examples
    --------
    >>> origin_of(Path("/jobs/night_rank3.1694128201545.pt.trace.json"), 3).program
    'night'
    """
    name = readable(_SUFFIX.sub("", path.name))
    program = _PLACES_PART.sub("", name)
    if _accelerate(path) is not None:
        program = ""
    if _RANK.search(name):
        program = without_stamp(_RANK_PART.sub("", name)).strip("._- ")
    return Origin(readable(path.name), name, program, rank)


def readable(text: str) -> str:
    r"""The text of a path as UTF-8, with all other bytes escaped.

    Examples
    --------
    >>> print(readable("a\udcff.json"))
    a\xff.json
    """
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _run_of(path: Path, *, is_rank_known: bool) -> str:
    if stream := _STREAM.search(str(path)):
        return "stdin" if stream[1] in {"stdin", "fd/0"} else "pipe"
    file, folder, above = path.name, *_folders(path)
    match = _RANK.search(folder)
    is_rank_folder = match is not None and match.group() == folder
    run_folder = above if is_rank_folder else folder
    handled = _HANDLER.fullmatch(file)
    own = handled[1] if handled else _SUFFIX.sub("", file)
    run = run_folder if is_rank_known and run_folder else own
    return readable(run or file)


def rank_in_path(path: Path) -> int | None:
    """The rank in the name of a file or of its folder, if it has one."""
    if match := _RANK.search(path.name):
        return rank_of(match)
    if place := place_of(path.name):
        return _rank_at(path, place)
    if (rank := _accelerate(path)) is not None:
        return rank
    return rank_of(_RANK.search(_folders(path)[0]))


def _rank_at(path: Path, place: Place) -> int | None:
    """The rank at a place; on several axes by the files beside it, which tell how long they are."""
    if len(place) == 1:
        return next(iter(place.values()))
    begin = PLACES.split(path.name)[0]
    names = [name for name in _names_beside(path) if name.startswith(begin)]
    return rank_at(place, filter(None, map(place_of, names))) if names else None


def _accelerate(path: Path) -> int | None:
    """The number of a process, if the first one of its job is beside it."""
    match = _ACCELERATE.fullmatch(path.name)
    is_of_job = match is not None and f"profile_0{match[2]}" in _names_beside(path)
    return rank_of(match) if is_of_job else None


def _names_beside(path: Path) -> list[str]:
    """Names in the folder of a file, which may be one of an archive."""
    if archive := archive_of(path):
        return [file.name for file in members_of(archive) if file.parent == path.parent]
    try:
        return os.listdir(absolute(path).parent)  # noqa: PTH208 - paths are slower
    except OSError:
        return []


def is_stray(own: RankedFile, others: Iterable[RankedFile]) -> bool:
    """Whether a trace has a rank, and not in its path, while others of its folder have none.

    Examples
    --------
    >>> lone = (Path("/jobs/a.json"), "distributedInfo", "kineto")
    >>> is_stray(lone, [lone, (Path("/jobs/b.json"), "assumed", "kineto")])
    True
    """
    path, rank_source, _ = own
    if rank_source == "assumed" or rank_in_path(path) is not None:
        return False
    return any(
        source == "assumed"
        and form not in JOINED_FORMATS
        and other != path
        and other.parent == path.parent
        for other, source, form in others
    )


def _folders(path: Path) -> tuple[str, str]:
    parent = absolute(path).parent
    return without_suffix(parent.name), parent.parent.name


def absolute(path: Path) -> Path:
    """The path from the root; links are resolved only in a path with ``..``.

    Examples
    --------
    >>> str(absolute(Path("/jobs/nightly/../rank3.json")))
    '/jobs/rank3.json'
    """
    full = path.absolute()
    return full if ".." not in full.parts else full.parent.resolve() / full.name


def has_trace_suffix(path: Path) -> bool:
    """Whether a file name ends like that of a trace.

    Examples
    --------
    >>> has_trace_suffix(Path("a.json.gz")), has_trace_suffix(Path("README.md"))
    (True, False)
    """
    return _SUFFIX.search(path.name.lower()) is not None


def joined(traces: Sequence[NamedTrace]) -> list[NamedTrace]:
    """Traces, with the tables of a dump or a snapshot added to the trace of its run and rank.

    A dump or a snapshot stays apart if there is not exactly one such trace, or if a table other
    than stacks would be there twice. Records of a flight recorder and of a plugin go together.
    """
    groups: dict[tuple[str, int], list[NamedTrace]] = {}
    for trace in traces:
        groups.setdefault((trace.run, trace.rank), []).append(trace)
    return [trace for group in groups.values() for trace in _joined(group)]


def _joined(group: Sequence[NamedTrace]) -> Sequence[NamedTrace]:
    """Traces of one run and rank."""
    beside = [t for t in group if t.raw.header.format in JOINED_FORMATS]
    traces = [t for t in group if t.raw.header.format not in JOINED_FORMATS]
    if not beside or len(traces) != 1 or not fit_together(own_parts(t.raw.tables) for t in group):
        return group
    tables: Tables = traces[0].raw.tables
    for trace in beside:
        tables = with_rows_of(tables, trace.raw, readable(str(trace.path)))
    tables = with_kernels(tables, traces[0].rank)
    return [replace(traces[0], raw=replace(traces[0].raw, tables=dict(tables)))]


def _by_program(traces: Sequence[NamedTrace]) -> list[NamedTrace]:
    """Traces with the runs of their programs; what a caller or a header names keeps its name."""
    named = [*traces]
    runs: dict[str, list[int]] = {}
    for place, trace in enumerate(traces):
        if trace.is_run_of_path and trace.raw.header.format not in JOINED_FORMATS:
            runs.setdefault(trace.run, []).append(place)
    for run, places in runs.items():
        group = [traces[place] for place in places]
        is_lone = len(group) == 1 and is_stray(_ranked(group[0]), map(_ranked, traces))
        if is_lone or may_differ([t.rank for t in group], [t.world_size for t in group]):
            origins = [_origin(trace) for trace in group]
            names = names_of_programs(run, origins, is_stray=is_lone)
            for place, name in zip(places, names, strict=True):
                named[place] = replace(named[place], run=name)
    return named


def _ranked(trace: NamedTrace) -> RankedFile:
    return absolute(trace.place), trace.rank_source, trace.raw.header.format


def _origin(trace: NamedTrace) -> Origin:
    tables = trace.raw.tables
    return origin_of(trace.place, trace.rank).with_tables(tables["traces"], tables["events"])


def cycles(traces: Sequence[NamedTrace]) -> list[NamedTrace]:
    """Number traces that share run and rank by start: they are cycles of one run, .1, .2, ...

    Traces of separate programs already have different runs here. A dump or a snapshot is joined
    with the trace of its run and rank, if there is exactly one.
    """
    traces = _by_program(traces)
    names = {(t.run, t.rank) for t in traces}
    groups: dict[tuple[str, int], list[NamedTrace]] = {}
    for trace in joined(traces):
        groups.setdefault((trace.run, trace.rank), []).append(trace)
    numbered: list[NamedTrace] = []
    for (run, rank), group in groups.items():
        number = 0
        first, *later = sorted(group, key=lambda t: t.start_ns)
        numbered.append(first)
        for cycle in later:
            number += 1
            while (f"{run}.{number}", rank) in names:
                number += 1
            names.add((f"{run}.{number}", rank))
            numbered.append(cycle.as_cycle(f"{run}.{number}"))
    return numbered
