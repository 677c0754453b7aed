"""Drawn names of files of one job: as their writers name them, and in whatever container."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

import profframe
from tests.unit.test_archives import PACKS

WORD = st.text("abcdefg0123456789", min_size=1, max_size=5)
FORMS = st.sampled_from(
    ("rank{}", "rank_{}", "rank-{}", "rank[{}]", "rank({})", "RANK{}", "Rank_{}", "worker{}")
)
SUFFIXES = st.sampled_from((".json", ".json.gz", ".pt.trace.json", ".trace.json.gz"))
AXES = ("DP", "PP", "EP", "TP")


def content(number: int, suffix: str) -> bytes:
    """A trace of an op whose name has the number."""
    op = {"ph": "X", "cat": "cpu_op", "name": f"op{number}", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    text = json.dumps({"traceEvents": [op]}).encode()
    return gzip.compress(text) if suffix.endswith(".gz") else text


@st.composite
def jobs(draw: st.DrawFn) -> list[str]:
    """Names without a suffix, by rank."""
    before, after = draw(WORD), draw(WORD)
    if draw(st.booleans()):
        form = draw(FORMS)
        ranks = range(draw(st.integers(1, 11)))
        return [f"{before}_{form.format(rank)}.{after}" for rank in ranks]
    sizes = draw(st.permutations([1, 1, draw(st.integers(1, 3)), draw(st.integers(1, 3))]))
    shown = draw(st.permutations(AXES))
    # All axes are shown, and number the ranks with the first as the slowest.
    return [
        f"{before}.5-" + "-".join(f"{axis}-{place[AXES.index(axis)]}" for axis in shown)
        for place in itertools.product(*map(range, sizes))
    ]


@given(jobs(), SUFFIXES, st.sampled_from(("folder", *PACKS)), st.booleans())
def test_ranks_are_those_of_the_names(
    names: list[str], suffix: str, form: str, is_nested: bool
) -> None:
    folder_name = "job/" if is_nested else ""
    files = {
        f"{folder_name}{name}{suffix}": content(rank, suffix) for rank, name in enumerate(names)
    }
    with TemporaryDirectory() as folder:
        path = Path(folder, f"packed.{form}")
        if form == "folder":
            path /= folder_name
            path.mkdir(parents=True)
            for name, data in files.items():
                path.joinpath(Path(name).name).write_bytes(data)
        else:
            PACKS[form](path, files)
        trace = profframe.load(path)
    ops = trace.events.select("rank", "name").sort("rank").rows()
    assert ops == [(rank, f"op{rank}") for rank in range(len(names))]
    assert trace.traces["run"].n_unique() == 1
