"""Rules of advice: files of one SELECT each, put together into one answer.

A rule is a file like an answer's: its header has the name and a sentence, the grain, notes that
give the reasons of its thresholds, ``suggestion:``, ``link:``, ``needs:`` and its parameters, whose
names start with that of the rule. Its SELECT gives the columns of `COLUMNS`, one row per finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Final, TypeAlias

from profframe.errors import AnswerError
from profframe.headers import COMMENT, Answer, Parameter, comment_lines, parse, sql_directory

COLUMNS: Final = {
    "run": "VARCHAR",
    "rank": "INTEGER",
    "severity": "VARCHAR",
    "finding": "VARCHAR",
    "evidence_events": "BIGINT[]",
    "events": "BIGINT",
    "estimated_gain_ns": "BIGINT",
    "gain_basis": "VARCHAR",
    "where": "VARCHAR",
}
"""What a rule's SELECT gives, in any order; types that can be cast to these will do."""

ANSWER: Final = "advice"
"""Name of the answer that rules are put into."""

Paths: TypeAlias = str | PathLike[str] | Iterable[str | PathLike[str]]

_STEP: Final = re.compile(
    r"^CREATE OR REPLACE TEMP MACRO (?P<name>shared_\w+)\((?P<inputs>[\w, ]*)\) AS TABLE$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that can be found in a trace, and what to do about it."""

    path: Path
    answer: Answer
    suggestion: str
    link: str

    @property
    def name(self) -> str:
        """Name of the rule, which is that of its file."""
        return self.answer.name

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Its thresholds."""
        return self.answer.parameters


def own_rules() -> tuple[Rule, ...]:
    """The rules that come with profframe, by name.

    Examples
    --------
    >>> "data_loading" in [rule.name for rule in own_rules()]
    True
    """
    return tuple(read(path) for path in sorted((sql_directory() / "rules").glob("*.sql")))


def rules(paths: Paths = ()) -> tuple[Rule, ...]:
    """The rules that come with profframe, and those of files and folders beside them.

    Parameters
    ----------
    paths
        Files that end in ``.sql``, and folders of such. A rule of the name of one that comes with
        profframe takes its place.

    Returns
    -------
    tuple[Rule, ...]
        All of them, by name.

    Raises
    ------
    AnswerError
        A file or folder cannot be read, holds no rule, or its header cannot be understood.

    Examples
    --------
    >>> rules() == own_rules()
    True
    """
    given = [paths] if isinstance(paths, (str, PathLike)) else paths
    found = {rule.name: rule for rule in own_rules()}
    seen: dict[str, Path] = {}
    for path in (file for one in given for file in _files(Path(one))):
        if path.stem in seen:
            raise AnswerError(f"{path}: a rule of the same name as {seen[path.stem]}")
        seen[path.stem] = path
        found[path.stem] = read(path)
    return tuple(found[name] for name in sorted(found))


def read(path: Path) -> Rule:
    """Read a rule from its file.

    Parameters
    ----------
    path
        The file; its name without ``.sql`` is that of the rule.

    Returns
    -------
    Rule
        What its header says, and its SQL.

    Raises
    ------
    AnswerError
        The file cannot be read, or its header cannot be understood.

    Examples
    --------
    >>> read(sql_directory() / "rules" / "data_loading.sql").answer.sentence
    'steps wait for the data loader.'
    """
    try:
        sql = path.read_text(encoding="utf-8")
    except OSError as error:
        raise AnswerError(f"{path}: cannot read the rule: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise AnswerError(f"{path}: the rule is not UTF-8 text") from error
    try:
        answer = parse(sql, path.stem, has_columns=False)
    except AnswerError as error:
        raise AnswerError(f"{path}: {error}") from None
    if not answer.sentence:
        expected = f"-- {path.stem}: one sentence."
        raise AnswerError(f"{path}: the first line of a rule is {expected!r}")
    said = _said(answer.notes)
    missing = [word for word in ("suggestion", "link") if not said.get(word)]
    if missing:
        raise AnswerError(f"{path}: the header has no line '-- {missing[0]}: ...'")
    foreign = [p.name for p in answer.parameters if not p.name.startswith(f"{path.stem}_")]
    if foreign:
        raise AnswerError(
            f"{path}: parameters of a rule start with its name: "
            f"{path.stem}_{foreign[0]}, not {foreign[0]}"
        )
    notes = tuple(said["notes"].splitlines())
    return Rule(path, replace(answer, notes=notes), said["suggestion"], said["link"])


def assembled(answer: Answer, chosen: Iterable[Rule]) -> Answer:
    """Put rules into the answer whose SELECT is from their ``findings``.

    Parameters
    ----------
    answer
        The answer, as its file has it.
    chosen
        The rules.

    Returns
    -------
    Answer
        One SELECT that needs all tables of the rules and has all of their parameters. Its
        ``parts`` are the same with one rule each.

    Examples
    --------
    >>> rule = read(sql_directory() / "rules" / "data_loading.sql")
    >>> one = assembled(Answer("advice", "SELECT * FROM findings ORDER BY run"), [rule])
    >>> [parameter.name for parameter in one.parameters]
    ['data_loading_share']
    """
    chosen = tuple(chosen)
    whole = _with(answer, chosen)
    return replace(whole, parts=tuple((str(rule.path), _with(answer, (rule,))) for rule in chosen))


def _with(answer: Answer, chosen: tuple[Rule, ...]) -> Answer:
    comment = "".join(f"-- {line}\n" for line in comment_lines(answer.sql))
    bodies = [_body(rule.answer.sql) for rule in chosen]
    steps = [f"{name} AS MATERIALIZED (FROM {name}({inputs}))" for name, inputs in _steps(bodies)]
    parts = [_part(rule, body) for rule, body in zip(chosen, bodies, strict=True)]
    findings = "findings AS (\n" + "\nUNION ALL\n".join(parts or [_NOTHING]) + "\n)\n"
    needs = dict.fromkeys([*answer.needs, *(need for rule in chosen for need in rule.answer.needs)])
    return replace(
        answer,
        sql=comment + "WITH " + ",\n".join([*steps, findings]) + _body(answer.sql),
        needs=tuple(needs),
        parameters=tuple(parameter for rule in chosen for parameter in rule.parameters),
    )


def _part(rule: Rule, body: str) -> str:
    columns = ", ".join(f'"{name}"::{type_} AS "{name}"' for name, type_ in COLUMNS.items())
    said = [("rule", rule.name), ("suggestion", rule.suggestion), ("link", rule.link)]
    texts = ", ".join(f"{_literal(text)} AS {name}" for name, text in said)
    return f"SELECT {columns}, {texts}\nFROM (\n{body}\n)"


_NOTHING: Final = (
    "SELECT "
    + ", ".join(f'NULL::{type_} AS "{name}"' for name, type_ in COLUMNS.items())
    + ", '' AS rule, '' AS suggestion, '' AS link WHERE false"
)


def _steps(bodies: Iterable[str]) -> list[tuple[str, str]]:
    """The shared steps that SQL reads, and those that these read, in their order, with inputs."""
    text = (sql_directory() / "_rules.sql").read_text(encoding="utf-8")
    inputs = {match["name"]: match["inputs"] for match in _STEP.finditer(text)}
    used: set[str] = set()
    for name in reversed(inputs):
        reached = [*bodies, *(inputs[other] for other in used)]
        if any(re.search(rf"\b{name}\b", sql) for sql in reached):
            used.add(name)
    return [(name, inputs[name]) for name in inputs if name in used]


def _body(sql: str) -> str:
    return COMMENT.sub("", sql + "\n").strip().removesuffix(";")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    found = sorted(path.glob("*.sql"))
    if not found:
        raise AnswerError(f"{path}: the folder has no rule, a file that ends in .sql")
    yield from found


def _said(notes: Iterable[str]) -> dict[str, str]:
    """Lines of notes by the word that they start with; one without a word belongs to the last."""
    said: dict[str, list[str]] = {"notes": []}
    current = "notes"
    for line in notes:
        word, colon, rest = line.partition(": ")
        starts = bool(colon) and word in {"suggestion", "link"}
        current = word if starts else current
        said.setdefault(current, []).append(rest if starts else line)
    return {word: ("\n" if word == "notes" else " ").join(lines) for word, lines in said.items()}
