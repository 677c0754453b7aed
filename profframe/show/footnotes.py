"""What is said below a table: what percentages are of, and what its words mean."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from profframe.show.columns import heading, headings_of, unit_by_name

if TYPE_CHECKING:
    import polars as pl

_CAUSES: Final = MappingProxyType(
    {
        "host_wait": "the device waited for the host: the next work was launched only after the "
        "gap began; a launch that takes long is in it, and answer host_waits has the reverse",
        "sync": "the stream waited for another stream",
        "kernel_wait": "the usual delay between two kernels",
        "other": "launched before the gap, or its launch is not in the trace, and nothing "
        "recorded says what it waited for: record the calls of the host too, or a step before "
        "(torch: also enable_cuda_sync_events), or look for other processes on the device",
        "unrecorded": "work was launched that is not in the trace and may have run then: "
        "profile fewer steps at once",
    }
)
_PHASES: Final = MappingProxyType(
    {
        "mixed": "prefill and decode in one batch",
        "draft": "the small model of speculative decoding",
        "verify": "the large model checks what the small one wrote",
        "dummy": "steps without requests",
    }
)
_ORIGINS: Final = MappingProxyType(
    {
        "before_trace": "allocated before recording began, usually weights and optimizer state: "
        "its owner cannot be known",
        "no_op": "allocated in the trace, but in no op",
    }
)
HOST: Final = "the slice ProfilerStep#N on the host, which may run ahead of the devices"
COLUMNS: Final = MappingProxyType(
    {
        "memory_peak": {
            "before_trace_bytes": "the part that was allocated before recording began, usually "
            "weights and optimizer state",
            "unfreed_bytes": "allocated in the trace and never freed in it",
        },
        "memory_owners": {
            "steps": "in how many profiler steps it was allocated: what is left of all of them "
            "piles up",
        },
        "key_averages": {
            "self_device_share": "of the time of all kernels, copies and fills",
            "total_device_ns": "with what the op calls",
        },
        "host_waits": {
            "calls": "all that synchronise, and others, such as copies, that held up the host",
        },
        "input_balance": {
            "load_ns": "in calls of the data loader",
            "wait_ns": "the part of load in which no device was busy; without devices, all of load",
        },
        "kernel_overlap": {
            "exposed_ns": "while nothing is computed, though a copy may run: for each combination, "
            "answer time_breakdown -p per=combination",
        },
        "utilization": {
            "span_ns": "of all steps, or of the whole trace where there are none; from the first "
            "to the last work: answer time_breakdown",
        },
        "time_breakdown": {
            "exposed_communication_ns": "while nothing is computed, though a copy may run",
        },
        "stragglers": {
            "held_up_ns": "what the job would gain if the rank came with the others",
            "shared_ns": "its part of what several late ranks cost together",
            "excess": "what took it longer than the rank before it",
            "mean_wait_ns": "how long it waits for others itself; a late rank waits the least",
        },
        "step_times": {
            "step_ns": "from the completion before it (of the first one, of the work before it) to "
            "its own, the pace of the devices where the host runs ahead",
            "host_ns": HOST,
        },
    }
)
"""Columns whose headings need words, by answer and name: elsewhere a name means something else."""
VALUES: Final = MappingProxyType(
    {
        "idle": {"cause": _CAUSES},
        "gaps": {"cause": _CAUSES},
        "memory_owners": {"origin": _ORIGINS},
        "phases": {"phase": _PHASES},
        "graph_layers": {"phase": _PHASES},
    }
)
"""Values that need words, by answer and the column that has them."""
_OUTSIDE: Final = (
    "a row without one is work that was launched in no annotation, or whose launch is not known"
)
_NAME: Final = re.compile(r"\b[a-z]+(?:_[a-z0-9]+)+\b")


def of_shares(docs: Mapping[str, str]) -> Mapping[str, str]:
    """What the percentages of an answer are of, by column, from the documentation of its columns.

    Examples
    --------
    >>> docs = {"idle_ns": "", "span_ns": "", "span_share": "idle_ns over span_ns; NULL if 0"}
    >>> dict(of_shares(docs))
    {'span_share': '"idle" over "span"'}
    """
    return {
        name: _plain(doc, docs)
        for name, doc in docs.items()
        if (unit := unit_by_name(name)) is not None and unit.is_share
    }


def _plain(doc: str, columns: Collection[str]) -> str:
    """Documentation without what is of NULL, with columns by their headings."""
    text = doc.partition("; NULL")[0].removesuffix(", see above")
    return _NAME.sub(lambda m: f'"{heading(m[0])}"' if m[0] in columns else m[0], text)


def footnotes(
    frame: pl.DataFrame, shares: Mapping[str, str], answer: str = ""
) -> Iterator[tuple[str, str]]:
    """Notes on a table, each with the column that it is about.

    Parameters
    ----------
    frame
        Rows as they are shown.
    shares
        What its percentages are of, by column.
    answer
        The answer that they are from; without it, no other word is explained.
    """
    import polars as pl

    columns, values = COLUMNS.get(answer, {}), VALUES.get(answer, {})
    headings = headings_of(frame.columns)
    for name, dtype in frame.schema.items():
        if text := shares.get(name) or columns.get(name):
            yield name, f"{headings[name]}: {text}"
        if name == "name" and answer == "annotations" and _has_work_outside(frame):
            yield name, f"{headings[name]}: {_OUTSIDE}"
        if name in values and dtype == pl.String:
            shown = {*frame[name].to_list()}
            words = ((word, text) for word, text in values[name].items() if word in shown)
            yield from ((name, f"{word}: {text}") for word, text in words)


def _has_work_outside(frame: pl.DataFrame) -> bool:
    """Whether a row has neither a name nor calls, as one of the answer `annotations`."""
    if "calls" not in frame.columns:
        return False
    return any(row == (None, None) for row in frame.select("name", "calls").rows())
