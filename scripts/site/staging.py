"""All pages of the site in one folder: those of ``docs/``, and those made of code and examples."""

from __future__ import annotations

import posixpath
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Final

from profframe import load
from profframe.query.catalogue import catalogue
from scripts.pages import answers as answer_list
from scripts.site import answer_pages, macros, tutorials
from scripts.site.answer_pages import Source

ROOT: Final = Path(__file__).resolve().parent.parent.parent
ELSEWHERE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "CHANGELOG.md": "changelog.md",
        "examples/cluster.md": "cluster.md",
        "examples/duckdb_shell.md": "duckdb_shell.md",
        "sql/README.md": "answers.md",
    }
)
"""Pages that are not in ``docs/``, and where the site has them."""
MADE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "examples": "tutorials.md",
        "sql": "answers.md",
        "sql/answers": "answers.md",
        "sql/lib": "macros.md",
        "sql/rules": "rules.md",
    }
)
"""Pages of the site for links to folders of the repository, and to files of SQL in them."""
SHOWN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "examples/gpu_training.json.gz": "a made-up training run on a GPU",
        "examples/cpu_training.json.gz": "a training run on a CPU",
    }
)
"""Traces that answers are shown of, and what they are of."""

_LINK: Final = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#:\s]*)(#[^)]*)?\)")
TUTORIALS: Final = """\
# Tutorials

For people who learn from code: notebooks from a first look to a thousand runs, with what they give.

Each is a script of `examples/` in the percent format, which Jupyter and most editors open as a
notebook (with `jupytext`, or `jupytext --to ipynb examples/NAME.py`).
"""


def stage(folder: Path) -> list[str]:
    """Write all pages into a folder, with the settings of Sphinx.

    Parameters
    ----------
    folder
        An empty folder.

    Returns
    -------
    list of str
        The pages, by their paths in it.
    """
    shutil.copytree(ROOT / "docs", folder, dirs_exist_ok=True)
    pages = homes()
    for source, page in pages.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        _write(folder / page, linked(text, source, pages))
    _write(folder / "macros.md", macros.page())
    with ExitStack() as stack:
        sources = [
            Source(path, f"`{path}` ({said})", stack.enter_context(load(ROOT / path).session()))
            for path, said in SHOWN.items()
        ]
        _stage_answers(folder, sources, pages)
    _stage_tutorials(folder)
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.md"))


def _stage_answers(folder: Path, sources: Sequence[Source], pages: Mapping[str, str]) -> None:
    answers = catalogue()
    text = linked(answer_list.page(has_files=False), "sql/README.md", pages)
    _write(folder / "answers.md", answer_pages.index(text, (answer.name for answer in answers)))
    for answer in answers:
        _write(folder / "answers" / f"{answer.name}.md", answer_pages.page(answer, sources))


def _stage_tutorials(folder: Path) -> None:
    with tutorials.shell(folder / ".ipython") as shell:
        pages = {
            tutorial.name: tutorials.page(tutorial, folder / "tutorials", shell)
            for tutorial in tutorials.tutorials(ROOT / "examples")
        }
    _write(folder / "tutorials.md", tutorials.index(pages, TUTORIALS))
    for name, text in pages.items():
        _write(folder / "tutorials" / f"{name}.md", text)


def homes() -> dict[str, str]:
    """Page of the site for each Markdown file of the repository that is one.

    Examples
    --------
    >>> homes()["docs/facts.md"]
    'facts.md'
    """
    docs = ROOT / "docs"
    names = [str(path.relative_to(docs)) for path in sorted(docs.rglob("*.md"))]
    own = {f"docs/{name}": name for name in names}
    return {**own, **ELSEWHERE}


def linked(text: str, source: str, pages: Mapping[str, str]) -> str:
    """A page with its links as the site needs them.

    Parameters
    ----------
    text
        The page as it is in the repository.
    source
        Its path there.
    pages
        Page of the site by path in the repository. A link to anything else loses its target.

    Examples
    --------
    >>> pages = {"examples/a.md": "a.md", "docs/b/c.md": "b/c.md"}
    >>> linked("[c](../docs/b/c.md#d) and [`sql`](../sql)", "examples/a.md", pages)
    '[c](b/c.md#d) and [`sql`](answers.md)'
    >>> linked("[idle](../sql/answers/idle.sql), [x](x.py)", "examples/a.md", pages)
    '[idle](answers/idle.md), x'
    """

    def moved(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        if not target:
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        page = pages.get(path) or _made(path)
        if page is None:
            return label
        to = posixpath.relpath(page, posixpath.dirname(pages[source]) or ".")
        return f"[{label}]({to}{anchor})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else _LINK.sub(moved, part) for part in parts)


def _made(path: str) -> str | None:
    """The page that the site makes of a folder of the repository, or of a file of SQL."""
    folder, _, name = path.rpartition("/")
    if folder == "sql/answers" and name.endswith(".sql"):
        return f"answers/{name.partition('.')[0]}.md"
    return MADE.get(folder if name.endswith(".sql") else path)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
