"""The command line: verbs that bind arguments to functions, and exceptions to exit codes."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from profframe import __version__
from profframe.errors import AnswerError, ParameterError, ProfframeError, UnknownNameError
from profframe.show.units import visible

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType
    from rich.progress import Progress, TaskID

    from profframe.trace import Trace

    _Human = Callable[[int | None], RenderableType]

BAD_INPUT: Final = 1
GREW: Final = 3
INTERRUPTED: Final = 130

_MOST_THREADS: Final = 40
_MOST_GAPS: Final = 5
_THREAD: Final = ("run", "rank", "thread", "pid", "tid", "process_name", "thread_name")
_QUIET_S: Final = 1.0
"""Loading that takes less shows no progress."""
_VERBS: Final = {
    "critical_path": "critical-path TRACE [--step N]",
    "regressions": "check TRACE --baseline RUN",
    "tree": "tree TRACE",
}
"""Questions that are no files of SQL, and the verbs that answer them."""
_METHODS: Final[Mapping[str, Mapping[str, type]]] = {
    "trend": {"metric": str, "per_step": int},
    "outliers": {"per": str, "top": int, "ops": int},
}
"""Questions that are statistics of answers, and their parameters."""
_PATH: Final = {"step": int, "run": str, "rank": int, "annotation": str, "instance": int}
_ENDINGS: Final[Mapping[str, str]] = {".csv": "csv", ".json": "json", ".parquet": "parquet"}


class _Verbs(click.Group):
    """Verbs; what starts with none of them is a trace to show."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {*self.commands, "--version", "-h", "--help"}
        return super().parse_args(ctx, ["show", *args] if args and args[0] not in own else args)


_sources = click.argument("sources", metavar="TRACE...", nargs=-1, required=True)
_form = click.option(
    "--format",
    "form",
    type=click.Choice(["table", *_ENDINGS.values()]),
    help="Default: by the ending of FILE, else a table.",
)
_compat = click.option(
    "--compat",
    type=click.Choice(["torch"]),
    help="Facts as torch has them, also where those are wrong.",
)
_output = click.option("-o", "--output", type=Path, metavar="FILE", help="Write into a file.")


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def verbs() -> None:
    """Where the time of a PyTorch program went.

    A TRACE is a trace file, a glob, a folder of traces, or a store. Without a verb it is shown:
    `profframe trace.json`. A file that is named like a verb needs its folder: `./info`.
    """


@verbs.command()
@_sources
@click.option("--top", default=10, show_default=True, type=click.IntRange(1), help="Rows a table.")
@click.option(
    "--sort", default="self_ns", show_default=True, metavar="COLUMN", help="Largest first."
)
@click.option("--rank", type=int, help="Only this rank.")
@click.option("--step", type=int, help="Only this profiler step.")
@_compat
def show(
    sources: tuple[str, ...],
    top: int,
    sort: str,
    rank: int | None,
    step: int | None,
    *,
    compat: str | None,
) -> None:
    """Show where the time went (the default).

    Overview, what the devices did and why they waited, self times, kernels, and quality notes.
    """
    from profframe.answering import find
    from profframe.show import terminal

    columns = [column.name for column in find("self_times").columns]
    if sort not in columns:
        raise click.UsageError(str(UnknownNameError.among("column to sort by", sort, columns)))
    trace = _load(sources, compat=compat)
    try:
        trace = trace.filter(ranks=rank, steps=step)
    except UnknownNameError as error:
        raise UnknownNameError(f"{' '.join(sources)}: {error}") from None
    found = trace.summary()
    width = _width()
    parts = [
        terminal.summary(found, " ".join(sources)),
        terminal.ranking(found.overview, top, width, "Overview"),
    ]
    self_times = trace.self_times().sort(
        sort, descending=True, nulls_last=True, maintain_order=True
    )
    rankings = [*_device_rankings(trace, top), *_rank_rankings(trace), ("Self time", self_times)]
    for title, rows in (*rankings, ("Kernels", trace.kernels())):
        if rows.height:
            parts.append(terminal.ranking(rows, top, width, title))
    if found.quality.height:
        parts.append(terminal.notes(found.quality, width))
    _print(*parts)


