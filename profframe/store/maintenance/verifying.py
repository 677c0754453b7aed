"""Whether what a store has is sound."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from profframe import schema, store
from profframe.errors import StoreError
from profframe.store import manifest
from profframe.store.layout import Place, checksum, identity, places
from profframe.store.maintenance.listing import root_of, size
from profframe.store.parquet import VERSION_KEY, opened, row_groups, strange_columns, traces_of

Progress = Callable[[int, int], None]
_LOOKS: Final = 10
"""At a folder that others write meanwhile."""
_PROBLEMS: Final = {"file": pl.String, "problem": pl.String}


def verify(path: str | os.PathLike[str], progress: Progress | None = None) -> pl.DataFrame:
    """Check every file of a store: its checksum, its columns and types, and whose rows it has.

    Files without a recorded checksum are read from end to end instead. Manifests are checked, too,
    and links are named: nothing in a store is behind one.

    Parameters
    ----------
    path
        The store.
    progress
        Called with the bytes that are done and all bytes.

    Returns
    -------
    polars.DataFrame
        One row per ``problem``, with its ``file`` in the store; none if the store is sound.

    Raises
    ------
    StoreError
        There is no store.

    Examples
    --------
    >>> import tempfile
    >>> from profframe import convert
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = convert("examples/cpu_training.json.gz", folder)
    ...     verify(folder).height
    0
    """
    root = root_of(path)
    there = places(root, tolerant=True)
    total, done = sum(map(size, there)), 0
    rows = [(name, "a link, which is not followed") for name in _links(root)]
    for place in there:
        problems = _lasting_problems(place)
        rows += [(str((place.folder / name).relative_to(root)), why) for name, why in problems]
        done += size(place)
        if progress is not None:
            progress(done, total)
    return pl.DataFrame(rows, _PROBLEMS, orient="row")


def _links(root: Path) -> Iterator[str]:
    """Links in a store; a writer or a reader would have to leave it there."""
    for where, folders, files in os.walk(root):
        for name in sorted((*folders, *files)):
            if (link := Path(where, name)).is_symlink():
                yield str(link.relative_to(root))


def _lasting_problems(place: Place) -> list[tuple[str, str]]:
    """Problems of a folder that nobody has written again, removed or packed meanwhile."""
    for _ in range(_LOOKS):
        was = identity(place.folder)
        problems = [*_problems(place)]
        if not problems or not place.folder.exists():
            return []
        if identity(place.folder) == was:
            break
    return problems


def _problems(place: Place) -> Iterator[tuple[str, str]]:
    files: Mapping[str, manifest.File] = {}
    try:
        noted = manifest.read(place.folder)
        files = noted.files
        if noted.members is not None and noted.members.keys() != place.members:
            yield manifest.NAME, "names other members than traces.parquet has"
    except StoreError as error:
        yield manifest.NAME, _without(place.folder / manifest.NAME, error)
    for name in files.keys() - {f"{table}.parquet" for table in schema.TABLES}:
        if not (place.folder / name).exists():
            yield name, "missing"
    for table in schema.TABLES:
        file = place.file(table)
        if not file.exists():
            yield file.name, "missing"
            continue
        try:
            yield from ((file.name, why) for why in _problems_of(place, table, files))
        except StoreError as error:
            yield file.name, _without(file, error)


def _without(file: Path, error: StoreError) -> str:
    """What an error says of a file that is named beside it."""
    return str(error).removeprefix(f"{file}: ")


def _problems_of(place: Place, table: str, files: Mapping[str, manifest.File]) -> Iterator[str]:
    file = place.file(table)
    known = files.get(file.name)
    size = file.stat().st_size
    if known is not None and known.size != size:
        yield f"{size:,} bytes, not {known.size} as when it was written"
    elif known is not None and known.sha256 != checksum(file):
        yield "not as it was written: its checksum differs"
    with opened(file) as found:
        version = (found.metadata.metadata or {}).get(VERSION_KEY, b"").decode(errors="replace")
        columns, wanted = found.schema_arrow, found.metadata.num_rows
        keys = traces_of(found, ["run", "rank"]).to_pylist() if table == "traces" else []
    if version != str(schema.SCHEMA_VERSION):
        yield f"schema version {version or 'unknown'}, not {schema.SCHEMA_VERSION}"
        return
    if len(keys) != len({(key["run"], key["rank"]) for key in keys}):
        yield "has a run and rank twice"
    strange = strange_columns(table, columns)
    yield from strange
    rows = 0
    for group in () if strange else row_groups(file, table):
        # Without a checksum every column is read: damage of a page shows there.
        part = group.rows(["run", "rank"] if known is not None else None)
        rows += part.num_rows
        for run, rank in sorted(store.by_trace(part).keys() - (place.members or place.keys))[:1]:
            yield f"has rows of run {run!r}, rank {rank}, which its folder does not name"
    if not strange and rows != wanted:
        yield f"{rows:,} rows, not {wanted:,}"
