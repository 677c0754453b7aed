"""Rules of advice: files of one SELECT each, put together into one answer.

A rule is a file like an answer's: its header has the name and a sentence, the grain, notes that
give the reasons of its thresholds, ``suggestion:``, ``link:``, ``needs:`` and its parameters, whose
names start with that of the rule. Its SELECT gives the columns of `COLUMNS`, one row per finding,
and may give ``suggestion``, if that of the header does not apply to all findings (NULL: the
header's); ``cause``, if ranks share a finding but not its ``where`` (NULL: ``where``); and
``ranks``, if a finding is about several ranks. A line ``only if:`` with a condition in SQL leaves
the rule out of traces that it cannot apply to, which saves planning it.

A line ``claims: WORD``, one of `CLAIMS`, says which time a finding claims, so that no two findings
of a rank claim the same: what rules before it in `ORDER` claim is subtracted. It claims the slices
in ``changed_events``, or the spans in ``claimed``, a list of `span`. ``claimed_ns`` is how much
that is; the text shows it at `claimed_part()`, as a part of ``claimed_of_ns``, or else of the time
looked at. If less than ``least_ns`` is left, there is no finding.

A line ``closest: RULE, RULE`` names rules that could have had the time of a finding without a
cause: ``gain_basis`` then says which of them came closest to its ``least_ns``. So rules return what
is a tenth of that and more.

A line ``replay: WORD, what that is`` says what the suggestion means in a replay of the run, whose
result is then the gain. ``WORD`` is one of `REPLAYS`; the SELECT gives the events that change as
``changed_events``, and for ``works`` the factors of their time as ``changed_factors``, else 0. NULL
means all of the time looked at for launches and stragglers, and for all others that the gain stays
that of the rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeAlias

from profframe.errors import AnswerError
from profframe.query.header import (
    COMMENT,
    Answer,
    Parameter,
    comment_lines,
    parse,
    read_sql,
    sql_directory,
)
from profframe.query.selection import literal
from profframe.system.plugins import owner, plugins

_KEYWORDS: Final = ("suggestion", "link", "only if", "replay", "claims", "closest")

REPLAYS: Final = {
    "launches": "calls that launch work during the events, and the ops around them, take no time",
    "host": "what threads do in the events takes no time; waits for devices stay",
    "calls": "the events take no time, and wait for no device",
    "ops": "what threads do in the events takes no time, nor does the work launched in them",
    "works": "the kernels or copies take changed_factors times as long",
    "stragglers": "what makes the late ranks late takes as long as on the median rank",
}
"""How a replay may simulate a suggestion."""

CLAIMS: Final = {
    "idle": "no device of the rank is busy",
    "exposed": "no device of the rank computes",
    "all": "the rank does what the finding is about, whatever else it does",
}
"""The moments of its spans that a finding counts as lost."""

ORDER: Final = (
    "straggler",
    "data_loading", "synchronous_data_loader", "recompiles", "device_allocations",
    "blocking_calls", "extra_device_copy", "zeroed_gradients", "loop_indexing",
    "single_tensor_optimizer", "missed_captures", "eager_decode", "host_bound_decode",
    "slow_layers", "exposed_communication", "exposed_expert_parallel", "pageable_copies",
    "exposed_copies", "tensor_cores_unused", "fp32_kernels", "communication_share", "launch_bound",
    "short_kernels", "low_flop_rate", "low_gpu_use", "unexplained_idle",
)  # fmt: skip
"""Rules that claim time, those with the narrowest cause first; a user's own come before all."""

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
"""Columns of a rule's SELECT, in any order, of any types that can be cast to these."""

_GAIN: Final = "estimated_gain_ns"

GROUP: Final = "profframe.rules"
"""Entry points of other distributions, whose objects are paths of files or folders of rules."""

ANSWER: Final = "advice"
"""Name of the answer that is made of the rules."""

SHARED_FIRST: Final[Mapping[str, str]] = MappingProxyType(
    {"shared_names": "events", "shared_windows": "events, profiler_steps"}
)
"""Tables of `sql/lib/advice.sql` that conditions of rules read, too, and their inputs."""

Paths: TypeAlias = str | PathLike[str] | Iterable[str | PathLike[str]]

