"""The pages of other engines work as they stand, and the engines agree."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest

import profframe
from profframe import cli
from profframe.workers.inline import InlineExecutor
from tests import needs
from tests.members import few
from tests.places import ROOT

PAGES = ROOT / "docs/engines"


def blocks(page: str, language: str) -> list[str]:
    text = (PAGES / f"{page}.md").read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("engines")
    for run in ("monday", "tuesday"):
        (path / "jobs").mkdir(exist_ok=True)
        shutil.copy(ROOT / "examples/gpu_training_fused.json.gz", path / f"jobs/{run}.json.gz")
    profframe.convert(path / "jobs", path / "store", executor=InlineExecutor())
    return path


@pytest.fixture
def folder(converted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(converted, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def expected() -> list[tuple[Any, ...]]:
    rows = profframe.load("store").events.filter(kind="host_op")
    sums = rows.group_by("run", "rank", "name").agg(pl.col("self_ns").sum())
    return sorted(sums.select("run", "rank", "name", "self_ns").rows())


def ran(page: str) -> dict[str, Any]:
    """The variables of a page, whose blocks run one after the other."""
    variables: dict[str, Any] = {}
    for block in blocks(page, "py"):
        exec(compile(block, page, "exec"), variables)  # noqa: S102
    return variables


@pytest.mark.filterwarnings("ignore")  # of ibis and pandas
@pytest.mark.parametrize("is_packed", few([False, True], [True]))
@pytest.mark.usefixtures("folder")
def test_pandas_and_ibis(is_packed: bool) -> None:
    needs.modules("pandas", "ibis")
    if is_packed:
        assert cli.run(["store", "compact", "store"]) == 0
    made = ran("pandas_and_ibis")

    keys = ["run", "rank", "name", "self_ns"]
    assert sorted(made["sums"][keys].itertuples(index=False, name=None)) == expected()
    assert sorted(made["by_ibis"][keys].itertuples(index=False, name=None)) == expected()
    assert len(made["times"]) == profframe.load("store").self_times().height


@pytest.mark.usefixtures("folder")
def test_ducklake_refers_to_the_files() -> None:
    try:
        duckdb.connect().execute("LOAD ducklake")
    except duckdb.Error:
        needs.engine("DuckDB with its extension ducklake (INSTALL ducklake)")
    made = ran("ducklake")

    whole = profframe.load("store").events.filter(kind="host_op")
    sums = whole.group_by("run", "name").agg(pl.col("self_ns").sum())
    top = sums.sort(["self_ns", "run", "name"], descending=[True, False, False]).head(5)
    assert made["slowest"] == top.select("run", "name", "self_ns").rows()
    assert made["new"] == []
    assert not [*Path("lake_files").rglob("*.parquet")], "rows were copied"


def test_spark(folder: Path) -> None:
    has_java = os.environ.get("JAVA_HOME") or shutil.which("java")
    if importlib.util.find_spec("pyspark") is None or not has_java:
        needs.engine("Spark (pip install pyspark) and Java 17 or later")
    code = "".join(blocks("spark_and_trino", "py"))
    code += """
for row in sorted(map(tuple, by_spark.collect())):
    print(*row, sep="\\t")
assert dict(events.dtypes)["start_ns"] == "bigint" and dict(events.dtypes)["rank"] == "int"
spark.stop()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    assert rows == [[*map(str, row)] for row in expected()]


def test_the_dashboard(folder: Path) -> None:
    with duckdb.connect() as connection:
        results = [connection.execute(block).fetchall() for block in blocks("dashboard", "sql")]
    assert {row[1] for row in results[0]} == {"monday", "tuesday"}
    assert len(results[1]) == 10
    assert len(results) == 3
    (command,) = blocks("dashboard", "sh")
    with chdir(folder):
        assert cli.run(shlex.split(command)[1:]) == 0
    text = (folder / "runs.prom").read_text()
    assert 'profframe_run_busy_ratio{run="monday"} ' in text
    for name in re.findall(r"profframe_run_\w+", (PAGES / "dashboard.md").read_text()):
        assert f"{name}{{" in text, name
