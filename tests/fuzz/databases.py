"""Databases of Nsight Systems and nvprof: sound ones, odd ones, crafted ones, damaged ones.

Whatever is in them, loading ends with a trace or a `ProfframeError` of one line. Of a database that
SQLite itself can read, every row of every table is accounted for, and what has lost its time or its
duration is counted in `quality`.
"""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

import polars as pl

import profframe
from profframe import ProfframeError, Trace
from tests.conftest import TRACES
from tests.databases import Row, write
from tests.fuzz.verbs import check_verb
from tests.oracles.chrome import APART_NS
from tests.unit import test_nsys as nsys
from tests.unit import test_nvprof as nvprof
from tests.unit import test_sqlite

HOSTILE: Final[tuple[object, ...]] = (
    None,
    0,
    -1,
    7,
    1 << 31,
    (1 << 62) - 1,
    1 << 62,
    (1 << 63) - 1,
    -(1 << 63),
    0.5,
    1e300,
    float("inf"),
    "",
    "12",
    "text",
    "a\0b",
    'quote " and \\ and {"a": 1}',
    "x" * 10_000,
    b"",
    b"\0\xff\xfe",
    b"12345678",
)
"""What nobody expects in a column of integers or text."""
INVALID: Final = ("CAST(X'fffe41' AS TEXT)", "zeroblob(100)", "CAST(X'c3' AS TEXT) || 'a'")
"""The same, as SQL makes it."""
SCHEMAS: Final = (
    "DROP TABLE {table}",
    "DELETE FROM {table}",
    "ALTER TABLE {table} DROP COLUMN {column}",
    "ALTER TABLE {table} RENAME COLUMN {column} TO other",
    'ALTER TABLE {table} RENAME COLUMN {column} TO """; DROP TABLE x; --"',
    "ALTER TABLE {table} RENAME TO renamed",
    "ALTER TABLE {table} ADD COLUMN generated AS (hex(zeroblob(1000000)) || {column})",
    "ALTER TABLE {table} RENAME TO hidden; CREATE VIEW {table} AS SELECT * FROM hidden",
    (
        "CREATE VIEW endless AS WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n)"
        " SELECT i AS start FROM n"
    ),
    "CREATE TRIGGER t AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END",
    "CREATE VIRTUAL TABLE searched USING fts5(a); INSERT INTO searched VALUES ('b')",
    "CREATE TABLE without (a PRIMARY KEY, b) WITHOUT ROWID; INSERT INTO without VALUES (1, 2)",
    'CREATE TABLE "odd ""name"" \'; --" (a)',
    "CREATE INDEX i ON {table} ({column})",
    "PRAGMA user_version = -1; PRAGMA application_id = -1",
    (
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET rootpage = 1 + abs(random()) % 20"
        " WHERE name = '{name}'"
    ),
    (
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = 'CREATE TABLE x (' WHERE"
        " name = '{name}'"
    ),
    (
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = CAST(X'ff' AS TEXT), name ="
        " CAST(X'61ff00' AS TEXT) WHERE name = '{name}'"
    ),
    (
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = 'CREATE VIEW {name} AS WITH"
        " RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n) SELECT i AS start FROM n'"
        " WHERE name = '{name}'"
    ),
    (
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = 'CREATE VIRTUAL TABLE {name}"
        " USING nothing(a)' WHERE name = '{name}'"
    ),
)
"""What can be done to the schema of a database."""
LONGEST: Final = 1 << 62
DUR_CHECKS: Final = ("impossible_duration", "negative_duration", "missing_duration", "overrun")


def case(seed: int) -> None:
    """One database: made, changed in one of several ways, loaded, and looked at."""
    run(seed, _make)


def run(seed: int, make: Callable[[Path, random.Random], None]) -> None:
    """A case with the databases of some tool."""
    rng = random.Random(seed)  # noqa: S311 - an order, no secret
    with tempfile.TemporaryDirectory(prefix="profframe-fuzz-") as folder:
        path = Path(folder, "report.sqlite")
        make(path, rng)
        change = rng.choice(CHANGES)
        change(path, rng)
        before = {file: file.read_bytes() for file in Path(folder).iterdir()}
        trace, said = _loaded(path)
        assert "\n" not in said
        assert trace is not None or change is not _nothing, said
        if trace is not None and change is not _beside:
            _check(path, trace)
        if not rng.randrange(3):
            check_verb("info", str(path))
        assert {file: file.read_bytes() for file in Path(folder).iterdir()} == before


def _loaded(path: Path) -> tuple[Trace | None, str]:
    """What comes of it: a trace, or an error."""
    try:
        return profframe.load(path), ""
    except ProfframeError as error:
        return None, str(error)


def _make(path: Path, rng: random.Random) -> None:
    real = _real()
    if real and not rng.randrange(4):
        path.write_bytes(rng.choice(real))
        return
    make = rng.choice((_nsys, _nvprof))
    write(path, {name: rows for name, rows in make(rng).items() if rows})


@cache
def _real() -> tuple[bytes, ...]:
    """Small real ones, where there are any."""
    files = sorted(TRACES.glob("*/*.sq*")) if TRACES.is_dir() else []
    return tuple(file.read_bytes() for file in files if file.stat().st_size < 400_000)


