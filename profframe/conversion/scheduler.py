"""One process gives files to workers, and names the converted traces.

A name can depend on other files: those that share run and rank are numbered by start. So a
converted file waits in the store until every file that may belong to its run is converted; then the
first of each rank is published, and the later ones at the end, when all names are settled. A memory
snapshot or a dump waits for the trace of its run and rank, and a worker joins them then. So names
depend neither on the workers' pace nor on where an earlier batch was killed.
"""

from __future__ import annotations

import itertools
import queue
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from profframe.conversion.companions import Join, join_of
from profframe.conversion.inputs import Item
from profframe.conversion.staging import (
    Destination,
    Record,
    StoreRecords,
    folder_above,
    folder_of,
    options_text,
)
from profframe.conversion.worker import Report, Task, convert_file, join, rename
from profframe.errors import StoreError
from profframe.loaders.options import FactOptions
from profframe.loaders.programs import Origin, may_differ, names_of_programs
from profframe.loaders.run_names import RankedFile, is_stray, origin_of, possible_runs
from profframe.readers.formats import JOINED_FORMATS
from profframe.remote.urls import path_of
from profframe.system.interrupts import taken
from profframe.workers.inline import InlineExecutor
from profframe.workers.pool import this_process

Status = Literal["written", "joined", "unchanged", "skipped", "failed"]
_Trace = tuple[str, int]

