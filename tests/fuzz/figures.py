"""What damaged files cost to load, by hand: how many are refused, peak memory, and time.

::

    python -m tests.fuzz.figures tests.fuzz.NAME --cases 5000

A module has a function ``changed(seed)`` that gives the content of a file. Whatever is raised but a
`ProfframeError`, and every file beyond the limits, is a line with its seed.
"""

from __future__ import annotations

import argparse
import importlib
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import profframe

MOST_BYTES: Final = 1 << 30
MOST_S_PER_MB: Final = 10.0
"""For files of a megabyte and more; a smaller one may take as long as one of a megabyte."""


@dataclass(slots=True)
class Figures:
    """Sums and extremes of what was loaded."""

    loaded: int = 0
    refused: int = 0
    slowest_s: float = 0
    slowest_s_per_mb: float = 0
    bytes: int = 0
    wrong: list[str] = field(default_factory=list)

    def load(self, seed: int, path: Path) -> None:
        """Load a file, and note what it took."""
        begun, size_mb = time.process_time(), path.stat().st_size / 1e6
        try:
            profframe.load(path)
            self.loaded += 1
        except profframe.ProfframeError as error:
            self.refused += 1
            if "internal:" in str(error) or "\n" in str(error):
                self.wrong.append(f"seed {seed}: {error}")
        except BaseException as error:  # noqa: BLE001 - a panic of polars is no Exception
            self.wrong.append(f"seed {seed}: {type(error).__name__}: {error}")
        seconds = time.process_time() - begun
        self.slowest_s = max(self.slowest_s, seconds)
        if size_mb >= 1:
            self.slowest_s_per_mb = max(self.slowest_s_per_mb, seconds / size_mb)
        if seconds > MOST_S_PER_MB * max(1, size_mb):
            self.wrong.append(f"seed {seed}: {seconds:.1f} s")
        self.bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if self.bytes > MOST_BYTES:
            self.wrong.append(f"seed {seed}: {self.bytes:,} bytes of memory")

    def __str__(self) -> str:
        return (
            f"{self.loaded:,} loaded, {self.refused:,} refused, {len(self.wrong)} wrong; peak "
            f"{self.bytes / 1e6:.0f} MB; slowest {self.slowest_s:.2f} s of CPU, and of files from "
            f"1 MB on {self.slowest_s_per_mb:.2f} s per MB"
        )


def figures(changed: Callable[[int], bytes], seeds: Iterable[int]) -> Figures:
    """Load the file of each seed in this process."""
    total = Figures()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace")
        for seed in seeds:
            path.write_bytes(changed(seed))
            total.load(seed, path)
    return total


def main() -> None:
    """Print the figures of a module, and what is wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=100)
    given = parser.parse_args()
    changed = importlib.import_module(given.module).changed
    total = figures(changed, range(given.seed, given.seed + given.cases))
    for line in (*total.wrong, f"{given.module}: {total}"):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
