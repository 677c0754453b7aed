"""Databases of rocprofv3, changed like those of other tools: what holds is the same."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Final

from tests.fuzz.databases import run
from tests.fuzz.pickles import peak_kb
from tests.fuzz.rocprof_recordings import recording
from tests.rocprof_files import write_database

MOST_KB: Final = 1 << 20


def case(seed: int) -> None:
    """One database of one process or two."""
    run(seed, _make)
    assert peak_kb() < MOST_KB


def _make(path: Path, rng: random.Random) -> None:
    processes = [recording(rng, pid) for pid in (100, 200)[: rng.randrange(1, 3)]]
    write_database(
        path, processes, guids=[""] if len(processes) == 1 and rng.random() < 0.2 else ()
    )
