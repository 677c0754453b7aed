"""Stores of 100 to 100,000 members: opening, asking, memory, and how these grow.

::

    python benchmarks/store_members.py           # a quarter of an hour, 5 GB of temporary files
    python benchmarks/store_members.py --small   # does it all run? figures mean nothing

A member is a small trace of one rank, 100 ranks to a run. Its files are real: those of a loaded
example with the name of another run in them, and empty tables are shared by hard links. Each store
comes twice: with a folder for each rank, and with a pack for each run. Each measurement is in a
process of its own that has done the same with a store of six members; memory is its peak beyond
that of ``import profframe``, and beyond that of the small store.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

EXAMPLE: Final = ROOT / "examples" / "cuda.json.gz"
SIZES: Final = (100, 1_000, 10_000, 100_000)
SMALL: Final = (200, 400)
RANKS: Final = 100
EVENTS: Final = 10
NAME: Final = "run-000000"
"""The run of a template; a name of the same length takes its place in copies."""
OWN: Final = ("events", "traces")
"""Tables of which each member has its own file; those of others are empty."""
LINKS: Final = 10_000
"""Most links to a file: a file system has a limit."""
OPEN_LIMIT_S: Final = 0.5
ONE_LIMIT_S: Final = 0.3
MEMORY_LIMIT: Final = 200e6
EXPONENT_LIMIT: Final = 1.1


def main() -> int:
    """Make the stores, measure, and print a table; the exit code is 1 if a limit does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="+")
    parser.add_argument("--kinds", nargs="+", choices=MAKERS, default=[*MAKERS])
    parser.add_argument("--measure", nargs=2, metavar=("NAME", "STORE"))
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(_measured(*options.measure)))
        return 0
    sizes = options.sizes or (SMALL if options.small else SIZES)
    is_right = True
    with tempfile.TemporaryDirectory(prefix="profframe-members-") as folder:
        make_folders(Path(folder) / "one", 6)
        for kind in options.kinds:
            rows = []
            for size in sizes:
                path = Path(folder) / f"{kind}-{size}"
                start = time.perf_counter()
                MAKERS[kind](path, size)
                print(f"{kind}, {size:,}: made in {time.perf_counter() - start:.0f} s", flush=True)
                rows.append({name: _in_process(name, path) for name in MEASUREMENTS})
                shutil.rmtree(path)
            is_right &= _print(kind, sizes, rows, is_small=options.small)
    return 0 if is_right else 1


def _template(ranks: int) -> Mapping[str, pa.Table]:
    """All tables of one run, with few events of each rank."""
    from profframe import load, schema

    trace = load(EXAMPLE, run=NAME, rank=0)
    empty = {name: table.arrow.empty_table() for name, table in schema.TABLES.items()}
    rows = {"events": trace.events.to_arrow(), "traces": trace.traces.to_arrow()}
    tables = {name: schema.conform(name, rows[name][:EVENTS], NAME, 0) for name in OWN}
    return {
        name: pa.concat_tables(_of_rank(tables[name], rank) for rank in range(ranks))
        if name in OWN
        else rows
        for name, rows in empty.items()
        if name in OWN or name not in schema.OPTIONAL_TABLES
    }


def _of_rank(rows: pa.Table, rank: int) -> pa.Table:
    place = rows.schema.get_field_index("rank")
    ranks = pa.array([rank] * len(rows), rows.schema.field("rank").type)
    return rows.set_column(place, rows.schema.field("rank"), ranks)


def _files(folder: Path, tables: Mapping[str, pa.Table]) -> Mapping[str, bytes]:
    """Contents of the files of a folder, uncompressed, so that a name can be replaced."""
    from profframe import schema
    from profframe.store.layout import write_manifest
    from profframe.store.parquet import VERSION_KEY

    folder.mkdir(parents=True)
    for name, rows in tables.items():
        texts = [c.name for c in schema.TABLES[name] if c.type != schema.TEXT]
        metadata = {VERSION_KEY: str(schema.SCHEMA_VERSION)}
        with pq.ParquetWriter(
            folder / f"{name}.parquet",
            rows.schema,
            compression="none",
            use_dictionary=texts,
            store_schema=False,
        ) as writer:
            writer.add_key_value_metadata(metadata)
            writer.write_table(rows)
    write_manifest(folder)
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def _run(number: int) -> str:
    return f"run-{number:06}"


