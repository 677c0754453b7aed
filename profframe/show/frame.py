"""The polars DataFrame of tables and answers, which shows human units in a notebook."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from html import escape
from typing import Any, Final

import polars as pl

from profframe.show.empty_frames import NO_DOCS, ExplainedFrame

_ROW_METHODS: Final = (
    "__copy__", "__deepcopy__", "__getitem__", "bottom_k", "cast", "clear", "clone", "drop",
    "drop_nans", "drop_nulls", "explode", "fill_nan", "fill_null", "filter", "gather",
    "gather_every", "head", "hstack", "interpolate", "join", "join_asof", "join_where", "limit",
    "max", "mean", "median", "merge_sorted", "min", "pivot", "quantile", "rechunk", "remove",
    "rename", "reverse", "sample", "select", "select_seq", "set_sorted", "shift", "slice", "sort",
    "sql", "sum", "tail", "top_k", "unique", "unnest", "update", "upsample", "vstack",
    "with_columns", "with_columns_seq", "with_row_index",
)  # fmt: skip
"""Methods whose results have columns with the same meaning."""
_GROUP_METHODS: Final = ("group_by", "group_by_dynamic", "rolling")


class Frame(ExplainedFrame):
    """A polars DataFrame shown in human units, chosen by the endings of its column names.

    Otherwise it is a polars DataFrame: exact values, ``repr`` and ``print``, and the same methods,
    whose results are frames, too. Lazy queries, `polars.concat` and similar give a plain DataFrame,
    which ``Frame(rows)`` turns into a frame without a copy. An answer without rows says why
    (`why_empty`).

    In a notebook it is an HTML table, at an IPython prompt a text table. Both use units (ms, GiB,
    GB/s, %) by the endings ``_ns``, ``_bytes``, ``_bytes_per_s``, ``_share``, ...; show points in
    time relative to the start of the trace; and leave out empty columns and a constant run and
    rank. Tooltips have the exact number, the whole text, and the meaning of the column. The number
    of rows and columns follows ``polars.Config`` (``set_tbl_rows``); by default all rows up to 50,
    else 20, and 75 columns.

    Examples
    --------
    >>> rows = Frame({"name": ["mm", "relu"], "self_ns": [1_500_000, 20_000]})
    >>> "1.500 ms" in rows.filter(name="mm")._repr_html_()
    True
    >>> rows["self_ns"].to_list()
    [1500000, 20000]
    """

    _starts: pl.LazyFrame | None = None

    def __reduce__(
        self,
    ) -> tuple[Callable[..., Frame], tuple[pl.DataFrame, str | None, str | None]]:
        """With its reason as text: another process has no trace to ask."""
        return _sent, (pl.DataFrame(self), self.why_empty, self._note)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        text, reason = super().__str__(), self.why_empty
        reason_line = "" if reason is None else f"\nno rows: {reason}"
        return text + reason_line + ("" if self._note is None else f"\n{self._note}")

    def _repr_html_(self, *, _from_series: bool = False) -> str:
        from profframe.show import notebook

        options = notebook.FrameOptions(
            rows=_rows(self.height),
            columns=_limit("POLARS_FMT_MAX_COLS", notebook.COLUMNS, self.width),
            starts=_read_starts(self._starts),
            docs=self._docs,
            why_empty=self.why_empty,
        )
        page = notebook.frame_html(self, options)
        return page if self._note is None else f"{page}<p>{escape(self._note)}</p>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """What IPython shows at a text prompt."""
        from profframe.show import terminal

        del cycle
        starts = _read_starts(self._starts)
        text = terminal.frame_text(self, _rows(self.height), starts, self.why_empty)
        printer.text(text if self._note is None else f"{text}\n{self._note}")


def frame(
    rows: pl.DataFrame,
    starts: pl.LazyFrame | None = None,
    docs: Mapping[str, str] = NO_DOCS,
    why: Callable[[], str | None] | None = None,
    note: str | None = None,
) -> Frame:
    """Show rows in human units; nothing is copied.

    Parameters
    ----------
    rows
        Any DataFrame.
    starts
        ``run rank start_ns`` of the traces that the rows belong to; read when the rows are shown.
    docs
        Descriptions of columns, by name.
    why
        Returns why there are no rows.
    note
        Where the rows are from; see `Frame.note`.

    Returns
    -------
    Frame
        The same rows.

    Examples
    --------
    >>> isinstance(frame(pl.DataFrame({"self_ns": [1]})), pl.DataFrame)
    True
    """
    result = Frame(rows)
    result._starts, result._docs = starts, docs  # noqa: SLF001 - its own kind
    result._why = None if rows.height else why  # noqa: SLF001 - its own kind
    result._note = note  # noqa: SLF001 - its own kind
    return result


def _sent(rows: pl.DataFrame, reason: str | None, note: str | None = None) -> Frame:
    """Rows from another process."""
    return frame(rows, why=lambda: reason, note=note)


def _read_starts(starts: pl.LazyFrame | None) -> pl.DataFrame | None:
    """The starts of traces, if they can still be read: the store may be deleted."""
    try:
        return None if starts is None else starts.collect()
    except (pl.exceptions.PolarsError, OSError):
        return None


def _rows(number: int) -> int:
    from profframe.show import notebook

    default = notebook.ROWS if number > notebook.SHORT else number
    return _limit("POLARS_FMT_MAX_ROWS", default, number)


def _limit(variable: str, default: int, number: int) -> int:
    """How many rows or columns `polars.Config` shows; a negative number means all."""
    try:
        limit = int(os.environ.get(variable, default))
    except ValueError:
        limit = default
    return number if limit < 0 else limit


def _as_frame(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, with a `Frame` as its result."""

    @wraps(method)
    def wrapper(self: Frame, *args: Any, **kwargs: Any) -> Any:
        rows = method(self, *args, **kwargs)
        if rows is self or not isinstance(rows, pl.DataFrame):
            return rows
        return frame(rows, self._starts, self._docs, self._why, self._note)

    return wrapper


def _groups_as_frame(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, with a `Frame` as the result of ``agg``."""

    @wraps(method)
    def wrapper(self: Frame, *args: Any, **kwargs: Any) -> Any:
        groups = method(self, *args, **kwargs)
        agg = groups.agg

        def aggregate(*aggs: Any, **named_aggs: Any) -> Frame:
            rows = agg(*aggs, **named_aggs)
            return frame(rows, self._starts, self._docs, self._why, self._note)

        groups.agg = aggregate
        return groups

    return wrapper


def _override(
    names: Iterable[str], wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Replace the methods that this version of polars has."""
    for name in names:
        if hasattr(pl.DataFrame, name):
            setattr(Frame, name, wrap(getattr(pl.DataFrame, name)))


_override(_ROW_METHODS, _as_frame)
_override(_GROUP_METHODS, _groups_as_frame)
