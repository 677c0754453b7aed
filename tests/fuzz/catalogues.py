"""Damaged segments of catalogues: a store opens as its folders are.

Bytes of a segment of a store with more folders than are walked are flipped, cut, spliced or
repeated. What is listed then has to be what a walk through the folders finds.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

import profframe
from profframe import schema, store
from profframe.store import layout
from profframe.store.catalogue.listing import FEW, listed
from profframe.store.catalogue.places import CataloguedPlaces
from profframe.store.layout import CATALOGUE, Place
from tests.builders import table
from tests.unit.test_store import one

MEMBERS: Final = FEW + 20
RUNS: Final = 6
OPTIONAL: Final = sorted(schema.OPTIONAL_TABLES)[:4]


def case(seed: int) -> None:
    """Damage a segment, and open the store."""
    rng = random.Random(seed)  # noqa: S311 - cases, no secret
    root = _store()
    segment = rng.choice(sorted((root / CATALOGUE).iterdir()))
    content = segment.read_bytes()
    segment.write_bytes(_damaged(rng, content))
    try:
        _check(root, f"run{rng.randrange(RUNS)}")
    finally:
        segment.write_bytes(content)


def _check(root: Path, run: str) -> None:
    """What is listed is what is there."""
    places = [*listed(root)]
    trace = profframe.load(root, runs=run)
    assert _seen(places) == _seen(layout.places(root))
    assert trace.traces["run"].to_list() == [run] * (MEMBERS // RUNS)


def _seen(places: Iterable[Place]) -> list[tuple[Path, frozenset[str]]]:
    return [(place.folder, place.optional) for place in places]


def _damaged(rng: random.Random, content: bytes) -> bytes:
    place = rng.randrange(len(content))
    end = min(len(content), place + rng.choice((1, 1, 4, 64)))
    match rng.randrange(5):
        case 0:
            return content[:place]
        case 1:
            return content[:place] + content[end:]
        case 2:
            return content[:end] + content[place:]
        case 3:
            return content[:place] + rng.randbytes(end - place) + content[end:]
        case _:
            flipped = content[place] ^ (1 << rng.randrange(8))
            return content[:place] + bytes([flipped]) + content[place + 1 :]


@cache
def _store() -> Path:
    """A store of single folders with a folded segment and one of its own for the last of them."""
    root = Path(tempfile.mkdtemp(), "store")
    for number in range(MEMBERS):
        run, rank = f"run{number % RUNS}", number // RUNS
        some = random.Random(number).sample(OPTIONAL, 2)  # noqa: S311 - cases, no secret
        rows = {name: table(name, [{"run": run, "rank": rank}]) for name in some}
        store.write(one(run, rank) | rows, root)
    assert isinstance(listed(root), CataloguedPlaces)
    return root
