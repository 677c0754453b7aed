"""Where runs of one name are from: the shortest end of the path that tells them apart."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from profframe.show.units import visible

if TYPE_CHECKING:
    import polars as pl

NUMBERED: Final = re.compile(r"(.+)\.\d+")
"""Matches the name of a run that got a number, because another run has the same name."""
_MOST_NAMED: Final = 6
"""Maximum runs in a note below a table."""
_ALL: Final = 'profframe sql TRACE "SELECT run, source FROM traces"'
"""The command that lists all of them."""


def run_paths(traces: pl.DataFrame) -> Mapping[str, str]:
    """Short paths of runs that have the name of another one, by run; none if names suffice.

    Parameters
    ----------
    traces
        ``run`` and ``source`` of each trace.

    Examples
    --------
    >>> import polars as pl
    >>> source = ["/data/h100/qwen.json", "/data/mi300/qwen.json"]
    >>> run_paths(pl.DataFrame({"run": ["qwen", "qwen.1"], "source": source}))
    {'qwen': 'h100/qwen.json', 'qwen.1': 'mi300/qwen.json'}
    """
    firsts = traces.unique("run", keep="first", maintain_order=True).select("run", "source")
    sources = {str(run): str(source) for run, source in firsts.iter_rows()}
    groups: dict[str, list[str]] = {}
    for run, source in sources.items():
        match = NUMBERED.fullmatch(run)
        is_numbered = match and match[1] in sources and not _has_name_of_file(run, source)
        groups.setdefault(match[1] if match and is_numbered else run, []).append(run)
    paths: dict[str, str] = {}
    for runs in groups.values():
        ends = shortest_ends([sources[run] for run in runs])
        if len(runs) > 1 and len({*ends}) == len(runs):
            paths |= zip(runs, map(visible, ends), strict=True)
    return paths


def _has_name_of_file(run: str, source: str) -> bool:
    """Whether a run with a number at its end is called as its file: ``net.2`` of ``net.2.json``."""
    file = source.replace("\\", "/").rpartition("/")[2]
    return file.startswith(run) and not file[len(run) :][:1].isdecimal()


def shortest_ends(paths: Sequence[str]) -> list[str]:
    """Each path without the leading folders that do not tell it from the others.

    Examples
    --------
    >>> shortest_ends(["/x/a/b/t.json", "/x/c/b/t.json"])
    ['a/b/t.json', 'c/b/t.json']
    """
    parts = [path.replace("\\", "/").split("/") for path in paths]
    longest = max(map(len, parts))
    for size in range(1, longest + 1):
        ends = ["/".join(part[-size:]) for part in parts]
        if len({*ends}) == len({*paths}):
            return ends
    return [*paths]


def with_paths(rows: pl.DataFrame, traces: pl.DataFrame) -> pl.DataFrame:
    """Rows with a column ``file`` after the rank, if names of runs do not tell them apart."""
    import polars as pl

    paths = run_paths(traces)
    if not paths:
        return rows
    names = [name for name in rows.columns if name not in {"run", "rank"}]
    file = pl.col("run").replace_strict(paths, default="", return_dtype=pl.String).alias("file")
    return rows.select("run", "rank", file, *names)


def note_of_paths(rows: pl.DataFrame, traces: pl.DataFrame) -> str:
    """What a table says below it of the runs in it whose names do not tell them apart."""
    if "run" not in rows.columns:
        return ""
    shown = rows["run"].unique(maintain_order=True).to_list()
    if len(shown) < 2:
        return ""
    paths = run_paths(traces)
    named = [f"{visible(run)} is {paths[run]}" for run in shown if run in paths]
    if (rest := len(named) - _MOST_NAMED) > 0:
        named = [*named[:_MOST_NAMED], f"{rest:,} more by {_ALL}"]
    return "; ".join(named)
