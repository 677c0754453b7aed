"""Rows of several ranks as one row each: the mean of the ranks, and the rank with the most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from profframe.query.header import RankKeys
from profframe.show.columns import MOMENTS, NUMBERS_AS_NAMES, unit_by_name
from profframe.show.units import plural

if TYPE_CHECKING:
    import polars as pl

_TOTAL: Final = "_total"


def rank_means(rows: pl.DataFrame, of: RankKeys, by: str) -> pl.DataFrame:
    """One row for what the ranks of a run have in common, the largest sum of ``by`` first.

    Parameters
    ----------
    rows
        Rows of an answer, with ``run`` and ``rank``.
    of
        What rows of different ranks have in common.
    by
        The column that says which rank is worst: the one with the most.

    Returns
    -------
    polars.DataFrame
        Numbers are means of the ranks that have such a row; columns ``min_...`` and ``max_...`` the
        least and the most of them. Texts are those of the worst rank, and so are numbers about a
        text or an id, such as ``top_op_share``. ``ranks`` is the number of ranks, unless all have
        every row; ``worst_...`` and ``worst_rank`` follow the column ``by``.
        The rows as they are if no run has several ranks, or if a rank has several rows of a kind.

    Examples
    --------
    >>> import polars as pl
    >>> rows = pl.DataFrame({"run": "a", "rank": [0, 1], "name": "mm", "self_ns": [10, 30]})
    >>> rank_means(rows, RankKeys(("name",)), "self_ns").row(0, named=True)
    {'run': 'a', 'name': 'mm', 'self_ns': 20, 'worst_self_ns': 30, 'worst_rank': 1}
    """
    import polars as pl

    members = rows.group_by("run").agg(pl.col("rank").n_unique())
    keys = _keys(rows, of)
    if keys is None or not (members["rank"] > 1).any():
        return rows
    others = [name for name in rows.columns if name not in {"run", "rank", *keys}]
    has_value = pl.col(by).is_not_null()
    means = (
        rows.sort(by, descending=True, nulls_last=True, maintain_order=True)
        .group_by("run", *keys, maintain_order=True)
        .agg(
            pl.len().alias("ranks"),
            pl.col(by).sum().alias(_TOTAL),
            pl.when(has_value.any()).then(pl.col("rank").first()).alias("worst_rank"),
            pl.col(by).first().alias(worst(by)),
            *(_together(rows, name) for name in others),
        )
        .sort(_TOTAL, descending=True, nulls_last=True, maintain_order=True)
    )
    full = means.join(members.rename({"rank": _TOTAL}), on="run", suffix="_of_run")
    is_everywhere = bool((full["ranks"] == full[f"{_TOTAL}_of_run"]).all())
    names: list[str] = []
    for name in rows.columns:
        if name == "rank":
            names += [] if is_everywhere else ["ranks"]
        else:
            names += [name, worst(by), "worst_rank"] if name == by else [name]
    return means.select(names).with_columns(_whole(means, name) for name in names)


def worst(by: str) -> str:
    """The column with the value of the worst rank."""
    return f"worst_{by}"


def title(rows: pl.DataFrame) -> str:
    """What the means of rows are of.

    Examples
    --------
    >>> import polars as pl
    >>> title(pl.DataFrame({"run": "a", "rank": [0, 1]}))
    'mean of 2 ranks'
    """
    numbers = {*rows.select("run", "rank").unique()["run"].value_counts()["count"]}
    if len(numbers) > 1:
        return "mean of the ranks of each run"
    return f"mean of {plural(numbers.pop(), 'rank')}"


def note(rows: pl.DataFrame) -> str:
    """What a table of the means of rows says below it."""
    return f"each row is the {title(rows)}, min and max of all; --per rank shows each"


def _keys(rows: pl.DataFrame, of: RankKeys) -> list[str] | None:
    """Columns in which the rows of a rank differ; None if there are none."""
    coarse = [name for name in of.keys if name in rows.columns]
    for names in (coarse, [*coarse, *(name for name in of.finer if name in rows.columns)]):
        if not rows.select("run", "rank", *names).is_duplicated().any():
            return names
    return None


def _together(rows: pl.DataFrame, name: str) -> pl.Expr:
    """One value for the values of the ranks, the worst one's first."""
    import polars as pl

    column = pl.col(name)
    if name in NUMBERS_AS_NAMES:
        return pl.when(column.n_unique() == 1).then(column.first()).alias(name)
    if not rows.schema[name].is_numeric() or name.endswith("_id") or name in MOMENTS:
        return column.first()
    if _is_of_text(rows, name):
        return column.first()
    if name.startswith("min_"):
        return column.min()
    return column.max() if name.startswith("max_") else column.mean()


def _is_of_text(rows: pl.DataFrame, name: str) -> bool:
    """Whether a number is about a text or an id in the row: ``top_op_share``, ``line_ns``."""
    import polars as pl

    about = name.removesuffix("_share").removesuffix("_ns")
    texts = (about, f"{about}_name")
    is_of_name = about != name and any(rows.schema.get(text) == pl.String for text in texts)
    return is_of_name or f"{about}_id" in rows.columns


def _whole(means: pl.DataFrame, name: str) -> pl.Expr:
    """Whole numbers where a unit, or every value, is whole."""
    import polars as pl

    values, unit = means[name], unit_by_name(name)
    is_amount = name.endswith(("_ns", "bytes")) or (
        unit is None and values.dtype.is_float() and bool((values == values.round()).all())
    )
    if not (is_amount and values.dtype.is_float()):
        return pl.col(name)
    return pl.col(name).round(mode="half_away_from_zero").cast(pl.Int64)
