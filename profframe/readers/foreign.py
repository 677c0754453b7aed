"""Files of other tools that are not traces: how each begins, and the advice for it.

A format that profframe learns to read leaves this list and gets its reader.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from profframe.readers import graph_stacks

_READS: Final = (
    "profframe reads Chrome trace JSON, Perfetto's protobuf, rocprofv3's databases and JSON, "
    "databases of nvprof and Nsight Systems, torch's memory snapshots and timelines, flight "
    "recorders and execution traces, and files of NCCL's Inspector and example profiler"
)


@dataclass(frozen=True, slots=True)
class _Format:
    """How a file begins, how its name ends, what it is, and what can be loaded instead.

    The name alone is enough for files that are not text.
    """

    beginning: re.Pattern[bytes] | None
    endings: tuple[str, ...]
    kind: str
    remedy: str


def _pattern(text: bytes) -> re.Pattern[bytes]:
    return re.compile(text, re.DOTALL)


_FORMATS: Final = (
    _Format(
        _pattern(rb'\A\s*\{\s*"\d{1,20}"\s*:\s*"'),
        (),
        graph_stacks.WORDS,
        "load the trace of the same process, with this file as captures=, or --captures",
    ),
    _Format(
        _pattern(rb'\A\s*\[\s*\{\s*"(?:children|frame|metrics)"\s*:(?!.*"ph"\s*:)'),
        (".hatchet",),
        "a tree from Proton, Triton's profiler, which has totals and no events",
        'record with proton.start(data="trace"), or with torch\'s profiler, and load that trace',
    ),
    _Format(
        # XSpace.planes of the protocol buffer, with an id or not, and the name of the first plane.
        _pattern(
            rb"\A\n[\x80-\xff]{0,9}[\x00-\x7f](?:\x08[\x80-\xff]{0,9}[\x00-\x7f])?"
            rb"\x12.(?:/host:|/device:|Task Environment|#Chip)"
        ),
        (".xplane.pb",),
        "an XPlane file from XLA's profiler (JAX, TensorFlow)",
        "load the .trace.json.gz that the profiler writes beside it",
    ),
    _Format(
        _pattern(rb"\ANVR\x00"),
        (".ncu-rep", ".nsight-cuprof-report"),
        "a report from Nsight Compute, which measures single kernels and has no trace",
        "record with nsys profile, and load the result of nsys export --type sqlite",
    ),
    _Format(
        _pattern(rb"\A(?![\s\xef\xbb\xbf]*[\[{]).{0,256}(?:QuadD|Nsight Systems)"),
        (".nsys-rep", ".qdrep", ".qdstrm"),
        "a report that only Nsight Systems can read",
        "run nsys export --type sqlite {name}, and load the .sqlite file",
    ),
    _Format(
        _pattern(rb"\A.{4}\x00{4}.{4}[\x09\x11].{0,24}brain\.Event:"),
        (),
        "an event file from TensorBoard's writers",
        "load the .pt.trace.json beside it, which torch's profiler wrote",
    ),
    _Format(
        _pattern(
            rb"\A\s*<(?:!DOCTYPE html|html)(?:(?!Memory Timeline).)*"
            rb"(?:MemoryViz|_memory_viz|trace_plot)"
        ),
        (),
        "a page of torch's memory snapshot viewer",
        "load the .pickle that it was made from, written by torch.cuda.memory._dump_snapshot",
    ),
    _Format(
        _pattern(rb"\A\s*<(?:!DOCTYPE html|html).*Memory Timeline"),
        (),
        "a page from export_memory_timeline, which has only a picture",
        "export FILE.raw.json.gz instead, and load that",
    ),
    _Format(
        _pattern(rb"\Aversion https://git-lfs\.github\.com/spec/"),
        (),
        "a pointer of Git LFS to a file that was not downloaded",
        "run git lfs pull, and load what it brings",
    ),
    _Format(
        _pattern(rb"\A(?:\.\./|\./)*(?:\.git)?/annex/objects/"),
        (),
        "a pointer of git-annex to a file that was not downloaded",
        "run git annex get {name}, and load what it brings",
    ),
    _Format(
        _pattern(rb"\A(?:7z\xbc\xaf\x27\x1c|Rar!\x1a\x07|\x04\x22\x4d\x18)"),
        (".7z", ".rar", ".lz4"),
        "an archive that only its own tool unpacks",
        "unpack it, and load the trace or the folder",
    ),
    _Format(
        _pattern(rb"\A\s*<\?xml"),
        (".nvvp",),
        "an XML document, such as a session of the Visual Profiler, which holds no events",
        "profile with nvprof -o FILE, or find the file that it imported, and load that",
    ),
)
"""The first match counts."""


def database_refusal(tables: Sequence[str]) -> str | None:
    """What an SQLite database with these tables is; None if that is not known.

    Examples
    --------
    >>> database_refusal(["rocpd_api", "rocpd_op"]).partition(" from")[0]
    'an old rocpd database'
    """
    if not any(name.startswith("rocpd_") for name in tables):
        return None
    return (
        "an old rocpd database from ROCm's profilers (record with rocprofv3 of ROCm 7, and load "
        f"that; {_READS})"
    )


def refusal(path: Path, head: bytes) -> str | None:
    r"""What a file is and what to do instead; None if it may be a trace.

    Examples
    --------
    >>> refusal(Path("kernels.ncu-rep"), b"NVR\x00").partition(",")[0]
    'a report from Nsight Compute'
    >>> refusal(Path("step.json"), b'{"traceEvents": [') is None
    True
    """
    text = head.removeprefix(b"\xef\xbb\xbf")
    fitting = (form for form in _FORMATS if form.beginning and form.beginning.search(text))
    form = next(fitting, None)
    if form is None and not text.lstrip().startswith((b"{", b"[")):
        name = path.name.lower().removesuffix(".gz").removesuffix(".zst")
        form = next(
            (form for form in _FORMATS if form.endings and name.endswith(form.endings)), None
        )
    if form is None:
        return None
    return f"{form.kind} ({form.remedy.format(name=path.name)}; {_READS})"
