"""Databases of public reports: tables whose names have a version."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import polars as pl
import pytest

import profframe
from profframe.trace.trace import Trace
from tests import needs
from tests.conftest import only_real_trace


def loaded(name: str, folder: Path) -> Trace:
    path = folder / name.removesuffix(".gz")
    with gzip.open(needs.case(name)) as packed, path.open("wb") as plain:
        shutil.copyfileobj(packed, plain)
    return profframe.load(path)


@pytest.mark.parametrize("name", ["38a_nvtx_v2.sqlite.gz", "38b_kernel_v3.sqlite.gz"])
def test_tables_with_a_version_are_read(name: str, traces: Path, tmp_path: Path) -> None:
    """Both are one export, in which a table got a suffix."""
    plain = only_real_trace(traces, "GindaChen__nsys-ai/h100_2gpu_1s.sqlite")
    trace = loaded(name, tmp_path)
    assert (trace.events["kind"] == "kernel").sum() == 3442
    for table in ("events", "instants", "quality"):
        rows = getattr(trace, table).with_columns(run=pl.lit("run"))
        assert rows.equals(getattr(plain, table).with_columns(run=pl.lit("run"))), table


@pytest.mark.parametrize("name", ["38a_nvtx_v2.sqlite.gz", "38b_kernel_v3.sqlite.gz"])
def test_a_packed_database_is_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(profframe.NotATraceError, match="a compressed SQLite database"):
        profframe.load(needs.case(name))
