"""The scanner, the reader without it and plain `json` agree on drawn documents of every class."""

from __future__ import annotations

from collections import Counter

import pytest

from tests import needs
from tests.fuzz.drawn_traces import ODDITIES
from tests.fuzz.three_readers import EVERY, MOST_SHOWN, REASONS, SET, TABLES, compared, many

FIRST, FEW = 67, 5
"""Sets that have every class of documents between them, but those that are seldom."""
CLASSES = ("scanned whole", "handed back whole", "sound as a whole", "mended like its twin")
MANY = 100_000


def test_readers_agree_on_some_drawn_documents() -> None:
    needs.native_scanner()
    counts, differences = Counter[str](), []
    for number in range(FIRST, FIRST + FEW):
        report = compared(number)
        counts += report.counts
        differences += report.differences
    assert not differences, "\n".join(differences[:MOST_SHOWN])
    assert counts["documents"] == FEW * SET
    assert counts["loaded as a whole"] >= FEW * SET // EVERY
    lacking = [name for name in CLASSES if counts[name] < 10]
    lacking += [] if counts["handed back in part"] else ["handed back in part"]
    lacking += [name for name in REASONS if name not in SELDOM and not counts[f"pieces {name}"]]
    lacking += [name for name in ROWS if counts[f"rows of {name}"] < SET // 2]
    lacking += [name for name in ODDITIES if name not in SELDOM and not counts[f"with {name}"]]
    assert not lacking, counts


ROWS = [name for name in TABLES if name not in {"traces", "quality"}]
SELDOM = ("ODD_ROOM", "ODD_DEPTH", "half surrogates", "invalid UTF-8", "no members", "many members")


@pytest.mark.long
def test_readers_agree_on_many_drawn_documents() -> None:
    needs.native_scanner()
    total = many(MANY, 0, jobs=2)
    assert not total.differences, "\n".join(total.differences[:MOST_SHOWN])
    assert total.counts["documents"] >= MANY