@verbs.command()
@_sources
@click.option("-o", "--output", required=True, metavar="STORE", help="Folder to write.")
@click.option("--run", help="Name of the run, in place of the traces' own.")
@click.option("--rank", type=click.IntRange(0), help="Rank, in place of the traces' own.")
@click.option(
    "--pattern", help="Where run and rank are in the paths, as in '{run}/rank{rank}.json.gz'."
)
@click.option("--workers", type=click.IntRange(1), help="Processes; default: for all cores.")
@click.option("--threads", type=click.IntRange(1), help="Threads of each worker.")
@click.option("--dask", metavar="ADDRESS", help="Work on the Dask cluster of this scheduler.")
@_compat
def convert(
    sources: tuple[str, ...],
    output: str,
    run: str | None,
    rank: int | None,
    *,
    pattern: str | None,
    workers: int | None,
    threads: int | None,
    dask: str | None,
    compat: str | None,
) -> int:
    """Write traces into a Parquet store.

    TRACE can also be a URL. A file that the store has already and that has not changed is left
    out, so a batch that was stopped goes on when it is given again; one that has changed is
    replaced. Different files never replace each other: those of the same run and rank are
    numbered by their start. If a file cannot be converted, the others are, and the exit code is 1.
    """
    from profframe.batch.cluster import dask_workers
    from profframe.batch.converting import convert as batch
    from profframe.show import conversion

    if dask is not None and workers is not None:
        raise click.UsageError("--workers are of this machine; a Dask cluster has its own")
    with dask_workers(dask) if dask else nullcontext() as executor, closing(_Bar()) as bar:
        files = batch(
            [*sources],
            output,
            executor,
            run,
            rank,
            pattern,
            threads,
            lambda p: bar(p.bytes_done, p.bytes, f"{p.files_done} of {p.files} files"),
            workers=workers,
            compat=compat,
        )
    for error in conversion.errors(files):
        _complain(error)
    click.echo(f"{visible(output)}: {conversion.headline(files)}", err=True)
    return BAD_INPUT if "failed" in files["status"] else 0


@verbs.command()
@click.argument("name", required=False)
@click.argument("sources", metavar="[TRACE...]", nargs=-1)
@click.option("-p", "parameters", multiple=True, metavar="KEY=VALUE", help="Set a parameter.")
@_compat
@_form
@_output
def answer(
    name: str | None,
    sources: tuple[str, ...],
    parameters: tuple[str, ...],
    *,
    compat: str | None,
    form: str | None,
    output: Path | None,
) -> None:
    """Ask a question of the catalogue.

    NAME is one of its names, or a path that ends in .sql. Alone: the list of questions. With a
    NAME alone: its columns and parameters.
    """
    from profframe.trace import answers

    form = _checked_form(form, output)
    if name is None:
        listed = answers()
        _emit(listed, form, output, _sentences(listed))
        return
    given = dict(map(_parameter, parameters))
    if name == "critical_path" and sources:
        options = _options(given, _PATH)
        trace = _load(sources, compat=compat)
        rows = trace.critical_path(**options).events
        _emit(rows, form, output, _rows(rows, trace))
        return
    if name in _METHODS and sources:
        options = _options(given, _METHODS[name])
        trace = _load(sources, compat=compat)
        rows = getattr(trace, name)(**options)
        _emit(rows, form, output, _rows(rows, trace))
        return
    _check(name, given)
    if not sources:
        columns = _columns(name)
        _emit(columns, form, output, _sentences(columns))
        return
    trace = _load(sources, compat=compat)
    rows = trace.answer(name, **given)
    _emit(rows, form, output, _rows(rows, trace))


@verbs.command()
@click.argument("source")
@click.argument("query")
@_compat
@_form
@_output
def sql(source: str, query: str, compat: str | None, form: str | None, output: Path | None) -> None:
    """Run one SELECT over the tables.

    They are: events, memory, flows, counters, instants, threads, devices, traces, quality.
    """
    form = _checked_form(form, output)
    trace = _load((source,), compat=compat)
    rows = trace.sql(query)
    _emit(rows, form, output, _rows(rows, trace))


