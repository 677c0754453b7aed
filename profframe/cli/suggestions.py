"""Corrections of command lines that do not work.

A command line is corrected step by step, until no step finds anything more: the verb, the order of
its words, quotes around SQL, options that are parameters, and what an error says was meant. The
result is suggested if it can be parsed.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from profframe.cli.shell import shell_word
from profframe.errors import ProfframeError, nearest
from profframe.query import renamed

if TYPE_CHECKING:
    from profframe.query.analyses import Analysis
    from profframe.query.header import Answer

_SQL: Final = re.compile(r"(select|from|with|describe|summarize)\b", re.IGNORECASE)
_CHOICES: Final = re.compile(r"'([^']+)' is not one of (.+)\.")
_MEANT: Final = re.compile(r"named '([^']+)'; did you mean '([^']+)'\?")
_WORD: Final = re.compile(r"'([^']*)'")
_MOST_STEPS: Final = 8
_LEAST_SLIP: Final = 0.75
"""Minimum similarity of names without their dashes: one letter of four is another."""
_LEAST_LETTERS: Final = 3
"""Letters of a beginning that stands for a whole word."""
_SYNONYMS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("-n", "--head", "--limit", "--max-rows", "--row-limit", "--rows"), "--top"),
    **dict.fromkeys(("--by", "--group", "--group-by", "--groupby"), "--per"),
    **dict.fromkeys(("--order", "--order-by", "--sort-by"), "--sort"),
    **dict.fromkeys(("--outfile", "--out-file", "--save"), "--output"),
    **dict.fromkeys(("--fields", "--select"), "--columns"),
}
"""Options that other tools have, by their names there."""
_FORMATS: Final = ("csv", "json", "jsonl", "markdown", "parquet")
_FILTERS: Final = ("run", "rank", "step", "phase")
"""Options that choose a part of the trace."""
_ANSWER: Final = "answer"
_SHOW: Final = "show"
_UNLESS_SAFE: Final = re.compile(r'["$`\\!]')


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A command line, and why it differs from what was typed."""

    words: tuple[str, ...]
    reason: str | None = None
    """None if the error itself says it."""

    @property
    def command(self) -> str:
        """The suggested command line."""
        return " ".join(["profframe", *map(_quoted, self.words)])


@dataclass(frozen=True, slots=True)
class _Line:
    """A command line: its verb, words and options, in their order.

    Attributes
    ----------
    verbs
        All verbs by name.
    verb
        The first word, or `show` where it is a source.
    items
        Everything else: a word, or an option and its value.
    is_implied
        The verb was not typed.
    """

    verbs: Mapping[str, click.Command]
    verb: str
    items: tuple[tuple[str, ...], ...]
    is_implied: bool = False

    @property
    def words(self) -> list[str]:
        """Arguments, without options."""
        return [item[0] for item in self.items if _is_word(item)]

    @property
    def arguments(self) -> list[str]:
        """The line as a program gets it."""
        return [
            *([] if self.is_implied else [self.verb]),
            *(part for item in self.items for part in item),
        ]

    def with_words(self, verb: str, words: Sequence[str]) -> _Line:
        """The line with another verb and words, and the same options."""
        options = [item for item in self.items if not _is_word(item)]
        return replace(
            self, verb=verb, items=(*((word,) for word in words), *options), is_implied=False
        )


_Step = Callable[[_Line], tuple[_Line, str] | None]


def suggestion(
    group: click.Group, arguments: Sequence[str], error: BaseException | None = None
) -> Suggestion | None:
    """The command line that was most likely meant.

    Parameters
    ----------
    group
        All verbs.
    arguments
        What was typed after the program's name.
    error
        The error that came from it.

    Returns
    -------
    Suggestion or None
        None if nothing is known to be wrong with it, or it cannot be corrected.
    """
    line, reason = _mended_by(_read(group.commands, arguments), error), None
    problem: Exception | None = None
    for _ in range(_MOST_STEPS):
        better = next((result for step in _STEPS if (result := step(line))), None)
        if better is not None:
            line, reason = better[0], reason or better[1]
            continue
        problem = _problem(group, line)
        mended = _mended_by(line, problem)
        if problem is None or mended == line:
            break
        line = mended
    words = line.arguments
    if words == list(arguments) or problem is not None:
        return None
    return Suggestion((*words,), reason)


