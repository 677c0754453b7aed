"""What late ranks did that others did not: cases typed by hand."""

from __future__ import annotations

from typing import Any, Final

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from profframe.analysis.critical_path import late_costs
from profframe.analysis.critical_path.graph import NONE
from profframe.analysis.critical_path.late_costs import (
    COMPUTE,
    HOST,
    WAIT,
    RankSlices,
    SliceLabels,
)
from profframe.query.header import Answer
from profframe.query.run import prepare

_COST: Final = ("cause", "name", "cost_ns")
_PAIR: Final = {"rank": 1, "match": 5, "is_last": True}


def test_the_forward_op_of_an_inner_slice_counts_where_all_outer_ones_end() -> None:
    """Row 3, with a forward op, is inside 2, without one: what is around the forward op counts."""
    none = np.full(4, NONE)
    slices = RankSlices(
        event=np.arange(4),
        name=np.array([0, 1, NONE, NONE]),
        hierarchy=none,
        outer=np.array([NONE, 0, NONE, 2]),
        forward=np.array([NONE, NONE, NONE, 1]),
        is_op=np.array([False, True, False, False]),
        is_module=np.array([True, False, False, False]),
        cause=none,
    )
    labels = SliceLabels(pa.chunked_array([["module", "op"]]), np.zeros(2, np.bool_))
    found = late_costs.places(slices, labels, np.array([3, 2]))
    assert found["op"].tolist() == [1, NONE]
    assert found["module"].tolist() == [0, NONE]


def rows(*parts: tuple[int, int, int]) -> pl.DataFrame:
    """Rows of `differences` of one pair: cause, name and cost."""
    columns: dict[str, Any] = {name: [value] * len(parts) for name, value in _PAIR.items()}
    cause, name, cost = zip(*parts, strict=True)
    columns |= {"cause": cause, "name": name, "op": [NONE] * len(parts)}
    columns |= {"module": [NONE] * len(parts), "waits_for_rank": [NONE] * len(parts)}
    return pl.DataFrame(columns | {"cost_ns": cost})


def priced(parts: pl.DataFrame, **longer: int) -> dict[tuple[int, int], int]:
    """Costs by cause and name; ``longer`` says for how much longer the rank was in a name."""
    owns = pl.DataFrame(
        [(1, 5, int(name.removeprefix("name")), ns) for name, ns in longer.items()],
        schema=dict.fromkeys(("rank", "match", "name", "longer_ns"), pl.Int64),
        orient="row",
    )
    found = late_costs.costs(parts, owns)
    return {
        (cause, name): cost for cause, name, cost in found.select("cause", "name", "cost_ns").rows()
    }


def test_what_both_did_is_taken_from_both_sides() -> None:
    """100 ns of name 0 on the path of the late rank, of which it was only 30 ns longer in it."""
    found = priced(rows((HOST, 0, 100), (COMPUTE, 1, -50)), name0=30)
    assert found == {(HOST, 0): 50}


def test_a_wait_of_the_other_rank_is_nothing_that_both_did() -> None:
    found = priced(rows((HOST, 0, 100), (WAIT, NONE, -50)), name0=30)
    assert found == {(HOST, 0): 100, (WAIT, NONE): -50}


def test_what_does_not_divide_goes_by_the_order_of_the_causes_words() -> None:
    """1 ns is divided between two rows of 1: the later one gets it, and host is after compute."""
    found = priced(rows((HOST, 0, 1), (COMPUTE, 1, 1), (HOST, 2, -1)), name0=0, name1=0)
    assert found == {(COMPUTE, 1): 1}


def test_time_before_both_were_together_does_not_count() -> None:
    """Since they were together rank 1 was in `work` for 7 ns, rank 0 for 2; both long before."""
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE events AS SELECT *, 'r' AS run, NULL::VARCHAR AS module_hierarchy FROM "
            "(VALUES (0, 1, 'work', 0, 40), (0, 2, 'work', 60, 2), (1, 1, 'work', 0, 90), "
            "(1, 2, 'work', 160, 7)) AS rows(rank, event_id, name, start_ns, self_ns)"
        )
        prepare(connection, Answer("costs", late_costs.MACROS), {})
        labels = late_costs.labelled(connection)
        assert labels.texts.to_pylist() == ["work"]
        pairs = pl.DataFrame(
            {
                "rank": [1], "match": [5], "before_rank": [0], "since_ns": [150],
                "start_ns": [200], "before_since_ns": [50], "before_start_ns": [100],
            }
        )  # fmt: skip
        found = late_costs.longer(connection, pairs, rows((HOST, 0, 9)))
    assert found.rows() == [(1, 5, 0, 5)]
