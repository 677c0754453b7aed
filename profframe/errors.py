"""Every error that profframe raises on purpose.

::

    ProfframeError            base: str(error) is one line that says what, where, and what to do
      SourceError             a source that cannot be read
        NotATraceError        readable, but not a trace of a known format
        NoTraceFoundError     a path, glob or directory without any trace
        WorkerDiedError       a worker process that died, and its work could not be done again
      MemoryLimitError        something needs more memory than the process may take
      StoreError              a Parquet store that cannot be read or written
        StoreVersionError     a store with a schema version that this release does not know
      ExportError             a file that cannot be written
      MissingExtraError       a package that is not installed; the message has the pip line
      AnswerError             a question that cannot be answered
        UnknownNameError      no answer, table or column with that name; suggests the nearest
        ParameterError        a parameter that is unknown or has an invalid value
          ArgumentError       an argument that the method does not take; suggests the right call
        PartsError            parts of a question that failed; it has the rows of the others
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, Final, ParamSpec, Self, TypeVar
from urllib.parse import unquote

Arguments = ParamSpec("Arguments")
Value = TypeVar("Value")

_MOST_KNOWN = 12
_LEAST_ALIKE = 0.6
"""Minimum similarity of a wrong name to the one that is suggested."""
_LEAST_SLIP = 0.75
"""Minimum similarity to its first word: one letter of four is another."""


HIDDEN: Final = "***"
"""Replacement for a secret part of a URL."""
_SHORTEST_SECRET: Final = 4
"""Characters; a shorter one would hide parts of other words."""
_USER: Final = re.compile(r"([A-Za-z][\w+.-]+:/{1,2})[^/\s?#'\"]*@")  # a path has one slash left
_SIGNED: Final = re.compile(
    r"""([?&;\#](?:
        [^=&;\#\s'"]*(?:
            sig|token|secret|passw|pwd|credential|auth|jwt|hmac|session|expires|policy
            |api.?key|access.?key|key-pair
        )[^=&;\#\s'"]*
        |x-(?:amz|goog|oss|cos|ms)-[^=&;\#\s'"]*
        |user|username|code|key(?==[^&;\#\s'"./]*(?:[&;\#\s'"]|$))
        |s[eiprstv]|spr|srt|sdd|sk[a-z]{1,3}
    )=)[^&;\#\s'"]*?(?=:?(?:[&;\#\s'"]|$))""",
    re.IGNORECASE | re.VERBOSE,
)
"""Members of a query that sign it, or prove who asks: of S3, GCS, Azure, OSS, hubs and others."""


def without_secrets(text: str) -> str:
    """Text in which URLs name no user and no password, and no signature or token.

    Examples
    --------
    >>> without_secrets("https://ada:secret@host/rank0.json?v=2&X-Amz-Signature=3f8a: no such file")
    'https://***@host/rank0.json?v=2&X-Amz-Signature=***: no such file'
    """
    if ":/" not in text:
        return text
    return _SIGNED.sub(rf"\1{HIDDEN}", _USER.sub(rf"\1{HIDDEN}@", text))


def without_secrets_of(url: str, text: str) -> str:
    """Text that a library wrote about a URL: without its secrets, also where they stand alone.

    Examples
    --------
    >>> without_secrets_of("s3://ada:secret@bucket/a.json", 'no bucket "ada:secret@bucket"')
    'no bucket "***@bucket"'
    """
    values = [match[0].partition(":/")[2].lstrip("/")[:-1] for match in _USER.finditer(url)]
    values += [value.partition(":")[2] for value in values]
    values += [match[0][len(match[1]) :] for match in _SIGNED.finditer(url)]
    for value in sorted({*values, *map(unquote, values)}, key=len, reverse=True):
        if len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, HIDDEN)
    return without_secrets(text)


class ProfframeError(Exception):
    """Base of every error that profframe raises on purpose; no message has secrets of a URL.

    Attributes
    ----------
    instead
        What was given, and what was most likely meant; None if nothing is similar.
    """

    instead: tuple[str, str] | None = None

    def __init__(self, *args: object) -> None:
        super().__init__(*(without_secrets(a) if isinstance(a, str) else a for a in args))

    def with_suggestion(self, instead: tuple[str, str] | None) -> Self:
        """A copy of the error with a suggestion."""
        self.instead = instead
        return self


class SourceError(ProfframeError):
    """A source could not be read; the message names the file and the position in it."""


class NotATraceError(SourceError):
    """The source was read, but it is not a trace of a known format."""


class NoTraceFoundError(SourceError):
    """A path, glob or directory contains no trace."""


class WorkerDiedError(SourceError):
    """A worker process died again and again with the same work."""


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
        near = nearest(name, names) or _beginning(name, names)
        hint = f"; did you mean {near!r}?" if near else ""
        if not names:
            return cls(f"no {what} named {name!r}; there is no {what} at all").with_suggestion(None)
        shown = names if len(names) <= _MOST_KNOWN else [*names[:_MOST_KNOWN], "..."]
        error = cls(f"no {what} named {name!r}{hint} (known: {', '.join(shown)})")
        return error.with_suggestion((name, near) if near else None)

    @classmethod
    def one_of(cls, argument: str, value: object, values: Iterable[str]) -> UnknownNameError:
        """Say which values an argument takes, and which of them is nearest.

        Examples
        --------
        >>> print(UnknownNameError.one_of("per", "strem", ["device", "stream"]))
        per is one of device, stream, not 'strem'; did you mean 'stream'?
        """
        values = [*values]
        near = nearest(value, values) if isinstance(value, str) else None
        hint = f"; did you mean {near!r}?" if near else ""
        error = cls(f"{argument} is one of {', '.join(values)}, not {value!r}{hint}")
        return error.with_suggestion((str(value), near) if near else None)


class ArgumentError(ParameterError, TypeError):
    """A function was called with an argument that it does not take; suggests the right call."""


class PartsError(AnswerError):
    """Some parts of a question failed; the others stand.

    Attributes
    ----------
    rows
        The rows of the others, in the order of the whole; None if they were handed over before.
    failed
        Run, rank (None if the part is a run) and error of each part that failed.
    """

    def __init__(
        self,
        what: str,
        failed: Sequence[tuple[str, int | None, Exception]],
        parts: int,
        rows: Any = None,
    ) -> None:
        self.rows, self.failed = rows, (*failed,)
        run, rank, error = self.failed[0]
        first = f"run {run!r}" + ("" if rank is None else f", rank {rank}")
        more = "" if len(self.failed) == 1 else ", and others"
        super().__init__(
            f"{what}: {len(self.failed):,} of {parts:,} parts failed: {first}: {error}{more}; "
            "rows of the error has those of the other parts, failed names each"
        )


def nearest(name: str, names: Iterable[str], least: float = _LEAST_ALIKE) -> str | None:
    """The name that is most similar to another one, ignoring case; None if there is none.

    Names with the same unit at their end must be similar without it.

    Examples
    --------
    >>> nearest("Gap", ["idle", "gaps"]), nearest("gaps", ["memory"])
    ('gaps', None)
    >>> nearest("idel_ns", ["host_ns", "idle_ns"]), nearest("dur_ns", ["host_ns", "idle_ns"])
    ('idle_ns', None)
    """
    stem, _, unit = name.lower().rpartition("_")

    def is_alike(other: str) -> bool:
        own, _, last = other.rpartition("_")
        return not stem or last != unit or bool(difflib.get_close_matches(stem, [own], 1, least))

    lower = {other.lower(): other for other in reversed(list(names))}
    near = difflib.get_close_matches(name.lower(), filter(is_alike, lower), n=1, cutoff=least)
    return lower[near[0]] if near else None


def _beginning(word: str, names: Iterable[str]) -> str | None:
    """The name that begins with almost this word, as ``bandwidth_bytes_per_s`` does."""
    by_first_word = {name.partition("_")[0]: name for name in reversed(list(names))}
    near = nearest(word, by_first_word, _LEAST_SLIP)
    return None if near is None else by_first_word[near]


def explain_unknown_arguments(
    function: Callable[Arguments, Value],
    elsewhere: Callable[[str, tuple[Any, ...], dict[str, Any]], str | None] = lambda *_: None,
    called: str | None = None,
    renaming: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
) -> Callable[Arguments, Value]:
    """Decorator: an unknown argument raises an error that suggests the right call.

    Parameters
    ----------
    function
        Any function.
    elsewhere
        From the name of an argument, all arguments by position and all by name: the call that takes
        it; None if there is none.
    called
        Its name in messages; None for its own name.
    renaming
        Gives arguments by their new names, if some have old ones.

    Raises
    ------
    ArgumentError
        When it is called with such an argument.

    Examples
    --------
    >>> def gaps(top=5): ...
    >>> explain_unknown_arguments(gaps)(tpo=3)
    Traceback (most recent call last):
    profframe.errors.ArgumentError: gaps() takes no argument 'tpo'; did you mean 'top'? (known: top)
    """
    code = inspect.unwrap(function).__code__
    if code.co_flags & inspect.CO_VARKEYWORDS:
        return function
    number = code.co_argcount + code.co_kwonlyargcount
    positional = code.co_posonlyargcount
    names = frozenset(code.co_varnames[positional:number])

    @wraps(function)
    def wrapper(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
        if renaming and not kwargs.keys() <= names:
            kwargs = renaming(kwargs)  # type: ignore[assignment]  # still its arguments
        if not kwargs.keys() <= names:
            name = next(name for name in kwargs if name not in names)
            raise _no_argument(
                called or function.__name__, name, names, elsewhere(name, args, kwargs)
            )
        return function(*args, **kwargs)

    return wrapper


def _no_argument(function: str, name: str, names: Iterable[str], call: str | None) -> ArgumentError:
    """An error that suggests the right argument, or the right call."""
    names = sorted(set(names) - {"self", "cls"})
    near = nearest(name, names)
    start = f"{function}() takes no argument {name!r}"
    if call is not None:
        return ArgumentError(f"{start}; did you mean {call}?")
    hint = f"; did you mean {near!r}?" if near else ""
    instead = (name, near) if near else None
    return ArgumentError(f"{start}{hint} (known: {', '.join(names)})").with_suggestion(instead)


def no_attribute(owner: object, what: str, called: str, name: str) -> AttributeError:
    """An AttributeError that suggests the nearest public attribute, and how it is called.

    Parameters
    ----------
    owner
        What lacks it.
    what
        What that is in a sentence, such as ``"a Trace"``.
    called
        What it is called in code, such as ``"trace"``.
    name
        What is lacking.

    Examples
    --------
    >>> print(no_attribute("text", "a str", "text", "uper"))
    a str has no attribute 'uper'; did you mean text.upper()?
    """
    start = f"{what} has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(start)
    near = nearest(name, (other for other in dir(owner) if not other.startswith("_")))
    if near is None:
        return AttributeError(start)
    is_called = not isinstance(inspect.getattr_static(owner, near, None), property)
    return AttributeError(f"{start}; did you mean {called}.{near}{'()' if is_called else ''}?")
