"""Answers of each run, kept beside its events; and runs of which only these stay."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa

from profframe.errors import ParameterError, ProfframeError, StoreError, UnknownNameError
from profframe.query.catalogue import catalogue
from profframe.query.frames import plain
from profframe.query.header import Answer
from profframe.query.selection import Text, check_texts, texts
from profframe.remote.trees import remote
from profframe.show.frame import frame
from profframe.store.kept import folding, records
from profframe.store.kept.records import Fresh, Kept
from profframe.store.kept.validity import KeptAnswers, contents_of_members, history
from profframe.store.layout import component, places, store_errors
from profframe.store.lock import locked
from profframe.store.maintenance import contents, remove
from profframe.store.maintenance.listing import root_of
from profframe.trace.kept_rows import ANSWERS, INNER, key_of, question_of, types_of
from profframe.trace.trace import Trace
from profframe.workers.pool import never_forked

Progress = Callable[[int, int], None]

_RUNS: Final = 64
"""Runs whose answers are computed together: a store is listed, and questions are planned, once."""
_IN_MEMORY: Final = 100_000
"""Events of runs that are read into memory first, where plans of questions are kept."""


_KEPT_COLUMNS: Final = {"answer": pl.String, "runs": pl.Int64, "only_answers": pl.Int64}


@dataclass(frozen=True, slots=True)
class KeptRuns:
    """What `keep` has done.

    Attributes
    ----------
    runs
        Runs whose answers were computed.
    current
        Runs whose answers were there.
    errors
        A sentence for each answer that could not be computed, or not be written.
    """

    runs: int = 0
    current: int = 0
    errors: tuple[str, ...] = ()


def questions(more: Text | None = None) -> list[str]:
    """Names of the answers to keep, and paths of those of the user's.

    Parameters
    ----------
    more
        Names of answers, and paths of ``.sql`` files, to keep besides `ANSWERS`.

    Raises
    ------
    UnknownNameError
        There is no such answer.
    ParameterError
        It cannot be kept: its name is that of a table, or its rows do not say their run.

    Examples
    --------
    >>> questions("roofline")[-1]
    'roofline'
    """
    added = [] if more is None else list(texts("keep", more))
    for name in added:
        answer = question_of(name)
        records.check_name(answer.name)
        if answer.columns and "run" not in {column.name for column in answer.columns}:
            raise ParameterError(f"{name}: cannot be kept: its rows have no column run")
    return list(dict.fromkeys([*ANSWERS, *INNER, *added]))


def keep(
    store: str | os.PathLike[str],
    more: Text | None = None,
    *,
    runs: Text | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> KeptRuns:
    """Compute answers of each run and keep them beside its events, those that are there excepted.

    `trend`, `regressions`, `outliers`, and `diff` and ``check`` of many runs read them first. They
    say for which SQL, macros and events they were computed, so none is read after a change.

    Parameters
    ----------
    store
        Folder of a store.
    more
        Answers, by name or as paths of ``.sql`` files, besides those of `ANSWERS`.
    runs
        Run or runs; None for all.
    executor
        Where to compute them, as for `profframe.convert`; None for this process.
    progress
        Called with the number of runs that are done, and of all.

    Returns
    -------
    KeptRuns
        Numbers of runs, and what could not be computed.

    Raises
    ------
    StoreError
        There is no store, or it is damaged or cannot be written.
    UnknownNameError
        There is no such run or answer.

    Examples
    --------
    >>> import tempfile
    >>> from profframe import convert
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = convert("examples/cpu_training.json.gz", folder, keep=None)
    ...     first, again = keep(folder), keep(folder)
    >>> (first.runs, first.current), (again.runs, again.current)
    ((1, 0), (0, 1))
    """
    root, names = _local_root(store), questions(more)
    wanted = None if runs is None else list(texts("runs", runs))
    if wanted is not None:
        check_texts("run", (*wanted,), {run for place in places(root) for run, _ in place.keys})
    return keep_present(root, names, wanted, executor, progress)


def keep_present(
    root: Path,
    names: Sequence[str],
    runs: Collection[str] | None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> KeptRuns:
    """Keep answers as `keep` does, with names of `questions`; of runs, those that are there."""
    listing = places(root)
    wanted = {run for place in listing for run, _ in place.keys}
    if runs is not None:
        wanted &= {*runs}
    lacking = sorted(_lacking(KeptAnswers.of(root, listing), wanted, names))
    groups = [tuple(lacking[at : at + _RUNS]) for at in range(0, len(lacking), _RUNS)]
    errors: list[str] = []
    done = 0
    for number, group_errors in _each(executor, str(root), groups, tuple(names)):
        errors += group_errors
        done += number
        if progress is not None:
            progress(done, len(lacking))
    fold(root, at_least=folding.FEW_FOLDERS)
    return KeptRuns(len(lacking), len(wanted) - len(lacking), tuple(dict.fromkeys(errors)))


def _each(
    executor: Executor | None, root: str, groups: Sequence[tuple[str, ...]], names: tuple[str, ...]
) -> Iterable[tuple[int, Sequence[str]]]:
    """Number of runs and errors of each group, as they come."""
    if executor is None:
        for group in groups:
            yield len(group), keep_runs(root, group, names)
        return
    futures = {executor.submit(keep_runs, root, group, names): group for group in groups}
    try:
        for future in as_completed(futures):
            try:
                yield len(futures[future]), future.result()
            except ProfframeError as error:
                yield len(futures[future]), [str(error)]
    finally:
        for future in futures:
            future.cancel()


def _lacking(
    kept: KeptAnswers, runs: Collection[str], names: Sequence[str]
) -> dict[str, list[Answer]]:
    """Answers that runs lack."""
    lacking: dict[str, list[Answer]] = defaultdict(list)
    for name in names:
        question = question_of(name)
        valid = kept.valid(question.name, key_of(question))
        for run in runs:
            if run not in valid:
                lacking[run].append(question)
    return lacking


@never_forked
def keep_runs(store: str, runs: tuple[str, ...], names: tuple[str, ...]) -> list[str]:
    """Compute and keep the answers that some runs lack; a task for a worker.

    Returns a sentence for each that fails.
    """
    root = Path(store)
    try:
        trace = Trace.from_store(root, runs=runs)
    except UnknownNameError:  # removed meanwhile
        return []
    source: Any = trace._session.source  # noqa: SLF001 - the places that are asked
    kept = KeptAnswers.of(root, source.places)
    lacking = _lacking(kept, runs, names)
    members = trace._session.table("traces")  # noqa: SLF001 - as Arrow
    if sum(members["source_events"].drop_null().to_pylist()) <= _IN_MEMORY:
        trace = Trace.from_tables(trace.tables)
    errors: list[str] = []
    rows: dict[str, pa.Table] = {}
    own: dict[str, dict[str, str]] = defaultdict(dict)
    by_question: dict[Answer, list[str]] = defaultdict(list)
    for run, answers in lacking.items():
        for question in answers:
            by_question[question].append(run)
    with trace.session() as session:
        for question, of in by_question.items():
            try:
                rows[question.name] = _rows(session, question, of, [*runs])
            except ProfframeError as error:
                errors.append(f"{question.name} is not kept: {error}")
                continue
            for run in of:
                own[run][question.name] = key_of(question)
    try:
        records.write(root, _fresh(kept, members, own, rows))
    except StoreError as error:
        errors.append(str(error))
    return errors


def _rows(trace: Trace, question: Answer, runs: Sequence[str], every: Sequence[str]) -> pa.Table:
    """Rows of an answer of some runs; of each by itself, unless they are known to be the same."""
    if question.name in {*ANSWERS, *INNER}:
        part = trace if len(runs) == len(every) else trace.filter(runs=runs)
        rows = pl.DataFrame(part.answer(question))
    else:
        parts = [pl.DataFrame(trace.filter(runs=run).answer(question)) for run in runs]
        rows = pl.concat(parts, how="vertical_relaxed")
    if "run" not in rows.columns:
        raise ParameterError("its rows have no column run")
    types = types_of(question)
    table = rows.sort("run", maintain_order=True).to_arrow()
    return table.cast(types) if types else table.cast(_without_views(table.schema))


def _without_views(types: pa.Schema) -> pa.Schema:
    """Types that every reader of Parquet has."""
    fields = [
        field.with_type(pa.string()) if pa.types.is_string_view(field.type) else field
        for field in types
    ]
    return pa.schema(fields)


def _fresh(
    kept: KeptAnswers,
    members: pa.Table,
    own: Mapping[str, Mapping[str, str]],
    rows: Mapping[str, pa.Table],
) -> Fresh:
    now = time.time_ns()
    contents = contents_of_members(members)
    versions: dict[str, set[str]] = defaultdict(set)
    for run, version in zip(
        members["run"].to_pylist(), members["facts_version"].to_pylist(), strict=True
    ):
        versions[run].add(version or "")
    fresh = [
        Kept(
            "",
            run,
            tuple(identity for _, identity in sorted(kept.identities[component(run)].items())),
            contents[run],
            answers,
            ",".join(sorted(versions[run])),
            now,
        )
        for run, answers in sorted(own.items())
    ]
    return Fresh(fresh, members, rows)


def fold(root: Path, at_least: int = 2) -> int:
    """Fold kept answers into one folder if there are so many, without those that are stale."""
    if len(records.folders(root)) < at_least:
        return 0
    with store_errors(root), locked(root):
        return folding.fold(root, places(root))


def free(
    store: str | os.PathLike[str],
    runs: Text | None = None,
    *,
    older_than_ns: int | None = None,
    more: Text | None = None,
    progress: Progress | None = None,
) -> list[tuple[str, int]]:
    """Remove the events of runs, and keep their answers: `trend` and others still show them.

    Parameters
    ----------
    store
        Folder of a store.
    runs
        Run or runs; None for all.
    older_than_ns
        Only runs whose last rank started before this time, in nanoseconds since the Unix epoch.
        Runs without such a start stay.
    more
        As for `keep`: answers to keep besides.
    progress
        As for `keep`.

    Returns
    -------
    list of tuple
        Run and rank of each whose events were removed.

    Raises
    ------
    StoreError
        There is no store, it is damaged or cannot be changed, or an answer cannot be computed:
        then no events were removed.
    UnknownNameError
        There is no such run.

    Examples
    --------
    >>> import tempfile
    >>> from profframe import convert, load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for night in ("mon", "tue"):
    ...         files = convert("examples/cpu_training.json.gz", folder, run=night)
    ...     freed = free(folder, "mon")
    ...     load(folder).trend("span_ns")["run"].to_list(), load(folder).traces["run"].to_list()
    (['mon', 'tue'], ['tue'])
    """
    root = _local_root(store)
    past = {run for run, _ in history(root, places(root))}
    chosen = [run for run in runs_of(root, runs, older_than_ns) if run not in past]
    if not chosen:
        return []
    done = keep(root, more, runs=chosen, progress=progress)
    if done.errors:
        raise StoreError(f"{root}: no events were removed: {done.errors[0]}")
    with store_errors(root), locked(root):
        kept = KeptAnswers.of(root, places(root))
        if lacking := {*chosen} - kept.members().keys():
            raise StoreError(f"{root}: run {min(lacking)!r} was written again meanwhile; try again")
        folding.mark_freed(kept, chosen)
    return remove(root, chosen, keep_answers=True)


def runs_of(
    store: str | os.PathLike[str], runs: Text | None = None, older_than_ns: int | None = None
) -> list[str]:
    """Runs of a store, also those with answers only: by name, or by when they were recorded.

    Parameters
    ----------
    store, runs, older_than_ns
        As for `free`.

    Raises
    ------
    UnknownNameError
        There is no such run.
    """
    starts: dict[str, list[bool]] = defaultdict(list)
    limit = older_than_ns
    for run, clock, start_ns in contents(store).select("run", "clock", "start_ns").iter_rows():
        is_older = limit is None or (clock == "utc" and start_ns is not None and start_ns < limit)
        starts[run].append(is_older)
    wanted = {*starts}
    if runs is not None:
        wanted = {*texts("runs", runs)}
        check_texts("run", wanted, starts)
    return sorted(run for run in wanted if all(starts[run]))


def kept(
    store: str | os.PathLike[str], answer: str | None = None, runs: Text | None = None
) -> pl.DataFrame:
    """Answers that are kept in a store, of runs with events and of those without.

    Parameters
    ----------
    store
        Folder of a store.
    answer
        Name of an answer, or path of the user's; None for a list of what is kept.
    runs
        Run or runs; None for all that have it.

    Returns
    -------
    polars.DataFrame
        The rows of the answer, by run and then in its order: only those that are of the present
        events of their run, or of one whose events were removed. Without ``answer``: ``answer``,
        and the number of ``runs`` that it is kept of, and of those that have ``only_answers``.

    Raises
    ------
    StoreError
        There is no store, or a file of it is damaged.
    UnknownNameError
        There is no such run or answer, or it is not kept.

    Examples
    --------
    >>> import tempfile
    >>> from profframe import convert
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     files = convert("examples/cpu_training.json.gz", folder)
    ...     kept(folder)["answer"].to_list()[:3], kept(folder, "runs")["span_ns"].to_list()
    (['kernels', 'lost_calls', 'memory_peak'], [43524937])
    """
    root = _local_root(store)
    answers = KeptAnswers.of(root, places(root))
    own = sorted({name for record in answers.records for name in record.answers})
    if answer is None:
        return frame(
            pl.DataFrame(
                [_kept_row(answers, name) for name in own], schema=_KEPT_COLUMNS, orient="row"
            )
        )
    question = question_of(answer)
    if question.name not in own:
        raise UnknownNameError.among("kept answer", question.name, own)
    valid = answers.valid(question.name, key_of(question))
    if runs is not None:
        names = texts("runs", runs)
        check_texts("run", names, valid)
        valid = {run: valid[run] for run in names}
    rows = plain(answers.rows(question.name, valid, types_of(question)))
    docs = {column.name: column.doc for column in question.columns}
    return frame(rows, docs=docs)


def _local_root(store: str | os.PathLike[str]) -> Path:
    root = root_of(store)
    if remote(root) is not None:
        raise StoreError(f"{store}: answers are kept in stores on a file system only")
    return root


def _kept_row(answers: KeptAnswers, name: str) -> tuple[str, int, int]:
    """What is kept of an answer; of one in a file of the user's, whatever its SQL is now."""
    is_own = name in {*INNER} or any(one.name == name for one in catalogue())
    if is_own:
        runs = answers.valid(name, key_of(question_of(name)))
    else:
        current = answers.members()
        named = [record for record in answers.records if name in record.answers]
        runs = {record.run: record for record in named if record.run in current}
    past = [run for run in runs if component(run) not in answers.identities]
    return name, len(runs), len(past)
