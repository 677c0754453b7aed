"""Stacks of nodes by the numbers that Cuspy's two exporters write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import profframe
from tests import needs
from tests.stack_files import node, save

FOLDER = "torch215_cuspy"


@pytest.mark.parametrize("name", ["plain.json", "plain.pftrace", "deps.json", "deps.pftrace"])
def test_each_kernel_of_a_graph_has_the_stack_of_its_node(
    traces: Path, tmp_path: Path, name: str
) -> None:
    if name.endswith(".pftrace"):
        needs.module("google.protobuf")
    source = traces / FOLDER / name
    text = source.with_suffix(".json").read_text(encoding="utf-8")
    kernels = [
        (node(event["args"]["graph id"], event["args"]["graph node id"]), event["dur"])
        for event in json.loads(text)["traceEvents"]
        if event.get("cat") == "kernel" and "graph id" in event["args"]
    ]
    stacks = {key: f"/srv/model.py:{key & 0xFFFF}:layer\n/srv/run.py:3:main" for key, _ in kernels}
    trace = profframe.load(source, captures=save(tmp_path / "stacks.json.gz", stacks))
    rows = trace.sql("""
        SELECT python_stack, count(*) FROM events WHERE attributed_by = 'graph_stack' GROUP BY 1
    """)
    counts: dict[str, int] = {}
    for key, _ in kernels:
        text = f"/srv/model.py({key & 0xFFFF}): layer;/srv/run.py(3): main"
        counts[text] = counts.get(text, 0) + 1
    assert dict(rows.rows()) == counts
    assert len(counts) > 1
    [whole] = trace.python_lines().filter(name="/srv/run.py(3): main").to_dicts()
    assert whole["kernels"] == len(kernels)
    issues = trace.quality["issue"].to_list()
    assert "stack_without_kernel" not in issues
