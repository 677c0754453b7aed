"""Recipes of plain torch run as they stand, and options are needed for what the page says."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

import profframe
from profframe import Trace
from profframe.query.catalogue import catalogue
from tests import needs
from tests.test_docs import ROOT, blocks

PAGE: Final = (ROOT / "docs/recipes.md").read_text(encoding="utf-8")
SHAPES: Final = {"Input Dims", "Input type", "Input Strides", "Concrete Inputs"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    needs.torch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def recipe(word: str) -> str:
    """The block of the page that has a word, which no other one has."""
    (found,) = (block for block in blocks("python", PAGE) if word in block)
    return found


def follow(word: str) -> dict[str, Any]:
    """What is defined when a recipe has run."""
    names: dict[str, Any] = {}
    exec(compile(recipe(word), "recipes.md", "exec"), names)  # noqa: S102 -- it is the page's own
    return names


@pytest.mark.usefixtures("folder")
def test_training() -> None:
    follow('export_chrome_trace("trace.json.gz")')
    trace = profframe.load("trace.json.gz")
    assert trace.step_times()["step"].to_list() == [4, 5, 6, 7]
    assert trace.annotations().filter(name="forward")["calls"].to_list() == [1, 1, 1, 1]
    assert trace.events["input_dims"].null_count() < trace.events.height


@pytest.mark.usefixtures("folder")
def test_inference() -> None:
    follow('"inference.json.gz"')
    calls = profframe.load("inference.json.gz").phases().group_by("phase").agg(pl.sum("calls"))
    assert {*calls.rows()} == {("prefill", 1), ("decode", 8)}


@pytest.mark.usefixtures("folder")
def test_without_a_file() -> None:
    follow("profframe.trace_handler")
    assert profframe.load("store").runs()["run"].to_list() == ["night"]
    assert profframe.load("store").step_times().height == 2


@pytest.mark.long
def test_two_processes_and_one_store(folder: Path) -> None:
    (folder / "traces/123").mkdir(parents=True)
    (folder / "train.py").write_text(recipe("# train.py").replace("traces/rank", "traces/123/rank"))
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py"]
    subprocess.run(launch, check=True, capture_output=True, timeout=300)
    profframe.convert("traces/123", "store", pattern="{run}/rank{rank}.json.gz")
    store = profframe.load("store", runs="123")
    assert store.traces.select("run", "rank").rows() == [("123", 0), ("123", 1)]
    assert store.step_times()["step"].to_list() == [4, 5, 6, 7] * 2


def test_modules_come_with_stacks_alone() -> None:
    torch = needs.torch()
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    rows = {}
    for option in ("with_stack", "with_modules"):
        with profframe.profile(**{option: True}) as prof:
            model(torch.ones(2, 4))
        rows[option] = prof.trace.modules().height
    assert rows["with_stack"] > 0
    assert rows["with_modules"] == 0


def without(document: dict[str, Any], option: str) -> dict[str, Any]:
    """The trace as it is without an option of the profiler."""
    events = document["traceEvents"]
    if option == "with_stack":
        events = [event for event in events if event.get("cat") != "python_function"]
    elif option == "profile_memory":
        events = [event for event in events if event["name"] != "[memory]"]
    elif option == "record_shapes":
        events = [
            {**e, "args": {k: v for k, v in e.get("args", {}).items() if k not in SHAPES}}
            for e in events
        ]
    return document | {"traceEvents": events}


def filled(trace: Trace, name: str) -> tuple[int, int]:
    """Rows of an answer, and columns with something in them."""
    rows = trace.answer(name)
    return rows.height, sum(rows[column].null_count() < rows.height for column in rows.columns)


def needing(option: str) -> list[str]:
    """Answers that need an option, as the page says."""
    (row,) = (line for line in PAGE.splitlines() if line.startswith(f"| `{option}` |"))
    names = {answer.name for answer in catalogue()}
    return [name for name in re.findall(r"`(\w+)`", row.split("|")[4]) if name in names]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    text = gzip.decompress((ROOT / "examples/gpu_training.json.gz").read_bytes())
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize("option", ["record_shapes", "with_stack", "profile_memory"])
def test_an_answer_has_less_without_the_option_that_it_needs(
    option: str, document: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(without(document, option)))
    whole, part = profframe.load(ROOT / "examples/gpu_training.json.gz"), profframe.load(path)
    by_shape = {"key_averages", "op_kernels"} if option == "record_shapes" else set()
    skipped = {*by_shape, "unfreed"}  # this trace frees everything
    names = [name for name in needing(option) if name not in skipped]
    assert len(names) >= 3
    for name in names:
        (rows, columns), (rows_left, columns_left) = filled(whole, name), filled(part, name)
        assert rows_left < rows or columns_left < columns, name
    for name in by_shape:
        shapes = [t.answer(name, group_by_input_shape=True)["input_dims"] for t in (whole, part)]
        assert shapes[0].null_count() < len(shapes[0])
        assert shapes[1].null_count() == len(shapes[1])
