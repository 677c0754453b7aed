"""The database in which readers parse is opened once, and again where it is of no more use."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import profframe
from profframe.readers import parsing_database
from profframe.readers.chrome import parsing, reading, session
from tests import needs

GPU = Path("examples/gpu_training.json.gz")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[duckdb.DuckDBPyConnection]:
    """The databases that are opened, of which none is open yet."""
    databases: list[duckdb.DuckDBPyConnection] = []
    connect = duckdb.connect

    def count(
        *, config: dict[str, str | bool | int | float | list[str]]
    ) -> duckdb.DuckDBPyConnection:
        databases.append(connect(config=config))
        return databases[-1]

    monkeypatch.setattr(parsing_database._DATABASE, "_database", None)
    monkeypatch.setattr(session._SESSIONS, "_idle", [])
    monkeypatch.setattr(duckdb, "connect", count)
    for module in (reading, parsing):  # the scanner in C needs no database
        monkeypatch.setattr(module, "library", lambda: None)
    return databases


def test_all_loads_share_one(opened: list[duckdb.DuckDBPyConnection]) -> None:
    with ThreadPoolExecutor(4) as pool:
        events = {trace.events.height for trace in pool.map(profframe.load, [GPU] * 8)}
    assert (len(opened), len(events)) == (1, 1)


def test_one_that_answers_no_more_is_replaced(opened: list[duckdb.DuckDBPyConnection]) -> None:
    parsing_database.connect().close()
    opened[0].close()
    assert profframe.load(GPU).events.height
    assert len(opened) == 2


def test_a_session_of_one_that_answers_no_more_is_replaced(
    opened: list[duckdb.DuckDBPyConnection],
) -> None:
    assert profframe.load(GPU).events.height
    for idle in session._SESSIONS._idle:
        idle.cursor.close()
    opened[0].close()
    assert profframe.load(GPU).events.height
    assert len(opened) == 2


def test_later_loads_bind_no_query(opened: list[duckdb.DuckDBPyConnection]) -> None:
    assert not opened
    with session.lent() as first, first.registered("numbers", pa.table({"n": [1, 2]})):
        assert first.rows_of("SELECT sum(n)::INT AS n FROM numbers")["n"].to_pylist() == [3]
    with session.lent() as second, second.registered("numbers", pa.table({"n": [5]})):
        assert second.rows_of("SELECT sum(n)::INT AS n FROM numbers")["n"].to_pylist() == [5]
        assert second is first
        assert len(second._prepared) == 1
    with second.registered("numbers", pa.table({"n": ["7"]})):
        assert second.rows_of("SELECT sum(n::INT)::INT AS n FROM numbers")["n"].to_pylist() == [7]
        assert len(second._prepared) == 1


def test_what_a_connection_registers_is_its_own() -> None:
    with parsing_database.connect() as one, parsing_database.connect() as other:
        one.register("pieces", profframe.load(GPU).traces.to_arrow())
        with pytest.raises(duckdb.CatalogException):
            other.execute("FROM pieces")


@needs.fork
def test_the_child_of_a_fork_opens_its_own(opened: list[duckdb.DuckDBPyConnection]) -> None:
    parsing_database.connect()
    parsing_database._DATABASE._lock.acquire()  # as another thread may have it just then
    child = os.fork()
    if child == 0:
        parsing_database.connect()
        os._exit(0 if len(opened) == 2 else 1)
    parsing_database._DATABASE._lock.release()
    assert os.waitpid(child, 0)[1] == 0
