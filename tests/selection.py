"""Which tests the default run has; ``scripts/test --all`` has the others, too.

Nothing that took half a second or starts a process, a browser or a cluster, but once for each of
these; of a family (the sets of parameters of one test) that took that long together, two members.
Where each member is a thing of its own, such as an answer or a rule, the family is whole (`WHOLE`).
What `tests.mutants` names is always in.

What took so long is in ``slow.txt``. Now and then it is measured anew::

    scripts/test --all --junitxml all.xml
    python -m tests.selection all.xml
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

import pytest

from tests.mutants import MUTANTS
from tests.places import ROOT

MEMBERS: Final = 2

WHOLE: Final = (
    "tests/sql/test_golden.py::TestGolden::test_rows",
    "tests/sql/test_golden.py::test_other_traces_beside_it_and_another_order_of_rows_change_nothing",
    "tests/sql/test_headers.py::TestHeader::test_is_one_ordered_select",
    "tests/sql/test_headers.py::TestHeader::test_its_needs_are_enough",
    "tests/sql/test_macro_docs.py::TestComment::test_the_example_gives_what_is_declared",
    "tests/sql/test_rules.py::test_cases_are_called_by_whether_they_fire",
    "tests/sql/test_rules.py::test_order_and_other_traces_beside_it_change_nothing",
    "tests/test_layers.py",
    "tests/unit/test_facts_pipeline.py",
    "tests/unit/test_formulas.py",
    "tests/unit/test_names.py",
    "tests/unit/test_sandbox.py::TestRefused::test_by_sql",
)
"""Families of which each member is a thing of its own."""

SLOW: Final = (
    "tests/agents",
    "tests/batch",
    "tests/browser",
    "tests/fuzz",
    "tests/native",
    "tests/parity/test_json.py",
    "tests/parity/test_live.py",
    "tests/test_bombs.py",
    "tests/test_docs.py",
    "tests/test_examples.py",
    "tests/test_hostile.py",
    "tests/test_huge_numbers.py",
    "tests/test_layers.py::test_nothing_imports_torch",
    "tests/test_notebooks.py",
    "tests/test_nsys_page.py",
    "tests/test_pipes.py",
    "tests/test_questions.py",
    "tests/test_recipes.py",
    "tests/test_site.py",
    "tests/traces",
    "tests/unit/test_failing_job.py",
    "tests/unit/test_flight_recorder.py::TestGloo",
)
"""What starts processes, browsers or clusters."""

ONCE: Final = (
    "tests/agents/test_pages.py",
    "tests/agents/test_server.py::TestStdio::test_a_client_and_a_process",
    "tests/batch/test_convert.py",
    "tests/browser/test_diff_report.py::test_it_opens_without_a_word_on_the_console",
    "tests/test_docs.py::test_examples_in_docstrings_run",
    "tests/agents/test_server.py::TestCommandLine",
    "tests/native/test_native.py::test_no_document_is_wrong",
    "tests/parity/test_blame.py::test_on_the_command_line",
    "tests/test_hostile.py::TestSql",
    "tests/unit/test_analysis_reasons.py::test_verbs_that_compare_say_why",
)
"""Of what is slow, what the default run has all the same: one test of each contract."""
SLOW_TESTS: Final = Path(__file__).with_name("slow.txt")
SLOW_S: Final = 0.5
"""Seconds from which on a test is slow, or all members of a family together."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that the default run leaves out."""
    named = {mutant.tests for mutant in MUTANTS}
    measured = {*SLOW_TESTS.read_text(encoding="utf-8").splitlines()}
    members = Counter[str]()
    for item in items:
        family = item.nodeid.partition("[")[0]
        if item.nodeid in named and item.get_closest_marker("long") is not None:
            raise pytest.UsageError(f"{item.nodeid}: a test of tests.mutants is long")
        if not {item.nodeid, family}.isdisjoint(named) or _is_of(family, WHOLE):
            continue
        if item.get_closest_marker("long") is None:
            members[family] += 1
        is_place = _is_of(family, SLOW)
        is_slow, is_cut = (is_place or name in measured for name in (item.nodeid, family))
        if (is_slow and not _is_of(family, ONCE)) or (is_cut and members[family] > MEMBERS):
            item.add_marker("more")


def _is_of(name: str, places: Iterable[str]) -> bool:
    return any(name.startswith(place) for place in places)


def slow(junit: Path) -> Iterator[str]:
    """Names of tests and families that are slow in a run, from what ``--junitxml`` wrote."""
    families: dict[str, list[float]] = {}
    for case in ET.parse(junit).iter("testcase"):  # noqa: S314 - pytest wrote it
        name = _node_id(case.attrib["classname"].split("."), case.attrib["name"])
        family, _, parameters = name.partition("[")
        if _is_of(name, SLOW):
            continue
        seconds = float(case.attrib["time"])
        if seconds >= SLOW_S:
            yield name
        if parameters:
            families.setdefault(family, []).append(seconds)
    yield from (
        family
        for family, seconds in families.items()
        if len(seconds) > MEMBERS and sum(seconds) >= SLOW_S
    )


def _node_id(within: list[str], name: str) -> str:
    for length in range(len(within), 0, -1):
        path = Path(*within[:length]).with_suffix(".py")
        if (ROOT / path).is_file():
            return "::".join([path.as_posix(), *within[length:], name])
    raise ValueError(f"no file of {'.'.join(within)}")


if __name__ == "__main__":
    SLOW_TESTS.write_text("".join(f"{name}\n" for name in sorted(slow(Path(sys.argv[1])))))
