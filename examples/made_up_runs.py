"""Make up many nights of one job, from one step of the example trace: for tutorials and tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe import Trace, load

NOISE = 0.03
"""By how much times differ from night to night: the standard deviation of their logarithm."""
SLOWER = 1.08
"""By how much matrix products take longer, from 7 of 10 nights on."""
BUSY = 1.4
"""By how much everything took longer in one night, after 4 of 10."""
_LARGE = """
    SELECT name FROM events GROUP BY name HAVING count(*) <= 24 AND sum(self_ns) > 20_000
"""
DAY_NS = 86_400_000_000_000


def nights(count: int, source: str = "examples/cpu_training.json.gz") -> Trace:
    """One step of a trace, as often as there are nights, with the times of each op a bit different.

    Of the step there are the ops that take long and are called seldom: so a thousand are made in a
    second.

    Parameters
    ----------
    count
        Number of nights.
    source
        Trace whose second step is taken.

    Returns
    -------
    Trace
        Runs ``night-0000``, ``night-0001``, ...; the tables `events` and `traces` only.
    """
    step = load(source).filter(steps=2, kinds=["host_op", "annotation"])
    tables, traces = step.tables, step.tables["traces"]
    large = step.sql(_LARGE)["name"].to_arrow()
    events = tables["events"].filter(pc.is_in(tables["events"]["name"], large))
    rng = np.random.default_rng(7)
    names = pa.concat_arrays(events["name"].unify_dictionaries().chunks)
    factors = np.exp(rng.normal(0, NOISE, (count, len(names.dictionary))))
    factors *= np.exp(rng.normal(0, NOISE / 2, (count, 1)))
    factors[count * 7 // 10 :, names.dictionary.index("aten::mm").as_py()] *= SLOWER
    factors[count * 4 // 10] *= BUSY
    of_event = factors[:, names.indices.to_numpy()].ravel()
    runs, numbers = np.repeat(np.arange(count), len(events)), np.arange(count)
    made = _repeated(events, count)
    for column in ("dur_ns", "self_ns"):
        made = _with(made, column, np.rint(made[column].to_numpy() * of_event).astype(np.int64))
    later = made["start_ns"].to_numpy() + DAY_NS * runs
    made = _of_runs(_with(made, "start_ns", later), runs)
    headers = _repeated(traces, count)
    headers = _with(headers, "start_ns", headers["start_ns"].to_numpy() + DAY_NS * numbers)
    empty = {name: table.slice(0, 0) for name, table in tables.items()}
    return Trace.from_tables({**empty, "events": made, "traces": _of_runs(headers, numbers)})


def _repeated(table: pa.Table, count: int) -> pa.Table:
    return table.take(np.tile(np.arange(len(table)), count))


def _with(table: pa.Table, column: str, values: Any) -> pa.Table:
    at = table.column_names.index(column)
    return table.set_column(at, table.schema.field(at), pa.array(values))


def _of_runs(table: pa.Table, runs: Any) -> pa.Table:
    names = [f"night-{number:04}" for number in range(int(runs[-1]) + 1)]
    at = table.column_names.index("run")
    column = pa.DictionaryArray.from_arrays(pa.array(runs, pa.int32()), names)
    return table.set_column(at, table.schema.field(at), column)
