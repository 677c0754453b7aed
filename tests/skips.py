"""A plugin of pytest: what was skipped for want of something is said at the end, by reason.

With ``PROFFRAME_NO_SKIPS=1`` the run fails where a reason is not allowed (`tests.needs`): a machine
that is to run all tests then cannot leave some out unseen.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator

import pytest

from tests.needs import ALLOWED, reason_of


class Skips:
    """Counts reasons, in the process that reports."""

    def __init__(self) -> None:
        self.reasons = Counter[str]()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._count(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._count(report)

    def _count(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            text = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
            self.reasons[str(text).removeprefix("Skipped: ")] += 1

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None]:
        """A test need not say what the package itself says: that something is not installed."""
        try:
            yield
        except Exception as error:
            if reason := reason_of(error):
                pytest.skip(reason)
            raise

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Generator[None]:
        """The same for what a test is given."""
        try:
            yield
        except Exception as error:
            if reason := reason_of(error):
                pytest.skip(reason)
            raise

    @property
    def not_allowed(self) -> list[str]:
        """Reasons for which something can be installed, where all has to run."""
        if os.environ.get("PROFFRAME_NO_SKIPS", "0") in {"", "0"}:
            return []
        return sorted(reason for reason in self.reasons if not reason.startswith(ALLOWED))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        is_worker = hasattr(session.config, "workerinput")
        if self.not_allowed and not is_worker and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.reasons:
            return
        terminalreporter.section("skipped")
        for reason, number in sorted(self.reasons.items()):
            terminalreporter.line(f"{number:5} {reason}")
        for reason in self.not_allowed:
            terminalreporter.line(f"FAILED, as PROFFRAME_NO_SKIPS is set: {reason}", red=True)


def pytest_configure(config: pytest.Config) -> None:
    """Count from the beginning."""
    config.pluginmanager.register(Skips(), "profframe-skips")
