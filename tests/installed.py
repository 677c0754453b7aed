"""A distribution that is installed as far as ``importlib.metadata`` can see: for entry points."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.places import ROOT

PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def install(folder: Path, name: str, groups: Mapping[str, Mapping[str, str]]) -> Path:
    """Write the metadata of a distribution into a folder, which then belongs on ``sys.path``."""
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        line
        for group, points in groups.items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in points.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


def install_profframe(folder: Path) -> Path:
    """The same of profframe's own entry points, as pyproject.toml declares them."""
    return install(folder, "profframe", PROJECT["entry-points"])
