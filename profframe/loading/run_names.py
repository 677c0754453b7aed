"""Which run and which rank a trace is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from profframe import schema
from profframe.readers import RawTrace

_RANK: Final = re.compile(r"(?<![a-z])(?:rank[-_]?|worker)(\d+)", re.IGNORECASE)
_SUFFIX: Final = re.compile(r"(?:\.(?:gz|zst|json|trace|pt|sqlite|sql|nvvp|nvprof|db))+\Z")

_STREAM: Final = re.compile(r"/dev/(stdin|fd/\d+)\Z")


@dataclass(frozen=True, slots=True)
class Named:
    """One trace with its name."""

    path: Path | str
    raw: RawTrace
    run: str
    rank: int
    rank_source: str

    @property
    def start_ns(self) -> int:
        """Start, for the order of the cycles of one run."""
        start: int | None = self.raw.tables["traces"]["start_ns"][0].as_py()
        return start or 0

    def renamed(self, run: str) -> Named:
        """The same trace as a later cycle, with a run of its own; ``quality`` says so."""
        events = self.raw.tables["events"].num_rows
        note = later_cycle(readable(str(self.path)), self.run, self.rank, events)
        joined = pa.concat_tables([self.raw.tables["quality"], note])
        raw = replace(self.raw, tables={**self.raw.tables, "quality": joined})
        return replace(self, raw=raw, run=run)


def later_cycle(source: str, run: str, rank: int, events: int) -> pa.Table:
    """What ``quality`` has of a trace whose run has a number added to its name."""
    detail = f"{source} is run {run!r}, rank {rank} too"
    return schema.quality_rows(("same_run_and_rank", events, detail, None))


def named(path: Path, raw: RawTrace, run: str | None = None, rank: int | None = None) -> Named:
    """Run and rank: what is given, else what the trace says, else what its path says."""
    if rank is not None:
        rank_source = "argument"
    elif raw.header.rank is not None:
        rank, rank_source = raw.header.rank, raw.header.rank_source
    elif (in_path := _rank_in(path)) is not None:
        rank, rank_source = in_path, "path"
    else:
        rank, rank_source = 0, "assumed"
    if run is None:
        run = _run_of(path, is_rank_known=rank_source != "assumed")
    return Named(path, raw, run, rank, rank_source)


def possible_runs(path: Path, rank: int | None = None) -> tuple[str, ...]:
    """Runs that a file can be of, by its path alone; which one, its header says.

    Examples
    --------
    >>> possible_runs(Path("/jobs/nightly/rank3.json.gz"))
    ('nightly',)
    >>> possible_runs(Path("/jobs/nightly/trace.json.gz"))
    ('nightly', 'trace')
    """
    known = _run_of(path, is_rank_known=True)
    if rank is not None or _rank_in(path) is not None:
        return (known,)
    return tuple(dict.fromkeys((known, _run_of(path, is_rank_known=False))))


def readable(text: str) -> str:
    r"""The text of a path with bytes that are no UTF-8 written out, as a table can hold it.

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
    in_folder = _RANK.search(folder)
    is_rank_folder = in_folder is not None and in_folder.group() == folder
    called = above if is_rank_folder else folder
    run = called if is_rank_known and called else _SUFFIX.sub("", file)
    return readable(run or file)


def _rank_in(path: Path) -> int | None:
    found = _RANK.search(path.name) or _RANK.search(_folders(path)[0])
    rank = int(found.group(1)) if found else None
    return rank if rank is None or rank < 1 << 31 else None


def _folders(path: Path) -> tuple[str, str]:
    parent = whole(path).parent
    return parent.name, parent.parent.name


def whole(path: Path) -> Path:
    """The path from the root; links stay, but where the path goes up (``..``) from one.

    Examples
    --------
    >>> str(whole(Path("/jobs/nightly/../rank3.json")))
    '/jobs/rank3.json'
    """
    absolute = path.absolute()
    if ".." not in absolute.parts:
        return absolute
    return absolute.parent.resolve() / absolute.name


def is_named_like_a_trace(path: Path) -> bool:
    """Whether a file ends as traces do.

    Examples
    --------
    >>> is_named_like_a_trace(Path("a.json.gz")), is_named_like_a_trace(Path("README.md"))
    (True, False)
    """
    return _SUFFIX.search(path.name.lower()) is not None


def cycles(traces: Sequence[Named]) -> list[Named]:
    """Traces that share run and rank are cycles of one run: by start, the later are .1, .2."""
    taken = {(t.run, t.rank) for t in traces}
    groups: dict[tuple[str, int], list[Named]] = {}
    for trace in traces:
        groups.setdefault((trace.run, trace.rank), []).append(trace)
    renamed: list[Named] = []
    for (run, rank), of_run in groups.items():
        number = 0
        first, *later = sorted(of_run, key=lambda t: t.start_ns)
        renamed.append(first)
        for cycle in later:
            number += 1
            while (f"{run}.{number}", rank) in taken:
                number += 1
            taken.add((f"{run}.{number}", rank))
            renamed.append(cycle.renamed(f"{run}.{number}"))
    return renamed
