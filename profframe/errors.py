"""Every error that profframe raises on purpose.

::

    ProfframeError            base: str(error) is one line that says what, where, and what to do
      SourceError             a source that cannot be read
        NotATraceError        readable, but not a trace of a known format
        NoTraceFoundError     a path, glob or directory without any trace
      MemoryLimitError        something needs more memory than the process may take
      StoreError              a Parquet store that cannot be read or written
        StoreVersionError     a store with a schema version that this release does not know
      ExportError             a file that cannot be written
      MissingExtraError       a package that is not installed; the message has the pip line
      AnswerError             a question that cannot be answered
        UnknownNameError      no answer, table or column with that name; suggests the nearest
        ParameterError        a parameter that is unknown or has an invalid value
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_MOST_KNOWN = 12


class ProfframeError(Exception):
    """Base of every error that profframe raises on purpose."""


class SourceError(ProfframeError):
    """A source could not be read; the message names the file and the position in it."""


class NotATraceError(SourceError):
    """The source was read, but it is not a trace of a known format."""


class NoTraceFoundError(SourceError):
    """A path, glob or directory contains no trace."""


class MemoryLimitError(ProfframeError):
    """Something needs more memory than the process may take; the message says what to do."""


class StoreError(ProfframeError):
    """A Parquet store could not be read or written."""


class StoreVersionError(StoreError):
    """The store was written with a schema version that this release does not know."""


class ExportError(ProfframeError):
    """A file could not be written."""


class MissingExtraError(ProfframeError):
    """A required package is not installed; the message has the pip line."""


class AnswerError(ProfframeError):
    """A question could not be answered."""


class ParameterError(AnswerError):
    """A parameter is unknown or has an invalid value."""


class UnknownNameError(AnswerError):
    """There is no such answer, table or column."""

    @classmethod
    def among(cls, what: str, name: str, names: Iterable[str]) -> UnknownNameError:
        """Name what is missing, and the nearest names.

        Examples
        --------
        >>> print(UnknownNameError.among("answer", "self_time", ["self_times", "kernels"]))
        no answer named 'self_time'; did you mean 'self_times'? (known: kernels, self_times)
        """
        names = sorted(names)
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        shown = names if len(names) <= _MOST_KNOWN else [*names[:_MOST_KNOWN], "..."]
        return cls(f"no {what} named {name!r}{hint} (known: {', '.join(shown)})")
