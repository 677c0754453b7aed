"""Which tests a run has: the default, that of ``scripts/test --all``, and that of a night.

The default has nothing that took `SLOW_S` or starts a process, a browser or a cluster, but once
for each of these; of a family (the sets of parameters of one test) that took that long
together, two members. Where each member is a thing of its own, such as an answer or a rule, the
family is whole (`WHOLE`). What `tests.mutants` names is always in.

``--all`` has of each file `SHARE_S` seconds of the rest, too: the first of each family, then the
second of each. The night has all, and what takes minutes (``long``).

What took so long is in ``slow.txt``. Now and then it is measured anew::

    scripts/test --all -m "not long" --junitxml all.xml
    python -m tests.selection all.xml
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
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
    "tests/fuzz/test_three_readers.py::test_readers_agree_on_some_drawn_documents",
    "tests/native/test_native.py::test_no_document_is_wrong",
    "tests/parity/test_blame.py::test_on_the_command_line",
    "tests/test_hostile.py::TestSql",
    "tests/unit/test_analysis_reasons.py::test_verbs_that_compare_say_why",
)
"""Of what is slow, what the default run has all the same: one test of each contract."""
SLOW_TESTS: Final = Path(__file__).with_name("slow.txt")
"""Seconds and name of each slow test, and of families that are slow together."""
SLOW_S: Final = 0.4
"""Seconds from which on a test is slow, or all members of a family together."""
SHARE_S: Final = 1.5
"""Seconds of slow tests that ``--all`` has of each file, the first one however long it takes."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that the default run leaves out, and those that ``--all`` does."""
    named = {mutant.tests for mutant in MUTANTS}
    measured = seconds_of_slow_tests()
    members = Counter[str]()
    left_out: dict[str, list[tuple[int, int]]] = {}
    for place, item in enumerate(items):
        family = _family(item)
        is_long = item.get_closest_marker("long") is not None
        if item.nodeid in named and is_long:
            raise pytest.UsageError(f"{item.nodeid}: a test of tests.mutants is long")
        if is_long or not {item.nodeid, family}.isdisjoint(named) or family.startswith(WHOLE):
            continue
        members[family] += 1
        is_place = family.startswith(SLOW)
        is_slow, is_cut = (is_place or name in measured for name in (item.nodeid, family))
        if (is_slow and not family.startswith(ONCE)) or (is_cut and members[family] > MEMBERS):
            item.add_marker("more")
            file = item.nodeid.partition("::")[0]
            left_out.setdefault(file, []).append((members[family], place))
    for of_file in left_out.values():
        total = 0.0
        for _, place in sorted(of_file):
            name, family = items[place].nodeid, _family(items[place])
            of_member = measured.get(family, SLOW_S / 2) / members[family]
            seconds = measured.get(name, of_member)
            if total and total + seconds > SHARE_S:
                items[place].add_marker("night")
            else:
                total += seconds


def _family(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def seconds_of_slow_tests() -> dict[str, float]:
    """Seconds by name of what is in ``slow.txt``."""
    lines = SLOW_TESTS.read_text(encoding="utf-8").splitlines()
    return {name: float(seconds) for seconds, _, name in (line.partition(" ") for line in lines)}


def slow(junit: Path) -> Iterator[tuple[str, float]]:
    """Names and seconds of slow tests and families in a run, from what ``--junitxml`` wrote."""
    families: dict[str, list[tuple[str, float]]] = {}
    for case in ET.parse(junit).iter("testcase"):  # noqa: S314 - pytest wrote it
        name = _node_id(case.attrib["classname"].split("."), case.attrib["name"])
        seconds = float(case.attrib["time"])
        if "[" in name:
            families.setdefault(name.partition("[")[0], []).append((name, seconds))
        elif seconds >= SLOW_S:
            yield name, seconds
    for family, members in families.items():
        total = sum(seconds for _, seconds in members)
        is_slow = len(members) > MEMBERS and total >= SLOW_S
        if is_slow:
            yield family, total
        yield from ((name, seconds) for name, seconds in members if seconds >= SLOW_S)


def _node_id(within: list[str], name: str) -> str:
    for length in range(len(within), 0, -1):
        path = Path(*within[:length]).with_suffix(".py")
        if (ROOT / path).is_file():
            return "::".join([path.as_posix(), *within[length:], name])
    raise ValueError(f"no file of {'.'.join(within)}")


if __name__ == "__main__":
    SLOW_TESTS.write_text(
        "".join(f"{seconds:.1f} {name}\n" for name, seconds in sorted(slow(Path(sys.argv[1]))))
    )
