"""Shell completion: names of answers, their parameters and columns, files, and values.

Nothing is loaded for it, and no library that takes a while to import: the names come from files and
their headers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import click
from click.shell_completion import CompletionItem

from profframe.errors import AnswerError
from profframe.query import analyses
from profframe.query.analyses import Analysis
from profframe.query.header import Answer, parse, read_sql, sql_directory

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
_SHOWN: Final = "self_times"
"""The answer whose rows `show` writes with output options."""


def answers(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Names of answers, with their sentences."""
    fitting = sorted(name for name in _names() if name.startswith(incomplete))
    return [CompletionItem(name, help=_sentence(name)) for name in fitting] or _file(incomplete)


def sources_or_answers(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Traces after the name of an answer; names of answers after a trace."""
    first = ctx.params.get("name")
    if first is None or first in _names() or str(first).endswith(".sql"):
        return _file(incomplete)
    return [*_file(incomplete), *answers(ctx, parameter, incomplete)]


def parameters(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Parameters of the answer, each as `key=`, or with each of its values if there are few."""
    answer = _answer(ctx)
    items = [] if answer is None else [*_settings(answer)]
    return [item for item in items if item.value.startswith(incomplete)]


def thresholds(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Thresholds of the rules of advice."""
    items = []
    for path in sorted((sql_directory() / "rules").glob("*.sql")):
        with suppress(AnswerError):
            items += [*_settings(parse(read_sql(path, "rule"), path.stem, has_columns=False))]
    return [item for item in items if item.value.startswith(incomplete)]


def columns(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Columns of the answer that are not named yet, after those that are."""
    answer = _read(_SHOWN) if ctx.info_name == "show" else _answer(ctx)
    if not isinstance(answer, Answer):  # an analysis has no list of its columns
        return []
    begun, comma, last = incomplete.rpartition(",")
    named = {*begun.split(",")}
    columns_of = {c.name: c for select in reversed(answer.selects) for c in select.columns}
    return [
        CompletionItem(f"{begun}{comma}{column.name}", help=column.doc)
        for column in columns_of.values()
        if column.name.startswith(last) and column.name not in named
    ]


def self_time_columns(
    _: click.Context, __: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Columns that `show` can sort by."""
    answer = _read(_SHOWN)
    names = answer.columns if isinstance(answer, Answer) else ()
    return [CompletionItem(c.name, help=c.doc) for c in names if c.name.startswith(incomplete)]


def among(values: Sequence[str]) -> Completion:
    """One of some values."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(value) for value in values if value.startswith(incomplete)]

    return complete


def _file(incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


def _names() -> set[str]:
    """Names of all that `answer` takes."""
    stems = {path.stem for path in (sql_directory() / "answers").glob("*.sql")}
    return {stem for stem in stems if "." not in stem} | {*analyses.names()}


def _sentence(name: str) -> str:
    question = _read(name)
    return "" if question is None else question.sentence


def _answer(ctx: click.Context) -> Answer | Analysis | None:
    """The question that a command line names, in either position."""
    # After an option that waits for its value, click leaves arguments where they were.
    names = [ctx.params.get("name"), *(ctx.params.get("sources") or ()), *ctx.args]
    return next((answer for name in names if name and (answer := _read(str(name)))), None)


def _read(name: str) -> Answer | Analysis | None:
    """The answer or analysis of a name; None if there is none."""
    if (analysis := analyses.find(name)) is not None:
        return analysis
    folder = sql_directory() / "answers"
    if not name.isidentifier() or not (folder / f"{name}.sql").is_file():
        return None
    with suppress(AnswerError):
        answer, *forms = (
            parse(read_sql(path, "answer"), path.stem)
            for path in (folder / f"{name}.sql", *sorted(folder.glob(f"{name}.*.sql")))
        )
        return replace(answer, forms=(*forms,))
    return None


def _settings(answer: Answer | Analysis) -> Iterator[CompletionItem]:
    for parameter in answer.all_parameters:
        values = parameter.choices or ("",)
        for value in values:
            yield CompletionItem(f"{parameter.name}={value}", help=parameter.doc)
