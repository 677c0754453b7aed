"""The page of questions, out of ``scripts/pages/questions.toml``: each is asked in three ways.

What the page shows is what a command writes to a terminal of 100 columns, and what an IPython
prompt shows of a call, at the time when the page is made.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import os
import re
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from unittest import mock

import duckdb
import polars as pl

import profframe
from profframe import Trace, cli
from profframe.cli.output import OutputOptions
from profframe.show import terminal

_LOAD: Final = profframe.load
loading: Final = importlib.import_module("profframe.loaders.load")
ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = Path(__file__).with_suffix(".toml")
WIDTH: Final = 100
"""Columns of the terminal."""
TRACES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "trace": "examples/gpu_training.json.gz",
        "job": "examples/job",
        "served": "examples/serving.json.gz",
    }
)
"""Names of the traces in the page's Python, and what they are loaded from."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A question, and how it is asked.

    Attributes
    ----------
    group, title, text
        What the page says.
    command, python, sql
        The three ways. The last line of ``python`` is what is shown.
    on
        What ``sql`` is asked of: a name in `TRACES`, or paths.
    exit_code
        How the command ends.
    lines
        How many lines of the command's output are shown at most.
    agree
        What has to be the same in all three ways: expressions of SQL over the rows, one for all or
        one each by ``command``, ``python`` and ``sql``; none where they differ by their nature.
    """

    group: str
    title: str
    text: str
    command: str
    python: str
    sql: str
    on: tuple[str, ...]
    exit_code: int
    lines: int
    agree: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Said:
    """What came back: of each way its text, and its rows."""

    texts: Mapping[str, str]
    rows: Mapping[str, pl.DataFrame]
    exit_code: int


@cache
def questions() -> tuple[Question, ...]:
    """All questions, in the order of the page."""
    found = tomllib.loads(SOURCE.read_text(encoding="utf-8"))
    groups = found["groups"]
    return tuple(_question(group["title"], one) for group in groups for one in group["questions"])


def _question(group: str, table: Mapping[str, Any]) -> Question:
    agree = table.get("agree", {})
    ways = ("command", "python", "sql")
    return Question(
        group=group,
        title=table["title"],
        text=table["text"].strip(),
        command=table["command"].strip(),
        python=table["python"].strip(),
        sql=table["sql"].strip(),
        on=tuple(table["on"]),
        exit_code=table.get("exit_code", 0),
        lines=table.get("lines", 100),
        agree=dict.fromkeys(ways, agree) if isinstance(agree, str) else agree,
    )


@cache
def asked(question: Question) -> Said:
    """Ask in all three ways."""
    with _folder(), _loading_once():
        shown, rows, code = _commanded(question.command)
        value = _computed(question.python)
        answer = _loaded(*question.on).sql(question.sql)
    values = {"command": rows, "python": _rows(value), "sql": answer}
    lines = shown.splitlines()
    if len(lines) > question.lines:
        lines[question.lines :] = ["..."]
    texts = {"command": "\n".join(lines), "python": _pretty(value), "sql": _pretty(answer)}
    return Said(texts, values, code)


def agreed(question: Question) -> dict[str, list[tuple[Any, ...]]]:
    """What has to be the same, by way; where one of them has fewer rows, the first of all."""
    said = asked(question)
    found = {}
    for way, expressions in question.agree.items():
        rows = said.rows[way]
        with duckdb.connect() as connection:
            connection.register("rows", rows.to_arrow())
            found[way] = connection.sql(f"SELECT {expressions} FROM rows").fetchall()  # noqa: S608
    fewest = min(map(len, found.values()), default=0)
    return {way: rows[:fewest] for way, rows in found.items()}


def section(number: int, question: Question) -> str:
    """A question of the page."""
    said = asked(question)
    parts = [f"### {number}. {question.title}", question.text]
    for way, language in (("command", "sh"), ("python", "python"), ("sql", "sql")):
        parts.append(f"```{language}\n{getattr(question, way)}\n```")
        if said.texts[way]:
            parts.append(f"```text\n{said.texts[way]}\n```")
    return "\n\n".join(parts) + "\n"


def page() -> str:
    """The text."""
    parts, group = [head()], ""
    for number, question in enumerate(questions(), 1):
        if question.group != group:
            group = question.group
            parts.append(f"## {group}\n")
        parts.append(section(number, question))
    return "\n".join(parts)


def head() -> str:
    """What is above the questions: what the page is, and the list of them."""
    found = tomllib.loads(SOURCE.read_text(encoding="utf-8"))
    lines, number = [], 0
    for group in found["groups"]:
        links = []
        for question in group["questions"]:
            number += 1
            links.append(f"[{question['title']}](#{anchor(number, question['title'])})")
        lines.append(f"- {group['title']}: {' '.join(links)}")
    return f"{found['above'].strip()}\n\n" + "\n".join(lines) + "\n"


def anchor(number: int, title: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it.

    Examples
    --------
    >>> anchor(2, "Why is the GPU idle, and where?")
    '2-why-is-the-gpu-idle-and-where'
    """
    return f"{number}-" + re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")


