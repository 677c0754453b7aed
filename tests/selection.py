"""Which tests the default run has; ``scripts/test --all`` has the others, too.

Two members of each family (the sets of parameters of one test), and nothing that takes about a
second or starts a process, a browser or a cluster, but once for each of these. Where each member is
a thing of its own, such as an answer or an attack, the family is whole (`WHOLE`). What
`tests.mutants` names is always in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import pytest

from tests.mutants import MUTANTS

MEMBERS: Final = 2

WHOLE: Final = (
    "tests/sql/test_golden.py::TestGolden::test_rows",
    "tests/sql/test_headers.py::TestHeader::test_is_one_ordered_select",
    "tests/sql/test_headers.py::TestHeader::test_its_needs_are_enough",
    "tests/sql/test_macro_docs.py::TestComment::test_the_example_gives_what_is_declared",
    "tests/sql/test_rules.py::test_cases_are_called_by_whether_they_fire",
    "tests/test_api.py",
    "tests/test_bad_input.py::test_what_is_no_trace_is_refused_with_the_reason",
    "tests/test_layers.py",
    "tests/test_schema.py",
    "tests/unit/test_facts_kinds.py",
    "tests/unit/test_facts_pipeline.py",
    "tests/unit/test_foreign.py",
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
    "tests/parity/test_json.py",
    "tests/parity/test_live.py",
    "tests/test_bombs.py",
    "tests/test_docs.py",
    "tests/test_examples.py",
    "tests/test_hostile.py",
    "tests/test_huge_numbers.py",
    "tests/test_layers.py::test_nothing_imports_torch",
    "tests/test_notebooks.py",
    "tests/test_pipes.py",
    "tests/test_questions.py",
    "tests/test_recipes.py",
    "tests/test_site.py",
    "tests/traces",
)
"""What starts processes, browsers or clusters, or takes about a second."""

ONCE: Final = (
    "tests/agents/test_pages.py",
    "tests/agents/test_server.py::TestStdio::test_a_client_and_a_process",
    "tests/batch/test_convert.py",
    "tests/browser/test_diff_report.py::test_it_opens_without_a_word_on_the_console",
    "tests/test_docs.py::test_examples_in_docstrings_run",
    "tests/test_hostile.py::TestSql",
)
"""Of `SLOW`, what the default run has all the same: one test of each contract."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that the default run leaves out."""
    named = {mutant.tests for mutant in MUTANTS}
    members = Counter[str]()
    for item in items:
        family = item.nodeid.partition("[")[0]
        if not {item.nodeid, family}.isdisjoint(named) or _is_of(family, WHOLE):
            continue
        if item.get_closest_marker("long") is None:
            members[family] += 1
        is_slow = _is_of(family, SLOW) and not _is_of(family, ONCE)
        if is_slow or members[family] > MEMBERS:
            item.add_marker("more")


def _is_of(name: str, places: Iterable[str]) -> bool:
    return any(name.startswith(place) for place in places)
