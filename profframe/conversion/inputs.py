"""Files to convert, and their possible names by their paths alone."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from profframe.errors import ParameterError, ProfframeError, SourceError, without_secrets
from profframe.loaders.discovery import trace_files
from profframe.loaders.run_names import (
    absolute,
    has_trace_suffix,
    origin_of,
    possible_runs,
    readable,
)
from profframe.readers.bytes import is_pipe
from profframe.remote.file_systems import files_of
from profframe.remote.urls import is_url, local_path, path_of

_PARTS: Final = re.compile(r"(\{[^{}]*\}|\*)")
_MOST_RANKS: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern, compiled.

    ``{run}`` matches text and ``{rank}`` digits within one folder's or file's name, ``*`` anything
    there. The pattern matches the end of a path, or all of it if it starts with ``/``.

    Examples
    --------
    >>> Pattern.of("{run}/rank{rank}.json.gz").names("/jobs/nightly/rank3.json.gz")
    ('nightly', 3)
    >>> Pattern.of("{run}_*.json").names("/jobs/a_b_c.json")
    ('a_b', None)
    """

    text: str
    expression: re.Pattern[str]

    @classmethod
    def of(cls, text: str) -> Pattern:
        """Compile a pattern."""
        parts: set[str] = set()
        regex: list[str] = []
        for part in filter(None, _PARTS.split(text)):
            regex.append(_expression(text, part, parts, after=regex[-1] if regex else ""))
            parts.add(part)
        if not parts & {"{run}", "{rank}"}:
            raise ParameterError(
                f"pattern {text!r} has neither {{run}} nor {{rank}}, unlike "
                "'{run}/rank{rank}.json.gz'"
            )
        start = "" if text.startswith("/") else "(?:.*/)?"
        return cls(text, re.compile(start + "".join(regex), re.DOTALL))

    def has(self, name: str) -> bool:
        """Whether it names the run, or the rank."""
        return name in self.expression.groupindex

    def names(self, path: str) -> tuple[str | None, int | None]:
        """Run and rank of a path; None for what the pattern does not name."""
        match = self.expression.fullmatch(path)
        if match is None:
            raise SourceError(f"{path}: does not match the pattern {self.text!r}")
        groups = match.groupdict()
        digits = groups.get("rank")
        if digits is not None and not (len(digits) <= 10 and int(digits) < _MOST_RANKS):
            raise SourceError(
                f"{path}: {digits} is not a rank: a rank is from 0 to {_MOST_RANKS - 1}"
            )
        return groups.get("run"), None if digits is None else int(digits)


def _expression(text: str, part: str, earlier: set[str], after: str) -> str:
    if part == "*":
        return "[^/]*"
    if part in earlier and part in {"{run}", "{rank}"}:
        return f"(?P={part[1:-1]})"
    if part == "{run}":
        return "(?P<run>[^/]+)"
    if part == "{rank}":
        is_after_any_text = after.endswith(("+)", "]*"))
        return f"{'(?<![0-9])' if is_after_any_text else ''}(?P<rank>[0-9]+)"
    if part.startswith("{"):
        raise ParameterError(f"pattern {text!r}: {part} is unknown; there are {{run}} and {{rank}}")
    return re.escape(part)


Source = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Item:
    """One file to convert.

    ``source`` is its absolute path or its URL; ``run`` and ``rank`` are from the caller or a
    pattern. ``error`` is why it cannot be converted, if that is clear already. A file from a folder
    or a glob whose name does not look like that of a trace is not ``is_required``. A pipe has a
    unique ``name``.
    """

    source: str = field(repr=False)
    size: int = 0
    run: str | None = None
    rank: int | None = None
    rank_is_in_path: bool = False
    is_required: bool = True
    error: str | None = None
    name: str | None = None

    @property
    def key(self) -> str:
        """Its source as text for tables, without secrets of a URL."""
        return without_secrets(readable(self.name or self.source))

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs that it may have."""
        return (self.run,) if self.run is not None else possible_runs(self.path, self.rank)

    @property
    def path(self) -> Path:
        """Its path, also of a URL."""
        return Path(path_of(self.source))

    def other_runs(self, rank: int) -> tuple[str, ...]:
        """Runs that it has among other files: its folder, and names of its program."""
        if self.run is not None:
            return ()
        origin = origin_of(self.path, rank)
        return (possible_runs(self.path)[0], origin.program, origin.file)

    def with_names(self, run: str | None, rank: int | None, pattern: Pattern | None) -> Item:
        """The item named by the caller or a pattern."""
        if pattern is None:
            return replace(self, run=run, rank=rank)
        if self.error is not None:
            return self
        try:
            path_run, path_rank = pattern.names(readable(path_of(self.source)))
        except SourceError as error:
            return replace(self, error=str(error))
        return replace(
            self,
            run=run if path_run is None else path_run,
            rank=rank if path_rank is None else path_rank,
            rank_is_in_path=path_rank is not None,
        )


def items(
    sources: Sequence[Source],
    run: str | None = None,
    rank: int | None = None,
    pattern: Pattern | None = None,
) -> list[Item]:
    """All files of the sources, each once.

    A source without files is an item with an error.
    """
    for name, value in (("run", run), ("rank", rank)):
        if pattern is not None and pattern.has(name) and value is not None:
            raise ParameterError(
                f"the {name} is given both as an argument and in the pattern {pattern.text!r}"
            )
    by_source: dict[str, Item] = {}
    errors: list[Exception] = []
    for source in sources:
        try:
            for item in _expanded(source):
                by_source.setdefault(item.source, item)
        except ParameterError:
            raise
        except (ProfframeError, OSError) as error:
            errors.append(error)
            by_source[os.fspath(source)] = Item(os.fspath(source), error=str(error))
    if errors and all(item.error for item in by_source.values()):
        raise errors[0]
    if not by_source:
        raise SourceError("nothing to convert: the list of sources is empty")
    return [item.with_names(run, rank, pattern) for item in by_source.values()]


def as_list(sources: Source | Iterable[Source]) -> list[Source]:
    """One source or several, checked."""
    is_one = isinstance(sources, (str, bytes, os.PathLike)) or not isinstance(sources, Iterable)
    paths = [sources] if is_one else list(sources)  # type: ignore[arg-type]
    for source in paths:
        if not isinstance(source, (str, os.PathLike)) or not os.fspath(source):
            raise ParameterError(f"a source is a path, a URL or several of them, not {source!r}")
    return paths  # type: ignore[return-value]


def _expanded(source: Source) -> Iterator[Item]:
    if isinstance(source, str) and is_url(source):
        local = local_path(source)
        if local is None:
            for file in files_of(source):
                is_required = file.is_named or has_trace_suffix(Path(path_of(file.url)))
                yield Item(file.url, file.size or 0, is_required=is_required)
            return
        source = local
    files = trace_files([source])
    for path in files.paths:
        is_required = path not in files.optional or has_trace_suffix(path)
        source = str(absolute(path))
        name = f"{source}#{uuid.uuid4().hex[:8]}" if is_pipe(path) else None
        yield Item(source, path.stat().st_size, is_required=is_required, name=name)
