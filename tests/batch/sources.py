"""Small traces as files, and what a store has of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path

import polars as pl

import profframe
from profframe import schema

NOT_OF_CONTENT = ("content_hash", "convert_options", "joined_files")
"""Columns of `traces` that only `convert` fills."""


Content = dict[str, pl.DataFrame]
"""Every row of every table, ordered."""


def write(
    path: Path, start_us: int = 0, name: str = "mm", rank: int | None = None, events: int = 3
) -> Path:
    """A small trace; compressed if its name says so."""
    slices = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": ts, "dur": 5}
        for ts in range(start_us, start_us + 10 * events, 10)
    ]
    header = {} if rank is None else {"distributedInfo": {"rank": rank}}
    text = json.dumps(header | {"traceEvents": slices}).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text, mtime=0) if path.name.endswith(".gz") else text)
    return path


def content(store: Path) -> Content:
    """What is in a store."""
    return rows_of(profframe.load(store))


def loaded(paths: Iterable[Path], run: str | None = None) -> Content:
    """What `load` gives."""
    return rows_of(profframe.load([*paths], run))


def rows_of(trace: profframe.Trace) -> Content:
    return {name: trace.scan(name).collect().sort(pl.all()) for name in schema.TABLES}


def assert_same(one: Content, other: Content) -> None:
    for name in schema.TABLES:
        left, right = (tables[name].drop(NOT_OF_CONTENT, strict=False) for tables in (one, other))
        assert left.equals(right), name


def names(store: Path) -> list[tuple[str, int, str]]:
    """Run, rank and first event of each trace of a store."""
    query = "SELECT run, rank, min(name) AS name FROM events GROUP BY ALL ORDER BY ALL"
    return profframe.load(store).sql(query).rows()
