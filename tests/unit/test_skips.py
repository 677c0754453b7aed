"""What is skipped is said, and is a failure where all has to run."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from profframe.errors import MissingExtraError
from tests import needs
from tests.conftest import ROOT

TESTS = """
import pytest
from profframe.errors import MissingExtraError
from tests import needs

needs.PACKAGES = {**needs.PACKAGES, "nowhere": "no-where"}

def test_one():
    needs.module("nowhere.at_all")

def test_another():
    needs.another_trace("it is small")

def test_imports():
    import nowhere

def test_of_another_kind():
    with pytest.raises(ModuleNotFoundError):
        import nowhere

@pytest.mark.xfail
def test_fails():
    raise AssertionError
"""
AT_IMPORT = """
from tests import needs

needs.PACKAGES = {**needs.PACKAGES, "absent": "ab-sent"}
needs.module("absent")
"""


def said(folder: Path, *options: str, no_skips: str = "1") -> tuple[int, str]:
    """Exit code and output of pytest with the plugin."""
    (folder / "test_all.py").write_text(TESTS)
    (folder / "test_at_import.py").write_text(AT_IMPORT)
    command = [sys.executable, "-m", "pytest", "-p", "tests.skips", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--rootdir", str(folder), *options, str(folder)],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT), "PROFFRAME_NO_SKIPS": no_skips},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


@pytest.mark.parametrize("options", [[], ["-n", "2"]], ids=["one process", "workers"])
def test_a_skip_fails_a_run_that_has_to_be_whole(options: list[str], tmp_path: Path) -> None:
    code, text = said(tmp_path, *options)
    assert code == pytest.ExitCode.TESTS_FAILED
    assert [line for line in text.splitlines() if "needs " in line and "SKIPPED" not in line] == [
        "    1 needs absent: pip install 'ab-sent'",
        "    1 needs another trace: it is small",
        "    2 needs nowhere: pip install 'no-where'",
        "FAILED, as PROFFRAME_NO_SKIPS is set: needs absent: pip install 'ab-sent'",
        "FAILED, as PROFFRAME_NO_SKIPS is set: needs nowhere: pip install 'no-where'",
    ]
    assert "1 passed, 4 skipped, 1 xfailed" in text


def test_elsewhere_it_is_only_said(tmp_path: Path) -> None:
    code, text = said(tmp_path, no_skips="")
    assert code == pytest.ExitCode.OK
    assert "    2 needs nowhere: pip install 'no-where'" in text


def test_what_is_allowed_fails_nothing(tmp_path: Path) -> None:
    code, text = said(tmp_path, "-k", "another", "--ignore", str(tmp_path / "test_at_import.py"))
    assert code == pytest.ExitCode.OK
    assert "    1 needs another trace: it is small" in text


def test_an_error_is_a_reason_only_for_a_package_that_is_not_here() -> None:
    """A test that takes one away fails where it expects another error."""
    assert needs.reason_of(ModuleNotFoundError("", name="pytest")) is None
    assert needs.reason_of(ValueError("needs torch")) is None
    if importlib.util.find_spec("orjson") is not None:
        assert needs.reason_of(MissingExtraError("a report needs orjson: pip install it")) is None
