"""One process gives files to workers, and names the converted traces.

A name can depend on other files: those that share run and rank are numbered by start. So a
converted file waits, beside the store, until every file that may be of its run is converted; then
the first of each rank is published, and the later ones at the end, when all names are settled.
Names thus depend neither on the workers' pace nor on where an earlier batch was killed.
"""

from __future__ import annotations

import itertools
import queue
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from profframe.converting.inputs import Item
from profframe.converting.staging import Destination, Record, folder_of, options_text
from profframe.converting.worker import Report, Task, convert_file, rename, this_process
from profframe.errors import StoreError

if TYPE_CHECKING:
    from profframe.facts.kernel_categories import Entry

Status = Literal["written", "unchanged", "skipped", "failed"]
_Trace = tuple[str, int]

_ATTEMPTS: Final = 5


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


class InlineExecutor(Executor):
    """Runs tasks at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function; errors are in the result."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - the caller of result() gets it
            future.set_exception(error)
        return future


_Completion = tuple[int, Callable[[int, Any], None], Future[Any]]


@dataclass(slots=True)
class _Records:
    """Records of a store by source and by name."""

    by_source: dict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))
    by_name: dict[_Trace, Record] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[Record]) -> _Records:
        index = cls()
        for record in records:
            index.by_name[record.run, record.rank] = record
            if record.source is not None:
                index.by_source[record.source].append(record)
        return index

    def matching(self, source: str, options: str, content: str | None = None) -> list[Record]:
        """Records of a source and options, of one content or of any."""
        return [
            record
            for record in self.by_source.get(source, ())
            if record.options == options
            and record.content is not None
            and content in {None, record.content}
        ]


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
    compat, categories, threads
        As for `convert`; entries of the user's own.
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
        categories: tuple[Entry, ...] | None,
        threads: int | None,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self._store = store
        self._items = items
        self._executor = executor
        self._compat = compat
        self._categories = categories
        self._threads = threads
        self._progress = progress
        self._packs = store.packs()
        self._records = _Records.of(store.records())
        self._bytes, self._bytes_done = sum(item.size for item in items), 0
        self._outcomes: dict[int, Outcome] = {}
        self._reports: dict[int, Report] = {}
        self._waiting = Counter(run for item in items for run in item.runs)
        self._unplaced: dict[str, list[int]] = defaultdict(list)
        self._deferred: list[int] = []
        self._first_names: set[_Trace] = set()
        self._owners: dict[_Trace, int] = {}
        self._attempts: Counter[int] = Counter()
        self._damaged: set[_Trace] = set()
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
            for index in sorted(self._deferred, key=self._order):
                self._place(index, self._staged(index), may_number=True)
            self._work()
        except BaseException:
            for future in self._running:
                future.cancel()
            raise
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
            self._compat,
            self._categories,
            self._threads,
            frozenset(
                record.content
                for record in self._records.matching(item.key, options)
                if record.content and (record.run, record.rank) not in self._damaged
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
            index, handle, future = self._completions.get()
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
        """Convert a file again, as another batch has published its staged folder."""
        if self._attempts[index] < _ATTEMPTS:
            self._records = _Records.of(self._store.records())
            self._submit(index)
        else:
            self._fail(index, StoreError("what was converted is gone from the store"))

    def _fail(self, index: int, error: Exception) -> None:
        """Report a file whose task failed or could not start."""
        message = str(error) or type(error).__name__
        report = Report("failed", error=f"{self._items[index].key}: {message}")
        if index in self._reports:
            self._finish(index, report)
        else:
            self._settle(index, report)

    def _settle(self, index: int, report: Report) -> None:
        """Keep the report of a file, and release the runs that waited for it."""
        is_first = index not in self._reports
        self._reports[index] = report
        if report.staged is None:
            self._finish(index, report)
        elif is_first:
            self._first_names.add((report.staged.run, report.staged.rank))
            self._unplaced[report.staged.run].append(index)
        else:
            self._place(index, report.staged, may_number=True)
        if is_first:
            for run in self._items[index].runs:
                self._waiting[run] -= 1
                if not self._waiting[run]:
                    self._release(run)

    def _release(self, run: str) -> None:
        """Publish the first file of each rank of a run, all of whose files are converted."""
        for index in sorted(self._unplaced.pop(run, ()), key=self._order):
            self._place(index, self._staged(index), may_number=False)

    def _place(self, index: int, staged: Record, *, may_number: bool) -> None:
        """Publish a staged folder under its name, or start a copy under another one."""
        original = self._staged(index)
        with self._store.locked():
            while True:
                choice = self._choose(index, may_number=may_number)
                if choice is None or choice.is_there or choice.run != staged.run:
                    break
                if self._publish(index, staged, replace=choice.replace):
                    return
        if choice is not None and choice.is_there:
            self._store.discard(original)
            self._finish(index, replace(self._reports[index], status="unchanged"), choice.run)
        elif choice is None:
            self._deferred.append(index)
        else:
            self._owners[choice.run, staged.rank] = index
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
        self._store.discard(self._staged(index))
        self._owners[staged.run, staged.rank] = index
        self._finish(index, self._reports[index], staged.run)
        return True

    def _choose(self, index: int, *, may_number: bool) -> _Choice | None:
        """The name of a file; None if it needs a number, and ``may_number`` is False."""
        staged, source = self._staged(index), self._items[index].key
        for record in self._records.by_source.get(source, ()):
            if record.rank == staged.rank and _is_cycle(record.run, staged.run):
                stored = self._record_at(record.run, record.rank)
                if stored is not None and stored.source == source:
                    return self._existing_name(stored, index)
        for number in itertools.count():
            run = f"{staged.run}.{number}" if number else staged.run
            name = run, staged.rank
            if number and not may_number:
                return None
            if self._owners.get(name, index) != index or (number and name in self._first_names):
                continue
            stored = self._record_at(*name)
            if stored is None:
                return _Choice(run, replace=self._store.has(folder_of(*name)))
            if stored.source == source:
                return self._existing_name(stored, index)
        raise AssertionError

    def _record_at(self, run: str, rank: int) -> Record | None:
        """The record of a name, of a folder or a pack."""
        single = self._store.record_at(run, rank)
        if single is not None:
            return single
        packs = self._store.packs()
        if packs != self._packs:  # packed meanwhile
            self._packs, self._records = packs, _Records.of(self._store.records())
        record = self._records.by_name.get((run, rank))
        return record if record is not None and record.is_packed else None

    def _existing_name(self, stored: Record, index: int) -> _Choice:
        """The name of an earlier trace of the same source."""
        report = self._reports[index]
        is_same = stored.content == report.content and stored.options == self._options(index)
        is_there = is_same and (stored.run, stored.rank) not in self._damaged
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
                except FileNotFoundError:  # replaced at this moment
                    pass
                except StoreError:
                    if (run, rank) not in self._damaged:
                        self._damaged.add((run, rank))
                        self._submit(index)
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
        return options_text(item.run, item.rank, self._compat, self._categories)


def _as_utf8(error: str | None) -> str | None:
    """A message as UTF-8, with other bytes of paths as escapes."""
    return None if error is None else error.encode("utf-8", "backslashreplace").decode()


def _is_cycle(run: str, of: str) -> bool:
    """Whether a run is another one, maybe with a number."""
    number = run.removeprefix(f"{of}.")
    return run == of or (number != run and number.isdecimal())
