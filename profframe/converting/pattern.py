"""Run and rank from a path, by a pattern such as ``{run}/rank{rank}.json.gz``."""

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

    ``{run}`` matches text and ``{rank}`` digits within one folder's or file's name, ``*`` anything
    there. The pattern matches the end of a path, or all of it if it starts with ``/``.

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
        parts: set[str] = set()
        regex: list[str] = []
        for part in filter(None, _PARTS.split(text)):
            regex.append(_expression(text, part, parts, after=regex[-1] if regex else ""))
            parts.add(part)
        if not parts & {"{run}", "{rank}"}:
            raise ParameterError(
                f"pattern {text!r} has neither {{run}} nor {{rank}}, unlike "
                "'{run}/rank{rank}.json.gz'"
            )
        start = "" if text.startswith("/") else "(?:.*/)?"
        return cls(text, re.compile(start + "".join(regex), re.DOTALL))

    def has(self, name: str) -> bool:
        """Whether it names the run, or the rank."""
        return name in self.expression.groupindex

    def names(self, path: str) -> tuple[str | None, int | None]:
        """Run and rank of a path; None for what the pattern does not name."""
        match = self.expression.fullmatch(path)
        if match is None:
            raise SourceError(f"{path}: does not match the pattern {self.text!r}")
        groups = match.groupdict()
        digits = groups.get("rank")
        if digits is not None and not (len(digits) <= 10 and int(digits) < _MOST_RANKS):
            raise SourceError(
                f"{path}: {digits} is not a rank: a rank is from 0 to {_MOST_RANKS - 1}"
            )
        return groups.get("run"), None if digits is None else int(digits)


def _expression(text: str, part: str, earlier: set[str], after: str) -> str:
    if part == "*":
        return "[^/]*"
    if part in earlier and part in {"{run}", "{rank}"}:
        return f"(?P={part[1:-1]})"
    if part == "{run}":
        return "(?P<run>[^/]+)"
    if part == "{rank}":
        is_after_any_text = after.endswith(("+)", "]*"))
        return f"{'(?<![0-9])' if is_after_any_text else ''}(?P<rank>[0-9]+)"
    if part.startswith("{"):
        raise ParameterError(f"pattern {text!r}: {part} is unknown; there are {{run}} and {{rank}}")
    return re.escape(part)