def _write(folder: Path, files: Mapping[str, bytes], run: str, shared: Path, number: int) -> None:
    """Write a folder: own files with the name of a run, and links to the others."""
    folder.mkdir(parents=True)
    for name, content in files.items():
        if name.removesuffix(".parquet") in OWN:
            (folder / name).write_bytes(content.replace(NAME.encode(), run.encode()))
            continue
        source = shared / f"{number // LINKS}-{name}"
        if not source.exists():
            source.write_bytes(content)
        os.link(source, folder / name)


def make_folders(path: Path, members: int) -> None:
    """A store with a folder for each rank."""
    from profframe.store.catalogue.rows import as_table, rows_of, run_states
    from profframe.store.catalogue.segments import LocalSegments, append
    from profframe.store.layout import Place

    shared = path.with_name(f"{path.name}-shared")
    shared.mkdir()
    template = _template(RANKS)
    of_ranks = []
    for rank in range(RANKS):
        tables = {
            name: rows.filter(pa.compute.equal(rows["rank"], rank)) if name in OWN else rows
            for name, rows in template.items()
        }
        of_ranks.append(_files(shared / f"rank={rank}", tables))
    rows: list[dict[str, Any]] = []
    for number in range(members):
        run, rank = _run(number // RANKS), number % RANKS
        folder = path / f"run={run}" / f"rank={rank}"
        _write(folder, of_ranks[rank], run, shared, number)
        if not rows:
            [row] = rows_of(path, Place(folder, (run, rank)))
        traces = (folder / "traces.parquet").stat()
        own = {
            "run": run,
            "rank": rank,
            "folder": folder.relative_to(path).as_posix(),
            "traces_bytes": traces.st_size,
            "traces_mtime_ns": traces.st_mtime_ns,
            "folder_mtime_ns": folder.stat().st_mtime_ns,
            "source": f"/traces/{run}/rank{rank}.json.gz",
            "content_hash": f"{number:064x}",
        }
        rows.append(row | own)
    states = run_states(path, [f"run={_run(n)}" for n in range(-(-members // RANKS))])
    for row in rows:
        time_ns, checksum = states[row["folder"].partition("/")[0]]
        row |= {"run_mtime_ns": time_ns, "run_checksum": checksum}
    append(LocalSegments(path), as_table(rows))
    shutil.rmtree(shared)


def make_packs(path: Path, members: int) -> None:
    """A store with a pack for each run."""
    from profframe.store.catalogue.upkeep import record_packs

    shared = path.with_name(f"{path.name}-shared")
    shared.mkdir()
    files = dict(_files(shared / "template", _template(RANKS)))
    content = json.loads(files["manifest.json"])
    packs = []
    for number in range(members // RANKS):
        run = _run(number)
        of_run = [{"run": run, "rank": rank, "events": EVENTS} for rank in range(RANKS)]
        pack = path / f"pack-{number + 1:06}-0123abcd"
        _write(pack, files, run, shared, number)
        (pack / "manifest.json").unlink()
        (pack / "manifest.json").write_text(json.dumps(content | {"members": of_run}))
        packs.append(pack.name)
    record_packs(path, packs)
    shutil.rmtree(shared)


MAKERS: Final[Mapping[str, Callable[[Path, int], None]]] = MappingProxyType(
    {"folders": make_folders, "packs": make_packs}
)


def _open(path: Path) -> object:
    from profframe import load

    return load(path)


def _open_one(path: Path) -> object:
    from profframe import load

    return load(path, runs=NAME, ranks=5)


def _ask_one_run(path: Path) -> object:
    from profframe import load

    rows = load(path, runs=NAME).self_times()
    if not rows.height:
        raise AssertionError(rows)
    return rows


def _ask_runs(path: Path) -> object:
    from profframe import load

    rows = load(path).runs()
    if not rows.height:
        raise AssertionError(rows)
    return rows


def _count(path: Path) -> object:
    from profframe import load

    return load(path).sql("SELECT count(*) FROM events").item()


def _list(path: Path) -> object:
    from profframe.store.maintenance import contents

    return contents(path)


MEASUREMENTS: Final[Mapping[str, Callable[[Path], object]]] = MappingProxyType(
    {
        "open": _open,
        "open one": _open_one,
        "self_times of one run": _ask_one_run,
        "runs": _ask_runs,
        "count of all events": _count,
        "store ls": _list,
    }
)


def _measured(name: str, path: str) -> Mapping[str, float]:
    """Seconds of one measurement, and the peak of memory of this process."""
    import profframe  # noqa: F401 - not a part of the time

    work, store = MEASUREMENTS[name], Path(path)
    bare = _peak_bytes()
    work(store.with_name("one"))  # imports and starts what takes its time once
    small = _peak_bytes()
    start = time.perf_counter()
    kept = work(store)
    seconds = time.perf_counter() - start
    del kept
    peak = _peak_bytes()
    return {"seconds": seconds, "bytes": peak - bare, "more_bytes": peak - small}


def _peak_bytes() -> int:
    """Most memory of this process; what a new one has of `getrusage` is its parent's, too."""
    lines = Path("/proc/self/status").read_text().splitlines()
    [peak] = [line for line in lines if line.startswith("VmHWM")]
    return int(peak.split()[1]) * 1024


def _in_process(name: str, path: Path) -> Mapping[str, float]:
    """The best of three runs, each in a process of its own."""
    command = [sys.executable, __file__, "--measure", name, str(path)]
    results = []
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{name}, {path.name}: {done.stderr}")
        results.append(json.loads(done.stdout))
        if results[0]["seconds"] > 20:
            break
    return min(results, key=lambda result: result["seconds"])


def _print(
    kind: str,
    sizes: Sequence[int],
    rows: Sequence[Mapping[str, Mapping[str, float]]],
    *,
    is_small: bool,
) -> bool:
    """Print a table; whether all limits hold."""
    head = " | ".join(f"{size:,}" for size in sizes)
    print(f"\n| {kind} | {head} | exponent |")
    print("|---" * (len(sizes) + 2) + "|")
    problems = []
    for name in MEASUREMENTS:
        present = [row[name] for row in rows]
        seconds = [row["seconds"] for row in present]
        exponents = _exponents(sizes, seconds)
        shown = " | ".join(f"{value:.3f} s" for value in seconds)
        print(f"| {name} | {shown} | {max(exponents):.2f} |")
        memory = [(row["bytes"] / 1e6, row["more_bytes"] / 1e6) for row in present]
        shown = " | ".join(f"{value:.0f} MB, {more:.0f} MB" for value, more in memory)
        print(f"| its memory | {shown} | |")
        if max(exponents) > EXPONENT_LIMIT:
            problems.append(f"{name}: exponent {max(exponents):.2f}")
    last = rows[-1]
    if last["open"]["seconds"] > OPEN_LIMIT_S:
        problems.append(f"open: {last['open']['seconds']:.2f} s")
    if last["open"]["more_bytes"] > MEMORY_LIMIT:
        problems.append("open: memory")
    if last["open one"]["seconds"] > ONE_LIMIT_S:
        problems.append(f"open one: {last['open one']['seconds']:.2f} s")
    for problem in problems if not is_small else ():
        print(f"{kind}: {problem}")
    return is_small or not problems


def _exponents(sizes: Sequence[int], seconds: Sequence[float]) -> list[float]:
    """How the time grows with the size, from each size to the next."""
    pairs = zip(zip(sizes, seconds, strict=True), _later(sizes, seconds), strict=False)
    return [math.log(t2 / t1) / math.log(n2 / n1) for (n1, t1), (n2, t2) in pairs]


def _later(sizes: Sequence[int], seconds: Sequence[float]) -> Iterator[tuple[int, float]]:
    yield from [*zip(sizes, seconds, strict=True)][1:]


if __name__ == "__main__":
    raise SystemExit(main())
