"""A plugin of pytest: what was asked about the same rows before is not planned and run again.

From 2.0.1 on DuckDB plans a question each time, which takes longer than to run it, and a first
screen asks sixty about the same example as the test before. The rows of a question depend on its
SQL, on the rows of the tables that it reads and on the limit of memory: these are the key. Tests of
plans, sessions and limits ask each time (`ALWAYS`), and so do all at night.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa
import pytest

from profframe.query import plans

if TYPE_CHECKING:
    from profframe.query.plans import Question, Tables

ALWAYS: Final = (
    "tests/agents/test_server.py",
    "tests/fuzz/",
    "tests/sql/",
    "tests/unit/test_answers.py",
    "tests/unit/test_determinism.py",
    "tests/unit/test_forks.py",
    "tests/unit/test_interrupts.py",
    "tests/unit/test_macros.py",
    "tests/unit/test_memory_limit.py",
    "tests/unit/test_memory_pool.py",
    "tests/unit/test_plans.py",
    "tests/unit/test_sandbox.py",
    "tests/unit/test_session.py",
)
"""Where a question itself is what is tested."""
MOST_BYTES: Final = 8 << 20
"""Of larger tables no key is computed, and larger rows are not kept."""

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Lease:
    """What a session needs of a plan."""

    cursor: duckdb.DuckDBPyConnection
    rows: pa.Table

    def answer(self, _: Tables) -> pa.Table:
        return self.rows


@dataclass(frozen=True)
class Watched:
    """A plan whose rows are kept."""

    plan: Any
    key: Key
    kept: dict[Key, pa.Table]

    @property
    def cursor(self) -> duckdb.DuckDBPyConnection:
        return self.plan.cursor

    def answer(self, tables: Tables) -> pa.Table:
        rows = self.plan.answer(tables)
        if rows.nbytes <= MOST_BYTES:
            self.kept[self.key] = rows
        return rows


class KeptRows:
    """In place of `Plans.lease` while a test runs."""

    def __init__(self) -> None:
        self.kept: dict[Key, pa.Table] = {}
        self.lease = plans.Plans.lease
        self.cursor = duckdb.connect()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        if item.nodeid.startswith(ALWAYS):
            return (yield)
        with pytest.MonkeyPatch.context() as patch:
            kept = self

            @contextmanager
            def lease(
                of: plans.Plans, question: Question, tables: Tables, memory_limit: str | None = None
            ) -> Iterator[Any]:
                key = key_of(question, tables, memory_limit)
                if key in kept.kept:
                    yield Lease(kept.cursor, kept.kept[key])
                    return
                with kept.lease(of, question, tables, memory_limit) as plan:
                    yield Watched(plan, key, kept.kept) if key else plan

            patch.setattr(plans.Plans, "lease", lease)
            return (yield)


def key_of(question: Question, tables: Tables, memory_limit: str | None) -> Key:
    """All that the rows depend on; empty if that is much."""
    if sum(rows.nbytes for rows in tables.values()) > MOST_BYTES:
        return ()
    return question, memory_limit, *((name, content(rows)) for name, rows in tables.items())


def content(rows: pa.Table) -> bytes:
    """A digest of the types and rows of a table, however it is cut into chunks."""
    whole = rows.combine_chunks()
    digest = hashlib.blake2b(digest_size=16)
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, whole.schema) as stream:
        stream.write_table(whole)
    digest.update(written.getvalue())
    return digest.digest()


def pytest_configure(config: pytest.Config) -> None:
    """Keep rows, but at night."""
    if os.environ.get("PROFFRAME_SEEDS") != "random":
        config.pluginmanager.register(KeptRows(), "profframe-kept-rows")
