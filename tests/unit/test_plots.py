"""Charts: their numbers are those of the answers, and what they leave out is said."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import profframe
from profframe import ParameterError, schema
from profframe.pages.flame import FlameGraph
from profframe.trace.plots import Plots
from profframe.trace.trace import Trace
from tests import hostile, needs
from tests.builders import stored
from tests.members import few

needs.charts()

from profframe.pages.plots import chart_parts, palette, split_chart  # noqa: E402

OF_TRACES = (
    "breakdown", "steps", "kernels", "memory", "queue_depth", "idle", "roofline", "ranks",
    "collectives", "trend",
)  # fmt: skip
KINDS = {
    "CPU": [
        "facebookresearch__HolisticTraceAnalysis/cpu_only/rank-34.Jul_15.trimmed.pt.trace.json.gz"
    ],
    "CUDA": [
        "facebookresearch__HolisticTraceAnalysis/critical_path/alexnet_benchmark_result.json.gz"
    ],
    "ROCm": [
        "facebookresearch__HolisticTraceAnalysis/amd/mi250_minitoy_train_ROCm6_2_kineto.json.gz"
    ],
    "MTIA": ["facebookresearch__HolisticTraceAnalysis/mtia/mtia_inference_rank_0.json.gz"],
    "Ascend": [
        f"xiaobingling93-pixel__Ascend-msinsight/v2/level0/rank{n}/trace_view.json.gz"
        for n in (0, 1)
    ],
    "graphs": ["AMD-AGI__TraceLens/inference/sglang_Qwen3-8B_decode.json.gz"],
    "nsys": ["hpcgroup__pipit/saxpy-mpi-cuda_nsys_perlmutter0.sqlite"],
}
"""Small real traces of each kind."""


@pytest.fixture(scope="module")
def gpu(root: Path) -> Iterator[Trace]:
    """A made-up training run on one device, with steps, memory, shapes and collectives."""
    with profframe.load(root / "examples" / "gpu_training.json.gz").session() as trace:
        yield trace


@pytest.fixture(scope="module")
def cpu(example: Path) -> Iterator[Trace]:
    with profframe.load(example).session() as trace:
        yield trace


@pytest.fixture(scope="module")
def job(traces: Path) -> Iterator[Trace]:
    """Eight ranks of a real job."""
    folder = traces / "facebookresearch__param" / "dlrm_kineto"
    with profframe.load(folder / "worker*.json.gz").session() as trace:
        yield trace


@pytest.fixture(scope="module")
def runs() -> Iterator[Trace]:
    """Eight runs of an op, a kernel of the same name and a step; the first two get slower."""
    events: list[dict[str, object]] = []
    for number in range(8):
        run = {"run": f"night-{number}", "rank": 0, "start_ns": 0}
        noise = (number * 7) % 5 * 10_000
        spent = (3_000_000 if number > 3 else 2_000_000) + noise
        slow = {"name": "mm", "dur_ns": spent, "self_ns": spent}
        step = {"name": "ProfilerStep#0", "dur_ns": 9_000_000 + noise, "step": 0}
        events += [run | {"kind": kind} | slow for kind in ("host_op", "kernel")]
        events += [run | {"kind": "annotation"} | step]
    traces = [{"run": f"night-{n}", "rank": 0, "clock": "relative"} for n in range(8)]
    with stored(events=events, traces=traces).session() as trace:
        yield trace


def frames(chart: Any) -> Iterator[pl.DataFrame]:
    """The frames of a chart and of those inside it."""
    if isinstance(getattr(chart, "data", None), pl.DataFrame):
        yield chart.data
    for part in getattr(chart, "vconcat", []):
        yield from frames(part)


def rows_of(chart: Any) -> pl.DataFrame:
    """The one frame of a chart."""
    (rows,) = frames(chart)
    return rows


def said(part: Any) -> list[str]:
    """Titles and subtitles of a specification."""
    found: list[str] = []
    if isinstance(part, dict):
        title = part.get("title")
        if isinstance(title, dict) and "text" in title:
            found += [title["text"], *title.get("subtitle", [])]
        part = list(part.values())
    if isinstance(part, list):
        for value in part:
            found += said(value)
    return found


def svg(chart: Any) -> str:
    """The chart, drawn."""
    spec, rows = split_chart(chart)
    spec["datasets"] = {name: frame.to_dicts() for name, frame in rows.items()}
    drawn: str = needs.module("vl_convert").vegalite_to_svg(spec)
    return drawn


def bars(drawn: str) -> list[str]:
    """What assistive software reads of each bar."""
    return re.findall(r'aria-label="([^"]*)"[^>]*aria-roledescription="bar"', drawn)


def drawn_by(trace: Trace) -> dict[str, Any]:
    """Every chart that the trace has something for; each other one says what it lacks."""
    charts, lacks = {}, []
    for name in OF_TRACES:
        try:
            charts[name] = getattr(Plots(trace), name)()
        except ParameterError as error:
            lacks.append(str(error).partition(":")[0])
    assert {*charts, *lacks} == {*OF_TRACES}
    return charts


def same(shown: pl.Series, answered: pl.Series, size: float) -> bool:
    """Whether a column of a chart is one of the answer in another unit."""
    return (shown - answered / size).abs().max() in (None, 0.0)


class TestBreakdown:
    def test_steps_are_those_of_the_answer(self, gpu: Trace) -> None:
        rows = rows_of(Plots(gpu).breakdown())
        answer = gpu.time_breakdown().filter(pl.col("step").is_not_null())
        assert rows[answer.columns].equals(answer)
        for name in ("compute", "exposed communication", "exposed copy", "idle", "span"):
            assert same(rows[name], answer[f"{name.replace(' ', '_')}_ns"], 1e6)

    def test_bars_add_up_to_the_step(self, gpu: Trace) -> None:
        drawn = bars(svg(Plots(gpu).breakdown()))
        answer = gpu.time_breakdown().filter(pl.col("step").is_not_null())
        found: dict[str, float] = {}
        for bar in drawn:
            step, value = re.search(r"Step: (\w+); Time \(ms\): ([\d.,]+)", bar).groups()  # type: ignore[union-attr]
            found[step] = found.get(step, 0) + float(value.replace(",", ""))
        spans = {str(row["step"]): row["span_ns"] / 1e6 for row in answer.iter_rows(named=True)}
        assert found == pytest.approx(spans)

    def test_whole_traces(self, gpu: Trace) -> None:
        rows = rows_of(Plots(gpu).breakdown(per="trace"))
        assert rows["step"].to_list() == [None]

    def test_without_devices_it_says_how_to_record_them(self, cpu: Trace) -> None:
        with pytest.raises(ParameterError, match=r"breakdown: no device work.*CUDA"):
            Plots(cpu).breakdown()

    def test_per_is_checked(self, gpu: Trace) -> None:
        with pytest.raises(profframe.UnknownNameError, match="did you mean 'step'"):
            Plots(gpu).breakdown(per="steps")

    def test_kernels_per_launch_have_no_chart(self, gpu: Trace) -> None:
        with pytest.raises(profframe.UnknownNameError, match="per is one of name, short_name"):
            Plots(gpu).kernels(per="launch")

    def test_many_steps_are_cut_and_steps_of_one_number_stay_apart(self) -> None:
        rows = pl.DataFrame(
            {
                "run": "r", "rank": 0, "step": [7, 7, *range(8, 500)], "span_ns": 5_000_000,
                "compute_ns": 5_000_000, "exposed_communication_ns": 0, "exposed_copy_ns": 0,
                "unrecorded_ns": 0, "idle_ns": 0,
            }
        )  # fmt: skip
        from profframe.pages.plots import time_charts

        spec, held = split_chart(time_charts.breakdown_of_steps(rows))
        assert held["rows_0"]["at"].head(3).to_list() == ["7", "7 (2)", "8"]
        assert held["rows_0"].height == 400
        assert said(spec)[1:] == ["first 400 steps of a trace; 94 steps left out"]


class TestSteps:
    def test_times_are_those_of_the_answer(self, gpu: Trace) -> None:
        rows, answer = rows_of(Plots(gpu).steps()), gpu.step_times()
        assert rows[answer.columns].equals(answer)
        assert same(rows["whole step"], answer["step_ns"], 1e6)
        assert same(rows["devices busy"], answer["busy_ns"], 1e6)

    def test_without_devices_there_is_one_line(self, cpu: Trace) -> None:
        spec, _ = split_chart(Plots(cpu).steps())
        assert spec["transform"][0]["fold"] == ["whole step"]

    def test_without_steps_it_says_why(self, cpu: Trace) -> None:
        with pytest.raises(ParameterError, match="steps: the filter leaves nothing of the trace"):
            Plots(cpu.filter(end_ns=0)).steps()
        with pytest.raises(ParameterError, match=r"steps: no profiler steps .*prof\.step\(\)"):
            Plots(stored()).steps()


class TestKernels:
    def test_rows_are_those_of_the_answer(self, gpu: Trace) -> None:
        rows = rows_of(Plots(gpu).kernels(top=3, per="name"))
        answer = gpu.kernels(top=3)
        assert rows[answer.columns].equals(answer)
        assert same(rows["total"], answer["total_ns"], 1e6)
        assert rows["of class"].to_list()[-1] == "others"

    def test_top_is_checked(self, gpu: Trace) -> None:
        with pytest.raises(ParameterError, match="top: a number from 1, not 0"):
            Plots(gpu).kernels(top=0)

    def test_same_colour_as_in_the_breakdown(self, gpu: Trace) -> None:
        colours: dict[str, set[str]] = {}
        for chart in (Plots(gpu).kernels(), Plots(gpu).breakdown()):
            scale = split_chart(chart)[0]["encoding"]["color"]["scale"]
            for name, colour in zip(scale["domain"], scale["range"], strict=True):
                colours.setdefault(name.split()[-1], set()).add(colour)
        assert {"compute", "communication"} <= set(colours)
        assert all(len(found) == 1 for found in colours.values())


class TestMemory:
    def test_rows_and_peaks_are_those_of_the_answers(self, cpu: Trace) -> None:
        rows, answer = rows_of(Plots(cpu).memory()), cpu.memory_timeline()
        assert rows[answer.columns].equals(answer)
        assert same(rows["allocated"], answer["allocated_bytes"], 2**20)
        start = cpu.traces["start_ns"].item()
        assert same(rows["time"], answer["time_ns"] - start, 1e6)
        peak = cpu.memory_peak()
        marked = rows.filter(pl.col("peak").is_not_null())
        assert marked["time_ns", "allocated_bytes"].equals(peak["time_ns", "allocated_bytes"])
        assert marked["peak"].to_list() == ["peak 8.52 MiB, aten::empty"]

    def test_each_device_has_its_unit(self, gpu: Trace) -> None:
        chart = Plots(gpu).memory()
        for row in rows_of(chart).select("unit", "allocated", "allocated_bytes").iter_rows():
            size = {unit.name: unit.size for unit in chart_parts.BYTES}[row[0]]
            assert row[1] == row[2] / size

    def test_points_thin_it(self, cpu: Trace) -> None:
        assert rows_of(Plots(cpu).memory(points=50)).height <= 50


class TestQueues:
    def test_rows_are_those_of_the_answer(self, gpu: Trace) -> None:
        rows, answer = rows_of(Plots(gpu).queue_depth(points=20)), gpu.queue_depth(points=20)
        assert rows[answer.columns].equals(answer)

    def test_deepest_streams_are_kept_and_the_cut_is_said(self) -> None:
        from profframe.pages.plots import moments

        streams = [
            {"stream": s, "time_ns": t, "depth": (9 - s) * (1 - t)}
            for s in range(9)
            for t in (0, 1)
        ]
        rows = pl.DataFrame(streams).with_columns(run=pl.lit("r"), rank=0, device=0)
        traces = pl.DataFrame(
            {"run": ["r"], "rank": [0], "start_ns": [0]}, schema_overrides={"rank": pl.Int32}
        )
        rows = rows.with_columns(pl.col("rank").cast(pl.Int32))
        spec, held = split_chart(moments.queue_depth(rows, traces))
        assert sorted(set(held["rows_0"]["line"])) == [f"stream {n}" for n in range(6)]
        assert said(spec)[1:] == ["the 6 deepest of each device; 3 streams left out"]


class TestRanksAndRuns:
    def test_ranks_are_those_of_the_answers(self, job: Trace) -> None:
        bars_of_devices, waits = frames(Plots(job).ranks())
        answer = job.time_breakdown().filter(pl.col("step").is_null())
        assert bars_of_devices[answer.columns].equals(answer)
        stragglers = job.stragglers().sort("run", "rank")
        assert waits[stragglers.columns].equals(stragglers)
        assert same(waits["held up others"], stragglers["held_up_ns"], 1e6)
        assert same(waits["waited"], stragglers["wait_ns"], 1e6)
        times, sizes = frames(Plots(job).collectives(top=3))
        answer = job.collectives(per="size")
        assert times[answer.columns].equals(answer.head(3))
        assert same(times["communication"], answer["total_ns"].head(3), 1e6)
        assert sizes["bus_gb_per_s"].equals(answer.filter(pl.col("bytes") > 0)["bus_gb_per_s"])

    def test_one_rank_is_no_job(self, gpu: Trace) -> None:
        with pytest.raises(ParameterError, match="ranks: no second rank of a run"):
            Plots(gpu).ranks()

    def test_ranks_beyond_the_colours_are_said(self) -> None:
        from profframe.pages.plots import time_charts

        steps = [{"rank": rank, "step": step} for rank in range(20) for step in (0, 1)]
        rows = pl.DataFrame(steps).with_columns(
            run=pl.lit("r"), step_ns=5_000, busy_ns=2_000, busy_share=0.4
        )
        spec, held = split_chart(time_charts.steps(rows))
        assert held["rows_0"]["panel"].n_unique() == chart_parts.MOST_SERIES == 12
        assert said(spec) == ["Time of steps", "first 12 of 20 traces"]

    def test_trend_is_that_of_the_answer(self, runs: Trace) -> None:
        chart = Plots(runs).trend(["op:mm", "span_ns"])
        answer = runs.trend(["op:mm", "span_ns"])
        assert rows_of(chart)[answer.columns].equals(answer)
        assert same(rows_of(chart)["shown"], answer["value"], 1e6)
        assert rows_of(chart)["panel"].unique().sort().to_list() == ["op:mm (ms)", "span (ms)"]

    def test_regressions_are_those_of_the_answer(self, runs: Trace) -> None:
        chart = Plots(runs).regressions(baseline=4, runs=4)
        answer = runs.regressions(baseline=4, runs=4)
        assert answer["name"].to_list() == ["mm", "mm"]
        assert rows_of(chart)[answer.columns].equals(answer)
        assert same(rows_of(chart)["change"], answer["change_ns"], 1e6)
        assert sorted(rows_of(chart)["label"]) == ["mm (kernel)", "mm (op)"]

    def test_nothing_that_got_slower_is_said(self, runs: Trace) -> None:
        spec, _ = split_chart(
            Plots(runs).regressions(baseline=["night-4", "night-5", "night-6"], runs="night-7")
        )
        assert "none of 2 ops and kernels takes longer than noise explains" in said(spec)

    def test_one_run_has_no_trend(self, cpu: Trace) -> None:
        with pytest.raises(ParameterError, match="trend: this trace has one run"):
            Plots(cpu).trend()


class TestRoofline:
    def test_points_are_those_of_the_answer(self, gpu: Trace) -> None:
        rows = rows_of(Plots(gpu).roofline(per="op"))
        answer = gpu.roofline(per="op").filter(
            (pl.col("flop_per_byte") > 0) & (pl.col("flop_per_s") > 0)
        )
        assert rows.height
        assert rows[answer.columns].equals(answer)
        assert same(rows["achieved"], answer["flop_per_s"], 1e12)
        assert same(rows["peak"], answer["peak_flop_per_s"], 1e12)

    def test_what_is_not_shown_is_said(self, gpu: Trace) -> None:
        chart, answer = Plots(gpu).roofline(), gpu.roofline()
        left_out = answer.height - rows_of(chart).height
        assert any(text.startswith(f"{left_out} row") for text in said(split_chart(chart)[0]))


def test_flame_has_the_rows_of_the_answer(cpu: Trace) -> None:
    graph = Plots(cpu).flame(top=50)
    assert isinstance(graph, FlameGraph)
    assert graph.data.equals(cpu.answer("flame", top=50))


def test_a_split_chart_holds_no_rows(gpu: Trace) -> None:
    spec, held = split_chart(Plots(gpu).kernels())
    assert spec["data"] == {"name": "rows_0"}
    assert "datasets" not in spec
    assert {"label", "total", "of class"} <= set(held["rows_0"].columns)
    assert "std_ns" not in held["rows_0"].columns
    assert not any(label in json.dumps(spec) for label in held["rows_0"]["label"])


def test_splitting_a_chart_does_not_change_it(gpu: Trace) -> None:
    chart = Plots(gpu).memory()
    split_chart(chart)
    assert isinstance(chart.data, pl.DataFrame)


@pytest.mark.parametrize("name", OF_TRACES[:-3])
def test_specifications_are_valid_and_have_units(gpu: Trace, name: str) -> None:
    spec = getattr(Plots(gpu), name)().to_dict()
    axes = re.findall(
        r'"title": "([^"]*\((?:us|ms|s|B|KiB|MiB|GiB|GB/s|TFLOP/s)\))"', json.dumps(spec)
    )
    assert axes


@pytest.mark.parametrize("kind", few(KINDS, ("CPU", "CUDA", "Ascend", "nsys")))
def test_real_traces(kind: str, traces: Path) -> None:
    charts = drawn_by(profframe.load([traces / path for path in KINDS[kind]]))
    assert ("kernels" in charts) == (kind != "CPU")
    for chart in charts.values():
        spec, held = split_chart(chart)
        assert said(spec)
        assert all(frame.height for frame in held.values())


def test_eight_ranks(job: Trace) -> None:
    charts = drawn_by(job)
    assert set(charts) == {*OF_TRACES} - {"memory", "trend"}
    assert svg(charts["ranks"]).startswith("<svg")


def test_hostile_names_are_drawn(hostile_trace: Trace) -> None:
    control = re.compile(rf"[\t\n]|(?!\u200b){hostile.ACTS.pattern}")
    for name, chart in drawn_by(hostile_trace).items():
        spec, held = split_chart(chart)
        assert not any(control.search(text) for text in said(spec))
        for frame in held.values():
            for column in frame.select(pl.col(pl.String)):
                assert not any(control.search(text) for text in column.drop_nulls()), (
                    name,
                    column.name,
                )
        drawn = svg(chart)
        assert "<script" not in drawn
        assert "<img" not in drawn


def test_every_hostile_kernel_has_its_bar(hostile_trace: Trace) -> None:
    chart = Plots(hostile_trace).kernels(top=1000, per="name")
    assert {"__proto__", "constructor"} <= set(rows_of(chart)["name"])
    assert len(bars(svg(chart))) == rows_of(chart).height


def test_each_light_colour_has_one_dark_one() -> None:
    assert len({*palette.DARK.values()}) == len(palette.DARK)
    assert set(palette.DARK).isdisjoint(palette.DARK.values())
    assert {*palette.CLASSES} >= {*schema.KINDS}


def test_without_altair_the_error_has_the_pip_line(example: Path) -> None:
    code = (
        "import sys; sys.modules['altair'] = None\n"
        "import profframe\n"
        f"trace = profframe.load({str(example)!r})\n"
        "try: trace.plot.steps()\n"
        "except profframe.MissingExtraError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "charts need altair: pip install 'profframe[plot]'\n"


def test_an_empty_trace_says_what_it_lacks() -> None:
    empty = stored()
    assert drawn_by(empty) == {}
    with pytest.raises(ParameterError, match="flame: no slices of any kind in this trace"):
        Plots(empty).flame()


def test_many_devices_share_the_rows_that_altair_takes() -> None:
    memory = [
        {"rank": rank, "time_ns": time, "bytes": 1, "device_type": "CUDA", "device": 0}
        for rank in range(10)
        for time in range(1000)
    ]
    ranks = [{"rank": rank, "clock": "relative", "start_ns": 0} for rank in range(10)]
    trace = stored(memory=memory, traces=ranks)
    chart = Plots(trace).memory()
    assert rows_of(chart).group_by("rank").len()["len"].to_list() == [625] * 8
    assert said(split_chart(chart)[0]) == ["Memory over time", "first 8 of 10 devices"]
    assert rows_of(Plots(trace).memory(points=1000)).height == 8000


def test_every_hostile_run_has_its_panel_and_its_line() -> None:
    names = ["__proto__", "constructor", "<script>x</script>", "\x1b[31m", "a, b", "toString"]
    kernel = {"kind": "kernel", "device": 0, "stream": 7, "dur_ns": 2_000, "self_ns": 2_000}
    events = [
        {"run": run, "event_id": step, "name": run, "start_ns": 5_000 * step} | kernel
        for run in names
        for step in range(2)
    ]
    ranks = [{"run": run, "clock": "relative", "start_ns": 0} for run in names]
    trace = stored(events=events, traces=ranks)
    for chart, found in ((Plots(trace).kernels(), 6), (Plots(trace).idle(), 6)):
        assert len(bars(svg(chart))) == found
    assert len(bars(svg(Plots(trace).breakdown()))) == 4 * len(names)
    drawn = svg(Plots(trace).trend("span_ns"))
    assert len(re.findall(r'aria-label="Run: [^"]*"[^>]*aria-roledescription="point"', drawn)) == 6
