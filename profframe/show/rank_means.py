"""Rows of several ranks as one row each: the mean of the ranks, and the rank with the most."""

from __future__ import annotations

import re
from itertools import chain, combinations
from typing import TYPE_CHECKING, Final

from profframe.query.header import RankKeys
from profframe.show.columns import MOMENTS, NUMBERS_AS_NAMES, unit_by_name
from profframe.show.units import plural

if TYPE_CHECKING:
    import polars as pl

_TOTAL: Final = "_total"
_MEMBERS: Final = "_members"
_WHOLE: Final = "_whole"
_AMOUNT: Final = "_amount"
_ALIKE: Final = 1 + 1e-6
_COUNTS: Final = ("calls", "kernels", "gaps")
_STATISTIC: Final = re.compile(r"(mean|p\d+|std|min|max)_")
_WAITS: Final = "only_waits"
"""Rows in which this is so come last, whatever their time."""


def rank_means(
    rows: pl.DataFrame, of: RankKeys, by: str, *, has_ranks: bool = False
) -> pl.DataFrame:
    """One row for what the ranks of a run have in common, the largest sum of ``by`` first.

    Parameters
    ----------
    rows
        Rows of an answer, with ``run`` and ``rank``.
    of
        What rows of different ranks have in common.
    by
        The column that says which rank is worst: the one with the most.
    has_ranks
        Whether there is a column ``ranks``, even if all have every row.

    Returns
    -------
    polars.DataFrame
        Amounts are means of all ranks with rows, and a rank that lacks this one has nothing of it;
        ``ranks`` is the number of those that have it, unless all have every row. Shares and rates
        are amounts of all ranks over what they divide by, means of calls count the calls, and other
        statistics are means of the ranks with the row: of ``min_...`` and ``max_...`` the least and
        the most. Texts are those of the worst rank, and so are numbers about a text or an id, such
        as ``top_op_share``. ``worst_...`` and ``worst_rank`` follow the column ``by``.
        The rows as they are if no run has several ranks, or if a rank has several rows of a kind.

    Examples
    --------
    >>> import polars as pl
    >>> rows = pl.DataFrame({"run": "a", "rank": [0, 1], "name": "mm", "self_ns": [10, 30]})
    >>> rank_means(rows, RankKeys(("name",)), "self_ns").row(0, named=True)
    {'run': 'a', 'name': 'mm', 'self_ns': 20, 'worst_self_ns': 30, 'worst_rank': 1}
    """
    import polars as pl

    members = pl.col("rank").n_unique().over("run").alias(_MEMBERS)
    keys, numbered = _keys(rows, of), rows.with_columns(members)
    if keys is None or not (numbered[_MEMBERS] > 1).any():
        return rows
    others = [name for name in rows.columns if name not in {"run", "rank", *keys}]
    has_value = pl.col(by).is_not_null()
    means = (
        numbered.sort(by, descending=True, nulls_last=True, maintain_order=True)
        .group_by("run", *keys, maintain_order=True)
        .agg(
            pl.len().alias("ranks"),
            pl.col(_MEMBERS).first(),
            pl.col(by).sum().alias(_TOTAL),
            pl.when(has_value.any()).then(pl.col("rank").first()).alias("worst_rank"),
            pl.col(by).first().alias(worst(by)),
            *(_together(rows, name, of) for name in others),
        )
    )
    means = largest_first(means, _TOTAL)
    for ratio, *amounts in of.wholes:
        if {ratio, *amounts} <= {*others}:
            means = _with_ratio(means, rows, keys, ratio, amounts)
    is_everywhere = bool((means["ranks"] == means[_MEMBERS]).all())
    names: list[str] = []
    for name in rows.columns:
        if name == "rank":
            names += ["ranks"] if has_ranks or not is_everywhere else []
        elif name not in NUMBERS_AS_NAMES or means[name].null_count() < means.height:
            names += [name, worst(by), "worst_rank"] if name == by else [name]
    return means.select(names).with_columns(_whole(means, name) for name in names)