def _times(rng: random.Random) -> tuple[int, int]:
    start = rng.choice((0, nsys.UTC)) + rng.randrange(1000)
    return start, start + rng.randrange(100)


def _nsys(rng: random.Random) -> dict[str, Sequence[Row]]:
    """An export of Nsight Systems."""
    texts = ("forward", "aten::mm, op_id = 3", "é\u2028", "## 1 ##", "Holding GIL", None)
    owners = (nsys.MAIN, nsys.OTHER, nsys.SECOND)
    numbers = range(rng.randrange(1, 30))
    return {
        "StringIds": nsys.STRINGS,
        "NVTX_EVENTS": [
            nsys.nvtx(*_times(rng), rng.choice(texts), globalTid=rng.choice(owners))
            for _ in numbers
        ],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            nsys.call(*_times(rng), number, globalTid=rng.choice(owners), nameId=rng.randrange(9))
            for number in numbers
        ],
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            nsys.kernel(*_times(rng), rng.choice(numbers), streamId=rng.randrange(3))
            for _ in numbers
        ],
        "OSRT_API": [{"start": 1, "end": 2}] * rng.randrange(3),
        "TARGET_INFO_GPU": [{"id": 0, "name": "GPU"}] * rng.randrange(2),
    }


def _nvprof(rng: random.Random) -> dict[str, Sequence[Row]]:
    """A database of nvprof."""
    numbers = range(rng.randrange(1, 30))
    names = len(nvprof.STRINGS)
    kinds: dict[str, list[Row]] = {
        "MARKER": [
            row
            for number in numbers
            for row in nvprof.ranges(number, *_times(rng), rng.randrange(names))[
                : rng.choice((1, 2, 2, 2))
            ]
        ],
        "RUNTIME": [nvprof.call(*_times(rng), number) for number in numbers],
        "CONCURRENT_KERNEL": [
            nvprof.kernel(*_times(rng), rng.choice(numbers), name=rng.randrange(names + 2))
            for _ in numbers
        ],
        "CDP_KERNEL": [nvprof.kernel(*_times(rng), 1)] * rng.randrange(2),
    }
    strings = [{"_id_": number, "value": text} for number, text in enumerate(nvprof.STRINGS)]
    tables = {f"CUPTI_ACTIVITY_KIND_{name}": rows for name, rows in kinds.items()}
    return {"StringTable": strings, "Version": [{"version": 12}], **tables}


def _nothing(path: Path, rng: random.Random) -> None:
    """Leave it as it is."""