def instead_of(error: BaseException | None) -> tuple[str, str] | None:
    """The typed and the suggested word of an error or its cause."""
    while error is not None:
        if isinstance(error, ProfframeError) and error.instead is not None:
            return error.instead
        if isinstance(error, click.ClickException):
            if match := _MEANT.search(error.message):
                return match[1], match[2]
            if match := _CHOICES.search(error.message):
                near = nearest(match[1], _WORD.findall(match[2]))
                return (match[1], near) if near else None
        error = error.__cause__
    return None


def _read(verbs: Mapping[str, click.Command], arguments: Sequence[str]) -> _Line:
    first = arguments[0] if arguments else _SHOW
    is_implied = first not in verbs and (first.startswith("-") or Path(first).exists())
    rest = [*arguments] if is_implied else [*arguments[1:]]
    verb = _SHOW if is_implied else first
    takes_value = _takes_value(verbs)
    items: list[tuple[str, ...]] = []
    while rest:
        word = rest.pop(0)
        if word == "--":
            items += [(other,) for other in rest]
            break
        is_alone = not _is_option(word) or "=" in word or not rest or _is_option(rest[0])
        if is_alone or not takes_value.get(word, not Path(rest[0]).exists()):
            items.append((word,))
        else:
            items.append((word, rest.pop(0)))
    return _Line(verbs, verb, (*items,), is_implied)


def _takes_value(verbs: Mapping[str, click.Command]) -> dict[str, bool]:
    """Whether an option of any verb has a value, by its name."""
    return {
        name: not option.is_flag
        for verb in verbs.values()
        for option in _options(verb)
        for name in (*option.opts, *option.secondary_opts)
    }


def _mended_by(line: _Line, error: BaseException | None) -> _Line:
    """The line with what was meant, according to an error."""
    instead = instead_of(error)
    if instead is None:
        return line
    wrong, right = instead
    place = re.compile(rf"(?<!\w){re.escape(wrong)}(?!\w)")
    is_path = Path(right).exists()

    def mended(part: str) -> str:
        return right if part == wrong else part if is_path else place.sub(lambda _: right, part)

    items = tuple(
        item if _is_word(item) and Path(item[0]).exists() else tuple(map(mended, item))
        for item in line.items
    )
    mended_line = replace(line, verb=right if line.verb == wrong else line.verb, items=items)
    return mended_line if mended_line == line else _read(line.verbs, mended_line.arguments)


def _answers() -> list[str]:
    from profframe.query import analyses
    from profframe.query.catalogue import catalogue

    return [*(answer.name for answer in catalogue()), *analyses.names()]


def _is_answer(word: str, answers: Sequence[str]) -> bool:
    """Whether it is the name of an answer, or was one."""
    return word in answers or word in renamed.ANSWERS


def _as_answer(line: _Line, answer: str, words: Sequence[str]) -> _Line:
    """The line with a question, by its name of today, and other words."""
    name, chosen = renamed.ANSWERS.get(answer, (answer, {}))
    renamed_line = line.with_words(_ANSWER, [name, *words])
    values = (("-p", f"{key}={value}") for key, value in chosen.items())
    return replace(renamed_line, items=(*renamed_line.items, *values))


def _verb(line: _Line) -> tuple[_Line, str] | None:
    """A first word that is neither a verb nor a file."""
    first = line.verb
    if first in line.verbs or line.is_implied:
        return None
    answers, dashed = _answers(), first.lower().replace("_", "-")
    underscored = first.replace("-", "_")
    if _SQL.match(first):
        return line.with_words("sql", [first, *line.words]), "SQL needs its verb"
    if _is_answer(underscored, answers) and dashed not in line.verbs:
        return _as_answer(line, underscored, line.words), f"{first} is an answer, not a verb"
    names = [] if _looks_like_path(first) else [*line.verbs, *answers]
    near = dashed if dashed in line.verbs else nearest(first, names)
    if near is None:
        return None
    what = f"no verb named {first!r}"
    return (
        (replace(line, verb=near), what)
        if near in line.verbs
        else (line.with_words(_ANSWER, [near, *line.words]), what)
    )


def _verb_behind(line: _Line) -> tuple[_Line, str] | None:
    """A verb, an answer or SQL after the trace: `profframe TRACE gaps`."""
    if line.verb != _SHOW:
        return None
    words, answers = line.words, _answers()
    for place, word in enumerate(words):
        if Path(word).exists() or glob.has_magic(word):
            continue
        others = [*words[:place], *words[place + 1 :]]
        if word.replace("_", "-") in line.verbs:
            verb = word.replace("_", "-")
            return line.with_words(verb, others), "the verb comes before the trace"
        if _SQL.fullmatch(word.split(" ")[0]):
            return line.with_words("sql", words), "SQL needs its verb"
        near = word if _is_answer(word, answers) else None
        if not _looks_like_path(word):
            near = near or nearest(word, [*line.verbs, *answers])
        if near is not None and _is_answer(near, answers):
            return _as_answer(line, near, others), "an answer comes before the trace"
        if near is not None:
            return line.with_words(near, others), "the verb comes before the trace"
    return None