@verbs.command()
@_sources
@click.option("--event", "event_id", type=int, metavar="ID", help="Only what is inside this event.")
@click.option("--depth", type=click.IntRange(0), help="Levels below it; default: as many as fit.")
@click.option("--run", help="Which run, where there are several.")
@click.option("--rank", type=int, help="Which rank, where there are several.")
@click.option("--rows", default=200, show_default=True, type=click.IntRange(1), help="Most slices.")
def tree(
    sources: tuple[str, ...],
    event_id: int | None,
    depth: int | None,
    *,
    run: str | None,
    rank: int | None,
    rows: int,
) -> None:
    """Show host slices inside one another.

    With their times, depth first. Without --event: all threads, the busiest first.
    """
    from rich.text import Text

    trace = _load(sources)
    try:
        drawn = trace.tree(event_id, depth, run, rank, rows)
    except AnswerError as error:
        raise type(error)(f"{' '.join(sources)}: {error}") from None
    _print(Text(drawn, no_wrap=True, overflow="ellipsis"))


@verbs.command("critical-path")
@_sources
@click.option("--step", type=int, help="Of this profiler step; default: of the whole trace.")
@click.option("--annotation", metavar="NAME", help="Of the first annotation of this name.")
@click.option("--run", help="Which run, where there are several.")
@click.option("--rank", type=int, help="Which rank, where there are several.")
@click.option("--top", default=10, show_default=True, type=click.IntRange(1), help="Rows a table.")
@click.option("--overlay", type=Path, metavar="FILE", help="Write the trace with the path marked.")
@_form
@_output
def critical_path(
    sources: tuple[str, ...],
    step: int | None,
    annotation: str | None,
    *,
    run: str | None,
    rank: int | None,
    top: int,
    overlay: Path | None,
    form: str | None,
    output: Path | None,
) -> None:
    """Show what the end had to wait for.

    Of a step, an annotation or the whole trace, back to its start: host, launches, work of the
    devices, waits. With --format or -o: every stretch of the path.
    """
    from profframe.show import path, terminal

    chosen = _checked_form(form, output)
    trace = _load(sources)
    try:
        found = trace.critical_path(step, run, rank, annotation)
    except AnswerError as error:
        raise type(error)(f"{' '.join(sources)}: {error}") from None
    if overlay is not None:
        trace.filter(runs=found.run, ranks=found.rank).export_chrome_trace(
            overlay, highlight=found if found.events.height else None
        )
    if form is not None or output is not None:
        _emit(found.events, chosen, output, _rows(found.events, trace))
        return
    width = _width()
    _print(
        terminal.table(found.bounds, width, f"Critical path of {visible(found.headline)}"),
        terminal.ranking(path.longest(found.events), top, width, "What takes longest on it"),
    )


@verbs.command()
@click.argument("base")
@click.argument("other")
@click.option(
    "--names", default="base,other", show_default=True, metavar="A,B", help="What they are called."
)
@click.option(
    "--kernel-by",
    default="name",
    show_default=True,
    type=click.Choice(["name", "short_name", "shapes"]),
    help="What kernels are matched by; shapes: the op that launched them, with its input shapes.",
)
@click.option(
    "--per",
    default="run",
    show_default=True,
    type=click.Choice(["run", "step"]),
    help="What is averaged and compared where there are several.",
)
@click.option("--copies", is_flag=True, help="Copies and fills of memory are kernels, too.")
@click.option("--top", default=10, show_default=True, type=click.IntRange(1), help="Rows a table.")
@click.option(
    "--name-width",
    default=60,
    show_default=True,
    type=click.IntRange(0),
    help="Characters of a name; 0: all.",
)
@click.option("--fail-on", metavar="N%", help="Exit with 3 if something grew by more.")
@_form
@_output
def diff(
    base: str,
    other: str,
    *,
    names: str,
    kernel_by: str,
    per: str,
    copies: bool,
    top: int,
    name_width: int,
    fail_on: str | None,
    form: str | None,
    output: Path | None,
) -> int:
    """Show what changed from BASE to OTHER.

    Each is a trace file, a quoted glob, a folder of traces, or a store. Several runs, or steps
    with --per step, are averaged, and what differs by more than noise is called significant.

    --fail-on 5%: exit code 3 if the self time of all ops or the time of all kernels grew by more
    than 5 %, or a significant row that took at least 1 % of its kind in BASE did. Of one run a
    side no row is significant.
    """
    from profframe.comparing.limits import grown, percent, totals
    from profframe.diffing import diff as compare
    from profframe.show import changes

    chosen = _checked_form(form, output)
    try:
        limit = None if fail_on is None else percent(fail_on)
    except ParameterError as error:
        raise click.UsageError(f"--fail-on: {error}") from error
    pair = names.split(",")
    if len({*pair}) != 2 or len(pair) != 2 or not all(pair):
        raise click.UsageError(f"--names: two different names, as in before,after, not {names!r}")
    sides = _load((base,)), _load((other,))
    rows = compare(*sides, pair, kernel_by=kernel_by, per=per, copies=copies)
    sums = totals(rows)
    _emit(
        rows,
        chosen,
        output,
        lambda width: changes.report(
            rows, sums, (base, other), top=top, name_width=name_width, width=width
        ),
    )
    too_much = [] if limit is None else grown(rows, limit)
    for one in too_much:
        what = changes.grown(one.what, one.name, one.base_ns, one.other_ns)
        click.echo(f"grew by more than {fail_on}: {what}", err=True)
    return GREW if too_much else 0


