"""Verify the files of a store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import polars as pl

from profframe import schema, store
from profframe.errors import StoreError
from profframe.remote.trees import remote
from profframe.store import manifest, versions
from profframe.store.catalogue import segments
from profframe.store.catalogue.listing import of_catalogue
from profframe.store.catalogue.remote_segments import segments_of
from profframe.store.kept import records
from profframe.store.layout import CATALOGUE, Place, checksum, identity, places
from profframe.store.leftovers import remove_leftovers
from profframe.store.maintenance.listing import root_of, size
from profframe.store.parquet import (
    column_problems,
    columns_now,
    parquet_file,
    row_groups,
    schema_version,
    traces_of,
)

Progress = Callable[[int, int], None]
_ATTEMPTS: Final = 10
"""Maximum number of checks of a folder that others write in the meantime."""
_PROBLEMS: Final = {"file": pl.String, "problem": pl.String}


def verify(path: str | os.PathLike[str], progress: Progress | None = None) -> pl.DataFrame:
    """Check every file of a store: its checksum, columns, types, and the (run, rank)s of its rows.

    It removes folders that killed or interrupted writers have left.
    Files without a recorded checksum, and kept answers, are read from end to end instead. Manifests
    are checked, too, and links are problems: a store has none.

    Parameters
    ----------
    path
        The store; a path or a URL. All of a store elsewhere is read.
    progress
        Called with the bytes done and all bytes.

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
    if remote(root) is None:
        remove_leftovers(root)
    listing = places(root, tolerant=True)
    total, done = sum(map(size, listing)), 0
    rows = [(name, "a link, which is not followed") for name in _links(root)]
    rows += [(name, why) for name, why in _catalogue_problems(root)]
    rows += records.problems(root)
    for place in listing:
        problems = _lasting_problems(place)
        rows += [(str((place.folder / name).relative_to(root)), why) for name, why in problems]
        done += size(place)
        if progress is not None:
            progress(done, total)
    return pl.DataFrame(rows, _PROBLEMS, orient="row")


def _catalogue_problems(root: Path) -> Iterator[tuple[str, str]]:
    """Damaged segments, and whether readers with the catalogue see something else than is there."""
    for name in segments.damaged(segments_of(root)):
        yield f"{CATALOGUE}/{name}", "changed since it was written: its digest differs"
    for _ in range(_ATTEMPTS):
        state = of_catalogue(root)
        shown = set() if state is None else {(place.folder, place.keys) for place in state.places}
        there = {(p.folder, p.keys) for p in places(root, tolerant=True) if p.name or p.visible}
        if state is None or shown == there:
            return
    yield CATALOGUE, "not what the folders have; `profframe store compact` makes it anew"


def _links(root: Path) -> Iterator[str]:
    """Links in a store: reading or writing through one would leave the store."""
    if remote(root) is not None:
        return
    for where, folders, files in os.walk(root):
        for name in sorted((*folders, *files)):
            if (link := Path(where, name)).is_symlink():
                yield str(link.relative_to(root))


def _lasting_problems(place: Place) -> list[tuple[str, str]]:
    """Problems of a folder that nobody has rewritten, removed or packed meanwhile."""
    for _ in range(_ATTEMPTS):
        before = identity(place.folder)
        problems = [*_problems(place)]
        if not problems or not place.folder.exists():
            return []
        if identity(place.folder) == before:
            break
    return problems


def _problems(place: Place) -> Iterator[tuple[str, str]]:
    files: Mapping[str, manifest.File] = {}
    try:
        content = manifest.read(place.folder)
        files = content.files
        if content.members is not None and content.members.keys() != place.members:
            yield manifest.NAME, "its members are not those of traces.parquet"
    except StoreError as error:
        yield manifest.NAME, _without(place.folder / manifest.NAME, error)
    for name in files.keys() - {f"{table}.parquet" for table in schema.TABLES}:
        if not (place.folder / name).exists():
            yield name, "missing"
    for table in schema.TABLES:
        file = place.file(table)
        is_optional = table in schema.OPTIONAL_TABLES
        if not file.exists():
            if not is_optional or file.name in files:
                yield file.name, "missing"
            continue
        if is_optional and files and file.name not in files:
            yield file.name, "not in the manifest, which lists what was written"
        try:
            yield from ((file.name, why) for why in _problems_of(place, table, files))
        except StoreError as error:
            yield file.name, _without(file, error)


def _without(file: Path, error: StoreError) -> str:
    """Message of an error without the name of its file."""
    return str(error).removeprefix(f"{file}: ")


def _problems_of(place: Place, table: str, files: Mapping[str, manifest.File]) -> Iterator[str]:
    file = place.file(table)
    recorded = files.get(file.name)
    size = file.stat().st_size
    if recorded is not None and recorded.size != size:
        yield f"{size:,} bytes, but {recorded.size:,} when it was written"
    elif recorded is not None and recorded.sha256 != checksum(file):
        yield "changed since it was written: its checksum differs"
    with parquet_file(file) as reader:
        version = versions.version_in(reader.metadata) or ""
        number = schema_version(reader.metadata)
        columns, row_count = columns_now(reader, table), reader.metadata.num_rows
        keys = traces_of(reader, ["run", "rank"]).to_pylist() if table == "traces" else []
    if not versions.is_readable(version):
        yield f"schema version {version or 'unknown'}, not {schema.SCHEMA_VERSION}"
        return
    if len(keys) != len({(key["run"], key["rank"]) for key in keys}):
        yield "has a run and rank twice"
    problems = column_problems(table, columns, number)
    yield from problems
    rows = 0
    for group in () if problems else row_groups(file, table):
        # Without a checksum every column is read: damage of a page shows there.
        part = group.rows(["run", "rank"] if recorded is not None else None)
        rows += part.num_rows
        for run, rank in sorted(store.by_trace(part).keys() - (place.members or place.keys))[:1]:
            yield f"has rows of run {run!r}, rank {rank}, which its folder does not name"
    if not problems and rows != row_count:
        yield f"{rows:,} rows, not {row_count:,}"
