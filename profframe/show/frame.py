"""The polars DataFrame that tables and answers come in: in a notebook it shows human units."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from types import MappingProxyType
from typing import Any, Final

import polars as pl

_NO_DOCS: Final[Mapping[str, str]] = MappingProxyType({})
_KEPT: Final = (
    "__copy__", "__deepcopy__", "__getitem__", "bottom_k", "cast", "clear", "clone", "drop",
    "drop_nans", "drop_nulls", "explode", "fill_nan", "fill_null", "filter", "gather",
    "gather_every", "head", "hstack", "interpolate", "join", "join_asof", "join_where", "limit",
    "max", "mean", "median", "merge_sorted", "min", "pivot", "quantile", "rechunk", "remove",
    "rename", "reverse", "sample", "select", "select_seq", "set_sorted", "shift", "slice", "sort",
    "sql", "sum", "tail", "top_k", "unique", "unnest", "update", "upsample", "vstack",
    "with_columns", "with_columns_seq", "with_row_index",
)  # fmt: skip
"""Methods that give rows whose columns still are what their names say."""
_GROUPED: Final = ("group_by", "group_by_dynamic", "rolling")


class Frame(pl.DataFrame):
    """A polars DataFrame that shows itself in human units, by the endings of its columns' names.

    It is one in all else: exact values, ``repr`` and ``print`` as polars has them, the same
    methods. What they give shows itself so, too; of lazy queries, `polars.concat` and the like it
    is a plain DataFrame, which ``Frame(rows)`` makes one of these again without a copy.

    In a notebook it is a table of HTML, at an IPython prompt one of text. Both have units (ms, GiB,
    GB/s, %) by the endings ``_ns``, ``_bytes``, ``_bytes_per_s``, ``_share``, ...; times of the
    trace's clock as time since the trace's start; no columns that are empty or the one run and rank
    there is. Tooltips have the exact number, the whole text, and what a column is. As many rows and
    columns are shown as ``polars.Config`` says (``set_tbl_rows``); if it does not, all of 50 rows,
    20 of more, and 75 columns.

    Examples
    --------
    >>> rows = Frame({"name": ["mm", "relu"], "self_ns": [1_500_000, 20_000]})
    >>> "1.500 ms" in rows.filter(name="mm")._repr_html_()
    True
    >>> rows["self_ns"].to_list()
    [1500000, 20000]
    """

    _starts: pl.LazyFrame | None = None
    _docs: Mapping[str, str] = _NO_DOCS

    def _repr_html_(self, *, _from_series: bool = False) -> str:
        from profframe.show import notebook

        look = notebook.Look(
            rows=_rows(self.height),
            columns=_limit("POLARS_FMT_MAX_COLS", notebook.COLUMNS, self.width),
            starts=_known(self._starts),
            docs=self._docs,
        )
        return notebook.frame_html(self, look)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows where it shows text."""
        from profframe.show import terminal

        del cycle
        printer.text(terminal.frame_text(self, _rows(self.height), _known(self._starts)))


def frame(
    rows: pl.DataFrame, starts: pl.LazyFrame | None = None, docs: Mapping[str, str] = _NO_DOCS
) -> Frame:
    """Make rows show themselves in human units; nothing is copied.

    Parameters
    ----------
    rows
        Any DataFrame.
    starts
        ``run rank start_ns`` of the traces that the rows are of; looked up when they are shown.
    docs
        What is in a column, by its name.

    Returns
    -------
    Frame
        The same rows.

    Examples
    --------
    >>> isinstance(frame(pl.DataFrame({"self_ns": [1]})), pl.DataFrame)
    True
    """
    made = Frame(rows)
    made._starts, made._docs = starts, docs  # noqa: SLF001 - its own kind
    return made


def _known(starts: pl.LazyFrame | None) -> pl.DataFrame | None:
    """The starts of traces, if they still can be read: a store may be gone by now."""
    try:
        return None if starts is None else starts.collect()
    except (pl.exceptions.PolarsError, OSError):
        return None


def _rows(there: int) -> int:
    from profframe.show import notebook

    default = notebook.ROWS if there > notebook.WHOLE else there
    return _limit("POLARS_FMT_MAX_ROWS", default, there)


def _limit(variable: str, default: int, there: int) -> int:
    """How many rows or columns `polars.Config` has tables show; below zero: all there are."""
    try:
        limit = int(os.environ.get(variable, default))
    except ValueError:
        limit = default
    return there if limit < 0 else limit


def _keeping(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, but its rows show themselves as those that it is called on."""

    @wraps(method)
    def keeping(self: Frame, *args: Any, **kwargs: Any) -> Any:
        found = method(self, *args, **kwargs)
        if found is self or not isinstance(found, pl.DataFrame):
            return found
        return frame(found, self._starts, self._docs)

    return keeping


def _grouping(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, but the rows of groups show themselves as those that it is called on."""

    @wraps(method)
    def grouping(self: Frame, *args: Any, **kwargs: Any) -> Any:
        groups = method(self, *args, **kwargs)
        agg = groups.agg

        def aggregated(*aggs: Any, **named: Any) -> Frame:
            return frame(agg(*aggs, **named), self._starts, self._docs)

        groups.agg = aggregated
        return groups

    return grouping


def _override(
    names: Iterable[str], how: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Put methods in place of those of polars, as far as its version has them."""
    for name in names:
        if hasattr(pl.DataFrame, name):
            setattr(Frame, name, how(getattr(pl.DataFrame, name)))


_override(_KEPT, _keeping)
_override(_GROUPED, _grouping)
