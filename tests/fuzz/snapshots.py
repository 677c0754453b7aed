"""Memory snapshots of torch, damaged and odd: `pickles` says what has to hold."""

from __future__ import annotations

import io
import pickle
import sys
from functools import cache
from random import Random
from typing import Any, Final

from tests.fuzz.pickles import damaged, main, odd, read

NAME: Final = "snapshot.pickle"
_BASE_US: Final = 1_759_252_584_000_000
_POOL: Final = (0, 0)
_FX: Final = {
    "fx_node_op": "call_function", "fx_node_name": "addmm", "fx_node_target": "aten.addmm.default",
    "fx_original_trace": 'File "model.py", line 14\n  a = self.net(x)',
}  # fmt: skip


def case(seed: int) -> None:
    """Load one."""
    read(NAME, content(seed), seed)


def content(seed: int) -> bytes:
    """The bytes of a seed."""
    random = Random(seed)  # noqa: S311 - damage, no secret
    if random.random() < 0.2:
        return _pickled(odd_snapshot(random, 3), random.randrange(2, 6), has_memo=True)
    return damaged(_sound(random.randrange(12)), random)


def snapshot(records: int) -> dict[str, Any]:
    """One of this many records, with shared stacks, segments, blocks and annotations."""
    frames = [{"name": f"f{i}", "filename": f"/a/{i % 3}.py", "line": 300 * i} for i in range(9)]
    frames[4] |= _FX
    stacks = [frames[i : i + 1 + i % 4] for i in range(6)]
    traces = [[record(stacks[i % 6], i) for i in range(records)], [record([], 0)]]
    return {
        "segments": [segment([block(stacks[i])]) for i in range(3)],
        "device_traces": traces,
        "external_annotations": [annotation("START"), annotation("END")],
        "allocator_settings": {"backend": "native", "expandable": False, "sizes": (1, 2)},
        "host_segments": [segment([block(stacks[1])]) | {"device": -1}],
        "host_traces": [record(stacks[i % 6], i) for i in range(records // 4)],
    }


def record(frames: list[Any], number: int) -> dict[str, Any]:
    """A record of the allocator."""
    return {
        "action": ("alloc", "annotate", "free_requested", "free_completed")[number % 4],
        "addr": 0x7F00_0000_0000 + 512 * (number // 4),
        "size": 512,
        "stream": 0,
        "time_us": _BASE_US + number,
        "frames": frames,
        "compile_context": "N/A",
        "user_metadata": ("", "optimizer", "<b>'; DROP TABLE\x1b[2J")[number % 3],
        "pool_id": (0, number % 2) if number % 5 else _POOL,
    }


def block(frames: list[Any]) -> dict[str, Any]:
    """A block of a segment."""
    return {
        "address": 0x7F00_0000_0000, "size": 512, "requested_size": 500,
        "state": "active_allocated", "frames": frames,
    }  # fmt: skip


def segment(blocks: list[Any]) -> dict[str, Any]:
    """A segment."""
    return {
        "device": 0, "address": 0x7F00_0000_0000, "total_size": 2 << 20, "allocated_size": 512,
        "active_size": 512, "requested_size": 500, "stream": 0, "segment_type": "small",
        "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": blocks,
    }  # fmt: skip


def annotation(stage: str) -> dict[str, Any]:
    """The begin or end of an annotation."""
    return {"stage": stage, "name": "step", "device": 0, "time_us": _BASE_US + (stage == "END")}


def odd_snapshot(random: Random, count: int) -> dict[Any, Any]:
    """A snapshot with this many odd dicts of each kind."""
    frame = {"name": "f", "filename": "a.py", "line": 3, **_FX}
    times = range(count)
    sound = snapshot(40)
    frames = [[odd(frame, random) for _ in range(3)] for _ in times]
    return {
        "segments": [odd(segment([odd(block([]), random)]), random) for _ in times],
        "device_traces": [
            [*sound["device_traces"][0], *(odd(record([], i), random) for i in times)],
            [record(frames[i], i) for i in times],
        ],
        "external_annotations": [odd(annotation("START"), random) for _ in times],
        "host_segments": [odd(segment([odd(block([]), random)]), random) for _ in times],
        "host_traces": [odd(record(frames[i], i), random) for i in times],
        "more": [odd(sound["allocator_settings"], random) for _ in times],
        **odd({"a": 1}, random),
    }


def _pickled(value: object, protocol: int, *, has_memo: bool) -> bytes:
    file = io.BytesIO()
    pickler = pickle.Pickler(file, protocol)
    pickler.fast = not has_memo
    pickler.dump(value)
    return file.getvalue()


@cache
def _sound(kind: int) -> bytes:
    return _pickled(snapshot((20, 200)[kind % 2]), kind // 2, has_memo=kind < 10)


if __name__ == "__main__":
    main(content, NAME, sys.argv[1:])
