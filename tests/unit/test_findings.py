"""Advice as people meet it: words of its sentences, the command line, a bare shell."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import polars as pl
import pytest

import profframe
from profframe.query import macros
from profframe.query.catalogue import find
from profframe.show.findings import findings
from profframe.show.terminal import text
from tests.conftest import Run

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "gpu_training.json.gz")


@pytest.fixture(scope="module")
def connection() -> duckdb.DuckDBPyConnection:
    """One with the words of `sql/lib/advice.sql`."""
    made = duckdb.connect()
    words = "shown duration_text bytes_text percent_text part_text counted severity_of frame_of"
    macros.load(made, words.replace(" ", "()") + "()")
    return made


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("duration_text(0)", "0.0 us"),
        ("duration_text(1234)", "1.2 us"),
        ("duration_text(9949)", "9.9 us"),
        ("duration_text(12345)", "12 us"),
        ("duration_text(999499)", "999 us"),
        ("duration_text(12345678)", "12.3 ms"),
        ("duration_text(999949999)", "999.9 ms"),
        ("duration_text(2345000000)", "2.35 s"),
        ("bytes_text(1023)", "1023 B"),
        ("bytes_text(1536)", "1.5 KiB"),
        ("bytes_text(5 * 1048576)", "5.0 MiB"),
        ("bytes_text(2684354560)", "2.50 GiB"),
        ("percent_text(0)", "0 %"),
        ("percent_text(0.0123)", "1.2 %"),
        ("percent_text(0.306)", "31 %"),
        ("part_text(24600000, 80200000.0, 2)", "12.3 ms of 40.1 ms per step (31 %)"),
        ("part_text(24600000, 80200000.0, 0)", "24.6 ms of 80.2 ms (31 %)"),
        ("counted(1, 'gap')", "1 gap"),
        ("counted(1234, 'gap')", "1,234 gaps"),
        ("severity_of(20, 100)", "high"),
        ("severity_of(19, 100)", "medium"),
        ("severity_of(4, 100)", "low"),
        ("frame_of('torch/a.py(1): f;<built-in x>;nn.Module: A;my.py(2): g;b')", "my.py(2): g"),
        ("frame_of('torch/a.py(1): f')", None),
        ("shown('aten::mm')", "aten::mm"),
        ("shown('a' || chr(27) || '[31m' || chr(10) || chr(8238) || 'b')", "a?[31m??b"),
        ("shown(repeat('x', 81))", "x" * 79 + "…"),
        ("shown(repeat('x', 80))", "x" * 80),
        ("shown(NULL)", None),
    ],
)
def test_words(connection: duckdb.DuckDBPyConnection, expression: str, said: str | None) -> None:
    assert connection.execute(f"SELECT {expression}").fetchone() == (said,)


ROW = {
    "run": "a",
    "rank": 0,
    "rule": "slow",
    "severity": "high",
    "finding": "It is slow",
    "evidence_events": [7, 5, 3, 2, 1, 0],
    "events": 9,
    "estimated_gain_ns": 1_500_000,
    "gain_basis": "as it was said",
    "where": None,
    "suggestion": "Be fast.",
    "link": "https://example.org",
}


class TestText:
    def test_a_finding_in_a_paragraph(self) -> None:
        assert text(findings(pl.DataFrame([ROW]), 20)) == (
            "high    It is slow\n"
            "        gain about 1.500 ms: as it was said\n"
            "        do: Be fast.\n"
            "        see: https://example.org\n"
            "        rule: slow; events 7, 5, 3, 2, 1, ... (9 in all)\n"
        )

    def test_whose_it_is_where_there_are_several(self) -> None:
        rows = pl.DataFrame([ROW, {**ROW, "rank": 3, "severity": "low", "estimated_gain_ns": None}])
        lines = text(findings(rows, 1)).splitlines()
        assert lines[0] == "high    It is slow, rank 0"
        assert lines[-1] == "1 more findings: --top 2"

    def test_ranks_that_share_it(self) -> None:
        row = {**ROW, "rank": 2, "ranks": [0, 1, 2, 4, 6, 7]}
        place = "ranks 0-2, 4, 6-7, this is rank 2"
        assert (
            text(findings(pl.DataFrame([row]), 1)).splitlines()[0] == f"high    It is slow, {place}"
        )

    def test_a_long_finding_stays_beside_its_severity(self) -> None:
        row = {**ROW, "finding": "Devices wait for the next launch"}
        lines = text(findings(pl.DataFrame([row]), 1), 30).splitlines()
        assert lines[:2] == ["high    Devices wait for the", " " * 8 + "next launch"]

    def test_none(self) -> None:
        assert text(findings(pl.DataFrame([ROW]).clear(), 20)) == "no findings\n"

    def test_what_a_terminal_acts_on_is_written_out(self) -> None:
        shown = text(findings(pl.DataFrame([{**ROW, "where": "\x1b[31m\u202e"}]), 20))
        assert "\x1b" not in shown
        assert "\u202e" not in shown


class TestCommandLine:
    def test_findings_as_rows(self, run: Run) -> None:
        code, out, _ = run("advice", EXAMPLE, "--format", "json")
        assert code == 0
        rows = json.loads(out)
        assert rows == profframe.load(EXAMPLE).advice().to_dicts()
        assert rows[0]["rule"] == "data_loading"

    def test_a_threshold_that_there_is_not(self, run: Run) -> None:
        code, _, err = run("advice", EXAMPLE, "-p", "data_loading_shar=1")
        assert code == 2
        assert "did you mean 'data_loading_share'" in err

    def test_a_broken_rule_is_named(self, tmp_path: Path, run: Run) -> None:
        path = tmp_path / "mine.sql"
        path.write_text("SELECT 1")
        code, _, err = run("advice", EXAMPLE, "--rules", path)
        assert code == 1
        assert err == f"error: {path}: the first line of a rule is '-- mine: one sentence.'\n"

    def test_a_bare_shell_gives_what_rules_say_by_themselves(self, run: Run) -> None:
        given = ["-p", "low_gpu_use_share=0.9", "-p", "low_gpu_use_rest=0.01"]
        code, script, _ = run("answer", "advice", "--sql", *given)
        assert code == 0
        trace = profframe.load(EXAMPLE)
        with duckdb.connect() as bare:
            for name, table in trace.tables.items():
                bare.register(name, table)
            *before, last = bare.extract_statements(script)
            for statement in before:
                bare.execute(statement)
            rows = bare.execute(last).fetchall()
        parameters = {"low_gpu_use_share": 0.9, "low_gpu_use_rest": 0.01}
        assert rows == trace._session.answer(find("advice"), parameters).rows()
        assert "low_gpu_use" in {row[2] for row in rows}
