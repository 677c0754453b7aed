from __future__ import annotations

import csv
import gc
import math
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import hypothesis
import pytest

import profframe
from profframe import cli
from tests import hostile, needs, places, selection, skips
from tests.members import few

Run = Callable[..., tuple[int, str, str]]

ROOT, TRACES = places.ROOT, places.TRACES

# A hundred processes that tests start import profframe: without bytecode each compiles it anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

hypothesis.settings.register_profile(
    "profframe",
    deadline=None,
    max_examples=int(os.environ.get("PROFFRAME_EXAMPLES", "5")),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    # The same examples in every run, with nothing kept from the one before: a run that fails
    # shows a change of the code. New examples are looked for where that is asked for, at night.
    derandomize=os.environ.get("PROFFRAME_SEEDS") != "random",
    database=None,
    print_blob=True,
)
hypothesis.settings.load_profile("profframe")


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def example() -> Path:
    """The example trace of a training run."""
    return ROOT / "examples" / "cpu_training.json.gz"


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of real traces from public repositories, with its ``index.csv``."""
    return needs.traces()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line: the exit code and what it prints, on stdout and on stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = cli.run([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture(scope="session")
def hostile_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace whose names, files and labels are hostile; `tests/hostile.py` has them."""
    return hostile.written(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="session")
def hostile_trace(hostile_file: Path) -> Iterator[profframe.Trace]:
    """The same, loaded, as a run of a hostile name; what was asked once is not computed again."""
    with profframe.load(hostile_file, run=hostile.RUN).session() as trace:
        yield trace


@pytest.fixture(scope="session")
def report(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Callable[[str], Path]:
    """The report of each kind of trace in `tests.reports`, made once."""
    from tests.reports import EXAMPLES, loaded

    folder = tmp_path_factory.mktemp("reports")

    @cache
    def made(kind: str) -> Path:
        if kind not in EXAMPLES:
            request.getfixturevalue("traces")
        path = folder / f"{kind}.html"
        loaded(kind).report(path, per="rank")  # the rows of its answers
        return path

    return made


def chrome_traces() -> list[Path]:
    """Every Chrome trace of the index, in its order."""
    if not (TRACES / "index.csv").is_file():
        return []
    with (TRACES / "index.csv").open(newline="") as index:
        rows = csv.DictReader(index)
        return [TRACES / row["path"] for row in rows if row["kind"].startswith("chrome-trace-json")]


COLLECTED_AFTER = 50_000
"""Objects more than at the last garbage collection until the next one."""
KEPT_BYTES = 1_150_000
"""Of files up to this size, compressed, the traces are kept: all together half a million events."""


def real_trace(path: Path, compat: str | None = None) -> profframe.Trace:
    """A real trace; loaded once for all tests that ask it something, unless it is large."""
    if path.stat().st_size < KEPT_BYTES:
        return _kept(path, compat)
    return profframe.load(path, compat=compat)


def only_real_trace(traces: Path, pattern: str) -> profframe.Trace:
    """The one real trace whose path is like this."""
    (path,) = traces.glob(pattern)
    return real_trace(path)


@cache
def _kept(path: Path, compat: str | None) -> profframe.Trace:
    return profframe.load(path, compat=compat)


def pytest_configure(config: pytest.Config) -> None:
    """Count what is skipped for want of something."""
    skips.pytest_configure(config)
    config.pluginmanager.register(selection, "profframe-selection")


def pytest_collection() -> None:
    """While tests are collected there is nothing to throw away."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Leave ten thousand tests out of what each garbage collection looks at.

    Rows that tests draw are no cycles: a collection after every 700 of them frees nothing. What
    was frozen stays so: pytest collects garbage twice at its end, and the process is over then.
    """
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER)
    gc.enable()


def _unlike(paths: list[Path]) -> list[Path]:
    """Without those of which one of about that size comes before them in their folder."""
    sizes = {path: path.stat().st_size for path in paths}

    def like(path: Path, other: Path) -> bool:
        return path.parent == other.parent and abs(sizes[path] - sizes[other]) < sizes[path] / 2

    return [
        path
        for place, path in enumerate(paths)
        if not any(like(path, other) for other in paths[:place])
    ]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes ``chrome_trace`` runs once for each real trace; ids are numbers.

    Those from ``LARGE`` on, bytes of the compressed file if its module has such, are long.
    """
    if "chrome_trace" in metafunc.fixturenames:
        found = chrome_traces()
        ids = [str(number) for number in range(len(found))]
        large = getattr(metafunc.module, "LARGE", math.inf)
        kept = [path for path in _unlike(found) if path.stat().st_size < large]
        members = needs.members(few(found, kept))
        metafunc.parametrize("chrome_trace", members, ids=ids)