@verbs.command()
@_sources
@click.option(
    "--baseline",
    required=True,
    multiple=True,
    metavar="RUN|PATTERN|N",
    help="Runs to hold others against, at least two; N: the N runs before these.",
)
@click.option(
    "--runs",
    multiple=True,
    metavar="RUN|PATTERN|N",
    help="Runs that are held against it; N: the latest N.  [default: all others; with --baseline N"
    " the latest]",
)
@click.option(
    "--fail-on",
    multiple=True,
    metavar="[METRIC=]N%",
    help="Exit with 3 if something got worse by more.",
)
@click.option(
    "--per-step",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Tokens or samples of a step, for the metric throughput_per_s.",
)
@click.option("--top", default=10, show_default=True, type=click.IntRange(1), help="Rows.")
@_form
@_output
def check(
    sources: tuple[str, ...],
    baseline: tuple[str, ...],
    runs: tuple[str, ...],
    fail_on: tuple[str, ...],
    *,
    per_step: int,
    top: int,
    form: str | None,
    output: Path | None,
) -> int:
    """Hold runs against several runs before.

    TRACE is a store or traces of several runs. Shown are the ops and kernels that take longer, by
    more than they vary from run to run. With --format or -o: these rows, with all columns.

    --fail-on 5%: exit code 3 if the self time of all ops or the time of all kernels grew by more
    than 5 %, or an op or kernel did that took at least 1 % of its kind in the baseline.
    --fail-on METRIC=5%: if a column of `profframe answer runs` got worse by more, or op:NAME or
    kernel:NAME; can be repeated. What noise explains does not count.
    """
    from profframe.comparing.checking import check as hold
    from profframe.comparing.checking import limit_of
    from profframe.show import checks

    chosen = _checked_form(form, output)
    try:
        limits = dict(map(limit_of, fail_on))
    except ParameterError as error:
        raise click.UsageError(f"--fail-on: {error}") from error
    trace = _load(sources)
    names = set(trace.traces["run"])
    base, others = _some_runs(baseline, names), _some_runs(runs, names) if runs else None
    found = hold(trace, base, others, limits, per_step)
    _emit(
        found.regressions,
        chosen,
        output,
        lambda width: checks.report(
            (found.base, found.others), found.metrics, found.regressions, top=top, width=width
        ),
    )
    for one in found.worse:
        what = checks.worse(one.metric, one.base, one.other)
        click.echo(f"worse by more than {float(100 * one.limit):g} %: {what}", err=True)
    return GREW if found.worse else 0


@verbs.command()
@_sources
@click.option(
    "--by",
    default="kernel",
    show_default=True,
    type=click.Choice(["kernel", "op", "shapes", "dtype"]),
)
@click.option("--dtype", metavar="TYPE", help="Hold all work against the peak of this data type.")
@click.option("--devices", type=Path, metavar="FILE", help="JSON file of your own devices' peaks.")
@click.option("--top", default=20, show_default=True, type=click.IntRange(1), help="Rows.")
@_form
@_output
def roofline(
    sources: tuple[str, ...],
    by: str,
    dtype: str | None,
    devices: Path | None,
    *,
    top: int,
    form: str | None,
    output: Path | None,
) -> None:
    """Show how close kernels came to what their device can do.

    Achieved rates, their shares of the peaks, and the time that was lost, the most first. With
    --format or -o: all rows and columns.
    """
    from rich.text import Text

    from profframe.show import roofline as shown
    from profframe.show import terminal

    chosen = _checked_form(form, output)
    if dtype is not None:
        _check("roofline", {"dtype": dtype})
    trace = _load(sources)
    trace = trace if devices is None else trace.with_devices(devices)
    rows = trace.roofline(by, dtype)
    if form is not None or output is not None:
        _emit(rows, chosen, output, _rows(rows, trace))
        return
    title = f"Roofline by {by}"
    _print(
        Text(shown.headline(rows, trace.devices)),
        terminal.ranking(shown.rows(rows), top, _width(), title),
    )