_ATTEMPTS: Final = 5
_RECORDED: Final = 250
"""So many traces go into the catalogue of the store at once."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a batch."""

    files_done: int
    files: int
    bytes_done: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result for one file: a row of the frame that `convert` returns."""

    source: str
    status: Status
    run: str | None = None
    rank: int | None = None
    events: int | None = None
    bytes: int = 0
    seconds: float | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class _Choice:
    """A name; ``is_there`` if the store has an equal trace under it."""

    run: str
    replace: bool
    is_there: bool = False


@dataclass(frozen=True, slots=True)
class _Group:
    """Files that become one trace, what was staged of each, and what they replace."""

    members: tuple[int, ...]
    staged: tuple[Record, ...]
    stored: Record | None = None


_Completion = tuple[int, Callable[[int, Any], None], Future[Any]]


class Batch:
    """The work of one call of `convert`.

    Parameters
    ----------
    store
        Store to write to.
    items
        Files to convert.
    executor
        Runs the tasks.
    facts
        Options that change the facts of all files.
    threads
        As for `convert`.
    progress
        Called at the start and after each file.
    is_alone
        Whether the only file is all that there is; by default if there is one.
    origins
        Origins of what the store has, which are added to it: for batches one after the other.
    """

    def __init__(
        self,
        store: Destination,
        items: Sequence[Item],
        executor: Executor,
        *,
        facts: FactOptions,
        threads: int | None,
        progress: Callable[[Progress], None] | None,
        is_alone: bool | None = None,
        origins: dict[Record, Origin] | None = None,
    ) -> None:
        self._store = store
        self._items = items
        self._executor = executor
        self._facts = facts
        self._threads = threads
        self._progress = progress
        self._is_alone = len(items) == 1 if is_alone is None else is_alone
        self._origins = {} if origins is None else origins
        self._packs = store.packs()
        self._records = StoreRecords.of(store.records())
        self._bytes, self._bytes_done = sum(item.size for item in items), 0
        self._outcomes: dict[int, Outcome] = {}
        self._reports: dict[int, Report] = {}
        self._waiting = Counter(run for item in items for run in item.runs)
        self._unplaced: dict[str, list[int]] = defaultdict(list)
        self._deferred: list[int] = []
        self._first_names: set[_Trace] = set()
        self._groups: dict[int, _Group] = {}
        self._owners: dict[_Trace, str | None] = {}
        self._attempts: Counter[int] = Counter()
        self._stale: set[_Trace] = set()
        self._published: list[_Trace] = []
        self._running: set[Future[Any]] = set()
        self._completions: queue.SimpleQueue[_Completion] = queue.SimpleQueue()

    def run(self) -> list[Outcome]:
        """Convert all files."""
        self._notify()
        try:
            for index, item in enumerate(self._items):
                if item.error is None:
                    self._submit(index)
                else:
                    self._settle(index, Report("failed", error=item.error, is_not_a_trace=True))
            self._work()
            while self._deferred:
                deferred, self._deferred = sorted(self._deferred, key=self._order), []
                for index in deferred:
                    self._place(index, self._staged(index), may_number=True)
                self._work()
        except BaseException:
            for future in self._running:
                future.cancel()
            raise
        finally:
            self._record(at_least=1)
        return [self._outcomes[index] for index in range(len(self._items))]

    def _submit(self, index: int) -> None:
        item, options = self._items[index], self._options(index)
        self._attempts[index] += 1
        task = Task(
            item.source,
            item.key,
            self._store.address,
            item.run,
            item.rank,
            item.rank_is_in_path,
            self._facts,
            self._is_alone,
            self._threads,
            frozenset(
                record.content
                for record in self._records.matching(item.key, options)
                if record.content and (record.run, record.rank) not in self._stale
            ),
            this_process(),
            f"{time.time_ns()}-{index}",
        )
        # A callable cannot be part of a task, which may go to another process.
        more = (self._notify,) if isinstance(self._executor, InlineExecutor) else ()
        self._start(index, self._settle, convert_file, task, *more)

    def _start(
        self,
        index: int,
        handle: Callable[[int, Any], None],
        function: Callable[..., object],
        *arguments: object,
    ) -> None:
        """Submit a task; this thread passes its result to ``handle``."""
        try:
            future = self._executor.submit(function, *arguments)
        except Exception as error:  # noqa: BLE001 - executors raise anything
            self._fail(index, error)
            return
        self._running.add(future)
        future.add_done_callback(lambda future: self._completions.put((index, handle, future)))

    def _work(self) -> None:
        """Handle results of workers until no task is left."""
        while self._running:
            index, handle, future = taken(self._completions)
            self._running.discard(future)
            try:
                result = future.result()
            except FileNotFoundError:
                self._retry(index)
            except Exception as error:  # noqa: BLE001 - executors raise anything
                self._fail(index, error)
            else:
                handle(index, result)

    def _retry(self, index: int) -> None:
        """Convert files again, because another batch has published one of their folders."""
        members = self._members(index)
        if all(self._attempts[member] < _ATTEMPTS for member in members):
            self._records = StoreRecords.of(self._store.records())
            for member in members:
                self._again(member)
        else:
            self._fail(index, StoreError("the converted files are gone from the store"))

    def _again(self, index: int) -> None:
        """Convert a file again; its runs wait for it."""
        self._groups.pop(index, None)
        if self._reports.pop(index, None) is not None:
            self._waiting.update(self._items[index].runs)
        if self._outcomes.pop(index, None) is not None:
            self._bytes_done -= self._items[index].size
        self._submit(index)

    def _members(self, index: int) -> tuple[int, ...]:
        """The files that become one trace with a file, and itself."""
        return self._groups[index].members if index in self._groups else (index,)

    def _fail(self, index: int, error: Exception) -> None:
        """Report a file whose task failed or could not start, and files that were to join it."""
        message = str(error) or type(error).__name__
        for member in self._members(index):
            report = Report("failed", error=f"{self._items[member].key}: {message}")
            if member in self._reports:
                self._finish(member, report)
            else:
                self._settle(member, report)

    def _settle(self, index: int, report: Report) -> None:
        """Keep the report of a file, and release the runs that waited for it."""
        self._reports[index] = report
        if report.staged is None:
            self._finish(index, report)
        else:
            self._first_names.add((report.staged.run, report.staged.rank))
            self._unplaced[report.staged.run].append(index)
        for run in self._items[index].runs:
            self._waiting[run] -= 1
            if not self._waiting[run]:
                self._release(run)

    def _release(self, run: str) -> None:
        """Join and publish files of a run, all of which are converted: the first of each rank."""
        ranks: dict[int, list[int]] = defaultdict(list)
        indices = sorted(self._unplaced.pop(run, ()))
        for index in self._of_one_program(run, indices):
            ranks[self._staged(index).rank].append(index)
        for rank, indices in sorted(ranks.items()):
            stored = self._record_at(run, rank)
            stored = None if stored is not None and stored.is_past else stored
            ready = indices if stored is None else self._with_others(stored, indices)
            choice = self._join_of(ready, stored)
            of_join = set[int]()
            if choice is not None:
                of_join = {i for i in ready if self._staged(i) in choice.parts}
                self._start_join(choice, of_join)
            for index in sorted(set(ready) - of_join, key=self._order):
                self._place(index, self._staged(index), may_number=False)

    def _of_one_program(self, run: str, indices: Sequence[int]) -> Sequence[int]:
        """Files of a run, except those of other programs, which get their own run as in `load`."""
        own = [
            index
            for index in indices
            if self._items[index].run is None and self._staged(index).format not in JOINED_FORMATS
        ]
        staged = [self._staged(index) for index in own]
        earlier = self._earlier(run, own)
        is_lone = len(own) == 1 and not earlier and self._is_stray(own[0])
        every = [*staged, *earlier]
        is_clear = not may_differ([r.rank for r in every], [r.world_size for r in every])
        if not is_lone and is_clear:
            return indices
        paths = [self._items[index].path for index in own]
        try:
            origins = [self._store.origin(*pair) for pair in zip(staged, paths, strict=True)]
            origins += [self._origin(record) for record in earlier]
        except FileNotFoundError:
            # Another batch has published one of them. They are named together, so all come again.
            for index in own:
                self._retry(index)
            return [index for index in indices if index not in own]
        names = names_of_programs(run, origins, is_stray=is_lone)
        names = _with_published(names[: len(own)], names[len(own) :], earlier)
        moved = {index: name for index, name in zip(own, names, strict=True) if name != run}
        for index, name in moved.items():
            original = self._staged(index)
            self._first_names.add((name, original.rank))
            self._groups[index] = _Group((index,), (original,))
            self._start(index, self._place_named, rename, self._store, original, name, False)
        return [index for index in indices if index not in moved]

    def _earlier(self, run: str, own: Sequence[int]) -> list[Record]:
        """What the store has of the folders of some files, if their paths give it the same run."""
        keys = {self._items[index].key for index in own}
        records = {
            record: None
            for folder in sorted({folder_above(key) for key in keys})
            for record in self._records.by_folder[folder]
            if record.source not in keys and record.format not in JOINED_FORMATS
        }
        return [record for record in records if _run_by_path(record) == run]

    def _origin(self, record: Record) -> Origin:
        """The program of a trace of the store; by its path alone where its events are removed."""
        if record not in self._origins:
            path = Path(path_of(record.source or ""))
            self._origins[record] = origin_of(path, record.rank)
            if not record.is_past:
                with suppress(FileNotFoundError, StoreError):  # removed, or damaged
                    self._origins[record] = self._store.origin(record, path)
        return self._origins[record]

    def _is_stray(self, index: int) -> bool:
        """Whether a trace has a rank, while others of its folder, also in the store, have none."""
        stored = (
            (Path(path_of(record.source or "")), record.rank_source, record.format)
            for record in self._records.by_folder[folder_above(self._items[index].key)]
        )
        return is_stray(
            self._ranked(index), itertools.chain(map(self._ranked, self._reports), stored)
        )

    def _ranked(self, index: int) -> RankedFile:
        staged = self._reports[index].staged
        rank_source, form = (staged.rank_source, staged.format) if staged else (None, None)
        return self._items[index].path, rank_source, form

    def _with_others(self, stored: Record, indices: list[int]) -> list[int]:
        """Files that can be placed: those of a joined trace only together.

        The others are converted again if they are in the batch, and all wait for them.
        """
        keys = {self._items[index].key for index in indices}
        missing = stored.sources - keys
        if not (stored.joined and missing and stored.sources & keys):
            return indices
        others = [
            index
            for index, item in enumerate(self._items)
            if item.key in missing and index in self._outcomes
            if self._outcomes[index].status == "unchanged"
        ]
        if len(others) == len(missing):
            self._stale.add((stored.run, stored.rank))
            self._unplaced[stored.run] += indices
            for index in others:
                self._again(index)
            return []
        shown = ", ".join(sorted(missing))
        reason = StoreError(
            f"run {stored.run!r}, rank {stored.rank} was made from it and {shown}: convert them "
            "together, or remove that run from the store"
        )
        for index in indices:
            if self._items[index].key in stored.sources:
                self._fail(index, reason)
        return [index for index in indices if self._items[index].key not in stored.sources]

    def _join_of(self, indices: Sequence[int], stored: Record | None) -> Join | None:
        """The join among files of one run and rank, except those that already have a number."""
        unnumbered = [
            record
            for index in indices
            for record in [self._staged(index)]
            if (place := self._place_of(index)) is None or place.run == record.run
        ]
        return join_of(self._store, unnumbered, stored)

    def _start_join(self, choice: Join, indices: set[int]) -> None:
        """Let a worker join files; the trace, or else the first of the others, represents all."""
        leader = min(indices, key=lambda index: (self._staged(index) != choice.trace, index))
        members = (leader, *sorted(indices - {leader}))
        staged = tuple(self._staged(index) for index in members)
        self._groups[leader] = _Group(members, staged, choice.stored)
        self._start(leader, self._place_named, join, self._store, choice)

    def _place_named(self, index: int, named: Record) -> None:
        self._reports[index] = replace(self._reports[index], staged=named)
        self._place(index, named, may_number=False)

    def _place(self, index: int, staged: Record, *, may_number: bool) -> None:
        """Publish a staged folder under its name, or start a copy under another one."""
        original = self._staged(index)
        group = self._groups.get(index)
        with self._store.locked():
            while True:
                if group and group.stored:
                    if self._record_at(staged.run, staged.rank) != group.stored:
                        self._store.discard(original)
                        self._retry(index)
                        return
                    choice: _Choice | None = _Choice(staged.run, replace=True)
                else:
                    choice = self._choose(index, may_number=may_number)
                if choice is None or choice.is_there or choice.run != staged.run:
                    break
                if self._publish(index, staged, replace=choice.replace):
                    return
        if choice is not None and choice.is_there:
            self._finish_all(index, "unchanged", choice.run)
        elif choice is None:
            self._deferred.append(index)
        else:
            self._owners[choice.run, staged.rank] = original.source
            self._start(index, self._place_copy, rename, self._store, original, choice.run)

    def _place_copy(self, index: int, copy: Record) -> None:
        self._place(index, copy, may_number=True)
        self._store.discard(copy)

    def _publish(self, index: int, staged: Record, *, replace: bool) -> bool:
        """Whether the file is finished: False if another batch has taken the name meanwhile."""
        try:
            if not self._store.publish(staged, replace=replace):
                return False
        except FileNotFoundError:
            self._retry(index)
            return True
        except (OSError, StoreError) as error:
            self._fail(index, StoreError(f"cannot be written: {error}"))
            return True
        self._owners[staged.run, staged.rank] = staged.source
        self._published.append((staged.run, staged.rank))
        self._record(at_least=_RECORDED)
        self._finish_all(index, "staged", staged.run)
        return True

    def _record(self, at_least: int) -> None:
        """Add what was published to the catalogue of the store, many at once."""
        if len(self._published) >= at_least:
            published, self._published = self._published, []
            self._store.record(published)

    def _finish_all(self, index: int, status: Literal["staged", "unchanged"], run: str) -> None:
        """Record the outcome of files that have become one trace, and remove what was staged."""
        joined = self._staged(index)
        group = self._groups.get(index) or _Group((index,), ())
        for record in (joined, *group.staged):
            self._store.discard(record)
        for member in group.members:
            report = replace(self._reports[member], status=status, staged=joined)
            is_beside = status == "staged" and self._items[member].key != joined.source
            self._finish(member, replace(report, status="joined") if is_beside else report, run)

    def _choose(self, index: int, *, may_number: bool) -> _Choice | None:
        """The name of a file; None if it needs a number, and ``may_number`` is False."""
        staged = self._staged(index)
        source = staged.source
        if (own := self._place_of(index)) is not None:
            return self._existing_name(own, index)
        for number in itertools.count():
            run = f"{staged.run}.{number}" if number else staged.run
            name = run, staged.rank
            if number and not may_number:
                return None
            if self._owners.get(name, source) != source or (number and name in self._first_names):
                continue
            stored = self._record_at(*name)
            if stored is None:
                return _Choice(run, replace=self._store.has(folder_of(*name)))
            if stored.source == source:
                return self._existing_name(stored, index)
        raise AssertionError

    def _place_of(self, index: int) -> Record | None:
        """The record of a file's source in the store, under its name or a numbered one."""
        staged = self._staged(index)
        names = {staged.run, *self._items[index].other_runs(staged.rank)}
        for record in self._records.by_source.get(staged.source or "", ()):
            if record.rank == staged.rank and any(_is_cycle(record.run, name) for name in names):
                stored = self._record_at(record.run, record.rank)
                if stored is not None and stored.source == staged.source:
                    return stored
        return None

    def _record_at(self, run: str, rank: int) -> Record | None:
        """The record of a name, of a folder or a pack."""
        single = self._store.record_at(run, rank)
        if single is not None:
            return single
        packs = self._store.packs()
        if packs != self._packs:  # packed in the meantime
            self._packs, self._records = packs, StoreRecords.of(self._store.records())
        record = self._records.by_name.get((run, rank))
        return record if record is not None and (record.is_packed or record.is_past) else None

    def _existing_name(self, stored: Record, index: int) -> _Choice:
        """The name of an earlier trace of the same source."""
        report = self._reports[index]
        is_same = stored.content == report.content and stored.options == self._options(index)
        is_same = is_same and stored.joined == self._staged(index).joined
        is_there = is_same and (stored.run, stored.rank) not in self._stale
        return _Choice(stored.run, replace=True, is_there=is_there)

    def _finish(self, index: int, report: Report, run: str | None = None) -> None:
        """Record the outcome of a file, and report progress."""
        item = self._items[index]
        status: Status = "written" if report.status == "staged" else report.status
        if status == "failed" and report.is_not_a_trace and not item.is_required:
            status = "skipped"
        rank = report.staged.rank if report.staged else None
        events = report.events
        if status == "unchanged" and report.staged is None:
            for record in self._records.matching(item.key, self._options(index), report.content):
                run, rank = record.run, record.rank
                try:
                    events = self._store.events(record)
                    if self._records.by_name[record.run, record.rank].source != item.key:
                        events = 0  # it is joined with a trace, to which they belong
                except FileNotFoundError:  # replaced at this moment
                    pass
                except StoreError:
                    if self._attempts[index] < _ATTEMPTS:
                        self._stale.add((run, rank))
                        self._again(index)
                        return
        self._outcomes[index] = Outcome(
            item.key, status, run, rank, events, item.size, report.seconds, _as_utf8(report.error)
        )
        self._bytes_done += item.size
        self._notify()

    def _notify(self, done: int = 0, _total: int = 0) -> None:
        """Call ``progress``, with the bytes done of a current file."""
        if self._progress is not None:
            files = len(self._outcomes), len(self._items)
            self._progress(Progress(*files, self._bytes_done + done, self._bytes))

    def _staged(self, index: int) -> Record:
        staged = self._reports[index].staged
        if staged is None:
            raise AssertionError
        return staged

    def _order(self, index: int) -> tuple[str, int, int, str]:
        staged = self._staged(index)
        return staged.run, staged.rank, staged.start_ns, self._items[index].key

    def _options(self, index: int) -> str:
        item = self._items[index]
        return options_text(item.run, item.rank, self._facts)


