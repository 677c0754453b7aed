r"""A trace in which every text is hostile: to HTML, scripts, styles, SQL, spreadsheets, terminals.

    >>> from tests import hostile
    >>> import pathlib, tempfile, profframe
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> trace = profframe.load(hostile.written(folder), run=hostile.RUN)
    >>> set(hostile.NAMES) <= set(trace.events["name"])
    True

Scripts among the names set the variable `MARK`, so that a page can be asked whether any of them
ran; images among them ask for a file, so that a request is seen, too. The fixtures ``hostile_file``
and ``hostile_trace`` of ``conftest.py`` have the file and the trace.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

MARK: Final = "hostile_ran"
"""What a name that runs as a script sets to 1."""

ACTS: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""What no text is shown with, but for tabs and the ends of our own lines."""

LONG: Final = "long_" + "x" * 9_990 + "_tail"
"""10,000 characters."""

NAMES: Final = (
    # HTML, and text that stands inside <script>, <style>, <title>, a comment, an attribute
    f"<script>{MARK}=1</script>",
    f"</script><script>{MARK}=1</script>",
    f"</style><script>{MARK}=1</script>",
    f"</title></textarea><svg onload={MARK}=1>",
    f"<img src=hostile.png onerror={MARK}=1>",
    f'" onmouseover="{MARK}=1" x="',
    f"' onfocus='{MARK}=1' autofocus='",
    "<!-- --> ]]> <![CDATA[ <plaintext>",
    "&lt;b&gt; &amp;amp; &#60;i&#62;",
    # scripts, JSON, templates, formulas of notebooks
    f"');{MARK}=1;//",
    f"`${{{MARK}=1}}` {{{{7*7}}}} {{% raw %}}",
    "line\u2028separator\u2029",
    f"$\\href{{javascript:{MARK}=1}}{{x}}$ \\(y\\)",
    f"datum['a'] + {MARK}",
    "__proto__",
    "constructor",
    # SQL and other forms with places to fill in
    "'; DROP TABLE events; --",
    "\" OR '1'='1",
    "$1 ? %s %(x)s {name} {0.__class__}",
    # spreadsheets
    "=1+1",
    "=cmd|'/C calc'!A0",
    '+HYPERLINK("http://127.0.0.1/"&A1)',
    "-1+1",
    "@SUM(1,1)",
    "\t=2+2",
    "\r=3+3",
    # terminals, lines, markdown, rich
    "nul\x00bell\x07esc\x1b[31m\x1b]0;title\x07del\x7fcsi\x9b2J",
    "two\nlines\r\nand, a; separator 12",
    "[red]a[/red] [link=http://127.0.0.1/]b[/link] :smile:",
    "[c](javascript:void(0)) | `d` | **e**",
    # text from right to left, wide and combined characters, nothing to see
    "\u202egnp.exe\u202c \u2067isolate\u2069 mark\u200e\u200f\u061c",
    "\ufeffno\xad\u180e\u200b\u2060look\ufff9\U000e0041\U000e007f",
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627",
    "\u540d\u524d\u0301 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    " ",
    "",
    LONG,
)
"""Names of an annotation, a Python frame, an op, and a kernel each."""

RUN: Final = f"=2+3 </title><script>{MARK}=1</script><img src=run.png> '\"; \x1b[31m\u202e"
"""For ``load(..., run=RUN)``."""

GROUP: Final = f"<b>group</b> =1'\"{MARK}"
"""Name of a process group and of a counter."""

_PERIOD: Final = 1000
"""Microseconds from one name to the next."""
_HOST: Final = {"pid": 100, "tid": 1}
_DEVICE: Final = {"pid": 0, "tid": 7}


def written(folder: Path, rank: int = 0) -> Path:
    """The trace of a rank as a file in a folder."""
    path = folder / f"hostile{rank}.json"
    path.write_text(json.dumps(document(rank)))
    return path


def document(rank: int = 0) -> dict[str, Any]:
    """The trace: two steps, for every name an annotation, frame, op, launch, kernel and memory."""
    events = [event for number, name in enumerate(NAMES) for event in _named(number, name)]
    half = len(NAMES) // 2 * _PERIOD
    end = len(NAMES) * _PERIOD
    for step, (start, stop) in enumerate(((0, half), (half, end)), start=1):
        events.append(_slice("user_annotation", f"ProfilerStep#{step}", start, stop - start))
    events += _product(end, len(NAMES) + 1) + _collective(end + _PERIOD, len(NAMES) + 2)
    return {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": f"H100 {NAMES[0]}", "totalGlobalMem": 1 << 36}],
        "distributedInfo": {"backend": NAMES[0], "rank": rank, "world_size": 2},
        "hostile": {name: name for name in NAMES},
        "traceEvents": [*_labels(), *events],
        "traceName": NAMES[2],
    }