def largest_first(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    """Rows with the largest values of a column first, those that only wait last."""
    last = [name for name in (_WAITS,) if name in rows.columns]
    descending = [*(False for _ in last), True]
    return rows.sort(*last, by, descending=descending, nulls_last=True, maintain_order=True)


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
    """As few columns as the rows of a rank differ in; None if there are none.

    Ranks with a device each have devices of different numbers, which is not what differs.
    """
    coarse, finer = ([n for n in names if n in rows.columns] for names in (of.keys, of.finer))
    numbers = range(len(finer) + 1)
    choices = chain.from_iterable(combinations(reversed(finer), number) for number in numbers)
    for chosen in choices:
        names = [*coarse, *(name for name in finer if name in chosen)]
        if not rows.select("run", "rank", *names).is_duplicated().any():
            return names
    return None


def _together(rows: pl.DataFrame, name: str, of: RankKeys) -> pl.Expr:
    """One value for the values of the ranks, the worst one's first."""
    import polars as pl

    column = pl.col(name)
    if name == _WAITS:
        return column.all()
    if name in NUMBERS_AS_NAMES:
        return pl.when(column.n_unique() == 1).then(column.first()).alias(name)
    is_name = not rows.schema[name].is_numeric() or name.endswith("_id") or name in MOMENTS
    if is_name or (name not in {ratio for ratio, *_ in of.wholes} and _is_of_text(rows, name)):
        return column.first()
    if name in of.of_rank or rows.schema[name].is_float() or _STATISTIC.match(name):
        return _statistic(rows, name)
    # A rank that lacks the row has nothing of it; one whose value is not known does not count.
    ranks = pl.col(_MEMBERS).first() - column.null_count()
    return pl.when(column.count() > 0).then(column.sum() / ranks).alias(name)


def _statistic(rows: pl.DataFrame, name: str) -> pl.Expr:
    """One value for statistics of the ranks that have the row."""
    import polars as pl

    column = pl.col(name)
    if name.startswith("min_"):
        return column.min()
    if name.startswith("max_"):
        return column.max()
    count = next((other for other in _COUNTS if other in rows.columns), None)
    if count is None or not name.startswith("mean_"):
        return column.mean()
    calls = pl.when(column.is_not_null()).then(count)
    return ((column * calls).sum() / calls.sum()).fill_nan(None).alias(name)


def _with_ratio(
    means: pl.DataFrame, rows: pl.DataFrame, keys: list[str], ratio: str, amounts: list[str]
) -> pl.DataFrame:
    """Means with a ratio of all ranks: the sum of amounts over that of what they are divided by.

    A share is of a whole that a rank has, too, if it lacks the row; a rate is not.
    """
    import polars as pl

    group = ["run", *keys]
    amount = pl.sum_horizontal(*amounts, ignore_nulls=len(amounts) > 1)
    rows = rows.with_columns(amount.cast(pl.Float64).alias(_AMOUNT))
    parts = rows.filter(pl.col(ratio).is_not_null()).with_columns(
        pl.when(pl.col(ratio) != 0).then(pl.col(_AMOUNT) / pl.col(ratio)).alias(_WHOLE)
    )
    unit = unit_by_name(ratio)
    wholes = _wholes(rows, parts, keys) if unit and unit.is_share else parts
    total = parts.group_by(group).agg(pl.col(_AMOUNT).sum().alias(ratio))
    whole = wholes.group_by(group).agg(pl.col(_WHOLE).sum())
    value = total.join(whole, on=group, nulls_equal=True).select(
        *group, pl.when(pl.col(_WHOLE) > 0).then(pl.col(ratio) / pl.col(_WHOLE)).alias(ratio)
    )
    without = means.drop(ratio)
    joined = without.join(value, on=group, how="left", nulls_equal=True, maintain_order="left")
    return joined.select(means.columns)


def _wholes(rows: pl.DataFrame, parts: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """What shares are of in each rank of the run: by the keys behind the first, or in the rank."""
    import polars as pl

    group, rest = ["run", *keys], ["run", "rank", *keys[1:]]
    most, least = pl.col(_WHOLE).max(), pl.col(_WHOLE).min()
    of_rank = parts.group_by("run", "rank").agg(
        most.alias(_TOTAL), (most <= least * _ALIKE).alias("is_of_rank")
    )
    is_of_rank = bool(of_rank["is_of_rank"].all())
    unknown = rows.filter(pl.col(_AMOUNT).is_null()).select(*group, "rank")
    return (
        rows.select(group)
        .unique()
        .join(of_rank, on="run")
        .join(unknown, on=[*group, "rank"], how="anti", nulls_equal=True)
        .join(parts.group_by(rest).agg(most), on=rest, how="left", nulls_equal=True)
        .with_columns(pl.coalesce(_WHOLE, _TOTAL) if is_of_rank else _WHOLE)
    )


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
