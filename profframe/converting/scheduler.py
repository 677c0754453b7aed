"""One process gives files to workers, and names what they have made.

A file's name can hang on the others: those that share run and rank are numbered by their start. So
a converted file waits, beside the store, until every file that could be of its run is converted;
then the first of each rank is published, and the later ones at the end, when all names are known.
Names so depend on neither the workers' pace nor on where an earlier batch was killed.
"""

from __future__ import annotations

import itertools
import queue
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from profframe.converting.inputs import Item
from profframe.converting.staging import Destination, Record, folder_of, options
from profframe.converting.worker import Report, Task, convert_file, here, rename
from profframe.errors import StoreError

Status = Literal["written", "unchanged", "skipped", "failed"]
_Trace = tuple[str, int]

_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a batch is."""

    files_done: int
    files: int
    bytes_done: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one file: a row of what `convert` returns."""

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
    """A name; ``is_there`` where the store has it already, as it is to be."""

    run: str
    replace: bool
    is_there: bool = False


class Here(Executor):
    """Does its work at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function; errors are in the result."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - for whoever waits for the result
            future.set_exception(error)
        return future


_Done = tuple[int, Callable[[int, Any], None], Future[Any]]


@dataclass(slots=True)
class _Known:
    """What the store has."""

    by_source: dict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))
    by_name: dict[_Trace, Record] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Record]) -> _Known:
        known = cls()
        for record in records:
            known.add(record)
        return known

    def add(self, record: Record) -> None:
        self.by_name[record.run, record.rank] = record
        if record.source is not None:
            self.by_source[record.source].append(record)

    def same(self, source: str, told: str, content: str | None = None) -> list[Record]:
        """Those that were made of this source in this way, of some content or of any."""
        return [
            record
            for record in self.by_source.get(source, ())
            if record.options == told
            and record.content is not None
            and content in {None, record.content}
        ]


class Batch:
    """The work of one call of `convert`.

    Parameters
    ----------
    store
        What is written to.
    items
        Files to convert.
    executor
        Does the work.
    compat, threads
        As for `convert`.
    progress
        Called at the start and after each file.
    """

    def __init__(
        self,
        store: Destination,
        items: Sequence[Item],
        executor: Executor,
        *,
        compat: str | None,
        threads: int | None,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._store = store
        self._items = items
        self._executor = executor
        self._compat = compat
        self._threads = threads
        self._progress = progress
        self._packs = store.packs()
        self._known = _Known.of(store.records())
        self._bytes, self._bytes_done = sum(item.size for item in items), 0
        self._outcomes: dict[int, Outcome] = {}
        self._reports: dict[int, Report] = {}
        self._waiting = Counter(run for item in items for run in item.runs)
        self._held: dict[str, list[int]] = defaultdict(list)
        self._later: list[int] = []
        self._natural: set[_Trace] = set()
        self._promised: dict[_Trace, int] = {}
        self._attempts: Counter[int] = Counter()
        self._damaged: set[_Trace] = set()
        self._running: set[Future[Any]] = set()
        self._done: queue.SimpleQueue[_Done] = queue.SimpleQueue()

    def run(self) -> list[Outcome]:
        """Convert all files."""
        self._tell()
        try:
            for index, item in enumerate(self._items):
                if item.error is None:
                    self._submit(index)
                else:
                    self._settle(index, Report("failed", error=item.error, is_not_a_trace=True))
            self._work()
            for index in sorted(self._later, key=self._order):
                self._place(index, self._staged(index), may_number=True)
            self._work()
        except BaseException:
            for future in self._running:
                future.cancel()
            raise
        return [self._outcomes[index] for index in range(len(self._items))]

    def _submit(self, index: int) -> None:
        item, told = self._items[index], self._told(index)
        self._attempts[index] += 1
        task = Task(
            item.source,
            item.key,
            self._store.address,
            item.run,
            item.rank,
            item.rank_is_in_path,
            self._compat,
            self._threads,
            frozenset(
                record.content
                for record in self._known.same(item.key, told)
                if record.content and (record.run, record.rank) not in self._damaged
            ),
            here(),
            f"{time.time_ns()}-{index}",
        )
        # A callable has no place in a task: it is for this process alone.
        more = (self._tell,) if isinstance(self._executor, Here) else ()
        self._start(index, self._settle, convert_file, task, *more)

    def _start(
        self,
        index: int,
        then: Callable[[int, Any], None],
        function: Callable[..., object],
        *arguments: object,
    ) -> None:
        """Give a task to the executor; what comes of it is taken in this thread."""
        try:
            future = self._executor.submit(function, *arguments)
        except Exception as error:  # noqa: BLE001 - of whatever engine
            self._fail(index, error)
            return
        self._running.add(future)
        future.add_done_callback(lambda done: self._done.put((index, then, done)))

    def _work(self) -> None:
        """Take what workers give back, until none of them has anything to do."""
        while self._running:
            index, then, future = self._done.get()
            self._running.discard(future)
            try:
                result = future.result()
            except FileNotFoundError:
                self._once_more(index)
            except Exception as error:  # noqa: BLE001 - of whatever engine
                self._fail(index, error)
            else:
                then(index, result)

    def _once_more(self, index: int) -> None:
        """Another batch has taken what was staged: see what the store has now."""
        if self._attempts[index] < _ATTEMPTS:
            self._known = _Known.of(self._store.records())
            self._submit(index)
        else:
            self._fail(index, StoreError("what was converted is gone from the store"))

    def _fail(self, index: int, error: Exception) -> None:
        """The worker could not do its work, or not even begin it."""
        said = str(error) or type(error).__name__
        report = Report("failed", error=f"{self._items[index].key}: {said}")
        if index in self._reports:
            self._finish(index, report)
        else:
            self._settle(index, report)

    def _settle(self, index: int, report: Report) -> None:
        """Keep what a worker reports of a file, and go on with what waited for it."""
        is_first = index not in self._reports
        self._reports[index] = report
        if report.staged is None:
            self._finish(index, report)
        elif is_first:
            self._natural.add((report.staged.run, report.staged.rank))
            self._held[report.staged.run].append(index)
        else:
            self._place(index, report.staged, may_number=True)
        if is_first:
            for run in self._items[index].runs:
                self._waiting[run] -= 1
                if not self._waiting[run]:
                    self._release(run)

    def _release(self, run: str) -> None:
        """All files that can be of a run are there: publish the first of each rank."""
        for index in sorted(self._held.pop(run, ()), key=self._order):
            self._place(index, self._staged(index), may_number=False)

    def _place(self, index: int, staged: Record, *, may_number: bool) -> None:
        """Publish what is staged under its name, or have it copied for another one."""
        named = self._staged(index)
        with self._store.locked():
            while True:
                choice = self._choose(index, may_number=may_number)
                if choice is None or choice.is_there or choice.run != staged.run:
                    break
                if self._published(index, staged, replace=choice.replace):
                    return
        if choice is not None and choice.is_there:
            self._store.discard(named)
            self._finish(index, replace(self._reports[index], status="unchanged"), choice.run)
        elif choice is None:
            self._later.append(index)
        else:
            self._promised[choice.run, staged.rank] = index
            self._start(index, self._copied, rename, self._store, named, choice.run)

    def _copied(self, index: int, copy: Record) -> None:
        self._place(index, copy, may_number=True)
        self._store.discard(copy)

    def _published(self, index: int, staged: Record, *, replace: bool) -> bool:
        """Whether nothing is left to do: False if another batch has taken the name meanwhile."""
        try:
            if not self._store.publish(staged, replace=replace):
                return False
        except FileNotFoundError:
            self._once_more(index)
            return True
        except (OSError, StoreError) as error:
            self._fail(index, StoreError(f"cannot be written: {error}"))
            return True
        self._store.discard(self._staged(index))
        self._promised[staged.run, staged.rank] = index
        self._finish(index, self._reports[index], staged.run)
        return True

    def _choose(self, index: int, *, may_number: bool) -> _Choice | None:
        """The name that a file gets; None if it is one with a number, and that may not be yet."""
        staged, source = self._staged(index), self._items[index].key
        for record in self._known.by_source.get(source, ()):
            if record.rank == staged.rank and _is_cycle(record.run, staged.run):
                there = self._there(record.run, record.rank)
                if there is not None and there.source == source:
                    return self._again(there, index)
        for number in itertools.count():
            run = f"{staged.run}.{number}" if number else staged.run
            name = run, staged.rank
            if number and not may_number:
                return None
            if self._promised.get(name, index) != index or (number and name in self._natural):
                continue
            there = self._there(*name)
            if there is None:
                return _Choice(run, replace=self._store.has(folder_of(*name)))
            if there.source == source:
                return self._again(there, index)
        raise AssertionError

    def _there(self, run: str, rank: int) -> Record | None:
        """What has a name, on the disk or in a pack."""
        alone = self._store.record_at(run, rank)
        if alone is not None:
            return alone
        packs = self._store.packs()
        if packs != self._packs:  # packed meanwhile
            self._packs, self._known = packs, _Known.of(self._store.records())
        known = self._known.by_name.get((run, rank))
        return known if known is not None and known.is_packed else None

    def _again(self, there: Record, index: int) -> _Choice:
        """The name of what was made of the same source before."""
        same = there.content == self._reports[index].content and there.options == self._told(index)
        is_there = same and (there.run, there.rank) not in self._damaged
        return _Choice(there.run, replace=True, is_there=is_there)

    def _finish(self, index: int, report: Report, run: str | None = None) -> None:
        """Note what became of a file, and say so."""
        item = self._items[index]
        status: Status = "written" if report.status == "staged" else report.status
        if status == "failed" and report.is_not_a_trace and not item.wanted:
            status = "skipped"
        rank = report.staged.rank if report.staged else None
        events = report.events
        if status == "unchanged" and report.staged is None:
            for record in self._known.same(item.key, self._told(index), report.content):
                run, rank = record.run, record.rank
                try:
                    events = self._store.events(record)
                except FileNotFoundError:  # replaced at this moment
                    pass
                except StoreError:
                    if (run, rank) not in self._damaged:
                        self._damaged.add((run, rank))
                        self._submit(index)
                        return
        self._outcomes[index] = Outcome(
            item.key, status, run, rank, events, item.size, report.seconds, _said(report.error)
        )
        self._bytes_done += item.size
        self._tell()

    def _tell(self, done: int = 0, _total: int = 0) -> None:
        """Say how far it is; with the bytes that are done of the file at work, if there is one."""
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

    def _told(self, index: int) -> str:
        item = self._items[index]
        return options(item.run, item.rank, self._compat)


def _said(error: str | None) -> str | None:
    """A message as a table can hold it, also of a path that is no UTF-8."""
    return None if error is None else error.encode("utf-8", "backslashreplace").decode()


def _is_cycle(run: str, of: str) -> bool:
    """Whether a run is another one, or that with a number."""
    number = run.removeprefix(f"{of}.")
    return run == of or (number != run and number.isdecimal())
