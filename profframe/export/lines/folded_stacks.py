"""Stacks in the folded form of torch's ``export_stacks``, which flame graphs are drawn from.

`stack_lines` has a line for each slice with a recorded stack, as torch does; `path_lines` one for
each node of the call tree.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import duckdb
import polars as pl

from profframe.errors import ParameterError, UnknownNameError
from profframe.export.lines.batches import Lines, text_batches
from profframe.export.lines.event_list import LISTED, ORDER
from profframe.export.output_file import put_lines, written
from profframe.query.catalogue import find
from profframe.query.run import run


def write(path: str | os.PathLike[str], lines: Lines) -> None:
    """Write lines that end in line breaks; an underscore is for what acts on a terminal."""
    with written(path) as put:
        put_lines(put, lines, first=False, shown=lambda _: "_")


METRICS: Final[Mapping[str, str]] = MappingProxyType(
    {"self_cpu_time_total": "self_ns", "self_ns": "self_ns"}
    | {f"self_{name}_time_total": "self_device_ns" for name in ("cuda", "xpu", "privateuse1")}
    | {"self_device_ns": "self_device_ns"}
)
"""Names from torch and our own, and the column of each."""

_PARTS: Final = r"[;\x00-\x1f\x7f]"
"""Characters that would separate lines, or frames."""
_LINES: Final = """
    WITH merged AS (
        SELECT run, rank, merged_into AS event_id, sum({column}) AS ns
        FROM events
        WHERE merged_into IS NOT NULL
        GROUP BY ALL)
    SELECT concat(
        array_to_string(
            list_reverse(string_split(translate({stack}, E' \\t\\n', '___'), ';')), ';'),
        ' ', (coalesce({column}, 0) + coalesce(ns, 0))::BIGINT // 1000, E'\\n')
    FROM listed
    LEFT JOIN merged USING (run, rank, event_id)
    WHERE {stack} != '' AND coalesce({column}, 0) + coalesce(ns, 0) >= 1000
    ORDER BY {order}"""


def stack_lines(connection: duckdb.DuckDBPyConnection, metric: str) -> Lines:
    """A line for each slice: its frames, the outermost first, and whole microseconds."""
    column = _column(metric)
    connection.execute(LISTED)
    query = _LINES.format(column=column, stack=_stack(connection), order=ORDER)
    return text_batches(connection.sql(query))


def path_lines(connection: duckdb.DuckDBPyConnection, metric: str) -> Lines:
    """A line for each node of the call tree: names, the outermost first, and nanoseconds.

    The nodes are all of the answer `flame`, so all lines add up to the self time of the host, or to
    the time of the devices. A semicolon in a name is a comma, and a control byte an underscore. If
    there are several traces, the outermost frame says which one it is. Nodes without their own time
    have no line.
    """
    column = _column(metric)
    nodes = pl.DataFrame(run(connection, find("flame"), {"top": 0}).to_arrow_table())
    lines = _with_paths(nodes).filter(pl.col(column) > 0)
    if not lines.height:
        raise ParameterError(f"no host slice has {column} in this trace")
    text = lines.select(pl.concat_str("path", pl.lit(" "), column, pl.lit("\n"))).to_series()
    return iter([text.to_arrow()])


def _with_paths(nodes: pl.DataFrame) -> pl.DataFrame:
    """Nodes with the names around them and their own, level by level."""
    name = pl.col("name").fill_null("(no name)")
    first = pl.lit("")
    if nodes.select("run", "rank").n_unique() > 1:
        trace = pl.concat_str(pl.col("run").str.replace_all(_PARTS, "_"), pl.lit(" rank "), "rank")
        is_outer = pl.col("depth") == 0
        first = pl.when(is_outer).then(pl.concat_str(trace, pl.lit(";"))).otherwise(first)
    own = name.str.replace_all(";", ",", literal=True).str.replace_all(_PARTS, "_")
    levels = nodes.with_columns(path=pl.concat_str(first, own)).partition_by(
        "depth", as_dict=True, maintain_order=True
    )
    finished = [nodes.clear().with_columns(path=pl.lit("", pl.String))]
    for _, level in sorted(levels.items()):
        around = finished[-1].select(
            "run", "rank", pl.col("node_id").alias("parent_id"), around=pl.col("path") + ";"
        )
        keys = ["run", "rank", "parent_id"]
        beside = level.join(around, on=keys, how="left", maintain_order="left")
        path = pl.concat_str(pl.col("around").fill_null(""), "path")
        finished.append(beside.with_columns(path=path).drop("around"))
    return pl.concat(finished).sort("run", "rank", "path", "node_id")


def _column(metric: str) -> str:
    if metric not in METRICS:
        raise UnknownNameError.among("metric", metric, METRICS)
    return METRICS[metric]


def _stack(connection: duckdb.DuckDBPyConnection) -> str:
    """The column with stacks: recorded ones, else the Python frames around."""
    [counts] = connection.sql("SELECT count(stack), count(python_stack) FROM events").fetchall()
    for column, count in zip(("stack", "python_stack"), counts, strict=True):
        if count:
            return column
    raise ParameterError(
        "no event has a stack; profile with with_stack=True, and for the sources of operators with "
        "experimental_config=torch._C._profiler._ExperimentalConfig(verbose=True)"
    )
