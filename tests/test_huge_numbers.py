"""Numbers that no column holds, wherever a trace has a number: it is loaded all the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

import profframe
from tests.fuzz.verbs import check_verb
from tests.members import few

HUGE: Final = ("7" * 5000, "9" * 30, "1e400", "-9223372036854775808")
"""Python reads no integer of more than 4,300 digits."""
_N: Final = "@number@"
_SLICE: Final[dict[str, Any]] = {"ph": "X", "pid": 1, "tid": 2, "ts": 1, "dur": 2}
EVENTS: Final[tuple[dict[str, Any], ...]] = (
    {"cat": "user_annotation", "name": f"ProfilerStep#{_N}", "dur": 90},
    {"cat": "user_annotation", "name": f"step[DECODE bs={_N} g_sq={_N}]", "dur": 80},
    {"cat": "user_annotation", "name": f"execute_context_{_N}({_N})_generation_{_N}(1)"},
    {"cat": "cpu_op", "name": "aten::mm", "args": {
        "External id": _N, "Input Dims": f"[[{_N},2],[2,{_N}]]", "Concrete Inputs": ["", _N],
        "Input type": ["float", "float"], "Sequence number": _N, "Ev Idx": _N}},
    {"cat": "cpu_op", "name": "aten::add", "args": {"Input Dims": [[_N, 2], [2, _N]]}},
    {"cat": "cpu_op", "name": "aten::conv2d", "args": {"Input Dims": f"{_N},3;2,{_N}"}},
    {"cat": "cpu_op", "name": "odd", "args": {"a": "@odd@", "b": "@hex@"}},
    {"cat": "cpu_op", "name": "late", "ts": _N},
    {"cat": "cpu_op", "name": "long", "dur": _N, "pid": _N, "tid": _N},
    {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": {"correlation": _N}},
    {"cat": "kernel", "name": f"k{_N}", "args": {"correlation": _N, "device": _N, "stream": _N}},
    {"cat": "kernel", "name": "ncclKernel", "pid": f"gpu{_N}", "tid": f"stream {_N}", "args": {
        "Collective name": "allreduce", "In msg nelems": _N, "Group size": _N, "dtype": "Float",
        "In split size": f"[{_N}]", "Process Group Ranks": f"[{_N}, 1]"}},
    {"cat": "gpu_memcpy", "name": "Memcpy", "args": {"bytes": _N, "device": 0, "stream": 7}},
    {"cat": "python_function", "name": f"f.py({_N}): run", "args": {"Python id": _N}},
    {"cat": "python_function", "name": f"nn.Module: Linear_{_N}", "args": {"Python id": 4}},
    {"cat": "cpu_instant_event", "ph": "i", "name": "[memory]", "args": {
        "Total Allocated": _N, "Bytes": _N, "Addr": _N, "Device Id": _N, "Device Type": _N}},
    {"cat": "ac2g", "ph": "s", "name": "ac2g", "id": _N},
    {"ph": "C", "name": "c", "args": {"v": _N}},
)  # fmt: skip
"""What a trace has a number in."""
HEADER: Final = {
    "schemaVersion": _N,
    "deviceProperties": [{"id": _N, "name": "A100", "totalGlobalMem": _N, "numSms": _N}],
    "distributedInfo": {"backend": "nccl", "world_size": _N, "pg_config": [{"ranks": [_N]}]},
    "with_flops": _N,
}


@pytest.mark.parametrize(
    "number",
    few(HUGE, [n for n in HUGE if n[0] != "9"]),
    ids=lambda number: f"{number[:6]} of {len(number)}",
)
def test_huge_numbers(number: str, tmp_path: Path) -> None:
    events = [_SLICE | event for event in EVENTS]
    text = json.dumps(HEADER | {"traceEvents": events}).replace(f'"{_N}"', number)
    text = text.replace(_N, number).replace('"@odd@"', f"+0{'7' * 5000}")
    path = tmp_path / "trace.json"
    path.write_text(text.replace('"@hex@"', f"0x{'f' * 5000}"))

    trace = profframe.load(path)
    assert sum(json.loads(trace.traces["accounted"].item()).values()) == len(EVENTS)
    assert {"odd_number", "hex_number"} <= {*trace.quality["issue"]}
    for loaded in (trace, profframe.load(path, compat="torch")):
        assert loaded.key_averages().height
    trace.export_chrome_trace(tmp_path / "out.json")
    assert profframe.load(tmp_path / "out.json").traces["source_events"].item() > 0
    for verb in ("info", "show", "tree"):
        check_verb(verb, str(path))
