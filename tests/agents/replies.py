"""Replies as a program reads them: tables out of lines of JSON."""

from __future__ import annotations

import json
from typing import Any

Row = dict[str, Any]


def tables(text: str) -> dict[str, list[Row]]:
    """Rows of each table, by the words of its title before a comma or colon."""
    rows: dict[str, list[Row]] = {}
    title, columns, shared = "", None, Row()
    for line in text.splitlines():
        if line.startswith("# "):
            title = line[2:].partition(":")[0].partition(",")[0]
            rows[title], columns, shared = [], None, Row()
        elif line.startswith("{"):
            shared |= json.loads(line).get("in all rows", {})
        elif line.startswith("[") and columns is None:
            columns = json.loads(line)
        elif line.startswith("["):
            rows[title].append(shared | dict(zip(columns or (), json.loads(line), strict=True)))
    return rows


def notes(text: str) -> str:
    """Sentences of profframe's own."""
    return "\n".join(line for line in text.splitlines() if line.startswith("note: "))


def lacks(text: str, what: str) -> bool:
    """Whether a reply says that the trace has nothing of a kind."""
    return "the trace cannot tell" in notes(text) and what in notes(text)
