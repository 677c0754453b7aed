"""Locate the damaged file behind a failed query."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from profframe import schema
from profframe.errors import StoreError
from profframe.query.selection import literal
from profframe.remote.trees import RemotePath
from profframe.store import manifest
from profframe.store.layout import Place, checksum, identity
from profframe.store.parquet import reading, row_groups
from profframe.store.schema_steps import old_names


def no_rows(table: str) -> str:
    """SQL: a table of the schema without rows."""
    columns = ", ".join(
        f'CAST(NULL AS {schema.type_word(column.type)}) AS "{column.name}"'
        for column in schema.TABLES[table]
    )
    return f"(SELECT {columns} WHERE FALSE)"


def relation(files: Iterable[str]) -> str:
    """SQL: the rows of some files."""
    return f"read_parquet([{', '.join(map(literal, files))}], hive_partitioning = false)"


def older_relation(files: Iterable[str], table: str, version: int) -> str:
    """SQL: the rows of some files of an older schema, with the columns that at least one has."""
    names = ", ".join(map(literal, files))
    rows = f"read_parquet([{names}], hive_partitioning = false, union_by_name = true)"
    renamed = ", ".join(f'"{old}" AS "{new}"' for new, old in old_names(table, version).items())
    return f"(SELECT * RENAME ({renamed}) FROM {rows})" if renamed else rows  # noqa: S608


def check_place(place: Place, *, thorough: bool) -> None:
    """Raise an error if a file of a folder is missing or damaged, or was replaced.

    Parameters
    ----------
    place
        The folder.
    thorough
        Whether to read all of its files.

    Raises
    ------
    StoreError
        The message names the first such file.
    """
    for table in filter(place.has, schema.TABLES):
        file = place.file(table)
        try:
            next(row_groups(file, table), None)
            if thorough:
                _check_content(file)
        except StoreError as error:
            if not place.folder.exists():
                raise StoreError(
                    f"{file}: removed or packed since the store was opened; load it again"
                ) from error
            if identity(place.folder) == place.identity:
                raise
            if not file.exists():
                raise StoreError(
                    f"{file}: written again since the store was opened; load it again"
                ) from error
            break
    if thorough and identity(place.folder) != place.identity:
        raise StoreError(f"{place.folder}: written again since the store was opened; load it again")


def check_remote(root: RemotePath, places: Iterable[Place], *, thorough: bool) -> None:
    """Raise an error if reading a store elsewhere has failed, or if it is another one now.

    Parameters
    ----------
    root
        The store, as it was listed.
    places
        Folders of it.
    thorough
        Whether to list it again; what it has is not read, which may be large.

    Raises
    ------
    StoreError
        The message names the file.
    """
    failure = root.tree.failure()
    if failure is not None:
        raise failure
    if not thorough:
        return
    now = root.tree.fresh()
    for place in places:
        folder = now.path / str(place.folder.relative_to(root.as_path()))
        if identity(folder.as_path()) != place.identity:
            raise StoreError(
                f"{place.folder}: removed or written again since the store was opened; load it "
                "again"
            )


def _check_content(file: Path) -> None:
    """Raise an error for a file that changed since it was written, or that DuckDB cannot read."""
    import duckdb

    recorded = manifest.read(file.parent).files.get(file.name)
    with reading(file):
        if recorded is not None and recorded.sha256 != checksum(file):
            raise ValueError("changed since it was written: its checksum differs")
        with duckdb.connect() as connection:
            try:
                rows = relation([str(file)])
                connection.execute(f"SELECT count(hash(part)) FROM {rows} AS part")  # noqa: S608 - a quoted path
            except duckdb.Error as error:
                raise ValueError(str(error)) from error
