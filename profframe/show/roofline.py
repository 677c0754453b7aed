"""A roofline as a person wants to see it first: what was lost where, and how much is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from profframe.show import units

if TYPE_CHECKING:
    import polars as pl

_SHOWN: Final = (
    "run", "rank", "device", "name", "input_dims", "calls", "total_ns", "share", "lost_ns", "bound",
    "flop_per_s", "flop_share", "bytes_per_s", "bandwidth_share", "peak_dtype", "note",
)  # fmt: skip
_IF_ANY: Final = ("device", "input_dims", "note")


def rows(found: pl.DataFrame) -> pl.DataFrame:
    """Rows of `roofline` with the columns that are looked at first."""
    dull = {name for name in _IF_ANY if found[name].is_null().all()}
    if found["device"].n_unique() < 2:
        dull.add("device")
    return found.select(name for name in _SHOWN if name not in dull)


def headline(found: pl.DataFrame, devices: pl.DataFrame) -> str:
    """What the devices can do, of how much of their time the work is known, and what was lost."""
    import polars as pl

    if not found.height:
        return "No kernels."
    key = ["run", "rank", "device"]
    named = devices.select(*key, pl.coalesce("model", "name").fill_null("A device").alias("what"))
    ran = found.join(named, on=key, how="left").with_columns(pl.col("what").fill_null("A device"))
    lines = [
        _device(what, rows)
        for (what,), rows in ran.sort("what").group_by("what", maintain_order=True)
    ]
    known = found.filter(pl.col("note").ne_missing("unknown_work"))
    total, of_known = _ns(found, "total_ns"), _ns(known, "total_ns")
    time = units.duration(total).strip()
    said = f"The work of {_part(of_known, total)} of {time} of kernels is known"
    limited = known.drop_nulls("lost_ns")
    if limited.height:
        lost = _part(_ns(limited, "lost_ns"), _ns(limited, "total_ns"))
        said += f"; {lost} of that was lost"
    return "\n".join([*lines, f"{said}."])


def _ns(found: pl.DataFrame, column: str) -> int:
    return int(found[column].sum())


def _part(part: int, whole: int) -> str:
    """A time, and its share of another."""
    return f"{units.duration(part).strip()} ({units.share(part / max(whole, 1))})"


def _device(what: object, ran: pl.DataFrame) -> str:
    """What a kind of device can do, as far as it was asked for."""
    rates = ran.select("peak_dtype", "peak_flop_per_s").drop_nulls().unique().sort("peak_dtype")
    said = [f"{units.flop_rate(rate)} {dtype}" for dtype, rate in rates.rows()]
    memory = ran["peak_bytes_per_s"].drop_nulls().unique().sort().to_list()
    said += [f"{units.rate(rate)} of memory" for rate in memory]
    name = units.visible(str(what))
    return (
        f"{name}: at most {', '.join(said)}." if said else f"{name}: no peaks known, so no shares."
    )
