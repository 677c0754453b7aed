"""Sphinx over the staged pages; a warning fails the build."""

from __future__ import annotations

from pathlib import Path

from sphinx.cmd.build import build_main


def build(pages: Path, target: Path) -> int:
    """Build the site.

    Parameters
    ----------
    pages
        Folder with all pages and ``conf.py``.
    target
        Folder to write.

    Returns
    -------
    int
        0, or what Sphinx ends with.
    """
    strict = ("-W", "--keep-going", "-q")
    trees = pages / ".doctrees"
    return build_main(["-b", "html", *strict, "-d", str(trees), str(pages), str(target)])
