"""Golden cases of every answer, ``cases/<answer>/<case>.md``, in the form of `tests.cases`."""

from __future__ import annotations

from pathlib import Path

import pytest

from profframe.query.catalogue import find, selects
from tests.cases import all_beside, read_case, result
from tests.members import few

ACROSS_RANKS = frozenset(
    {
        *("clock_skew", "collective_progress", "collective_traffic", "hangs.rank", "hangs"),
        *("step_communication", "expert_balance", "input_balance", "pipeline_bubbles"),
        "advice",
        "stragglers",
    }
)
"""Answers with a row per rank that depends on the other ranks of its run."""
CASES = sorted((Path(__file__).parent / "cases").glob("*/*.md"))


BY_THEMSELVES = (
    *[*{path.parent.name: path for path in reversed(CASES)}.values()][::5],
    *(
        path
        for path in CASES
        if f"{path.parent.name}/{path.stem}"
        in {"collectives/steps", "gaps/host", "idle/waits", "queue_depth/points"}
        | {"roofline/by_kernel", "step_times/steady", "stragglers/by_op"}
        | {"graph_layers/replays", "graph_layers/two_blocks", "idle/held_up", "idle/two_devices"}
        | {"kernel_categories/exposed", "kernel_categories/two_runs"}
        | {"stragglers/clocks", "stragglers/recorded"}
        | {"host_waits/idle_after", "host_waits/threads", "host_waits/which_calls"}
        | {"recompute/of_steps"}
        | {"counters_by_op/samples", "energy/devices", "energy.step/ahead", "energy.work/kernels"}
    ),
)
"""The first case of each fifth answer, and those that find the faults of `tests.mutants`.

All others are asked in every run beside each other, and by themselves with ``-m long``.
"""


@pytest.mark.parametrize(
    "path",
    few(CASES, sorted({*BY_THEMSELVES})),
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
class TestGolden:
    def test_rows(self, path: Path) -> None:
        case = read_case(path, find(path.parent.name))
        assert result(case, case.tables) == case.rows


@pytest.mark.parametrize("name", [answer.name for answer in selects()])
def test_other_traces_beside_it_and_another_order_of_rows_change_nothing(name: str) -> None:
    """All cases of an answer that are asked alike stand beside each other."""
    answer = find(name)
    of_its_own = ("run",) if name in ACROSS_RANKS else ("run", "rank")
    keys = [column.name for column in answer.columns[:2] if column.name in of_its_own]
    cases = [read_case(path, answer) for path in CASES if path.parent.name == name]
    for case, rows in all_beside(cases, keys):
        assert rows == case.rows


def test_every_answer_has_a_case() -> None:
    assert {path.parent.name for path in CASES} == {answer.name for answer in selects()}
