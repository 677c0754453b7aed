"""``step_communication`` of drawn jobs against plain Python that looks at every nanosecond."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from profframe import schema
from profframe.trace.trace import Trace
from tests.builders import steps_of, table

Rows = list[dict[str, Any]]
STEPS = ((0, 30), (30, 55))
"""Start and end of each step."""


@st.composite
def jobs(draw: st.DrawFn) -> Rows:
    """Up to three ranks with computation and collectives at any time, also at once."""
    rows: Rows = []
    for rank in range(draw(st.integers(1, 3))):
        own: Rows = [
            {"kind": "annotation", "name": f"ProfilerStep#{n}", "thread": 1, "step": n}
            | {"start_ns": start, "dur_ns": end - start}
            for n, (start, end) in enumerate(STEPS)
        ]
        for _ in range(draw(st.integers(1, 3))):
            start, length = draw(st.integers(0, 50)), draw(st.integers(0, 12))
            own.append({"name": "mm", "kernel_category": "gemm", "start_ns": start})
            own[-1] |= {"kind": "kernel", "dur_ns": length, "stream": 7}
        for seq in range(draw(st.integers(0, 4))):
            start, length = draw(st.integers(0, 50)), draw(st.integers(0, 20))
            group = draw(st.sampled_from(["dp", "dp", "tp"]))
            own.append({"name": "ncclDevKernel_AllReduce", "kernel_category": "collective"})
            own[-1] |= {"kind": "kernel", "start_ns": start, "dur_ns": length, "stream": 8 + seq}
            own[-1] |= {"collective": "allreduce", "collective_seq": seq, "process_group": group}
        rows += [{"rank": rank, "event_id": n} | row for n, row in enumerate(own)]
    return rows


def parts(rows: Rows, rank: int, since: int, until: int) -> tuple[int, int, int, int, int, int]:
    """Nanoseconds of computation, communication, and what of it is exposed, waits, and so on."""
    own = [row for row in rows if row["rank"] == rank and row["kind"] == "kernel"]
    counts = [0] * 6
    for at in range(since, until):
        running = [r for r in own if r["start_ns"] <= at < r["start_ns"] + r["dur_ns"]]
        said = set()
        for row in running:
            if row["name"] == "mm":
                continue
            same = [
                other["start_ns"]
                for other in rows
                if other.get("collective_seq") == row["collective_seq"]
                and other.get("process_group") == row["process_group"]
            ]
            if len(same) == 1:
                said.add("unknown")
            else:
                said.add("wait" if at < max(same) else "transfer")
        computes = any(row["name"] == "mm" for row in running)
        counts[0] += computes
        counts[1] += bool(said)
        if said and not computes:
            counts[2] += 1
            counts[3 + (0 if "transfer" in said else 1 if "wait" in said else 2)] += 1
    compute, communication, exposed, transfer, wait, unknown = counts
    return compute, communication, exposed, wait, transfer, unknown


@settings(max_examples=max(settings().max_examples // 4, 2))
@given(drawn=st.lists(jobs(), min_size=1, max_size=20))
def test_every_nanosecond_has_one_part(drawn: list[Rows]) -> None:
    events = [{"run": str(run)} | row for run, rows in enumerate(drawn) for row in rows]
    traces = [
        {"run": run, "rank": rank, "clock": "utc"}
        for run, rank in sorted({(row["run"], row["rank"]) for row in events})
    ]
    tables = {name: t.arrow.empty_table() for name, t in schema.TABLES.items()}
    given_tables = {
        "events": table("events", events),
        "traces": table("traces", traces),
        "profiler_steps": table("profiler_steps", steps_of(events)),
    }
    with Trace.from_tables(tables | given_tables).session() as trace:
        found = trace.step_communication("host", corrected=False).to_dicts()
    columns = ("compute", "communication", "exposed", "wait", "transfer", "unknown")
    seen = set()
    for row in found:
        rows = drawn[int(row["run"])]
        since, until = (-1, 99) if row["step"] is None else STEPS[row["step"]]
        expected = parts(rows, row["rank"], since, until)
        assert tuple(row[f"{name}_ns"] for name in columns) == expected
        assert row["hidden_ns"] == row["communication_ns"] - row["exposed_ns"]
        seen.add((row["run"], row["rank"], row["step"]))
    assert len(seen) == len(found) == 3 * len(traces)
