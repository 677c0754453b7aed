"""Forty questions about real traces: the calls that lead to an answer, and what it has to be.

`read` takes the answer out of the replies; `oracle` computes it out of the files, in plain Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.agents import raw
from tests.agents.raw import Raw, Slice
from tests.agents.replies import Row, lacks, tables

Arguments = Mapping[str, Any]
Texts = list[str]

NOTHING: Final = "nothing is wrong"
SILENT: Final = "the trace cannot tell"
QUERY: Final = "rows of the query"
FINDINGS: Final = "findings"

CPU: Final = ("examples/cpu_training.json.gz",)
CUDA: Final = ("examples/cuda.json.gz",)
PAIR: Final = ("examples/fp32.json.gz", "examples/bf16.json.gz")
SAME: Final = ("examples/fp32.json.gz", "copy of examples/fp32.json.gz")
COMPILED: Final = ("luatil__torch-profile/trace_04.json.gz",)
COPIES: Final = ("pytorch__benchmark/trace.json",)
BUSY: Final = ("pytorch__kineto/docs/after_fix_trace.json",)
TWO_COPIES: Final = ("pytorch__benchmark/trace.json", "pytorch__benchmark/trace2.json")
PIPE: Final = ("pytorch__PiPPy/ref.json",)
EVALUATION: Final = (
    "harryjmoss__particle_transformer/profiler_trace_2024_11_27_eval_mode.json.gz",
)
_HTA: Final = "facebookresearch__HolisticTraceAnalysis"
AMD: Final = (f"{_HTA}/amd/mi250_minitoy_train_ROCm6_2_kineto.json.gz",)
GLOO: Final = (f"{_HTA}/cpu_only/rank-34.Jul_15.trimmed.pt.trace.json.gz",)
ALEXNET: Final = (f"{_HTA}/critical_path/alexnet_benchmark_result.json.gz",)
JOB: Final = tuple(
    f"facebookresearch__param/dlrm_kineto/worker{rank}_step_12.{stamp}.pt.trace.json.gz"
    for rank, stamp in enumerate((
        1694128201545, 1694128201556, 1694128201554, 1694128201557, 1694128201547, 1694128201549,
        1694128201553, 1694128201553,
    ))
)  # fmt: skip


@dataclass(frozen=True)
class Call:
    """A call of a tool; arguments may come from what was replied before."""

    tool: str
    arguments: Arguments | Callable[[Texts], Arguments]

    def given(self, texts: Texts) -> Arguments:
        return self.arguments(texts) if callable(self.arguments) else self.arguments


@dataclass(frozen=True)
class Question:
    """A question, how it is answered, and its answer."""

    text: str
    traces: tuple[str, ...]
    calls: tuple[Call, ...]
    read: Callable[[Texts], object]
    oracle: Callable[[list[Raw]], object]


def _overview() -> Call:
    return Call("overview", {})


def _answer(name: str, **parameters: object) -> Call:
    return Call("answer", {"name": name, "parameters": parameters})


def _sql(query: str) -> Call:
    return Call("sql", {"query": query})


def _only(texts: Texts, title: str = QUERY) -> Row:
    [row] = tables(texts[-1])[title]
    return row


def _rows(texts: Texts, title: str) -> list[Row]:
    return tables(texts[0])[title]


def _values(*names: str, title: str = QUERY) -> Callable[[Texts], object]:
    return lambda texts: tuple(_only(texts, title)[name] for name in names)


def _first(title: str, *names: str) -> Callable[[Texts], object]:
    return lambda texts: tuple(_rows(texts, title)[0][name] for name in names)


def _silent(what: str, *empty: str) -> Callable[[Texts], object]:
    """The trace cannot tell, if a reply names what it lacks and tables are empty."""

    def read(texts: Texts) -> object:
        shown = tables(texts[-1])
        is_empty = all(not shown[title] for title in empty)
        return SILENT if lacks(texts[-1], what) and is_empty else shown

    return read


def _nothing(title: str, words: str = "") -> Callable[[Texts], object]:
    """Nothing is wrong, if a table is empty and a reply says so."""

    def read(texts: Texts) -> object:
        rows = tables(texts[-1])[title]
        return NOTHING if not rows and words in texts[-1] else rows

    return read


def _is_silent(has: Callable[[Raw], object]) -> Callable[[list[Raw]], object]:
    return lambda files: "something" if any(has(file) for file in files) else SILENT


def _is_busy(files: list[Raw]) -> object:
    """Whether the devices had work for more than 95 % of their time."""
    [file] = files
    idle = sum(raw.gaps(file.work))
    return NOTHING if idle < 0.05 * (raw.covered(file.work) + idle) else "idle"


def _rule_for(rule: str, slow: Callable[[Raw], list[Slice]]) -> Callable[[list[Raw]], object]:
    """The rule, if the devices do what it looks for in more than half of their time."""

    def read(files: list[Raw]) -> object:
        [file] = files
        return (rule,) if raw.covered(slow(file)) > 0.5 * raw.covered(file.work) else NOTHING

    return read


def _mm_annotation(files: list[Raw]) -> object:
    slowest = raw.longest(files[0].named("aten::mm"))
    around = raw.innermost(files[0].of("user_annotation"), slowest)
    return slowest["event_id"], slowest["dur_ns"], around["name"]


def _kernel_of_op(files: list[Raw]) -> object:
    slowest = raw.longest(files[0].of("kernel"))
    launch = raw.launches(files[0])[slowest["args"]["correlation"]]
    op = raw.innermost(files[0].of("cpu_op"), launch)
    return slowest["event_id"], slowest["dur_ns"], op["name"]


def _related(texts: Texts, relation: str) -> Row:
    rows = tables(texts[-1])["the event (this) and what is around it"]
    return next(row for row in rows if row["relation"] == relation)


def _event(texts: Texts) -> Arguments:
    return {"event_id": _only(texts)["event_id"]}


def _delays(file: Raw) -> list[int]:
    calls = raw.launches(file)
    return [
        kernel["start_ns"] - call["start_ns"]
        for kernel in file.of("kernel")
        if (call := calls.get(kernel["args"]["correlation"]))
    ]


def _mean_step(file: Raw) -> int:
    """Length of the mean step, rounded half up."""
    steps = file.steps.values()
    return (2 * sum(steps) + len(steps)) // (2 * len(steps))


def _calls_and_time(slices: list[Slice]) -> tuple[int, int]:
    return len(slices), raw.total(slices)


def _nccl(file: Raw) -> list[Slice]:
    return [kernel for kernel in file.of("kernel") if kernel["name"].startswith("nccl")]


WITH_ANSWER: Final = (
    Question(
        "How many slices does the trace have, and how many profiler steps?",
        CPU, (_overview(),),
        _first("overview", "events", "steps"),
        lambda files: (len(files[0].slices), len(files[0].steps)),
    ),
    Question(
        "Which profiler step is the slowest?",
        CPU, (_overview(),),
        lambda texts: max(_rows(texts, "step_times"), key=lambda row: row["step_ns"])["step"],
        lambda files: raw.largest(files[0].steps)[0],
    ),
    Question(
        "Which op takes the most time by itself, and how much?",
        CPU, (_overview(),),
        _first("self_times", "name", "self_ns"),
        lambda files: raw.largest(raw.self_times(files[0].of(*raw.HOST))),
    ),
    Question(
        "How often is aten::addmm called, and how long does it take in all?",
        CPU,
        (_sql("SELECT count(*) AS calls, sum(dur_ns) AS ns FROM events WHERE name='aten::addmm'"),),
        _values("calls", "ns"),
        lambda files: _calls_and_time(files[0].named("aten::addmm")),
    ),
    Question(
        "What is the most memory that was allocated?",
        CPU, (_answer("memory_peak"),),
        _first("memory_peak", "allocated_bytes"),
        lambda files: (
            max(event["args"]["Total Allocated"] for event in files[0].memory),
        ),
    ),
    Question(
        "Which call of aten::mm is the longest, and in which annotation is it?",
        CPU,
        (
            _sql("SELECT event_id FROM events WHERE name='aten::mm' ORDER BY dur_ns DESC LIMIT 1"),
            Call("event", _event),
        ),
        lambda texts: (
            _related(texts, "this")["event_id"], _related(texts, "this")["dur_ns"],
            _related(texts, "annotation")["name"],
        ),
        _mm_annotation,
    ),
    Question(
        "How many threads of the host have slices?",
        CPU, (_overview(),),
        _first("overview", "threads"),
        lambda files: (len({(e["pid"], e["tid"]) for e in files[0].of(*raw.HOST)}),),
    ),
    Question(
        "Which kernel takes the most time of the device, and how much?",
        CUDA, (_answer("kernels", per="name"),),
        _first("kernels", "name", "total_ns"),
        lambda files: raw.largest(raw.totals(files[0].of("kernel"))),
    ),
    Question(
        "For how long was the device busy?",
        CUDA, (_overview(),),
        _first("overview", "device_busy_ns"),
        lambda files: (raw.covered(files[0].work),),
    ),
    Question(
        "What is the longest time that the device had nothing to do between two pieces of work?",
        CUDA, (_answer("gaps", top=1),),
        _first("gaps", "dur_ns"),
        lambda files: (max(raw.gaps(files[0].work)),),
    ),
    Question(
        "How many bytes were copied from the host to the device?",
        CUDA,
        (_sql("SELECT sum(bytes) AS bytes FROM events WHERE kind='memcpy' AND name LIKE '%Hto%'"),),
        _values("bytes"),
        lambda files: (
            sum(e["args"]["bytes"] for e in files[0].of("gpu_memcpy") if "HtoD" in e["name"]),
        ),
    ),
    Question(
        "How many kernels did replays of CUDA graphs launch?",
        CUDA,
        (
            _sql(
                "SELECT count(*) AS kernels FROM events AS k JOIN events AS l ON k.launch_id = "
                "l.event_id WHERE k.kind = 'kernel' AND l.name = 'cudaGraphLaunch'"
            ),
        ),
        _values("kernels"),
        lambda files: (
            sum(
                raw.launches(files[0])[kernel["args"]["correlation"]]["name"] == "cudaGraphLaunch"
                for kernel in files[0].of("kernel")
            ),
        ),
    ),
    Question(
        "How many streams have kernels?",
        CUDA,
        (_sql("SELECT count(DISTINCT stream) AS streams FROM events WHERE kind = 'kernel'"),),
        _values("streams"),
        lambda files: (len({kernel["args"]["stream"] for kernel in files[0].of("kernel")}),),
    ),
    Question(
        "By how much is a step in bfloat16 shorter than one in float32?",
        PAIR, (Call("diff", {"base": "fp32", "other": "bf16"}),),
        lambda texts: [row["step_ns"] for row in _rows(texts, "mean step")],
        lambda files: [_mean_step(file) for file in files],
    ),
    Question(
        "How many calls of aten::to are in each of the two runs?",
        PAIR,
        (
            _sql(
                "SELECT run, count(*) AS calls FROM events WHERE name = 'aten::to' GROUP BY run "
                "ORDER BY run DESC"
            ),
        ),
        lambda texts: [row["calls"] for row in _rows(texts, QUERY)],
        lambda files: [len(file.named("aten::to")) for file in files],
    ),
    Question(
        "Which kernel call is the longest, and which op launched it?",
        COMPILED,
        (
            _sql(
                "SELECT event_id FROM events WHERE kind = 'kernel' AND launch_id IS NOT NULL "
                "ORDER BY dur_ns DESC LIMIT 1"
            ),
            Call("event", _event),
        ),
        lambda texts: (
            _related(texts, "this")["event_id"], _related(texts, "this")["dur_ns"],
            _related(texts, "op")["name"],
        ),
        _kernel_of_op,
    ),
    Question(
        "How many kernels have no launch in the trace?",
        COMPILED, (_overview(),),
        lambda texts: next(
            row["events"]
            for row in _rows(texts, "quality")
            if row["issue"] == "kernel_without_launch"
        ),
        lambda files: sum(
            work["args"]["correlation"] not in raw.launches(files[0]) for work in files[0].work
        ),
    ),
    Question(
        "Which device did it run on?",
        COMPILED, (_sql("SELECT name FROM devices"),),
        _values("name"),
        lambda files: (files[0].document["deviceProperties"][0]["name"],),
    ),
    Question(
        "How long do the kernels take that Triton made?",
        COMPILED,
        (
            _sql(
                "SELECT count(*) AS calls, sum(dur_ns) AS ns FROM events WHERE kind = 'kernel' "
                "AND starts_with(name, 'triton_')"
            ),
        ),
        _values("calls", "ns"),
        lambda files: _calls_and_time(
            [kernel for kernel in files[0].of("kernel") if kernel["name"].startswith("triton_")]
        ),
    ),
    Question(
        "Which rank spends the most time in kernels of NCCL?",
        JOB,
        (
            _sql(
                "SELECT rank, sum(dur_ns) AS ns FROM events WHERE kind = 'kernel' "
                "AND starts_with(name, 'nccl') GROUP BY rank ORDER BY ns DESC"
            ),
        ),
        _first(QUERY, "rank", "ns"),
        lambda files: raw.largest({file.rank: raw.total(_nccl(file)) for file in files}),
    ),
    Question(
        "How many ranks does the job have, and which backend?",
        JOB, (_overview(),),
        _first("overview", "world_size", "backend"),
        lambda files: (
            files[0].document["distributedInfo"]["world_size"],
            files[0].document["distributedInfo"]["backend"],
        ),
    ),
    Question(
        "Which rank takes longest for its step on the host?",
        JOB, (_answer("step_times"),),
        lambda texts: max(_rows(texts, "step_times"), key=lambda row: row["host_ns"])["rank"],
        lambda files: max(files, key=lambda file: max(file.steps.values())).rank,
    ),
    Question(
        "How long was the device of each rank busy?",
        JOB, (_overview(),),
        lambda texts: {row["rank"]: row["device_busy_ns"] for row in _rows(texts, "overview")},
        lambda files: {file.rank: raw.covered(file.work) for file in files},
    ),
    Question(
        "How often does the job call cudaStreamSynchronize, and how long is it in there?",
        JOB,
        (
            _sql(
                "SELECT count(*) AS calls, sum(dur_ns) AS ns FROM events "
                "WHERE name = 'cudaStreamSynchronize'"
            ),
        ),
        _values("calls", "ns"),
        lambda files: (
            sum(len(file.named("cudaStreamSynchronize")) for file in files),
            sum(raw.total(file.named("cudaStreamSynchronize")) for file in files),
        ),
    ),
    Question(
        "Which of the two runs has the longer mean step, and how long is it in both?",
        TWO_COPIES, (_sql("SELECT run, avg(dur_ns) AS ns FROM events WHERE "
                          "starts_with(name, 'ProfilerStep') GROUP BY run ORDER BY run"),),
        lambda texts: [row["ns"] for row in _rows(texts, QUERY)],
        lambda files: [_mean_step(file) for file in files],
    ),
    Question(
        "Which launch of a kernel takes the host the longest?",
        AMD,
        (
            _sql(
                "SELECT event_id, dur_ns FROM events WHERE name = 'hipLaunchKernel' "
                "ORDER BY dur_ns DESC LIMIT 1"
            ),
        ),
        _values("event_id", "dur_ns"),
        lambda files: (
            raw.longest(files[0].named("hipLaunchKernel"))["event_id"],
            raw.longest(files[0].named("hipLaunchKernel"))["dur_ns"],
        ),
    ),
    Question(
        "How long did a kernel wait at most, from the begin of its launch?",
        AMD,
        (
            _sql(
                "SELECT max(k.start_ns - l.start_ns) AS ns FROM events AS k JOIN events AS l "
                "ON k.launch_id = l.event_id WHERE k.kind = 'kernel'"
            ),
        ),
        _values("ns"),
        lambda files: (max(_delays(files[0])),),
    ),
    Question(
        "How long do all calls of cudaFree take?",
        ALEXNET, (_overview(),),
        lambda texts: next(
            row["total_ns"] for row in _rows(texts, "self_times") if row["name"] == "cudaFree"
        ),
        lambda files: raw.total(files[0].named("cudaFree")),
    ),
    Question(
        "For how long was the device idle between its first and its last work?",
        ALEXNET, (_overview(),),
        _first("time_breakdown", "idle_ns"),
        lambda files: (sum(raw.gaps(files[0].work)),),
    ),
    Question(
        "What slows this program down?",
        COPIES, (Call("advice", {}),),
        _first(FINDINGS, "rule"),
        _rule_for("exposed_copies", lambda file: file.of("gpu_memcpy")),
    ),
)  # fmt: skip
WITHOUT_ANSWER: Final = (
    Question(
        "Which kernel takes the most time?",
        CPU, (_answer("kernels"),),
        _silent("no device work", "kernels"),
        _is_silent(lambda file: file.work),
    ),
    Question(
        "Which line of the program takes the most time?",
        CPU, (_answer("python_lines"),),
        _silent("no stacks", "python_lines"),
        _is_silent(lambda file: file.of("python_function") or file.has_arg("Call stack")),
    ),
    Question(
        "What makes the second run slower than the first?",
        SAME, (Call("diff", {"base": "fp32", "other": "again"}),),
        lambda texts: (
            NOTHING
            if "the sides do not differ" in texts[0]
            and not any(row["change_ns"] for row in _rows(texts, "causes"))
            else _rows(texts, "causes")
        ),
        lambda files: NOTHING if files[0].slices == files[1].slices else "something",
    ),
    Question(
        "What is the most memory that was allocated?",
        GLOO, (_answer("memory_peak"),),
        _silent("no memory records", "memory_peak"),
        _is_silent(lambda file: file.memory),
    ),
    Question(
        "What slows this program down?",
        BUSY, (Call("advice", {}),),
        _nothing(FINDINGS, "rules found anything wrong"),
        _is_busy,
    ),
    Question(
        "Do the ranks call different collectives?",
        JOB, (_answer("collectives", mismatched=True),),
        _silent("no collective names", "collectives"),
        _is_silent(lambda file: file.has_arg("Collective name")),
    ),
    Question(
        "Which profiler step is the slowest?",
        ALEXNET, (_answer("step_times"),),
        _silent("no profiler steps", "step_times"),
        _is_silent(lambda file: file.steps),
    ),
    Question(
        "Which rank do the others wait for?",
        AMD, (_answer("stragglers"),),
        _silent("no run of several ranks", "stragglers"),
        lambda files: SILENT if len(files) == 1 else "something",
    ),
    Question(
        "Which input shapes take the most time?",
        PIPE,
        (
            Call("answer", {
                "name": "key_averages", "parameters": {"group_by_input_shape": True},
                "columns": ["name", "input_dims", "self_cpu_ns"],
            }),
            _overview(),
        ),
        lambda texts: (
            SILENT
            if lacks(texts[1], "no input shapes")
            and all(row.get("input_dims") is None for row in _rows(texts, "key_averages"))
            else _rows(texts, "key_averages")
        ),
        _is_silent(lambda file: any(e["args"].get("Input Dims") for e in file.of("cpu_op"))),
    ),
    Question(
        "Is anything in the file damaged?",
        EVALUATION, (_overview(),),
        _nothing("quality"),
        lambda files: (
            NOTHING
            if all(e["dur_ns"] >= 0 and e["name"] and e["cat"] for e in files[0].slices)
            else "something"
        ),
    ),
)  # fmt: skip
"""Nothing is wrong, or the trace cannot tell."""
QUESTIONS: Final = (*WITH_ANSWER, *WITHOUT_ANSWER)
