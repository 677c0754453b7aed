"""Answers kept beside the events of a store, run by run.

::

    <store>/kept/<time>-<digest>/records.parquet     which answers of which runs, of what
    <store>/kept/<time>-<digest>/members.parquet     rows of `traces` of these runs
    <store>/kept/<time>-<digest>/<answer>.parquet    rows of an answer

A folder is written aside and published by one rename, and never changed. Its records say for which
members of a run the rows were computed: each by its folder and that folder's identity, and by a
digest of its row of `traces`, which stays the same when it is packed or copied. So rows of a run
that was written again are not taken for its answers. A folder that folds others has their rows; a
run that several have is read from one of them. Rows of a run without events are its history:
`free` has marked it before its events were removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from profframe import schema
from profframe.errors import ParameterError, StoreError, UnknownNameError
from profframe.remote.trees import remote
from profframe.store import manifest
from profframe.store.layout import (
    KEPT,
    Place,
    check_own,
    component,
    name_in,
    store_errors,
    temporary,
)
from profframe.store.parquet import check_is_file, may_have, plain_type
from profframe.store.visible_rows import row_groups

MEMBERS: Final = "members"
"""Name of the file with rows of `traces`."""
FEW_FOLDERS: Final = 16
"""More folders than these are folded into one when answers are kept."""
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

Identities = Mapping[int, str]
"""Rank and identity of each member of a run."""


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


@dataclass(frozen=True)
class KeptAnswers:
    """The kept answers of a store, and the events that it has.

    Attributes
    ----------
    root
        The store.
    places
        Its folders, as they were listed.
    records
        Records of all kept answers.
    """

    root: Path
    places: Iterable[Place]
    records: Sequence[Kept]
    _contents: dict[str, tuple[str | None, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Path, places: Iterable[Place]) -> KeptAnswers:
        """The kept answers of a store with some listed folders; reads records only."""
        return cls(root, places, records_of(root))

    @classmethod
    def none(cls) -> KeptAnswers:
        """No kept answers."""
        return cls(Path(), (), ())

    def is_there(self) -> bool:
        """Whether all folders with records are there: another process may have folded them."""
        names = {record.folder for record in self.records}
        return all((self.root / KEPT / name).is_dir() for name in names)

    @cached_property
    def identities(self) -> Mapping[str, Identities]:
        """Identities of the members with events, by run as in paths and by rank."""
        return identities(self.root, self.places)

    def valid(self, answer: str, key: str) -> dict[str, Kept]:
        """Records of an answer, by run, that are of its present events, or of a run without."""
        of_history = {
            run: record
            for run, record in self.freed.items()
            if answer in record.answers and not self._has_all(record)
        }
        current = (record for record in self.records if record.answers.get(answer) == key)
        return of_history | self._chosen(current)

    def _has_all(self, record: Kept) -> bool:
        """Whether the events of a run are still there: it was marked, and then not removed."""
        return {*self.identities.get(component(record.run), {}).values()} == {*record.members}

    @cached_property
    def freed(self) -> dict[str, Kept]:
        """The last record of each run whose events were removed.

        A removal that was killed may have left some of its members.
        """
        last: dict[str, Kept] = {}
        for record in sorted(self.records, key=lambda record: record.age):
            if record.freed_ns is not None:
                last[record.run] = record
        return {
            run: record
            for run, record in last.items()
            if {*self.identities.get(component(run), {}).values()} <= {*record.members}
        }

    def members(self) -> dict[str, Kept]:
        """Records with rows of `traces` of present events, or of a run without, by run."""
        return {**self._chosen(self.records), **self.freed}

    def _chosen(self, records: Iterable[Kept]) -> dict[str, Kept]:
        chosen: dict[str, Kept] = {}
        doubtful: dict[str, list[Kept]] = defaultdict(list)
        for record in records:
            present = self.identities.get(component(record.run))
            if present is None or record.run in chosen:
                continue
            if {*present.values()} == {*record.members}:
                chosen[record.run] = record
            else:
                doubtful[record.run].append(record)
        for run, candidates in doubtful.items():
            if run in chosen:
                continue
            matches = [record for record in candidates if self._is_moved(record)]
            matches = matches or [
                record
                for record in candidates
                if None not in record.contents and record.contents == self._contents_of(run)
            ]
            if matches:
                chosen[run] = matches[0]
        return chosen

    def _is_moved(self, record: Kept) -> bool:
        """Whether the members of a record are those that packs have now."""
        present = self.identities[component(record.run)]
        recorded = dict(map(_rank_and_identity, record.members))
        if present.keys() != recorded.keys():
            return False
        return all(
            identity == recorded[rank] or recorded[rank] == self._before(record.run, rank, identity)
            for rank, identity in present.items()
        )

    def _before(self, run: str, rank: int, identity: str) -> str | None:
        """The identity of a member of a pack, before it was packed; None if it is not known."""
        pack = identity.split(":")[1]
        replaced = self._replaced(pack)
        own = f"run={component(run)}/rank={rank}"
        if own in replaced:
            return f"{rank}:{own}:{replaced[own]}"
        packs = [name for name in replaced if name.startswith(manifest.PACK)]
        return f"{rank}:{max(packs, key=manifest.age)}:" if packs else None

    def _replaced(self, pack: str) -> Mapping[str, str]:
        if not pack.startswith(manifest.PACK):
            return {}
        if pack not in self._manifests:
            self._manifests[pack] = manifest.read(self.root / pack).replaces
        return self._manifests[pack]

    @cached_property
    def _manifests(self) -> dict[str, Mapping[str, str]]:
        return {}

    def _contents_of(self, run: str) -> tuple[str | None, ...]:
        if not self._contents:
            wanted = {component(record.run) for record in self.records}
            rows = [
                part
                for place in self.places
                if not wanted.isdisjoint(name for name, _ in place.names)
                for part in row_groups(place, "traces")
            ]
            self._contents.update(contents(pa.concat_tables(rows)) if rows else {})
        return self._contents.get(run, ())

    def rows(
        self, name: str, chosen: Mapping[str, Kept], types: pa.Schema | None = None
    ) -> pa.Table:
        """Rows of an answer of some runs, by run and then in the order of the answer.

        Parameters
        ----------
        name
            The answer, or `MEMBERS`.
        chosen
            A record for each run.
        types
            Columns to read, in this order, and their types; a column that a file lacks is NULL.
            None for all columns of the files.

        Returns
        -------
        pyarrow.Table
            The rows.

        Raises
        ------
        StoreError
            A file is missing or damaged.
        """
        by_folder: dict[str, list[str]] = defaultdict(list)
        for run, record in chosen.items():
            by_folder[record.folder].append(run)
        parts = [
            _read(self.root / KEPT / folder / f"{name}.parquet", types, runs)
            for folder, runs in sorted(by_folder.items())
        ]
        if not parts:
            return (types or pa.schema([("run", pa.string())])).empty_table()
        rows = pa.concat_tables(parts, promote_options="default")
        if len(parts) == 1 and _is_sorted(rows["run"]):
            return rows
        order = pa.table({"run": rows["run"], "row": pa.array(range(len(rows)), pa.int64())})
        return rows.take(pc.sort_indices(order, [("run", "ascending"), ("row", "ascending")]))


def identities(root: Path, places: Iterable[Place]) -> dict[str, dict[int, str]]:
    """Identities of the members of each run, by run as in paths and by rank; reads no file."""
    members: dict[str, dict[int, str]] = defaultdict(dict)
    for place in places:
        folder = name_in(root, place.folder) if place.folder != root else ""
        identity = "" if place.is_pack else place.identity
        for run, rank in place.names:
            members[run][rank] = f"{rank}:{folder}:{identity}"
    return dict(members)


def contents(traces: pa.Table) -> dict[str, tuple[str | None, ...]]:
    """Digests of rows of `traces`, by run and then by rank.

    A row tells what its events are if it has the hash of the file that they are from; else None.
    """
    digests: dict[str, dict[int, str | None]] = defaultdict(dict)
    for row in traces.to_pylist():
        text = json.dumps(row, sort_keys=True, default=str)
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        digests[row["run"]][row["rank"]] = digest if row["content_hash"] else None
    return {run: tuple(d for _, d in sorted(ranks.items())) for run, ranks in digests.items()}


def history(root: Path, places: Iterable[Place]) -> frozenset[tuple[str, int]]:
    """Run and rank of each member whose events were removed, while answers of its run stay."""
    kept = KeptAnswers.of(root, places) if folders(root) else KeptAnswers.none()
    return frozenset(
        (run, rank)
        for run, record in kept.freed.items()
        if component(run) not in kept.identities
        for rank, _ in map(_rank_and_identity, record.members)
    )


def history_rows(
    root: Path, places: Iterable[Place], columns: Sequence[str]
) -> list[dict[str, Any]]:
    """Rows of `traces` of the members of `history`, some columns of them."""
    past = history(root, places)
    if not past:
        return []
    kept = KeptAnswers.of(root, places)
    runs = {run for run, _ in past}
    own = {run: record for run, record in kept.freed.items() if run in runs}
    arrow = schema.TRACES.arrow
    types = pa.schema([(name, plain_type(arrow.field(name).type)) for name in columns])
    rows: list[dict[str, Any]] = kept.rows(MEMBERS, own, types).to_pylist()
    return rows


def explained(error: UnknownNameError, root: Path, runs: Iterable[str]) -> UnknownNameError:
    """The error of runs that are not there, or a better one if the store has answers of them."""
    past = {run for run, _ in history(root, ())} if folders(root) else set()
    for run in runs:
        if run in past and f"{run!r}" in str(error):
            return UnknownNameError(
                f"run {run!r} has only kept answers: `profframe store rm --keep-answers` removed "
                "its events. `profframe store kept` shows them, and trend, regressions and "
                "outliers of the whole store have them"
            )
    return error


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
                _read(folder / f"{file}.parquet")
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


def mark_freed(kept: KeptAnswers, runs: Collection[str]) -> None:
    """Mark runs whose events are about to be removed, so that their answers stay.

    Raises
    ------
    ParameterError
        A run has no kept answers.
    StoreError
        The marks cannot be written.
    """
    own = {run: record for run, record in kept.members().items() if run in runs}
    if missing := {*runs} - own.keys():
        raise ParameterError(f"run {min(missing)!r} has no kept answers")
    now = time.time_ns()
    merged = _merged(kept, {run: [*_of_same_members(kept, own[run])] for run in own})
    marked = [replace(record, freed_ns=now) for record in merged.records]
    write(kept.root, replace(merged, records=marked))


def fold(
    root: Path, places: Iterable[Place], without: Collection[str] = (), *, at_least: int = 2
) -> int:
    """Fold kept answers into one folder, without stale ones and those of some runs.

    A reader finds the old folders or the new one, and in both the same rows. The new one names the
    members as they are now: a later pack says only what it has replaced itself.

    Returns
    -------
    int
        Number of folders that were folded.
    """
    names = folders(root)
    if not names or (len(names) < at_least and not without):
        return 0
    kept = KeptAnswers.of(root, places)
    by_run: dict[str, list[Kept]] = {}
    for run, record in kept.members().items():
        if run not in without:
            by_run[run] = [*_of_same_members(kept, record)]
    write(root, _merged(kept, by_run, is_current=True))
    with store_errors(root), temporary(root) as aside:
        for name in names:  # hidden as a whole: a removal that is killed leaves no part of one
            with suppress(FileNotFoundError):
                (root / KEPT / name).rename(aside / name)
    return len(names)


def _of_same_members(kept: KeptAnswers, chosen: Kept) -> Iterator[Kept]:
    """Records of a run that are of the same members, the chosen one first."""
    yield chosen
    for record in kept.records:
        is_same = record.run == chosen.run and record != chosen
        if is_same and record.members == chosen.members and record.freed_ns == chosen.freed_ns:
            yield record


def _merged(
    kept: KeptAnswers, by_run: Mapping[str, Sequence[Kept]], *, is_current: bool = False
) -> Fresh:
    """The rows of several records of each run, as answers to write."""
    chosen: dict[str, dict[str, Kept]] = defaultdict(dict)
    records = []
    for run, sources in sorted(by_run.items()):
        own: dict[str, str] = {}
        for record in sources:
            for answer, key in record.answers.items():
                if answer not in own:
                    own[answer] = key
                    chosen[answer][run] = record
        first = sources[0]
        present = kept.identities.get(component(run), {})
        if is_current and present and first.freed_ns is None:
            members = tuple(identity for _, identity in sorted(present.items()))
            first = replace(first, members=members)
        records.append(replace(first, answers=own))
    return Fresh(
        records,
        kept.rows(MEMBERS, {run: sources[0] for run, sources in by_run.items()}),
        {answer: kept.rows(answer, runs) for answer, runs in chosen.items()},
    )


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
    for row in _read(file, _RECORD_TYPES).to_pylist():
        lists = [row[column] for column in ("members", "contents", "answers", "keys")]
        members, texts, answers, keys = (tuple(values or ()) for values in lists)
        sound = len(members) == len(texts) and len(answers) == len(keys) and None not in members
        if row["run"] is None or row["written_ns"] is None or not sound:
            raise _damaged(file, "a record without its run, time or members")
        own = {a: k for a, k in zip(answers, keys, strict=True) if a and _ANSWER.fullmatch(a)}
        facts = row["facts_version"] or ""
        times = row["written_ns"], row["freed_ns"]
        yield Kept(name, row["run"], members, texts, own, facts, *times)


def _read(
    file: Path, types: pa.Schema | None = None, runs: Sequence[str] | None = None
) -> pa.Table:
    """Rows of some runs, checked; columns that are missing are NULL."""
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


def _is_sorted(values: pa.ChunkedArray) -> bool:
    if len(values) < 2:
        return True
    plain = values.combine_chunks()
    return pc.all(pc.less_equal(plain[:-1], plain[1:])).as_py() is not False


def _write(file: Path, rows: pa.Table) -> None:
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


def _rank_and_identity(member: str) -> tuple[int, str]:
    rank = member.partition(":")[0]
    return int(rank) if rank.isascii() and rank.isdecimal() else -1, member
