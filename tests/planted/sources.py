"""Traces whose steps can be planted, and how near a played step comes to the recorded one::

python -m tests.planted.sources
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TextIO

from tests.places import TRACES
from tests.planted.recorded import Model, cut
from tests.planted.steps import length

MOST_EVENTS: Final = 110_000


def candidates(folder: Path) -> Iterator[Path]:
    """Chrome traces of real devices that are not too large."""
    with (folder / "index.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            is_real = row["kind"] == "chrome-trace-json" and row["provenance"].startswith("real")
            has_work = "kernel:" in row["categories"].lower()
            if is_real and has_work and int(row["events"]) < MOST_EVENTS:
                yield folder / row["path"]


def main(paths: list[Path], out: TextIO) -> None:
    for path in paths:
        begun = time.monotonic()
        model: Model = cut(path)
        played = length([model], steps=1)
        slices, works = model.slices(), model.works()
        busy = sum(work.dur for work in works)
        print(
            f"{'/'.join(path.parts[-2:])[-60:]:60} {len(slices):6} slices {len(works):5} works"
            f" {model.recorded / 1e6:9.3f} ms, played {played / model.recorded - 1:+7.2%},"
            f" busy {busy / model.recorded:6.1%}, unlinked {model.unlinked / max(1, busy):6.1%},"
            f" {time.monotonic() - begun:.1f} s",
            file=out,
        )


if __name__ == "__main__":
    main(
        [Path(p) for p in sys.argv[1:]] or list(candidates(TRACES)),
        sys.stdout,
    )
