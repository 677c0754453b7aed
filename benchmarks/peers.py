"""Time by kernel from one trace: profframe, and what else people use for it.

::

    python benchmarks/peers.py                       # what is installed here
    python benchmarks/peers.py --python PEERS/python # an environment with the other tools
    python benchmarks/peers.py --small               # does it run? figures mean nothing

Each tool loads the trace in a process of its own and sums the time of each kernel. They take turns;
figures are medians, imports included: seconds, processor time of all threads, peak of memory. A
tool that is not installed is left out, and one whose sum differs from profframe's is marked.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.answers import SOURCES, tiled  # noqa: E402
from tests.places import TRACES  # noqa: E402

EXAMPLE: Final = ROOT / "examples" / "gpu_training.json.gz"
PROFFRAME: Final = "profframe"
TOOLS: Final = {
    PROFFRAME: """
import profframe
trace = profframe.load(path)
total = trace.kernels(per="name")["total_ns"].sum()
""",
    "profframe, self times and key averages, too": """
import profframe
trace = profframe.load(path)
trace.self_times(); trace.key_averages()
total = trace.kernels(per="name")["total_ns"].sum()
""",
    "orjson and plain Python": """
import gzip, orjson
from collections import Counter
text = open(path, "rb").read()
text = gzip.decompress(text) if text[:2] == b"\\x1f\\x8b" else text
times = Counter()
for event in orjson.loads(text)["traceEvents"]:
    if event.get("ph") == "X" and event.get("cat") == "kernel":
        times[event["name"]] += round(event["dur"] * 1000)
total = sum(times.values())
""",
    "polars": """
import gzip, io, polars as pl
text = open(path, "rb").read()
text = gzip.decompress(text) if text[:2] == b"\\x1f\\x8b" else text
event = pl.Struct({"ph": pl.String, "cat": pl.String, "name": pl.String, "dur": pl.Float64})
rows = pl.read_json(io.BytesIO(text), schema={"traceEvents": pl.List(event)})
rows = rows.explode("traceEvents").unnest("traceEvents")
times = rows.filter(ph="X", cat="kernel").group_by("name").agg(pl.col("dur").sum())
total = round(times["dur"].sum() * 1000)
""",
    "duckdb": """
import duckdb
event = "STRUCT(ph VARCHAR, cat VARCHAR, name VARCHAR, dur DOUBLE)"
rows = duckdb.sql(f'''
    SELECT event.name, sum(event.dur) FROM (
        SELECT unnest(traceEvents) AS event
        FROM read_json('{path}', columns = {{traceEvents: '{event}[]'}},
            maximum_object_size = 2000000000)
    ) WHERE event.ph = 'X' AND event.cat = 'kernel' GROUP BY ALL
''').fetchall()
total = round(sum(time for _, time in rows) * 1000)
""",
    "HolisticTraceAnalysis": """
import logging; logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: path}, trace_dir=".")
_, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=10**6)
total = round(kernels["sum (us)"].sum() * 1000)
""",
    "TraceLens": """
from TraceLens import TreePerfAnalyzer
kernels = TreePerfAnalyzer.from_file(path).get_df_kernels()
total = round(kernels["Kernel duration (µs)"].sum() * 1000)
""",
}
_RUN: Final = """
import contextlib, json, os, resource, sys, time, warnings
warnings.simplefilter("ignore")
path = sys.argv[1]
start = time.perf_counter()
out = sys.stdout
with open(os.devnull, "w") as devnull, contextlib.redirect_stdout(devnull):
{code}
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({{
    "wall": time.perf_counter() - start,
    "cpu": sum(one.ru_utime + one.ru_stime for one in used),
    "peak": max(one.ru_maxrss for one in used) * 1024,
    "total": int(total),
}}), file=out)
"""
_PACKAGES: Final = {
    "orjson and plain Python": "orjson", "polars": "polars", "duckdb": "duckdb",
    "HolisticTraceAnalysis": "HolisticTraceAnalysis", "TraceLens": "TraceLens",
}  # fmt: skip


def measure(tool: str, path: Path, python: str) -> dict[str, Any] | str:
    """Seconds and bytes of one process, and its sum; or the last line of its error."""
    own = tool.startswith(PROFFRAME)
    indented = "\n".join(f"    {line}" for line in TOOLS[tool].strip().splitlines())
    environment = os.environ | {"PYTHONPATH": str(ROOT) if own else ""}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # nothing would be compiled only once
    done = subprocess.run(
        [sys.executable if own else python, "-c", _RUN.format(code=indented), str(path)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["it was killed"])[-1]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def version(tool: str, python: str) -> str:
    """The version of the package that a tool is."""
    if tool not in _PACKAGES:
        return ""
    code = f"import importlib.metadata as m; print(m.version({_PACKAGES[tool]!r}))"
    done = subprocess.run(
        [python, "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": ""},
        check=False,
    )
    return f" {done.stdout.strip()}"


def main() -> None:
    """Print a line per tool."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a tiny trace, no figures")
    parser.add_argument("--python", default=sys.executable, help="with the other tools")
    parser.add_argument("-n", type=int, default=3, help="repetitions")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = EXAMPLE
        if not arguments.small and (TRACES / SOURCES["training with collectives"]).is_file():
            path = tiled(SOURCES["training with collectives"], 420_000, Path(folder))
        rounds = 1 if arguments.small else arguments.n
        taken: dict[str, list[dict[str, Any]]] = {}
        for _ in range(rounds):
            for tool in TOOLS:
                found = measure(tool, path, arguments.python)
                if isinstance(found, str):
                    print(f"{tool}: {found}", file=sys.stderr)
                else:
                    taken.setdefault(tool, []).append(found)
        print(f"{path.stat().st_size / 1e6:.0f} MB, medians of {rounds} on {os.cpu_count()} cores")
        first = {name: statistics.median(one[name] for one in taken[PROFFRAME])
                 for name in ("wall", "cpu")}  # fmt: skip
        for tool, runs in taken.items():
            wall, cpu, peak = (
                statistics.median(one[name] for one in runs) for name in ("wall", "cpu", "peak")
            )
            is_same = runs[0]["total"] == taken[PROFFRAME][0]["total"]
            print(
                f"{wall:7.2f} s {wall / first['wall']:6.1f}x  processor {cpu:7.2f} s "
                f"{cpu / first['cpu']:6.1f}x  {peak / 1e6:6,.0f} MB  "
                f"{tool}{version(tool, arguments.python)}{'' if is_same else ', another sum'}"
            )


if __name__ == "__main__":
    main()
