"""Exposed time of work: it runs alone while something waits.

A simulation saves less only where it knows another reason why something came when it came. A wait
that is not recorded may be such a reason, or none: so this is the other end of a prediction's
range.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from profframe.analysis.critical_path.graph import DisjointSpans
from profframe.analysis.simulation.job_network import JobNetwork
from profframe.analysis.simulation.rank import Lengths, Rank
from profframe.intervals import Ints, Mask, union


def savings(job: JobNetwork, changed: Sequence[Lengths]) -> int:
    """The most that shorter work may save, if all that waited while only it ran waited for it.

    The rank that saves least decides: a job ends with its last rank.
    """
    return min(map(_saving, job.ranks, job.waiting, changed), default=0)


def _saving(own: Rank, waiting: DisjointSpans, new: Lengths) -> int:
    works, recorded = own.graph.works, own.recorded.work
    left = np.divide(new.work, recorded, out=np.ones(recorded.size), where=recorded > 0)
    is_shorter = left < 1
    if not is_shorter.any():
        return 0
    start = np.clip(works.end - works.whole, 0, own.until)
    end = np.clip(works.end, 0, own.until)
    others = DisjointSpans(*union(start[~is_shorter], end[~is_shorter]))
    start, end, less = start[is_shorter], end[is_shorter], 1 - left[is_shorter]
    bounds = (start, end, others.start, others.end, waiting.start, waiting.end)
    at = np.unique(np.concatenate(bounds))
    counts = _running(at, start, end, np.ones(start.size))
    # Where several run at once, the mean of their savings counts: the time is there only once.
    shares = _running(at, start, end, less) / np.maximum(counts, 1)
    is_alone = (counts > 0) & ~_inside(at, others) & _inside(at, waiting)
    return int((np.diff(at, append=at[-1:]) * shares)[is_alone].sum())


def _running(at: Ints, start: Ints, end: Ints, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of the weights of what runs from each moment on."""
    begun, ended = (
        np.bincount(np.searchsorted(at, moments), weights, at.size) for moments in (start, end)
    )
    return np.cumsum(begun - ended)


def _inside(at: Ints, spans: DisjointSpans) -> Mask:
    """Whether each moment is in one of the spans, their ends not included."""
    begun = np.searchsorted(spans.start, at, "right")
    return begun > np.searchsorted(spans.end, at, "right")
