"""Questions of many runs: time per million events for 10, 100 and 1,000 runs, memory, and errors.

::

    python benchmarks/many_runs.py           # about six minutes, and 1 GB in the temporary folder
    python benchmarks/many_runs.py --small   # does it all run? figures mean nothing

A real trace is tiled to 20,000 slices. Each run is that trace with the times of each op and kernel
longer or shorter by 3 % (log-normal), and of the whole run by 3 % more, written as Parquet straight
from the loaded tables. In the last 20 runs one op takes 8 % longer. All questions of a store are
asked in a process of its own, of a trace that `load(..., memory_limit="2GB")` gives.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.tiling import document, tile  # noqa: E402
from tests.places import TRACES  # noqa: E402

SOURCE: Final = "facebookresearch__param/dlrm_kineto/worker0_step_12.1694128201545.pt.trace.json.gz"
EXAMPLE: Final = ROOT / "examples" / "cpu_training.json.gz"

JITTER: Final = 0.03
PLANT: Final = 1.08
PLANTED_RUNS: Final = 20
DAY_NS: Final = 86_400_000_000_000
MEMORY_LIMIT: Final = "2GB"
PEAK_LIMIT: Final = 2.5e9
GROWTH_LIMIT: Final = 1.25
"""Time per event of the most runs, over that of ten times fewer; what more is noise."""
NEAR: Final = 5
"""Runs by which noise may move a change of 8 %."""
JITTERED: Final = ("dur_ns", "self_ns", "device_ns", "self_device_ns")


@dataclass(frozen=True)
class Sizes:
    """Slices of a run, numbers of runs, simulations."""

    events: int
    runs: tuple[int, ...]
    simulations: int


FULL: Final = Sizes(events=20_000, runs=(10, 100, 1_000), simulations=100)
SMALL: Final = Sizes(events=1_000, runs=(30, 60), simulations=5)


@dataclass(frozen=True, eq=False)
class Template:
    """A loaded trace that runs are made of, and the op that is planted in some."""

    tables: Mapping[str, pa.Table]
    samples: pl.DataFrame
    planted: str

    @classmethod
    def of(cls, folder: Path, events: int) -> Template:
        """Tile a trace until it has so many slices."""
        from profframe import load

        source = TRACES / SOURCE
        source = source if source.is_file() else EXAMPLE
        path = folder / "tiled.json"
        everything = len(document(source)["traceEvents"])
        slices = load(source).sql("SELECT count(*) FROM events").item()
        tile(source, events * everything // slices, path)
        trace = load(path)
        path.unlink()
        samples = trace.run_samples().filter(pl.col("what") != "annotation")
        planted = samples.filter(what="op").sort("spent_ns", descending=True)["name"][2]
        return cls(trace.tables, samples, planted)

    def write(self, store: Path, number: int, rng: np.random.Generator, *, plant: bool) -> None:
        """One more run, a night after the one before."""
        from profframe.store import write

        events = self.tables["events"]
        names = pa.concat_arrays(events["name"].unify_dictionaries().chunks)
        factors = np.exp(rng.normal(0, JITTER, len(names.dictionary)))
        if plant:
            factors[names.dictionary.index(self.planted).as_py()] *= PLANT
        of_event = factors[names.indices.to_numpy()] * np.exp(rng.normal(0, JITTER))
        changed = dict(self.tables)
        for column in JITTERED:
            changed["events"] = _scaled(changed["events"], column, of_event)
        for table, column in (("events", "start_ns"), ("traces", "start_ns")):
            changed[table] = _later(changed[table], column, number * DAY_NS)
        run = f"night-{number:04d}"
        write({name: _of_run(table, run) for name, table in changed.items()}, store)


def _replaced(table: pa.Table, column: str, values: Any) -> pa.Table:
    at = table.column_names.index(column)
    return table.set_column(at, table.schema.field(at), values)


def _scaled(table: pa.Table, column: str, factors: np.ndarray[Any, Any]) -> pa.Table:
    values = table[column].combine_chunks()
    scaled = np.rint(values.fill_null(0).to_numpy() * factors).astype(np.int64)
    return _replaced(table, column, pa.array(scaled, mask=np.asarray(values.is_null())))


def _later(table: pa.Table, column: str, by_ns: int) -> pa.Table:
    values = table[column].combine_chunks()
    later = values.fill_null(0).to_numpy() + by_ns
    return _replaced(table, column, pa.array(later, mask=np.asarray(values.is_null())))


def _of_run(table: pa.Table, run: str) -> pa.Table:
    codes = pa.array(np.zeros(len(table), np.int32))
    return _replaced(table, "run", pa.DictionaryArray.from_arrays(codes, [run]))


def measure(store: Path) -> dict[str, Any]:
    """Seconds of every question, the peak of memory, and what was found."""
    from profframe import load

    seconds: dict[str, float] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        found = work()
        seconds[name] = time.perf_counter() - start
        return found

    trace = timed("open", lambda: load(store, memory_limit=MEMORY_LIMIT))
    runs = timed("runs", trace.runs)
    timed("self_times", trace.self_times)
    timed("step_times", trace.step_times)
    trend = timed("trend", lambda: trace.trend(["step_p50_ns", "op:*"]))
    baseline = max(runs.height - PLANTED_RUNS, 2)
    names = runs["run"].to_list()
    slower = timed("regressions", lambda: trace.regressions(baseline=names[:baseline]))
    timed("outliers", trace.outliers)
    changes = trend.filter("is_change")
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "seconds": seconds,
        "events": runs["events"].sum(),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit,
        "regressions": slower["name"].to_list(),
        "changes": changes.select("metric", "run").rows(),
    }


def in_own_process(store: Path) -> dict[str, Any]:
    """The same, in a process that nothing else has warmed."""
    command = [sys.executable, "-m", "benchmarks.many_runs", "--measure", str(store)]
    printed = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(printed.stdout.splitlines()[-1])
    return found


def simulated(template: Template, runs: int, rng: np.random.Generator, kind: str) -> pl.DataFrame:
    """What `run_samples` gives for runs that differ in nothing but noise of a kind."""
    samples = template.samples
    shape = samples.height, runs
    each = {
        "run": rng.normal(0, JITTER, runs)[None, :],
        "op": rng.normal(0, JITTER, shape),
        "event": rng.normal(0, JITTER, shape) / np.sqrt(samples["calls"].to_numpy())[:, None],
    }[kind]
    times = samples["spent_ns"].fill_null(0).to_numpy()[:, None] * np.exp(each)
    names = pl.Series("run", [f"night-{number:04d}" for number in range(runs)])
    return (
        samples.select(pl.all().repeat_by(runs).explode())
        .with_columns(run=pl.concat([names] * samples.height))
        .with_columns(spent_ns=pl.Series(np.rint(times).astype(np.int64).ravel()))
    )


def false_alarms(template: Template, runs: int, count: int) -> dict[str, int]:
    """In how many simulations without a plant anything is found, by the kind of noise."""
    from profframe.analysis.regressions import compare_runs, regressions

    rng = np.random.default_rng(2)
    kinds = ("run", "op", "event")
    found = dict.fromkeys(kinds, 0)
    names = [f"night-{number:04d}" for number in range(runs)]
    for number in range(count):
        kind = kinds[number % len(kinds)]
        rows = simulated(template, runs, rng, kind)
        sides = names[:-PLANTED_RUNS], names[-PLANTED_RUNS:]
        found[kind] += regressions(compare_runs(rows, *sides)).height > 0
    return found


def lines(folder: Path, sizes: Sizes, *, judged: bool) -> Iterator[str]:
    """The result as text."""
    template = Template.of(folder, sizes.events)
    store, rng = folder / "store", np.random.default_rng(1)
    last, written, per_event = sizes.runs[-1], 0, []
    for runs in sizes.runs:
        start = time.perf_counter()
        for number in range(written, runs):
            template.write(store, number, rng, plant=number >= last - PLANTED_RUNS)
        made, written = time.perf_counter() - start, runs
        found = in_own_process(store)
        millions = found["events"] / 1e6
        each = {name: taken / millions for name, taken in found["seconds"].items()}
        per_event.append(sum(each.values()))
        yield (
            f"\n{runs:,} runs, {millions:.2f} M events, made in {made:.0f} s: "
            f"{sum(found['seconds'].values()):.1f} s, peak {found['peak_bytes'] / 1e9:.2f} GB"
            + _verdict("<= 2.5 GB", judged, met=found["peak_bytes"] <= PEAK_LIMIT)
        )
        yield "  s per million events: " + ", ".join(f"{n} {s:.2f}" for n, s in each.items())
    growth = per_event[-1] / per_event[-2]
    yield f"\ngrowth of time per event: {growth:.2f}x" + _verdict(
        f"<= {GROWTH_LIMIT}x", judged, met=growth <= GROWTH_LIMIT
    )
    names = found["regressions"]
    yield f"planted: {template.planted} in the last {PLANTED_RUNS} runs; found: {names}" + _verdict(
        "it alone", judged, met=names == [template.planted]
    )
    changes = [(metric, int(run.removeprefix("night-"))) for metric, run in found["changes"]]
    yield f"changes: {changes}" + _verdict(
        f"it alone, within {NEAR} runs of {last - PLANTED_RUNS}",
        judged,
        met=[metric for metric, _ in changes] == [f"op:{template.planted}"]
        and abs(changes[0][1] - last + PLANTED_RUNS) <= NEAR,
    )
    alarms = false_alarms(template, last, sizes.simulations)
    quiet = sizes.simulations - sum(alarms.values())
    yield (
        f"nothing found in {quiet} of {sizes.simulations} simulations, alarms {alarms}"
        + _verdict(">= 95 %", judged, met=quiet >= 0.95 * sizes.simulations)
    )


def _verdict(limit: str, judged: bool, *, met: bool) -> str:
    return f"  {limit} {'met' if met else 'MISSED'}" if judged else ""


def main() -> None:
    """Print each result as soon as it is there."""
    parser = argparse.ArgumentParser(description="Benchmark of many runs.")
    parser.add_argument("--small", action="store_true", help="few runs of few events, no targets")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    folder = Path(tempfile.mkdtemp(prefix="profframe-many-runs-"))
    try:
        for line in lines(folder, SMALL if arguments.small else FULL, judged=not arguments.small):
            print(line, flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
