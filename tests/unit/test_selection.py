"""The list of slow tests is of tests that there are, and is written from a run."""

from __future__ import annotations

from pathlib import Path

from tests.places import ROOT
from tests.selection import SLOW_TESTS, slow


def test_every_slow_test_has_its_place() -> None:
    """A test that moves takes its line along."""
    names = SLOW_TESTS.read_text(encoding="utf-8").splitlines()
    assert names == sorted({*names})
    for name in names:
        path, _, test = name.partition("::")
        function = test.partition("[")[0].rpartition("::")[2]
        assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8"), name


def test_what_took_half_a_second_is_slow_alone_or_together(tmp_path: Path) -> None:
    times = {
        ("tests.unit.test_selection", "test_a[x.y::z]"): 0.5,
        ("tests.unit.test_selection.TestClass", "test_b"): 7.5,
        ("tests.unit.test_selection", "test_c"): 0.499,
        ("tests.test_site", "test_that_is_slow_by_its_file"): 9.0,
        **{("tests.unit.test_selection", f"test_three[{n}]"): 0.17 for n in range(3)},
        **{("tests.unit.test_selection", f"test_quick[{n}]"): 0.16 for n in range(3)},
        **{("tests.unit.test_selection", f"test_two[{n}]"): 0.4 for n in range(2)},
    }
    cases = "".join(
        f'<testcase classname="{within}" name="{name}" time="{seconds}" />'
        for (within, name), seconds in times.items()
    )
    junit = tmp_path / "run.xml"
    junit.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    assert [*slow(junit)] == [
        "tests/unit/test_selection.py::test_a[x.y::z]",
        "tests/unit/test_selection.py::TestClass::test_b",
        "tests/unit/test_selection.py::test_three",
    ]
