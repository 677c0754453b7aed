"""Memory timelines of torch's profiler: sums by category at each moment are those of a loop."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profframe.errors import NotATraceError, SourceError
from profframe.loaders.load import load
from tests import needs

NAMES = ("parameter", "optimizer_state", "input", "temporary", "activation", "gradient",
         "autograd_detail", "unknown")  # fmt: skip
BASE = 1_795_486_150_112_938_760
Records = list[list[int]]


def written(folder: str, records: object, name: str = "mem.raw.json.gz") -> Path:
    path = Path(folder) / name
    text = json.dumps(records).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return path


@st.composite
def timelines(draw: st.DrawFn) -> Records:
    records: Records = []
    alive: list[tuple[int, int]] = []
    for _ in range(draw(st.integers(1, 4))):
        size, category = draw(st.sampled_from([0, 4, 512])), draw(st.integers(0, 7))
        records.append([-1, 1, size, category])
        alive.append((size, category))
    for i in range(draw(st.integers(0, 30))):
        what = draw(st.sampled_from([2, 3, 4])) if alive else 2
        if what == 2:
            alive.append((draw(st.sampled_from([0, 4, 512])), draw(st.integers(0, 7))))
            records.append([BASE + i, 2, *alive[-1]])
            continue
        size, category = alive.pop(draw(st.integers(0, len(alive) - 1)))
        records.append([BASE + i, what, -size, category])
        if what == 3:
            alive.append((size, draw(st.integers(0, 7))))
            records.append([BASE + i, 3, *alive[-1]])
    return records


@settings(deadline=None)
@given(timelines())
def test_sums_are_those_of_a_loop(records: Records) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trace = load(written(folder, records))
        rows = trace.snapshot_timeline(per="category", points=0, top=0)
        allocations = trace.sql("SELECT * FROM allocations")
        events = trace.sql("SELECT * FROM allocator_events")
    sums: Counter[str] = Counter()
    at: dict[int, Counter[str]] = defaultdict(Counter)
    number = -1
    for _, action, size, category in records:
        number += action != 1
        sums[NAMES[category]] += size
        at[number] = sums.copy()
    for row in rows.to_dicts():
        assert row["active_bytes"] == at[row["event_id"]][row["name"]]
    assert events.height == number + 1
    made = [record for record in records if record[2] > 0]
    assert allocations.height == len(made)
    assert allocations["bytes"].sum() == sum(record[2] for record in made)
    ended = allocations.drop_nulls("free_ns")
    assert ended.filter(pl.col("free_ns") < pl.col("alloc_ns")).is_empty()
    assert allocations["address"].is_null().all()


def test_a_free_of_what_was_never_allocated_is_counted(tmp_path: Path) -> None:
    records = [[-1, 1, 8, 0], [5, 4, -16, 0], [6, 2, 16, 0], [7, 4, -8, 0], [8, 4, -8, 0]]
    trace = load(written(str(tmp_path), records, "mem.raw.json"))
    assert dict(trace.quality["issue", "events"].rows()) == {
        "free_without_allocation": 2, "paired_by_size": 1
    }  # fmt: skip
    allocations = trace.sql("SELECT bytes, alloc_ns, free_ns FROM allocations").rows()
    assert allocations == [(16, 6, None), (8, None, 7)]
    assert trace.sql(
        "SELECT action, bytes, allocation_id FROM allocator_events ORDER BY allocator_event_id"
    ).rows() == [
        ("free_completed", 16, None), ("alloc", 16, 0), ("free_completed", 8, 1),
        ("free_completed", 8, None),
    ]  # fmt: skip


def test_a_timeline_converts_and_is_asked_in_a_store(tmp_path: Path) -> None:
    from profframe.conversion.convert import convert

    path = written(str(tmp_path), [[-1, 1, 8, 0], [BASE, 2, 16, 5], [BASE + 9, 4, -16, 5]])
    convert(path, tmp_path / "store")
    stacks = load(tmp_path / "store").memory_stacks(per="category")
    assert stacks["name", "peak_bytes", "end_bytes"].rows() == [
        ("gradient", 16, 0), ("parameter", 8, 8)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("[[1795486150112938, 1795486150112939], [[0, 1], [0, 2]]]", NotATraceError, "raw.json.gz"),
        ("[[-1, 1, 8, 0], [5, 4, -16", SourceError, "ends early"),
        ("[[-1, 1, 8, 0], [5, 4, -16]]", SourceError, "not four integers"),
        ('[[-1, 1, 8, 0], [5, 4, "a", 1]]', SourceError, "not four integers"),
        ("[[-1, 1, 8, 0], [5, 9, 16, 1]]", NotATraceError, "the action 9"),
        ("[[-1, 1, 8, 0], [5, 2, 16, 8]]", NotATraceError, "the category 8"),
        ("<html>\n<head><title>GPU Memory Timeline HTML</title>", NotATraceError, "a picture"),
    ],
)
def test_what_cannot_be_read_is_one_clear_error(
    tmp_path: Path, text: str, kind: type[Exception], message: str
) -> None:
    path = tmp_path / "mem.json"
    path.write_text(text)
    with pytest.raises(kind, match=message):
        load(path)


@pytest.mark.filterwarnings("ignore")
def test_what_torch_writes(tmp_path: Path) -> None:
    torch = needs.torch()
    model = torch.nn.Linear(16, 8)
    optimizer = torch.optim.Adam(model.parameters())
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        profile_memory=True,
        record_shapes=True,
        with_stack=True,
    ) as profile:
        model(torch.randn(4, 16)).sum().backward()
        optimizer.step()
    path = tmp_path / "mem.raw.json.gz"
    profile.export_memory_timeline(str(path), device="cpu")
    sizes: Counter[str] = Counter()
    for _, _, size, category in json.loads(gzip.decompress(path.read_bytes())):
        sizes[NAMES[category]] += size
    stacks = load(path).memory_stacks(per="category")
    at_end = dict(stacks["name", "end_bytes"].rows())
    assert {k: v for k, v in at_end.items() if v} == {k: v for k, v in sizes.items() if v}
    assert at_end["parameter"] == 4 * (16 * 8 + 8)
