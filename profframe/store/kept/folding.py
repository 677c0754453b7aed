"""Fold kept answers into one folder, and mark runs whose events are about to be removed."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from profframe.errors import ParameterError
from profframe.store.kept.records import MEMBERS, Fresh, Kept, folders, write
from profframe.store.kept.validity import KeptAnswers
from profframe.store.layout import KEPT, Place, component, store_errors, temporary

FEW_FOLDERS: Final = 16
"""More folders than these are folded into one when answers are kept."""


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
