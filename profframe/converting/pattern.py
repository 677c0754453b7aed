"""Run and rank out of a path, by a pattern such as ``{run}/rank{rank}.json.gz``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from profframe.errors import ParameterError, SourceError

_PARTS: Final = re.compile(r"(\{[^{}]*\}|\*)")
_MOST_RANKS: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern, compiled.

    ``{run}`` stands for text and ``{rank}`` for digits within one folder's or file's name, ``*``
    for anything there. It is held against the end of a path, or against all of it where it begins
    with ``/``.

    Examples
    --------
    >>> Pattern.of("{run}/rank{rank}.json.gz").names("/jobs/nightly/rank3.json.gz")
    ('nightly', 3)
    >>> Pattern.of("{run}_*.json").names("/jobs/a_b_c.json")
    ('a_b', None)
    """

    text: str
    expression: re.Pattern[str]

    @classmethod
    def of(cls, text: str) -> Pattern:
        """Compile a pattern."""
        seen: set[str] = set()
        made: list[str] = []
        for part in filter(None, _PARTS.split(text)):
            made.append(_expression(text, part, seen, after=made[-1] if made else ""))
            seen.add(part)
        if not seen & {"{run}", "{rank}"}:
            raise ParameterError(
                f"pattern {text!r} has neither {{run}} nor {{rank}} in it, as "
                "'{run}/rank{rank}.json.gz' has"
            )
        start = "" if text.startswith("/") else "(?:.*/)?"
        return cls(text, re.compile(start + "".join(made), re.DOTALL))

    def has(self, name: str) -> bool:
        """Whether it names the run, or the rank."""
        return name in self.expression.groupindex

    def names(self, path: str) -> tuple[str | None, int | None]:
        """Run and rank of a path; None for one that the pattern does not have."""
        found = self.expression.fullmatch(path)
        if found is None:
            raise SourceError(f"{path}: does not match the pattern {self.text!r}")
        named = found.groupdict()
        digits = named.get("rank")
        if digits is not None and not (len(digits) <= 10 and int(digits) < _MOST_RANKS):
            raise SourceError(f"{path}: {digits} is no rank: it is from 0 to {_MOST_RANKS - 1}")
        return named.get("run"), None if digits is None else int(digits)


def _expression(text: str, part: str, seen: set[str], after: str) -> str:
    if part == "*":
        return "[^/]*"
    if part in seen and part in {"{run}", "{rank}"}:
        return f"(?P={part[1:-1]})"
    if part == "{run}":
        return "(?P<run>[^/]+)"
    if part == "{rank}":
        is_after_any_text = after.endswith(("+)", "]*"))
        return f"{'(?<![0-9])' if is_after_any_text else ''}(?P<rank>[0-9]+)"
    if part.startswith("{"):
        raise ParameterError(f"pattern {text!r}: {part} is unknown; there are {{run}} and {{rank}}")
    return re.escape(part)
