"""Stacks of work in drawn graphs, compared with a plain loop over the JSON."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from profframe import load
from tests.graphs import chrome
from tests.oracles.graph_stacks import expected, parsed
from tests.stack_files import node, rows_of

GRAPHS, NODES = st.integers(1, 3), st.integers(0, 3)
FRAMES = st.builds(
    "{}.py:{}:{}".format, st.sampled_from("ab"), st.integers(1, 2), st.sampled_from("fg")
)
STACKS = st.lists(FRAMES, min_size=1, max_size=3).map("\n".join)
NAMES = st.builds(node, GRAPHS, NODES).map(str) | st.sampled_from(["0", "x", "7", "9" * 30, "-5"])
VALUES = STACKS | st.sampled_from([None, 3, "", "no frame", ["a.py:1:f"]])
FILES = st.lists(
    st.tuples(
        st.sampled_from([None, 0, 1]),
        st.dictionaries(NAMES, VALUES, max_size=8).map(
            # So that each begins as such files do, and none is empty.
            lambda members: {str(node(9, 9)): "z.py:1:z"} | members
        ),
    ),
    min_size=1,
    max_size=3,
)


@st.composite
def kernels(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A kernel, whose node may be written in several ways, or not at all."""
    graph, number = draw(GRAPHS), draw(NODES)
    form = draw(st.sampled_from(["Kineto", "Cuspy", "whole", "none", "odd"]))
    if form == "none":
        return "k", {}
    args = {} if form == "whole" else {"graph id": graph + (form == "odd")}
    whole = node(graph, number)
    return "k", {
        "graph_node_id": number if form == "Cuspy" else whole,
        "args": json.dumps(args),
    }


LAUNCHES = st.lists(st.lists(kernels(), min_size=1, max_size=5), min_size=1, max_size=4)


@given(LAUNCHES, FILES, st.sampled_from([None, 0]), st.booleans())
def test_stacks_times_and_counts(
    launches: list[list[tuple[str, dict[str, Any]]]],
    files: list[tuple[int | None, dict[str, Any]]],
    rank: int | None,
    is_cut: bool,
) -> None:
    rows = [*rows_of(launches)]
    if is_cut:  # the first launch was before the trace
        rows = [row for row in rows if row["name"] != "hipGraphLaunch" or row["start_ns"] > 100_500]
    text = chrome(rows)
    want = expected(parsed(text), rank, files)
    with TemporaryDirectory() as folder:
        path = Path(folder, "t.json" if rank is None else f"t_rank{rank}.json")
        path.write_text(text, encoding="utf-8")
        paths = []
        for place, (of, members) in enumerate(files):
            name = f"s{place}.json.gz" if of is None else f"s{place}_rank{of}.json.gz"
            paths.append(Path(folder, name))
            paths[-1].write_bytes(gzip.compress(json.dumps(members).encode()))
        trace = load(path, captures=paths)
    events = trace.sql("SELECT python_stack FROM events WHERE kind = 'kernel' ORDER BY event_id")
    assert events["python_stack"].to_list() == want.stacks
    counts = trace.sql("""
        SELECT issue, sum(events)::BIGINT FROM quality WHERE issue LIKE '%stack%' GROUP BY issue
    """)
    assert {issue: count for issue, count in counts.rows() if count} == dict(want.issues)
    lines = trace.python_lines().drop_nulls("name")
    own = {name: time for name, time in lines.select("name", "self_device_ns").rows() if time}
    assert own == dict(want.own_ns)
    assert dict(lines.select("name", "device_ns").rows()) == dict(want.all_ns)
    sites: Counter[str] = Counter()
    for site, time in trace.op_kernels().select("launch_site", "device_ns").rows():
        if site is not None:
            sites[site] += time
    assert sites == want.own_ns
