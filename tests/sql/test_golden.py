"""Golden cases of every answer, ``cases/<answer>/<case>.md``, in the form of `tests.cases`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from profframe import schema
from profframe.query.catalogue import catalogue, find
from tests.cases import Case, Rows, read_case, result

ACROSS_RANKS = frozenset(
    {
        *("clock_skew", "collective_progress", "collective_traffic", "hang_sides", "hangs"),
        *("communication_parts", "expert_balance", "input_balance", "pipeline_bubbles"),
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


def beside(case: Case, keys: Sequence[str]) -> dict[str, Rows]:
    """The rows of a case in another order, with those of other traces among them."""
    return {
        name: [
            *({**row, "run": f"{row['run']}.1"} for row in rows),
            *rows,
            *({**row, "rank": int(str(row["rank"])) + 100} for row in rows if "rank" in keys),
        ][::-1]
        for name, rows in case.tables.items()
    }


def in_runs(tables: Mapping[str, Rows], prefix: str) -> dict[str, Rows]:
    """The same with other names of its runs."""
    return {
        name: [{**row, "run": f"{prefix}{row['run']}"} for row in rows]
        for name, rows in tables.items()
    }


@pytest.mark.parametrize("name", [answer.name for answer in catalogue()])
def test_other_traces_beside_it_and_another_order_of_rows_change_nothing(name: str) -> None:
    """All cases of an answer that are asked alike stand beside each other."""
    answer = find(name)
    of_its_own = ("run",) if name in ACROSS_RANKS else ("run", "rank")
    keys = [column.name for column in answer.columns[:2] if column.name in of_its_own]
    alike: dict[str, list[Case]] = {}
    for path in CASES:
        if path.parent.name == name:
            case = read_case(path, answer)
            alike.setdefault(repr(sorted(case.parameters.items())), []).append(case)
    for cases in alike.values():
        together: dict[str, Rows] = {}
        for number, case in enumerate(cases):
            for table, rows in in_runs(beside(case, keys), f"{number}:").items():
                together.setdefault(table, []).extend(rows)
        columns = tuple({column: None for case in cases for column in case.columns})
        wide = Case(answer, together, cases[0].parameters, (*keys, *columns), [])
        found = result(wide, together)
        for number, case in enumerate(cases):
            assert of_case(found, wide.columns, case, keys, f"{number}:") == case.rows


def of_case(
    found: list[tuple[object, ...]],
    columns: Sequence[str],
    case: Case,
    keys: Sequence[str],
    prefix: str,
) -> list[tuple[object, ...]]:
    """The rows that are found of the traces of one case, as it writes them."""
    without_events = ("memory", *schema.OPTIONAL_TABLES)
    traces = (
        *case.tables["traces"],
        *(row for name in without_events for row in case.tables.get(name, [])),
    )
    alone = {tuple(row[key] for key in keys) for row in traces}
    rows = []
    for values in found:
        row = dict(zip(columns, values, strict=True))
        run = str(row["run"])
        own = row | {"run": run.removeprefix(prefix)}
        if run.startswith(prefix) and tuple(own[key] for key in keys) in alone:
            rows.append(tuple(own[column] for column in case.columns))
    return rows


def test_every_answer_has_a_case() -> None:
    assert {path.parent.name for path in CASES} == {answer.name for answer in catalogue()}
