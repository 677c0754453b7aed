"""Pickles that are flipped, cut, doubled and spliced, and dicts of odd keys and values.

Whatever comes of them, a load raises nothing but a `ProfframeError` in one line that names the
file, in less than 1 GB of memory, and within 10 s of processor time for each MB. `snapshots` and
`dumps` have the files; figures of many of them are printed by, say::

    python -m tests.fuzz.snapshots --cases 5000
"""

from __future__ import annotations

import argparse
import gzip
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import profframe
from tests.fuzz.verbs import check_verb

MOST_KB: Final = 1 << 20
MOST_S_PER_MB: Final = 10
_WARM: Final[list[bool]] = []
_FEWEST_MB: Final = 0.1
"""A load takes some time, however small the file."""
_OPCODES: Final = (
    *(bytes([code]) for code in b"\x94(012]})\x8feausdlt\x90\x91\x85\x86\x87N\x88\x93R.\xff"),
    b"q\x05", b"r\xff\xff\xff\x7f", b"r\xff\xff\xff\xcd", b"h\x01", b"h\x0c", b"j\x03\0\0\0",
    b"j\xff\xff\xff\xff", b"p7\n", b"g3\n", b"K\x05", b"J\xff\xff\xff\xff", b"\x8a\x09aaaaaaaaa",
    b"\x8b\xff\xff\xff\x7f", b"G\x7f\xf8\0\0\0\0\0\0", b"\x8c\x03\xed\xa0\x80",
    b"X\xff\xff\xff\x7f", b"\x8d\0\0\0\0\1\0\0\0", b"C\x02ab", b"V\\ud800\n",
    b"\x95\0\0\0\0\0\0\0\0", b"\x95\xff\xff\xff\xff\xff\xff\xff\x7f", b"I01\n", b"L7L\n",
    b"F1e400\n", b"cos\nsystem\n", b"](" + b"h\x05" * 50 + b"e",
)  # fmt: skip
_ODD_KEYS: Final = (b"key", None, 7, 2.5, True, "\ud800", "", "k" * 300)
_ODD: Final[tuple[Any, ...]] = (
    b"bytes", {1, 2}, frozenset({b"a"}), (), (1, None), [], [[]], {}, {b"a": {1}}, [{b"a": 1}],
    None, True, -1, 2**31, 2**62, 2**63, 2**70, -(2**63), 1.5, float("nan"), float("inf"), "",
    "\ud800", "text", [1, "a", {2}], {"name": b"x"}, [b"x"], [2**70],
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Reading:
    """What became of a file."""

    is_loaded: bool
    cpu_s: float
    size: int

    @property
    def s_per_mb(self) -> float:
        """Processor time for each MB; a small file counts as `_FEWEST_MB`."""
        return self.cpu_s / max(_FEWEST_MB, self.size / 1e6)


def odd(sound: dict[str, Any], random: Random) -> dict[Any, Any]:
    """A dict of which some keys have odd values, and some odd keys."""
    changed: dict[Any, Any] = dict(sound)
    for key in random.sample([*sound], random.randrange(1, len(sound) + 1)):
        changed[key] = random.choice(_ODD)
    if random.random() < 0.3:
        changed[random.choice(_ODD_KEYS)] = random.choice(_ODD)
    return changed


def read(name: str, content: bytes, seed: int) -> Reading:
    """Load a file of this name and content; raises where something is wrong."""
    random = Random(seed)  # noqa: S311 - damage, no secret
    packed = gzip.compress(content, 1) if random.random() < 0.2 else content
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(packed)
        if not _WARM:  # imports take no time of a file
            _WARM.append(_loaded(path))
        begin = time.process_time()
        is_loaded = _loaded(path)
        reading = Reading(is_loaded, time.process_time() - begin, len(content))
        if seed % 50 == 0:
            check_verb("info", str(path))
    used_kb = peak_kb()
    assert used_kb < MOST_KB, (used_kb, reading)
    assert reading.s_per_mb < MOST_S_PER_MB, reading
    return reading


def peak_kb() -> int:
    """The most memory that this process has had, without that of its parent before the fork."""
    text = Path("/proc/self/status").read_text("ascii", "replace")
    return int(text.partition("VmHWM:")[2].split()[0])


def _loaded(path: Path) -> bool:
    try:
        trace = profframe.load(path)
    except profframe.ProfframeError as error:
        said = str(error)
        assert said.startswith(f"{path}: "), said
        assert "\n" not in said, said
        assert "internal:" not in said, said
        return False
    trace.quality.rows()
    return True


def damaged(sound: bytes, random: Random) -> bytes:
    """Bytes of which some are others, gone, doubled or elsewhere."""
    content = bytearray(sound)
    for _ in range(random.choice((1, 1, 2, 5, 20))):
        content = content or bytearray(b"\x80")
        at = random.randrange(len(content))
        size = random.choice((1, 1, 2, 8, 60, 500))
        change = random.randrange(7)
        if change == 0:
            content[at] ^= 1 << random.randrange(8)
        elif change == 1:
            del content[at : at + size]
        elif change == 2:
            content[at:at] = random.choice(_OPCODES)
        elif change == 3:
            word = random.choice(_OPCODES)
            content[at : at + len(word)] = word
        elif change == 4:
            other = random.randrange(len(content))
            content[at:at] = content[other : other + size] * random.choice((1, 1, 100))
        elif change == 5:
            content[at] = random.randrange(256)
        elif random.random() < 0.3:
            content = content[: max(at, 1)]
    return bytes(content)


def main(content_of: Callable[[int], bytes], name: str, arguments: Sequence[str]) -> None:
    """Read many files, and print figures of them all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=5000)
    given = parser.parse_args(arguments)
    counts, slowest, wrong = Counter[bool](), Reading(False, 0, 1), 0
    for seed in range(given.seed, given.seed + given.cases):
        try:
            reading = read(name, content_of(seed), seed)
        except Exception as error:  # noqa: BLE001 - it is told
            wrong += 1
            sys.stdout.write(f"seed {seed}: {error!r}\n")
            continue
        counts[reading.is_loaded] += 1
        slowest = max(slowest, reading, key=lambda one: one.s_per_mb)
    used = peak_kb() >> 10
    sys.stdout.write(
        f"{given.cases:,} files: {counts[True]:,} loaded, {counts[False]:,} refused, {wrong:,} "
        f"wrong; at most {used:,} MB of memory; slowest {slowest.cpu_s:.2f} s for "
        f"{slowest.size:,} bytes, {slowest.s_per_mb:.2f} s per MB\n"
    )
