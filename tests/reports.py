"""What reports are held against: traces of every kind, and the answers that their tables show.

Rows of a page are texts as the page states them, whether a browser shows them or its data has them.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

import profframe
from profframe import Trace
from profframe.pages.report import frame_columns
from profframe.show.kernel_names import disambiguated, of_answer
from tests.conftest import ROOT, TRACES

HTA: Final = "facebookresearch__HolisticTraceAnalysis"
EXAMPLES: Final = {
    "cpu": "examples/cpu_training.json.gz",
    "cuda": "examples/gpu_training.json.gz",
}
REAL: Final = {
    "cuda, real": [f"{HTA}/critical_path/alexnet_benchmark_result.json.gz"],
    "rocm": [f"{HTA}/amd/mi250_minitoy_train_ROCm6_2_kineto.json.gz"],
    "graphs": ["AMD-AGI__TraceLens/inference/sglang_Qwen3-8B_decode.json.gz"],
    "mtia": [f"{HTA}/mtia/mtia_inference_rank_0.json.gz"],
    "ascend": [
        f"xiaobingling93-pixel__Ascend-msinsight/v2/level0/rank{n}/trace_view.json.gz"
        for n in (0, 1)
    ],
    "8 ranks": ["facebookresearch__param/dlrm_kineto/worker*"],
    "nsys": ["GindaChen__nsys-ai/mock.sqlite"],
    "nvprof": ["josiahdavis__profiling-lm/net.empty.1c9835.sql"],
    "foreign": ["openxla__xprof/tf_trace_viewer_data_trace.json"],
}
KINDS: Final = (*EXAMPLES, *REAL)
MOST_ROWS: Final = 1000
LONGEST: Final = 2000
"""Characters of a text that a page has at most, unless there are too many texts."""
ASKED: Final[dict[str, Callable[[Trace], pl.DataFrame]]] = {
    "overview": Trace.overview,
    "time_breakdown": Trace.time_breakdown,
    "time_breakdown.combination": lambda trace: trace.time_breakdown(per="combination"),
    "step_times": Trace.step_times,
    "self_times": Trace.self_times,
    "operators-0": Trace.key_averages,
    "operators-1": lambda trace: trace.key_averages(group_by_input_shape=True),
    "kernels": lambda trace: _with_short_names(trace.kernels()),
    "memory_bandwidth": Trace.memory_bandwidth,
    "idle": Trace.idle,
    "gaps": Trace.gaps,
    "utilization": lambda trace: _whole(trace.utilization()),
    "python_lines": lambda trace: _with_the_rest(trace.python_lines()),
    "counter_series.counter": lambda trace: trace.counter_series(per="counter"),
    "step_communication": lambda trace: _whole(trace.step_communication()),
    "collective_traffic": Trace.collective_traffic,
    "launches": Trace.launches,
    "queue_depth.stream": lambda trace: trace.queue_depth(per="stream"),
    "memory_peak": Trace.memory_peak,
    "memory_owners": Trace.memory_owners,
    "memory_peak.block": lambda trace: trace.memory_peak(per="block"),
    "modules": Trace.modules,
    "annotations": Trace.annotations,
    "roofline": lambda trace: _with_short_names(trace.roofline()),
    "stragglers": Trace.stragglers,
    "clock_skew": Trace.clock_skew,
    "collectives.size": lambda trace: trace.collectives(per="size"),
    "advice": lambda trace: trace.answer("advice"),
    "quality": lambda trace: trace.quality,
}

Rows = list[dict[str, str]]


@functools.cache
def loaded(kind: str) -> Trace:
    """A trace of the kind; of what is not an example, in the folder of real traces."""
    if kind in EXAMPLES:
        return profframe.load(ROOT / EXAMPLES[kind])
    return profframe.load([str(TRACES / path) for path in REAL[kind]])


def data(path: Path) -> dict[str, Any]:
    """What scripts of a page read."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text())
    assert found is not None
    document: dict[str, Any] = json.loads(found[1])
    return document


def tables_of(document: Mapping[str, Any]) -> dict[str, Rows]:
    """Every row of every frame that is there."""
    frames = document["frames"]
    return {name: _rows(frame, document["texts"]) for name, frame in frames.items()}


def _rows(frame: Mapping[str, Any], texts: list[str]) -> Rows:
    cells = {column["name"]: _stated(column, texts) for column in frame["columns"]}
    return [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]


def _stated(column: Mapping[str, Any], texts: list[str]) -> list[str]:
    if "ids" in column:
        return ["" if one is None else texts[one] for one in column["ids"]]
    values = column["values"]
    if column["sort"] == "moment":
        base, bases = column["base"], [*map(int, column["bases"])]
        starts = [bases[one] for one in (base if isinstance(base, list) else [base] * len(values))]
        values = [
            None if value is None else start + value
            for start, value in zip(starts, values, strict=True)
        ]
    return ["" if value is None else json.dumps(value) for value in values]


def check_numbers(tables: Mapping[str, Rows], trace: Trace) -> None:
    """Every table that shows an answer has its rows."""
    with trace.session() as asked:
        for name, rows in tables.items():
            if name in ASKED:
                answer = ASKED[name](asked)
                is_whole = "short_name" in answer.columns
                check_rows(name, rows, answer if is_whole else of_answer(name, answer))


def _whole(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("step").is_null())


def _with_the_rest(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(pl.col("name").fill_null("(no line of your own code)"))


def _with_short_names(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(disambiguated(rows.select(short_name="name"), "short_name"))


def check_rows(name: str, rows: Rows, answer: pl.DataFrame) -> None:
    """Every cell of the page is in the answer, exactly; none of its columns is made up."""
    assert rows, name
    names = [column for column in rows[0] if column]
    assert set(names) <= set(answer.columns), name
    left_out = set(answer.columns) - set(names) - {"run", "rank"}
    assert all(answer[column].is_null().all() for column in left_out), (name, left_out)
    assert len(rows) == min(answer.height, MOST_ROWS), name
    types = answer.select(names).schema
    found = [tuple(typed(row[c], types[c]) for c in names) for row in rows]
    expected = [tuple(map(comparable, row)) for row in answer.select(names).rows()]
    if answer.height <= MOST_ROWS:
        assert sorted(found, key=repr) == sorted(expected, key=repr), name
    else:
        assert set(found) <= set(expected), name


def typed(text: str, dtype: pl.DataType) -> object:
    """What a cell states."""
    if text == "":
        return None
    if dtype.is_integer():
        return int(text)
    if dtype.is_float():
        return float(text)
    return text == "true" if dtype == pl.Boolean else text


def comparable(value: Any) -> object:
    """A value of an answer as a cell states it."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, str) and value:
        return frame_columns.shortened(value, LONGEST)
    return None if value == "" or (isinstance(value, float) and not math.isfinite(value)) else value
