"""Choice of the capture that each graph launch replays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa

from profframe.facts.arrays import is_kind, numbers
from profframe.facts.fact import Note
from profframe.facts.graph_captures.replay_matching import (
    Candidate,
    EagerRuns,
    Match,
    difference,
    matches,
    offsets,
)
from profframe.facts.graph_captures.replays import Replays, size_of_replay
from profframe.intervals import Ints, nearest, rows_by_value

_MOST_PADDING: Final = 2
"""A graph runs for less than its own number of tokens, but not for this part of it."""


@dataclass(frozen=True, slots=True)
class CaptureChoice:
    """The capture of each launch.

    Attributes
    ----------
    match : list of Match or None
        By launch.
    notes : list of Note
        What is not known, and why.
    """

    match: list[Match | None]
    notes: list[Note]


def choose(
    events: pa.Table,
    runs: Replays,
    candidates: Sequence[Candidate],
    files: Sequence[str],
    eager: EagerRuns,
) -> CaptureChoice:
    """Choose for each launch the only capture that it can belong to.

    Among captures with equal names, those for the launch's number of tokens count. What is still
    open is decided by order: the n-th launch in an annotation belongs to the n-th capture of a file
    and size.

    Parameters
    ----------
    events
        Of the trace.
    runs
        Its launches of graphs.
    candidates
        All captures, in their order in each file; those of the trace itself come first.
    files
        The file of each; empty for the trace itself.
    eager
        What ops launch without a graph.
    """

    @cache
    def of_work(work: int) -> list[Match]:
        return matches(runs.works[work], candidates, eager)

    scope = _scopes(events, runs.launches)
    keys, key = _keys(events, runs, candidates, scope)
    cases = [_Case.of(k, of_work(k.work), candidates) for k in keys]
    match = [cases[k].only for k in key.tolist()]
    if any(len(case.fitting) > 1 for case in cases):
        order = _Order(_rows(candidates, files), candidates)
        order.fill(match, key, [case.fitting for case in cases], _passes(events, runs, scope))
        for launch, k in enumerate(key.tolist()):
            fitting = cases[k].fitting
            places = {(files[m.capture], candidates[m.capture].capture.size) for m in fitting}
            if match[launch] is None and len(fitting) > 1:
                is_once = len(fitting) == len(places)
                match[launch] = _only(fitting, candidates, with_frames=not is_once)
    reasons = _Reasons(runs, candidates, files, eager)
    return CaptureChoice(match, [*reasons.notes(match, key, cases)])


@dataclass(frozen=True, slots=True)
class _Key:
    """Properties of a launch that determine its possible captures.

    Attributes
    ----------
    work : int
        What it ran.
    size : int, optional
        Its number of tokens.
    until : int
        Number of the trace's own captures that were complete before it.
    """

    work: int
    size: int | None
    until: int


def _scopes(events: pa.Table, launches: Ints) -> Ints:
    """The outermost annotation around each launch, or -1."""
    parent = numbers(events, "parent_id", missing=-1)
    marked = is_kind(events, ("annotation",))
    above = np.append(nearest(parent, marked), -1)
    scope: Ints = above[launches]
    while True:
        outer = above[np.append(parent, -1)[scope]]
        if (outer < 0).all():
            return scope
        scope = np.where(outer >= 0, outer, scope)


def _keys(
    events: pa.Table, runs: Replays, candidates: Sequence[Candidate], scope: Ints
) -> tuple[list[_Key], Ints]:
    """The different keys, and the number of each launch's key."""
    marks, place = np.unique(scope, return_inverse=True)
    names = events["name"].take(pa.array(marks[marks >= 0])).to_pylist()
    sizes = [-1] * int((marks < 0).any()) + [
        -1 if not name or (size := size_of_replay(name)) is None else size for name in names
    ]
    start = numbers(events, "start_ns")
    own = [candidate for candidate in candidates if candidate.is_trusted]
    # A graph cannot be replayed before its capture is complete.
    complete = np.maximum.accumulate([0, *(start[c.capture.calls[-1]] for c in own)])[1:]
    until = np.searchsorted(complete, start[runs.launches])
    columns = np.stack((runs.work, np.array(sizes, np.int64)[place], until))
    distinct, key = np.unique(columns, axis=1, return_inverse=True)
    keys = [_Key(work, None if size < 0 else size, n) for work, size, n in distinct.T.tolist()]
    return keys, key.reshape(-1)


@dataclass(frozen=True, slots=True)
class _Case:
    """Launches with one key, the captures of the same work, and those of them that fit."""

    key: _Key
    like: list[Match]
    fitting: list[Match]

    @classmethod
    def of(cls, key: _Key, matches_: Sequence[Match], candidates: Sequence[Candidate]) -> _Case:
        like = [
            match
            for match in matches_
            if match.capture < key.until or not candidates[match.capture].is_trusted
        ]
        fitting = _of_size(like, key.size, candidates)
        # Ranks capture alike, so several fit; that of its own rank is the one.
        of_rank = [match for match in fitting if candidates[match.capture].is_of_rank]
        return cls(key, like, of_rank or fitting)

    @property
    def only(self) -> Match | None:
        return self.fitting[0] if len(self.fitting) == 1 else None


def _of_size(
    of_work: Sequence[Match], size: int | None, candidates: Sequence[Candidate]
) -> list[Match]:
    """Captures for a number of tokens: the smallest that is not smaller, nor much larger."""
    sizes = [candidates[match.capture].capture.size for match in of_work]
    if size is None or not any(sizes):
        return list(of_work)
    large = [s for s in sizes if s is not None and s >= size and s < max(_MOST_PADDING * size, 2)]
    best = min(large, default=None)
    return [m for m, s in zip(of_work, sizes, strict=True) if s is None or s == best]


