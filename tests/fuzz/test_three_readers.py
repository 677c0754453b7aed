"""The scanner, the reader without it and plain `json` agree on drawn documents of every class."""

from __future__ import annotations

from collections import Counter

import pytest

from tests import needs
from tests.fuzz.drawn_traces import ODDITIES
from tests.fuzz.three_readers import EVERY, MOST_SHOWN, REASONS, SET, TABLES, compared, many

FEW = 5
"""Sets; in these the scanner has each reason at least once but one."""
CLASSES = ("scanned whole", "handed back whole", "handed back in part", "sound as a whole")
MANY = 100_000


def test_readers_agree_on_some_drawn_documents() -> None:
    needs.native_scanner()
    counts, differences = Counter[str](), []
    for number in range(FEW):
        report = compared(number)
        counts += report.counts
        differences += report.differences
    assert not differences, "\n".join(differences[:MOST_SHOWN])
    assert counts["documents"] == FEW * SET
    assert counts["loaded as a whole"] == -(-FEW * SET // EVERY)
    lacking = [name for name in CLASSES if counts[name] < SET // 4]
    lacking += [name for name in REASONS if name not in SELDOM and not counts[f"pieces {name}"]]
    lacking += [name for name in ROWS if counts[f"rows of {name}"] < SET]
    lacking += [name for name in ODDITIES if name not in SELDOM and not counts[f"with {name}"]]
    assert not lacking, counts


ROWS = [name for name in TABLES if name not in {"traces", "quality"}]
SELDOM = ("ODD_ROOM", "many members", "own columns")


@pytest.mark.long
def test_readers_agree_on_many_drawn_documents() -> None:
    needs.native_scanner()
    total = many(MANY, FEW, jobs=2)
    assert not total.differences, "\n".join(total.differences[:MOST_SHOWN])
    assert total.counts["documents"] >= MANY