def _as_utf8(error: str | None) -> str | None:
    """A message as UTF-8, with other bytes of paths as escapes."""
    return None if error is None else error.encode("utf-8", "backslashreplace").decode()


def _run_by_path(record: Record) -> str | None:
    """The run that the path of a record's source gives it; None if it is named otherwise."""
    if '"run":' in (record.options or ""):
        return None
    path = Path(path_of(record.source or ""))
    runs = possible_runs(path)
    run = runs[-1] if record.rank_source == "assumed" else runs[0]
    origin = origin_of(path, record.rank)
    own = (run, origin.program, origin.file, origin.name)
    return run if any(_is_cycle(record.run, name) for name in own if name) else None


def _with_published(
    names: Sequence[str], earlier_names: Sequence[str], earlier: Sequence[Record]
) -> list[str]:
    """Names of new traces; those of a program that is in the store have the name that it has there.

    Its first trace may have come when nothing told that there are other programs.
    """
    published: dict[str, str] = {}
    for name, record in zip(earlier_names, earlier, strict=True):
        run = record.run if record.run == name else _first_run(record)
        if published.setdefault(name, run) != run and name == run:
            published[name] = run
    return [published.get(name, name) for name in names]


def _first_run(record: Record) -> str:
    """The run of a record, without the number of a later cycle."""
    path = Path(path_of(record.source or ""))
    origin = origin_of(path, record.rank)
    names = (*possible_runs(path), origin.program, origin.file, origin.name)
    return next((name for name in names if name and _is_cycle(record.run, name)), record.run)


def _is_cycle(run: str, first_run: str) -> bool:
    """Whether a run is another one, maybe with a number."""
    number = run.removeprefix(f"{first_run}.")
    return run == first_run or (number != run and number.isdecimal())
