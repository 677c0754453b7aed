"""Which releases of Python and of the dependencies do the main job (`scripts/main_job.py`).

For each Python: once with the lowest release of each dependency that the project allows and that
has a wheel, once with the newest ones. A Python that is neither here nor to be fetched is said.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from scripts.check_dist import ROOT, build

PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
RESOLUTIONS: Final = {"lowest": "lowest-direct", "newest": "highest"}
UV: Final = (sys.executable, "-m", "uv", "--quiet")


def run(*words: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program away from the checkout, so that it imports what is installed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def interpreter(python: str) -> str:
    """Where a Python is, on the path or of pyenv; else its name, by which uv may fetch it."""
    candidates = [python, f"python{python}"]
    candidates += map(str, sorted(Path.home().glob(f".pyenv/versions/{python}.*/bin/python")))
    for path in filter(None, map(shutil.which, candidates)):
        if not run(path, "--version", folder=ROOT).returncode:
            return path
    return python


def row(python: str, resolution: str, wheel: Path) -> dict[str, str]:
    """What ran in a fresh environment: versions, or why not."""
    head = {"python": python, "dependencies": resolution}
    with tempfile.TemporaryDirectory(prefix="matrix-") as name:
        folder = Path(name)
        environment = folder / "venv"
        at = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
        made = run(*UV, "venv", "--python", interpreter(python), environment, folder=folder)
        if made.returncode:
            return head | {"result": "no such Python here"}
        wanted = ("--only-binary", ":all:", "--resolution", RESOLUTIONS[resolution])
        # Lowest are the direct ones, so what the wheel needs is named beside it.
        installed = run(
            *UV, "pip", "install", "--python", at, *wanted, wheel, *needed(), folder=folder
        )
        if installed.returncode:
            return head | {"result": f"not installed: {last_line(installed.stderr)}"}
        done = run(at, ROOT / "scripts" / "main_job.py", ROOT / "examples", folder=folder)
        if done.returncode:
            return head | {"result": f"failed: {last_line(done.stderr)}"}
        versions: dict[str, str] = json.loads(done.stdout)
        return head | {"result": "ran"} | versions


def needed() -> list[str]:
    """What the core requires."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    requirements: list[str] = project["project"]["dependencies"]
    return requirements


def last_line(text: str) -> str:
    """The last line of what a program said."""
    return (text.strip().splitlines() or [""])[-1]


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The lines of a Markdown table, with a column for each key of a row."""
    names = [*dict.fromkeys(name for row in rows for name in row if name != "profframe")]
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"
    for row in rows:
        yield f"| {' | '.join(row.get(name, '') for name in names)} |"


def main() -> None:
    """Print the table; fail if a Python that is here does not do the job."""
    with tempfile.TemporaryDirectory() as name:
        _, wheel = build(Path(name))
        rows = [
            row(python, resolution, wheel)
            for python in sys.argv[1:] or PYTHONS
            for resolution in RESOLUTIONS
        ]
    print(*table(rows), sep="\n")
    sys.exit(any(row["result"].startswith(("not", "failed")) for row in rows))


if __name__ == "__main__":
    main()
