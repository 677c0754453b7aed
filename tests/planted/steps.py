"""Steps that a model takes, as traces: the model played again and again, with drawn noise.

A thread goes from slice to slice; a work starts a lag after its call, when the work before it on
its stream is done; a call that waits ends after what it waits for. A collective ends on all ranks
at once: a transfer after the last rank began it.
"""

from __future__ import annotations

import gzip
import heapq
import itertools
import json
import random
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.planted.recorded import CALLS, CLOSING, Event, Line, Model, Slice, Work

BEGIN: Final = 10**15
"""So early that microseconds with three digits are exact as floats."""
EXTERNAL: Final = ("External id", "external id")
BUSY: Final = 2_000
"""The least that a call that waits takes by itself."""


@dataclass(eq=False, kw_only=True)
class Done:
    """What ends at a time that may not be known yet, and the threads that wait for it."""

    end: int | None = None
    waiting: list[Waiting] = field(default_factory=list)


@dataclass(eq=False)
class Run(Done):
    """A work that was launched; its end is known once the ends are that it waits for."""

    work: Work
    ready: int
    dur: int
    missing: int = 0
    start: int = 0
    followers: list[tuple[Run, int]] = field(default_factory=list)


Play = Generator[tuple[int, Sequence[Done]], int, int]
"""A thread: it gives a time and what it waits for, and gets the time at which it goes on."""


@dataclass(eq=False)
class Waiting:
    """A thread that goes on when all that it waits for is done."""

    thread: Play
    at: int
    missing: int


class Noise:
    """Drawn factors: of each duration, and of all durations of a step together."""

    def __init__(self, seed: int | str, sigma: float = 0.02, of_steps: float = 0.0) -> None:
        self.draw = random.Random(seed)  # noqa: S311 - no secret
        self.sigma, self.of_steps, self.step = sigma, of_steps, 1.0

    def begin(self) -> None:
        self.step = max(0.5, self.draw.gauss(1, self.of_steps)) if self.of_steps else 1.0

    def of(self, ns: int) -> int:
        if not self.sigma or ns <= 0:
            return max(0, ns)
        return int(ns * self.step * max(0.5, self.draw.gauss(1, self.sigma)))


@dataclass(eq=False)
class Rank:
    """One rank while it plays: what was launched on its streams, and its events so far."""

    model: Model
    noise: Noise
    number: int = 0
    lengths: list[int] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    works: list[tuple[Run, Event]] = field(default_factory=list)
    streams: dict[Line, Run] = field(default_factory=dict)
    threads: dict[Line, Done] = field(default_factory=dict)
    latest: dict[Work, Run] = field(default_factory=dict)
    meetings: int = 0
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def trace(self, world: int) -> Event:
        """What the rank played as a Chrome trace."""
        for run, event in self.works:
            assert run.end is not None, f"{run.work.name} never ran"
            event |= {"start": run.start, "dur": run.end - run.start}
        events = [*self.events, *(event for _, event in self.works)]
        header = dict(self.model.header)
        if world > 1:
            known = header.get("distributedInfo", {})
            header["distributedInfo"] = known | {"rank": self.number, "world_size": world}
        header.pop("baseTimeNanoseconds", None)
        return {**header, "traceEvents": [_written(event) for event in events]}


def _written(event: Event) -> Event:
    shown = {key: value for key, value in event.items() if key not in ("start", "dur", "ts")}
    shown["ts"] = event["start"] / 1000
    return shown | {"dur": event["dur"] / 1000} if event["ph"] == "X" else shown