@verbs.command()
@click.argument("source", metavar="IN")
@click.argument("output", metavar="OUT", type=Path)
@click.option("--devices", type=Path, metavar="FILE", help="JSON file of your own devices' peaks.")
@click.option("--run", help="Which run, where there are several.")
@click.option("--rank", type=int, help="Which rank, where there are several.")
def augment(
    source: str, output: Path, devices: Path | None, run: str | None, rank: int | None
) -> None:
    """Write a trace again, with FLOPs, bytes and achieved percentages for Perfetto to show.

    They are arguments of ops and kernels: kernel_flop, kernel_num_gb, achieved_flops_pct,
    achieved_bandwidth_pct.
    """
    trace = _load((source,))
    try:
        trace = trace.filter(runs=run, ranks=rank)
    except UnknownNameError as error:
        raise UnknownNameError(f"{source}: {error}") from None
    trace = trace if devices is None else trace.with_devices(devices)
    trace.augment(output)
    counts = trace.sql(
        "SELECT count(*) FILTER (coalesce(flops, bytes) IS NOT NULL) AS known, count(*) AS kernels"
        " FROM events WHERE kind = 'kernel'"
    )
    known, kernels = counts.row(0)
    click.echo(f"{visible(str(output))}: work known of {known:,} of {kernels:,} kernels", err=True)


@verbs.command()
@_sources
def info(sources: tuple[str, ...]) -> None:
    """Show what is inside.

    Runs, ranks, what each trace's header says, tables, threads, and quality notes.
    """
    from profframe.show import terminal

    trace = _load(sources)
    found, width = trace.summary(), _width()
    parts = [
        terminal.summary(found, " ".join(sources)),
        *terminal.headers(found.traces),
        terminal.table(_row_counts(trace), width, "Tables"),
        terminal.ranking(trace.threads.select(_THREAD), _MOST_THREADS, width, "Threads"),
    ]
    if found.quality.height:
        parts.append(terminal.notes(found.quality, width))
    _print(*parts)


@verbs.group("store")
def store_verbs() -> None:
    """List, check, pack, or remove what a store has."""


_store = click.argument("path", metavar="STORE", type=Path)


@store_verbs.command("ls")
@_store
@click.option("--ranks", is_flag=True, help="A row for each rank.")
@_form
@_output
def store_list(path: Path, *, ranks: bool, form: str | None, output: Path | None) -> None:
    """Show the runs of a store.

    Ranks, events, bytes, start, and schema version; also of a store of another version.
    """
    from profframe import retention
    from profframe.show import stored

    chosen = _checked_form(form, output)
    found = retention.contents(path)
    rows = found if ranks else stored.by_run(found)
    _emit(rows, chosen, output, lambda width: stored.listing(found, rows, width))


@store_verbs.command("rm")
@_store
@click.argument("runs", metavar="[RUN...]", nargs=-1)
@click.option("--rank", "ranks", multiple=True, type=int, help="Only this rank; also several.")
def store_remove(path: Path, runs: tuple[str, ...], ranks: tuple[int, ...]) -> None:
    """Remove runs, or ranks, from a store.

    Others may read the store meanwhile. RUN is a name as `profframe store ls` has it.
    """
    from profframe import retention
    from profframe.show import stored

    if not runs and not ranks:
        raise click.UsageError("which? name a RUN, or give --rank")
    removed = retention.remove(path, runs or None, ranks or None)
    click.echo(f"{visible(str(path))}: {stored.counted(removed)} removed", err=True)


@store_verbs.command("compact")
@_store
def store_compact(path: Path) -> None:
    """Pack many folders of a store into one.

    Answers stay the same; others may read the store meanwhile.
    """
    from profframe import retention
    from profframe.show import stored

    with closing(_Bar()) as bar:
        number = retention.compact(path, lambda done, total: bar(done, total, "packing"))
    click.echo(f"{visible(str(path))}: {stored.packed(number)}", err=True)


