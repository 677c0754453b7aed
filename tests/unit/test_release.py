"""What scripts/release refuses, and the table of scripts/matrix."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from scripts import matrix, release
from tests.places import ROOT


def git(root: Path, *words: str) -> None:
    own = ("-c", "user.name=A", "-c", "user.email=a@example.com")
    subprocess.run(["git", "-C", root, *own, *words], check=True, capture_output=True)  # noqa: S607


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A committed project that is ready for release."""
    (tmp_path / "profframe").mkdir()
    (tmp_path / "profframe" / "__init__.py").write_text('__version__ = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [1.2.0] - 2026-11-30\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "all")
    return tmp_path


def test_a_ready_project_has_no_faults(project: Path) -> None:
    assert [*release.faults(project)] == []
    git(project, "tag", "-a", "v1.2.0", "-m", "v1.2.0")
    assert [*release.faults(project)] == []


def test_a_changed_tree_is_refused(project: Path) -> None:
    (project / "more.py").touch()
    (fault,) = release.faults(project)
    assert fault == "the tree is not clean: commit or remove more.py"


@pytest.mark.parametrize(
    ("heading", "fault"),
    [
        ("## [Unreleased]", "CHANGELOG.md begins with Unreleased, the version is 1.2.0"),
        ("## [1.1.0] - 2026-10-01", "CHANGELOG.md begins with 1.1.0, the version is 1.2.0"),
        ("## [1.2.0]", "CHANGELOG.md: the heading of 1.2.0 needs a date: ## [1.2.0] - YYYY-MM-DD"),
        ("", "CHANGELOG.md begins with nothing, the version is 1.2.0"),
    ],
)
def test_a_changelog_of_something_else_is_refused(project: Path, heading: str, fault: str) -> None:
    (project / "CHANGELOG.md").write_text(f"# Changelog\n\n{heading}\n")
    git(project, "commit", "--quiet", "-a", "-m", "changelog")
    assert [*release.faults(project)] == [fault]


def test_a_tag_at_another_commit_is_refused(project: Path) -> None:
    git(project, "tag", "v1.2.0")
    git(project, "commit", "--quiet", "--allow-empty", "-m", "more")
    (fault,) = release.faults(project)
    assert fault.startswith("the tag v1.2.0 is at another commit")


def test_a_table_has_the_columns_of_all_rows() -> None:
    rows = [{"python": "3.11.7", "result": "ran", "click": "8.2.0"}, {"python": "3.14"}]
    assert [*matrix.table(rows)] == [
        "| python | result | click |",
        "|---|---|---|",
        "| 3.11.7 | ran | 8.2.0 |",
        "| 3.14 |  |  |",
    ]


def test_what_the_project_claims_is_what_ran() -> None:
    """Pythons of the classifiers, and lowest releases, against the table of the page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "releases.md").read_text()
    names, _, *lines = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in re.findall(r"^\|.*\|$", page[page.index("| python |") :], re.MULTILINE)
    )
    rows = [dict(zip(names, line, strict=True)) for line in lines if len(line) == len(names)]
    ran = {".".join(row["python"].split(".")[:2]) for row in rows if row["result"] == "ran"}
    words = [each.rpartition(":: ")[2] for each in project["classifiers"]]
    assert ran == {word for word in words if re.fullmatch(r"3\.\d+", word)}
    lowest = next(row for row in rows if row["dependencies"] == "lowest")
    for requirement in project["dependencies"]:
        name, least = re.split(r">=|,", requirement)[:2]
        assert lowest[name].split(".")[: least.count(".") + 1] == least.split("."), name


def test_no_page_installs_the_bare_name() -> None:
    """The name is on no index: whoever registers it would run code."""
    pages = {ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")}
    ours = pages - {ROOT / "docs" / "releases.md", ROOT / "docs" / "ci.md"}
    bare = re.compile(r"pip install [^`\n]*\bprofframe\b(?![/.-])")
    assert [page.name for page in ours if bare.search(page.read_text())] == []