def _named(number: int, name: str) -> list[dict[str, Any]]:
    start, correlation = number * _PERIOD + 10, number + 1
    frame = {"Python id": correlation, "Call stack": f"{name}.py(1): f;{name}"}
    module = {**frame, "Python module id": number}
    of_op = {
        "External id": correlation,
        "Input Dims": [[8, 8]],
        "Concrete Inputs": [name],
        "Call stack": f"{name}.py(7): g",
    }
    launch = {"correlation": correlation, "External id": correlation}
    work = {**launch, "device": 0, "stream": 7}
    return [
        _slice("user_annotation", name, start, 900),
        _slice("python_function", f"{name}.py(1): {name}", start + 10, 800, frame),
        _slice("python_function", f"nn.Module: {name}_0", start + 20, 700, module),
        _slice("cpu_op", name, start + 30, 300 + number, of_op),
        _slice("cuda_runtime", "cudaLaunchKernel", start + 40, 10, launch),
        _slice("kernel", name, start + 60, 500, work, place=_DEVICE),
        _memory(start + 35, number + 1, 1),
        _counter(start, number),
    ]


def _product(start: int, correlation: int) -> list[dict[str, Any]]:
    """An op whose work is known."""
    launch = {"correlation": correlation, "External id": correlation}
    work = {**launch, "device": 0, "stream": 7}
    of_op = {
        "External id": correlation,
        "Input Dims": [[512, 512], [512, 512]],
        "Input type": ["float", "float"],
        "Input Strides": [[512, 1], [512, 1]],
    }
    return [
        _slice("cpu_op", "aten::mm", start, 50, of_op),
        _slice("cuda_runtime", "cudaLaunchKernel", start + 5, 10, launch),
        _slice("kernel", f"gemm{NAMES[0]}", start + 20, 100, work, place=_DEVICE),
    ]


def _collective(start: int, correlation: int) -> list[dict[str, Any]]:
    launch = {"correlation": correlation, "External id": correlation}
    work = {**launch, "device": 0, "stream": 7}
    said = {
        "Collective name": f"allreduce{NAMES[0]}",
        "In msg nelems": 1024,
        "Out msg nelems": 1024,
        "Group size": 2,
        "dtype": "Float",
        "Process Group Name": GROUP,
        "Process Group Description": NAMES[0],
        "Process Group Ranks": "[0, 1]",
    }
    kernel = f"ncclDevKernel_AllReduce_Sum_f32_RING_LL({NAMES[0]})"
    return [
        _slice("cpu_op", "record_param_comms", start, 60, {**launch, **said}),
        _slice("cuda_runtime", "cudaLaunchKernel", start + 5, 10, launch),
        _slice("kernel", kernel, start + 30, 90, {**work, **said}, place=_DEVICE),
    ]


def _labels() -> list[dict[str, Any]]:
    """Names of processes and threads."""
    said = (("process_name", _HOST, 0), ("thread_name", _HOST, 2), ("thread_name", _DEVICE, 4))
    return [
        {"ph": "M", "name": what, **place, "ts": 0, "args": {"name": NAMES[number]}}
        for what, place, number in said
    ]


def _slice(
    category: str,
    name: str,
    start: int,
    duration: int,
    args: dict[str, Any] | None = None,
    *,
    place: dict[str, int] = _HOST,
) -> dict[str, Any]:
    times = {"ts": start, "dur": duration}
    return {"ph": "X", "cat": category, "name": name, **place, **times, "args": args or {}}


def _memory(time: int, blocks: int, device_type: int) -> dict[str, Any]:
    args = {
        "Addr": blocks << 20,
        "Bytes": 1 << 20,
        "Device Type": device_type,
        "Device Id": 0,
        "Total Allocated": blocks << 20,
        "Total Reserved": blocks << 21,
    }
    row = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "s": "t"}
    return {**row, **_HOST, "ts": time, "args": args}


def _counter(time: int, value: int) -> dict[str, Any]:
    return {"ph": "C", "name": GROUP, "pid": 0, "ts": time, "args": {NAMES[0]: value}}
