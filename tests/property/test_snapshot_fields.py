"""What memory snapshots have since torch 2.14: rows and sums are those of a plain loop.

Pools, texts of the program, notes on tensors, nodes of FX graphs, pinned memory of the host.
"""

from __future__ import annotations

import io
import pickle
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from profframe.loaders.load import load
from profframe.trace.trace import Trace

BASE_US: Final = 1_759_252_584_000_000
PLACES: Final = (512, 0x7F00_0000_0000, 0)
TEXTS: Final = ("", "optimizer", "it's <b>\x1b[2J", "", "[0,0]")
POOLS: Final = ((0, 0), (0, 1), (7, 1 << 40))
FX: Final = {"fx_node_op": "call_function", "fx_node_target": "aten.addmm.default"}
FRAMES: Final = (
    {"name": "f", "filename": "/a/model.py", "line": 3},
    {"name": "g", "filename": "/a/x.py", "line": 300},
    {"name": "forward", "filename": "/t/fx_ab.py", "line": 8, **FX, "fx_node_name": "addmm",
     "fx_original_trace": "File model.py, line 3\n  y = x @ w"},
    {"name": "forward", "filename": "/t/fx_ab.py", "line": 8, **FX, "fx_node_name": "relu"},
    {"name": "forward", "filename": "fx_cd.py", "line": 9, **FX, "fx_node_name": "addmm"},
)  # fmt: skip
PINNED: Final = ("PINNED_HOST", None)
PER: Final = ("pool", "metadata", "fx_node", "annotation")
Device = tuple[str, int | None]


@dataclass
class Life:
    """One allocation."""

    bytes: int
    made: int = -1
    made_us: int | None = None
    asked: int | None = None
    freed: int | None = None
    pool: str | None = None
    metadata: str | None = None
    frames: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str | None] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """Its records."""

    @property
    def gone(self) -> int | None:
        return self.freed if self.asked is None else self.asked

    def is_at(self, number: int) -> bool:
        return self.made <= number and (self.gone is None or self.gone > number)


def pool_text(pool: Any) -> str | None:
    return None if pool is None else f"[{pool[0]},{pool[1]}]"


def lists(snapshot: dict[str, Any]) -> Iterator[tuple[Device, list[dict[str, Any]]]]:
    """Records of each device, in the order of the source."""
    for key, value in snapshot.items():
        if key == "device_traces":
            yield from ((("CUDA", i), trace) for i, trace in enumerate(value))
        if key == "host_traces":
            yield PINNED, value


def segments(snapshot: dict[str, Any]) -> Iterator[tuple[Device, dict[str, Any]]]:
    """Segments, those of the host last."""
    yield from ((("CUDA", s["device"]), s) for s in snapshot.get("segments", []))
    yield from ((PINNED, s) for s in snapshot.get("host_segments", []))


def lives(snapshot: dict[str, Any]) -> dict[Device, list[Life]]:  # noqa: PLR0912 - a plain loop
    """All allocations by a loop that keeps what lives; notes wait until it is clear whose."""
    made: dict[Device, list[Life]] = defaultdict(list)
    number = 0
    now: dict[tuple[Device, int], Life] = {}
    waiting: dict[tuple[Device, int], list[tuple[int, str | None]]] = defaultdict(list)
    for device, trace in lists(snapshot):
        for event in trace:
            action, text = event["action"], event.get("user_metadata") or None
            key = device, event.get("addr", -1)
            if action == "annotate":
                if key in now:
                    now[key].notes.append(text)
                    now[key].numbers.append(number)
                else:
                    waiting[key].append((number, text))
            if action in {"alloc", "free_requested", "free_completed"}:
                earlier = waiting.pop(key, [])
                if action == "alloc" or key not in now:
                    now[key] = Life(event["size"], pool=pool_text(event.get("pool_id")))
                    made[device].append(now[key])
                    if action != "alloc":
                        now[key].notes += [note for _, note in earlier]
                        now[key].numbers += [of for of, _ in earlier]
                life = now[key]
                life.numbers.append(number)
                if action == "alloc":
                    life.made, life.made_us = number, event["time_us"]
                    life.metadata, life.frames = text, event["frames"]
                elif action == "free_requested":
                    life.asked = number
                else:
                    life.freed = number
                    del now[key]
            number += 1
    for device, segment in segments(snapshot):
        for block in segment["blocks"]:
            key = device, block["address"]
            if not block["state"].startswith("active"):
                continue
            if key in now:
                now[key].pool = now[key].pool or pool_text(segment["segment_pool_id"])
                continue
            life = Life(block["requested_size"], frames=block["frames"])
            life.pool = pool_text(segment["segment_pool_id"])
            life.notes = [note for _, note in waiting.pop(key, [])]
            made[device].append(life)
    return {device: rows for device, rows in made.items() if rows}


