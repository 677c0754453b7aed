"""Packets of Perfetto that are flipped, cut, doubled and spliced, plain and compressed.

Whatever comes of them, `profframe.load` raises nothing but a `ProfframeError`, the command line
says so in one line, and a trace that has lost packets has a row in ``quality``.
"""

from __future__ import annotations

import gzip
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

import profframe
from tests.fuzz.verbs import check_verb

_DATA: Final = Path(__file__).parent.parent / "data" / "cuspy"
_WORDS: Final = (
    b"\x0a", b"\xff", b"\x00", b"\xff" * 10, b"\x0a\x00", b"\x0a\xff\xff\xff\xff\x0f",
    b"\x5a\x02\x48\x01", b"\x92\x03", b"\x62\x00" * 50, b"\xc2\x3e\x03",
    b"\x22\x04\x5a\x02\x5a\x00",
)  # fmt: skip
_NAMED: Final = {"truncated", "unreadable_event", "damaged_stream", "rows_not_loaded", "lost_text"}


def case(seed: int) -> None:
    """Load damaged bytes, ask a little, and see what is said of them."""
    random = Random(seed)  # noqa: S311 - damage, no secret
    content = _damaged(random.choice(_traces()), random)
    if random.random() < 0.3:
        content = gzip.compress(content, 1)
        if random.random() < 0.5:
            content = content[: random.randrange(len(content))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.pftrace")
        path.write_bytes(content)
        try:
            trace = profframe.load(path)
        except profframe.ProfframeError as error:
            said = str(error)
            assert said.startswith(f"{path}: "), said
            assert "\n" not in said, said
        else:
            _check(trace)
        if seed % 8 == 0:
            check_verb("info", str(path))


def _check(trace: profframe.Trace) -> None:
    events = trace.events
    assert events["event_id"].to_list() == list(range(events.height))
    assert (events["dur_ns"].drop_nulls() >= 0).all()
    trace.sql("SELECT count(*), min(time_ns) FROM flows")
    trace.key_averages()
    checks = set(trace.quality["check"].to_list())
    if events.height < _LEAST:
        assert checks & (_NAMED | {"no_events", "unmatched_begin", "unmatched_end"}), checks


_LEAST: Final = 5


@cache
def _traces() -> tuple[bytes, ...]:
    return tuple(gzip.decompress(path.read_bytes()) for path in sorted(_DATA.glob("*.pftrace")))


def _damaged(sound: bytes, random: Random) -> bytes:
    content = bytearray(sound)
    for _ in range(random.choice((1, 1, 2, 5, 20))):
        content = content or bytearray(b"\n")
        at = random.randrange(len(content))
        size = random.choice((1, 1, 2, 8, 60))
        change = random.randrange(6)
        if change == 0:
            content[at] ^= 1 << random.randrange(8)
        elif change == 1:
            del content[at : at + size]
        elif change == 2:
            content[at:at] = random.choice(_WORDS)
        elif change == 3:
            other = random.randrange(len(content))
            content[at:at] = content[other : other + size]
        elif change == 4:
            content[at] = random.randrange(256)
        else:
            content = content[: max(at, 1)]
    return bytes(content)
