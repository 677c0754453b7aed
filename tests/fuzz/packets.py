"""Packets of Perfetto that are flipped, cut, doubled and spliced, plain and compressed.

Whatever comes of them, `profframe.load` raises nothing but a `ProfframeError`, the command line
says so in one line, and a trace that has lost packets has a row in ``quality``: every slice that
Perfetto's own classes find in what is left is there, and where they find fewer than in the sound
file something is named.
"""

from __future__ import annotations

import gzip
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Final

import polars as pl
from google.protobuf.message import DecodeError
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

import profframe
from tests.fuzz.verbs import check_verb

_DATA: Final = Path(__file__).parent.parent / "data" / "cuspy"
_WORDS: Final = (
    b"\x0a", b"\xff", b"\x00", b"\xff" * 10, b"\x0a\x00", b"\x0a\xff\xff\xff\xff\x0f",
    b"\x5a\x02\x48\x01", b"\x92\x03", b"\x62\x00" * 50, b"\xc2\x3e\x03",
    b"\x22\x04\x5a\x02\x5a\x00",
)  # fmt: skip
_NAMED: Final = {
    "truncated", "unreadable_event", "damaged_stream", "rows_not_loaded", "lost_text",
    "unreadable_arguments",
}  # fmt: skip


def case(seed: int) -> None:
    """Load damaged bytes, ask a little, and see what is said of them."""
    sound, content, plain = _contents(seed)
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
            _check(trace, _slices(sound)[0], plain)
        if seed % 8 == 0:
            check_verb("info", str(path))


