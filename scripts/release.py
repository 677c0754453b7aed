"""Build a release and try it; say what to upload and which tag to set, and upload nothing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from scripts.check_dist import ROOT, missing_from_sdist, missing_from_wheel

DIST: Final = ROOT / "dist"


def git(root: Path, *words: str) -> str:
    """What git says; nothing if it fails."""
    command = ["git", "-C", str(root), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def version_of(root: Path) -> str:
    """The version, from the only place that has it."""
    text = (root / "profframe" / "__init__.py").read_text("utf-8")
    (version,) = re.findall(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    return str(version)


def faults(root: Path) -> Iterator[str]:
    """What is not as a release has to be."""
    if changed := git(root, "status", "--porcelain"):
        yield f"the tree is not clean: commit or remove {', '.join(changed.split()[1::2])}"
    version = version_of(root)
    changes = (root / "CHANGELOG.md").read_text("utf-8")
    newest = (re.findall(r"^## \[(.+?)\](.*)$", changes, re.MULTILINE) or [("nothing", "")])[0]
    if newest[0] != version:
        yield f"CHANGELOG.md begins with {newest[0]}, the version is {version}"
    elif not re.fullmatch(r" - \d{4}-\d\d-\d\d", newest[1]):
        yield f"CHANGELOG.md: the heading of {version} needs a date: ## [{version}] - YYYY-MM-DD"
    tagged = git(root, "rev-list", "-n", "1", f"v{version}")
    if tagged and tagged != git(root, "rev-parse", "HEAD"):
        yield f"the tag v{version} is at another commit: raise the version in profframe/__init__.py"


def built() -> tuple[Path, list[Path]]:
    """The sdist, and the wheels for all platforms, in an empty ``dist/``."""
    DIST.mkdir(exist_ok=True)
    for old in (*DIST.glob("*.tar.gz"), *DIST.glob("*.whl")):
        old.unlink()
    source = [sys.executable, "-m", "hatchling", "build", "--target", "sdist", "-d", str(DIST)]
    subprocess.run(source, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, "scripts/wheels.py"], cwd=ROOT, check=True)
    (sdist,) = DIST.glob("*.tar.gz")
    wheels = sorted(DIST.glob("*.whl"))
    missing = missing_from_sdist(sdist).union(*map(missing_from_wheel, wheels))
    if missing:
        sys.exit(f"missing from the distributions: {', '.join(sorted(missing))}")
    return sdist, wheels


def ran_offline(version: str) -> str:
    """What the main job prints where the wheel was installed without a network."""
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        python = str(folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python")
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        packages, own = str(folder / "packages"), f"profframe=={version}"
        download = [*pip, "download", "--only-binary", ":all:", "-d", packages]
        # Ours is taken from dist/ alone: an index may have another of the name.
        here = [*download, "--no-deps", "--no-index", "-f", str(DIST), own]
        subprocess.run(here, cwd=name, check=True)
        (wheel,) = Path(packages).glob("*.whl")
        subprocess.run([*download, str(wheel)], cwd=name, check=True)
        subprocess.run([*pip, "install", "--no-index", "-f", packages, own], cwd=name, check=True)
        variables = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        job = [python, str(ROOT / "scripts" / "main_job.py"), str(ROOT / "examples")]
        return subprocess.run(
            job, cwd=name, env=variables, check=True, capture_output=True, text=True
        ).stdout.strip()


def main() -> None:
    """Check, build, try; then say what is left to do."""
    if wrong := [*faults(ROOT)]:
        sys.exit("no release:\n" + "\n".join(wrong))
    version = version_of(ROOT)
    sdist, wheels = built()
    print("the main job ran without a network:", ran_offline(version))
    print(f"\nset the tag:  git tag -a v{version} -m v{version} && git push origin v{version}")
    print("upload:       python -m twine upload", *(f"dist/{f.name}" for f in (sdist, *wheels)))


if __name__ == "__main__":
    main()
