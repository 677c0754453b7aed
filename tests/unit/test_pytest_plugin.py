"""``profile_gate``: sessions of pytest by themselves, with the entry point of pyproject.toml."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final

import pytest

import profframe
from profframe.pytest_plugin import ProfileGate
from tests import installed, needs
from tests.places import ROOT

WRITE: Final = "--profile-baseline=write"
SAVED: Final = """
import os

def test_saved(profile_gate):
    profile_gate.check(os.environ["TRACE"], fail_on=os.environ.get("LIMITS", "").split())
"""
LIVE: Final = """
import os
import torch

def test_live(profile_gate):
    x = torch.ones(8, 8)
    host = [torch.profiler.ProfilerActivity.CPU]
    with profile_gate(fail_on="step=100000%", activities=host) as prof:
        for _ in range(4):
            for _ in range(int(os.environ.get("MULTIPLICATIONS", "2"))):
                x @ x
            prof.step()

def test_that_raises(profile_gate):
    try:
        with profile_gate("raises"):
            raise KeyError("of the block")
    except KeyError:
        pass
"""

Session = Callable[..., tuple[int, str]]


OTHERS: Final = (
    *("anyio", "faulthandler", "hypothesispytest", "timeout", "unraisableexception", "xdist"),
)
"""Plugins that a session does without in the process of another, whose hooks they would set."""
CI: Final = ("PYTEST_ADDOPTS", "CI", "BUILD_NUMBER")
"""Variables by which pytest has messages in the summary, too."""


def is_of(folder: Path, module: Any) -> bool:
    """Whether a module is of a file in this folder."""
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).is_relative_to(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the module of tests is, beside an installed profframe."""
    installed.install_profframe(tmp_path / "site")
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    return folder


