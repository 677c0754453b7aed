"""Install a CPU build of torch beside the Python that runs this; CUDA is never fetched.

::

    .venv/bin/python scripts/cpu_torch.py

The exit code is 1 where there is no such build, after a line that says so. A torch that is there
already is left as it is.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

INDEX: Final = "https://download.pytorch.org/whl/cpu"
"""PyTorch's own. PyPI's torch for Linux needs CUDA, and pip fetches it even to say so: 0.5 GB."""
PATIENCE_S: Final = 5
CUDA: Final = ("nvidia-", "cuda-")


def wanted() -> str:
    """The release that tests compare with."""
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8"))
    extra: list[str] = project["project"]["optional-dependencies"]["test-all"]
    return next(one for one in extra if one.startswith("torch=="))


def is_reachable(url: str) -> bool:
    """Whether there is an answer soon; pip itself would try for minutes."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S):  # noqa: S310 - of this file
            return True
    except OSError:
        return False


def needs_cuda(requirements: Iterable[str]) -> bool:
    """Whether a distribution with these requirements brings CUDA to this machine.

    Examples
    --------
    >>> needs_cuda(["sympy>=1.13", 'nvidia-cudnn-cu13==9.1; python_version > "3"'])
    True
    >>> needs_cuda(["sympy>=1.13", 'nvidia-cudnn-cu13==9.1; platform_system == "Nowhere"'])
    False
    """
    from pip._vendor.packaging.requirements import Requirement

    found = (Requirement(text) for text in requirements)
    here = (one for one in found if one.marker is None or one.marker.evaluate({"extra": ""}))
    return any(one.name.lower().startswith(CUDA) for one in here)


def pip(
    *arguments: str, stderr: int | None = subprocess.DEVNULL
) -> subprocess.CompletedProcess[str]:
    """Run pip, quietly and without questions."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    return subprocess.run(
        [*command, *arguments], check=False, stdout=subprocess.PIPE, stderr=stderr, text=True
    )


def sources() -> list[tuple[str, ...]]:
    """Where a CPU build may be, as options of pip: what is on this machine first."""
    found: list[tuple[str, ...]] = [("--no-index",)]  # wheels in the folders of --find-links
    if is_reachable(f"{INDEX}/torch/"):
        found.append(("--index-url", INDEX))
    if sys.platform != "linux":
        found.append(())
    return found


def main() -> int:
    """Install it, without its requirements: pip adds these with those of profframe."""
    if importlib.util.find_spec("torch") is not None:
        return 0
    torch = wanted()
    for source in sources():
        planned = pip("install", "--dry-run", "--no-deps", "--report", "-", torch, *source)
        if planned.returncode:
            continue
        (found,) = json.loads(planned.stdout)["install"]
        metadata: dict[str, Any] = found["metadata"]
        if not needs_cuda(metadata.get("requires_dist", ())):
            return pip(
                "install", "--no-compile", "--no-deps", torch, *source, stderr=None
            ).returncode
    print(
        f"no CPU build of {torch} in the folders of --find-links, and none from {INDEX}; tests"
        f" that need torch are skipped. To have them: pip install '{torch}', with CUDA",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
