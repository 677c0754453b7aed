"""Every real database of nvprof and Nsight Systems, against plain questions to SQLite."""

from __future__ import annotations

import csv
import hashlib
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import polars as pl
import pytest

import profframe
from profframe import Trace, cli
from tests.members import few

PREFIX: Final = "CUPTI_ACTIVITY_KIND_"
KERNELS: Final = ("KERNEL", "CONCURRENT_KERNEL", "CDP_KERNEL", "GRAPH_TRACE")
DEVICE: Final = {"kernel": KERNELS, "memcpy": ("MEMCPY", "MEMCPY2"), "memset": ("MEMSET",)}
CALLS: Final = ("RUNTIME", "DRIVER")
NUMBER: Final = 11


class Plain:
    """A database, asked one thing at a time."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True
        )
        tables = self.all("SELECT name FROM sqlite_master WHERE type = 'table'")
        self.tables = {name for (name,) in tables if not name.startswith("sqlite_")}

    def all(self, query: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(query).fetchall()

    def one(self, query: str) -> Any:
        ((value,),) = self.all(query)
        return value

    def kinds(self, *names: str) -> list[str]:
        """Those of the activity tables that there are."""
        return [PREFIX + name for name in names if PREFIX + name in self.tables]

    def columns(self, table: str) -> set[str]:
        return {row[1] for row in self.all(f"PRAGMA table_info({table})")}

    def pairs(self, *names: str) -> int:
        """Device slices with a call of their correlation, in their process where it is known."""
        linked = 0
        for table in self.kinds(*names):
            same = ["d.correlationId = c.correlationId", "d.correlationId <> 0"]
            if "globalPid" in self.columns(table):
                same.append("d.globalPid >> 24 = c.globalTid >> 24")
            calls = " OR ".join(
                f"EXISTS (SELECT 1 FROM {call} c WHERE {' AND '.join(same)})"
                for call in self.kinds(*CALLS)
            )
            linked += self.one(f"SELECT count(*) FROM {table} d WHERE {calls or 'FALSE'}")
        return linked


@pytest.fixture(params=range(NUMBER), scope="module")
def path(request: pytest.FixtureRequest, traces: Path) -> Path:
    with (traces / "index.csv").open(newline="") as index:
        rows = [row for row in csv.DictReader(index) if row["kind"].endswith("-sqlite")]
    assert len(rows) == NUMBER
    return traces / str(rows[request.param]["path"])


@pytest.fixture(scope="module")
def plain(path: Path) -> Iterator[Plain]:
    database = Plain(path)
    with closing(database.connection):
        yield database


@pytest.fixture(scope="module")
def trace(path: Path) -> Trace:
    return profframe.load(path)


def of_kind(trace: Trace, *kinds: str) -> pl.DataFrame:
    return trace.events.filter(pl.col("kind").is_in(kinds))


def test_it_is_not_changed(path: Path) -> None:
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    beside = sorted(path.parent.iterdir())
    profframe.load(path)
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert sorted(path.parent.iterdir()) == beside


@pytest.mark.parametrize("kind", DEVICE)
def test_device_slices_are_counted_and_summed(trace: Trace, plain: Plain, kind: str) -> None:
    events = of_kind(trace, kind)
    tables = plain.kinds(*DEVICE[kind])
    assert events.height == sum(plain.one(f"SELECT count(*) FROM {t}") for t in tables)
    total = sum(plain.one(f'SELECT coalesce(sum("end" - start), 0) FROM {t}') for t in tables)
    assert events["dur_ns"].sum() == total
    assert events["launch_id"].is_not_null().sum() == plain.pairs(*DEVICE[kind])


def test_calls_are_counted_and_summed(trace: Trace, plain: Plain) -> None:
    events = of_kind(trace, "runtime", "driver")
    tables = plain.kinds(*CALLS)
    assert events.height == sum(plain.one(f"SELECT count(*) FROM {t}") for t in tables)
    total = sum(plain.one(f'SELECT coalesce(sum("end" - start), 0) FROM {t}') for t in tables)
    assert events["dur_ns"].sum() == total


def test_ranges_are_counted_and_summed(trace: Trace, plain: Plain) -> None:
    events = of_kind(trace, "host_op", "annotation", "gil")
    counts = [(0, 0)]
    if "NVTX_EVENTS" in plain.tables:
        counts += plain.all(
            'SELECT count(*), coalesce(sum("end" - start), 0) FROM NVTX_EVENTS '
            "WHERE eventType IN (59, 60)"
        )
    for table in plain.kinds("MARKER"):
        counts += plain.all(
            f"SELECT count(*), coalesce(sum(e.timestamp - s.timestamp), 0) FROM {table} s "
            f"JOIN {table} e ON s.id = e.id AND s.flags = 2 AND e.flags = 4"
        )
    assert (events.height, events["dur_ns"].sum()) == tuple(map(sum, zip(*counts, strict=True)))


MEDIANS: Final = """
    SELECT name, ns
    FROM (
        SELECT name, ns, row_number() OVER of_name AS place, count(*) OVER (PARTITION BY name) AS n
        FROM ({slices})
        WINDOW of_name AS (PARTITION BY name ORDER BY ns)
    )
    WHERE place = (n + 1) / 2
    ORDER BY name
"""
"""Of an even number the lower one of the two in the middle."""
RANGES: Final = """
    SELECT substr(text, 1, instr(text || ', op_id =', ', op_id =') - 1) AS name, ns
    FROM (
        SELECT coalesce(text, value) AS text, "end" - start AS ns
        FROM NVTX_EVENTS LEFT JOIN StringIds ON textId = id
        WHERE eventType IN (59, 60)
    )