def _table(line: _Line) -> tuple[_Line, str] | None:
    """A table as if it were an answer or a verb: `profframe answer quality TRACE`."""
    from profframe.schema import TABLES

    is_verb = line.verb in line.verbs
    if is_verb and line.verb not in {_ANSWER, _SHOW}:
        return None
    words = line.words if is_verb else [line.verb, *line.words]
    tables = [word for word in words if word in TABLES and not Path(word).exists()]
    sources = [word for word in words if Path(word).exists() or glob.has_magic(word)]
    if len(tables) != 1 or len(sources) != len(words) - 1:
        return None
    return line.with_words("sql", [*sources, f"FROM {tables[0]}"]), f"{tables[0]} is a table"


def _answer(line: _Line) -> tuple[_Line, str] | None:
    """The name of an answer after the trace, or a wrong one: `profframe answer TRACE gaps`."""
    words, answers = line.words, _answers()
    if line.verb != _ANSWER or not words or words[0] in answers or words[0].endswith(".sql"):
        return None
    if words[0] in renamed.ANSWERS:
        return None
    first, *others = words
    behind = next((word for word in others if _is_answer(word, answers)), None)
    if behind is None and Path(first).exists():
        names = [word for word in others if not Path(word).exists()]
        behind = next((w for w in names if nearest(w, answers)), None)
    if behind is not None:
        words.remove(behind)
        is_known = _is_answer(behind, answers)
        name = behind if is_known else str(nearest(behind, answers))
        return _as_answer(line, name, words), "the answer comes before the trace"
    if first in line.verbs:
        return line.with_words(first, others), f"{first} is a verb, not an answer"
    near = nearest(first, answers)
    if near is None or Path(first).exists():
        return None
    return line.with_words(_ANSWER, [near, *others]), f"no answer named {first!r}"


def _sql(line: _Line) -> tuple[_Line, str] | None:
    """SQL without quotes, or before the trace: `profframe sql TRACE select name from events`."""
    words = line.words
    if line.verb != "sql" or len(words) < 2:
        return None
    sources = [word for word in words if Path(word).exists() and not _SQL.match(word)][:1]
    if not sources:
        sources = [word for word in words if _looks_like_path(word) and " " not in word][:1]
    if not sources:
        return None
    query = [*words]
    query.remove(sources[0])
    if len(query) == 1 and words[0] == sources[0]:
        return None
    if not any(map(_SQL.match, query)):
        return None
    if len(query) > 1:
        query = [word if " " not in word or _SQL.match(word) else f"'{word}'" for word in query]
    text = " ".join(_with_star(query))
    reason = "SQL is one argument, in quotes" if len(query) > 1 else "the trace comes before SQL"
    return line.with_words("sql", [sources[0], text]), reason


def _with_star(words: Sequence[str]) -> Iterator[str]:
    """The star that a shell has replaced by the names of all files."""
    names = {name for name in glob.glob("*") if len(words) > 1}  # noqa: PTH207 - as a shell does
    is_over = False
    for word in words:
        if word in names and names <= {*words}:
            if not is_over:
                yield "*"
            is_over = True
        else:
            yield word


def _option(line: _Line) -> tuple[_Line, str] | None:
    """An option that is a parameter of the answer, that has another name, or that is misspelt."""
    command = line.verbs.get(line.verb)
    if command is None:
        return None
    options = {name: o for o in _options(command) for name in o.opts}
    negations = {name for o in _options(command) for name in o.secondary_opts}
    taken = {*options, *negations, *renamed.options(line.verb), "--help", "-h"}
    for place, item in enumerate(line.items):
        name, equals, value = item[0].partition("=")
        if not _is_option(item[0]) or name in taken:
            continue
        given = [value] if equals else list(item[1:])
        new = _meant_option(name, given, options, _parameters(line) if given else [])
        if new is None:
            continue
        items = (*line.items[:place], new, *line.items[place + 1 :])
        is_parameter = new[0] == "-p" and new[1].partition("=")[0] == _plain(name)
        what = f"{name} is a parameter" if is_parameter else f"no option named {name}"
        return replace(line, items=items), what
    return None


def _options(command: click.Command) -> list[click.Option]:
    return [option for option in command.params if isinstance(option, click.Option)]


