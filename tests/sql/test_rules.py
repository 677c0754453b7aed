"""Rules of advice: where each fires, and where it must not.

Cases are ``rules/<rule>/fires*.md`` and ``rules/<rule>/silent*.md`` in the form of `tests.cases`;
the columns of ``rows`` are those of the answer `advice`, asked with this rule only.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from profframe.advising import Rule, own_rules
from profframe.answering import Answer, find
from tests.cases import Case, read_case, result

FOLDER = Path(__file__).parent / "rules"
CASES = sorted(FOLDER.glob("*/*.md"))
RULES = {rule.name: rule for rule in own_rules()}
ACROSS_RANKS: frozenset[str] = frozenset()
"""Rules that compare ranks with each other."""


def alone(name: str) -> Answer:
    """The answer with one rule."""
    return dict(find("advice").parts)[str(RULES[name].path)]


def case_of(path: Path) -> Case:
    return read_case(path, alone(path.parent.name))


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}-{path.stem}")
class TestCases:
    def test_rows(self, path: Path) -> None:
        case = case_of(path)
        assert result(case, case.tables) == case.rows
        assert bool(case.rows) == path.stem.startswith("fires")

    def test_row_order_of_the_input_does_not_matter(self, path: Path) -> None:
        case = case_of(path)
        backwards = {name: rows[::-1] for name, rows in case.tables.items()}
        assert result(case, backwards) == case.rows

    def test_other_traces_beside_it_change_nothing(self, path: Path) -> None:
        case = case_of(path)
        beside = {
            name: [
                *({**row, "run": f"{row['run']}.1"} for row in rows),
                *rows,
                *(
                    {**row, "rank": int(str(row["rank"])) + 100}
                    for row in rows
                    if path.parent.name not in ACROSS_RANKS
                ),
            ]
            for name, rows in case.tables.items()
        }
        keys = {(row["run"], row["rank"]) for row in case.tables["traces"]}
        wide = replace(case, columns=("run", "rank", *case.columns))
        rows = [row[2:] for row in result(wide, beside) if row[:2] in keys]
        assert rows == case.rows


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
class TestRule:
    def test_has_cases_where_it_fires_and_where_it_must_not(self, rule: Rule) -> None:
        stems = [path.stem for path in (FOLDER / rule.name).glob("*.md")]
        assert any(stem.startswith("fires") for stem in stems)
        assert any(stem.startswith("silent") for stem in stems)
        assert all(stem.startswith(("fires", "silent")) for stem in stems)

    def test_every_threshold_is_a_parameter_with_its_default(self, rule: Rule) -> None:
        sql = rule.answer.sql
        used = set(re.findall(r"coalesce\(getvariable\('(\w+)'\), '?([\w.]*)'?\)", sql))
        assert used == {(p.name, str(p.default).lower()) for p in rule.parameters}
        assert sql.count("getvariable") == len(re.findall(r"coalesce\(getvariable\('", sql))

    def test_lines_are_readable(self, rule: Rule) -> None:
        assert rule.answer.sentence.endswith(".")
        assert rule.suggestion.endswith(".")
        assert rule.link.startswith("https://")
        assert rule.answer.notes, "the reasons of its thresholds"
        assert max(map(len, rule.answer.sql.splitlines())) <= 130


def test_every_case_is_of_a_rule() -> None:
    assert {path.parent.name for path in CASES} == set(RULES)