def name_of(life: Life, per: str, spans: list[tuple[str, int, int]]) -> str | None:
    if per == "pool":
        return life.pool
    if per == "metadata":
        return life.metadata or (life.notes[-1] if life.notes else None)
    if per == "fx_node":
        nodes = [frame for frame in life.frames if "fx_node_name" in frame]
        if not nodes:
            return None
        return f"{nodes[0]['filename'].rpartition('/')[2]}: {nodes[0]['fx_node_name']}"
    us = life.made_us
    around = [] if us is None else [span for span in spans if span[1] <= us <= span[2]]
    return max(around, key=lambda span: span[1])[0] if around else None


def spans_of(snapshot: dict[str, Any]) -> list[tuple[str, int, int]]:
    spans, opened = [], []
    for mark in snapshot.get("external_annotations", []):
        if mark["stage"] == "START":
            opened.append(mark)
        else:
            begin = opened.pop()
            spans.append((begin["name"], begin["time_us"], mark["time_us"]))
    return spans


def compare(trace: Trace, snapshot: dict[str, Any]) -> None:
    expected = lives(snapshot)
    compare_rows(trace, snapshot, expected)
    for per in PER:
        spans = spans_of(snapshot)
        at_peak = trace.memory_stacks(per=per, top=0)
        change = trace.memory_stacks(at="change", per=per, top=0)
        assert {(r["device_type"], r["device"]) for r in at_peak.to_dicts()} == set(expected)
        for device, rows in expected.items():
            moments = [-1, *sorted({n for r in rows for n in (r.made, r.gone) if n is not None})]
            peak = max(moments, key=lambda n: (sum(r.bytes for r in rows if r.is_at(n)), -n))
            sums: dict[str | None, list[int]] = defaultdict(lambda: [0] * 6)
            for life in rows:
                sums_of = sums[name_of(life, per, spans)]
                at_end, at_start = life.gone is None, life.made == -1
                for i, one in enumerate((
                    life.is_at(peak) * life.bytes, at_end * life.bytes, life.bytes, 1,
                    at_start * life.bytes, (at_end and not at_start) * life.bytes,
                )):  # fmt: skip
                    sums_of[i] += one
            got = {
                r["name"]: [r["peak_bytes"], r["end_bytes"], r["allocated_bytes"], r["allocations"]]
                for r in at_peak.to_dicts()
                if (r["device_type"], r["device"]) == device
            }
            assert got == {name: of[:4] for name, of in sums.items()}, (per, device)
            for r in change.to_dicts():
                if (r["device_type"], r["device"]) == device:
                    of = sums[r["name"]]
                    assert (r["from_bytes"], r["to_bytes"], r["made_bytes"]) == (
                        of[4], of[1], of[5],
                    )  # fmt: skip
    compare_timeline(trace, snapshot, expected)


def compare_rows(
    trace: Trace, snapshot: dict[str, Any], expected: dict[Device, list[Life]]
) -> None:
    allocations = trace.allocations.to_dicts()
    of_event = {
        row["allocator_event_id"]: row for row in trace.sql("FROM allocator_events").to_dicts()
    }
    number = 0
    for device, events in lists(snapshot):
        for event in events:
            got = of_event[number]
            assert (got["device_type"], got["device"]) == device
            assert got["pool"] == pool_text(event.get("pool_id"))
            assert got["metadata"] == (event.get("user_metadata") or None)
            assert (got["action"], got["address"]) == (event["action"], event.get("addr"))
            number += 1
    assert len(of_event) == number
    left = list(allocations)
    for device, rows in expected.items():
        for life in rows:
            wanted = (
                *device, life.bytes, life.pool, life.metadata,
                life.notes[-1] if life.notes else None, None if life.made < 0 else life.made,
            )  # fmt: skip
            row: dict[str, Any] | None = next(iter([
                r for r in left
                if wanted == (r["device_type"], r["device"], r["bytes"], r["pool"], r["metadata"],
                              r["annotation"], r["alloc_event_id"])
                and (r["free_event_id"], r["free_requested_event_id"]) == (life.freed, life.asked)
            ]), None)  # fmt: skip
            assert row is not None, (wanted, left)
            left.remove(row)
            for one in life.numbers:
                own = of_event[one]["allocation_id"]
                assert (
                    own == row["allocation_id"]
                    or len([r for r in allocations if r["alloc_event_id"] == row["alloc_event_id"]])
                    > 1
                )
    assert not left
    read_segments = [
        (r["device_type"], r["device"], r["bytes"], r["pool"])
        for r in trace.sql("FROM segments ORDER BY segment_id").to_dicts()
    ]
    assert read_segments == [
        (*device, s["total_size"], pool_text(s["segment_pool_id"]))
        for device, s in segments(snapshot)
    ]


