"""A graph of CUDA, recorded on an H100 by `examples.capture_graph` with PyTorch 2.11."""

from __future__ import annotations

from pathlib import Path

import profframe
from tests import needs


def test_ops_of_replays_are_those_of_the_eager_run(root: Path) -> None:
    needs.torch()  # which the example imports
    from examples.capture_graph import compare

    folder = root / "tests" / "data" / "cuda_graph"
    assert compare(folder).is_empty()
    counts = "SELECT count(*) AS kernels, count(op_id) AS ops FROM events WHERE kind = 'kernel'"
    eager = profframe.load(folder / "eager.json.gz").sql(counts).row(0)
    replayed = profframe.load(folder / "replay.json.gz", captures=folder / "capture.json.gz")
    assert replayed.sql(counts).row(0) == eager


def test_a_run_with_two_streams_and_a_graph(root: Path) -> None:
    """Everything in it has its launch and its step, and its path adds up."""
    trace = profframe.load(root / "examples" / "cuda.json.gz")
    assert trace.quality.is_empty()
    counts = trace.sql("""
        SELECT count(*) AS works, count(launch_id) AS launched, count(DISTINCT stream) AS streams,
            count(DISTINCT step) AS steps
        FROM events WHERE kind IN ('kernel', 'memcpy', 'memset')""")
    works, launched, streams, steps = counts.row(0)
    assert works == launched == 153
    assert (streams, steps) == (2, 3)
    path = trace.critical_path(step=2)
    assert path.bounds["total_ns"].sum() == path.length_ns
    rows = trace.what_if(step=2)
    assert rows["predicted_ns"].to_list() == rows["now_ns"].to_list()
