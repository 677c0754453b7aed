"""``docs/ci.md``: its workflow is YAML that GitHub takes, and its shell lines run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

import profframe
from profframe.analysis import fail_on
from tests import needs
from tests.members import few

BASH: Final = shutil.which("bash") or "bash"
ROOT: Final = Path(__file__).parent.parent.parent
PAGE: Final = (ROOT / "docs/ci.md").read_text()
MODEL: Final = """
import torch

layer = torch.nn.Linear(64, 64)


def inputs(number):
    return [torch.ones(8, 64)] * number


def train_step(batch):
    layer(batch).sum().backward()
"""
TRACE: Final = """
import gzip, json, pathlib, sys

long = json.loads(pathlib.Path("long.json").read_text())
place = {"pid": 1, "tid": 1}
rows = [
    {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "ts": 9000 * n, **place}
    | {"dur": us}
    for n, us in enumerate(long["steps"])
]
rows += [
    {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "ts": 5 + n, **place}
    | {"args": {"Total Allocated": size, "Bytes": size, "Addr": n, "Device Type": 0}}
    for n, size in enumerate(long["memory"])
]
with gzip.open(sys.argv[1], "wt") as file:
    json.dump({"traceEvents": rows}, file)
"""
GH: Final = """#!/bin/sh
printf '%s\\n' "$@" > gh_arguments
test -n "$GH_TOKEN" && cat comment.md > posted.md
"""


def block(language: str) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return str(text)


@pytest.fixture(scope="module")
def workflow() -> dict[Any, Any]:
    found: dict[Any, Any] = needs.module("yaml").safe_load(block("yaml"))
    return found


def test_it_is_a_workflow(workflow: dict[Any, Any]) -> None:
    assert workflow[True] == "pull_request"  # YAML 1.1 reads `on` so; GitHub reads a word
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
    (job,) = workflow["jobs"].values()
    actions = [step["uses"] for step in job["steps"] if "uses" in step]
    assert actions
    assert all(re.fullmatch(r"actions/[a-z-]+@v[0-9]+", action) for action in actions)
    assert all(("uses" in step) != ("run" in step) for step in job["steps"])
    checked_out = [step["with"]["path"] for step in job["steps"][:2]]
    assert checked_out == ["after", "before"]


def test_its_script_writes_a_trace_with_steps_and_memory(tmp_path: Path) -> None:
    needs.torch()
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "script.py").write_text(block("py"))
    command = [sys.executable, "script.py", "trace.json.gz"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    trace = profframe.load(tmp_path / "trace.json.gz")
    (found,) = trace.runs().select("steps", "peak_host_bytes").iter_rows()
    assert found[0] == 12
    assert found[1] > 0


@pytest.mark.parametrize(
    ("after", "code"),
    few(
        [
            ({"steps": [100, 101, 99, 100], "memory": [5, 6]}, 0),
            ({"steps": [120, 121, 119, 120], "memory": [5, 6]}, 3),
            ({"steps": [100, 101, 99, 100], "memory": []}, 2),
        ],
        [({"steps": [120, 121, 119, 120], "memory": [5, 6]}, 3)],
        arguments=2,
    ),
    ids=["alike", "longer", "nothing of memory"],
)
def test_its_shell_lines_run(
    workflow: dict[Any, Any], tmp_path: Path, after: dict[str, Any], code: int
) -> None:
    """What is longer fails and is posted; where something cannot be compared, nothing is posted."""
    sides = {"before": {"steps": [100, 99, 101, 100], "memory": [6]}, "after": after}
    for name, values in sides.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "long.json").write_text(json.dumps(values))
    (tmp_path / "after/profile_steps.py").write_text(TRACE)
    commands = {
        "gh": GH,
        "pip": '#!/bin/sh\nprintf "%s\\n" "$@" > pip_arguments\n',
        "python": f'#!/bin/sh\nexec {sys.executable} "$@"\n',
        "profframe": f'#!/bin/sh\nexec {sys.executable} -m profframe "$@"\n',
    }
    (tmp_path / "bin").mkdir()
    for name, text in commands.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    (job,) = workflow["jobs"].values()
    codes = []
    for step in job["steps"]:
        if "run" not in step:
            continue
        given = {name: name.lower() for name in step.get("env", {})}
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        environment = {**os.environ, **given, "PATH": path, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [BASH, "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        codes.append(done.returncode)
    assert codes == [0, 0, code], done.stderr
    assert (tmp_path / "pip_arguments").read_text().split() == ["install", "profframe", "torch"]
    posted = tmp_path / "posted.md"
    assert posted.exists() == (code != 2)
    if code == 2:
        return
    arguments = (tmp_path / "gh_arguments").read_text().split()
    assert arguments == ["pr", "comment", "pr", "--body-file", "comment.md"]
    text = posted.read_text()
    assert text.startswith("### profframe diff: ")
    assert ("**1 of 2 limits is broken**" in text) == (code == 3)
    assert "| 10 % | step |" in text


def test_every_metric_of_the_page_is_one() -> None:
    rows = re.findall(r"^\| `([a-z_:A-Z]+)` \|", PAGE, re.MULTILINE)
    named = {row.removesuffix("NAME") for row in rows}
    assert named == {*fail_on.WORDS, *(f"{kind}:" for kind in fail_on.KINDS)}
    limits = re.findall(r"--fail-on (?:')?([^\s'`]+)", PAGE)
    assert len(limits) > 5
    for text in limits:
        if text != "LIMIT":
            fail_on.limit(text.rstrip(","))
