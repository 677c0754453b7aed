"""Verbs of stores: `convert`, and those of `store`."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

import click

from profframe.cli.dividing import check_workers
from profframe.cli.loading import LoadingBar
from profframe.cli.messages import BAD_INPUT, complain
from profframe.cli.output import OutputOptions, with_output
from profframe.cli.part import numbers_option
from profframe.cli.verbs import SOURCE, takes_sources, verbs, with_facts
from profframe.errors import without_secrets
from profframe.show.units import visible

if TYPE_CHECKING:
    from profframe.query.selection import Integers


def _shown(store: str) -> str:
    """What a store is called."""
    return visible(without_secrets(store))


@contextmanager
def _removals_shown(store: str) -> Iterator[None]:
    """Show a line for what was removed from a store because nobody works on it any longer."""
    import logging

    from profframe.store.leftovers import LOGGER

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            click.echo(f"{_shown(store)}: {record.getMessage()}", err=True)

    logger, handler = logging.getLogger(LOGGER), Lines()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _comma_separated(_: click.Context, __: click.Parameter, text: str | None) -> tuple[str, ...]:
    return () if text is None else tuple(filter(None, map(str.strip, text.split(","))))


_keep = click.option(
    "--keep",
    metavar="ANSWER,...",
    callback=_comma_separated,
    help="Answers, or files of SQL, to keep of each run besides the usual ones.",
)
_GRACE_S: Final = 1.5
_AGES: Final = {"h": 3600, "d": 86_400, "w": 7 * 86_400}


def _age(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    """Nanoseconds of ``30d``, ``12h`` or ``8w``."""
    if text is None:
        return None
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdecimal() and len(number) < 7 and unit in _AGES):
        raise click.BadParameter(f"a number with h, d or w, such as 30d, not {text!r}")
    return int(number) * _AGES[unit] * 10**9


@verbs.command()
@takes_sources
@click.option("-o", "--output", required=True, metavar="STORE", help="Folder to write.")
@click.option("--as-run", metavar="NAME", help="Name of the run, instead of the traces' own.")
@click.option(
    "--as-rank", type=click.IntRange(0), metavar="N", help="Rank, instead of the traces' own."
)
@click.option(
    "--pattern", help="Position of run and rank in the paths, such as '{run}/rank{rank}.json.gz'."
)
@click.option("--workers", type=click.IntRange(1), help="Processes; default: one per core.")
@click.option("--threads", type=click.IntRange(1), help="Threads of each worker.")
@click.option("--dask", metavar="ADDRESS", help="Work on the Dask cluster of this scheduler.")
@click.option("--watch", is_flag=True, help="Stay, and convert files as they arrive.")
@_keep
@click.option("--no-keep", is_flag=True, help="Keep no answers.")
@with_facts
def convert(
    sources: tuple[str, ...],
    output: str,
    as_run: str | None,
    as_rank: int | None,
    *,
    pattern: str | None,
    workers: int | None,
    threads: int | None,
    dask: str | None,
    watch: bool,
    keep: tuple[str, ...],
    no_keep: bool,
    facts: Mapping[str, Any],
) -> int:
    """Write traces into a Parquet store.

    TRACE can also be a URL. Files that the store already has unchanged are skipped, so a batch that
    was stopped resumes when you run it again; changed files are replaced. Different files never
    replace each other: those with the same run and rank are numbered by their start. Memory
    snapshots and dumps join the trace of their run and rank. If a file cannot be converted, the
    others still are, and the exit code is 1.

    Answers of each run are kept beside its events: questions about many runs, such as trend, read
    these (`profframe store keep`).

    With --watch, files are converted once their size and time stay the same, a line for each, until
    Ctrl-C or SIGTERM. A file that fails is tried again after growing pauses, and then named.
    """
    from profframe.conversion.convert import convert as batch
    from profframe.show import store_text
    from profframe.workers.dask import dask_workers

    check_workers(workers, dask)
    options: dict[str, Any] = {
        "run": as_run,
        "rank": as_rank,
        "pattern": pattern,
        "threads": threads,
        "workers": workers,
        "keep": None if no_keep else keep,
        **facts,
    }
    if no_keep and keep:
        raise click.UsageError("--keep and --no-keep: give only one")
    if watch:
        return _watch(sources, output, dask, options)
    with (
        _removals_shown(output),
        dask_workers(dask) if dask else nullcontext() as executor,
        closing(LoadingBar()) as bar,
    ):
        files = batch(
            [*sources],
            output,
            executor,
            progress=lambda p: bar(p.bytes_done, p.bytes, f"{p.files_done} of {p.files} files"),
            **options,
        )
    for error in store_text.errors(files):
        complain(error)
    click.echo(f"{_shown(output)}: {store_text.conversion(files)}", err=True)
    return BAD_INPUT if "failed" in files["status"] else 0


def _watch(
    sources: tuple[str, ...], output: str, dask: str | None, options: Mapping[str, Any]
) -> int:
    """Convert files as they arrive, until Ctrl-C or SIGTERM."""
    from profframe.conversion.watch import watch
    from profframe.show import store_text
    from profframe.workers.dask import dask_workers

    converted = failed = 0
    with (
        _ending_at_once(),
        _removals_shown(output),
        dask_workers(dask) if dask else nullcontext() as executor,
    ):
        try:
            for files in watch([*sources], output, executor, **options):
                statuses = files["status"].to_list()
                converted += sum(status in {"written", "joined"} for status in statuses)
                failed += statuses.count("failed")
                for line in store_text.arrivals(files):
                    click.echo(visible(line))
                for error in store_text.errors(files):
                    complain(error)
        except SystemExit:
            pass
        finally:
            click.echo(f"{visible(output)}: {store_text.watched(converted, failed)}", err=True)
    return BAD_INPUT if failed else 0


@contextmanager
def _ending_at_once() -> Iterator[None]:
    """Let SIGTERM end the block like an error, so that it leaves nothing behind; soon at any rate.

    What is left if a library holds it up is removed by the next process that writes there.
    """

    def end(*_: object) -> None:
        timer = threading.Timer(_GRACE_S, os._exit, (0,))
        timer.daemon = True
        timer.start()
        raise SystemExit

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@verbs.group("store")
def store_verbs() -> None:
    """List, check, compact, upgrade or remove what a store has."""


_store = click.argument("path", metavar="STORE", type=SOURCE)


@store_verbs.command("ls")
@_store
@click.option("--ranks", is_flag=True, help="One row per rank.")
@with_output
def store_list(path: str, *, ranks: bool, output: OutputOptions) -> None:
    """Show the runs of a store.

    Ranks, events, bytes, start, and the versions of schema and facts; also for a store with another
    schema version. A line above counts what another version of profframe has read.
    """
    from profframe.show import store_text
    from profframe.store import maintenance

    contents = maintenance.contents(path)
    rows = contents if ranks else store_text.by_run(contents)
    output.emit(rows, lambda width: store_text.listing(contents, rows, width))


@store_verbs.command("rm")
@_store
@click.argument("runs", metavar="[RUN...]", nargs=-1)
@numbers_option("--rank", "ranks", help="Only these ranks, such as 0, 0-63 or 0,2-3.")
@click.option(
    "--older-than",
    metavar="AGE",
    callback=_age,
    help="Only runs that started before that, such as 30d (h, d, w).",
)
@click.option(
    "--keep-answers",
    is_flag=True,
    help="Remove only events: trend, regressions and outliers still have the runs.",
)
@_keep
def store_remove(
    path: str,
    runs: tuple[str, ...],
    *,
    ranks: Integers,
    older_than: int | None,
    keep_answers: bool,
    keep: tuple[str, ...],
) -> None:
    """Remove runs, or ranks, from a store.

    Others may read the store meanwhile. RUN is a name from `profframe store ls`. With
    --keep-answers, the answers that questions about many runs read stay (`profframe store keep`);
    what is lacking of them is computed first.
    """
    from profframe.conversion.keep import free, runs_of
    from profframe.show import store_text
    from profframe.store import maintenance

    if not runs and not ranks and older_than is None:
        raise click.UsageError("name a RUN, or give --rank or --older-than")
    if ranks and (keep_answers or older_than is not None):
        raise click.UsageError("--rank: answers and ages are of whole runs")
    if keep and not keep_answers:
        raise click.UsageError("--keep: only with --keep-answers")
    limit = None if older_than is None else time.time_ns() - older_than
    if keep_answers:
        with closing(LoadingBar("runs")) as bar:
            removed = free(
                path,
                runs or None,
                older_than_ns=limit,
                more=keep,
                progress=lambda done, total: bar(done, total, "keeping answers"),
            )
        what = f"events of {store_text.trace_count(removed)} removed, their answers stay"
    else:
        chosen = runs if limit is None else runs_of(path, runs or None, limit)
        is_any = bool(chosen) or bool(ranks)
        removed = maintenance.remove(path, chosen or None, ranks or None) if is_any else []
        what = f"{store_text.trace_count(removed)} removed"
    click.echo(f"{_shown(path)}: {what if removed else 'nothing to remove'}", err=True)


@store_verbs.command("keep")
@_store
@_keep
@click.option("--workers", type=click.IntRange(1), default=1, help="Processes.", show_default=True)
def store_keep(path: str, *, keep: tuple[str, ...], workers: int) -> int:
    """Compute answers of each run, and keep them beside its events.

    `profframe convert` does it, too. Questions about many runs read these: trend, regressions,
    outliers, `profframe check` and `profframe diff`. What is there already and still of the same
    events and the same SQL stays.
    """
    from profframe.conversion.keep import keep as keep_answers
    from profframe.show import store_text
    from profframe.workers.pool import local_pool

    pool = local_pool(workers) if workers > 1 else nullcontext()
    with pool as executor, closing(LoadingBar("runs")) as bar:
        done = keep_answers(
            path,
            keep,
            executor=executor,
            progress=lambda number, total: bar(number, total, "keeping answers"),
        )
    for error in done.errors:
        complain(f"{path}: {error}")
    click.echo(f"{_shown(path)}: {store_text.kept_runs(done.runs, done.current)}", err=True)
    return BAD_INPUT if done.errors else 0


@store_verbs.command("kept")
@_store
@click.argument("answer", required=False)
@click.option("--run", "runs", multiple=True, metavar="RUN", help="Only this run; can be repeated.")
@click.option("--top", type=click.IntRange(1), help="Rows.")
@with_output
def store_kept(
    path: str, answer: str | None, *, runs: tuple[str, ...], top: int | None, output: OutputOptions
) -> None:
    """Show a kept answer of each run, also of runs whose events were removed.

    Without ANSWER: which are kept, and of how many runs.
    """
    from profframe.conversion.keep import kept

    rows = kept(path, answer, runs or None)
    output.emit(rows if top is None else rows.head(top), top=top)


@store_verbs.command("compact")
@_store
def store_compact(path: str) -> None:
    """Compact many folders of a store into one.

    Answers stay the same; others may read the store meanwhile.
    """
    from profframe.show import store_text
    from profframe.store import maintenance

    with _removals_shown(path), closing(LoadingBar()) as bar:
        number = maintenance.compact(path, lambda done, total: bar(done, total, "packing"))
    click.echo(f"{_shown(path)}: {store_text.pack_count(number)}", err=True)


@store_verbs.command("upgrade")
@_store
@click.option("--workers", type=click.IntRange(1), help="Processes; default: one per core.")
@click.option("--dask", metavar="ADDRESS", help="Work on the Dask cluster of this scheduler.")
@click.option(
    "--default-options",
    is_flag=True,
    help="Traces without a record of their options, as to_parquet writes them, had none.",
)
@click.option("--no-sources", is_flag=True, help="Read no file that the store names.")
@with_output
def store_upgrade(
    path: str,
    *,
    workers: int | None,
    dask: str | None,
    default_options: bool,
    no_sources: bool,
    output: OutputOptions,
) -> int:
    """Upgrade a store to the tables and facts of this profframe.

    Facts are derived anew from stored columns; a source is read only for what these lack, if it is
    unchanged. Others may read the store meanwhile, and an upgrade that was stopped continues when
    you run it again. If a trace cannot be upgraded, the others still are, and the exit code is 1.
    """
    from profframe.conversion.upgrade import upgrade
    from profframe.show import store_text, terminal
    from profframe.workers.dask import dask_workers

    check_workers(workers, dask)
    with (
        _removals_shown(path),
        dask_workers(dask) if dask else nullcontext() as executor,
        closing(LoadingBar()) as bar,
    ):
        traces = upgrade(
            path,
            executor,
            lambda done, total: bar(done, total, "upgrading"),
            workers=workers,
            default_options=default_options,
            sources=not no_sources,
        )
    if output.is_asked_for:
        output.emit(traces, lambda _: terminal.table(traces, None))
    for line in store_text.upgrade_problems(traces):
        complain(line)
    for line in store_text.upgrade_notes(traces):
        click.echo(line, err=True)
    click.echo(f"{_shown(path)}: {store_text.upgraded(traces)}", err=True)
    return BAD_INPUT if "failed" in traces["status"] else 0


@store_verbs.command("verify")
@_store
@with_output
def store_verify(path: str, output: OutputOptions) -> int:
    """Check every file of a store: checksum, columns and types.

    The exit code is 1 if anything is wrong; a line for each file says what.
    """
    from profframe.show import store_text, terminal
    from profframe.store import maintenance

    with _removals_shown(path), closing(LoadingBar()) as bar:
        problems = maintenance.verify(path, lambda done, total: bar(done, total, "checking"))
    if output.is_asked_for:
        output.emit(problems, lambda _: terminal.table(problems, None))
    for line in store_text.problems(problems):
        complain(line)
    if not problems.height:
        click.echo(f"{_shown(path)}: sound", err=True)
    return BAD_INPUT if problems.height else 0
