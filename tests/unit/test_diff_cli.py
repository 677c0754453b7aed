"""``profframe diff``: what it prints, where, and its exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from profframe import load
from profframe.show import diff_text, units
from tests import needs
from tests.builders import Row, event, loaded, stored, together
from tests.conftest import Run
from tests.members import few
from tests.property.test_step_times import call_of, work

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
FP32, BF16 = (str(EXAMPLES / f"{name}.json.gz") for name in ("fp32", "bf16"))
HOSTILE = "[red]a[/red]\x1b[31m\nb 名前 '\"<b>"


def write(path: Path, events: list[dict[str, object]]) -> str:
    traces = [{"run": run} for run in {event["run"] for event in events}]
    stored(events=events, traces=traces).to_parquet(path)
    return str(path)


def store(path: Path, scale: float) -> str:
    """A store of an op, a small op of its own, a kernel with a hostile and long name, a range."""
    slices = [
        ("host_op", "aten::mm", 10e6 * scale),
        ("host_op", f"only {scale}", 1e3),
        ("kernel", HOSTILE + "x" * 100, 12.3e6 * scale),
        ("annotation", "step", 30e6),
    ]
    events = [
        {"run": "r", "event_id": i, "kind": kind, "name": name}
        | {"self_ns": round(ns), "dur_ns": round(ns)}
        for i, (kind, name, ns) in enumerate(slices)
    ]
    return write(path, events)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    return store(tmp_path / "a", 1), store(tmp_path / "b", 1.138)


def test_totals_then_the_largest(run: Run, pair: tuple[str, str]) -> None:
    code, out, err = run("diff", *pair, "--names", "old,new")

    assert (code, err) == (0, "")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert lines[:5] == [
        f"old {pair[0]}",
        f"new {pair[1]}",
        "op self time 10.001 ms -> 11.381 ms (+13.8 %) 1 added, 1 removed, 1 changed",
        "kernels 12.300 ms -> 13.997 ms (+13.8 %) 1 changed",
        "annotations nothing changed",
    ]
    assert lines[6:9] == [
        "Ops, self time",
        "name change old new growth % status contribution % old calls new calls",
        "aten::mm 1.380 ms 10.000 ms 11.380 ms 13.8 % changed 100.0 % 1 1",
    ]
    assert {line.split()[0] for line in lines[9:11]} == {"only"}
    assert "Annotations" not in out
    assert lines[-1].startswith("not tested against noise")


def on_device(path: Path, model: str, peak: float) -> str:
    """A store of a kernel that takes as long on every device, and of an op."""
    kernel = {"kind": "kernel", "name": "gemm", "dur_ns": 1_000_000, "device": 0}
    kernel |= {"flops": 10**10, "work_id": 0, "work_dtype": "fp32"}
    op = {"kind": "host_op", "name": "aten::mm", "self_ns": 10, "dur_ns": 10}
    events = [{"run": "r", "event_id": i} | event for i, event in enumerate((kernel, op))]
    devices = [{"run": "r", "device": 0, "name": model, "fp32_flop_per_s": peak}]
    stored(events=events, traces=[{"run": "r"}], devices=devices).to_parquet(path)
    return str(path)


class TestOtherDevice:
    @pytest.fixture
    def sides(self, tmp_path: Path) -> tuple[str, str]:
        return (
            on_device(tmp_path / "a", "NVIDIA A100-SXM4-80GB", 2e13),
            on_device(tmp_path / "b", "NVIDIA H100 80GB HBM3", 4e13),
        )

    SAID = "different devices: base on NVIDIA A100-SXM4-80GB, other on NVIDIA H100 80GB HBM3"

    def test_both_models_are_named(self, run: Run, sides: tuple[str, str]) -> None:
        code, out, _ = run("diff", *sides)
        assert code == 0
        assert self.SAID in out.splitlines()
        assert "Kernels" not in out

    def test_in_a_comment(self, run: Run, sides: tuple[str, str]) -> None:
        _, out, _ = run("diff", *sides, "--format", "markdown")
        assert f"- {self.SAID}" in out.splitlines()

    def test_not_where_they_are_the_same(self, run: Run, sides: tuple[str, str]) -> None:
        _, out, _ = run("diff", sides[0], sides[0])
        assert "different devices" not in out

    def test_rows_of_equal_times_have_the_columns_asked_for(
        self, run: Run, sides: tuple[str, str]
    ) -> None:
        columns = "name,status,base_flop_share,other_flop_share"
        code, out, _ = run("diff", *sides, "--columns", columns)
        rows = [" ".join(line.split()) for line in out.splitlines()]
        assert code == 0
        assert "Kernels" in rows
        assert "gemm equal 50.0 % 25.0 %" in rows
        assert "aten::mm equal" in rows


class TestDeviceTimes:
    """Two ranks on one side; kernels overlap each other and a copy, so that they add up to more."""

    @pytest.fixture
    def sides(self, tmp_path: Path) -> tuple[str, str]:
        rows = [work("k", 0, 4_000, 7), work("k", 1_000, 5_000, 8), work("copy", 4_500, 6_000, 9)]
        last = work("k", 9_000, 10_000, 7)  # busy 6 + 1 us of 10
        ranks = loaded(*rows, last), loaded(work("k", 0, 1_000, 7), last, rank=1)  # 2 of 10
        together(*ranks).to_parquet(tmp_path / "a")
        loaded(*rows).to_parquet(tmp_path / "b")  # 6 of 6
        return str(tmp_path / "a"), str(tmp_path / "b")

    def test_busy_and_idle_of_all_ranks(self, run: Run, sides: tuple[str, str]) -> None:
        lines = [" ".join(line.split()) for line in run("diff", *sides)[1].splitlines()]
        assert lines[2:5] == [
            "devices busy 9.000 us -> 6.000 us (-33.3 %)",
            "devices idle 11.000 us -> 0.000 us (-100.0 %)",
            "kernels 11.000 us -> 8.000 us (-27.3 %) 1 changed",
        ]

    def test_none_where_a_side_has_no_devices(self, run: Run, sides: tuple[str, str]) -> None:
        host = str(Path(sides[0]).parent / "host")
        loaded(event("aten::mm", 0, 10)).to_parquet(host)
        assert "devices" not in run("diff", sides[0], host)[1]

    def test_per_step(self, run: Run) -> None:
        one = str(EXAMPLES / "gpu_training.json.gz")
        rows = load(one).time_breakdown().filter(pl.col("step").is_in([1, 2, 3]))
        busy = rows.select(pl.col("span_ns") - pl.col("idle_ns") - pl.col("unrecorded_ns"))
        mean = units.duration(round(busy.to_series().sum() / 3))
        host = load(one).step_times()["host_ns"]
        step = units.duration(round(host.sum() / 3))
        out = run("diff", one, one, "--per", "step", "--steps", "all")[1]
        lines = [" ".join(line.split()) for line in out.splitlines()]
        assert lines[2].startswith(f"step on host {step} -> {step}")
        assert lines[3].startswith(f"devices busy {mean} -> {mean}")

    def test_kernels_of_one_short_name_are_told_apart(self, run: Run, tmp_path: Path) -> None:
        names = [f"void f<{word}>()" for word in ("Add", "Mul")]
        loaded(*(work(name, 0, 1_000, 7) for name in names)).to_parquet(tmp_path / "a")
        loaded(work("g", 0, 1_000, 7)).to_parquet(tmp_path / "b")
        out = run("diff", str(tmp_path / "a"), str(tmp_path / "b"))[1]
        assert {"f [Add]", "f [Mul]", "g"} <= {line.partition("  ")[0] for line in out.splitlines()}


class TestLostWork:
    """A run of two steps; the second launched a kernel that is not there."""

    SAID = "warning: the work of 1 launch of base was not recorded: no number here has it"

    @pytest.fixture
    def sides(self, tmp_path: Path) -> tuple[str, str]:
        steps = [("ProfilerStep#0", 0), ("ProfilerStep#1", 100_000)]
        rows: list[Row] = [
            event(name, at, at + 90_000, category="user_annotation") for name, at in steps
        ]
        for number, (_, at) in enumerate(steps, 1):
            rows += [
                event("aten::mm", at + 10, at + 60),
                call_of("cudaLaunchKernel", at + 20, at + 30, number),
            ]
        kernels = [work("k", 1_000, 2_000, 7, 1), work("k", 101_000, 102_000, 7, 2)]
        for side, there in (("a", kernels[:1]), ("b", kernels)):
            loaded(*rows, *there).to_parquet(tmp_path / side)
        return str(tmp_path / "a"), str(tmp_path / "b")

    def test_it_is_counted(self, run: Run, sides: tuple[str, str]) -> None:
        assert self.SAID in run("diff", *sides)[1].splitlines()
        comment = run("diff", *sides, "--format", "markdown")[1]
        assert f"- {self.SAID}" in comment.splitlines()

    def test_in_the_steps_that_count(self, run: Run, sides: tuple[str, str]) -> None:
        assert "was not recorded" not in run("diff", *sides, "--per", "step")[1]
        assert self.SAID in run("diff", *sides, "--per", "step", "--steps", "all")[1].splitlines()

    def test_causes_say_it(self, run: Run, tmp_path: Path) -> None:
        """Without steps, which would not count, the traces as a whole are compared."""
        rows = [
            event("aten::mm", 10, 60),
            call_of("cudaLaunchKernel", 20, 30, 1),
            event("aten::last", 3_000, 3_010),
        ]
        loaded(*rows).to_parquet(tmp_path / "a")
        loaded(*rows, work("k", 1_000, 2_000, 7, 1)).to_parquet(tmp_path / "b")
        sides = str(tmp_path / "a"), str(tmp_path / "b")
        said = "warning: the work of 1 launch of base was not recorded: no cause has its time"
        code, out, err = run("explain", *sides)
        assert (code, out.splitlines()[0], err) == (0, said, "")
        assert "not recorded" in out.partition("Why a run")[2]
        code, out, err = run("explain", *sides, "--format", "json")
        assert (code, err) == (0, said + "\n")
        assert {row["cause"] for row in json.loads(out)} >= {"unrecorded"}
        assert "warning" not in run("explain", sides[1], sides[1])[1]
        page = tmp_path / "page.html"
        assert run("diff", *sides, "--names", "old,new", "-o", str(page))[0] == 0
        assert said.replace("warning", "Warning").replace("base", "old") in page.read_text()

    def test_where_nothing_is_lost(self, run: Run, sides: tuple[str, str]) -> None:
        assert "was not recorded" not in run("diff", sides[1], sides[1])[1]


def test_hostile_names_and_their_width(run: Run, pair: tuple[str, str]) -> None:
    shown = "[red]a[/red]\\x1b[31m\\nb 名前 '\"<b>"
    _, cut, _ = run("diff", *pair, "--name-width", "20")
    _, whole, _ = run("diff", *pair, "--name-width", "0")
    assert "[red]a[/red]…xxxxxxx  " in cut
    assert shown + "x" * 100 in whole
    assert "\x1b" not in cut + whole


@pytest.mark.parametrize(
    "names", few(["change,to", "from,name", "fp32_a,growth_share", "\x1b[1m, "], 2)
)
def test_any_names(run: Run, pair: tuple[str, str], names: str) -> None:
    code, out, _ = run("diff", *pair, "--names", names)
    assert code == 0
    base, other = names.replace("\x1b", "\\x1b").split(",")
    assert f"{base} calls  {other} calls" in out


def test_top(run: Run) -> None:
    _, out, _ = run("diff", FP32, BF16, "--top", "2")
    assert "Ops, self time (top 2 of " in out


def test_a_trace_with_itself(run: Run) -> None:
    code, out, err = run("diff", FP32, FP32, "--fail-on", "0%")
    assert (code, err) == (0, "")
    assert "(+0.0 %)  nothing changed" in out


def test_fail_on_says_what_grew(run: Run, pair: tuple[str, str]) -> None:
    code, out, err = run("diff", *pair, "--fail-on", "13.7%")
    assert code == 3
    assert err.splitlines() == [
        "grew by more than 13.7%: op self time, 10.001 ms -> 11.381 ms (+13.8 %)",
        "grew by more than 13.7%: kernels, 12.300 ms -> 13.997 ms (+13.8 %)",
    ]
    assert out == run("diff", *pair)[1]
    assert run("diff", *pair, "--fail-on", "13.9%")[::2] == (0, "")
    assert run("diff", *pair[::-1], "--fail-on", "0%")[::2] == (0, "")


def test_fail_on_a_significant_row(run: Run, tmp_path: Path) -> None:
    """Both totals within the limit: one row grew by 20 %, another shrank as much."""
    sides = []
    for scale, name in ((1.0, "a"), (1.2, "b")):
        times = ("up", round(1e6 * scale)), ("down", round(1e6 * (2.2 - scale)))
        events = [
            {"run": f"r{r}", "event_id": i, "kind": "host_op", "name": op, "self_ns": ns + r}
            for r in range(3)
            for i, (op, ns) in enumerate(times)
        ]
        sides.append(write(tmp_path / name, events))
    code, out, err = run("diff", *sides, "--fail-on", "5%")
    assert code == 3
    assert err == "grew by more than 5%: op 'up', significantly, 1.000 ms -> 1.200 ms (+20.0 %)\n"
    assert "mean of 3" in out
    assert "2 changed, 2 significant" in out
    (row,) = (" ".join(line.split()) for line in out.splitlines() if line.startswith("up "))
    assert re.search(r"yes 199\.997 us … 200\.003 us changed", row), row
    assert "not tested" not in out


@pytest.mark.parametrize("limit", ["5x", "5", "", "-5%", "nan%"])
def test_no_limit(run: Run, limit: str) -> None:
    code, out, err = run("diff", "nothing", "nothing", "--fail-on", limit)
    assert (code, out) == (2, "")
    assert f"--fail-on: a limit is a number and %, such as 5%, not {limit!r}" in err


@pytest.mark.parametrize("names", ["a", "a,a", "a,", "a,b,c", ""])
def test_no_names(run: Run, names: str) -> None:
    code, _, err = run("diff", "nothing", "nothing", "--names", names)
    assert code == 2
    assert f"--names: two different names, such as before,after, not {names!r}" in err


def test_errors_are_no_growth(run: Run, tmp_path: Path) -> None:
    code, out, err = run("diff", FP32, str(tmp_path / "no"), "--fail-on", "5%")
    assert (code, out) == (1, "")
    assert err.endswith("no: no such file or directory\n")
    side = store(tmp_path / "a", 1)
    code, _, err = run("diff", side, side, "--per", "step")
    assert (code, err) == (1, "error: per='step': 'base' has nothing inside profiler steps\n")


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_frames(run: Run, tmp_path: Path, form: str) -> None:
    file = tmp_path / f"out.{form}"
    options = ("--per", "step", "--names", "fp32,bf16", "--fail-on", "1%", "-o", str(file))
    code, out, _ = run("diff", FP32, BF16, *options)
    assert (code, out) == (3, "")
    if form == "json":
        rows = pl.DataFrame(json.loads(file.read_text()))
    else:
        rows = pl.read_csv(file) if form == "csv" else pl.read_parquet(file)
    assert rows.columns[:4] == ["what", "name", "base_calls", "other_calls"]
    assert rows.select("base", "other").unique().rows() == [("fp32", "bf16")]
    assert rows.filter(what="op", name="aten::mm")["significant"].to_list() == [True]


def test_nothing_on_either_side(run: Run, tmp_path: Path) -> None:
    stored(traces=[{}]).to_parquet(tmp_path / "s")
    code, out, err = run("diff", str(tmp_path / "s"), str(tmp_path / "s"), "--fail-on", "0%")
    assert (code, err) == (0, "")
    none = "neither side has an op, a kernel or an annotation"
    assert out == f"{none}: on both sides: the trace is empty\n"


@pytest.fixture
def cut_off(tmp_path: Path) -> str:
    """A step with 2 ms of kernels, and 0.5 ms whose launch was cut off."""
    rows: list[tuple[str, int | None]] = [("k", 1), ("k", 2), ("cut off", None)]
    events: list[dict[str, object]] = [
        {"run": "r", "event_id": i, "kind": "kernel", "name": name, "step": step, "device": i % 2}
        | dict.fromkeys(("dur_ns", "self_ns"), 500_000 if step is None else 2_000_000)
        for i, (name, step) in enumerate(rows)
    ]
    return write(tmp_path / "cut off", events)


def test_what_is_left_out_is_in_the_header(run: Run, pair: tuple[str, str], cut_off: str) -> None:
    code, out, _ = run("diff", cut_off, cut_off, "--per", "step")
    assert code == 0
    line = "left out because outside steps: kernels 250.000 us -> 250.000 us per step"
    assert f"{line} (--outside kernels counts it)" in " ".join(out.split())

    _, out, _ = run("diff", cut_off, cut_off, "--per", "step", "--outside", "kernels")
    assert "left out" not in out
    assert "kernels 2.250 ms -> 2.250 ms" in " ".join(out.split())
    assert "left out" not in run("diff", *pair)[1]


def test_calls_that_differ_in_number_have_a_warning(run: Run, tmp_path: Path) -> None:
    sides = [
        write(
            tmp_path / f"{calls}",
            [
                {"run": "r", "event_id": n, "kind": "host_op", "name": "x", "self_ns": 10**6}
                for n in range(calls)
            ]
            + [{"run": "r", "event_id": 9, "kind": "host_op", "name": "y", "self_ns": calls}],
        )
        for calls in (2, 3)
    ]
    _, out, _ = run("diff", *sides)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "warning: a row's calls differ in number: totals compare different" in " ".join(lines)
    (head,) = (line for line in lines if line.startswith("name "))
    assert "growth % base per call other per call status" in head
    (row,) = (line for line in lines if line.startswith("x "))
    assert "50.0 % 1.000 ms 1.000 ms changed" in row
    (same,) = (line for line in lines if line.startswith("y "))
    assert same.endswith("changed 0.0 % 1 1")
    assert "per call" not in run("diff", sides[0], sides[0])[1]


def test_outside_without_steps_is_refused(run: Run, cut_off: str) -> None:
    code, _, err = run("diff", cut_off, cut_off, "--outside", "all")
    assert code == 2
    assert "--outside all: only with --per step" in err


def test_columns_are_chosen(run: Run, pair: tuple[str, str], tmp_path: Path) -> None:
    code, out, _ = run("diff", *pair, "--columns", "name, base_flop_share,other_ns")
    assert code == 0
    assert ["name", "base", "flop", "%", "other"] in [line.split() for line in out.splitlines()]

    file = tmp_path / "out.csv"
    run("diff", *pair, "--columns", "what,base_bandwidth_share", "-o", str(file))
    assert pl.read_csv(file).columns == ["what", "base_bandwidth_share"]

    code, _, err = run("diff", *pair, "--columns", "names")
    assert code == 2
    assert "did you mean 'name'" in err
    assert run("diff", *pair, "--columns", "name,name")[0] == 2


def test_kernels_of_each_device_are_rows(run: Run, cut_off: str, pair: tuple[str, str]) -> None:
    code, out, _ = run("diff", cut_off, pair[0], "--devices", "--columns", "name,device,base_ns")
    lines = [line.split() for line in out.splitlines()]
    assert code == 0
    assert ["k", "0", "2.000", "ms"] in lines
    assert ["k", "1", "2.000", "ms"] in lines


def test_a_data_type_is_checked_before_loading(run: Run, pair: tuple[str, str]) -> None:
    assert run("diff", *pair, "--dtype", "torch.float32")[0] == 0
    code, _, err = run("diff", "absent", "absent", "--dtype", "fp17")
    assert code == 2
    assert "no dtype named 'fp17'" in err


def test_kernels_of_two_vendors_are_compared_by_category(run: Run) -> None:
    base, other = (
        needs.traces(f"AMD-AGI__TraceLens/{name}/Qwen1.5-0.5B-Chat.json.gz")
        for name in ("h100", "mi300")
    )
    hint = "% of kernel time is in kernels that both sides have by name: "
    lines = [line for line in run("diff", base, other)[1].splitlines() if hint in line]
    assert len(lines) == 1
    assert "--kernel-by category compares what they do" in lines[0]
    assert hint not in run("diff", base, other, "--kernel-by", "category")[1]
    assert hint not in run("diff", base, base)[1]


@pytest.mark.parametrize(
    ("models", "why"),
    [
        ((["A"], ["A"]), "name; --kernel-by"),
        ((["A"], ["B"]), "name: devices and libraries name them differently; --kernel-by"),
        (([], []), "name: devices and libraries name them differently; --kernel-by"),
    ],
)
def test_a_device_is_no_reason_for_names_where_both_are_the_same(
    models: tuple[list[str], list[str]], why: str
) -> None:
    sides = {"base": "a", "other": "b", "base_samples": 1, "other_samples": 1}
    same = sides | {"base_steps_left_out": 0, "other_steps_left_out": 0, "warning": None}
    rows = pl.DataFrame(
        [
            same | {"what": "kernel", "base_ns": 10, "other_ns": 0},
            same | {"what": "kernel", "base_ns": 0, "other_ns": 20},
        ]
    )
    assert why in diff_text.remarks(rows, pl.DataFrame(), models)[-1]
