"""What the page for users of Nsight Systems shows runs on real exports, and is what it says."""

from __future__ import annotations

import re
import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

import profframe
from profframe import cli

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = (ROOT / "docs" / "coming_from" / "nsys.md").read_text()
SECTIONS: Final = {
    part.partition("\n")[0]: block[1]
    for part in re.split(r"^## ", PAGE, flags=re.MULTILINE)
    if (block := re.search(r"```sql\n(.*?)```", part, re.DOTALL))
}
"""The SELECT of each section that begins with one."""
SPANS: Final = re.findall(r"`(profframe \w[^`]*|trace\.\w+\([^`]*\))`", PAGE)
COMMANDS: Final = sorted({*SPANS} | {*re.findall(r"^profframe .*", PAGE, re.MULTILINE)})
REAL: Final = {
    "torch on two GPUs": "GindaChen__nsys-ai/h100_2gpu_1s.sqlite",
    "MPI": "hpcgroup__pipit/saxpy-mpi-cuda_nsys_perlmutter0.sqlite",
}
SMALL: Final = "GindaChen__nsys-ai/healthy_1pct_synthetic.sqlite"
PROJECTED: Final = """
    SELECT
        coalesce(r.text, s.value), r.start, r."end" - r.start, min(w.start),
        max(w."end") - min(w.start), count(*)
    FROM NVTX_EVENTS AS r
    LEFT JOIN StringIds AS s ON r.textId = s.id
    JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS c
        ON c.globalTid = r.globalTid AND r.start <= c.start AND c."end" <= r."end"
    JOIN (
        SELECT start, "end", correlationId, globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL
        UNION ALL SELECT start, "end", correlationId, globalPid FROM CUPTI_ACTIVITY_KIND_MEMCPY
        {memset}
    ) AS w ON w.correlationId = c.correlationId AND w.globalPid >> 24 = c.globalTid >> 24
    WHERE r.eventType IN (59, 60) AND NOT EXISTS (
        SELECT 1 FROM CUPTI_ACTIVITY_KIND_RUNTIME AS d
        WHERE d.correlationId = c.correlationId AND d.globalTid = c.globalTid AND d.start > c.start
    )
    GROUP BY r.rowid
"""
"""Projected ranges as Nsight's documentation defines them, from the tables of an export."""


@pytest.fixture(scope="module")
def exports(traces: Path) -> dict[str, Path]:
    return {name: only_path(traces, path) for name, path in REAL.items()}


@pytest.fixture(scope="module")
def opened(exports: dict[str, Path]) -> dict[str, profframe.Trace]:
    return {name: profframe.load(path) for name, path in exports.items()}


def only_path(traces: Path, pattern: str) -> Path:
    (path,) = traces.glob(pattern)
    return path


@pytest.fixture
def folder(tmp_path: Path, traces: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the page names: a small export, to be loaded by each command."""
    (tmp_path / "reports").mkdir()
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for place in ("report.sqlite", "base.sqlite", "reports/rank0.sqlite", "reports/rank1.sqlite"):
        shutil.copy(traces / SMALL, tmp_path / place)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_names_all_sections_with_sql() -> None:
    assert len(SECTIONS) == 12
    linked = set(re.findall(r"\[SQL\]\(#([\w-]+)\)", PAGE))
    assert {re.sub(r"[^\w ]", "", name).replace(" ", "-").lower() for name in SECTIONS} == linked


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    if command.startswith("trace."):
        trace = profframe.load("report.sqlite")
        eval(command, {"trace": trace})  # noqa: S307
        return
    if "SELECT ..." in command:
        command = command.replace("SELECT ...", "SELECT 1 AS one")
    code = cli.run(shlex.split(command)[1:])
    said = capsys.readouterr()
    assert (code, said.err if code else "") == (0, "")
    assert said.out


def test_what_it_prints_of_the_lock_is_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    shown = re.findall(r"```sh\n(.*)\n```\n\n```text\n([^`]*)```", PAGE)
    assert len(shown) == 2
    for command, text in shown:
        assert cli.run(shlex.split(command)[1:]) == 0
        said = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
        assert [line for line in text.splitlines() if line not in said] == []
    (query,) = re.findall(r'trace.sql\("""(.*?)"""\)', PAGE, re.DOTALL)
    trace = profframe.load("examples/gil.sqlite")
    assert trace.sql(query)["idle_ns"].to_list() == [16_579_050]
    assert trace.idle()["idle_ns"].sum() == 18_620_290


@pytest.mark.parametrize("section", [*SECTIONS])
def test_selects_have_rows(section: str, opened: dict[str, profframe.Trace]) -> None:
    found = [trace.sql(SECTIONS[section]).height for trace in opened.values()]
    assert max(found)


@pytest.mark.parametrize("export", REAL)
def test_projected_ranges_are_as_nsight_defines_them(
    export: str, exports: dict[str, Path], opened: dict[str, profframe.Trace]
) -> None:
    trace = opened[export]
    base = trace.traces["base_ns"][0] or 0
    rows = trace.sql(SECTIONS["Ranges on the device"]).select(
        "name", "start_ns", "dur_ns", "projected_start_ns", "projected_ns", "gpu_ops"
    )
    with closing(sqlite3.connect(f"{exports[export].absolute().as_uri()}?mode=ro", uri=True)) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        memset = 'UNION ALL SELECT start, "end", correlationId, globalPid FROM {}'
        name = "CUPTI_ACTIVITY_KIND_MEMSET"
        query = PROJECTED.format(memset=memset.format(name) if name in tables else "")
        expected = [
            (text.split(", op_id =")[0].split(", seq =")[0], start + base, dur, at + base, ns, ops)
            for text, start, dur, at, ns, ops in db.execute(query)
        ]
    assert expected
    assert sorted(rows.rows()) == sorted(expected)