@pytest.fixture
def session(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """pytest on a module of tests, in this process: exit code and output."""

    def session(text: str, *arguments: str, **variables: str) -> tuple[int, str]:
        (folder / "test_model.py").write_text(text)
        output = io.StringIO()
        with (
            monkeypatch.context() as patch,
            redirect_stdout(output),
            redirect_stderr(output),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("default")
            for name in CI:
                patch.delenv(name, raising=False)
            for name, value in variables.items():
                patch.setenv(name, value)
            patch.chdir(folder)
            patch.syspath_prepend(folder.parent / "site")
            patch.setattr(sys, "dont_write_bytecode", True)
            without = [word for name in OTHERS for word in ("-p", f"no:{name}")]
            code = pytest.main(["-q", "-p", "no:cacheprovider", *without, *arguments])
            for name in [*sys.modules]:  # the next ones have the same names
                if is_of(folder, sys.modules[name]):
                    del sys.modules[name]
        return int(code), output.getvalue()

    return session


@pytest.fixture
def process(folder: Path) -> Session:
    """The same in a process of its own."""

    def process(text: str, *arguments: str, **variables: str) -> tuple[int, str]:
        (folder / "test_model.py").write_text(text)
        site = folder.parent / "site"
        environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}", **variables}
        for name in CI:
            environment.pop(name, None)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    return process


def written(
    path: Path, steps: list[int], *, name: str = "aten::mm", calls: int = 1, kernels: int = 1
) -> str:
    """A trace whose steps take so many microseconds, each with ops, launches and kernels."""
    rows: list[dict[str, Any]] = []
    start, number = 0, 0
    for step, duration in enumerate(steps):
        rows += [slice_("user_annotation", f"ProfilerStep#{step}", start, duration)]
        rows += [slice_("cpu_op", name, start + 10 * n, 5) for n in range(calls)]
        for n in range(kernels):
            number += 1
            args = {"correlation": number}
            at = start + 100 + 10 * n
            rows += [slice_("cuda_runtime", "cudaLaunchKernel", at, 3, **args)]
            rows += [slice_("kernel", "gemm", at + 5, 4, device=0, stream=7, **args) | {"pid": 0}]
        start += duration
    with gzip.open(path, "wt") as file:
        json.dump({"schemaVersion": 1, "traceEvents": rows}, file)
    return str(path)


def slice_(category: str, name: str, start: int, duration: int, **args: int) -> dict[str, Any]:
    place = {"ph": "X", "pid": 1, "tid": 1, "ts": start, "dur": duration}
    return {"cat": category, "name": name, "args": args, **place}


def table(output: str) -> list[list[str]]:
    """Rows of the table of changes."""
    lines = output[output.index("counts differ") :].splitlines()[1:]
    return [line.split() for line in lines if line.startswith("  ")]


def test_a_missing_baseline_fails_and_names_the_option(process: Session, example: Path) -> None:
    code, output = process(SAVED, TRACE=str(example))
    assert code == 1
    assert f"to accept it, write the baseline: pytest {WRITE} test_model.py::test_saved" in output
    assert "there is no baseline" in output


@pytest.mark.parametrize(
    ("trace", "limits", "message"),
    [
        ("nope.json.gz", "", "nope.json.gz: no such file"),
        (None, "step=slow", "a limit is a percentage"),
        (None, "stap=20%", "no metric named 'stap'"),
    ],
)
def test_wrong_input_is_a_message_without_frames(
    session: Session, example: Path, trace: str | None, limits: str, message: str
) -> None:
    code, output = session(SAVED, TRACE=trace or str(example), LIMITS=limits)
    assert code == 1
    assert f"profile_gate: {message}" in output
    assert "profframe/" not in output
    assert WRITE not in output


def test_a_module_on_another_drive_has_its_whole_path(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> str:
        raise ValueError("path is on mount 'D:', start on mount 'C:'")

    monkeypatch.setattr(os.path, "relpath", fail)
    gate = ProfileGate(request.node, is_writing=False)
    with pytest.raises(pytest.fail.Exception) as raised:
        gate.check(written(tmp_path / "a.json.gz", [1000]), "no baseline")
    assert f"{WRITE} {request.path}::" in str(raised.value)


def test_counts_are_exact_and_changes_are_a_table(session: Session, tmp_path: Path) -> None:
    before = written(tmp_path / "before.json.gz", [1000] * 4)
    code, output = session(SAVED, WRITE, TRACE=before)
    path = tmp_path / "tests/profile_baselines/test_model/test_saved.json"
    assert (code, f"profile baseline written: {path}" in output) == (0, True)
    kept = json.loads(path.read_text())
    assert kept["counts"] == {
        "op": {"aten::mm": 4},
        "kernel": {"gemm": 4},
        "launch": {"cudaLaunchKernel": 4},
        "profile": {"runs": 1, "steps": 4},
    }
    assert session(SAVED, TRACE=before)[0] == 0
    after = written(tmp_path / "after.json.gz", [1000] * 4, name="aten::bmm", kernels=2)
    code, output = session(SAVED, TRACE=after)
    assert code == 1
    assert table(output) == [
        ["what", "name", "before", "now"],
        ["kernel", "gemm", "4", "8"],
        ["launch", "cudaLaunchKernel", "4", "8"],
        ["op", "aten::bmm", "0", "4"],
        ["op", "aten::mm", "4", "0"],
    ]
    assert f"pytest {WRITE}" in output
    assert json.loads(path.read_text()) == kept


def test_times_are_judged_by_the_limit_and_against_noise(session: Session, tmp_path: Path) -> None:
    limits = {"LIMITS": "step=10%"}
    before = written(tmp_path / "before.json.gz", [1000, 1010, 990, 1005, 995])
    assert session(SAVED, WRITE, TRACE=before, **limits)[0] == 0
    slower = written(tmp_path / "slower.json.gz", [1200, 1210, 1190, 1205, 1195])
    code, output = session(SAVED, TRACE=slower, **limits)
    assert code == 1
    assert re.search(r"limit 10 %: step, 1\.000 ms -> 1\.200 ms \(\+20\.0 %\); .*5 and 5", output)
    noisy = written(tmp_path / "noisy.json.gz", [1000, 1900, 700, 1850, 600])
    assert session(SAVED, TRACE=noisy, **limits)[0] == 0
    assert session(SAVED, TRACE=slower, LIMITS="")[0] == 0  # without a limit no time counts
    code, output = session(SAVED, TRACE=before, LIMITS="step=10% op:aten::mm=5%")
    assert (code, "the baseline has no samples of op:aten::mm" in output) == (1, True)
    assert f"to accept it, write the baseline: pytest {WRITE}" in output


def test_one_sample_is_said_not_to_be_judged(session: Session, tmp_path: Path) -> None:
    before = written(tmp_path / "before.json.gz", [1000])
    assert session(SAVED, WRITE, TRACE=before, LIMITS="step=10%")[0] == 0
    slower = written(tmp_path / "slower.json.gz", [1500])
    code, output = session(SAVED, TRACE=slower, LIMITS="step=10%")
    assert code == 0
    assert "step cannot be judged: 1 and 1 samples; profile several steps" in output


@pytest.mark.more
def test_a_run_of_a_store_is_a_baseline(session: Session, tmp_path: Path) -> None:
    before = written(tmp_path / "before.json.gz", [1000, 1010, 990, 1005, 995])
    profframe.convert(before, tmp_path / "store")
    of_store = SAVED.replace("fail_on=", 'baseline=os.environ["STORE"], fail_on=')
    variables = {"STORE": str(tmp_path / "store"), "LIMITS": "step=10%"}
    assert session(of_store, TRACE=before, **variables)[0] == 0
    after = written(tmp_path / "after.json.gz", [1200, 1210, 1190, 1205, 1195])
    code, output = session(of_store, WRITE, TRACE=after, **variables)
    assert (code, "slower than the baseline" in output) == (1, True)
    assert WRITE not in output.split("slower")[1]
    assert not (tmp_path / "tests/profile_baselines").exists()
    more = written(tmp_path / "more.json.gz", [1000, 1010, 990, 1005, 995], calls=2)
    assert table(session(of_store, TRACE=more, **variables)[1])[1:] == [
        ["op", "aten::mm", "5", "10"]
    ]


@pytest.mark.more
def test_live_profiles(session: Session, tmp_path: Path) -> None:
    needs.torch()
    assert session(LIVE, WRITE)[0] == 0
    path = tmp_path / "tests/profile_baselines/test_model/test_live.json"
    kept = json.loads(path.read_text())
    assert kept["counts"]["profile"] == {"runs": 1, "steps": 4}  # not the one begun after them
    assert 1 <= len(kept["samples"]["step"]["values"]) <= 4  # less those that warm up
    assert session(LIVE)[0] == 0
    code, output = session(LIVE, MULTIPLICATIONS="3")
    assert code == 1
    assert ["op", "aten::mm", "8", "12"] in table(output)
    assert "1 failed, 1 passed" in output


@pytest.mark.more
def test_the_example_fails_with_what_its_page_says(session: Session, tmp_path: Path) -> None:
    needs.torch()
    example = ROOT / "examples/profile_gate"
    text = (example / "test_model.py").read_text()
    model = tmp_path / "tests/model.py"
    model.write_text((example / "model.py").read_text())
    code, output = session(text, WRITE)
    assert code == 0, output
    kept = json.loads((model.parent / "profile_baselines/test_model/test_step.json").read_text())
    assert kept["counts"]["profile"] == {"runs": 1, "steps": 10}
    assert len(kept["samples"]["step"]["values"]) >= 5  # less those that warm up
    model.write_text(model.read_text().replace("nn.GELU(), ", "nn.GELU(), nn.GELU(), "))
    code, output = session(text)
    assert code == 1
    assert table(output) == table((example / "README.md").read_text())


HEAD: Final = '{"profframe_baseline": 1, "kernel_by": "name", "counts": {}, "samples": '


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"profframe_baseline": 2}',
        '{"profframe_baseline": 1}',
        "[" * 5000,
        HEAD + '{"step": {"runs": ["a"], "values": [NaN]}}}',
        HEAD + '{"step": {"runs": ["a"], "values": ["1"]}}}',
        HEAD + '{"step": {"runs": [], "values": []}}}',
        HEAD + '{"step": {"runs": ["a"], "values": [1' + "0" * 400 + "]}}}",
    ],
    ids=lambda text: text[-30:],
)
def test_a_damaged_baseline_is_an_error_that_names_it(tmp_path: Path, text: str) -> None:
    from profframe.comparisons import baseline

    (tmp_path / "kept.json").write_text(text)
    with pytest.raises(profframe.SourceError, match=r"kept\.json: "):
        baseline.read(tmp_path / "kept.json")


