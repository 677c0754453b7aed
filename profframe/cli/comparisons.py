"""Verbs that compare: `diff` and `check`."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from profframe.cli.answers import check_question
from profframe.cli.keeping import with_cache
from profframe.cli.loading import load
from profframe.cli.messages import GREW
from profframe.cli.output import OutputOptions, with_metrics, with_output, with_page
from profframe.cli.verbs import (
    SOURCE,
    one_option,
    takes_dtype,
    takes_sources,
    usage_errors,
    verbs,
    with_facts,
)
from profframe.errors import AnswerError, without_secrets

if TYPE_CHECKING:
    from fractions import Fraction

    from rich.console import RenderableType

    from profframe.analysis.fail_on import Growth, Limit, Verdict
    from profframe.trace.trace import Trace


_PER: Final = ("run", "step")
_PER_OF_MEMORY: Final = (
    "stack", "frame", "module", "category", "pool", "metadata", "fx_node", "annotation",
)  # fmt: skip
"""As `profframe.comparisons.memory_diff` has them, which would be imported for every help."""


@verbs.command()
@click.argument("base", type=SOURCE)
@click.argument("other", type=SOURCE)
@click.option(
    "--names",
    default="base,other",
    show_default=True,
    metavar="A,B",
    help="Names of the two sides.",
)
@click.option(
    "--kernel-by",
    default="name",
    show_default=True,
    type=click.Choice(["name", "short_name", "shapes", "category"]),
    help="What to match kernels by; shapes: the op that launched them, with its input shapes.",
)
@one_option(
    "--per",
    type=click.Choice([*_PER, *_PER_OF_MEMORY]),
    help="What to average: run or step; for memory snapshots what each row is: stack, frame, "
    "module, ...  [default: run; stack]",
)
@click.option("--copies", is_flag=True, help="Treat memory copies and fills as kernels.")
@click.option(
    "--outside",
    default="none",
    show_default=True,
    type=click.Choice(["none", "kernels", "all"]),
    help="With --per step: also count what is outside steps, spread evenly over them.",
)
@click.option(
    "--steps",
    default="steady",
    show_default=True,
    type=click.Choice(["steady", "all"]),
    help="Steps that count; steady: neither warm-up nor cut off.",
)
@click.option("--devices", is_flag=True, help="Separate rows for the kernels of each device.")
@takes_dtype
@click.option(
    "--top", default=10, show_default=True, type=click.IntRange(1), help="Rows per table."
)
@click.option(
    "--name-width",
    default=60,
    show_default=True,
    type=click.IntRange(0),
    help="Maximum characters of a name; 0: all.",
)
@click.option(
    "--fail-on",
    multiple=True,
    metavar="[METRIC=]LIMIT",
    help="Exit with code 3 if something got worse by more; can be repeated.",
)
@with_facts
@with_cache
@with_page
def diff(
    base: str,
    other: str,
    *,
    names: str,
    kernel_by: str,
    per: str | None,
    copies: bool,
    outside: str,
    steps: str,
    devices: bool,
    dtype: str | None,
    top: int,
    name_width: int,
    fail_on: tuple[str, ...],
    facts: Mapping[str, Any],
    output: OutputOptions,
) -> int:
    """Show what changed from BASE to OTHER.

    Each is a trace file, a quoted glob, a folder of traces, or a store. Several runs, or steps with
    --per step, are averaged, and changes beyond noise are called significant.

    --fail-on 5%: exit code 3 if the self time of all ops or the time of all kernels grew by more
    than 5 %, or a significant row that took at least 1 % of its kind in BASE did. With one run on
    each side no row is significant.

    --fail-on METRIC=LIMIT: if the metric got worse by more, and by more than noise if both sides
    have several samples. METRIC is step (its duration, including idle time), memory (the peak),
    exposed_communication, a column of `profframe answer runs`, or op:NAME, kernel:NAME,
    annotation:NAME, category:NAME or module:NAME; a pattern such as '*Attention*' adds up all
    matches. LIMIT is 5%, 2ms or 200MB. Time is per run, or per step with --per step.

    --format markdown: a comment for a pull request. -o FILE.html: a page that shows why a step
    takes more or less time, as `profframe explain` does.

    For two memory snapshots: what they hold at the peak and at the end; --fail-on 5%, or
    memory=200MB, applies to the peak.
    """
    from profframe.analysis.fail_on import growths, totals, written
    from profframe.comparisons.diff import comparison
    from profframe.comparisons.diff_report import write as write_page
    from profframe.comparisons.explain import explain as explain_sides
    from profframe.comparisons.fail_on_metrics import check_limits
    from profframe.pages.report.page import check_installed
    from profframe.show import diff_text
    from profframe.show.comment import CheckedLimits, comment

    plain, limits = _limits(fail_on)
    pair = names.split(",")
    if len({*pair}) != 2 or len(pair) != 2 or not all(pair):
        raise click.UsageError(f"--names: two different names, such as before,after, not {names!r}")
    if outside != "none" and per != "step":
        raise click.UsageError(f"--outside {outside}: only with --per step")
    if dtype is not None:
        check_question("run_samples", {"dtype": dtype})
    if output.is_page:
        check_installed()
    output, name_width = _whole_names(output, name_width)
    sides = load((base,), facts=facts), load((other,), facts=facts)
    options: dict[str, Any] = {
        "per": per if per in _PER else _PER[0],
        "kernel_by": kernel_by,
        "copies": copies,
        "devices": devices,
        "dtype": dtype,
    }
    result = comparison(*sides, pair, outside=outside, steps=steps, **options)
    if result.is_of_memory:
        if output.is_page:
            raise click.UsageError("-o FILE.html: compares two traces, not two memory snapshots")
        if per in _PER:
            raise click.UsageError(f"--per {per}: of memory snapshots, {_or(_PER_OF_MEMORY)}")
        rows_per = per or _PER_OF_MEMORY[0]
        return _memory(*sides, pair, plain, limits, per=rows_per, top=top, output=output)
    if per in _PER_OF_MEMORY:
        raise click.UsageError(f"--per {per}: only for memory snapshots; of traces, {_or(_PER)}")
    rows = result.rows
    sums = totals(rows)
    notes = diff_text.remarks(rows, result.outside, result.models, result.lost_calls)
    with usage_errors("--fail-on: "):
        verdicts = (
            check_limits(limits, sides, pair, result, steps=steps, **options) if limits else []
        )
    failures = [] if plain is None else growths(rows, plain)
    text = "" if plain is None else written(plain)
    if output.is_page and output.file is not None:
        write_page(output.file, explain_sides(*sides), sides, (pair[0], pair[1]))
        return _failed(verdicts, failures, text)
    output.emit(
        rows,
        lambda width: diff_text.report(
            rows,
            sums,
            result.above,
            (without_secrets(base), without_secrets(other)),
            notes,
            verdicts=verdicts,
            chosen=output.columns,
            top=top,
            name_width=name_width,
            width=width,
            why=_why(sides, top, name_width, width),
        ),
        lambda: comment(
            rows,
            sums,
            CheckedLimits(text, failures, verdicts),
            notes,
            top=top,
        ),
        chooses=True,
    )
    return _failed(verdicts, failures, text)


def _or(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _whole_names(output: OutputOptions, name_width: int) -> tuple[OutputOptions, int]:
    """Whole names, if either option asks for them."""
    if output.full_names or not name_width:
        return replace(output, full_names=True), 0
    return output, name_width


def _why(
    sides: tuple[Trace, Trace], top: int, name_width: int, width: int | None
) -> RenderableType | None:
    """The causes as a table, if both sides have steps."""
    from profframe.comparisons.explain import explain as explain_sides
    from profframe.show import cause_text

    try:
        return cause_text.report(explain_sides(*sides), top, name_width, width)
    except AnswerError:
        return None


@verbs.command()
@click.argument("base", type=SOURCE)
@click.argument("other", type=SOURCE)
@click.option("--top", default=20, show_default=True, type=click.IntRange(1), help="Rows.")
@click.option(
    "--name-width",
    default=70,
    show_default=True,
    type=click.IntRange(0),
    help="Maximum characters of a name; 0: all.",
)
@with_facts
@with_cache
@with_output
def explain(
    base: str,
    other: str,
    *,
    top: int,
    name_width: int,
    facts: Mapping[str, Any],
    output: OutputOptions,
) -> None:
    """Show why a step takes more or less time in OTHER than in BASE.

    Each is a trace file, a quoted glob, a folder of traces, or a store. The calls of both sides
    are aligned, and each nanosecond of the difference has a cause: a replaced kernel, added calls,
    different shapes, a late launch. The causes add up to the difference. With
    --format or -o: all causes, with all columns.
    """
    from profframe.comparisons.explain import explain as explain_sides
    from profframe.show import cause_text

    result = explain_sides(load((base,), facts=facts), load((other,), facts=facts))
    output, name_width = _whole_names(output, name_width)
    note = cause_text.remark(result)
    if note and (output.form != "table" or output.columns):
        click.echo(note, err=True)
    output.emit(
        result.causes,
        lambda width: cause_text.report(result, top, name_width, width, note),
        top=top,
    )


@verbs.command()
@takes_sources
@click.option(
    "--baseline",
    required=True,
    multiple=True,
    metavar="RUN|PATTERN|N",
    help="Earlier runs to compare with, at least two; N: the N runs before these.",
)
@click.option(
    "--runs",
    multiple=True,
    metavar="RUN|PATTERN|N",
    help="Runs to compare with them; N: the latest N.  [default: all others; with --baseline N"
    " the latest]",
)
@click.option(
    "--fail-on",
    multiple=True,
    metavar="[METRIC=]LIMIT",
    help="Exit with code 3 if something got worse by more; can be repeated.",
)
@click.option(
    "--per-step",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Tokens or samples per step, for the metric throughput_per_s.",
)
@click.option("--top", default=10, show_default=True, type=click.IntRange(1), help="Rows.")
@with_cache
@with_metrics
def check(
    sources: tuple[str, ...],
    baseline: tuple[str, ...],
    runs: tuple[str, ...],
    fail_on: tuple[str, ...],
    *,
    per_step: int,
    top: int,
    output: OutputOptions,
) -> int:
    """Compare runs with several earlier runs.

    TRACE is a store or traces of several runs. It shows the ops and kernels that take longer, by
    more than they vary from run to run. With --format or -o: these rows, with all columns; as
    openmetrics also what is compared, and what got worse.

    --fail-on 5%: exit code 3 if the self time of all ops or the time of all kernels grew by more
    than 5 %, or an op or kernel did that took at least 1 % of its kind in the baseline.
    --fail-on METRIC=LIMIT: if the metric got worse by more: metrics and limits as in `profframe
    diff`; a pattern limits each op and kernel separately. Changes within noise do not count.
    """
    from profframe.analysis.fail_on import written
    from profframe.analysis.run_limits import check as check_runs
    from profframe.analysis.run_limits import limits_of
    from profframe.comparisons.fail_on_metrics import of_each_run
    from profframe.show import run_limits_text
    from profframe.show.frame import frame
    from profframe.show.openmetrics import of_check
    from profframe.trace.empty_reasons import of_regressions
    from profframe.trace.kept_rows import RunAnswers

    with usage_errors("--fail-on: "):
        limits = limits_of(fail_on)
    trace = load(sources)
    answers = RunAnswers(trace)
    traces = answers.traces()
    names = set(traces["run"])
    base, others = _some_runs(baseline, names), _some_runs(runs, names) if runs else None
    with trace.session() as session:  # limits ask for the same rows
        result = check_runs(
            traces,
            answers.answer("run_samples"),
            partial(answers.answer, "runs", per_step=per_step),
            *(base, others),
            limit=limits,
            measure=partial(of_each_run, session),
        )
    why = of_regressions(trace, result.compared)
    regressions = frame(result.regressions, why=why, note=answers.note())
    output.emit(
        regressions,
        lambda width: run_limits_text.report(
            (result.base, result.others),
            result.metrics,
            regressions,
            top=top,
            width=width,
            full_names=output.full_names,
        ),
        top=top,
        metrics=lambda rows: of_check(result.metrics, rows, [one.metric for one in result.worse]),
    )
    for metric in result.worse:
        what = run_limits_text.describe(metric.metric, metric.base, metric.other)
        click.echo(f"worse by more than {written(metric.limit)}: {what}", err=True)
    return GREW if result.worse else 0


def _memory(
    base: Trace,
    other: Trace,
    names: list[str],
    plain: Fraction | None,
    limits: list[Limit],
    *,
    per: str,
    top: int,
    output: OutputOptions,
) -> int:
    """Compare two memory snapshots."""
    from rich.console import Group
    from rich.text import Text

    from profframe.analysis.fail_on import Limit, written
    from profframe.comparisons.fail_on_metrics import check_peak_limits
    from profframe.comparisons.memory_diff import diff_memory
    from profframe.show import run_limits_text, snapshot_text, terminal
    from profframe.show.comment import CheckedLimits, memory_comment

    rows = diff_memory(base, other, names, per=per)
    text, changed = snapshot_text.changes(rows)
    all_limits = [*([] if plain is None else [Limit("memory", plain)]), *limits]
    with usage_errors("--fail-on: "):
        verdicts = check_peak_limits(all_limits, rows)
    lines = [Text(), run_limits_text.verdicts(verdicts)] if limits else []
    title = f"What they hold, by {per}"

    def human(width: int | None) -> RenderableType:
        if not changed.height:
            return Group(Text(f"{text}; nothing differs, by {per}"), *lines)
        return Group(Text(text), *lines, terminal.ranking(changed, top, width, title))

    output.emit(
        rows,
        human,
        lambda: memory_comment(rows, text, CheckedLimits(verdicts=verdicts), top=top),
        top=top,
    )
    has_grown = plain is not None and verdicts[0].is_broken
    if plain is not None and has_grown:
        click.echo(f"grew by more than {written(plain)}: memory at the peak", err=True)
    return GREW if _say_broken(verdicts[len(all_limits) - len(limits) :]) or has_grown else 0


def _limits(texts: Sequence[str]) -> tuple[Fraction | None, list[Limit]]:
    """The lowest limit for all ops and kernels, and those that name a metric."""
    from fractions import Fraction

    from profframe.analysis.fail_on import limit

    with usage_errors("--fail-on: "):
        limits = [limit(text) for text in texts]
    plain = [one.most for one in limits if not one.metric]
    named = [one for one in limits if one.metric]
    return min((most for most in plain if isinstance(most, Fraction)), default=None), named


def _say_broken(verdicts: Sequence[Verdict]) -> bool:
    """Write a line for each broken limit; returns whether there is any."""
    from profframe.show import run_limits_text

    broken = [verdict for verdict in verdicts if verdict.is_broken]
    for verdict in broken:
        sides = float(verdict.base), float(verdict.other)
        what = run_limits_text.describe(verdict.limit.metric, *sides)
        click.echo(f"worse by more than {verdict.limit.text}: {what}", err=True)
    return bool(broken)


def _failed(verdicts: Sequence[Verdict], failures: Sequence[Growth], text: str) -> int:
    """Write a line for what grew and for each broken limit; returns the exit code."""
    from profframe.show import diff_text

    for row in failures:
        what = diff_text.describe(row.what, row.name, row.base_ns, row.other_ns)
        click.echo(f"grew by more than {text.replace(' ', '')}: {what}", err=True)
    return GREW if _say_broken(verdicts) or failures else 0


def _some_runs(values: tuple[str, ...], names: Container[str]) -> tuple[str, ...] | int:
    """Names and patterns of runs; or a number of runs, unless a run has that name."""
    is_number = len(values) == 1 and values[0].isdecimal() and values[0] not in names
    return int(values[0]) if is_number else values
