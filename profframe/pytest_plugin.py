"""A plugin of pytest: `profile_gate` fails a test if what it profiles has changed.

pytest imports this module in every test run where profframe is installed, so that it imports
nothing else until a test uses the fixture.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from profframe.analysis.fail_on import Limit, Verdict
    from profframe.comparisons.baseline import CountChange
    from profframe.loaders.torch_profiler import profile
    from profframe.trace.trace import Trace

OPTION: Final = "--profile-baseline"
FOLDER: Final = "profile_baselines"
WRITTEN: Final = "profile_baseline"
"""Name of the property that a report has for each file that its test wrote."""
_MOST_ROWS: Final = 40
_LONGEST_NAME: Final = 100


class ProfileGateWarning(UserWarning):
    """A time has a limit, but too few samples to judge it."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes baselines."""
    parser.getgroup("profframe").addoption(
        OPTION,
        choices=("check", "write"),
        default="check",
        help="profile_gate: compare profiles with their baselines, or write the baselines",
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the baselines that were written, also by workers of xdist."""
    reports = [report for of_kind in terminalreporter.stats.values() for report in of_kind]
    paths = {
        value
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == WRITTEN
    }
    for path in sorted(paths):
        terminalreporter.write_line(f"profile baseline written: {path}")


@pytest.fixture
def profile_gate(request: pytest.FixtureRequest) -> ProfileGate:
    """Profile code, or take a profile, and compare it with the baseline of the test.

    See `ProfileGate`.
    """
    return ProfileGate(request.node, is_writing=request.config.getoption(OPTION) == "write")


class ProfileGate:
    """Compares what a test profiles with a baseline that is kept beside the test.

    The number of calls of each op and kernel, and of launches, must be equal. Times must keep the
    limits that the test gives, as those of ``profframe diff --fail-on``.

    Parameters
    ----------
    test
        The test, as pytest has it.
    is_writing
        Whether baselines are written instead.

    Examples
    --------
    >>> def test_step(profile_gate):  # doctest: +SKIP
    ...     with profile_gate(fail_on="step=10%") as prof:
    ...         for batch in batches:
    ...             train_step(batch)
    ...             prof.step()
    """

    def __init__(self, test: pytest.Item, *, is_writing: bool) -> None:
        self._test = test
        self._is_writing = is_writing
        self._paths: set[Path] = set()

    @contextmanager
    def __call__(
        self,
        name: str = "",
        *,
        fail_on: str | Sequence[str] = (),
        baseline: Any = None,
        kernel_by: str = "name",
        **arguments: Any,
    ) -> Iterator[profile]:
        """Profile a block, and check it at its end if it raises nothing.

        Parameters
        ----------
        name, fail_on, baseline, kernel_by
            As for `check`.
        **arguments
            Those of `profframe.profile`, which the block gets. Without a schedule all is recorded,
            and ``step()`` ends a step.
        """
        from profframe.loaders.torch_profiler import profile, with_steps

        with profile(**with_steps(arguments)) as recording:
            yield recording
        self.check(recording, name, fail_on=fail_on, baseline=baseline, kernel_by=kernel_by)

    def check(
        self,
        profiled: Any,
        name: str = "",
        *,
        fail_on: str | Sequence[str] = (),
        baseline: Any = None,
        kernel_by: str = "name",
    ) -> None:
        """Fail the test if a profile differs from its baseline.

        Parameters
        ----------
        profiled
            A `Trace`, or anything that `profframe.load` takes, such as a finished profiler.
        name
            Tells several profiles of a test apart.
        fail_on
            Limits, such as ``"step=10%"``; `docs/ci.md` lists metrics. A time is judged only if
            both sides have several samples: steps, or runs.
        baseline
            A trace to compare with instead of the kept file, such as a run of a store.
        kernel_by
            What kernels are counted by, as for `profframe.diff`.
        """
        from profframe.errors import ProfframeError

        __tracebackhide__ = True
        path = self._path(name)
        if path in self._paths:
            pytest.fail(f"profile_gate: two profiles of one test need a name each: {name!r} twice")
        self._paths.add(path)
        try:
            limits = _limits([fail_on] if isinstance(fail_on, str) else fail_on)
            with _trace(profiled).session() as now:
                if self._is_writing and baseline is None:
                    self._write(now, limits, path, kernel_by)
                    return
                before = path if baseline is None else _trace(baseline)
                message = _compared(now, limits, before, kernel_by)
            if message and baseline is None:
                message += self._hint()
        except ProfframeError as error:
            message = str(error)
        if message:
            pytest.fail(f"profile_gate: {message}", pytrace=False)

    def _hint(self) -> str:
        """How to write the baseline of this test alone; others may differ by a fault."""
        try:
            module = os.path.relpath(self._test.path, self._test.config.invocation_params.dir)
        except ValueError:  # on another drive of Windows
            module = str(self._test.path)
        name = f"{module}::{self._test.nodeid.partition('::')[2]}"
        return f"\nto accept it, write the baseline: pytest {OPTION}=write {shlex.quote(name)}"

    def _path(self, name: str) -> Path:
        """Where the baseline is; what a file cannot be called has a digest in its place."""
        test = self._test.nodeid.partition("::")[2].replace("::", ".")
        text = f"{test}.{name}" if name else test
        safe = re.sub(r"[^\w.=\[\]-]+", "_", text)[:_LONGEST_NAME]
        if safe != text:
            safe += f"-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        module = self._test.path
        return module.parent / FOLDER / module.stem / f"{safe}.json"

    def _write(self, now: Trace, limits: Sequence[Limit], path: Path, kernel_by: str) -> None:
        from profframe.comparisons import baseline

        counts = baseline.counts(now, kernel_by)
        samples = baseline.samples(now, limits, kernel_by)
        path.parent.mkdir(parents=True, exist_ok=True)
        baseline.write(path, baseline.Baseline(counts, samples, kernel_by))
        self._test.user_properties.append((WRITTEN, str(path)))


def _limits(texts: Sequence[str]) -> list[Limit]:
    from profframe.analysis.fail_on import limit

    return [limit(text) for text in texts]


def _trace(source: Any) -> Trace:
    from profframe.loaders.load import load
    from profframe.trace.trace import Trace

    return source if isinstance(source, Trace) else load(source)


def _compared(now: Trace, limits: Sequence[Limit], source: Path | Trace, kernel_by: str) -> str:
    """What is wrong, or ``""``; times of other work are not compared."""
    from profframe.comparisons import baseline
    from profframe.errors import ParameterError, SourceError

    if isinstance(source, Path):
        if not source.exists():
            return f"there is no baseline {source}"
        try:
            before = baseline.read(source)
        except SourceError as error:
            return str(error)
        if before.kernel_by != kernel_by:
            return f"{source} counts kernels by {before.kernel_by}, not {kernel_by}"
    else:
        counts = baseline.counts(source, kernel_by)
        before = baseline.Baseline(counts, baseline.samples(source, limits, kernel_by), kernel_by)
    where = source if isinstance(source, Path) else "the baseline"
    if changes := baseline.count_changes(before.counts, baseline.counts(now, kernel_by)):
        return f"counts differ from {where}\n{_table(changes)}"
    samples = baseline.samples(now, limits, kernel_by)
    try:
        held = baseline.verdicts(limits, before.samples, samples)
    except ParameterError as error:
        return str(error)
    broken = [one for one in held if one.is_broken and not _is_unjudged(one)]
    for one in filter(_is_unjudged, held):
        numbers = [len(side.values) for side in (one.measure.base, one.measure.other)]
        message = (
            f"{one.limit.metric} cannot be judged: {numbers[0]} and {numbers[1]} samples; "
            "profile several steps, or several runs, on both sides"
        )
        warnings.warn(ProfileGateWarning(message), stacklevel=5)
    return f"slower than {where}\n{_broken(broken)}" if broken else ""


def _is_unjudged(verdict: Verdict) -> bool:
    """Whether it is a time that was not tested against noise."""
    return verdict.q_value is None and verdict.measure.unit == "ns"


def _table(changes: Sequence[CountChange]) -> str:
    from profframe.show.units import visible

    shown = [(one.what, visible(one.name), one.before, one.now) for one in changes[:_MOST_ROWS]]
    rows = [("what", "name", "before", "now"), *shown]
    widths = [max(len(f"{row[column]}") for row in rows) for column in range(4)]
    lines = [
        f"  {what:{widths[0]}}  {name:{widths[1]}}  {before:>{widths[2]}}  {now:>{widths[3]}}"
        for what, name, before, now in rows
    ]
    more = len(changes) - len(shown)
    return "\n".join([*lines, f"  and {more:,} more"] if more else lines)


def _broken(broken: Sequence[Verdict]) -> str:
    from profframe.show.run_limits_text import describe, remarks

    return "\n".join(
        f"  limit {one.limit.text}: "
        f"{describe(one.limit.metric, float(one.base), float(one.other))}; {remarks(one)}"
        for one in broken
    )