"""
LAUNCHES: Final = """
    SELECT value AS name, "end" - start AS ns
    FROM CUPTI_ACTIVITY_KIND_RUNTIME AS call JOIN StringIds ON nameId = id
    WHERE ({work}) AND NOT EXISTS (
        SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME AS inner
        WHERE call.correlationId = inner.correlationId AND call.start < inner.start
            AND call.globalTid >> 24 = inner.globalTid >> 24
    )
"""
HAS_WORK: Final = """
    EXISTS (SELECT 1 FROM {table} AS w WHERE w.correlationId = call.correlationId {of_process})
"""
OF_PROCESS: Final = "AND w.globalPid >> 24 = call.globalTid >> 24"


def test_medians_are_those_of_plain_questions(trace: Trace, plain: Plain) -> None:
    if "StringIds" not in plain.tables:
        return  # nvprof has other names
    for table in plain.kinds("KERNEL"):
        slices = (
            f'SELECT s.value AS name, "end" - start AS ns FROM {table} '
            "JOIN StringIds s ON coalesce(nullif(demangledName, 0), shortName) = s.id"
        )
        rows = trace.kernels().select("name", "p50_ns").sort("name").rows()
        assert rows == plain.all(MEDIANS.format(slices=slices))
    if "NVTX_EVENTS" in plain.tables:
        named = trace.annotations().drop_nulls("calls")
        rows = named.select("name", "p50_host_ns").sort("name").rows()
        assert rows
        assert {*rows} <= {*plain.all(MEDIANS.format(slices=RANGES))}
    if plain.kinds("RUNTIME"):
        tables = plain.kinds("KERNEL", "MEMCPY", "MEMSET")
        work = " OR ".join(
            HAS_WORK.format(
                table=table, of_process=OF_PROCESS if "globalPid" in plain.columns(table) else ""
            )
            for table in tables
        )
        medians = plain.all(MEDIANS.format(slices=LAUNCHES.format(work=work)))
        rows = trace.launches().select("name", "p50_ns").drop_nulls().sort("name").rows()
        assert rows == medians


def test_every_row_is_accounted_for(trace: Trace, plain: Plain) -> None:
    row = trace.traces.row(0, named=True)
    counts = json.loads(row["accounted"])
    everything = sum(plain.one(f'SELECT count(*) FROM "{table}"') for table in plain.tables)
    assert sum(counts.values()) == row["source_events"] == everything
    not_loaded = counts.keys() - {"events", "instants", "metadata"}
    assert not_loaded <= plain.tables
    noted = trace.quality.filter(issue="rows_not_loaded")["events"].sum()
    assert noted == sum(counts[table] for table in not_loaded)


def test_nothing_else_was_found_wrong(trace: Trace) -> None:
    checks = {
        "rows_not_loaded", "kernel_without_launch", "launch_without_work", "fill_without_work",
        "crossing_slices",
    }  # fmt: skip
    assert set(trace.quality["issue"]) <= checks


def test_a_kernel_belongs_to_a_range_on_the_thread_of_its_launch(trace: Trace) -> None:
    events = trace.events
    hosts = events.select("event_id", "thread", "start_ns", "dur_ns")
    launched = (
        of_kind(trace, "kernel", "memcpy", "memset")
        .select("launch_id", "op_id")
        .drop_nulls()
        .join(hosts, left_on="launch_id", right_on="event_id")
        .join(hosts, left_on="op_id", right_on="event_id", suffix="_op")
    )
    end, end_op = (pl.col(f"start_ns{s}") + pl.col(f"dur_ns{s}") for s in ("", "_op"))
    inside = (pl.col("start_ns_op") <= pl.col("start_ns")) & (end <= end_op)
    same_thread = pl.col("thread") == pl.col("thread_op")
    assert launched.select((inside & same_thread).all()).item()


@pytest.mark.parametrize("path", few([0, 4, NUMBER - 1], 2), indirect=True)
def test_it_is_shown(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([str(path)]) == 0
    shown = capsys.readouterr()
    assert "Overview" in shown.out
    assert not shown.err


def test_two_processes_share_no_correlation(traces: Path) -> None:
    (path,) = traces.rglob("h100_2gpu_1s.sqlite")
    plain = Plain(path)
    with closing(plain.connection):
        anywhere = plain.one(
            f"SELECT count(*) FROM {PREFIX}KERNEL k JOIN {PREFIX}RUNTIME r USING (correlationId)"
        )
    kernels = of_kind(profframe.load(path), "kernel")
    assert anywhere == 1643
    assert kernels["launch_id"].is_not_null().sum() == 1632


def test_one_op_is_one_key(traces: Path) -> None:
    """PyTorch numbers every call in its name; taken off, the names are few."""
    (path,) = traces.rglob("h100_2gpu_1s.sqlite")
    trace = profframe.load(path)
    plain = Plain(path)
    with closing(plain.connection):
        named = "FROM NVTX_EVENTS WHERE instr(text, ', op_id = ')"
        names = plain.one(
            f"SELECT count(DISTINCT substr(text, 1, instr(text, ', op_id ='))) {named}"
        )
        ids = plain.one(f"SELECT count(DISTINCT substr(text, instr(text, ', op_id ='))) {named}")
        texts = plain.one(f"SELECT count(DISTINCT text) {named}")
    ranges = of_kind(trace, "host_op", "annotation")
    assert ranges["external_id"].n_unique() == ids
    assert ranges["name"].n_unique() == names < 200 < texts
    averages = {row["name"]: row for row in trace.key_averages().iter_rows(named=True)}
    assert averages["aten::mm"]["calls"] == 280
