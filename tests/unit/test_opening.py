"""The first lines about a trace: what each says is what the answers say."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.cells import cell_len
from rich.console import Console

import profframe
from profframe.cli.next_commands import next_commands
from profframe.cli.output import OutputOptions
from profframe.cli.part import Part
from profframe.cli.rankings import ranked
from profframe.cli.shell import folded, shell_word
from profframe.show import terminal, trace_header, units
from profframe.show.compact_tables import with_copies_apart
from profframe.show.device_time import TimeParts, time_texts
from profframe.show.findings import gain_of
from profframe.trace.text_views import header
from tests.conftest import Run
from tests.hostile import RUN
from tests.members import few
from tests.unit.test_file_summaries import FILES

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
GPU = str(EXAMPLES / "gpu_training.json.gz")
CPU = str(EXAMPLES / "cpu_training.json.gz")


def first_lines(printed: str) -> list[str]:
    """The lines before the first empty one."""
    return printed.partition("\n\n")[0].splitlines()


def labelled(printed: str) -> dict[str, list[str]]:
    """Texts by their label; lines without one belong to the label before."""
    texts: dict[str, list[str]] = {}
    label = ""
    for line in first_lines(printed)[1:]:
        label = line[: terminal.INDENT].strip() or label
        texts.setdefault(label, []).append(line[terminal.INDENT :])
    return texts


def written(folder: Path, **head: Any) -> Path:
    """Two steps of 100 us: the device computes 30 us, communicates 20 us and copies 10 us each."""
    slices = []
    for step, at in ((1, 0), (2, 100)):
        slices += [
            ("user_annotation", f"ProfilerStep#{step}", 1, at, 100, {}),
            ("cpu_op", "aten::mm", 1, at, 40, {}),
            ("cuda_runtime", "cudaLaunchKernel", 1, at + 1, 5, {"correlation": step}),
            ("kernel", "sgemm", 7, at + 10, 30, {"correlation": step}),
            ("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 8, at + 30, 30, {}),
            ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 9, at + 70, 10, {}),
        ]
    events = [
        {"ph": "X", "cat": category, "name": text, "pid": 1, "tid": tid, "ts": ts, "dur": dur}
        | {"args": args | ({"device": 0, "stream": tid} if tid > 1 else {})}
        for category, text, tid, ts, dur, args in slices
    ]
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, **head, "traceEvents": events}))
    return path


def test_the_time_of_a_step_is_that_of_the_device(tmp_path: Path, run: Run) -> None:
    head: dict[str, Any] = {
        "deviceProperties": [{"id": 0, "name": "My\x1b[31m Device"}],
        "record_shapes": 1,
        "with_stack": 0,
        "distributedInfo": {"rank": 0, "world_size": 4, "backend": "nccl"},
    }
    path = written(tmp_path, **head)
    code, printed, _ = run(path)
    assert code == 0
    lines = labelled(printed)
    assert first_lines(printed)[0].endswith(": 1 run, 1 rank of 4, 2 steps, 200.000 us")
    assert lines["device"] == [r"1 x My\x1b[31m Device"]
    assert lines["recorded"][0].startswith("torch's profiler with shapes")
    (time,) = lines["time"]
    assert time.startswith(
        "partly host-bound: compute 30.0 %, exposed communication 20.0 %, exposed copies 10.0 %, "
        "idle 40.0 %"
    )
    assert time.endswith(" of 100.000 us per step, the mean of 2")
    assert lines["kernels"] == ["collective 42.9 %, gemm 42.9 %, memcpy 14.3 %"]
    assert lines["next"][0].startswith("profframe ")
    assert str(path) in lines["next"][0]


@pytest.mark.parametrize("source", [GPU, CPU], ids=["gpu", "cpu"])
def test_every_number_is_that_of_an_answer(source: str, run: Run) -> None:
    trace = profframe.load(source)
    lines = labelled(run(source)[1])
    steps = trace.time_breakdown().filter(pl.col("step").is_not_null())
    for name, part in (("compute", "compute_ns"), ("idle", "idle_ns")):
        if steps.height:
            share = units.share(int(steps[part].sum()) / int(steps["span_ns"].sum()))
            assert f"{name} {share}" in lines["time"][0]
    categories = (
        with_copies_apart(trace.kernel_categories())
        .group_by("category")
        .agg(pl.col("total_ns").sum())
    )
    total = categories["total_ns"].sum()
    for text in lines.get("kernels", []):
        shares = dict(re.findall(r"(\w+) ([\d.]+ %)", text))
        expected = {name: units.share(ns / total) for name, ns in categories.iter_rows()}
        assert shares
        assert shares.items() <= expected.items()
    host = trace.self_times()
    for name, share in re.findall(r"(\S+) ([\d.]+ %)", " ".join(lines.get("host", []))):
        assert units.share(float(host.filter(pl.col("name") == name)["self_share"].sum())) == share
    gains = [row.split("  ")[0] for row in lines.get("gain", [])]
    known = (
        trace.advice()
        .drop_nulls("estimated_gain_ns")
        .sort("estimated_gain_ns", descending=True, maintain_order=True)
    )
    expected_gains = [gain_of(row) for row in known.iter_rows(named=True)]
    assert gains
    assert [gain for gain in gains if gain != "not estimated"] == expected_gains[: len(gains)]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> trace_header.TraceHeader:
    with profframe.load(written(tmp_path_factory.mktemp("first"))).session() as trace:
        return header(trace)


ADVICE = {
    "run": "trace", "rank": 0, "rule": "r", "severity": "low", "evidence_events": [1], "events": 1,
    "gain_basis": "", "where": None, "suggestion": "", "link": "",
}  # fmt: skip


def findings(
    first: trace_header.TraceHeader, *rows: tuple[str, int | None, list[int]]
) -> trace_header.TraceHeader:
    """The same with these findings."""
    schema: dict[str, Any] = {"estimated_gain_ns": pl.Int64, "ranks": pl.List(pl.Int64)}
    advice = [
        ADVICE | {"finding": text, "estimated_gain_ns": gain, "ranks": ranks}
        for text, gain, ranks in rows
    ]
    return replace(first, advice=pl.DataFrame(advice, schema_overrides=schema))


def text_of(first: trace_header.TraceHeader, width: int | None, path: str = "trace.json") -> str:
    commands = next_commands(first, [path], {}, (), width)
    return terminal.text(trace_header.text(path, first, commands, width), width)


def test_findings_are_in_the_order_of_their_gain(first: trace_header.TraceHeader) -> None:
    rows = [("none", 0, [0]), ("unknown", None, [0]), ("little", 1_000, [0]), ("much", 5_000, [0])]
    lines = labelled(text_of(findings(first, *rows), 100))["gain"]
    assert [re.split(" {2,}", line) for line in lines] == [
        ["5.000 us", "much"],
        ["1.000 us", "little"],
        ["not estimated", "unknown"],
    ]


def test_ranks_of_a_finding_are_named_where_there_are_several(
    first: trace_header.TraceHeader,
) -> None:
    ranks = [first.overview.with_columns(rank=pl.lit(n, pl.Int32)) for n in range(4)]
    job = replace(first, overview=pl.concat(ranks))
    rows = [("slow " * 40, 5_000, [0, 1, 3]), ("late", 1_000, [0])]
    printed = text_of(findings(job, *rows), 100)
    assert "1 run, 4 ranks, 2 steps each, at most 200.000 us" in printed
    first_line, second = labelled(printed)["gain"]
    assert first_line.endswith("… (ranks 0-1, 3, this is rank 0)")
    assert second.endswith("late (rank 0)")
    assert "profframe blame trace.json" in printed


@pytest.mark.parametrize("width", [80, 100, 160])
def test_a_finding_takes_one_line(width: int, first: trace_header.TraceHeader) -> None:
    long = "Devices wait while the host is in /very/long/folder/of/a/project/train.py(3): f " * 4
    names = [long, f"\x1b[31m{long}\n", "名前" * 90]
    rows = [(name, 1_000 + place, [0]) for place, name in enumerate(names)]
    printed = text_of(findings(first, *rows), width)
    lines = printed.splitlines()
    assert len(lines) <= trace_header.MOST_LINES
    assert max(map(cell_len, lines)) <= width
    assert "\x1b" not in printed
    assert len(labelled(printed)["gain"]) == 3
    assert "…/train.py(3): f" in printed or width < 160


@pytest.mark.parametrize("width", [68, 70, 76])
def test_a_finding_is_cut_before_a_bracket(width: int, first: trace_header.TraceHeader) -> None:
    text = "Devices are idle for 16 ms of each step (45 % of its time) in 3 gaps"
    (line,) = labelled(text_of(findings(first, (text, 5_000, [0])), width))["gain"]
    assert line == "5.000 us  Devices are idle for 16 ms of each step …"


def test_a_name_of_a_file_does_not_take_the_line(first: trace_header.TraceHeader) -> None:
    path = "folder/" * 40 + "trace\x1b[31m.json"
    lines = text_of(first, 100, path).splitlines()
    assert max(map(cell_len, lines)) <= 100
    assert lines[0].endswith("2 steps, 200.000 us")


@pytest.mark.parametrize("case", few(FILES, 4))
def test_files_without_times_say_what_they_are(case: str, tmp_path: Path, run: Run) -> None:
    make, what, _ = FILES[case]
    files = make(tmp_path / "files")
    printed = run(*files)[1]
    lines = labelled(printed)
    assert what[:60] in " ".join(lines["contents"])
    assert lines["next"][0].startswith("profframe ")
    assert "gain" not in lines
    assert "time" not in lines
    assert len(first_lines(printed)) <= trace_header.MOST_LINES


def test_an_empty_trace_says_so(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "empty.json"
    path.write_text('{"schemaVersion": 1, "deviceProperties": [], "traceEvents": []}')
    code, printed, _ = run(path)
    if code == 0:
        assert "no events" in first_lines(printed)[0]
        assert labelled(printed)["next"][0].startswith("profframe info ")
        assert "0.0 %" not in "\n".join(first_lines(printed))


def test_a_trace_of_the_host_has_no_shares_of_devices(run: Run) -> None:
    lines = labelled(run(CPU)[1])
    assert lines["device"] == ["no device work in this trace"]
    assert "compute" not in lines["time"][0]
    assert lines["host"][0].count(" %") >= 2


def test_the_next_command_can_be_typed(tmp_path: Path, run: Run) -> None:
    folder = tmp_path / "it's $HOME `a` \x1b[31m名"
    folder.mkdir()
    printed = run(written(folder))[1]
    assert "\x1b" not in printed
    command = "\n".join(labelled(printed)["next"])
    shown = subprocess.run(
        ["/bin/bash", "-c", f"printf '%s\\0' {command.splitlines()[0].partition('  # ')[0]}"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    words = shown.split("\0")[:-1]
    assert words[0] == "profframe"
    assert Path(words[-1]).is_file()


@pytest.mark.parametrize(
    "word",
    [
        "plain.json",
        "a b",
        "it's",
        "$(rm)",
        "\x1b]0;x\x07",
        "a\nb",
        "\u202ereversed",
        "\udcff",
        "名",
    ],
)
@pytest.mark.parametrize("width", [20, 100])
def test_a_shell_reads_a_word_as_it_is(word: str, width: int) -> None:
    words = ["printf", "%s", f"folder-that-is-long/{word}"]
    script = folded(words, width)
    assert units.visible(script.replace("\n", "")) == script.replace("\n", "")
    assert max(map(len, script.split("\n"))) <= width
    environment = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        ["/bin/bash", "-c", script], check=True, capture_output=True, env=environment
    )
    assert done.stdout.decode(errors="surrogateescape") == words[-1]
    if word == units.visible(word):
        assert shlex.split(shell_word(word)) == [word]


def test_many_files_are_one_glob_if_it_means_just_these(
    first: trace_header.TraceHeader, tmp_path: Path
) -> None:
    names = [str(tmp_path / f"rank{rank}.pt.trace.json") for rank in range(12)]
    for name in names:
        Path(name).touch()
    ((command, _), *_) = next_commands(first, names, {}, (), 160)
    assert shlex.split(command)[-1] == str(tmp_path / "rank*.pt.trace.json")
    ((command, _), *_) = next_commands(first, names[:11], {}, (), 100)
    assert "*" not in command


def test_options_of_facts_are_repeated(first: trace_header.TraceHeader) -> None:
    facts = {"compat": "torch", "memory": ["snap shot.pickle"], "captures": None}
    ((command, _), *_) = next_commands(first, ["-x.json"], facts, (), None)
    words = shlex.split(command)
    assert words[-5:] == ["./-x.json", "--compat", "torch", "--memory-snapshot", "snap shot.pickle"]


def test_names_of_a_hostile_trace_do_nothing(hostile_file: Path, run: Run) -> None:
    printed = run(hostile_file)[1]
    assert not set("\x1b\u202e\x07") & set(printed)
    assert max(map(cell_len, first_lines(printed))) <= terminal.PIPE_WIDTH
    assert RUN not in printed


@pytest.mark.parametrize(
    ("name", "framework"),
    [
        ("vllm/v1/worker/gpu_worker.py(3): execute_model", ["vLLM"]),
        (r"C:\env\sglang\srt\managers\scheduler.py(3): run", ["SGLang"]),
        ("megatron/core/tensor_parallel/layers.py(1): forward", ["Megatron"]),
        ("deepspeed/runtime/engine.py(1): step", ["DeepSpeed"]),
        ("lightning/pytorch/loops/fit_loop.py(1): run", ["Lightning"]),
        ("transformers/trainer.py(1): train", ["Transformers"]),
        ("/home/x/vllm/my_script.py(1): run", []),
        ("my_megatron/train.py(1): run", []),
    ],
)
def test_frames_tell_the_framework(name: str, framework: list[str], tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "python_function", "name": name, "pid": 1, "tid": 1, "ts": 1}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([event | {"dur": 3, "args": {"Python id": 1}}]))
    with profframe.load(path).session() as trace:
        assert header(trace).frameworks["framework"].to_list() == framework


def test_the_part_of_a_trace_is_kept(run: Run, root: Path) -> None:
    path = str(root / "examples" / "gpu_training.json.gz")
    out = run(path, "--step", "2", "--step", "3", "--rank", "0")[1]
    for part in out.split("profframe ")[1:3]:
        command = part.partition("#")[0].split()
        assert command[-4:] == ["--rank", "0", "--step", "2-3"]
        code, _, err = run(*command)
        assert code == 0, err


@pytest.mark.parametrize("verb", ["advice", "roofline"])
def test_a_verb_looks_at_a_part(verb: str, run: Run, root: Path) -> None:
    path = str(root / "examples" / "gpu_training.json.gz")
    _, out, _ = run(verb, path, "--step", "2", "--format", "json")
    expected = getattr(profframe.load(path).filter(steps=2), verb)()
    assert len(json.loads(out)) == expected.height > 0
    assert run(verb, path, "--step", "7")[0] == 1


def test_numbers_are_spans_of_neighbours() -> None:
    part = Part(("a",), (0, 2, 1, 7), range(5, 7), ("decode",))
    wanted = "--run a --rank 0-2,7 --step 5-6 --phase decode"
    assert [*part.options()] == wanted.split()


def test_a_command_that_is_too_long_keeps_the_part(first: trace_header.TraceHeader) -> None:
    names = [f"{number:0100}.json" for number in range(40)]
    ((command, _), *_) = next_commands(first, names, {}, ("--step", "2-3"), 100)
    assert re.fullmatch(r"profframe [a-z ]+ TRACE\.\.\. --step 2-3", command)


@pytest.mark.parametrize(
    ("compute", "communication", "copies", "unrecorded", "devices", "span", "word"),
    [
        (90, 0, 0, 0, 1, 100, "device-bound"),
        (89, 0, 0, 0, 1, 100, "partly host-bound"),
        (80, 15, 0, 0, 1, 100, "device-bound"),
        (79, 15, 0, 0, 1, 100, ""),
        (50, 0, 0, 0, 1, 100, "host-bound"),
        (20, 60, 0, 0, 1, 100, "communication-bound"),
        (20, 40, 0, 0, 1, 100, "partly host-bound"),
        (10, 0, 85, 0, 1, 100, "copy-bound"),
        (95, 0, 0, 1, 1, 100, ""),
        (95, 0, 0, 0, 2, 100, ""),
        (95, 0, 0, 0, 1, 201, ""),
        (50, 0, 0, 0, 2, 201, "host-bound"),
    ],
)
def test_what_limits_the_pace(  # noqa: PLR0917 -- a row of the table
    compute: int,
    communication: int,
    copies: int,
    unrecorded: int,
    devices: int,
    span: int,
    word: str,
) -> None:
    """Of 100 ns on the devices; the rest is idle, waiting for the host."""
    idle = 100 - compute - communication - copies - unrecorded
    parts = TimeParts(1, False, (1,), 100, compute, communication, copies, unrecorded, idle, 0)
    overview = pl.DataFrame({"devices": [devices], "span_ns": [span]})
    waits = pl.DataFrame({"cause": ["host_wait"], "idle_ns": [idle], "launch_wait_ns": [idle]})
    text = time_texts(parts, overview, waits)[0]
    assert text.startswith(f"{word}: compute " if word else "compute ")


def test_a_narrow_line_lacks_the_smallest_share() -> None:
    overview = pl.DataFrame({"devices": [1], "span_ns": [100], "device_busy_ns": [99]})
    parts = TimeParts(1, False, (1,), 1000, 30, 0, 960, 0, 10, 0)
    assert time_texts(parts, overview)[-1].startswith("compute 3.0 %, exposed copies 96.0 % of ")
    parts = replace(parts, compute_ns=900, exposed_copy_ns=20, idle_ns=80)
    assert time_texts(parts, overview)[-1].startswith("compute 90.0 %, idle 8.0 % of ")
    parts = replace(parts, compute_ns=900, exposed_copy_ns=0, idle_ns=100)
    assert time_texts(parts, overview)[-1].startswith("compute 90.0 %, idle 10.0 % of ")


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (58, "33 records, 2 devices, 36.999 ms until 2026-09-21 14:13:20"),
        (40, "33 records, 2 devices …"),
        (14, "33 records …"),
    ],
)
def test_a_line_is_not_cut_within_a_number(width: int, line: str) -> None:
    texts = ("33 records, 2 devices, 36.999 ms until 2026-09-21 14:13:20",)
    assert trace_header._fitting(texts, width) == line


def waiting(folder: Path) -> Path:
    """Two modules of a class in a third, copies to and from a device that works all the time."""
    slices: list[tuple[str, str, int, int, int, dict[str, Any]]] = [
        ("python_function", "nn.Module: Net_0", 1, 0, 500, {"Python id": 1, "Python module id": 0}),
        (
            *("python_function", "nn.Module: Linear_0", 1, 10, 90),
            {"Python id": 2, "Python parent id": 1, "Python module id": 1},
        ),
        ("cuda_runtime", "cudaLaunchKernel", 1, 20, 5, {"correlation": 1}),
        (
            *("python_function", "nn.Module: Linear_1", 1, 110, 90),
            {"Python id": 3, "Python parent id": 1, "Python module id": 2},
        ),
        ("cuda_runtime", "cudaLaunchKernel", 1, 120, 5, {"correlation": 2}),
        ("cuda_runtime", "cudaLaunchKernel", 1, 210, 5, {"correlation": 3}),
        ("cuda_runtime", "cudaMemcpyAsync", 1, 220, 5, {"correlation": 4}),
        ("cuda_runtime", "cudaMemcpyAsync", 1, 230, 5, {"correlation": 5}),
        ("cuda_runtime", "cudaStreamSynchronize", 1, 240, 250, {"correlation": 6}),
        ("kernel", "volta_sgemm_64x64_tn", 7, 30, 100, {"correlation": 1}),
        ("kernel", "volta_sgemm_64x64_tn", 7, 130, 100, {"correlation": 2}),
        ("kernel", "add", 7, 230, 4, {"correlation": 3}),
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 7, 234, 10, {"correlation": 4}),
        ("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 7, 244, 20, {"correlation": 5}),
    ]
    events = [
        {"ph": "X", "cat": category, "name": text, "pid": 1, "tid": tid, "ts": ts, "dur": dur}
        | {"args": args | ({"device": 0, "stream": tid, "bytes": 1024} if tid > 1 else {})}
        for category, text, tid, ts, dur, args in slices
    ]
    path = folder / "trace.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


def rows_below(printed: str, title: str) -> list[list[str]]:
    """Words of the lines of a table below its headings."""
    lines = printed[printed.index(f"\n{title}") :].partition("\n\n")[0].splitlines()
    return [line.split() for line in lines[3:]]


def test_copies_modules_precision_and_waits_are_there_at_first(tmp_path: Path, run: Run) -> None:
    _, printed, _ = run(waiting(tmp_path))
    copies = rows_below(printed, "Copies and fills by direction")
    assert [row[:3] for row in copies] == [["Memcpy", "DtoH", "1"], ["Memcpy", "HtoD", "1"]]
    modules = rows_below(printed, "Device time of modules by class")
    assert modules[0][:5] == ["Linear", "2", "2", "200.000", "us"]
    assert modules[1][:5] == ["Net", "1", "1", "34.000", "us"]
    assert "\ncalls: 3 executions in all, 1 of them under 5 us (2.0 % of the time); " in printed
    kernels = rows_below(printed, "Kernels by short name")
    assert [row[-1] for row in kernels if row[0] == "volta_sgemm_64x64_tn"] == ["fp32"]
    assert any(" answer host_waits " in line for line in labelled(printed)["next"])


def test_waits_are_named_only_where_they_take_much_of_the_host(tmp_path: Path) -> None:
    opening = header(profframe.load(waiting(tmp_path)))
    assert opening.host_waits
    others = pl.DataFrame({"name": ["cudaDeviceSynchronize"]})
    assert not replace(opening, synchronising=others).host_waits
    assert not replace(opening, synchronising=others.clear()).host_waits


@pytest.mark.parametrize("width", [80, 100, 160])
def test_tables_of_modules_and_copies_fit(width: int, tmp_path: Path) -> None:
    trace = profframe.load(waiting(tmp_path))
    opening = header(trace)
    output = OutputOptions("table", None, is_asked_for=False)
    for ranking in ranked(trace, opening, 10, "self_ns", output, has_means=False):
        console = Console(width=width, record=True, file=StringIO())
        console.print(ranking.part(10, width, " ".join))
        assert max(map(cell_len, console.export_text().splitlines())) <= width
