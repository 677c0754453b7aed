"""Golden cases of every answer, ``cases/<answer>/<case>.md``, in the form of `tests.cases`."""

from __future__ import annotations

from pathlib import Path

import pytest

from profframe import schema
from profframe.query.catalogue import catalogue, find
from tests.cases import Case, read_case, result

ACROSS_RANKS = frozenset(
    {
        *("clock_skew", "collective_progress", "collective_traffic", "hang_sides", "hangs"),
        *("communication_parts", "expert_balance", "input_balance", "pipeline_bubbles"),
        "advice",
        "stragglers",
    }
)
"""Answers with a row per rank that depends on the other ranks of its run."""
CASES = sorted((Path(__file__).parent / "cases").glob("*/*.md"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}-{path.stem}")
class TestGolden:
    def test_rows(self, path: Path) -> None:
        case = read_case(path, find(path.parent.name))
        assert result(case, case.tables) == case.rows

    def test_other_traces_beside_it_and_another_order_of_rows_change_nothing(
        self, path: Path
    ) -> None:
        case = read_case(path, find(path.parent.name))
        of_its_own = ("run",) if case.answer.name in ACROSS_RANKS else ("run", "rank")
        keys = [c.name for c in case.answer.columns[:2] if c.name in of_its_own]
        beside = {
            name: [
                *({**row, "run": f"{row['run']}.1"} for row in rows),
                *rows,
                *({**row, "rank": int(str(row["rank"])) + 100} for row in rows if "rank" in keys),
            ][::-1]
            for name, rows in case.tables.items()
        }
        wide = Case(case.answer, beside, case.parameters, (*keys, *case.columns), [])
        without_events = ("memory", *schema.OPTIONAL_TABLES)
        traces = (
            *case.tables["traces"],
            *(r for n in without_events for r in case.tables.get(n, [])),
        )
        alone = {tuple(row[key] for key in keys) for row in traces}
        found = result(wide, beside)
        rows = [row[len(keys) :] for row in found if row[: len(keys)] in alone]
        assert rows == case.rows


def test_every_answer_has_a_case() -> None:
    assert {path.parent.name for path in CASES} == {answer.name for answer in catalogue()}
