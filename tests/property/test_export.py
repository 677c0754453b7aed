"""Any trace that was read, written and read again has the same tables."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Final

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

import profframe
from profframe.errors import SourceError
from profframe.trace.trace import Trace
from tests.property.test_reading import documents
from tests.round_trip import differences, faults

TYPED: Final = (
    "External id", "correlation", "device", "stream", "Sequence number", "Fwd thread id", "Ev Idx",
    "Python id", "Python parent id", "Input Dims", "Input type", "Concrete Inputs", "Call stack",
    "Module Hierarchy", "finished",
)  # fmt: skip


def without_typed_ends(text: str) -> str:
    """The document, without arguments of end events that have a column.

    They are no column of the slice when its begin and its end are read, but they are among its
    arguments, and so are its own in the file that is written.
    """
    value = json.loads(text, parse_float=str)
    events = value if isinstance(value, list) else value["traceEvents"]
    ends = [e for e in events if e["ph"] == "E" and not {*TYPED}.isdisjoint(e.get("args") or ())]
    for end in ends:
        end["args"] = {key: v for key, v in end["args"].items() if key not in TYPED}
    return json.dumps(value) if ends else text


def of_another_format(trace: Trace) -> Trace:
    """The same rows, as if they were of a source whose arguments hold no columns."""
    tables = trace.tables
    rows = tables["traces"].to_pylist()
    renamed = [row | {"format": "live"} for row in rows]
    return Trace.from_tables(
        tables | {"traces": pa.Table.from_pylist(renamed, tables["traces"].schema)}
    )


@settings(max_examples=max(1, settings().max_examples // 2))
@given(documents(), st.booleans())
@example('[{"ph":"B","ts":1},{"ph":"E","ts":0},{"ph":"E","ts":1,"tid":2},{"ph":"X"}]', False)
@example('[{"ph":"E","ts":5,"tid":1},{"ph":"E","ts":4},{"ph":"B","ts":5,"tid":1}]', False)
@example('{"traceEvents":[{"ph":"C","name":"c","ts":1,"args":{"a":1,"a":2}}]}', True)
@example('{"a":{"b":[0.000,1e400]},"traceEvents":[{"ph":"X"}]}', False)
@example('[{"ph":"C","ts":1,"args":{"a":1,"b":2}},{"ph":"C","ts":1,"args":{"a":1,"b":2}}]', False)
def test_what_was_read_reads_back(text: str, is_json: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source, written = Path(folder, "in.json"), Path(folder, "out.json")
        source.write_text(without_typed_ends(text))
        try:
            trace = profframe.load(source)
        except SourceError:
            return  # no event has a phase: it is no trace
        if not is_json:
            trace = of_another_format(trace)
        trace.export_chrome_trace(written)
        assert faults(written) == []
        assert differences(trace, profframe.load(written)) == []