_STEP: Final = re.compile(
    r"^CREATE OR REPLACE TEMP MACRO (?P<name>shared_\w+)\((?P<inputs>[\w, ]*)\) AS TABLE$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class AdviceRule:
    """One kind of finding, and what to do about it."""

    path: Path
    answer: Answer
    suggestion: str
    link: str
    only_if: str = "true"
    replay: str = ""
    replayed_with: str = ""
    claims: str = ""
    closest: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the rule, which is that of its file."""
        return self.answer.name

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Its thresholds."""
        return self.answer.parameters

    @property
    def body(self) -> str:
        """Its SELECT, as it stands in parentheses inside the answer."""
        return _body(self.answer.sql)

    @property
    def condition(self) -> str:
        """SQL: whether it can apply to a trace."""
        return f"coalesce(({self.only_if}), false)"


@dataclass(frozen=True, slots=True)
class Advice(Answer):
    """An answer made of rules: one SELECT with all of them in it."""

    base: Answer | None = None
    rules: tuple[AdviceRule, ...] = ()

    @property
    def ranking(self) -> str:
        """The SELECT that ranks a table ``findings``."""
        return _body((self.base or self).sql)

    @property
    def parts(self) -> dict[str, Answer]:
        """The answer split into one per rule, by the path of the rule."""
        return {str(rule.path): self.only([rule]) for rule in self.rules}

    @property
    def conditions(self) -> str:
        """SQL for one row: whether each rule can apply to the trace."""
        return "SELECT " + ", ".join(rule.condition for rule in self.rules)

    @property
    def steps(self) -> tuple[tuple[str, str], ...]:
        """Shared steps that the rules read, each after those that it reads, and their inputs."""
        return (*_steps([*(rule.body for rule in self.rules), SETTLED]),)

    def collecting(self, tables: Iterable[str] = ()) -> str:
        """SQL: what the rules find; ``tables`` are shared steps that are tables already."""
        parts = [_part(rule) for rule in self.rules] or [_NOTHING]
        steps = _common_tables([rule.body for rule in self.rules], tables)
        return _with(steps) + "\nUNION ALL\n".join(parts)

    def only(self, rules: Iterable[AdviceRule]) -> Advice:
        """The answer with some of the rules."""
        return assemble(self.base or self, rules)


def shipped_rules() -> tuple[AdviceRule, ...]:
    """The rules that come with profframe, by name.

    Examples
    --------
    >>> "data_loading" in [rule.name for rule in shipped_rules()]
    True
    """
    return tuple(read(path) for path in sorted((sql_directory() / "rules").glob("*.sql")))


def rules(paths: Paths = ()) -> tuple[AdviceRule, ...]:
    """The rules that come with profframe, and additional ones from files and folders.

    Parameters
    ----------
    paths
        Files that end in ``.sql``, folders of them, or names of entry points of the group
        ``profframe.rules``. A rule with the name of one that comes with profframe takes its place.

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
    >>> rules() == shipped_rules()
    True
    """
    items = [paths] if isinstance(paths, (str, PathLike)) else paths
    by_name = {rule.name: rule for rule in shipped_rules()}
    by_user: dict[str, Path] = {}
    for path in (file for item in items for file in _files(Path(item))):
        if path.stem in by_user:
            raise AnswerError(f"{path}: the rule has the same name as {by_user[path.stem]}")
        by_user[path.stem] = path
        by_name[path.stem] = read(path)
    return tuple(by_name[name] for name in sorted(by_name))


def read(path: Path) -> AdviceRule:
    """Read a rule from its file.

    Parameters
    ----------
    path
        The file; its name without ``.sql`` is that of the rule.

    Returns
    -------
    Rule
        What its header declares, and its SQL.

    Raises
    ------
    AnswerError
        The file cannot be read, or its header cannot be understood.

    Examples
    --------
    >>> read(sql_directory() / "rules" / "data_loading.sql").answer.sentence
    'steps wait for the data loader.'
    """
    sql = read_sql(path, "rule")
    try:
        answer = parse(sql, path.stem, has_columns=False)
    except AnswerError as error:
        raise AnswerError(f"{path}: {error}") from None
    if not answer.sentence:
        expected = f"-- {path.stem}: one sentence."
        raise AnswerError(f"{path}: the first line of a rule is {expected!r}")
    fields = _fields(answer.notes)
    missing = [word for word in ("suggestion", "link") if not fields.get(word)]
    if missing:
        raise AnswerError(f"{path}: the header has no line '-- {missing[0]}: ...'")
    foreign = [p.name for p in answer.parameters if not p.name.startswith(f"{path.stem}_")]
    if foreign:
        raise AnswerError(
            f"{path}: parameters of a rule start with its name: "
            f"{path.stem}_{foreign[0]}, not {foreign[0]}"
        )
    notes = tuple(fields["notes"].splitlines())
    word, _, words = fields.get("replay", "").partition(", ")
    if "replay" in fields and (word not in REPLAYS or not words):
        raise AnswerError(
            f"{path}: expected '-- replay: WORD, what that is' "
            f"(WORD one of {', '.join(REPLAYS)}), found {fields['replay']!r}"
        )
    claims = fields.get("claims", "")
    if "claims" in fields and claims not in CLAIMS:
        raise AnswerError(
            f"{path}: expected '-- claims: WORD' (WORD one of {', '.join(CLAIMS)}), "
            f"found {claims!r}"
        )
    return AdviceRule(
        path,
        replace(answer, notes=notes),
        fields["suggestion"],
        fields["link"],
        fields.get("only if", "true"),
        word,
        words,
        claims,
        tuple(fields["closest"].split(", ")) if "closest" in fields else (),
    )


def assemble(answer: Answer, rules: Iterable[AdviceRule]) -> Advice:
    """Put rules into the answer whose SELECT is from their ``findings``.

    Parameters
    ----------
    answer
        The answer, as its file has it.
    rules
        The rules.

    Returns
    -------
    Advice
        One SELECT that needs all tables of the rules and has all of their parameters.

    Examples
    --------
    >>> rule = read(sql_directory() / "rules" / "data_loading.sql")
    >>> answer = assemble(Answer("advice", "SELECT * FROM findings ORDER BY run"), [rule])
    >>> [parameter.name for parameter in answer.parameters]
    ['data_loading_share']
    """
    rules = tuple(rules)
    comment = "".join(f"-- {line}\n" for line in comment_lines(answer.sql))
    steps = _common_tables([*(rule.body for rule in rules), SETTLED], ())
    parts = [_part(rule) for rule in rules]
    raw = f"{RAW_FINDINGS} AS MATERIALIZED (\n" + "\nUNION ALL\n".join(parts or [_NOTHING]) + "\n)"
    collecting = [*steps, raw, f"findings AS ({SETTLED})\n"]
    needs = dict.fromkeys([*answer.needs, *(need for rule in rules for need in rule.answer.needs)])
    return Advice(
        name=answer.name,
        sql=comment + _with(collecting) + _body(answer.sql),
        sentence=answer.sentence,
        grain=answer.grain,
        notes=answer.notes,
        needs=tuple(needs),
        parameters=tuple(parameter for rule in rules for parameter in rule.parameters),
        columns=answer.columns,
        recorded=answer.recorded,
        when_empty=answer.when_empty,
        division=answer.division,
        main=answer.main,
        base=answer,
        rules=rules,
    )


def _common_tables(bodies: Iterable[str], tables: Iterable[str]) -> list[str]:
    """Shared steps that SQL reads, as parts of a WITH, but for those that are tables already."""
    return [
        f"{name} AS MATERIALIZED (FROM {name}({inputs}))"
        for name, inputs in _steps(bodies)
        if name not in tables
    ]


def _with(parts: Iterable[str]) -> str:
    text = ",\n".join(parts)
    return f"WITH {text}" + "\n" * (not text.endswith("\n")) if text else ""


def _cast(name: str, type_: str) -> str:
    """SQL: a column of a rule in its type; a gain beyond BIGINT is NULL, its times are broken."""
    cast = f'part."{name}"::{type_}'
    return f'CASE WHEN abs(part."{name}") < 9e18 THEN {cast} END' if name == _GAIN else cast


def _part(rule: AdviceRule) -> str:
    types = COLUMNS | _OWN_COLUMNS
    columns = ", ".join(f'{_cast(name, type_)} AS "{name}"' for name, type_ in types.items())
    suggestion = f"coalesce(part.suggestion, {literal(rule.suggestion)}) AS suggestion"
    own = f"{_cast(_GAIN, COLUMNS[_GAIN])} AS own_gain_ns"
    replay = f"nullif({literal(rule.replay)}, '') AS replay, {literal(rule.replayed_with)}"
    texts = f"{literal(rule.name)} AS rule, {suggestion}, {literal(rule.link)} AS link, {replay}"
    place = ORDER.index(rule.name) if rule.name in ORDER else -1
    closest = ", ".join(map(literal, rule.closest))
    claims = f"nullif({literal(rule.claims)}, '') AS claims, {place} AS claim_order"
    claims += f", [{closest}]::VARCHAR[] AS closest"
    given = f"{columns}, {own}, {texts} AS replayed_with, {claims}"
    return f"SELECT {given}\nFROM (\n{_OWN}\nFROM (\n{rule.body}\n)\n) AS part"


_OWN_COLUMNS: Final = {
    "cause": "VARCHAR",
    "ranks": "BIGINT[]",
    "changed_events": "BIGINT[]",
    "changed_factors": "DOUBLE[]",
    "claimed": "STRUCT(rank INTEGER, start_ns BIGINT, end_ns BIGINT)[]",
    "claimed_ns": "DOUBLE",
    "claimed_of_ns": "DOUBLE",
    "least_ns": "DOUBLE",
}


def _nulls(columns: Mapping[str, str]) -> str:
    return ", ".join(f'NULL::{type_} AS "{name}"' for name, type_ in columns.items())


_OWN: Final = (
    f"SELECT {_nulls({'suggestion': 'VARCHAR'} | _OWN_COLUMNS)} WHERE false UNION ALL BY NAME"
)
"""Rows of a rule have these of their own where its SELECT gives the columns."""


_NOTHING: Final = (
    f"SELECT {_nulls(COLUMNS | _OWN_COLUMNS | {'own_gain_ns': 'BIGINT', 'replay': 'VARCHAR'})}, "
    "'' AS rule, '' AS suggestion, '' AS link, '' AS replayed_with, NULL::VARCHAR AS claims, "
    "0 AS claim_order, NULL::VARCHAR[] AS closest WHERE false"
)

RAW_FINDINGS: Final = "found"
"""The table with what rules find."""
SETTLED: Final = f"FROM settled_findings({RAW_FINDINGS}, events, shared_windows)"
"""SQL: findings after no two claim the same time."""


def _steps(bodies: Iterable[str]) -> list[tuple[str, str]]:
    """Shared steps that SQL reads, and those that these read, in order, with their inputs."""
    inputs = _inputs()
    used: set[str] = set()
    for name in reversed([*inputs]):
        readers = [*bodies, *(inputs[other] for other in used)]
        if any(re.search(rf"\b{name}\b", sql) for sql in readers):
            used.add(name)
    return [(name, inputs[name]) for name in inputs if name in used]


@cache
def _inputs() -> Mapping[str, str]:
    """Inputs of each shared step, in order."""
    text = (sql_directory() / "lib" / "advice.sql").read_text(encoding="utf-8")
    return MappingProxyType({match["name"]: match["inputs"] for match in _STEP.finditer(text)})


def _body(sql: str) -> str:
    return COMMENT.sub("", sql + "\n").strip().removesuffix(";")


def _files(path: Path) -> Iterator[Path]:
    if not path.exists() and path.name == str(path) and (point := plugins(GROUP).get(path.name)):
        path = _installed(point)
    if not path.is_dir():
        yield path
        return
    files = sorted(path.glob("*.sql"))
    if not files:
        raise AnswerError(f"{path}: the folder has no rule (no file that ends in .sql)")
    yield from files


def _installed(point: EntryPoint) -> Path:
    """Where the rules of another distribution are."""
    title = f"the rules {point.name!r} of {owner(point)}"
    try:
        place = point.load()
    except Exception as error:
        raise AnswerError(f"{title} cannot be imported: {error!r}") from error
    if not isinstance(place, (str, PathLike)) or not Path(place).exists():
        raise AnswerError(f"{title}: needs the path of a file or folder of rules, not {place!r}")
    return Path(place)


def _fields(notes: Iterable[str]) -> dict[str, str]:
    """Lines of notes by the word that they start with; one without a word continues the last."""
    fields: dict[str, list[str]] = {"notes": []}
    current = "notes"
    for line in notes:
        word, colon, rest = line.partition(": ")
        starts = bool(colon) and word in _KEYWORDS
        current = word if starts else current
        fields.setdefault(current, []).append(rest if starts else line)
    return {word: ("\n" if word == "notes" else " ").join(lines) for word, lines in fields.items()}
