"""Options of questions that are asked of each rank or run by itself: --each, --workers, --dask."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from profframe.cli.loading import LoadingBar
from profframe.cli.messages import BAD_INPUT, complain
from profframe.cli.output import OutputOptions
from profframe.cli.verbs import usage_errors
from profframe.errors import ExportError, PartsError
from profframe.show.units import visible

if TYPE_CHECKING:
    import polars as pl

    from profframe.query.header import Answer
    from profframe.trace.parts import CallOfParts, Progress, Question
    from profframe.trace.trace import Trace
    from profframe.workers.crew import On

    Arrange = Callable[[pl.DataFrame], pl.DataFrame]

_PART: Final = re.compile(r"part-[0-9]{5,}\.parquet", re.ASCII)


def check_workers(workers: int | None, dask: str | None) -> None:
    """Refuse workers of two kinds."""
    if workers is not None and dask is not None:
        raise click.UsageError(
            "--workers sets processes on this machine; a Dask cluster has its own workers"
        )


@dataclass(frozen=True, slots=True)
class Spread:
    """Whether a question is asked of each rank or run by itself, and where."""

    each: str | None
    workers: int | None
    dask: str | None

    def __bool__(self) -> bool:
        return self.each is not None

    def check(self) -> None:
        """Refuse workers that have nothing to divide, or are of two kinds."""
        check_workers(self.workers, self.dask)
        if self.each is None and (self.workers or self.dask):
            option = "--workers" if self.workers else "--dask"
            raise click.UsageError(f"{option}: say what each of them works on: --each rank or run")

    def answer(self, answer: Answer, values: Mapping[str, object]) -> Question:
        """An answer of each part; it is checked before anything is loaded."""
        from profframe.trace.parts import answer_of_parts

        with usage_errors():
            return answer_of_parts(answer, values, self.each)

    def call(self, method: str, named: Mapping[str, object]) -> CallOfParts:
        """A method of each part; it is checked before anything is loaded."""
        from profframe.trace.parts import calls_of_parts

        with usage_errors():
            return calls_of_parts(method, named, self.each)

    def ask(
        self,
        trace: Trace,
        question: Question,
        what: str,
        output: OutputOptions,
        emit: Callable[[pl.DataFrame], object],
    ) -> int:
        """Ask all parts, and write what they say: a file for each part, or all rows.

        Parts that fail are named, the others are written, and the exit code is 1.
        """
        from profframe.query.division import unit_of
        from profframe.trace.parts import Division, gathered

        folder = folder_of(output)
        with self._on() as on, closing(LoadingBar("parts")) as bar:
            division = Division(trace, question, unit_of(self.each), on, _shown(bar))
            if folder is not None:
                failed = _write(division, folder, output.columns)
            else:
                failed, rows = [], None
                try:
                    rows = gathered(division, what, trace._session.terms)  # noqa: SLF001 - its terms
                except PartsError as error:
                    failed, rows = [*error.failed], error.rows
                bar.close()
                emit(question.rows(trace, None) if rows is None else rows)
        for run, rank, why in failed:
            where = f"run {run!r}" + ("" if rank is None else f", rank {rank}")
            complain(f"{where}: {why}")
        return BAD_INPUT if failed else 0

    @contextmanager
    def _on(self) -> Iterator[On]:
        from profframe.workers.dask import dask_client

        with dask_client(self.dask) if self.dask else nullcontext() as client:
            yield client or self.workers


def folder_of(output: OutputOptions) -> Path | None:
    """The folder that parts are written to: what -o names without an ending."""
    file = output.file
    if file is None or output.form not in {"table", "parquet"}:
        return None
    return file if file.is_dir() or not file.suffix else None


def check_folder(output: OutputOptions, given: Mapping[str, object]) -> None:
    """Refuse what is of all rows where each part is written by itself."""
    for name in ("sort", "top"):
        if folder_of(output) is not None and given.get(name):
            raise click.UsageError(
                f"--{name} is of the rows of all parts: write them into one file, such as "
                "-o rows.parquet"
            )


def _write(
    division: Any, folder: Path, columns: Sequence[str]
) -> list[tuple[str, int | None, Exception]]:
    """Write a Parquet file for each part as it arrives; return those that failed."""
    from profframe.system.atomic_files import atomic_write
    from profframe.trace.parts import apart

    _prepare(folder)
    failed = {}
    for arrived in division.results():
        if arrived.rows is None:
            part = arrived.parts[0]
            failed[division.places[part]] = part.run, part.rank, arrived.error
            continue
        for part, rows in apart(arrived, division.unit):
            wanted = division.question.together([rows])
            wanted = wanted.select(columns) if columns else wanted
            with atomic_write(folder / f"part-{division.places[part]:05}.parquet") as draft:
                wanted.write_parquet(draft)
    count = len(division.places)
    written = count - len(failed)
    click.echo(f"{visible(str(folder))}: {written:,} of {count:,} parts written", err=True)
    return [failed[place] for place in sorted(failed)]


def _prepare(folder: Path) -> None:
    """An empty folder; parts of an earlier question are removed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = [path.name for path in folder.iterdir()]
        others = [name for name in names if not (_PART.fullmatch(name) or name.startswith("."))]
        if others:
            raise ExportError(
                f"{folder}: holds other files, such as {others[0]}; name a new folder"
            )
        for name in names:
            if _PART.fullmatch(name):
                (folder / name).unlink()
    except OSError as error:
        raise ExportError(f"{folder}: cannot be written: {error.strerror or error}") from error


def _shown(bar: LoadingBar) -> Callable[[Progress], None]:
    return lambda progress: bar(
        progress.parts_done, progress.parts, f"{progress.rows:,} rows, parts"
    )


def with_spread(verb: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb the options of `Spread`, as one argument ``spread``."""

    @functools.wraps(verb)
    def wrapper(*, each: str | None, workers: int | None, dask: str | None, **others: Any) -> Any:
        spread = Spread(each, workers, dask)
        spread.check()
        return verb(**others, spread=spread)

    result: Callable[..., Any] = wrapper
    for option in reversed(_OPTIONS):
        result = option(result)
    return result


_OPTIONS: Final = (
    click.option(
        "--each",
        type=click.Choice(["rank", "run"]),
        help="Ask each of them by itself, in memory for one; -o DIR writes a file for each.",
    ),
    click.option(
        "--workers", type=click.IntRange(1), help="With --each: processes on this machine."
    ),
    click.option("--dask", metavar="ADDRESS", help="With --each: the scheduler of a Dask cluster."),
)