@pytest.mark.more
def test_names_of_files_differ_where_tests_do(
    session: Session, tmp_path: Path, example: Path
) -> None:
    second = '    profile_gate.check(os.environ["TRACE"], "second")\n'
    text = second.join(
        [
            SAVED.replace(
                "def test_saved(profile_gate):",
                "import pytest\n\n"
                "@pytest.mark.parametrize('way', ['a/b', 'a:b', '../../c', 'd' * 300])\n"
                "def test_saved(profile_gate, way):",
            ),
            "",
        ]
    )
    assert session(text, WRITE, TRACE=str(example))[0] == 0
    assert len([*tmp_path.rglob("profile_baselines/test_model/*.json")]) == 8
    code, output = session(text + second, TRACE=str(example))
    assert (code, "need a name each: 'second' twice" in output) == (1, True)


def test_nothing_is_imported_until_the_fixture_is_used(process: Session) -> None:
    text = (
        "import sys\n\n"
        "def test_it():\n"
        "    assert 'profframe.pytest_plugin' in sys.modules\n"
        "    heavy = {'polars', 'duckdb', 'numpy', 'torch', 'pyarrow', 'profframe.comparisons'}\n"
        "    assert not heavy & {*sys.modules}\n"
    )
    code, output = process(text)
    assert code == 0, output
