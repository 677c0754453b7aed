"""Rules of advice: where each fires, and where it must not.

Cases are ``rules/<rule>/fires*.md`` and ``rules/<rule>/silent*.md`` in the form of `tests.cases`;
the columns of ``rows`` are those of the answer `advice`, asked with this rule only (and with those
that it names as closest).
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from profframe import schema
from profframe.errors import AnswerError, ProfframeError
from profframe.query import macros, rules
from profframe.query.catalogue import advice
from profframe.query.header import Answer
from profframe.query.rules import AdviceRule, shipped_rules
from profframe.query.run import script
from profframe.trace.trace import Trace
from scripts.pages.rules import page
from tests.cases import Case, all_beside, read_case, result
from tests.members import few

FOLDER = Path(__file__).parent / "rules"
CASES = sorted(FOLDER.glob("*/*.md"))
RULES = {rule.name: rule for rule in shipped_rules()}
ACROSS_RANKS = frozenset({"straggler"})
"""Rules that compare ranks with each other."""


@cache
def alone(name: str) -> Answer:
    """The answer with one rule, and those that it names as closest."""
    return advice().only([RULES[name], *(RULES[close] for close in RULES[name].closest)])


@cache
def case_of(path: Path) -> Case:
    return read_case(path, alone(path.parent.name))


@pytest.mark.parametrize(
    "path",
    few(CASES, [*{path.parent.name: path for path in reversed(CASES)}.values()][::4]),
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
class TestCases:
    """One case of each fourth rule by itself, all with ``-m long``: below they are all asked."""

    def test_rows(self, path: Path) -> None:
        case = case_of(path)
        assert result(case, case.tables) == case.rows


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_cases_are_called_by_whether_they_fire(path: Path) -> None:
    assert bool(case_of(path).rows) == path.stem.startswith("fires")


@pytest.mark.parametrize("name", RULES)
def test_order_and_other_traces_beside_it_change_nothing(name: str) -> None:
    """All cases of a rule that are asked alike stand beside each other."""
    cases = [case_of(path) for path in CASES if path.parent.name == name]
    for case, rows in all_beside(cases, ("run",) if name in ACROSS_RANKS else ("run", "rank")):
        assert rows == case.rows


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
class TestRule:
    def test_has_cases_where_it_fires_and_where_it_must_not(self, rule: AdviceRule) -> None:
        stems = [path.stem for path in (FOLDER / rule.name).glob("*.md")]
        assert any(stem.startswith("fires") for stem in stems)
        assert any(stem.startswith("silent") for stem in stems)
        assert all(stem.startswith(("fires", "silent")) for stem in stems)

    def test_every_threshold_is_a_parameter_with_its_default(self, rule: AdviceRule) -> None:
        sql = rule.answer.sql
        used = set(re.findall(r"coalesce\(getvariable\('(\w+)'\), '?([\w.]*)'?\)", sql))
        assert used == {(p.name, str(p.default).lower()) for p in rule.parameters}
        assert sql.count("getvariable") == len(re.findall(r"coalesce\(getvariable\('", sql))

    def test_lines_are_readable(self, rule: AdviceRule) -> None:
        assert rule.answer.sentence.endswith(".")
        assert rule.suggestion.endswith(".")
        assert rule.link.startswith("https://")
        assert rule.answer.notes, "the reasons of its thresholds"
        assert max(map(len, rule.answer.sql.splitlines())) <= 130


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("duration_text(9_949)", "9.9 us"),
        ("duration_text(9_950)", "10 us"),
        ("duration_text(999_499)", "999 us"),
        ("duration_text(999_500)", "1.0 ms"),
        ("duration_text(999_949_999)", "999.9 ms"),
        ("duration_text(999_950_000)", "1.00 s"),
        ("bytes_text(1023)", "1023 B"),
        ("bytes_text(1023.5)", "1.0 KiB"),
        ("bytes_text(1048524)", "1023.9 KiB"),
        ("bytes_text(1048525)", "1.0 MiB"),
        ("bytes_text(1073689395)", "1023.9 MiB"),
        ("bytes_text(1073689396)", "1.00 GiB"),
        ("percent_text(0)", "0 %"),
        ("percent_text(0.0994)", "9.9 %"),
        ("percent_text(0.0995)", "10 %"),
    ],
)
def test_words_of_numbers_have_the_unit_that_they_round_to(call: str, text: str) -> None:
    with duckdb.connect() as connection:
        macros.load(connection, f"SELECT {call}")
        negative = call.replace("(", "(-")
        rows = connection.sql(f"SELECT {call}, {negative}").fetchall()
    assert rows == [(text, text if text == "0 %" else f"-{text}")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x" * 80, "x" * 80),
        ("x" * 81, "x" * 79 + "\u2026"),
        ("a\nb\x1b\u2028\u2066\u200e\ufeff", "a?b?????"),
    ],
)
def test_names_in_words_are_short_and_do_not_act(name: str, text: str) -> None:
    with duckdb.connect() as connection:
        macros.load(connection, "SELECT shown('')")
        assert connection.execute("SELECT shown(?)", [name]).fetchall() == [(text,)]


def test_every_case_is_of_a_rule() -> None:
    assert {path.parent.name for path in CASES} == set(RULES)


class TestOwnRules:
    """Files and folders of a user's."""

    EXAMPLE = page().partition("```sql\n")[2].partition("```")[0]

    @pytest.fixture(autouse=True)
    def _no_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(rules, "shipped_rules", tuple)

    def rule(self, folder: Path, text: str = EXAMPLE, name: str = "slow_sort") -> Path:
        path = folder / f"{name}.sql"
        path.write_text(text, encoding="utf-8")
        return path

    def sorting(self) -> Trace:
        rows = [
            {"kind": "host_op", "name": "aten::sort", "start_ns": 0, "dur_ns": 30, "self_ns": 30},
            {"kind": "host_op", "name": "aten::mm", "start_ns": 30, "dur_ns": 70, "self_ns": 70},
        ]
        tables = {name: table.arrow.empty_table() for name, table in schema.TABLES.items()}
        given = [
            {**row, "run": "r", "rank": 0, "event_id": i, "thread": 0} for i, row in enumerate(rows)
        ]
        return Trace.from_tables(
            tables | {"events": pa.Table.from_pylist(given, tables["events"].schema)}
        )

    def test_the_example_of_the_page_fires(self, tmp_path: Path) -> None:
        found = self.sorting().advice(rules=self.rule(tmp_path))
        assert found.select("rule", "severity", "evidence_events", "estimated_gain_ns").rows() == [
            ("slow_sort", "high", [0], 30)
        ]
        assert found["suggestion"][0] == "Sort less, with topk."

    def test_its_threshold_can_be_set(self, tmp_path: Path) -> None:
        found = self.sorting().advice([self.rule(tmp_path)], slow_sort_share=0.31)
        assert found.height == 0

    def test_a_folder_of_rules(self, tmp_path: Path) -> None:
        self.rule(tmp_path)
        self.rule(tmp_path, self.EXAMPLE.replace("slow_sort", "slower"), "slower")
        assert self.sorting().advice(tmp_path)["rule"].to_list() == ["slow_sort", "slower"]

    def test_it_takes_the_place_of_one_of_its_name(self, tmp_path: Path) -> None:
        path = self.rule(
            tmp_path, self.EXAMPLE.replace("slow_sort", "data_loading"), "data_loading"
        )
        assert self.sorting().advice(path)["rule"].to_list() == ["data_loading"]

    def test_a_last_semicolon_and_quotes_do_no_harm(self, tmp_path: Path) -> None:
        text = self.EXAMPLE.strip() + ";\n"
        path = self.rule(tmp_path, text.replace("Sort less", "Don't sort"))
        assert self.sorting().advice(path)["suggestion"][0] == "Don't sort, with topk."

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ("-- suggestion:", "-- advice:", "no line '-- suggestion: ...'"),
            ("-- needs: events", "-- need: events", "no line '-- needs: TABLE, ...'"),
            (
                "-- slow_sort:",
                "-- other:",
                "the first line of a rule is '-- slow_sort: one sentence.'",
            ),
            (
                "parameter slow_sort_share",
                "parameter share",
                "start with its name: slow_sort_share",
            ),
            ("self_ns), window", "self), window", 'Referenced column "self" not found'),
            ("GROUP BY", "GROUP", "Parser Error: syntax error"),
            ("count(*) AS", "'many' AS", "Conversion Error"),
            ("severity_of(sum(self_ns), window_ns)", "'grave'", "high, medium or low, found grave"),
            ("    count(*) AS events,\n", "", "no column named 'events'"),
        ],
    )
    def test_a_broken_one_is_named(self, tmp_path: Path, old: str, new: str, said: str) -> None:
        assert old in self.EXAMPLE
        path = self.rule(tmp_path, self.EXAMPLE.replace(old, new))
        with pytest.raises(ProfframeError) as raised:
            self.sorting().advice(path)
        assert str(path) in str(raised.value)
        assert said in str(raised.value)
        assert "\n" not in str(raised.value)

    def test_one_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        for path in (tmp_path / "none.sql", tmp_path):
            with pytest.raises(AnswerError, match=re.escape(str(path))):
                self.sorting().advice(path)

    def test_two_of_a_name_are_named(self, tmp_path: Path) -> None:
        (tmp_path / "sub").mkdir()
        paths = [self.rule(tmp_path), self.rule(tmp_path / "sub")]
        with pytest.raises(AnswerError, match="the rule has the same name as"):
            self.sorting().advice(paths)

    def test_a_finding_without_evidence_is_none(self, tmp_path: Path) -> None:
        path = self.rule(tmp_path, self.EXAMPLE.replace("strongest(event_id, self_ns)", "[]"))
        assert self.sorting().advice(path).height == 0

    @pytest.mark.parametrize(("name", "found"), [("aten::sort", 1), ("aten::topk", 0)])
    def test_only_if_something_is_there(self, tmp_path: Path, name: str, found: int) -> None:
        line = f"-- only if: EXISTS (FROM shared_names WHERE name = '{name}')\n-- needs:"
        path = self.rule(tmp_path, self.EXAMPLE.replace("-- needs:", line))
        assert self.sorting().advice(path).height == found

    def test_a_broken_condition_is_named(self, tmp_path: Path) -> None:
        line = "-- only if: nonsense\n-- needs:"
        path = self.rule(tmp_path, self.EXAMPLE.replace("-- needs:", line))
        with pytest.raises(ProfframeError, match=re.escape(str(path))):
            self.sorting().advice(path)

    def test_a_bare_shell_gives_the_same(self, tmp_path: Path) -> None:
        path, trace = self.rule(tmp_path), self.sorting()
        expected = trace.advice(path, slow_sort_share=0.2)
        with duckdb.connect() as connection:
            for name, table in trace.tables.items():
                connection.register(name, table)
            *before, last = connection.extract_statements(
                script(advice(path), {"slow_sort_share": 0.2})
            )
            for statement in before:
                connection.execute(statement)
            assert connection.execute(last).fetchall() == expected.rows()
