"""Build the sdist, and the wheel from it, and check that they hold what a user needs."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


def build(folder: Path) -> tuple[Path, Path]:
    """The sdist and the wheel built from it."""
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (sdist,) = folder.glob("*.tar.gz")
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def missing_from_wheel(wheel: Path) -> set[str]:
    """Files of the package and of ``sql/`` that the wheel should hold and does not."""
    expected = {
        path.relative_to(ROOT).as_posix()
        for pattern in ("*.py", "py.typed", "*.html", "*.css", "*.js", "*.LICENSE", "*.json")
        for path in (ROOT / "profframe").rglob(pattern)
    }
    expected |= {f"profframe/{path.relative_to(ROOT)}" for path in (ROOT / "sql").rglob("*.sql")}
    return expected - set(zipfile.ZipFile(wheel).namelist())


def missing_from_sdist(sdist: Path) -> set[str]:
    """Files that the tests and a rebuild need, and that the sdist does not hold."""
    expected = {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "tests/conftest.py"}
    expected |= {"action.yml", "skills/profframe/SKILL.md", "skills/profframe/questions.toml"}
    expected |= {str(path.relative_to(ROOT)) for path in (ROOT / "sql").rglob("*.sql")}
    expected |= {f"examples/{path.name}" for path in (ROOT / "examples").glob("*.json.gz")}
    with tarfile.open(sdist) as archive:
        return expected - {name.partition("/")[2] for name in archive.getnames()}


def runs_alone(wheel: Path, folder: Path) -> None:
    """Install the wheel into a fresh environment and answer a question from another folder."""
    environment = folder / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python = str(environment / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    trace = ROOT / "examples" / "cpu_training.json.gz"
    command = [python, "-m", "profframe", "answer", "self_times", str(trace), "--format", "csv"]
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)


def main() -> None:
    """Check both files; say what is missing."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sdist, wheel = build(folder)
        if missing := missing_from_wheel(wheel) | missing_from_sdist(sdist):
            sys.exit(f"missing from the distributions: {', '.join(sorted(missing))}")
        runs_alone(wheel, folder)
        print(f"{sdist.name} and {wheel.name} hold what a user needs")


if __name__ == "__main__":
    main()
