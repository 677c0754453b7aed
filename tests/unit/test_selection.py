"""The list of slow tests is of tests that there are, and says what each run has."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import selection
from tests.places import ROOT
from tests.selection import MEMBERS, SHARE_S, pytest_collection_modifyitems, slow


def test_every_slow_test_has_its_place() -> None:
    """A test that moves takes its line along."""
    names = selection.seconds_of_slow_tests()
    assert [*names] == sorted(names)
    for name in names:
        path, _, test = name.partition("::")
        function = test.partition("[")[0].rpartition("::")[2]
        assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8"), name


def test_what_takes_long_is_slow_alone_or_together(tmp_path: Path) -> None:
    times = {
        ("tests.unit.test_selection", "test_a[x.y::z]"): 0.4,
        ("tests.unit.test_selection.TestClass", "test_b"): 7.5,
        ("tests.unit.test_selection", "test_c"): 0.399,
        ("tests.test_site", "test_d"): 9.0,
        **{("tests.unit.test_selection", f"test_three[{n}]"): 0.25 for n in range(3)},
        **{("tests.unit.test_selection", f"test_quick[{n}]"): 0.125 for n in range(3)},
        **{("tests.unit.test_selection", f"test_two[{n}]"): 0.3 for n in range(2)},
    }
    cases = "".join(
        f'<testcase classname="{within}" name="{name}" time="{seconds}" />'
        for (within, name), seconds in times.items()
    )
    junit = tmp_path / "run.xml"
    junit.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    assert dict(slow(junit)) == {
        "tests/unit/test_selection.py::test_a[x.y::z]": 0.4,
        "tests/unit/test_selection.py::TestClass::test_b": 7.5,
        "tests/test_site.py::test_d": 9.0,
        "tests/unit/test_selection.py::test_three": 0.75,
    }


class Item:
    """A test of which only the name and the marks matter."""

    def __init__(self, nodeid: str, *marks: str) -> None:
        self.nodeid = nodeid
        self.marks = {*marks}

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.marks else None

    def add_marker(self, name: str) -> None:
        self.marks.add(name)


def test_a_run_has_of_each_file_its_share_of_slow_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (MEMBERS, SHARE_S) == (2, 1.5)
    seconds = {"a.py::alone": 9.0, "a.py::few": 2.0, "a.py::x": 0.5, "a.py::y": 0.6, "b.py::z": 6.0}
    monkeypatch.setattr(selection, "seconds_of_slow_tests", lambda: seconds)
    marks = {
        "a.py::quick": [],
        "a.py::few[0]": [],
        "a.py::few[1]": [],
        "a.py::few[2]": ["more"],  # 0.5 s, the third of its family: after 0.5 and 0.6, too much
        "a.py::few[3]": ["more"],
        "a.py::x": ["more"],
        "a.py::y": ["more"],
        "a.py::alone": ["more"],
        "a.py::minutes": ["long"],
        "b.py::z": ["more"],  # the first, however long it takes
        "tests/batch/test_any.py::test": ["more"],
    }
    items = [Item(name, *({"long"} & {*of})) for name, of in marks.items()]
    pytest_collection_modifyitems(items)  # type: ignore[arg-type]
    nights = {"a.py::few[2]", "a.py::few[3]", "a.py::alone"}
    assert {item.nodeid: item.marks for item in items} == {
        name: {*of, *(["night"] if name in nights else [])} for name, of in marks.items()
    }
