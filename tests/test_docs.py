"""What README and docstrings show is run."""

from __future__ import annotations

import doctest
import importlib
import re
import shlex
import shutil
from importlib.util import find_spec
from pathlib import Path

import duckdb
import pytest

from profframe import cli
from tests import needs

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()

MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "profframe").rglob("*.py")
    if path.stem != "__main__"
)


def blocks(language: str, page: str = README) -> list[str]:
    """Code blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder like the repository's root, with nothing in it but the example traces."""
    (tmp_path / "examples").mkdir()
    for trace in (root / "examples").glob("*.json.gz"):
        shutil.copy(trace, tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_python_blocks() -> None:
    namespace: dict[str, object] = {}
    for block in blocks("python"):
        if "import torch" in block and find_spec("torch") is None:
            continue
        exec(compile(block, "README.md", "exec"), namespace)  # noqa: S102


@pytest.mark.usefixtures("folder")
def test_python_of_the_readme_runs_and_sql_on_its_store() -> None:
    run_python_blocks()
    guide = (ROOT / "docs/guide.md").read_text()
    with duckdb.connect() as connection:
        for block in blocks("sql") + blocks("sql", guide):
            rows = connection.sql(block.replace("CREATE VIEW", "CREATE OR REPLACE VIEW"))
            assert rows is not None
            assert len(rows.fetchall()) > 0


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["README.md", "docs/guide.md", "docs/roofline.md"])
def test_command_lines_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    needs.charts()
    page = (ROOT / name).read_text()
    lines = [line for block in blocks("sh", page) for line in block.splitlines()]
    commands = [shlex.split(line) for line in lines if line.startswith("profframe ")]
    assert commands
    for command in commands:
        code = cli.run(command[1:])
        said = capsys.readouterr().err
        assert (code, said if code else "") == (0, ""), command


def test_set_up_commands_of_the_readme_are_what_ci_calls() -> None:
    shown = re.findall(r"^bash (scripts/\w+)$", "\n".join(blocks("sh")), re.MULTILINE)
    assert shown == ["scripts/demo", "scripts/test"]
    calls = (ROOT / ".ci" / "run").read_text()
    assert all(f"\nbash {script}" in calls for script in shown)


PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/*.md", "sql/*.md")
    for path in ROOT.glob(pattern)
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name != "README.md" or page.parent != ROOT],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_first_line_says_who_a_page_is_for(page: Path) -> None:
    """Below the title: one sentence that begins with For, and does not fill the screen."""
    text = re.sub(r"\A<!--.*?-->\n", "", page.read_text())
    title, line, *_ = text.split("\n\n")
    assert re.fullmatch(r"# .+", title)
    assert re.fullmatch(r"For .+[^.]\.", line, re.DOTALL)
    assert not re.search(r"\.\s", line)
    assert len(line) <= 160


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(
    name: str, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "examples").symlink_to(root / "examples")
    (tmp_path / "sql").symlink_to(root / "sql")
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    found = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    if found.failed:
        try:
            doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE, raise_on_error=True)
        except doctest.UnexpectedException as error:
            raise error.exc_info[1] from error  # it may be that a package is not here
    assert found.failed == 0