@store_verbs.command("verify")
@_store
@_form
@_output
def store_verify(path: Path, form: str | None, output: Path | None) -> int:
    """Check every file of a store: checksum, columns and types.

    The exit code is 1 if anything is wrong; then a line says what, for each file.
    """
    from profframe import retention
    from profframe.show import stored

    chosen = _checked_form(form, output)
    with closing(_Bar()) as bar:
        problems = retention.verify(path, lambda done, total: bar(done, total, "checking"))
    if form is not None or output is not None:
        _emit(problems, chosen, output, lambda _: stored.problems(problems))
    for line in stored.lines(problems):
        _complain(line)
    if not problems.height:
        click.echo(f"{visible(str(path))}: sound", err=True)
    return BAD_INPUT if problems.height else 0


def main() -> NoReturn:
    """Run the command line; the exit code is 0, 1 for bad input, 2 for wrong usage.

    `diff` and `check` with `--fail-on` have 3 for what grew too much.
    """
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `profframe ... | head` ends quietly
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and turn an exception into one line of error and an exit code.

    Parameters
    ----------
    arguments
        What follows the program's name.

    Returns
    -------
    int
        The exit code.
    """
    try:
        code = verbs.main([*arguments], prog_name="profframe", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except ProfframeError as error:
        return _complain(str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _complain(f"{where}{error.strerror or error}")
    except Exception as error:
        if "PROFFRAME_DEBUG" in os.environ:
            raise
        name = type(error).__name__
        return _complain(
            f"internal: {name}: {error} (PROFFRAME_DEBUG=1 shows where; please report)"
        )
    return code if isinstance(code, int) else 0


def _complain(message: str) -> int:
    click.echo(f"error: {visible(message)}", err=True)
    return BAD_INPUT


def _load(
    sources: Sequence[str],
    run: str | None = None,
    rank: int | None = None,
    compat: str | None = None,
) -> Trace:
    from profframe.loading import load

    with closing(_Bar()) as bar:
        return load([*sources], run=run, rank=rank, compat=compat, progress=bar)


class _Bar:
    """Progress of loading, on a terminal, where it takes a while."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._shown: tuple[Progress, TaskID] | None = None

    def __call__(self, done: int, total: int, what: str = "loading") -> None:
        if self._shown is None:
            if time.monotonic() - self._started < _QUIET_S or not sys.stderr.isatty():
                return
            from rich.progress import DownloadColumn, Progress

            from profframe.show.terminal import console

            columns = *Progress.get_default_columns(), DownloadColumn()
            progress = Progress(*columns, console=console(error=True), transient=True)
            self._shown = progress, progress.add_task(what)
            progress.start()
        progress, task = self._shown
        progress.update(task, completed=done, total=total, description=what)

    def close(self) -> None:
        """Take the bar off the terminal."""
        if self._shown is not None:
            self._shown[0].stop()


def _device_rankings(trace: Trace, top: int) -> Iterator[tuple[str, pl.DataFrame]]:
    """Where the time of the devices went, and why they waited; nothing where there are none."""
    from profframe.show import devices, terminal

    breakdown = trace.time_breakdown()
    if not breakdown.height:
        return
    yield "Device time", devices.breakdown(breakdown)
    yield "Idle time of the devices", devices.causes(trace.idle(per="device"))
    most = min(top, _MOST_GAPS)
    gaps = terminal.since_start(devices.gaps(trace.gaps(top=most), most), trace.traces)
    yield "Largest gaps", terminal.compact(gaps)


def _rank_rankings(trace: Trace) -> Iterator[tuple[str, pl.DataFrame]]:
    """Who waits for whom; nothing where no two ranks of a run communicate."""
    from profframe.show import ranks

    if trace.traces.height == trace.traces["run"].n_unique():
        return
    late = trace.stragglers()
    if late.height:
        yield ranks.title(trace.clock_skew()), ranks.stragglers(late)


def _row_counts(trace: Trace) -> pl.DataFrame:
    from profframe.schema import TABLES

    counts = [f"SELECT '{t}' AS table_name, count(*) AS rows FROM {t}" for t in TABLES]  # noqa: S608
    return trace.sql(" UNION ALL ".join(counts))


