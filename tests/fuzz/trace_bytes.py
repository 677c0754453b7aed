"""Bytes of real traces that are flipped, cut and spliced, plain and compressed.

Whatever comes of them, `profframe.load` raises nothing but a `ProfframeError`, the command line
says so in one line, and what is lost has a row in ``quality``.
"""

from __future__ import annotations

import gzip
import json
import re
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

import pyarrow as pa

import profframe
from profframe.readers.bytes import ByteSource
from tests.conftest import TRACES
from tests.fuzz.children import ROOT
from tests.fuzz.verbs import check_verb

_SIZE: Final = 30_000
"""Bytes of text of each trace, about: fifty events, and the header."""
_ELEMENTS: Final = re.compile(rb"\}\s*,\s*\{")
_LAST_COMMA: Final = re.compile(rb",(\s*[\]}])")
_WORDS: Final = (
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\0", b"\xff", b"\xed\xa0\x80", b"NaN",
    b"1e999", b'"ph"', b'"traceEvents":[', b"\\u0000", b"\\ud800", b"]}", b"7" * 5000, b"[" * 2000,
    b'{"a":' * 2000,
)  # fmt: skip


def case(seed: int) -> None:
    """Load damaged bytes, ask a little, and see what is said of them."""
    random = Random(seed)  # noqa: S311 - damage, no secret
    sound = random.choice(_traces())
    content, text = _damaged(sound, random)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace")
        path.write_bytes(content)
        try:
            trace = profframe.load(path)
        except profframe.ProfframeError as error:
            _check_error(str(error), path)
        else:
            _check(trace, sound, text)
        if seed % 4 == 0:
            check_verb("info", str(path))


def _check_error(said: str, path: Path) -> None:
    assert said.startswith(f"{path}: "), said
    assert "\n" not in said, said


def _check(trace: profframe.Trace, sound: bytes, text: bytes | None) -> None:
    """Events are counted as the text has them, or a row says what became of the others."""
    counted = trace.traces["source_events"].item()
    accounted = json.loads(trace.traces["accounted"].item())
    assert sum(accounted.values()) == counted, accounted
    assert trace.sql("SELECT count(*) AS n FROM events")["n"].item() == trace.events.height
    trace.self_times()
    expected = _elements(sound) if text is None else _elements(text)
    if expected is None:
        expected = _elements(sound)
    if counted < (expected or 0):
        assert trace.quality.height, (counted, expected)


def _elements(text: bytes) -> int | None:
    """Events of a sound document; None where it is none, or not so simple."""
    if text.count(b'"traceEvents"') > 1:
        return None
    try:
        document = json.loads(_LAST_COMMA.sub(rb"\1", text))
    except (ValueError, RecursionError):
        return None
    events = document.get("traceEvents") if isinstance(document, dict) else document
    return len(events) if isinstance(events, list) else None


def _damaged(sound: bytes, random: Random) -> tuple[bytes, bytes | None]:
    """The bytes of a file, and its text where that is known."""
    text = _mutated(sound, random) if random.random() < 0.8 else sound
    compress = random.choice((bytes, gzip.compress, _zstd))
    content = compress(text)
    if compress is not bytes and random.random() < 0.5:
        return _mutated(content, random), None
    return content, text


def _zstd(text: bytes) -> bytes:
    compressed: bytes = pa.Codec("zstd").compress(text).to_pybytes()
    return compressed


def _mutated(content: bytes, random: Random) -> bytes:
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        content = random.choice((_flipped, _cut, _spliced, _with_a_word, _with_another))(
            content, random
        )
    return content


def _place(content: bytes, random: Random) -> int:
    return random.randrange(len(content) + 1)


def _flipped(content: bytes, random: Random) -> bytes:
    changed = bytearray(content or b" ")
    changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _cut(content: bytes, random: Random) -> bytes:
    return content[: _place(content, random)]


def _spliced(content: bytes, random: Random) -> bytes:
    """Without some of it, or with some of it twice."""
    return content[: _place(content, random)] + content[_place(content, random) :]


def _with_a_word(content: bytes, random: Random) -> bytes:
    place = _place(content, random)
    return content[:place] + random.choice(_WORDS) + content[place:]


def _with_another(content: bytes, random: Random) -> bytes:
    """With a part of another trace in it."""
    place, other = _place(content, random), random.choice(_traces())
    first = _place(other, random)
    return content[:place] + other[first : first + random.randrange(2000)] + content[place:]


@cache
def _traces() -> list[bytes]:
    """Beginnings of real traces that are documents of their own, or of the examples."""
    files = sorted([*TRACES.rglob("*.json*"), *(ROOT / "examples").glob("*.json.gz")])
    texts = (_beginning(file) for file in files)
    return [text for text in dict.fromkeys(texts) if text is not None]


def _beginning(file: Path) -> bytes | None:
    text = bytearray()
    for block in ByteSource(file).blocks():
        text += block
        if len(text) > 2 * _SIZE:
            break
    end = _ELEMENTS.search(text, _SIZE)
    sound = bytes(text[: end.start() + 1]) + (b"]" if text[:1] == b"[" else b"]}") if end else b""
    return sound if _elements(sound) else None
