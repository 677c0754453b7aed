"""Stacks in the folded form of torch's ``export_stacks``, which flame graphs are drawn from."""

from __future__ import annotations

import os

from profframe.analysis.export_lines.batches import Lines
from profframe.export.files import put_lines, written


def write(path: str | os.PathLike[str], lines: Lines) -> None:
    """Write lines that end in line breaks; an underscore is for what acts on a terminal."""
    with written(path) as put:
        put_lines(put, lines, first=False, shown=lambda _: "_")