def _passes(events: pa.Table, runs: Replays, scope: Ints) -> list[tuple[Ints, bool]]:
    """Launches of one thread in one annotation, and whether there is one."""
    thread = numbers(events, "thread")[runs.launches]
    _, place = np.unique(np.stack((thread, scope)), axis=1, return_inverse=True)
    return [(part, bool(scope[part[0]] >= 0)) for part in rows_by_value(place.reshape(-1))]


def _rows(candidates: Sequence[Candidate], files: Sequence[str]) -> list[list[int]]:
    """Captures of each file and size."""
    rows: dict[tuple[str, int | None], list[int]] = {}
    for number, (candidate, file) in enumerate(zip(candidates, files, strict=True)):
        rows.setdefault((file, candidate.capture.size), []).append(number)
    return list(rows.values())


@dataclass(frozen=True, slots=True)
class _Order:
    """The order of captures in rows: of a file and size."""

    rows: Sequence[Sequence[int]]
    candidates: Sequence[Candidate]

    def fill(
        self,
        match: list[Match | None],
        key: Ints,
        fitting: Sequence[Sequence[Match]],
        passes: Sequence[tuple[Ints, bool]],
    ) -> None:
        """Fill in the captures that follow from the order of launches."""
        solved: dict[tuple[bool, tuple[int, ...]], list[Match | None]] = {}
        for launches, is_whole in passes:
            of_pass = key[launches].tolist()
            if all(len(fitting[k]) < 2 for k in of_pass):
                continue
            signature = (is_whole, tuple(of_pass))
            if signature not in solved:
                solved[signature] = self._of_pass([fitting[k] for k in of_pass], is_whole=is_whole)
            for launch, chosen in zip(launches.tolist(), solved[signature], strict=True):
                match[launch] = match[launch] or chosen

    def _of_pass(self, fitting: Sequence[Sequence[Match]], *, is_whole: bool) -> list[Match | None]:
        """The captures of the launches of a pass, if exactly one row of captures is in order."""
        ways: list[list[Match]] = [[] for _ in fitting]
        for row in self.rows:
            in_row = [{m.capture for m in of} & set(row) for of in fitting]
            of_row = [n for n, captures in enumerate(in_row) if captures]
            # Piecewise graphs: vLLM launches 25 per step, of which 23 have the same kernels. Only
            # their place in the order of captures says which is which.
            begins = offsets([in_row[n] for n in of_row], row) if of_row else []
            # Whole passes within one annotation begin with the first graph.
            if len(begins) > 1 and is_whole and begins[0] == 0 and len(of_row) % len(row) == 0:
                begins = [0]
            if len(begins) == 1:
                for place, n in enumerate(of_row):
                    number = row[(begins[0] + place) % len(row)]
                    ways[n].append(next(m for m in fitting[n] if m.capture == number))
        chosen = [_only(way, self.candidates, with_frames=False) for way in ways]
        return [None if match is None else _in_order(match) for match in chosen]


def _in_order(match: Match) -> Match:
    return Match(
        match.capture, match.calls, "graph_order" if match.by == "graph_name" else match.by
    )


def _only(
    way: Sequence[Match], candidates: Sequence[Candidate], *, with_frames: bool
) -> Match | None:
    """The last capture, if all have the same ops: captured again, or by several ranks; else None.

    In one file and size, layers may have the same ops: then the frames must be the same, too.
    """
    if not way:
        return None
    of = [candidates[match.capture] for match in way]
    is_same = all(c.ops == of[0].ops and c.labels == of[0].labels for c in of)
    is_same &= not with_frames or all(c.frames == of[0].frames for c in of)
    return way[-1] if is_same else None


@dataclass(frozen=True, slots=True)
class _Reasons:
    """Why work in graphs has no op."""

    runs: Replays
    candidates: Sequence[Candidate]
    files: Sequence[str]
    eager: EagerRuns

    def notes(
        self, match: Sequence[Match | None], key: Ints, cases: Sequence[_Case]
    ) -> Iterator[Note]:
        """A note for each reason."""
        bounds = self.runs.bounds
        size = np.diff(bounds)
        open_ = np.array([m is None for m in match])
        reasons: dict[tuple[str, str], list[int]] = {}
        for k in np.unique(key[open_]).tolist():
            if reason := self._of(cases[k]):
                reasons.setdefault(reason, []).append(k)
        for (check, detail), of_reason in reasons.items():
            launches = np.flatnonzero(open_ & np.isin(key, of_reason))
            text = f"{detail} ({launches.size} launches)"
            yield check, int(size[launches].sum()), text, int(self.runs.rows[bounds[launches[0]]])

    def _of(self, case: _Case) -> tuple[str, str] | None:
        if case.fitting:
            places = sorted({capture_title(m.capture, self.files) for m in case.fitting})
            return "ambiguous_capture", f"{len(case.fitting)} fit, of {', '.join(places[:4])}"
        if case.like:
            number = case.like[0].capture
            return "other_capture", (
                f"{capture_title(number, self.files)} is for "
                f"{self.candidates[number].capture.size} tokens, the replay has {case.key.size}"
            )
        if not self.candidates:
            return None
        work = self.runs.works[case.key.work]
        distance = [abs(len(c.capture.names) - len(work.names)) for c in self.candidates]
        # Compare with the capture of the nearest length: its difference tells a reader most.
        like = int(np.argmin(distance))
        why = difference(work, self.candidates[like], self.eager)
        return "other_capture", f"{why}, {capture_title(like, self.files)}"


def capture_title(number: int, files: Sequence[str]) -> str:
    """What notes call a capture, by the files of all captures; ``""`` is the trace itself."""
    place = 1 + files[:number].count(files[number])
    return f"capture {place} of {files[number] or 'the trace itself'}"
