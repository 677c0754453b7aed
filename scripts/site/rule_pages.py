"""The page of the rules of advice, made of their headers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from profframe.advising import COLUMNS, Rule
from scripts.site import answer_pages, markup

ABOVE: Final = """\
# Rules of advice

[`advice`](answers/advice.md) asks all of them at once, and a finding without events that show it
is none. Each is a file of `sql/rules`: a header, and one SELECT over the [tables](tables.md).

Thresholds are parameters: `trace.advice(launch_bound_share=0.2)`, or
`profframe advice trace.json.gz -p launch_bound_share=0.2`. A rule of your own is a file of your
own: `trace.advice(rules="my_rule.sql")`, or `--rules my_rule.sql`. One that is named like one of
these takes its place.
"""

_URL: Final = re.compile(r"https://[^\s<>()\"']+")


def page(rules: Sequence[Rule]) -> str:
    """The page.

    Parameters
    ----------
    rules
        All rules, by name.
    """
    rows = [(f"[`{rule.name}`](#{rule.name.replace('_', '-')})", _sentence(rule)) for rule in rules]
    lines = [ABOVE, *markup.table(("rule", "what it finds"), rows)]
    for rule in rules:
        lines += _section(rule)
    columns = " ".join(f"`{name}`" for name in COLUMNS)
    lines += ["", "## Your own", "", f"The SELECT gives {columns}, in any order."]
    lines += ["The header is that of the rules above: name and sentence, grain, notes,"]
    lines += ["`suggestion:`, `link:`, `needs:`, and parameters that start with the rule's name."]
    return "\n".join(lines) + "\n"


def _section(rule: Rule) -> Iterator[str]:
    answer = rule.answer
    yield from ("", f"## {markup.plain(rule.name)}", "")
    yield f"**{_sentence(rule)}**"
    for paragraph in markup.paragraphs([answer.grain, *answer.notes]):
        yield from ("", markup.prose(paragraph))
    link = f" [More](<{rule.link}>)" if _URL.fullmatch(rule.link) else ""
    yield from ("", f"**What to do.** {markup.prose(rule.suggestion)}{link}")
    if rule.parameters:
        yield from ("", *answer_pages.parameters(rule.parameters))
    yield from ("", *markup.fence("<details><summary>SQL</summary>", "{raw} html"), "")
    yield from markup.fence(answer_pages.without_header(answer.sql), "sql")
    yield from ("", *markup.fence("</details>", "{raw} html"))


def _sentence(rule: Rule) -> str:
    return answer_pages.sentence(rule.answer.sentence)
