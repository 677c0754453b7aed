"""The capture scripts run, and what they write shows nothing of the machine."""

from __future__ import annotations

import gzip
import importlib
import json
import re
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import profframe
from examples import synthetic_snapshot
from tests import graphs, needs

ROOT = Path(__file__).parent.parent
ABSOLUTE_PATH = re.compile(r'"(?:[A-Z]:\\|/)[^"]+"')


def text_of(trace: Path) -> str:
    return gzip.decompress(trace.read_bytes()).decode()


def captured(output: Path, *options: str) -> str:
    small = ("--steps", "1", "--layers", "1", "--width", "8", "--batch", "2", "--length", "4")
    command = [sys.executable, "-m", "examples.capture_cpu_training", str(output)]
    subprocess.run([*command, *small, *options], cwd=ROOT, check=True, capture_output=True)
    return text_of(output)


@pytest.mark.parametrize(
    "options", [pytest.param((), marks=pytest.mark.long), ("--stack",)], ids=["plain", "stack"]
)
def test_capture_of_a_training_run(options: tuple[str, ...], tmp_path: Path) -> None:
    needs.torch()
    text = captured(tmp_path / "trace.json.gz", *options)
    names = {event["name"] for event in json.loads(text)["traceEvents"]}
    assert {"ProfilerStep#1", "forward", "backward", "[memory]"} <= names
    assert socket.gethostname() not in text
    assert ABSOLUTE_PATH.findall(text) == []


@pytest.mark.long
def test_capture_of_a_compiled_model(tmp_path: Path) -> None:
    needs.torch()
    command = [sys.executable, "-m", "examples.capture_compiled", str(tmp_path)]
    small = ("--width", "16", "--batch", "4", "--steps", "2")
    subprocess.run([*command, *small], cwd=ROOT, check=True, capture_output=True)
    trace = profframe.load(tmp_path / "trace.json.gz", provenance=tmp_path)
    assert trace.quality.is_empty()
    assert set(trace.fx_nodes(per="line")["kernels"] * 2) == set(
        trace.fx_nodes(per="line")["calls"]
    )
    assert trace.compiled_kernels["graph_key"].n_unique() == 4
    assert ABSOLUTE_PATH.findall(text_of(tmp_path / "trace.json.gz")) == []
    assert str(tmp_path) not in (tmp_path / "dedicated_log_torch_trace.log").read_text()


@pytest.mark.long
def test_capture_of_a_pair(tmp_path: Path) -> None:
    needs.torch()
    small = ("--steps", "3", "--width", "16", "--batch", "2", "--length", "4")
    outputs = [tmp_path / "fp32.json.gz", tmp_path / "bf16.json.gz"]
    command = [sys.executable, "-m", "examples.capture_pair", *map(str, outputs), *small]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    for output, is_half in zip(outputs, (False, True), strict=True):
        text = text_of(output)
        names = [event["name"] for event in json.loads(text)["traceEvents"]]
        assert sum(name.startswith("ProfilerStep#") for name in names) == 3
        assert {"forward", "backward", "optimizer", "aten::mm"} <= set(names)
        assert ("c10::BFloat16" in text) is is_half
        assert socket.gethostname() not in text
        assert ABSOLUTE_PATH.findall(text) == []


@pytest.mark.parametrize("trace", ["fp32", "bf16"])
def test_each_of_the_pair_has_steps_to_tell_changes_from_noise(trace: str) -> None:
    source = ROOT / f"examples/{trace}.json.gz"
    assert source.stat().st_size < 150_000
    events = json.loads(text_of(source))["traceEvents"]
    steps = [e for e in events if e["name"].startswith("ProfilerStep#") and e["ph"] == "X"]
    assert len(steps) == 8
    assert "Input Dims" in next(e for e in events if e["name"] == "aten::mm")["args"]


@pytest.mark.parametrize("trace", sorted(ROOT.glob("examples/**/*.json.gz")), ids=lambda p: p.name)
def test_example_is_small_and_shows_nothing_of_the_machine(trace: Path) -> None:
    text = text_of(trace)
    assert trace.stat().st_size < 300_000
    assert {*re.findall(r'"host_name": "([^"]*)"', text)} <= {"example"}  # torch 2.11 has none
    assert ABSOLUTE_PATH.findall(text) == []


