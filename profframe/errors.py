"""Every error that profframe raises on purpose.

::

    ProfframeError            base: str(error) is one line that says what, where, and what to do
      SourceError             a source that cannot be read
        NotATraceError        readable, but not a trace of a known format
        NoTraceFoundError     a path, glob or directory with nothing to read in it
      MemoryLimitError        something that needs more memory than the process may take
      StoreError              a Parquet store that cannot be read or written
        StoreVersionError     written with a schema version that this release does not know
      ExportError             a file that cannot be written
      MissingExtraError       a package that is not installed; the message has the pip line
      AnswerError             a question that cannot be answered
        UnknownNameError      no answer, table or column of that name; suggests the nearest
        ParameterError        a parameter that the answer or method does not take
          ArgumentError       an argument that the method does not take; suggests the right call
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Self

_MOST_KNOWN = 12
_LEAST_ALIKE = 0.5


class ProfframeError(Exception):
    """Base of every error that profframe raises on purpose.

    Attributes
    ----------
    instead
        What was given, and what it is most likely meant to be; None where nothing is like it.
    """

    instead: tuple[str, str] | None = None

    def meaning(self, instead: tuple[str, str] | None) -> Self:
        """The same error, which knows what was meant."""
        self.instead = instead
        return self


class SourceError(ProfframeError):
    """A source could not be read; the message names the file and the place in it."""


class NotATraceError(SourceError):
    """The source was read, but it is not a trace of a known format."""


class NoTraceFoundError(SourceError):
    """A path, glob or directory led to nothing that could be read."""


class MemoryLimitError(ProfframeError):
    """Something needs more memory than the process may take; the message says what to do."""


class StoreError(ProfframeError):
    """A Parquet store could not be read or written."""


class StoreVersionError(StoreError):
    """The store was written with a schema version that this release does not know."""


class ExportError(ProfframeError):
    """A file could not be written."""


class MissingExtraError(ProfframeError):
    """A package is not installed that this needs; the message has the pip line."""


class AnswerError(ProfframeError):
    """A question could not be answered."""


class ParameterError(AnswerError):
    """A parameter is unknown or has a value that cannot be used."""


class UnknownNameError(AnswerError):
    """No such answer, table or column."""

    @classmethod
    def among(cls, what: str, name: str, names: Iterable[str]) -> UnknownNameError:
        """Name what is missing, and the nearest names.

        Examples
        --------
        >>> print(UnknownNameError.among("answer", "self_time", ["self_times", "kernels"]))
        no answer named 'self_time'; did you mean 'self_times'? (known: kernels, self_times)
        """
        names = sorted(names)
        near = nearest(name, names)
        hint = f"; did you mean {near!r}?" if near else ""
        shown = names if len(names) <= _MOST_KNOWN else [*names[:_MOST_KNOWN], "..."]
        error = cls(f"no {what} named {name!r}{hint} (known: {', '.join(shown)})")
        return error.meaning((name, near) if near else None)


class ArgumentError(ParameterError, TypeError):
    """A function was called with an argument that it does not take; suggests the right call."""


def nearest(name: str, names: Iterable[str], least: float = _LEAST_ALIKE) -> str | None:
    """The name that is most like another one, upper and lower case alike; None without any.

    Examples
    --------
    >>> nearest("Gap", ["idle", "gaps"]), nearest("gaps", ["memory"])
    ('gaps', None)
    """
    lower = {other.lower(): other for other in reversed(list(names))}
    near = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=least)
    return lower[near[0]] if near else None
