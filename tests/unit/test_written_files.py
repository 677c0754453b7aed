"""Files that are written: nothing in them acts on a terminal or in a spreadsheet; endings."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import profframe
from profframe import Trace
from profframe.show.sheets import for_sheets
from tests import hostile
from tests.conftest import ROOT, Run

EXAMPLE = ROOT / "examples" / "cuda.json.gz"
WRITERS: dict[str, Callable[[Trace, Path], object]] = {
    "stacks": lambda trace, path: trace.export_stacks(path),
    "stacks by path": lambda trace, path: trace.export_stacks(path, by="path"),
    "chrome": lambda trace, path: trace.export_chrome_trace(path),
    "chrome as torch writes it": lambda trace, path: trace.export_chrome_trace(path, legacy=True),
    "chrome with work": lambda trace, path: trace.augment(path),
    "speedscope": lambda trace, path: trace.export_speedscope(path),
}
QUERY = "SELECT name, [name] AS names, {'n': name} AS record FROM events"


@pytest.mark.parametrize("name", WRITERS)
def test_exports_have_nothing_that_acts(hostile_trace: Trace, name: str, tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    WRITERS[name](hostile_trace, path)
    text = path.read_bytes().decode()
    assert len(text) > 10_000
    assert not {*hostile.ACTS.findall(text)}


def test_stacks_keep_their_lines(hostile_trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "out.folded"
    hostile_trace.export_stacks(path, by="path")
    lines = path.read_text(encoding="utf-8").split("\n")
    assert lines.pop() == ""
    numbers = [int(line.rpartition(" ")[2]) for line in lines]
    assert sum(numbers) == hostile_trace.answer("flame", top=0)["self_ns"].sum()
    assert any("_gnp.exe_ _isolate_ mark__" in line for line in lines)
    assert any("line_separator_" in line for line in lines)


def test_an_export_that_has_escapes_is_the_same_trace(hostile_trace: Trace, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    hostile_trace.export_chrome_trace(path)
    names = profframe.load(path).events["name"].to_list()
    assert sorted(names, key=str) == sorted(hostile_trace.events["name"], key=str)


@pytest.mark.parametrize("form", ["csv", "json", "jsonl", "md", "txt"])
def test_rows_in_files_have_nothing_that_acts(
    hostile_file: Path, form: str, tmp_path: Path, run: Run
) -> None:
    path = tmp_path / f"rows.{form}"
    assert run("sql", hostile_file, QUERY, "-o", path) == (0, "", "")
    text = path.read_bytes().decode()
    assert len(text) > 1_000
    assert not {*hostile.ACTS.findall(text)}


def test_csv_keeps_what_does_not_act(hostile_file: Path, tmp_path: Path, run: Run) -> None:
    path = tmp_path / "rows.csv"
    assert run("sql", hostile_file, "SELECT name FROM events", "-o", path)[0] == 0
    rows = {row[0] for row in csv.reader(io.StringIO(path.read_text(encoding="utf-8"))) if row}
    acting = [name for name in hostile.NAMES if hostile.ACTS.search(name)]
    plain = [name for name in hostile.NAMES if name and name not in acting]
    kept = {name for name in plain if name in rows or f"'{name}" in rows}
    assert kept == {*plain}
    assert r"nul\x00bell\x07esc\x1b[31m\x1b]0;title\x07del\x7fcsi\x9b2J" in rows
    assert r"line\u2028separator\u2029" in rows
    assert "'\t=2+2" in rows


def test_names_of_columns_do_not_act_either() -> None:
    rows = for_sheets(pl.DataFrame({"=1": ["\x1b=2"], "a\u202eb": ["a\n\tb"]}))
    assert rows.columns == ["'=1", r"a\u202eb"]
    assert rows.row(0) == (r"\x1b=2", "a\n\tb")


def test_lines_of_json(tmp_path: Path, run: Run) -> None:
    path = tmp_path / "rows.jsonl"
    query = "SELECT event_id, name, '\\xAA'::BLOB AS b FROM events ORDER BY event_id LIMIT 3"
    assert run("sql", EXAMPLE, query, "-o", path)[0] == 0
    lines = path.read_text(encoding="utf-8").splitlines()
    _, out, _ = run("sql", EXAMPLE, query, "--format", "json")
    assert [json.loads(line) for line in lines] == json.loads(out)
    assert run("sql", EXAMPLE, query, "--format", "jsonl")[1].splitlines() == lines


@pytest.mark.parametrize(
    "name", ["rows.xlsx", "rows.jsn", "rows.csv.gz", "rows.html", "rows.JSON5"]
)
def test_unknown_endings_are_refused(name: str, tmp_path: Path, run: Run) -> None:
    path = tmp_path / name
    code, _, err = run("sql", EXAMPLE, "SELECT 1 AS x", "-o", path)
    assert code == 2
    assert f"{path.suffix.lower()} is the ending of no format" in err
    assert ".csv, .json, .jsonl, .md, .parquet, .txt" in err
    assert not path.exists()
    assert run("sql", EXAMPLE, "SELECT 1 AS x", "-o", path, "--format", "csv")[0] == 0
    assert path.read_text() == "x\n1\n"


@pytest.mark.parametrize("name", ["rows", "rows.txt", "rows.JSON", "rows.Csv"])
def test_known_endings_are_written(name: str, tmp_path: Path, run: Run) -> None:
    path = tmp_path / name
    assert run("sql", EXAMPLE, "SELECT 1 AS x", "-o", path)[0] == 0
    starts = {".json": "[", ".csv": "x\n"}.get(path.suffix.lower(), "x")
    assert path.read_text().startswith(starts)
