"""A page for each answer, made of its header, its SQL and what it gives of an example trace."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from profframe.query.header import Answer, Parameter, sql_directory
from profframe.query.reasons import LACKING
from profframe.query.rules import ANSWER as ADVICE
from profframe.trace.trace import Trace
from scripts.pages.answers import grouped
from scripts.site import markup

ASKED: Final[Mapping[str, Mapping[str, object]]] = MappingProxyType(
    {
        "counter_series": {"name": "memory"},
        "gaps": {"top": 5},
        "kernels": {"per": "short_name", "top": 5},
        "key_averages": {"group_by_input_shape": True},
        "memory_timeline": {"points": 20},
        "optimizable_events": {"n": 5},
        "roofline": {"per": "op"},
        "run_samples": {"per": "step"},
        "sequences": {"min_kernels": 2, "top": 5},
        "snapshot_timeline": {"per": "frame", "points": 20, "top": 3},
    }
)
"""Parameters that examples of calls have, where the defaults show less."""

CASES: Final[Mapping[str, str]] = MappingProxyType({"collectives": "by_number"})
"""Cases of the tests that are shown where no trace has what is asked for, if not the smallest."""

_MOST_ROWS: Final = 5
_SMALLEST: Final = 600
"""Characters of a case that says something."""
_CASES: Final = Path(__file__).resolve().parent.parent.parent / "tests" / "sql" / "cases"
_RESERVED: Final = frozenset({"by"})
"""Names of parameters that are words of SQL."""
_IN_A_SHELL: Final = "In a bare shell read "
_STORE: Final = "store/[rp]*/**/{}.parquet"


@dataclass(frozen=True)
class Source:
    """A trace that answers are shown of: what a user would load, and what it is called."""

    path: str
    said: str
    trace: Trace


def index(text: str, names: Iterable[str]) -> str:
    """The list of all answers, with their pages below it.

    Parameters
    ----------
    text
        The list.
    names
        Names of all answers.
    """
    entries = (f"answers/{name}" for members in grouped(names).values() for name in members)
    return f"{text}\n" + "\n".join(["```{toctree}", ":hidden:", "", *entries, "```"]) + "\n"


def page(answer: Answer, sources: Sequence[Source]) -> str:
    """The page of one answer.

    Parameters
    ----------
    answer
        What its file says.
    sources
        Traces to show it of; the first of which it gives rows is taken.
    """
    lines = [*reference(answer), *_shown(answer, sources), "", "## SQL"]
    for select in answer.selects:
        file = sql_directory() / "answers" / f"{select.name}.sql"
        lines += ["", f"`sql/answers/{file.name}`"]
        if answer.name == ADVICE:
            lines += ["", "`findings` are the rows of all [rules](../rules.md)."]
        lines += ["", *markup.fence(without_header(file.read_text(encoding="utf-8")), "sql")]
    return "\n".join(lines) + "\n"


def reference(answer: Answer) -> list[str]:
    """What its header says, as lines of its page: all of it but for the SQL."""
    needs = ", ".join(f"[`{t}`](../tables.md#{t})" for t in answer.needs)
    lines = [f"# {markup.plain(answer.name)}", ""]
    lines += [f"For people who want to know: **{markup.prose(answer.sentence)}**"]
    lines += [*_rows(answer), "", f"Reads {needs}."]
    if answer.name == ADVICE:
        lines += ["", "Its parameters are the thresholds of the [rules](../rules.md)."]
    elif answer.all_parameters:
        lines += ["", "## Parameters", "", *parameters(answer.all_parameters)]
    lines += ["", "## Columns", "", *_columns(answer)]
    for form in answer.forms:
        lines += [
            "",
            f"## With {markup.plain(str(form.choice).replace('|', ', '))}",
            "",
            sentence(form.sentence),
        ]
        lines += [*_rows(form), "", *_columns(form)]
    return lines


def _rows(select: Answer) -> Iterator[str]:
    """What one row is, the notes, when there are none, and what the question divides by."""
    for paragraph in markup.paragraphs([select.grain, *_said(select)]):
        yield from ("", markup.prose(paragraph))
    yield from ("", " ".join([without_rows(select), *divided(select)]))


def without_rows(select: Answer) -> str:
    """When it has no rows, in a sentence."""
    if select.recorded == (("traces",),):
        return "No rows if there are no traces."
    lacks = (
        " and ".join(f"no {LACKING[name].what}" for name in names) for names in select.recorded
    )
    return f"No rows if the trace has {markup.prose('; or '.join(lacks))}."


def divided(select: Answer) -> list[str]:
    """What it divides by, in a sentence, if its header says so."""
    if select.division is None:
        return []
    by = str(select.division).partition(":")[0]
    if by == "no":
        return [f"Does [not divide](../dividing.md): {markup.prose(select.division.instead)}."]
    return [f"[Divides](../dividing.md) by {markup.prose(by)}."]


def _columns(select: Answer) -> list[str]:
    heads = ("column", "type", "unit", "what it is")
    columns = (
        (markup.code(c.name), c.type, markup.plain(c.unit or ""), markup.prose(c.doc))
        for c in select.columns
    )
    return markup.table(heads, columns)


def calls(answer: Answer, source: str) -> tuple[str, str, str]:
    """How to ask it: in Python, on the command line, in a DuckDB shell in which a store is.

    Parameters
    ----------
    answer
        What its file says.
    source
        Path of the trace.
    """
    asked = ASKED.get(answer.name, {})
    arguments = ", ".join(f"{name}={value!r}" for name, value in asked.items())
    if hasattr(Trace, answer.name):
        python = f"trace.{answer.name}({arguments})"
    else:
        python = f"trace.answer({', '.join([repr(answer.name), *arguments.split(', ')])})"
    options = [f"-p {name}={_word(value)}" for name, value in asked.items()]
    command = " ".join(["profframe answer", answer.name, shlex.quote(source), *options])
    file = f"sql/answers/{answer.name}.sql"
    if answer.name == ADVICE:  # its rules are files of their own
        file = "advice.sql"
        command += f"\nprofframe answer {ADVICE} --sql > {file}"
    shell = [
        f"CREATE VIEW {table} AS FROM read_parquet('{_STORE.format(table)}',"
        " hive_partitioning = false);"
        for table in answer.needs
    ]
    shell += [f".read sql/lib/{name}.sql" for name in answer.shared]
    shell += [
        f"SET VARIABLE {_word_of_sql(name)} = {_literal(value)};" for name, value in asked.items()
    ]
    return (
        f"import profframe\n\ntrace = profframe.load({source!r})\n{python}",
        command,
        "\n".join([*shell, f".read {file}"]),
    )


def parameters(declared: Iterable[Parameter]) -> list[str]:
    """A table of parameters."""
    heads = ("parameter", "type", "default", "what it does")
    return markup.table(heads, map(_parameter, declared))


def sentence(text: str) -> str:
    """The sentence of a header."""
    return markup.prose(text[:1].upper() + text[1:])


def without_header(sql: str) -> str:
    """The SQL below the comment that it starts with."""
    lines = sql.splitlines()
    body = next((i for i, line in enumerate(lines) if not line.startswith("--")), 0)
    return "\n".join(lines[body:])


def _shown(answer: Answer, sources: Sequence[Source]) -> Iterator[str]:
    asked = ASKED.get(answer.name, {})
    frames = ((source, source.trace.answer(answer.name, **asked)) for source in sources)
    source, frame = next(((s, f) for s, f in frames if f.height), (sources[0], None))
    python, command, shell = calls(answer, source.path)
    yield from ("", "## Example", "", *markup.fence(python, "python"))
    yield from ("", *markup.fence(command, "sh"))
    yield from ("", "In a bare DuckDB shell beside a [store](../duckdb_shell.md):", "")
    yield from markup.fence(shell, "sql")
    if frame is None:
        yield from _worked_out(answer.name)
        return
    first = frame.head(_MOST_ROWS)
    more = (
        f" (the first {first.height} of {frame.height:,} rows)" if len(first) < len(frame) else ""
    )
    yield from ("", f"Of {source.said} a notebook shows{more}:", "")
    yield from markup.fence(first._repr_html_(), "{raw} html")


def _worked_out(name: str) -> Iterator[str]:
    """A case of the tests, whose rows were typed by hand."""
    folder = _CASES / name
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.md"))]
    chosen = folder / f"{CASES.get(name, '')}.md"
    if chosen.is_file():
        texts = [chosen.read_text(encoding="utf-8")]
    long_enough = [text for text in texts if len(text) >= _SMALLEST] or texts
    if not long_enough:
        return
    title, _, rest = min(long_enough, key=len).partition("\n")
    said = markup.prose(title.removeprefix("# "))
    yield from ("", "No example trace has such rows. Worked out by hand:", "", f"*{said}*", "")
    for line in rest.splitlines():
        if line.startswith("## "):
            yield f"### {markup.plain(line.removeprefix('## '))}"
        elif line.startswith("|--"):
            yield line
        elif line.startswith("|"):
            cells = [markup.plain(cell.strip()) for cell in line.strip("|").split("|")]
            yield f"| {' | '.join(cells)} |"
        else:
            yield line if line.startswith("    ") else markup.prose(line)


def _said(answer: Answer) -> list[str]:
    """The notes but for what the shell needs, which the example shows."""
    return [note for note in answer.notes if not note.startswith(_IN_A_SHELL)]


def _parameter(parameter: Parameter) -> tuple[str, ...]:
    words = " or ".join(markup.code(choice) for choice in parameter.choices)
    default = _word(parameter.default)
    doc = markup.prose(parameter.doc) + (f": {words}" if words else "")
    return markup.code(parameter.name), parameter.type, markup.code(default), doc


def _word_of_sql(name: str) -> str:
    return f'"{name}"' if name in _RESERVED else name


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _literal(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else _word(value)
