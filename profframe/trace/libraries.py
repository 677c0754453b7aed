"""Whether a trace has frames of a library that somebody names."""

from __future__ import annotations

from profframe.errors import nearest
from profframe.query.header import sql_directory
from profframe.trace.base_trace import BaseTrace
from profframe.trace.query import answer

_NO_NAMES = ("none", "all")


def absent_library(trace: BaseTrace, into: str) -> str | None:
    """Say that no frame is of a library, with the name that is most like it.

    Parameters
    ----------
    trace
        The trace.
    into
        The library, as `python_lines` takes it.

    Returns
    -------
    str or None
        None if some frames are, or if there are no frames at all.

    Raises
    ------
    AnswerError
        The trace can no longer be queried.

    Examples
    --------
    >>> from profframe import load
    >>> absent_library(load("examples/gpu_training.json.gz"), "torhc")
    "no frame is of a folder or module 'torhc'; did you mean 'torch'?"
    """
    if into in _NO_NAMES:
        return None
    names = answer(trace, sql_directory() / "inner" / "libraries.sql", into=into)
    if not names.height or names["is_around"].any():
        return None
    near = nearest(into.rpartition("/")[2], names["name"].to_list())
    hint = f"; did you mean {near!r}?" if near else ""
    return f"no frame is of a folder or module {into!r}{hint}"
