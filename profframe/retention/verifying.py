"""Whether what a store has is sound."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from profframe import schema
from profframe.errors import StoreError
from profframe.layout import MANIFEST, Place, checksum, identity, manifest, places
from profframe.retention.listing import root_of, size
from profframe.table_files import VERSION_KEY

Progress = Callable[[int, int], None]
_PROBLEMS: Final = {"file": pl.String, "problem": pl.String}


def verify(path: str | os.PathLike[str], progress: Progress | None = None) -> pl.DataFrame:
    """Check every file of a store: its checksum, its columns and types, and whose rows it has.

    Files without a recorded checksum are read from end to end instead.

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
        There is no store, or a pack's manifest cannot be read.

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
    there = places(root)
    total, done = sum(map(size, there)), 0
    rows: list[tuple[str, str]] = []
    for place in there:
        was = identity(place.folder)
        problems = [*_problems(place)]
        if problems and identity(place.folder) != was:  # written again, removed or packed meanwhile
            problems = [*_problems(place)] if place.folder.exists() else []
        rows += [(str((place.folder / name).relative_to(root)), why) for name, why in problems]
        done += size(place)
        if progress is not None:
            progress(done, total)
    return pl.DataFrame(rows, _PROBLEMS, orient="row")


def _problems(place: Place) -> Iterator[tuple[str, str]]:
    try:
        noted = manifest(place.folder).get("files", {})
    except StoreError as error:
        yield MANIFEST, str(error)
        noted = {}
    for table in schema.TABLES:
        file = place.file(table)
        known = noted.get(file.name) if isinstance(noted, dict) else None
        try:
            yield from ((file.name, why) for why in _problems_of(place, table, known))
        except FileNotFoundError:
            yield file.name, "missing"
        except (OSError, pa.ArrowException, StoreError) as error:
            yield file.name, f"cannot be read: {error}"


def _problems_of(place: Place, table: str, known: dict[str, Any] | None) -> Iterator[str]:
    file = place.file(table)
    found_bytes = file.stat().st_size
    if known is not None and known.get("bytes") != found_bytes:
        yield f"{found_bytes:,} bytes, not {known.get('bytes')} as when it was written"
    elif known is not None and known.get("sha256") != checksum(file):
        yield "not as it was written: its checksum differs"
    with pq.ParquetFile(file) as opened:
        version = (opened.metadata.metadata or {}).get(VERSION_KEY, b"").decode(errors="replace")
        if version != str(schema.SCHEMA_VERSION):
            yield f"schema version {version or 'unknown'}, not {schema.SCHEMA_VERSION}"
            return
        wanted = {field.name: field.type for field in schema.TABLES[table].arrow}
        found = {field.name: field.type for field in opened.schema_arrow}
        for name in wanted.keys() - found.keys():
            yield f"has no column {name!r}"
        for name in found.keys() - wanted.keys():
            yield f"has a column {name!r} that the schema does not have"
        for name in wanted.keys() & found.keys():
            if _plain(wanted[name]) != _plain(found[name]):
                yield f"column {name!r} is {found[name]}, not {_plain(wanted[name])}"
        rows = 0
        for number in range(opened.num_row_groups):
            # Without a checksum every column is read: damage of a page shows there.
            columns = ["run", "rank"] if known is not None else None
            group = opened.read_row_group(number, columns)
            rows += group.num_rows
            keys = set(zip(*(group[n].to_pylist() for n in ("run", "rank")), strict=True))
            strange = keys - (place.members or place.keys)
            for run, rank in sorted(strange)[:1]:
                yield f"has rows of run {run!r}, rank {rank}, which its folder does not name"
        if rows != opened.metadata.num_rows:
            yield f"{rows:,} rows, not {opened.metadata.num_rows:,}"


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
