"""rocprofv3's JSON: sound, with odd values in it, and with damage in its text.

Whatever is in it, loading ends with a trace or a `ProfframeError` of one line, below 1 GB. Every
record of a sound document is accounted for; of a damaged one, what is lost is in `quality`.
"""

from __future__ import annotations

import gzip
import json
import random
import tempfile
from pathlib import Path
from typing import Any, Final

import polars as pl

import profframe
from profframe import ProfframeError, Trace
from tests.fuzz.pickles import peak_kb
from tests.fuzz.rocprof_recordings import HOSTILE, recording
from tests.fuzz.verbs import check_verb
from tests.rocprof_files import document

MOST_KB: Final = 1 << 20
DEEP: Final = json.loads("[" * 200 + "]" * 200)
VALUES: Final[tuple[object, ...]] = (
    None, True, 0, -1, 1 << 31, (1 << 62) - 1, 1 << 63, (1 << 64) - 1, -(1 << 70), 1.5, 1e300,
    float("nan"), float("-inf"), "12", "0x7f", [], {}, [1, [2]], {"handle": {"handle": 1}}, DEEP,
    *HOSTILE,
)  # fmt: skip
"""What nobody expects as the value of a member."""
RECORDS: Final = (
    "kernel_dispatch", "hip_api", "hsa_api", "marker_api", "rccl_api", "memory_copy",
    "memory_allocation", "scratch_memory", "pc_sample_host_trap",
)  # fmt: skip


def case(seed: int) -> None:
    """One document: made, changed in one of several ways, loaded, and looked at."""
    rng = random.Random(seed)  # noqa: S311 - an order, no secret
    pids = (100, 200)[: rng.randrange(1, 3)]
    whole = document([recording(rng, pid) for pid in pids])
    change = rng.choice(("nothing", "values", "values", "bytes", "bytes", "text"))
    if change == "values":
        for _ in range(rng.randrange(1, 8)):
            _change_value(whole, rng)
    space: dict[str, Any] = rng.choice(({"indent": 0}, {"indent": 2}, {"separators": (",", ":")}))
    data = json.dumps(whole, ensure_ascii=rng.random() < 0.5, **space).encode("utf-8")
    if change in {"bytes", "text"}:
        data = _damaged(data, rng, change)
    with tempfile.TemporaryDirectory(prefix="profframe-fuzz-") as folder:
        path = Path(folder, "results.json")
        path.write_bytes(gzip.compress(data) if not rng.randrange(4) else data)
        trace, said = _loaded(path)
        assert "\n" not in said, said
        assert trace is not None or change != "nothing", said
        if trace is not None:
            _check(trace, whole, change)
        if not rng.randrange(3):
            check_verb("info", str(path))
    assert peak_kb() < MOST_KB


def _loaded(path: Path) -> tuple[Trace | None, str]:
    """What comes of it: a trace, or an error."""
    try:
        return profframe.load(path), ""
    except ProfframeError as error:
        return None, str(error)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Each container with each of its keys."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        own = waiting.pop()
        keys = list(own) if isinstance(own, dict) else range(len(own))
        found += [(own, key) for key in keys]
        waiting += [
            own[key] for key in keys if isinstance(own[key], (dict, list)) and own[key] is not DEEP
        ]
    return found


def _change_value(whole: dict[str, Any], rng: random.Random) -> None:
    """Drop a member or an element, double it, or give it another value."""
    places = _places(whole)
    if not places:  # the whole content was dropped before
        return
    own, key = rng.choice(places)
    what = rng.randrange(4)
    if what == 0:
        del own[key]
    elif what == 1 and isinstance(own, list):
        own.insert(key, own[key])
    else:
        own[key] = rng.choice(VALUES)


def _damaged(data: bytes, rng: random.Random, change: str) -> bytes:
    """Flip bytes, cut, double a part, or write what is no JSON into it."""
    text = bytearray(data)
    begin = 25
    if change == "text":
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(begin, len(text))
            text[at:at] = rng.choice(
                (b"{", b"}", b"[", b"]", b'"', b",", b"NaN", b"\\", b"\0", b"]}")
            )
        return bytes(text)
    what = rng.randrange(3)
    if what == 0:
        for _ in range(rng.choice((1, 3, 30))):
            text[rng.randrange(begin, len(text))] = rng.randrange(256)
    elif what == 1:
        del text[rng.randrange(begin, len(text)) :]
    else:
        first, last = sorted(rng.randrange(begin, len(text)) for _ in range(2))
        text[last:last] = text[first:last]
    return bytes(text)


def _check(trace: Trace, whole: dict[str, Any], change: str) -> None:
    (row,) = trace.traces.rows(named=True)
    accounted = json.loads(row["accounted"])
    assert sum(accounted.values()) == row["source_events"], row
    noted = dict(trace.quality.group_by("issue").agg(pl.col("events").sum()).rows())
    timeless = sum(
        trace.scan(table).select(pl.col(column).is_null().sum()).collect().item()
        for table, column in (
            ("events", "start_ns"),
            ("counters", "time_ns"),
            ("memory", "time_ns"),
        )
    )
    assert timeless <= noted.get("missing_time", 0) + noted.get("impossible_time", 0), noted
    records = _records(whole)
    events = sum(accounted.get(name, 0) for name in ("events", *RECORDS))
    if change == "nothing":
        assert events == records, (events, records)
        assert not noted.keys() & {"lost_text", "truncated", "dropped_junk"}, noted
    elif change == "values":
        dropped = accounted.get("dropped", 0)
        assert events + dropped >= records, (events, dropped, records, noted)
    elif events < records:
        assert noted, (events, records)


def _records(whole: dict[str, Any]) -> int:
    """Records that are objects, in arrays that have kernels, calls and the like."""
    count = 0
    processes = whole.get("rocprofiler-sdk-tool")
    for process in processes if isinstance(processes, list) else ():
        groups = process.get("buffer_records") if isinstance(process, dict) else None
        for name, records in groups.items() if isinstance(groups, dict) else ():
            if isinstance(records, list) and name in RECORDS:
                count += sum(isinstance(record, dict) for record in records)
    return count