def compare_timeline(
    trace: Trace, snapshot: dict[str, Any], expected: dict[Device, list[Life]]
) -> None:
    rows = trace.snapshot_timeline(points=0).to_dicts()
    for row in rows:
        of_device = expected.get((row["device_type"], row["device"]), [])
        n = row["event_id"]
        assert row["allocated_bytes"] == sum(r.bytes for r in of_device if r.is_at(n))
    for device, held in expected.items():
        own = [r for r in rows if (r["device_type"], r["device"]) == device]
        assert max(r["allocated_bytes"] for r in own) == max(
            sum(r.bytes for r in held if r.is_at(row["event_id"])) for row in own
        )
        reserved = sum(s["total_size"] for of, s in segments(snapshot) if of == device)
        assert own[-1]["reserved_bytes"] in {reserved, None}


@st.composite
def snapshots(draw: st.DrawFn) -> dict[str, Any]:
    stacks = draw(st.lists(st.lists(st.sampled_from(FRAMES), max_size=3), min_size=1, max_size=3))
    has_pools, has_host = draw(st.booleans()), draw(st.booleans())
    clock = iter(range(2, 1_000_000, 2))

    def records(own: int) -> tuple[list[dict[str, Any]], set[int]]:
        now = set(draw(st.sets(st.sampled_from(PLACES))))
        asked: set[int] = set()
        rows: list[dict[str, Any]] = []
        for _ in range(draw(st.integers(0, 14))):
            address = draw(st.sampled_from(PLACES))
            if draw(st.integers(0, 3)) == 0:
                action = "annotate"
            elif address not in now:
                action = "alloc"
                now.add(address)
            elif address in asked or draw(st.booleans()):
                action = "free_completed"
                now.discard(address)
                asked.discard(address)
            else:
                action = "free_requested"
                asked.add(address)
            row = {"action": action, "addr": address, "size": 100 + own + (address & 1023),
                   "stream": 0, "time_us": BASE_US + next(clock),
                   "frames": draw(st.sampled_from(stacks)),
                   "user_metadata": draw(st.sampled_from(TEXTS))}  # fmt: skip
            if has_pools:
                pool = draw(st.sampled_from(POOLS))
                row["pool_id"] = pool if draw(st.booleans()) else pool[:1] + pool[1:]
            rows.append(row)
        return rows, now

    traces: list[list[dict[str, Any]]] = []
    ends: list[set[int]] = []
    host: list[dict[str, Any]] = []
    host_end: set[int] = set()
    if has_host:
        host, host_end = records(40)
    for device in range(draw(st.integers(1, 2))):
        rows, now = records(device)
        traces.append(rows)
        ends.append(now)

    def segment(device: int, now: set[int], own: int) -> dict[str, Any]:
        blocks = [
            {"address": a, "size": 2048, "requested_size": 100 + own + (a & 1023),
             "state": "active_allocated" if a in now else "inactive", "frames": stacks[0]}
            for a in PLACES
        ]  # fmt: skip
        return {"device": device, "address": 0, "total_size": 10_240 + own, "stream": 0,
                "allocated_size": 1, "active_size": 2, "requested_size": 3,
                "segment_type": "large", "segment_pool_id": draw(st.sampled_from(POOLS)),
                "frames": [], "is_expandable": False, "blocks": blocks}  # fmt: skip

    snapshot = {
        "segments": [segment(i, now, i) for i, now in enumerate(ends)],
        "device_traces": traces,
        "external_annotations": draw(marks_until(next(clock))),
    }
    if has_host:
        of_host = {"host_segments": [segment(-1, host_end, 40)], "host_traces": host}
        snapshot = {**of_host, **snapshot} if draw(st.booleans()) else {**snapshot, **of_host}
    return snapshot


@st.composite
def marks_until(draw: st.DrawFn, end: int) -> list[dict[str, Any]]:
    """Begins and ends of annotations in each other, never in the same microsecond as a record."""
    marks: list[dict[str, Any]] = []
    opened: list[dict[str, Any]] = []
    for us in sorted(draw(st.sets(st.integers(0, end // 2), max_size=8))):
        is_end: bool = draw(st.booleans())
        if opened and is_end:
            marks.append({**opened.pop(), "stage": "END", "time_us": BASE_US + 2 * us + 1})
        else:
            opened.append({"name": f"part {len(marks)}", "device": 0})
            marks.append({**opened[-1], "stage": "START", "time_us": BASE_US + 2 * us + 1})
    while opened:
        marks.append({**opened.pop(), "stage": "END", "time_us": BASE_US + end + 1})
        end += 2
    return marks


def pickled(snapshot: dict[str, Any], protocol: int, *, has_memo: bool) -> bytes:
    file = io.BytesIO()
    pickler = pickle.Pickler(file, protocol)
    pickler.fast = not has_memo
    pickler.dump(snapshot)
    return file.getvalue()


@settings(deadline=None)
@given(snapshots(), st.sampled_from([2, 4, 5]), st.booleans())
def test_rows_and_sums_are_those_of_a_loop(
    snapshot: dict[str, Any], protocol: int, has_memo: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.pickle"
        path.write_bytes(pickled(snapshot, protocol, has_memo=has_memo))
        compare(load(path), snapshot)
