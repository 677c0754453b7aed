"""Databases that are made to harm: nothing outside them is touched, and nothing takes for ever."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

import profframe
from profframe import SourceError
from tests.databases import write
from tests.unit.test_nsys import STRINGS, kernel

KERNEL: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
PAGE: Final = 4096
LEAF, INTERIOR = 13, 5


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return write(tmp_path / "a.sqlite", {"StringIds": STRINGS, KERNEL: [kernel(1, 2, 3)] * 3})


def journal(data: bytes, victim: Path) -> bytes:
    """A journal that gives back the first page, and has SQLite delete a file then."""
    page, nonce, name = data[:PAGE], 1, str(victim).encode()
    checksum = nonce + sum(page[at] for at in range(PAGE - 200, 0, -200))
    header = MAGIC + struct.pack(">IIIII", 1, nonce, len(data) // PAGE, 512, PAGE)
    record = struct.pack(">I", 1) + page + struct.pack(">I", checksum)
    lock_page = (1 << 30) // PAGE + 1
    end = struct.pack(">I", lock_page) + name + struct.pack(">II", len(name), sum(name)) + MAGIC
    return header.ljust(512, b"\0") + record + end


def test_a_journal_that_names_a_file_has_nothing_deleted(database: Path, tmp_path: Path) -> None:
    victim = tmp_path / "precious"
    victim.write_text("anything\0")
    beside = tmp_path / "a.sqlite-journal"
    beside.write_bytes(journal(database.read_bytes(), victim))

    with pytest.raises(
        SourceError, match=rf"^{beside}: belongs to a transaction over several databases"
    ):
        profframe.load(database)
    assert victim.read_text() == "anything\0"
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=rw", uri=True)) as connection:
        connection.execute(f"SELECT count(*) FROM {KERNEL}")
    assert not victim.exists(), "SQLite takes this journal for one of its own"


def page_of(kind: int, cells: Sequence[bytes], last: int = 0, before: bytes = b"") -> bytes:
    """A page of a B-tree; ``last`` is the child behind all cells."""
    page, top, places = bytearray(PAGE), PAGE, []
    for cell in cells:
        top -= len(cell)
        page[top : top + len(cell)] = cell
        places.append(top)
    head = struct.pack(">BHHHB", kind, 0, len(cells), top, 0)
    head += struct.pack(">I", last) if kind == INTERIOR else b""
    head = before + head + struct.pack(f">{len(places)}H", *places)
    page[: len(head)] = head
    return bytes(page)


def fan(child: int, children: int = 200, before: bytes = b"") -> bytes:
    """An interior page all of whose children are the same page."""
    cells = [struct.pack(">IBB", child, 0x80 | key >> 7, key & 0x7F) for key in range(children)]
    return page_of(INTERIOR, cells, child, before)


def page_number(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = ?"
        (number,) = connection.execute(query, [table]).fetchone()
    return int(number)


def append(data: bytearray, *pages: bytes) -> bytes:
    data += b"".join(pages)
    data[28:32] = struct.pack(">I", len(data) // PAGE)
    return bytes(data)


@pytest.mark.parametrize("table", [KERNEL, "StringIds", "OSRT_API"])
@pytest.mark.parametrize("levels", [2, 8])
def test_rows_without_end_in_a_few_pages_are_an_error(
    tmp_path: Path, table: str, levels: int
) -> None:
    rows = {"StringIds": STRINGS, KERNEL: [kernel(1, 2, 3)] * 3, "OSRT_API": [{"start": 1}]}
    database = write(tmp_path / "a.sqlite", rows)
    data, root = bytearray(database.read_bytes()), page_number(database, table)
    leaf, new = bytes(data[(root - 1) * PAGE : root * PAGE]), len(data) // PAGE + 1
    data[(root - 1) * PAGE : root * PAGE] = fan(new)
    chain = [fan(new + level) for level in range(1, levels)]
    database.write_bytes(append(data, *chain, leaf))

    with pytest.raises(
        SourceError, match=f"table '{table}' .* more rows than the file has room for"
    ):
        profframe.load(database)


def test_a_schema_without_end_is_an_error(tmp_path: Path) -> None:
    """Entries of an index that SQLite makes by itself may come again and again."""
    database = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(f"CREATE TABLE {KERNEL} (start UNIQUE, globalPid)")
    data = bytearray(database.read_bytes())
    (count,) = struct.unpack(">H", data[103:105])
    places = struct.unpack(f">{count}H", data[108 : 108 + 2 * count])
    ends = dict(zip(sorted(places), [*sorted(places)[1:], PAGE], strict=True))
    cells = [bytes(data[place : ends[place]]) for place in places]
    own = [cell for cell in cells if b"sqlite_autoindex" in cell]
    all_, index, first = (len(data) // PAGE + number for number in (1, 2, 3))
    root = page_of(INTERIOR, [struct.pack(">IB", all_, 1)], first, bytes(data[:100]))
    data[:PAGE] = root
    chain = [fan(first + level) for level in range(1, 6)]
    new = [page_of(LEAF, cells), page_of(LEAF, own), *chain, fan(index)]
    database.write_bytes(append(data, *new))

    with pytest.raises(SourceError, match="the database cannot be read: interrupted"):
        profframe.load(database)


def test_a_database_whose_rows_are_all_beside_it_has_room_for_them(tmp_path: Path) -> None:
    database = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE StringIds (id, value)")
        connection.execute("CREATE TABLE OSRT_API (start)")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO OSRT_API VALUES (?)", [(1,)] * 20_000)
        connection.execute("COMMIT")
        assert database.stat().st_size < 20_000
        trace = profframe.load(database)
    assert trace.traces["source_events"].item() == 20_000


LONGEST: Final = 1 << 62


@pytest.mark.parametrize(
    ("start", "end", "found", "checks"),
    [
        (LONGEST - 9, LONGEST - 2, (LONGEST - 9, 7), set()),
        (1 - LONGEST, LONGEST - 1, (1 - LONGEST, None), {"impossible_duration"}),
        (5, LONGEST, (5, None), {"impossible_duration"}),
        ((1 << 63) - 1, -(1 << 63), (None, None), {"impossible_time", "impossible_duration"}),
        (9 * 10**18, -9 * 10**18, (None, None), {"impossible_time", "impossible_duration"}),
    ],
)
def test_times_beyond_reach_make_no_duration(
    tmp_path: Path, start: int, end: int, found: tuple[int | None, int | None], checks: set[str]
) -> None:
    beside = max(min(start, LONGEST - 9), 1 - LONGEST)
    rows = [kernel(start, end, 1), kernel(beside, beside + 2, 2)]
    trace = profframe.load(write(tmp_path / "a.sqlite", {"StringIds": STRINGS, KERNEL: rows}))
    assert trace.events.select("start_ns", "dur_ns").rows() == [found, (beside, 2)]
    assert set(trace.quality["issue"]) - {"kernel_without_launch"} == checks


def test_real_numbers_are_not_cut_to_integers(tmp_path: Path) -> None:
    rows = [kernel(1, 9, 1), kernel(2, 9, 2), kernel(3, 9, 3)]
    for row, start in zip(rows, (1.5, 2.0, 1e300), strict=True):
        row["start"] = start
    for some in (rows, rows[:1]):
        path = tmp_path / f"{len(some)}.sqlite"
        trace = profframe.load(write(path, {"StringIds": STRINGS, KERNEL: some}))
        assert trace.events["start_ns"].to_list() == [None, 2, None][: len(some)]
        odd = trace.quality.filter(issue="odd_value")["events"].to_list()
        assert odd == [sum(row["start"] != 2 for row in some)]


@pytest.mark.parametrize("start", [(1 << 63) - 1, -(1 << 63), 1 << 62])
def test_a_session_that_began_beyond_reach_moves_no_time(tmp_path: Path, start: int) -> None:
    session = {"TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": start}]}
    tables = {"StringIds": STRINGS, KERNEL: [kernel(3, 5, 2)], **session}
    trace = profframe.load(write(tmp_path / "a.sqlite", tables))
    assert trace.events.select("start_ns", "dur_ns").rows() == [(3, 2)]
    assert trace.traces.select("clock", "base_ns").rows() == [("relative", None)]


def test_a_table_that_a_module_makes_up_is_counted_by_the_tables_behind_it(tmp_path: Path) -> None:
    database = write(tmp_path / "a.sqlite", {"StringIds": STRINGS, KERNEL: [kernel(1, 2, 3)]})
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("CREATE TABLE OSRT_API (start)")
        connection.execute("INSERT INTO OSRT_API VALUES (1)")
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "INSERT INTO sqlite_master VALUES ('table', 'made_up', 'made_up', 0,"
            " 'CREATE VIRTUAL TABLE made_up USING no_such_module(a)')"
        )
    trace = profframe.load(database)
    assert trace.events.height == 1
    assert trace.traces["source_events"].item() == len(STRINGS) + 2
