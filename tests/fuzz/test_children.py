"""The fuzzers' own machinery finds what it is to find."""

from __future__ import annotations

import os
import queue
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.fuzz import children
from tests.fuzz.children import failed
from tests.until import until

DIES: Final = 2
RAISES: Final = 4
HANGS: Final = 6
HANGING: Final = "PROFFRAME_HANGING"
"""Names the file that a case makes when it begins to hang."""


def case(seed: int) -> None:
    """One that dies, one that raises, one that takes too long."""
    if seed == DIES:
        os.abort()
    if seed == RAISES:
        raise ValueError("is four\nindeed")
    if seed == HANGS:
        Path(os.environ[HANGING]).touch()
        threading.Event().wait()


@dataclass
class Patient:
    """What a child says, by a clock that stands still until a case hangs."""

    said: queue.SimpleQueue[str | None]

    def get(self, timeout: float) -> str | None:
        assert timeout == 4
        hangs = Path(os.environ[HANGING])
        until(lambda: hangs.exists() or not self.said.empty())
        hangs.unlink(missing_ok=True)
        return self.said.get_nowait()


def test_what_is_wrong_is_named_by_its_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(HANGING, str(tmp_path / "hangs"))
    lines = children._lines
    monkeypatch.setattr(children, "_lines", lambda stream: Patient(lines(stream)))
    found = {
        failure.seed: failure.why
        for failure in failed((("tests.fuzz.test_children", seed) for seed in range(8)), limit_s=4)
    }

    assert found.keys() == {DIES, RAISES, HANGS}
    assert found[DIES] == "the process ended with -6"
    assert found[RAISES].endswith("ValueError: is four\nindeed")
    assert found[HANGS] == "took more than 4 s"
