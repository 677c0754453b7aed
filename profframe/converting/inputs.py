"""Which files there are to convert, and what they can be called by their paths alone."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from profframe.converting.pattern import Pattern
from profframe.converting.urls import is_url, listed, local_path, path_of
from profframe.errors import ParameterError, ProfframeError, SourceError
from profframe.loading.discovery import find
from profframe.loading.run_names import is_named_like_a_trace, possible_runs, readable, whole
from profframe.readers import is_pipe

Source = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Item:
    """One file to convert.

    ``source`` is its absolute path or its URL; ``run`` and ``rank`` are what the caller or a
    pattern says they are. ``error`` says why it cannot be converted, if that is known already.
    A file that is not ``wanted`` was found in a folder or by a glob and is not named like a trace.
    What came through a pipe is called by ``name``, as nothing else that ever did.
    """

    source: str
    size: int = 0
    run: str | None = None
    rank: int | None = None
    rank_is_in_path: bool = False
    wanted: bool = True
    error: str | None = None
    name: str | None = None

    @property
    def key(self) -> str:
        """Its source as a table can hold it."""
        return readable(self.name or self.source)

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs that it can be of."""
        return (self.run,) if self.run is not None else possible_runs(self._path, self.rank)

    @property
    def _path(self) -> Path:
        return Path(path_of(self.source))

    def named(self, run: str | None, rank: int | None, pattern: Pattern | None) -> Item:
        """The same file with the names that are given."""
        if pattern is None:
            return replace(self, run=run, rank=rank)
        if self.error is not None:
            return self
        try:
            in_path = pattern.names(readable(path_of(self.source)))
        except SourceError as error:
            return replace(self, error=str(error))
        named = (
            (run if in_path[0] is None else in_path[0]),
            (rank if in_path[1] is None else in_path[1]),
        )
        is_in_path = in_path[1] is not None
        return replace(self, run=named[0], rank=named[1], rank_is_in_path=is_in_path)


def items(
    sources: Sequence[Source],
    run: str | None = None,
    rank: int | None = None,
    pattern: Pattern | None = None,
) -> list[Item]:
    """All files that the sources lead to, each once.

    A source that leads nowhere is an item with an error.
    """
    for name, given in (("run", run), ("rank", rank)):
        if pattern is not None and pattern.has(name) and given is not None:
            raise ParameterError(f"the {name} is given, and in the pattern {pattern.text!r} too")
    found: dict[str, Item] = {}
    errors: list[Exception] = []
    for source in sources:
        try:
            for item in _expanded(source):
                found[item.source] = found.get(item.source, item)
        except ParameterError:
            raise
        except (ProfframeError, OSError) as error:
            errors.append(error)
            found[os.fspath(source)] = Item(os.fspath(source), error=str(error))
    if errors and all(item.error for item in found.values()):
        raise errors[0]
    if not found:
        raise SourceError("nothing to convert: the list of sources is empty")
    return [item.named(run, rank, pattern) for item in found.values()]


def as_list(sources: Source | Iterable[Source]) -> list[Source]:
    """One source or several, checked."""
    one = isinstance(sources, (str, bytes, os.PathLike)) or not isinstance(sources, Iterable)
    several = [sources] if one else list(sources)  # type: ignore[arg-type]
    for source in several:
        if not isinstance(source, (str, os.PathLike)) or not os.fspath(source):
            raise ParameterError(f"a source is a path, a URL or several of them, not {source!r}")
    return several  # type: ignore[return-value]


def _expanded(source: Source) -> Iterator[Item]:
    if isinstance(source, str) and is_url(source):
        local = local_path(source)
        if local is None:
            for url, size, is_named in listed(source):
                wanted = is_named or is_named_like_a_trace(Path(path_of(url)))
                yield Item(url, size, wanted=wanted)
            return
        source = local
    files = find([source])
    for path in files.paths:
        wanted = path not in files.optional or is_named_like_a_trace(path)
        source = str(whole(path))
        name = f"{source}#{uuid.uuid4().hex[:8]}" if is_pipe(path) else None
        yield Item(source, path.stat().st_size, wanted=wanted, name=name)
