"""The page of a comparison: what changed, and why."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

from profframe.analysis.causes.explanation import Explanation
from profframe.comparisons.diff import check_names
from profframe.comparisons.explain import explain
from profframe.errors import ParameterError, explain_unknown_arguments
from profframe.export.output_file import written
from profframe.loaders.load import load
from profframe.pages.report import page, why
from profframe.query.renamed import with_new_names
from profframe.query.selection import integer
from profframe.show.units import visible
from profframe.trace.report import summary
from profframe.trace.trace import Trace


@partial(explain_unknown_arguments, renaming=partial(with_new_names, "diff_report"))
def diff_report(
    base: Any,
    other: Any,
    path: str | os.PathLike[str],
    names: Sequence[str] = ("base", "other"),
    *,
    title: str | None = None,
    top: int = 1000,
) -> None:
    """Write why a step takes more or less time, as one HTML page that loads no other file.

    The page shows the result of `explain`: the steps of both sides, bars that lead from one to the
    other by kind of cause, a table of all causes, the calls of both sides as one tree that opens
    level by level, and a flame graph for each side in which changes are underlined.

    Parameters
    ----------
    base, other
        A `Trace`, or anything that `profframe.load` takes.
    path
        File to write; an existing file is replaced. It is compressed if the name ends in ``.gz`` or
        ``.zst``.
    names
        Names of the sides.
    title
        Heading of the page; by default made from the names.
    top
        Maximum rows per table.

    Raises
    ------
    SourceError
        A side cannot be read.
    MissingExtraError
        jinja2 or altair is missing: ``pip install 'profframe[report]'``.
    ExportError
        The file cannot be written.
    ParameterError
        Names are not two different texts, or ``top`` is less than 1.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "diff.html")
    ...     diff_report("examples/fp32.json.gz", "examples/bf16.json.gz", path, ["fp32", "bf16"])
    ...     "From fp32 to bf16" in path.read_text()
    True
    """
    page.check_installed()
    check_names(names)
    if integer("top", top) < 1:
        raise ParameterError("top: a table needs at least one")
    sides = [side if isinstance(side, Trace) else load(side) for side in (base, other)]
    first, second = sides
    write(path, explain(first, second), (first, second), (names[0], names[1]), title, top)


def write(  # noqa: PLR0917 -- what is shown, and how it is called
    path: str | os.PathLike[str],
    explanation: Explanation,
    sides: tuple[Trace, Trace],
    names: tuple[str, str],
    title: str | None = None,
    top: int = 1000,
) -> None:
    """Write the page of an explanation."""
    base, other = (
        f"{name}: {summary(side, side.traces)}" for name, side in zip(names, sides, strict=True)
    )
    heading = title or f"From {names[0]} to {names[1]}"
    html = page.html(heading, base, visible(other), why.sections(explanation, names, top))
    with written(path) as put:
        put(html.encode())
