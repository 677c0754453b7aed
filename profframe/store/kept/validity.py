"""Which kept answers are of the events that a store has now, and which of a run without any."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.errors import UnknownNameError
from profframe.store import manifest
from profframe.store.kept.records import MEMBERS, Kept, folders, read, records_of
from profframe.store.layout import KEPT, Place, component, name_in
from profframe.store.parquet import plain_type
from profframe.store.visible_rows import large_parts

Identities = Mapping[int, str]
"""Rank and identity of each member of a run."""


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
            own = [
                place
                for place in self.places
                if not wanted.isdisjoint(name for name, _ in place.names)
            ]
            self._contents.update(contents_of_members(pa.concat_tables(large_parts(own, "traces"))))
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
            read(self.root / KEPT / folder / f"{name}.parquet", types, runs)
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


def contents_of_members(traces: pa.Table) -> dict[str, tuple[str | None, ...]]:
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


def _is_sorted(values: pa.ChunkedArray) -> bool:
    if len(values) < 2:
        return True
    plain = values.combine_chunks()
    return pc.all(pc.less_equal(plain[:-1], plain[1:])).as_py() is not False


def _rank_and_identity(member: str) -> tuple[int, str]:
    rank = member.partition(":")[0]
    return int(rank) if rank.isascii() and rank.isdecimal() else -1, member
