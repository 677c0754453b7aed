"""Ranks that were read, written into one file and read again have the same tables."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

import profframe
from profframe.errors import SourceError
from profframe.trace.trace import Trace
from tests.builders import together
from tests.property.test_export import of_another_format, without_typed_ends
from tests.property.test_reading import documents
from tests.round_trip import differences, faults

_BOUND = (
    '[{"ph":"X","ts":1,"dur":1,"pid":1,"bind_id":"0x5","flow_out":true},'
    '{"ph":"X","ts":3,"dur":1,"pid":1,"bind_id":"0x5","flow_in":true,"args":{"bind_id":"0x5"}},'
    '{"ph":"X","ts":1,"dur":1,"pid":2,"bind_id":7,"flow_out":true,"args":{"a":[1, 2]}},'
    '{"ph":"X","ts":1,"dur":1,"pid":2,"bind_id":"9","flow_out":true}]'
)
_QUOTED = (
    '[{"ph":"X","ts":1,"dur":1,"pid":1,"bind_id":"\\\\\\"x\\"","flow_out":true,"args":{"a":1}},'
    '{"ph":"X","ts":3,"dur":1,"pid":1,"bind_id":"\\"","flow_in":true}]'
)
_ARROWS = (
    '[{"ph":"s","cat":"ac2g","id":5,"ts":1,"pid":1,"tid":1},'
    '{"ph":"f","cat":"ac2g","id":1099511627776,"ts":1,"pid":1,"tid":1},'
    '{"ph":"t","cat":"ac2g","id":4398046511104,"ts":1,"pid":1,"tid":1},'
    '{"ph":"s","id":"1/5","ts":1},{"ph":"s","id":"007","ts":1},{"ph":"s","id":-3,"ts":1},'
    '{"ph":"s","id":999999999999999999,"ts":1},{"ph":"s","ts":1}]'
)
_OPERATIONS = (
    '[{"ph":"b","cat":"c","id":"5","ts":1,"pid":1},{"ph":"e","cat":"c","id":"5","ts":2,"pid":1},'
    '{"ph":"b","cat":"c","id2":{"local":"5"},"scope":"s","ts":1,"pid":1},'
    '{"ph":"b","cat":"c","id2":{"global":"5"},"scope":"s","ts":3,"pid":1},'
    '{"ph":"n","cat":"c","id":5,"ts":3,"pid":1},{"ph":"e","cat":"c","id":6,"ts":3}]'
)
_DEVICES = (
    '[{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":1,"pid":3,"tid":7},'
    '{"ph":"C","name":"Power (W)","pid":"GPU 2 Counters","ts":1,"args":{"v":3}},'
    '{"ph":"X","name":"k","ts":1,"dur":1,"pid":"CUDA functions","tid":1},'
    '{"ph":"M","name":"process_name","pid":3,"args":{"name":"python"}},'
    '{"ph":"M","name":"process_sort_index","pid":3,"args":{"sort_index":5000003}},'
    '{"ph":"M","name":"process_labels","pid":9,"args":{"labels":"GPU 9"}},'
    '{"ph":"X","ts":1,"dur":1}]'
)


_ALL = f"[{','.join(text[1:-1] for text in (_BOUND, _ARROWS, _OPERATIONS, _DEVICES))}]"
"""Numbers and ids that clash where two ranks have them."""


@settings(max_examples=max(1, settings().max_examples // 6))
@given(st.lists(documents(), min_size=2, max_size=4), st.booleans(), st.booleans())
@example([_ALL, _ALL], True, False)
@example([_DEVICES, _ALL], False, True)
@example([_QUOTED, _QUOTED], True, False)
def test_ranks_that_were_written_together_read_back(
    texts: list[str], is_json: bool, has_runs: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder, "out.json")
        traces: list[Trace] = []
        for rank, text in enumerate(texts):
            source = Path(folder, "in.json")
            source.write_text(without_typed_ends(text))
            try:
                trace = profframe.load(source, f"run {rank % 2 if has_runs else 0}", rank)
            except SourceError:
                continue  # no event has a phase: it is no trace
            traces.append(trace if is_json else of_another_format(trace))
        if len(traces) < 2:
            return
        trace = together(*sorted(traces, key=lambda t: t.traces.select("run", "rank").row(0)))
        trace.export_chrome_trace(written, clocks="recorded", collectives=True)
        assert faults(written) == []
        back = profframe.load(written)
        assert differences(trace, back) == []
        assert back.events["run"].equals(trace.events["run"])