def _some_runs(given: tuple[str, ...], names: Container[str]) -> tuple[str, ...] | int:
    """Names and patterns of runs; or a number of runs, unless a run has that name."""
    is_number = len(given) == 1 and given[0].isdecimal() and given[0] not in names
    return int(given[0]) if is_number else given


def _parameter(given: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not equals:
        raise click.UsageError(f"-p needs KEY=VALUE, got {given!r}")
    return key, value


def _options(given: Mapping[str, str], types: Mapping[str, type]) -> dict[str, Any]:
    """Arguments of a method out of the parameters of an answer."""
    for key, value in given.items():
        if key not in types:
            raise click.UsageError(str(UnknownNameError.among("parameter", key, types)))
        if types[key] is int and not value.removeprefix("-").isdecimal():
            raise click.UsageError(f"parameter {key!r} is an integer, got {value!r}")
    return {key: types[key](value) for key, value in given.items()}


def _check(name: str, parameters: Mapping[str, str]) -> None:
    """Find out what is wrong with a question before a large trace is loaded for it."""
    if name in _VERBS:
        raise click.UsageError(f"{name} is a verb: profframe {_VERBS[name]}")
    if name in _METHODS:
        known = " ".join(f"[-p {key}=...]" for key in _METHODS[name])
        raise click.UsageError(f"{name} needs traces: profframe answer {name} TRACE {known}")
    import duckdb

    from profframe.answering import find, prepare

    try:
        with duckdb.connect() as connection:
            prepare(connection, find(name), parameters)
    except (UnknownNameError, ParameterError) as error:
        raise click.UsageError(str(error)) from error


def _columns(name: str) -> pl.DataFrame:
    """What an answer gives and takes."""
    import polars as pl

    from profframe.answering import find

    found = find(name)
    rows = [("column", c.name, c.type, c.unit, c.doc) for c in found.columns]
    rows += [("parameter", p.name, p.type, f"={p.default}", p.doc) for p in found.parameters]
    names = ("what", "name", "type", "unit", "meaning")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def _checked_form(form: str | None, output: Path | None) -> str:
    chosen = form or (_ENDINGS.get(output.suffix, "table") if output else "table")
    if chosen == "parquet" and output is None:
        raise click.UsageError("--format parquet needs -o FILE")
    return chosen


def _emit(frame: pl.DataFrame, form: str, output: Path | None, human: _Human) -> None:
    """Write a frame in a form, to a file or to stdout."""
    if form == "table" and output is None:
        _print(human(_width()))
        return
    data = _encoded(frame, form, human)
    if output is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        output.write_bytes(data)


def _encoded(frame: pl.DataFrame, form: str, human: _Human) -> bytes:
    if form == "json":
        return _without_bytes(frame).write_json().encode() + b"\n"
    if form == "csv":
        return _flat(_without_bytes(frame)).write_csv().encode()
    if form == "parquet":
        file = io.BytesIO()
        frame.write_parquet(file)
        return file.getvalue()
    from profframe.show import terminal

    return terminal.text(human(None)).encode()


def _rows(frame: pl.DataFrame, trace: Trace) -> _Human:
    """How people see the rows of a query; on a terminal without the columns that say nothing."""
    from profframe.show import terminal

    rows = terminal.since_start(frame, trace.traces)
    return lambda width: terminal.table(terminal.compact(rows) if width else rows, width)


def _sentences(frame: pl.DataFrame) -> _Human:
    """How people see documentation."""
    from profframe.show import terminal

    return lambda _: terminal.prose(frame)


def _without_bytes(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with bytes as hexadecimal digits."""
    import polars as pl

    return frame.with_columns(pl.col(pl.Binary).bin.encode("hex"))


def _flat(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with lists and structs as JSON text, which CSV has no form for."""
    import polars as pl

    return frame.with_columns(
        pl.Series(column.name, [json.dumps(value, default=str) for value in column.to_list()])
        for column in frame
        if column.dtype.is_nested()
    )


def _width() -> int | None:
    """Columns of the terminal; None where the output goes elsewhere."""
    from profframe.show.terminal import console

    return console().width if sys.stdout.isatty() else None


def _print(*parts: RenderableType) -> None:
    """Print the parts with a line between them."""
    from profframe.show import terminal

    width = _width()
    for number, part in enumerate(parts):
        if number:
            click.echo()
        if width is None:
            click.echo(terminal.text(part), nl=False)
        else:
            terminal.console().print(part)
