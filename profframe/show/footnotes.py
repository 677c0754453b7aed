"""What is said below a table: what percentages are of, and what its words mean."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from profframe.show.columns import heading, unit_by_name

if TYPE_CHECKING:
    import polars as pl

COLUMNS: Final = MappingProxyType(
    {
        "held_up_ns": "what the job would gain if the rank came with the others",
        "shared_ns": "its part of what several late ranks cost together",
        "excess": "what took it longer than the rank before it",
        "mean_wait_ns": "how long it waits for others itself; a late rank waits the least",
    }
)
"""Columns whose headings need words, by name."""
VALUES: Final = MappingProxyType(
    {
        "cause": {
            "host_wait": "the host had not launched the next work yet",
            "sync": "the stream waited for another stream",
            "kernel_wait": "the usual delay between two kernels",
            "other": "launched before the gap, or its launch is not in the trace, and nothing "
            "recorded says what it waited for: record more (enable_cuda_sync_events, a step before)"
            ", or look for other processes on the device",
            "unrecorded": "work was launched that is not in the trace and may have run then: "
            "profile fewer steps at once",
        },
        "phase": {
            "mixed": "prefill and decode in one batch",
            "draft": "the small model of speculative decoding",
            "verify": "the large model checks what the small one wrote",
            "dummy": "steps without requests",
        },
    }
)
"""Values that need words, by the column that has them."""
_OUTSIDE: Final = "a row without one is work that was launched in no annotation"
_IDLE: Final = ("idle_ns", "dur_ns")
"""Columns beside a cause of idle time: other causes have other words."""
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


def footnotes(frame: pl.DataFrame, shares: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Notes on a table, each with the column that it is about.

    Parameters
    ----------
    frame
        Rows as they are shown.
    shares
        What its percentages are of, by column.
    """
    for name in frame.columns:
        if text := shares.get(name) or COLUMNS.get(name):
            yield name, f"{heading(name)}: {text}"
        if name == "name" and "calls" in frame.columns and _has_work_outside(frame):
            yield name, f"{heading(name)}: {_OUTSIDE}"
        if name in VALUES and (name != "cause" or any(of in frame.columns for of in _IDLE)):
            shown = {*frame[name].to_list()}
            words = ((word, text) for word, text in VALUES[name].items() if word in shown)
            yield from ((name, f"{word}: {text}") for word, text in words)


def _has_work_outside(frame: pl.DataFrame) -> bool:
    """Whether a row has neither a name nor calls, as one of the answer `annotations`."""
    return any(row == (None, None) for row in frame.select("name", "calls").rows())
