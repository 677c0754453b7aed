"""An installation succeeds whatever compiler is there, and the version says what came of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from profframe.native.library import SWITCH
from tests import needs
from tests.places import ROOT

NATIVE: Final = "(native scanner)"
PURE: Final = "(pure Python, without the native scanner: not built here)"

pytestmark = pytest.mark.long


def installed(folder: Path, programs: tuple[str, ...], variables: dict[str, str]) -> str:
    """What a fresh installation says of its version, where only some programs are on the path."""
    path, source, target, temporary = (folder / name for name in ("bin", "source", "target", "tmp"))
    for each in (path, source, temporary):
        each.mkdir()
    for name in programs:
        (path / name).symlink_to(needs.program(name, "gcc or clang"))
    for name in ("hatch_build.py", "pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, source)
    for name in ("profframe", "sql"):
        shutil.copytree(ROOT / name, source / name)
    here = {name: text for name, text in os.environ.items() if name not in {"CC", SWITCH}}
    here |= {"PATH": str(path), "TMPDIR": str(temporary), "PYTHONPATH": str(target)}
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target)]
    subprocess.run([*pip, str(source)], env=here | variables, check=True)
    assert [*temporary.iterdir()] == []
    command = [sys.executable, "-m", "profframe", "--version"]
    return subprocess.check_output(command, cwd=folder, env=here, text=True).strip()


GCC: Final = ("gcc", "as", "ld")


@pytest.mark.parametrize(
    ("programs", "variables", "ending"),
    [
        pytest.param((), {}, PURE, id="no compiler"),
        pytest.param(GCC, {}, NATIVE, id="gcc"),
        pytest.param(("clang", "ld"), {}, NATIVE, id="clang"),
        pytest.param(GCC, {"CC": "gcc -O0"}, NATIVE, id="a CC with a flag"),
        pytest.param(GCC, {"CC": "/nonexistent"}, PURE, id="a CC that is not there"),
        pytest.param((*GCC, "false"), {"CC": "false"}, PURE, id="a CC that fails"),
        pytest.param((*GCC, "true"), {"CC": "true"}, PURE, id="a CC that does nothing"),
        pytest.param(GCC, {SWITCH: "0"}, PURE, id="switched off"),
    ],
)
def test_it_installs(
    programs: tuple[str, ...], variables: dict[str, str], ending: str, tmp_path: Path
) -> None:
    assert installed(tmp_path, programs, variables).endswith(ending)
