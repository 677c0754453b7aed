"""Counters: their values as rows, and the unit and device that names say."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.readers import parsing_database
from profframe.readers.build.row_tables import nulls

_UNIT: Final = re.compile(
    r"(?: ?\((?P<plain>uW|mW|W|kW|C|Hz|kHz|MHz|GHz|%|B/s|GB/s|bytes)\)"
    r"|(?i:power|watts)\b.*?[ _\[(]\(?(?P<power>(?i:(micro|milli|kilo)?watts?)|[umk]?[Ww])[\])]?"
    r"|(?i:power)_(?P<last>(?i:(micro|milli|kilo)?watts?)|[umk]?[Ww]))\Z"
)
"""End of a name with the unit; one without brackets only counts after the word power."""
_UNITS_OF_POWER: Final = {
    "microwatt": "uW", "uw": "uW", "milliwatt": "mW", "mw": "mW", "watt": "W", "w": "W",
    "kilowatt": "kW", "kw": "kW",
}  # fmt: skip
_LONGEST: Final = 100
"""Characters at the end of a name in which its unit is looked for."""
_SHARE: Final = re.compile(r"\.pct(_of_peak\w*)?\Z")
"""End of the name of a metric that is a share of the possible maximum."""
_CYCLES: Final = "Cycles (Current Kernel)"
_DEVICE: Final = re.compile(r"GPU (?:\[?(\d{1,9})\]?(?: .*)?|[\w ]+\[(\d{1,9})\].*)", re.DOTALL)
_OF_PROCESS: Final = re.compile(r"GPU (\d{1,9}) Counters")
_NUMBER: Final = re.compile(r"\d{1,9}")
_BY_DEVICE: Final = ("mtia_counters", "xpu_scope_profiler", "hardware_counters")
"""Categories of counters whose process is the number of a device."""

_VALUES: Final = """
    WITH entries AS (
        SELECT row, map_entries(from_json(args, '"MAP(VARCHAR, VARCHAR)"')) AS entries
        FROM counter_events)
    SELECT
        row, entry.key AS series, TRY_CAST(entry.value AS DOUBLE) AS value,
        size = 1 AND entry.key = '' AS is_unnamed
    FROM (SELECT row, unnest(entries) AS entry, len(entries) AS size FROM entries)
    UNION ALL
    SELECT row, NULL, NULL, false FROM entries WHERE coalesce(len(entries), 0) = 0
    ORDER BY row"""


def unit_of(name: str) -> str | None:
    """Unit of a counter, from its name.

    Examples
    --------
    >>> [unit_of(name) for name in ("Power (W)", "Cycles (Current Kernel)", "NVLink RX")]
    ['W', 'cycles', None]
    >>> [unit_of(name) for name in ("gpu_power_mw", "Power draw [W]", "power", "weight W")]
    ['mW', 'W', None, None]
    """
    name = name[-_LONGEST:]
    if match := _UNIT.search(name):
        if plain := match["plain"]:
            return plain
        word = (match["power"] or match["last"]).lower().removesuffix("s")
        return _UNITS_OF_POWER[word]
    if _SHARE.search(name):
        return "%"
    return "cycles" if name == _CYCLES else None


def device_of_name(name: str | None) -> int | None:
    """Device in the name of a counter.

    Examples
    --------
    >>> [device_of_name(name) for name in ("GPU 3 Power (W)", "GPU Power [1] (S)", "GPU Power")]
    [3, 1, None]
    """
    match = _DEVICE.fullmatch(name or "")
    return int(match[1] or match[2]) if match else None


def device_of_process(pid: str | None, category: str | None) -> int | None:
    """Device that the process of counters stands for.

    Examples
    --------
    >>> device_of_process("GPU 3 Counters", None), device_of_process("1", "mtia_counters")
    (3, 1)
    """
    match = _OF_PROCESS.fullmatch(pid or "")
    if match:
        return int(match[1])
    if category in _BY_DEVICE and _NUMBER.fullmatch(pid or ""):
        return int(pid or "")
    return None


def with_named_columns(counters: pa.Table) -> pa.Table:
    """Stored counters with the unit and device that names say, where they have none.

    Parameters
    ----------
    counters
        Rows of the table, with the process of each.
    """
    if not counters.num_rows:
        return counters
    names = ["name", "series", "category", "pid"]
    keys = pl.DataFrame(pa.table({name: counters[name].cast(schema.TEXT) for name in names}))
    distinct = keys.unique()
    rows = distinct.to_dicts()
    devices = [device_of_process(row["pid"], row["category"]) for row in rows]
    named = distinct.with_columns(
        unit=pl.Series(
            [unit_of(r["name"] or "") or unit_of(r["series"] or "") for r in rows], dtype=pl.String
        ),
        device=pl.Series(
            [
                device_of_name(r["name"]) if d is None else d
                for r, d in zip(rows, devices, strict=True)
            ],
            dtype=pl.Int32,
        ),
    )
    own = keys.join(named, on=names, how="left", nulls_equal=True, maintain_order="left")
    unit = pc.coalesce(counters["unit"].cast(schema.TEXT), own["unit"].to_arrow().cast(schema.TEXT))
    device = pc.coalesce(counters["device"], own["device"].to_arrow())
    for name, values in (("unit", unit), ("device", device)):
        at = counters.schema.get_field_index(name)
        counters = counters.set_column(
            at, counters.field(name), values.cast(counters.field(name).type)
        )
    return counters


def with_values(rows: pa.Table) -> pa.Table:
    """The rows, repeated for each value in their arguments.

    The only value of a counter has the name of the counter if it has none of its own.
    """
    if not rows.num_rows:  # most traces: the query takes longer than the rest
        return rows.append_column("series", nulls(0)(schema.NAME)).append_column(
            "value", nulls(0)(pa.float64())
        )
    numbered = rows.select(["args"]).append_column("row", pa.array(np.arange(rows.num_rows)))
    with parsing_database.connect() as connection:
        connection.register("counter_events", numbered)
        values = connection.sql(_VALUES).to_arrow_table()
    counters = rows.take(values["row"])
    series = values["series"].cast(pa.string())
    name = counters["name"].cast(pa.string())
    series = pc.if_else(pc.and_(values["is_unnamed"], pc.is_valid(name)), name, series)
    counters = counters.append_column("series", series.dictionary_encode())
    return _with_units(counters.append_column("value", values["value"]))


def _with_units(counters: pa.Table) -> pa.Table:
    """Units also from the names of values, where that of the counter says none."""
    if "unit" not in counters.column_names:
        return counters
    series = counters["series"].combine_chunks()
    units = [unit_of(text) for text in series.dictionary.to_pylist()]
    if not any(units):
        return counters
    of_series = pa.array(units, pa.string()).take(series.indices)
    unit = pc.coalesce(counters["unit"].cast(pa.string()), of_series)
    return counters.set_column(counters.schema.get_field_index("unit"), "unit", unit)
