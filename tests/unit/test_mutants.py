"""Faults of `tests.mutants` have their places; to plant them all takes minutes, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests import mutants
from tests.mutants import MUTANTS, Mutant, misplaced, planted


def test_every_mutant_has_one_place_and_a_test() -> None:
    """Code that moves takes its mutant along."""
    assert list(misplaced(MUTANTS)) == []


SOME = Mutant("1", "says", "code.py", "a == b", "a != b", "test_code.py::TestCode::test_it[7]")


def written(root: Path, code: str) -> Path:
    (root / "code.py").write_text(code)
    (root / "test_code.py").write_text("class TestCode:\n    def test_it(self): ...\n")
    return root


@pytest.mark.parametrize(
    ("mutant", "code", "wrong"),
    [
        (SOME, "a == b", []),
        (SOME, "a is b", ["1: code.py has its text 0 times: 'a == b'"]),
        (SOME, "a == b == a == b", ["1: code.py has its text 2 times: 'a == b'"]),
        (replace(SOME, now="a == b"), "a == b", ["1: changes nothing"]),
        (
            replace(SOME, tests="test_code.py::test_i"),
            "a == b",
            ["1: no test test_code.py::test_i"],
        ),
        (replace(SOME, tests="test.py"), "a == b", ["1: no test test.py"]),
    ],
)
def test_what_is_misplaced_is_said(
    mutant: Mutant, code: str, wrong: list[str], tmp_path: Path
) -> None:
    assert list(misplaced([mutant], written(tmp_path, code))) == wrong


def test_two_of_one_number_are_said(tmp_path: Path) -> None:
    root = written(tmp_path, "a == b")
    assert list(misplaced([SOME, SOME], root)) == ["1: 2 mutants of this number"]


def test_a_tree_is_as_it_was_when_a_fault_is_taken_out(tmp_path: Path) -> None:
    file = written(tmp_path, "if a == b: ...") / "code.py"
    with planted(tmp_path, SOME):
        assert file.read_text() == "if a != b: ..."
    assert file.read_text() == "if a == b: ..."


def test_mutants_are_asked_for_by_number_and_by_file() -> None:
    def numbers(*patterns: str) -> list[str]:
        return [mutant.number for mutant in mutants.wanted(patterns)]

    assert len(numbers()) == len(MUTANTS)
    assert numbers("5", "4") == ["4", "5a", "5b"]
    assert numbers("gaps*", "10b") == ["10b", "24"]
    with pytest.raises(SystemExit, match="no mutant: 99"):
        numbers("4", "99")