@contextlib.contextmanager
def _folder() -> Iterator[None]:
    """A folder like the repository's root, with nothing in it but the examples."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "examples").symlink_to(ROOT / "examples")
        with contextlib.chdir(folder):
            yield


@contextlib.contextmanager
def _loading_once() -> Iterator[None]:
    """Load each example once, however often it is asked for: questions are many."""

    def load(source: Any, **options: Any) -> Trace:
        names = [source] if isinstance(source, str) else getattr(source, "paths", source)
        asks = {name for name, value in options.items() if value} - {"progress"}
        if asks or not all(str(name).startswith("examples/") for name in names):
            return _LOAD(source, **options)
        return _loaded(*map(str, names))

    with (
        mock.patch.object(profframe, "load", load),
        mock.patch.object(loading, "load", load),
    ):
        yield


@cache
def _loaded(*names: str) -> Trace:
    return _LOAD([TRACES.get(name, name) for name in names])


def _commanded(command: str) -> tuple[str, pl.DataFrame, int]:
    """What a command prints on a terminal, the rows that it gives to programs, its exit code.

    Of one that writes a trace the rows are the events of that.
    """
    words = shlex.split(command.replace("\\\n", " "))
    lines = None
    if "|" in words:  # into `tail -n N`
        lines, words = int(words[-1]), words[: words.index("|")]
    text, rows, code = _run(words[1:])
    if rows is None and "-o" in words:
        rows = profframe.load(words[words.index("-o") + 1]).events
    if rows is None:  # it says more than its rows
        rows = _run([*words[1:], "--format", "json"])[1]
    if rows is None:
        raise ValueError(f"{command}: gives no rows: {text}")
    return "\n".join(text.splitlines()[-lines if lines else 0 :]), rows, code


def _run(arguments: list[str]) -> tuple[str, pl.DataFrame | None, int]:
    """What a command line prints, the rows that it gives out, and the exit code."""
    emitted: list[pl.DataFrame] = []
    emit = OutputOptions.emit

    def kept(output: OutputOptions, frame: pl.DataFrame, *args: Any, **options: Any) -> None:
        emitted.append(frame)
        emit(output, frame, *args, **options)

    printed = io.BytesIO()
    stream = io.TextIOWrapper(printed, encoding="utf-8")
    with (
        contextlib.redirect_stdout(stream),
        contextlib.redirect_stderr(stream),
        mock.patch.object(OutputOptions, "emit", kept),
        mock.patch.object(terminal, "PIPE_WIDTH", WIDTH),
    ):
        code = cli.run(arguments)
        sys.stdout.flush()
    text = printed.getvalue().decode().strip("\n")
    return text, emitted[-1] if emitted else None, code


def _computed(block: str) -> Any:
    """The value of the last line of a block."""
    tree = ast.parse(block)
    last = tree.body.pop()
    if not isinstance(last, ast.Expr):
        raise TypeError(f"the last line shows nothing: {block}")
    names: dict[str, Any] = {"profframe": profframe}
    names |= {name: _loaded(name) for name in TRACES if re.search(rf"\b{name}\b", block)}
    exec(compile(tree, "questions", "exec"), names)  # noqa: S102 -- it is the page's own
    return eval(compile(ast.Expression(last.value), "questions", "eval"), names)  # noqa: S307


def _rows(value: Any) -> pl.DataFrame:
    return value if isinstance(value, pl.DataFrame) else pl.DataFrame({"value": [value]})


def _pretty(value: Any) -> str:
    from IPython.lib.pretty import pretty

    """What an IPython prompt shows."""
    with mock.patch.dict(os.environ, {"COLUMNS": str(WIDTH)}):
        text: str = pretty(value)  # type: ignore[no-untyped-call]
    return text


if __name__ == "__main__":
    for arg in sys.argv[1:]:
        print(section(int(arg), questions()[int(arg) - 1]))
