"""Files of kept answers: one folder for what was kept at once, with records of what it has."""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.errors import ParameterError, StoreError
from profframe.remote.trees import remote
from profframe.store.layout import KEPT, check_own, store_errors, temporary
from profframe.store.parquet import check_is_file, may_have

MEMBERS: Final = "members"
"""Name of the file with rows of `traces`."""
_RECORDS: Final = "records"
_ATTEMPTS: Final = 10
_FOLDER_NAME: Final = re.compile(r"[0-9]{20}-[0-9a-f]{8}", re.ASCII)
_ANSWER: Final = re.compile(r"[\w.-]+")
_ROW_GROUP: Final = 65_536
_RECORD_TYPES: Final = pa.schema(
    [
        ("run", pa.string()),
        ("members", pa.list_(pa.string())),
        ("contents", pa.list_(pa.string())),
        ("answers", pa.list_(pa.string())),
        ("keys", pa.list_(pa.string())),
        ("facts_version", pa.string()),
        ("written_ns", pa.int64()),
        ("freed_ns", pa.int64()),
    ]
)
_DAMAGE: Final = (OSError, ValueError, LookupError, TypeError, ArithmeticError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class Kept:
    """Answers of a run in a folder.

    Attributes
    ----------
    folder
        Name of the folder.
    run
        Name of the run.
    members
        ``rank:folder:identity`` of each of its members when they were asked, by rank.
    contents
        Digest of the row of `traces` of each; None where it does not tell what the events are.
    answers
        Hash of the SQL and the macros of each answer, by its name.
    facts_version
        Versions of the facts of its members, those that differ with a comma between them.
    written_ns, freed_ns
        When it was written; when its events were removed, if they were.
    """

    folder: str
    run: str
    members: tuple[str, ...]
    contents: tuple[str | None, ...]
    answers: Mapping[str, str]
    facts_version: str
    written_ns: int
    freed_ns: int | None = None

    @property
    def age(self) -> tuple[int, int, str]:
        """A sort key: the record to trust of a run without events is the last one."""
        return self.freed_ns or -1, self.written_ns, self.folder


@dataclass(frozen=True, slots=True)
class Fresh:
    """Answers of runs to write.

    Attributes
    ----------
    records
        Their records; the folder is not known yet.
    members
        Rows of `traces` of their members.
    answers
        Rows by the name of the answer; each has a column ``run``.
    """

    records: Sequence[Kept]
    members: pa.Table
    answers: Mapping[str, pa.Table]


def records_of(root: Path) -> list[Kept]:
    """All records of kept answers of a store; none if it has none.

    Raises
    ------
    StoreError
        A file is damaged.
    """
    for attempt in reversed(range(_ATTEMPTS)):
        names = folders(root)
        try:
            return [record for name in names for record in _records(root, name)]
        except StoreError:
            if not attempt or all((root / KEPT / name).is_dir() for name in names):
                raise
    raise AssertionError


def problems(root: Path) -> Iterator[tuple[str, str]]:
    """Files of kept answers that are missing or damaged, by their names in the store, and why."""
    for name in folders(root):
        folder = root / KEPT / name
        try:
            own = {answer for record in _records(root, name) for answer in record.answers}
            files = [MEMBERS, *sorted(own)]
        except StoreError as error:
            files = [MEMBERS]
            yield from _lasting(folder, _RECORDS, error)
        for file in files:
            try:
                read(folder / f"{file}.parquet")
            except StoreError as error:
                yield from _lasting(folder, file, error)


def _lasting(folder: Path, name: str, error: StoreError) -> Iterator[tuple[str, str]]:
    """A problem of a file, unless its folder was folded meanwhile."""
    if folder.exists():
        file = folder / f"{name}.parquet"
        yield f"{KEPT}/{folder.name}/{file.name}", str(error).removeprefix(f"{file}: ")


def check_name(answer: str) -> None:
    """Refuse names of answers that files of kept ones cannot have.

    Raises
    ------
    ParameterError
        The message names it.
    """
    if answer in {MEMBERS, _RECORDS, *schema.TABLES} or not _ANSWER.fullmatch(answer):
        raise ParameterError(f"{answer}: an answer of this name cannot be kept; rename its file")


def write(root: Path, fresh: Fresh) -> None:
    """Publish answers of runs beside their events, all in one step.

    Raises
    ------
    StoreError
        They cannot be written.
    """
    if not fresh.records:
        return
    check_own(root, root / KEPT)
    with store_errors(root), temporary(root) as draft:
        folder = draft / KEPT
        folder.mkdir()
        for name, rows in (*fresh.answers.items(), (MEMBERS, fresh.members)):
            _write(folder / f"{name}.parquet", rows)
        records = [
            {
                "run": record.run,
                "members": [*record.members],
                "contents": [*record.contents],
                "answers": [*record.answers],
                "keys": [*record.answers.values()],
                "facts_version": record.facts_version,
                "written_ns": record.written_ns,
                "freed_ns": record.freed_ns,
            }
            for record in fresh.records
        ]
        _write(folder / f"{_RECORDS}.parquet", pa.Table.from_pylist(records, _RECORD_TYPES))
        (root / KEPT).mkdir(exist_ok=True)
        _to_disk(folder)
        folder.rename(root / KEPT / f"{time.time_ns():020}-{uuid.uuid4().hex[:8]}")


def folders(root: Path) -> list[str]:
    """Names of the folders with kept answers of a store, the oldest first; no links."""
    if remote(root) is not None:  # answers are kept on file systems only
        return []
    try:
        if (root / KEPT).is_symlink():
            return []
        with os.scandir(root / KEPT) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        return sorted(filter(_FOLDER_NAME.fullmatch, names))
    except OSError:
        return []


def _records(root: Path, name: str) -> Iterator[Kept]:
    file = root / KEPT / name / f"{_RECORDS}.parquet"
    for row in read(file, _RECORD_TYPES).to_pylist():
        lists = [row[column] for column in ("members", "contents", "answers", "keys")]
        members, texts, answers, keys = (tuple(values or ()) for values in lists)
        sound = len(members) == len(texts) and len(answers) == len(keys) and None not in members
        if row["run"] is None or row["written_ns"] is None or not sound:
            raise _damaged(file, "a record without its run, time or members")
        own = {a: k for a, k in zip(answers, keys, strict=True) if a and _ANSWER.fullmatch(a)}
        facts = row["facts_version"] or ""
        times = row["written_ns"], row["freed_ns"]
        yield Kept(name, row["run"], members, texts, own, facts, *times)


def read(file: Path, types: pa.Schema | None = None, runs: Sequence[str] | None = None) -> pa.Table:
    """Rows of some runs, checked; columns that are missing are NULL."""
    import pyarrow.parquet as pq

    try:
        check_is_file(file)
        with pq.ParquetFile(file) as reader:
            arrow = reader.schema_arrow
            names = arrow.names if types is None else [n for n in types.names if n in arrow.names]
            groups = [
                number
                for number in range(reader.num_row_groups)
                if runs is None or may_have(reader.metadata.row_group(number), runs)
            ]
            read = [*dict.fromkeys((*names, "run"))]
            rows = reader.read_row_groups(groups, columns=read, use_threads=len(groups) > 1)
        rows.validate(full=True)
        if runs is not None:
            wanted = pa.array(runs, pa.string())
            is_wanted = pc.is_in(rows["run"], wanted)
            rows = rows if pc.all(is_wanted).as_py() is not False else rows.filter(is_wanted)
        if types is None:
            return rows
        values = [
            rows[f.name].cast(f.type) if f.name in names else pa.nulls(len(rows), f.type)
            for f in types
        ]
        return pa.Table.from_arrays(values, schema=types)
    except _DAMAGE as error:
        raise _damaged(file, " ".join(str(error).split()) or type(error).__name__) from error


def _damaged(file: Path, why: str) -> StoreError:
    return StoreError(
        f"{file}: cannot be read: {why}; remove {file.parent}, then `profframe store keep` computes"
        " what is missing"
    )


def _write(file: Path, rows: pa.Table) -> None:
    import pyarrow.parquet as pq

    pq.write_table(
        rows,
        file,
        row_group_size=_ROW_GROUP,
        compression="zstd" if len(rows) > _ROW_GROUP else "snappy",
        store_schema=False,
    )


def _to_disk(folder: Path) -> None:
    """Wait until files are on the disk: events may be removed next."""
    for path in (*folder.iterdir(), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