class Job:
    """Ranks that play their models together."""

    def __init__(self, ranks: Sequence[Rank]) -> None:
        self.ranks = ranks
        self.queue: list[tuple[int, int, Play, int | None]] = []
        self.order = itertools.count()
        self.meetings: dict[int, list[Run]] = {}

    def play(self, steps: int) -> None:
        for rank in self.ranks:
            self._go_on(self._all_steps(rank, steps), BEGIN, None)
        while self.queue:
            _, _, thread, at = heapq.heappop(self.queue)
            try:
                then, runs = thread.send(at)  # type: ignore[arg-type]
            except StopIteration:
                continue
            missing = [run for run in runs if run.end is None]
            waiting = Waiting(thread, max([then, *(r.end for r in runs if r.end)]), len(missing))
            for run in missing:
                run.waiting.append(waiting)
            if not missing:
                self._go_on(thread, waiting.at, waiting.at)

    def _go_on(self, thread: Play, at: int, value: int | None) -> None:
        heapq.heappush(self.queue, (at, next(self.order), thread, value))

    def _all_steps(self, rank: Rank, steps: int) -> Play:
        at = BEGIN
        for step in range(steps):
            rank.noise.begin()
            begun = at
            at = yield from self._slice(rank, rank.model.root, at, (step + 1, None, None))
            rank.lengths.append(at - begun)
        return at

    def _slice(self, rank: Rank, slice_: Slice, at: int, within: tuple[int, Any, Any]) -> Play:
        noise, begun = rank.noise, at
        event = None
        if slice_.event:
            event, within = self._event(rank, slice_, within)
            event["start"] = at
            rank.events.append(event)
            _arrows(rank, slice_, event, within[0])
        if slice_.works:
            at = yield at, []
            for work in slice_.works:
                self._launch(rank, work, event or {}, at)
        for child in slice_.children:
            if slice_ is rank.model.root and child is slice_.children[-1]:
                # No thread takes its work along into the next step.
                at = yield at, list(rank.threads.values())
            at += noise.of(child.lead)
            if child.event is None and not child.waited:
                self._go_on(self._beside(rank, child, at, within), at, None)
            elif child.event is None:
                at = yield from self._beside(rank, child, at, within)
            else:
                at = yield from self._slice(rank, child, at, within)
        if slice_.waits:
            runs = list(rank.streams.values())
            if isinstance(slice_.waits, Work):
                runs = [rank.latest[slice_.waits]] if slice_.waits in rank.latest else []
            elif slice_.waits != "all":
                runs = [run for line, run in rank.streams.items() if line == slice_.waits]
            at = yield at + BUSY, runs
        at += noise.of(slice_.tail)
        if event:
            event["dur"] = at - begun
        return at

    def _beside(self, rank: Rank, group: Slice, at: int, within: tuple[int, Any, Any]) -> Play:
        """Play what another thread does, once that is done with what it did before."""
        before, done = rank.threads.get(group.thread), Done()
        rank.threads[group.thread] = done

        def thread() -> Play:
            begun = yield at, [before] if before else []
            done.end = yield from self._slice(rank, group, begun, within)
            self._wake(done)
            return done.end

        return thread()

    def _event(
        self, rank: Rank, slice_: Slice, within: tuple[int, Any, Any]
    ) -> tuple[Event, tuple[int, Any, Any]]:
        """The slice's event with ids of its own, and what is around its children."""
        step, external, frame = within
        args = slice_.args
        own = next((key for key in EXTERNAL if key in args), None)
        if own:
            if slice_.category not in CALLS or external is None:
                external = next(rank.ids)
            args[own] = external
        if "correlation" in args:
            args["correlation"] = next(rank.ids)
        if "Python id" in args:
            args["Python parent id"] = frame
            args["Python id"] = frame = next(rank.ids)
        if args.get("Sequence number", -1) >= 0:
            args["Sequence number"] += 1_000_000 * step
        args.pop("Ev Idx", None)
        name = f"ProfilerStep#{step}" if slice_ is rank.model.root else slice_.name
        pid, tid = slice_.thread
        event = {"ph": "X", "cat": slice_.category, "name": name, "pid": pid, "tid": tid}
        return event | {"args": args}, (step, external, frame)

    def _launch(self, rank: Rank, work: Work, call: Event, at: int) -> None:
        args = {**work.event.get("args", {}), "correlation": call["args"]["correlation"]}
        external = next((call["args"][key] for key in EXTERNAL if key in call["args"]), None)
        args |= {key: external for key in EXTERNAL if key in args}
        pid, tid = work.stream
        event = {"ph": "X", "cat": work.event["cat"], "name": work.name, "pid": pid, "tid": tid}
        run = Run(work, at + rank.noise.of(work.lag), rank.noise.of(work.dur))
        rank.works.append((run, event | {"args": args}))
        if rank.model.flow:
            category, name = rank.model.flow
            arrow = {"cat": category, "name": name, "id": args["correlation"]}
            rank.events.append({"ph": "s", **arrow, **_at(call)})
            rank.works.append((run, {"ph": "f", "bp": "e", **arrow, "pid": pid, "tid": tid}))
        before = rank.streams.get(work.stream)
        other = rank.latest.get(work.after) if work.after else None
        for earlier, gap in ((before, 0 if other else work.gap), (other, work.gap)):
            if earlier is None:
                continue
            if earlier.end is None:
                run.missing += 1
                earlier.followers.append((run, gap))
            else:
                run.ready = max(run.ready, earlier.end + gap)
        rank.streams[work.stream] = rank.latest[work] = run
        if work.meets and len(self.ranks) > 1:
            self.meetings.setdefault(rank.meetings, []).append(run)
            run.missing += 1
            rank.meetings += 1
        self._settle(run)

    def _settle(self, run: Run) -> None:
        """Give the run its end if that is known, and then what waits for it."""
        open_ = [run]
        while open_:
            run = open_.pop()
            if run.work.meets and len(self.ranks) > 1:
                open_ += self._meet(run)
            elif not run.missing:
                run.start, run.end = run.ready, run.ready + run.dur
                open_ += self._follow(run)

    def _meet(self, run: Run) -> list[Run]:
        meeting = next(m for m in self.meetings.values() if run in m)
        if len(meeting) < len(self.ranks) or any(each.missing > 1 for each in meeting):
            return []
        end = max(each.ready for each in meeting) + meeting[0].dur
        self.meetings = {n: m for n, m in self.meetings.items() if m is not meeting}
        following: list[Run] = []
        for each in meeting:
            each.missing, each.start, each.end = 0, each.ready, end
            following += self._follow(each)
        return following

    def _follow(self, run: Run) -> list[Run]:
        assert run.end is not None
        for follower, gap in run.followers:
            follower.missing -= 1
            follower.ready = max(follower.ready, run.end + gap)
        self._wake(run)
        return [follower for follower, _ in run.followers]

    def _wake(self, done: Done) -> None:
        assert done.end is not None
        for waiting in done.waiting:
            waiting.missing -= 1
            waiting.at = max(waiting.at, done.end)
            if not waiting.missing:
                self._go_on(waiting.thread, waiting.at, waiting.at)


