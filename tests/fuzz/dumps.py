"""Dumps of torch's flight recorder, damaged and odd: `pickles` says what has to hold."""

from __future__ import annotations

import json
import pickle
import sys
from functools import cache
from random import Random
from typing import Any, Final

from tests.fuzz.pickles import damaged, main, odd, read

NAME: Final = "nccl_trace_rank_0"
_BASE_NS: Final = 1_700_000_000_000_000_000


def case(seed: int) -> None:
    """Load one."""
    read(NAME, content(seed), seed)


def content(seed: int) -> bytes:
    """The bytes of a seed."""
    random = Random(seed)  # noqa: S311 - damage, no secret
    if random.random() < 0.2:
        value = odd_dump(random, 3)
        return pickle.dumps(value, random.randrange(2, 6)) if seed % 2 else in_json(value)
    return damaged(_sound(random.randrange(5)), random)


def dump(entries: int) -> dict[str, Any]:
    """One of this many entries, of which two share their frames."""
    frames = [[frame(i), frame(i + 1)] for i in range(4)]
    return {
        "version": "2.10",
        "pg_config": {"0": group(), "1": group() | {"name": "1", "desc": "tensors"}},
        "pg_status": {"0": status()},
        "entries": [entry(i, frames[i // 2 % 4]) for i in range(entries)],
        "nccl_comm_state": {"a": {"rank": "0", "n": [1, 2.5, None]}},
    }


def frame(line: int) -> dict[str, Any]:
    """A frame."""
    return {"name": "step", "filename": "train.py", "line": line}


def group() -> dict[str, Any]:
    """The configuration of a process group."""
    return {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}


def status() -> dict[str, Any]:
    """The status of a process group."""
    return {
        "last_enqueued_collective": 3, "last_started_collective": 2, "last_completed_collective": 1
    }  # fmt: skip


def entry(number: int, frames: list[Any]) -> dict[str, Any]:
    """An entry."""
    return {
        "record_id": number, "pg_id": 0, "process_group": ("0", "default_pg"),
        "collective_seq_id": number + 1, "p2p_seq_id": 0, "op_id": number + 1,
        "profiling_name": ("nccl:all_reduce", "nccl:send 0->1")[number % 2],
        "time_created_ns": _BASE_NS + number, "duration_ms": 1.5, "input_sizes": [[2, 3]],
        "input_dtypes": ["Float"], "output_sizes": [[2, 3]], "output_dtypes": ["Float"],
        "state": "completed", "time_discovered_started_ns": _BASE_NS + 1000,
        "time_discovered_completed_ns": _BASE_NS + 2000, "retired": True, "timeout_ms": 600_000,
        "is_p2p": False, "thread_id": "7", "thread_name": "main", "frames": frames,
    }  # fmt: skip


def odd_dump(random: Random, count: int) -> dict[Any, Any]:
    """A dump with this many odd dicts of each kind."""
    times = range(count)
    frames = [[odd(frame(i), random) for i in range(3)] for _ in times]
    return {
        "version": "2.10",
        "pg_config": {str(i): odd(group(), random) for i in times},
        "pg_status": {str(i): odd(status(), random) for i in times},
        "entries": [
            *(entry(i, frames[i]) for i in times),
            *(odd(entry(i, []), random) for i in times),
        ],
        "nccl_comm_state": [odd({"rank": "0", "n": [1, 2]}, random) for _ in times],
        **odd({"a": 1}, random),
    }


def in_json(value: Any) -> bytes:
    """A dump as JSON: other values are lists or text there."""
    return json.dumps(_plain(value)).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        keys = (key if isinstance(key, (str, int)) else repr(key) for key in value)
        return dict(zip(keys, map(_plain, value.values()), strict=True))
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    is_json = isinstance(value, (str, int)) or value is None
    return value if is_json or abs(hash(value)) < 10 else repr(value)


@cache
def _sound(kind: int) -> bytes:
    if kind == 4:
        return in_json(dump(40))
    return pickle.dumps(dump((8, 80)[kind % 2]), (2, 4)[kind // 2])


if __name__ == "__main__":
    main(content, NAME, sys.argv[1:])