@pytest.mark.parametrize(
    ("module", "options", "made"),
    [
        ("synthetic_gpu", (), "gpu_training.json.gz"),
        ("synthetic_gpu", ("--fused",), "gpu_training_fused.json.gz"),
        ("synthetic_serving", (), "serving.json.gz"),
        ("synthetic_power", (), "power.json.gz"),
        ("synthetic_job", (), "job"),
        ("synthetic_nccl", (), "nccl_inspector"),
    ],
    ids=["gpu", "fused", "serving", "power", "job", "nccl"],
)
def test_a_made_up_run_is_what_its_script_makes(
    module: str, options: tuple[str, ...], made: str, tmp_path: Path
) -> None:
    output, kept = tmp_path / made, ROOT / "examples" / made
    command = [sys.executable, "-m", f"examples.{module}", str(output), *options]
    subprocess.run(command, cwd=ROOT, check=True)
    files = sorted(kept.iterdir()) if kept.is_dir() else [kept]
    for file in files:
        text = text_of(output / file.name if kept.is_dir() else output)
        assert text == text_of(file)
        if made != "nccl_inspector":  # whose form has no place for it
            assert "no machine ran it" in json.loads(text)["comment"]
    assert len(files) == {"job": 4, "nccl_inspector": 8}.get(made, 1)


@pytest.mark.parametrize(
    ("module", "name"), [("synthetic_gil", "gil.sqlite"), ("synthetic_rocprof", "rocprof.db")]
)
def test_a_made_up_database_is_what_its_script_makes(
    module: str, name: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", f"examples.{module}", str(tmp_path / name)]
    subprocess.run(command, cwd=ROOT, check=True)
    made, kept = (
        [*sqlite3.connect(folder / name).iterdump()] for folder in (tmp_path, ROOT / "examples")
    )
    assert made == kept
    assert any("no machine ran it" in line for line in made)


def test_a_made_up_snapshot_is_what_its_script_makes(tmp_path: Path) -> None:
    synthetic_snapshot.main([str(tmp_path / "snapshot.pickle")])
    made = (tmp_path / "snapshot.pickle").read_bytes()
    assert made == (ROOT / "examples" / "snapshot.pickle").read_bytes()
    assert b"no machine ran it" in made


def test_paths_are_trimmed_to_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    needs.torch()
    monkeypatch.chdir(ROOT)
    neutral = importlib.import_module("examples.neutral")
    assert neutral.trim_paths(f"{ROOT / 'train.py'}(3): step") == "train.py(3): step"


def test_cuda_capture_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs.no_device()
    monkeypatch.setattr(sys, "argv", ["capture_cuda", str(tmp_path / "cuda.json.gz")])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module("examples.capture_cuda").main()
    assert ended.value.code == 2
    assert "no CUDA device" in capsys.readouterr().err


@pytest.mark.long
def test_capture_of_a_graph_without_a_gpu(tmp_path: Path) -> None:
    needs.torch()
    command = [sys.executable, "-m", "examples.capture_graph", str(tmp_path)]
    small = ("--layers", "1", "--width", "8", "--replays", "2")
    subprocess.run([*command, *small], cwd=ROOT, check=True, capture_output=True)
    assert {file.name for file in tmp_path.iterdir()} == {
        f"{name}.json.gz" for name in ("eager", "capture", "replay", "both")
    }
    text = text_of(tmp_path / "eager.json.gz")
    names = [event["name"] for event in json.loads(text)["traceEvents"]]
    assert names.count("model") == 2
    assert socket.gethostname() not in text


@pytest.mark.parametrize(("kernel", "differences"), [("mm_k", 0), ("mm_of_another_shape", 2)])
def test_ops_of_replays_are_held_against_those_of_an_eager_run(
    kernel: str, differences: int, tmp_path: Path
) -> None:
    needs.torch()
    compare = importlib.import_module("examples.capture_graph").compare
    graph = [
        graphs.Call("mm_k", "aten::mm", dims="[[4,8],[8,2]]"),
        graphs.Call("act_k", "aten::relu", dims="[[4,2]]"),
    ]
    runs = [graphs.eager_rows(graph, 1000 * n, 10 * n) for n in (1, 2)]
    replays = [graphs.replay_rows(["mm_k", "act_k"], 9000 * n, 40 + n) for n in (1, 2)]
    captured = graphs.capture_rows(graph, 5000, has_names=False)
    graph[0] = graphs.Call(kernel, "aten::mm", dims="[[4,8],[8,2]]")
    for name, rows in {
        "eager": [graphs.eager_rows(graph, 1000 * n, 10 * n) for n in (1, 2)],
        "capture": [runs[0], captured],
        "replay": replays,
    }.items():
        (tmp_path / f"{name}.json.gz").write_bytes(gzip.compress(graphs.chrome(*rows).encode()))
    assert compare(tmp_path).height == differences
