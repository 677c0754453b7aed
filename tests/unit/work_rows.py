"""Rows of calls and kernels, and the columns of work of each row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from profframe.facts.pipeline import add_facts
from tests.builders import Row, event, tables

Inputs = dict[str, Any]


def inputs(dims: str, *types: str) -> Inputs:
    """The columns of what goes into an op."""
    return {"input_dims": dims, "input_types": json.dumps(types, separators=(",", ":"))}


COLUMNS = ["flops", "bytes", "work_id", "work_dtype"]


def call(start: int, number: int, **columns: Any) -> dict[str, object]:
    """A call that launches something."""
    own = {"category": "cuda_runtime", "correlation": number}
    return event("cudaLaunchKernel", start, start + 1) | own | columns


def kernel(start: int, end: int | None, number: int | None, **columns: Any) -> dict[str, object]:
    own = {"category": "kernel", "thread": 9, "correlation": number, "device": 0}
    return event("sgemm", start, end) | own | columns


def facts(
    *events: Row, given: Mapping[int, Mapping[str, int]] | None = None, **options: Any
) -> list[dict[str, Any]]:
    """The columns of work of each row; ``given`` is what the source says of some rows."""
    source = tables(*events)
    rows = source["events"]
    for name in ("given_flops", "given_bytes"):
        if given is not None:
            values = [given.get(i, {}).get(name) for i in range(rows.num_rows)]
            rows = rows.append_column(name, pa.array(values, pa.int64()))
    found = add_facts({**source, "events": rows}, **options)["events"]
    of_work: list[dict[str, Any]] = found.select(COLUMNS).to_pylist()
    return of_work


def column(rows: Sequence[Mapping[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]