def _meant_option(
    name: str, given: Sequence[str], options: Mapping[str, click.Option], parameters: Sequence[str]
) -> tuple[str, ...] | None:
    """What was meant by an option that a verb lacks, with its value."""
    if not given and name.removeprefix("--") in _FORMATS and "--format" in options:
        return "--format", name.removeprefix("--")
    word = _SYNONYMS.get(name.replace("_", "-"), name)
    if word in options and options[word].is_flag != bool(given):
        return (word, *given)
    if _plain(word) in parameters:
        return "-p", f"{_plain(word)}={given[0]}"
    if not name.startswith("--"):
        return None
    fitting = [o for o in options if o.startswith("--") and options[o].is_flag != bool(given)]
    if near := similar(name, fitting):
        return (near, *given)
    near = similar(_plain(name), parameters)
    return ("-p", f"{near}={given[0]}") if near else None


def _plain(option: str) -> str:
    """The name of an option as a parameter has it."""
    return option.removeprefix("--").replace("-", "_")


def similar(name: str, names: Sequence[str]) -> str | None:
    """The name that was mistyped, or the only one whose first word begins with what was typed.

    Dashes at the beginning do not make names more similar, as they do for `difflib`.

    Examples
    --------
    >>> similar("--tpo", ["--top", "--step"]), similar("--col", ["--columns", "--copies"])
    ('--top', '--columns')
    >>> similar("--top", ["--output", "--step"]), similar("--filter", ["--files"])
    (None, None)
    """
    plain = name.lstrip("-").lower()
    by_plain = {other.lstrip("-"): other for other in names}
    swapped = (other for other in by_plain if sorted(other) == sorted(plain))
    if near := nearest(plain, by_plain, _LEAST_SLIP) or next(swapped, None):
        return by_plain[near]
    longer = [other for other in names if re.match(rf"-*{re.escape(plain)}\w", other)]
    return longer[0] if len(longer) == 1 and len(plain) >= _LEAST_LETTERS else None


def _filter(line: _Line) -> tuple[_Line, str] | None:
    """A part of the trace that is given as a parameter: `-p step=2`."""
    parameters = _parameters(line)
    for place, item in enumerate(line.items):
        name, equals, value = item[-1].partition("=")
        option = name.removesuffix("s")
        if item[0] == "-p" and equals and option in _FILTERS and name not in parameters:
            items = (*line.items[:place], (f"--{option}", value), *line.items[place + 1 :])
            return replace(line, items=items), f"{name} is an option, not a parameter"
    return None


def _parameters(line: _Line) -> list[str]:
    """Parameters of the answer on the line."""
    from profframe.query.analyses import analyses
    from profframe.query.catalogue import catalogue

    if line.verb != _ANSWER or not line.words:
        return []
    questions: tuple[Answer | Analysis, ...] = (*catalogue(), *analyses())
    return [
        parameter.name
        for question in questions
        if question.name == line.words[0]
        for parameter in question.all_parameters
    ]


_STEPS: Final[tuple[_Step, ...]] = (_table, _verb, _verb_behind, _answer, _sql, _option, _filter)


def _problem(group: click.Group, line: _Line) -> Exception | None:
    """The error of a line, as far as it shows without running it."""
    from profframe.cli.answers import check_question, parameter
    from profframe.query import analyses

    if line.verb not in line.verbs:
        return click.UsageError(f"no verb named {line.verb!r}")
    try:
        parts = [part for item in line.items for part in item]
        parent = click.Context(group, info_name="profframe")
        with line.verbs[line.verb].make_context(line.verb, parts, parent=parent) as parsed:
            question = parsed.params.get("name") if line.verb == _ANSWER else None
            if question is not None and analyses.find(question) is None:
                check_question(question, dict(map(parameter, parsed.params["parameters"])))
    except click.exceptions.Exit:
        return None
    except (click.ClickException, ProfframeError) as problem:
        return problem
    return None


def _is_option(word: str) -> bool:
    return word.startswith("-") and len(word) > 1


def _is_word(item: tuple[str, ...]) -> bool:
    return len(item) == 1 and not _is_option(item[0])


def _looks_like_path(word: str) -> bool:
    return "/" in word or "\\" in word or "." in word


def _quoted(word: str) -> str:
    """A word quoted for a shell; SQL reads best between double quotes."""
    quoted = shell_word(word)
    is_in_quotes = quoted.startswith("'")
    return f'"{word}"' if is_in_quotes and not _UNLESS_SAFE.search(word) else quoted
