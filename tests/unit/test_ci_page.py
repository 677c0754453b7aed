"""``docs/ci.md`` and ``action.yml``: they are YAML that GitHub takes, and their shell lines run."""

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
PIP: Final = '#!/bin/sh\nprintf "%s\\n" "$@" > pip_arguments\n'
PYTHON: Final = f"""#!/bin/sh
if [ "$2" = pip ]; then printf '%s\\n' "$@" > install_arguments; exit; fi
PYTHONPATH={ROOT} exec {sys.executable} "$@"
"""
ACTION: Final = (ROOT / "action.yml").read_text()
ACTION_USED: Final = "YOU/profframe@COMMIT"
EXPRESSION: Final = re.compile(r"\$\{\{ inputs\.([a-z-]+) \}\}")


class Machine:
    """What runs the steps of a job, as GitHub does: bash in a folder, with commands of its own."""

    def __init__(self, folder: Path, commands: dict[str, str]) -> None:
        self.folder = folder
        self.error = ""
        (folder / "bin").mkdir()
        for name, text in {"python": PYTHON, **commands}.items():
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)

    def run(self, step: dict[str, Any], variables: dict[str, str]) -> int:
        """The exit code of a step."""
        given = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "RUNNER_TEMP": str(self.folder / "temporary"),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_OUTPUT": str(self.folder / "output"),
            "GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"),
        }
        done = subprocess.run(
            [BASH, "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.folder, env={**os.environ, **given, **variables}, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        self.error = done.stderr
        return done.returncode

    def act(self, inputs: dict[str, str]) -> tuple[int, str]:
        """The exit code and the outputs of the action."""
        action = needs.module("yaml").safe_load(ACTION)
        defaults = {name: one.get("default") for name, one in action["inputs"].items()}
        values = {**defaults, **inputs}
        assert values.keys() == defaults.keys()
        code = 0
        for step in action["runs"]["steps"]:
            names = {
                name: EXPRESSION.sub(r"\1", text) for name, text in step.get("env", {}).items()
            }
            code = code or self.run(step, {name: values[of] for name, of in names.items()})
        output = self.folder / "output"
        return code, output.read_text() if output.exists() else ""


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
    official = re.compile(r"actions/[a-z-]+@v[0-9]+")
    assert [action for action in actions if not official.fullmatch(action)] == [ACTION_USED]
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
    machine = Machine(tmp_path, {"gh": GH, "pip": PIP})
    (job,) = workflow["jobs"].values()
    codes = []
    written = ""
    for step in job["steps"]:
        if step.get("uses") == ACTION_USED:
            code_of_action, written = machine.act(step["with"])
            codes.append(code_of_action)
        elif "run" in step and ("if" not in step or written == "written=true\n"):
            codes.append(machine.run(step, {name: name.lower() for name in step.get("env", {})}))
    assert codes == [0, 0, code, *([] if code == 2 else [0])], machine.error
    assert (tmp_path / "pip_arguments").read_text().split() == ["install", "torch"]
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


def test_nothing_is_installed_by_its_name() -> None:
    lines = [line for line in (PAGE + ACTION).splitlines() if re.search(r"pip3? install", line)]
    assert len(lines) >= 3
    assert not re.search(r"pip3? install[^`\n]* ['\"]?profframe(?![-/\w])", "\n".join(lines))


def test_the_action_is_one_that_github_takes() -> None:
    action = needs.module("yaml").safe_load(ACTION)
    assert action["runs"]["using"] == "composite"
    assert {*action} == {"name", "description", "inputs", "outputs", "runs"}
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]  # an input in the text of a script is code
    outputs = action["outputs"].values()
    assert [one["value"] for one in outputs] == ["${{ steps.diff.outputs.written }}"]


def test_the_action_installs_its_own_checkout(tmp_path: Path) -> None:
    machine = Machine(tmp_path, {})
    machine.act({"before": "missing", "after": "missing"})
    arguments = (tmp_path / "install_arguments").read_text().split("\n")
    assert arguments[-3:] == [str(tmp_path / "temporary/profframe"), str(ROOT), ""]


HOSTILE: Final = ("$(touch pwned)", "`touch pwned`", '"; touch pwned; "', "' & touch pwned #")


@pytest.mark.parametrize("text", few(HOSTILE, HOSTILE[:1]))
def test_inputs_of_the_action_are_never_commands(tmp_path: Path, example: Path, text: str) -> None:
    trace = tmp_path / f"{text}.json.gz"
    shutil.copy(example, trace)
    machine = Machine(tmp_path, {})
    inputs = {"before": trace.name, "after": trace.name, "comment": f"-{text}.md"}
    assert machine.act(inputs) == (0, "written=true\n"), machine.error
    comment = (tmp_path / f"-{text}.md").read_text()
    assert comment.startswith("### profframe diff: ")
    assert (tmp_path / "summary.md").read_text() == comment
    for name, value in (
        ("fail-on", f"step=5%\n{text}"), ("per", f"step {text}"), ("before", f"--help {text}"),
        ("after", f"{text}\n--fail-on=0%"),
    ):  # fmt: skip
        (tmp_path / "output").unlink(missing_ok=True)
        code, outputs = machine.act({**inputs, name: value})
        assert (code in {1, 2}, outputs) == (True, ""), (name, machine.error)
    assert not (tmp_path / "pwned").exists()


def test_every_metric_of_the_page_is_one() -> None:
    rows = re.findall(r"^\| `([a-z_:A-Z]+)` \|", PAGE, re.MULTILINE)
    named = {row.removesuffix("NAME") for row in rows}
    assert named == {*fail_on.WORDS, *(f"{kind}:" for kind in fail_on.KINDS)}
    limits = re.findall(r"--fail-on (?:')?([^\s'`]+)", PAGE)
    assert len(limits) >= 5
    for text in limits:
        if text != "LIMIT":
            fail_on.limit(text.rstrip(","))