def changed(seed: int) -> bytes:
    """The content of the file; now and then of about a megabyte."""
    content = _contents(seed)[1]
    return content * (2**20 // len(content)) if seed % 50 == 0 and content else content


def _contents(seed: int) -> tuple[bytes, bytes, bytes | None]:
    """A sound trace, a damaged one, and what that is without compression, if it can be read."""
    random = Random(seed)  # noqa: S311 - damage, no secret
    sound = random.choice(_traces())
    changed = _rearranged(sound, random) if random.random() < 0.5 else sound
    content = changed if random.random() < 0.2 else _damaged(changed, random)
    plain: bytes | None = content
    if random.random() < 0.3:
        cut = random.choice((0, len(content), random.randrange(len(content) + 1)))
        content = gzip.compress(content[:cut], 1) + gzip.compress(content[cut:], 1)
        if random.random() < 0.6:
            plain, content = None, _flipped(content, random)
    return sound, content, plain


def _check(trace: profframe.Trace, sound: int, plain: bytes | None) -> None:
    events = trace.events
    assert events["event_id"].to_list() == list(range(events.height))
    assert (events["dur_ns"].drop_nulls() >= 0).all()
    # What a graph captured has rows of its own, from the annotations of its nodes.
    events = events.filter(pl.col("pid").ne_missing("captured graphs"))
    trace.sql("SELECT count(*), min(time_ns) FROM flows")
    trace.key_averages()
    checks = set(trace.quality["issue"].to_list())
    if plain is None:
        assert events.height >= sound or checks, (events.height, sound)
        return
    whole, damaged, hidden, is_cut = _slices(plain)
    unread = trace.quality.filter(issue="unreadable_event")["events"].sum()
    assert whole - unread <= events.height <= whole + damaged + hidden, (whole, events.height)
    if damaged:
        assert checks & _NAMED, (damaged, checks)
    if is_cut:
        assert "truncated" in checks, checks


def _slices(content: bytes) -> tuple[int, int, int, bool]:
    """Slices in packets that Perfetto's classes can read, other packets, and whether it is cut.

    Of a packet with several contents the classes show the last; the others are the third number.
    """
    whole = damaged = hidden = at = 0
    while at < len(content):
        begin, size = _size(content, at + 1)
        if content[at] != _PACKET or begin is None or begin + size > len(content):
            return whole, damaged, hidden, True
        at = begin + size
        try:
            packet = pb.TracePacket.FromString(content[begin:at])
        except DecodeError:
            damaged += 1
            continue
        if packet.HasField("track_event"):
            event = packet.track_event
            is_old = event.type == 0 and chr(event.legacy_event.phase & 127) in "XBbS"
            whole += event.type == 1 or is_old
        elif not packet.HasField("gpu_render_stage_event"):
            hidden += content[begin:at].count(b"\x5a") + content[begin:at].count(b"\xaa\x03")
        stage = packet.gpu_render_stage_event
        whole += packet.HasField("gpu_render_stage_event") and (
            stage.HasField("event_id") or not stage.HasField("specifications")
        )
    return whole, damaged, hidden, False


def _size(content: bytes, at: int) -> tuple[int | None, int]:
    """Where a message begins, and its length."""
    size = 0
    for nth in range(10):
        if at + nth >= len(content):
            break
        size |= (content[at + nth] & 127) << (7 * nth)
        if content[at + nth] < 128:
            return at + nth + 1, size
    return None, 0


_PACKET: Final = 0x0A


@cache
def _traces() -> tuple[bytes, ...]:
    return tuple(gzip.decompress(path.read_bytes()) for path in sorted(_DATA.glob("*.pftrace")))


def _rearranged(sound: bytes, random: Random) -> bytes:
    """Packets that are whole, but of which some are gone, elsewhere, or lack what they need."""
    packets = [p.SerializeToString() for p in pb.Trace.FromString(sound).packet]
    for _ in range(random.choice((1, 2, 10))):
        at, other = (random.randrange(len(packets)) for _ in range(2))
        change = random.randrange(9)
        if change == 0:
            packets[at], packets[other] = packets[other], packets[at]
            continue
        try:
            packet = pb.TracePacket.FromString(packets[at])
        except DecodeError:  # it was changed before
            continue
        if change == 1:
            packet.ClearField("interned_data")
        elif change == 2:
            packet.sequence_flags = random.randrange(4)
        elif change == 3:
            packet.previous_packet_dropped = 1
        elif change == 4:
            packet.timestamp_clock_id = random.choice((1, 3, 6, 64, 127, 128, 2**32 - 1))
        elif change == 5:
            packet.trusted_packet_sequence_id = random.choice((0, 1, 2**32 - 1))
        elif change == 6:
            packet.timestamp = random.choice((0, 1, 2**62, 2**63, 2**64 - 1))
        packets[at] = packet.SerializeToString()
        if change == 7:
            packets[at] += random.choice(_WRONG_FIELDS)
        elif change == 8:
            packets[at] = b"\x0a\x00" if random.random() < 0.5 else b""
    framed = ((b"\x0a" + _varint(len(p), random.choice((0, 0, 0, 10))) + p) for p in packets)
    return b"".join(framed)


_WRONG_FIELDS: Final = (
    b"\x58\x05", b"\x5d\x01\x02\x03\x04", b"\x42\x01A", b"\x62\x00", b"\x60\x01",
    b"\x50" + b"\xff" * 9 + b"\x01", b"\x40" + b"\x80" * 9 + b"\x01", b"\xd2\x07\x02\x08\x01",
    b"\x5b\x5c", b"\x00\x00", b"\x92\x03\x03abc", b"\xaa\x08\x03abc",
)  # fmt: skip
"""Fields of other types than they should have, numbers of 10 bytes, groups, bad compression."""


def _varint(number: int, width: int) -> bytes:
    """A number as it is written, or in more bytes than it needs."""
    octets: list[int] = []
    while number > 127 or len(octets) < width - 1:
        octets.append(number & 127 | 128)
        number >>= 7
    return bytes([*octets, number])


def _flipped(content: bytes, random: Random) -> bytes:
    """Compressed bytes that are cut, or have one other bit."""
    at = random.randrange(len(content))
    if random.random() < 0.5:
        return content[:at]
    return content[:at] + bytes([content[at] ^ 1 << random.randrange(8)]) + content[at + 1 :]


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
