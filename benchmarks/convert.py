"""How much faster two workers convert many files than one does, each with one thread.

::

    python benchmarks/convert.py           # about three minutes on a quiet machine
    python benchmarks/convert.py --small   # does it all run? figures mean nothing

The files are copies of one real trace of 216,000 events. Every measurement is the command line in a
process of its own, start included, and the numbers of workers take turns; figures are medians. Of
the processor's time they say whether the machine was quiet: one worker cannot use much more of it
than there is.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.places import TRACES  # noqa: E402

TRACE: Final = TRACES / "facebookresearch__HolisticTraceAnalysis" / "df_index_resolver.json.gz"
EXAMPLE: Final = ROOT / "examples" / "cpu_training.json.gz"
FILES: Final = 16
TARGET: Final = 1.6


@dataclass(frozen=True)
class Measured:
    """Seconds by the clock, and of all processors together."""

    wall_s: float
    processor_s: float


def convert(folder: Path, workers: int) -> Measured:
    """Convert all files into a new store."""
    with tempfile.TemporaryDirectory() as store:
        options = ["-o", store, "--workers", str(workers), "--threads", "1"]
        command = [sys.executable, "-m", "profframe", "convert", str(folder / "*"), *options]
        before, start = _processor_s(), time.perf_counter()
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        return Measured(time.perf_counter() - start, _processor_s() - before)


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Measure, print, and compare with the target."""
    parser = argparse.ArgumentParser(description="Converting 16 files with one worker and two.")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    trace = EXAMPLE if given.small or not TRACE.is_file() else TRACE
    rounds = 1 if given.small else given.rounds
    files = 4 if given.small else FILES
    with tempfile.TemporaryDirectory() as work:
        for number in range(files):
            folder = Path(work, f"run{number}")
            folder.mkdir()
            shutil.copy(trace, folder / "rank0.json.gz")
        taken: dict[int, list[Measured]] = {1: [], 2: []}
        for _ in range(rounds):
            for workers, measured in taken.items():
                measured.append(convert(Path(work), workers))
    walls = {n: statistics.median(m.wall_s for m in measured) for n, measured in taken.items()}
    for workers, measured in taken.items():
        used = statistics.median(m.processor_s for m in measured)
        print(
            f"{files} files, {workers} worker(s): {walls[workers]:6.1f} s, processors {used:6.1f} s"
        )
    speed_up = walls[1] / walls[2]
    print(f"speed-up {speed_up:.2f} (target {TARGET})")
    return 0 if given.small or speed_up >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