def _at(event: Event) -> Event:
    return {key: event[key] for key in ("pid", "tid", "start")}


def _arrows(rank: Rank, slice_: Slice, event: Event, step: int) -> None:
    for phase, number in slice_.flows:
        arrow = {"cat": "fwdbwd", "name": "fwdbwd", "id": 10_000_000 * step + number}
        end = {"bp": "e"} if phase == "f" else {}
        rank.events.append({"ph": phase, **arrow, **end, **_at(event)})


def closed(model: Model) -> Model:
    """The model with a last call that waits for the device: the host runs no step ahead."""
    category, prefix = model.runtime()
    if not any(s.name.endswith(CLOSING) for s in model.root.children[-1:]):
        event = {"cat": category, "name": prefix + CLOSING, "args": {"correlation": 0}}
        model.root.children.append(Slice(event, model.root.thread, model.root.tail, BUSY))
        model.root.children[-1].waits, model.root.tail = "all", BUSY
    return model


def play(
    models: Sequence[Model],
    seed: int | str = 0,
    steps: int = 10,
    noise: float = 0.02,
    of_steps: float = 0.0,
) -> Job:
    """The job of these ranks after so many steps.

    Noise is of each duration, and of all durations of a step together.
    """
    noises = [Noise(f"{seed}/{n}", noise, of_steps) for n, _ in enumerate(models)]
    ranks = [Rank(m, noises[n], n) for n, m in enumerate(models)]
    job = Job(ranks)
    job.play(steps)
    return job


def length(models: Sequence[Model], steps: int = 3) -> int:
    """How long a step takes without noise: the mean over ranks of the last one."""
    job = play(models, steps=steps, noise=0.0)
    return sum(rank.lengths[-1] for rank in job.ranks) // len(job.ranks)


def simulate(
    models: Sequence[Model],
    folder: Path,
    seed: int | str = 0,
    *,
    steps: int = 10,
    noise: float = 0.02,
    of_steps: float = 0.0,
) -> list[Path]:
    """Write the steps of each rank as a trace; the same seed writes the same traces."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for rank in play(models, seed, steps, noise, of_steps).ranks:
        paths.append(folder / f"rank{rank.number}.json.gz")
        text = json.dumps(rank.trace(len(models)), default=float)
        paths[-1].write_bytes(gzip.compress(text.encode(), 1, mtime=0))
    return paths