def _odd_values(path: Path, rng: random.Random) -> None:
    """Write what nobody expects into some rows."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for _ in range(rng.randrange(1, 8)):
            table, column = _some(connection, rng)
            value, given = rng.choice([("?", (v,)) for v in HOSTILE] + [(v, ()) for v in INVALID])
            rows = rng.choice((f"rowid % {rng.randrange(1, 5)} = 0", "TRUE"))
            with suppress(sqlite3.Error):  # of a table with a key of its own
                connection.execute(f"UPDATE {table} SET {column} = {value} WHERE {rows}", given)


def _odd_schema(path: Path, rng: random.Random) -> None:
    """Change what tables there are, and what they are."""
    for _ in range(rng.randrange(1, 4)):
        with (
            suppress(sqlite3.Error, UnicodeDecodeError),  # the latter is about SQLite's own message
            closing(sqlite3.connect(path)) as connection,
        ):
            table, column = _some(connection, rng)
            name = table.strip('"')
            change = rng.choice(SCHEMAS).format(table=table, column=column, name=name)
            connection.executescript(change)


def _some(connection: sqlite3.Connection, rng: random.Random) -> tuple[str, str]:
    """A table and one of its columns, in quotes."""
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    table = rng.choice([name for (name,) in connection.execute(tables)])
    columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
    return f'"{table}"', '"{}"'.format(rng.choice(columns).replace('"', '""'))


def _damage(path: Path, rng: random.Random) -> None:
    """Flip bytes, cut, or put one part in the place of another; the first bytes stay."""
    data = bytearray(path.read_bytes())
    page = int.from_bytes(data[16:18], "big") or 4096
    page = 65536 if page == 1 else page
    pages = max(1, len(data) // page)
    what = rng.randrange(4)
    if what == 0:
        for _ in range(rng.choice((1, 3, 30))):
            data[rng.randrange(16, len(data))] = rng.randrange(256)
    elif what == 1:
        del data[rng.randrange(16, len(data)) :]
    elif what == 2:  # a page in the place of another
        one, other = rng.randrange(1, pages + 1), rng.randrange(pages)
        data[one * page : (one + 1) * page] = data[other * page : (other + 1) * page]
    else:  # the head of a page, where its kind and its cells are
        at = rng.randrange(pages) * page + rng.choice((0, 100)) + rng.randrange(12)
        data[at % len(data)] = rng.choice((0, 2, 5, 10, 13, 255))
    data[:16] = b"SQLite format 3\0"
    path.write_bytes(data)


def _beside(path: Path, rng: random.Random) -> None:
    """Leave a journal or changes beside it, as a writer that was killed does; some are hostile."""
    data = path.read_bytes()
    precious = path.with_name("precious")
    precious.write_text("anything\0")
    if rng.randrange(2):
        left = bytearray(test_sqlite.journal(data, precious))
        beside = path.with_name(path.name + "-journal")
    else:
        copy = path.with_name("copy")
        copy.write_bytes(data)
        with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE more AS SELECT * FROM sqlite_master")
            left = bytearray(copy.with_name("copy-wal").read_bytes())
            path.write_bytes(copy.read_bytes())
        copy.unlink()
        beside = path.with_name(path.name + "-wal")
    for _ in range(rng.choice((0, 0, 1, 5))):
        left[rng.randrange(len(left))] = rng.randrange(256)
    beside.write_bytes(left[: rng.choice((len(left), len(left), rng.randrange(len(left))))])


CHANGES: Final = (
    _nothing,
    _odd_values,
    _odd_values,
    _odd_schema,
    _odd_schema,
    _damage,
    _damage,
    _beside,
)


def _check(path: Path, trace: Trace) -> None:
    """Every row that SQLite finds is accounted for; what lost something is counted."""
    (row,) = trace.traces.rows(named=True)
    accounted = json.loads(row["accounted"])
    assert sum(accounted.values()) == row["source_events"], row
    count = _rows(path)
    assert count in {None, row["source_events"]}, (count, row["accounted"])
    assert trace.events.height <= accounted.get("events", 0)
    noted = dict(trace.quality.group_by("issue").agg(pl.col("events").sum()).rows())
    lost = trace.events["dur_ns"].null_count()
    assert lost <= sum(noted.get(check, 0) for check in DUR_CHECKS), noted
    timeless = sum(
        trace.scan(table).select(pl.col(column).is_null().sum()).collect().item()
        for table in ("events", "instants", "counters", "memory")
        for column in ("start_ns" if table == "events" else "time_ns",)
    )
    assert timeless == noted.get("missing_time", 0) + noted.get("impossible_time", 0), noted
    times = trace.events.select("start_ns", "dur_ns")
    assert times.filter(pl.any_horizontal(pl.all().abs() > LONGEST)).is_empty()
    _check_kernels(path, trace)


def _plain(path: Path, ask: Callable[[sqlite3.Connection], Any]) -> Any:
    """What SQLite says without profframe, if it says anything before long."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
        connection.text_factory = bytes
        try:
            return ask(connection)
        except (sqlite3.Error, ValueError):
            return None


def _rows(path: Path) -> int | None:
    """Rows of all tables; None where SQLite cannot say."""

    def ask(connection: sqlite3.Connection) -> int | None:
        total = 0
        listed = connection.execute("PRAGMA table_list").fetchall()
        if connection.execute("PRAGMA integrity_check").fetchall() != [(b"ok",)]:
            return None
        for row in listed:
            name, kind = row[1].decode(), row[2].decode()
            if kind in {"table", "shadow"} and not name.startswith("sqlite_"):
                quoted = name.replace('"', '""')
                total += connection.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()[0]
        return total

    found: int | None = _plain(path, ask)
    return found


def _check_kernels(path: Path, trace: Trace) -> None:
    """Sound times of kernels are as they are in the database, but for those a month from all."""
    kinds = (b"KERNEL", b"CONCURRENT_KERNEL", b"CDP_KERNEL")
    names = {b"CUPTI_ACTIVITY_KIND_" + kind for kind in kinds}

    def ask(connection: sqlite3.Connection) -> list[tuple[int, int]] | None:
        if connection.execute("PRAGMA integrity_check").fetchall() != [(b"ok",)]:
            return None
        times: list[tuple[int, int]] = []
        for row in connection.execute("PRAGMA table_list").fetchall():
            if row[2] == b"table" and row[1] in names:
                query = f'SELECT start, "end" FROM {row[1].decode()}'
                with suppress(sqlite3.Error):
                    times += connection.execute(query).fetchall()
        return times

    is_sound = trace.traces["base_ns"].is_null().all()  # else the times are moved by it
    times = _plain(path, ask) if is_sound else None
    if not times:
        return
    sound = sorted(
        (start, end - start)
        for start, end in times
        if type(start) is int and type(end) is int
        if max(abs(start), abs(end)) < LONGEST and 0 <= end - start < LONGEST and (start or end)
    )
    kernels = trace.events.filter(pl.col("category").cast(pl.String).str.contains("KERNEL"))
    found = sorted(kernels.select("start_ns", "dur_ns").drop_nulls().rows())
    possible = trace.events["start_ns"].drop_nulls().to_list()
    first, last = min(possible, default=0) - APART_NS, max(possible, default=0) + APART_NS
    overruns = trace.quality.filter(issue="overrun")["events"].sum()
    near = [(at, dur) for at, dur in sound if at and first <= at <= at + dur <= last]
    gone = Counter(near) - Counter(found)
    assert not Counter(found) - Counter(sound), (found[:5], sound[:5])
    assert gone.total() <= overruns, (found[:5], gone)
