"""A memory snapshot of 1 GB into a store: seconds, and the most memory that it takes.

::

    python benchmarks/snapshot.py          # five minutes, 1.5 GB of disk
    python benchmarks/snapshot.py --small  # does it run? 3 MB; figures mean nothing

The file is what pickle writes of records of allocations as torch 2.13 makes them: frames are
shared, each allocation has a list of its own of 30 frames, both records of its end have that list,
too, and each record has a text and a pair of numbers of its own. Beyond the first ones, batches of
records are written again and again. Seconds of the processors are beside those on the clock, which
others that use the machine make longer.
"""

from __future__ import annotations

import argparse
import gc
import pickle
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import profframe
from benchmarks.large import MB, measured

TARGET: Final = 1_000_000_000
RECORDS: Final = 200_000
RECORDS_WITH_FRAMES: Final = 20_000
_NO_CONTEXT: Final = b"N/A"
_POOL: Final = [0, 0]
_FRAME: Final = 9
_FRAME_CODE: Final = 0x95
_BATCH: Final = b"ue(}\x94(h"
_BEGINS: Final = 7
"""Bytes from the end of a batch until behind the first key of a record."""
_TAIL: Final = b"eau."
"""The last batch ends, the list of devices and the dict."""


def records(count: int, depth: int = 30) -> list[dict[str, Any]]:
    """Records of one device."""
    chance = random.Random(1)  # noqa: S311
    frames = [
        {"name": f"f{i}", "filename": f"/lib/torch/m{i % 97}.py", "line": 300 + i}
        for i in range(3000)
    ]
    stacks = [chance.choices(frames, k=depth) for _ in range(2000)]
    made: list[dict[str, Any]] = []
    living: list[tuple[int, int, list[dict[str, Any]]]] = []
    free: list[int] = []
    time_us, unused = 1_759_252_584_000_000, 0x7F00_0000_0000

    def add(action: str, address: int, size: int, stack: list[dict[str, Any]]) -> None:
        nonlocal time_us
        time_us += chance.randrange(1, 40)
        # What pickle would share as one object, torch makes anew.
        context, pool = _NO_CONTEXT.decode(), (*_POOL,)
        made.append(
            {"action": action, "addr": address, "size": size, "stream": 0, "time_us": time_us,
             "compile_context": context, "user_metadata": "", "pool_id": pool, "frames": stack}
        )  # fmt: skip

    while len(made) < count:
        stack = [*chance.choice(stacks)]
        size = 512 * chance.randrange(1, 40_000)
        if free and chance.random() < 0.9:
            address = free.pop()
        else:
            address = unused = unused + 512 * 40_000
        add("alloc", address, size, stack)
        living.append((address, size, stack))
        while len(living) > 400 or (living and chance.random() < 0.5):
            address, size, stack = living.pop(chance.randrange(len(living)))
            add("free_requested", address + 0, size + 0, stack)
            add("free_completed", address + 0, size + 0, stack)
            free.append(address)
    return made


def _unframed(data: bytes) -> tuple[bytes, list[int]]:
    """Opcodes without those of frames, and where frames began."""
    parts, ends, at = [data[:2]], [2], 2
    while at < len(data) and data[at] == _FRAME_CODE:
        size = int.from_bytes(data[at + 1 : at + _FRAME], "little")
        parts.append(data[at + _FRAME : at + _FRAME + size])
        ends.append(ends[-1] + size)
        at += _FRAME + size
    return b"".join(parts), ends


def records_with_frames(count: int) -> list[dict[str, Any]]:
    """Records that share no frame."""
    return [
        {**record, "frames": [{**frame} for frame in record["frames"]]} for record in records(count)
    ]


def write(path: Path, size: int, made: list[dict[str, Any]]) -> int:
    """Write a snapshot of at least so many bytes; the number of its records."""
    snapshot = {"segments": [], "device_traces": [made]}
    data, ends = _unframed(pickle.dumps(snapshot, 4))
    again = data.index(_BATCH, len(data) // 2) + 1
    last = len(data) - len(_TAIL)

    def pieces(start: int, stop: int) -> Iterator[bytes]:
        cuts = [start, *(end for end in ends if start < end < stop), stop]
        for begin, end in pairwise(cuts):
            yield bytes([_FRAME_CODE]) + (end - begin).to_bytes(8, "little") + data[begin:end]

    begins = data[again + 2 : again + _BEGINS]
    of_copy = data.count(begins, again, last)
    copies = max(1, -(-(size - len(data)) // (last - again)))
    with path.open("wb") as file:
        file.write(data[:2])
        file.writelines(pieces(2, last))
        for _ in range(copies):
            file.writelines(pieces(again, last))
        file.writelines(pieces(last, len(data)))
    return len(made) + copies * of_copy


def main() -> None:
    """Convert a snapshot of each form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="3 MB; figures mean nothing")
    small = parser.parse_args().small
    size = 3 * MB if small else TARGET
    for what, make in (
        ("frames that are shared", partial(records, RECORDS)),
        ("frames of each record", partial(records_with_frames, RECORDS_WITH_FRAMES)),
    ):
        convert(what, make, size, is_checked=small)


def convert(
    what: str, make: Callable[[], list[dict[str, Any]]], size: int, *, is_checked: bool
) -> None:
    """Write a snapshot, convert it, and print what that took."""
    with tempfile.TemporaryDirectory() as name:
        path, store = Path(name) / "snapshot.pickle", Path(name) / "store"
        count = write(path, size, make())
        gc.collect()
        cost = measured("-m", "profframe", "convert", path, "-o", store)
        print(
            f"{what}: {path.stat().st_size / MB:,.0f} MB, {count:,} records: "
            f"{cost.seconds:.1f} s, {cost.cpu_seconds:.1f} s of processors, "
            f"{cost.peak_bytes / MB:,.0f} MB of memory"
        )
        kept = profframe.load(store).sql("SELECT count(*) FROM allocator_events").item()
        if kept != count:
            raise SystemExit(f"{kept:,} records in the store")
        if is_checked:
            with path.open("rb") as file:
                loaded = pickle.load(file)  # noqa: S301 - written here
            if [len(part) for part in loaded["device_traces"]] != [count]:
                raise SystemExit("pickle itself finds another number of records")


if __name__ == "__main__":
    main()
