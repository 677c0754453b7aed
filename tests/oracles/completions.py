"""How long steps took, from rows of ``events`` one by one.

Each rule is written here as it is said, with a loop for each step and each piece of work.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from tests.oracles.intervals import Span, merged, shared
from tests.oracles.kernels import class_of
from tests.oracles.lost_work import places

Row = Mapping[str, Any]
Home = Callable[[Row], "Step | None"]
"""The step that a call, a synchronisation or a piece of work belongs to."""

COLUMNS: Final = (
    *("event_id", "kind", "name", "start_ns", "dur_ns", "pid", "device", "stream"),
    *("launch_id", "op_id", "step", "parent_id", "kernel_category", "wait_on_stream"),
    *("thread", "correlation", "preorder"),
)
OF_PHASES: Final = (*(name for name in COLUMNS if name != "step"), "inference_phase", "phase_id")
HOST: Final = ("host_op", "annotation", "python", "runtime", "driver", "overhead", "other")
WORK: Final = ("kernel", "memcpy", "memset")


class Step:
    """A slice that marks a step, and the work that was launched in it."""

    def __init__(self, row: Row, number: int) -> None:
        self.row, self.number = row, number
        self.start: int | None = row["start_ns"]
        is_ended = self.start is not None and row["dur_ns"] is not None
        self.end: int | None = self.start + row["dur_ns"] if is_ended else None
        self.work: list[Piece] = []
        self.holding: list[int] = []


class Piece:
    """Work of a device."""

    def __init__(self, row: Row, cause: Row | None) -> None:
        self.row, self.cause = row, cause
        self.start: int = row["start_ns"]
        self.end: int = row["start_ns"] + row["dur_ns"]
        self.queued: int = self.start if cause is None else cause["start_ns"]
        self.stream = (row["device"], row["stream"])
        self.step: Step | None = None


def steps(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows of ``profiler_steps`` of one rank."""
    by_id = {row["event_id"]: row for row in rows}
    marks = []
    for row in rows:
        match = re.fullmatch(r"ProfilerStep#(\d{1,18})", row["name"] or "")
        if match and row["kind"] in HOST:
            marks.append(Step(row, int(match[1])))
    processes = _processes(marks)
    links = _links(rows)

    def home(row: Row) -> Step | None:
        if row["kind"] in WORK:
            cause = by_id.get(row[links])
            if cause is None or cause["start_ns"] is None:
                return None
        else:
            cause = by_id.get(row["launch_id"]) if row["kind"] == "sync" else row
        has_time = cause is not None and cause["start_ns"] is not None
        moment = cause["start_ns"] if has_time else row["start_ns"]  # type: ignore[index]
        return _step_of(row["step"], cause, moment, processes)

    return [{"step": step.number} | row for step, row in _made(processes, rows, home)]


def phases(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows of ``phase_steps`` of one rank."""
    processes = _processes(
        [Step(row, row["event_id"]) for row in rows if row["phase_id"] == row["event_id"]]
    )
    parts: dict[int, Step] = {}
    for pid, own in processes.items():
        outer: list[Step] = []
        for mark in own:
            inside = [other for other in outer if mark.end <= other.end]  # type: ignore[operator]
            if not inside:
                outer.append(mark)
            parts[mark.number] = max(inside, key=lambda other: other.end or 0, default=mark)
        processes[pid] = outer
    on_devices = all(mark.row["kind"] not in HOST for mark in parts.values())

    def home(row: Row) -> Step | None:
        return parts.get(row["phase_id"])

    unknown = dict.fromkeys(("host_ns", "lag_ns")) if on_devices else {}
    made = _made(processes, rows, home, on_devices=on_devices)
    return [{"phase": step.row["inference_phase"]} | row | unknown for step, row in made]


def _processes(marks: Sequence[Step]) -> dict[Any, list[Step]]:
    """The steps of each process by start; of those that start at once the longest phase first."""
    processes: dict[Any, list[Step]] = {}
    for mark in marks:
        processes.setdefault(mark.row["pid"], []).append(mark)
    for own in processes.values():
        own.sort(key=_order)
    return processes


def _order(mark: Step) -> tuple[int, int, int]:
    is_phase = mark.row.get("phase_id") is not None and mark.end is not None
    length = mark.row["dur_ns"] if is_phase else 0
    return (-1 if mark.start is None else mark.start, -length, mark.row["event_id"])


def _links(rows: Sequence[Row]) -> str:
    """Where the cause of work is."""
    return "launch_id" if any(row["launch_id"] is not None for row in rows) else "op_id"


def _made(
    processes: Mapping[Any, list[Step]],
    rows: Sequence[Row],
    home: Home,
    *,
    on_devices: bool = False,
) -> list[tuple[Step, dict[str, Any]]]:
    """Each step with its row, by start."""
    by_id = {row["event_id"]: row for row in rows}
    links = _links(rows)
    pieces = []
    for row in rows:
        if row["kind"] in WORK and row["start_ns"] is not None and row["dur_ns"] is not None:
            cause = None if on_devices else by_id.get(row[links])
            piece = Piece(row, None if cause is None or cause["start_ns"] is None else cause)
            piece.step = home(row)
            if piece.step is not None:
                piece.step.work.append(piece)
            pieces.append(piece)
    made = [
        pair for own in processes.values() for pair in _of_process(own, pieces, rows, by_id, home)
    ]
    return sorted(
        made, key=lambda of: (of[0].start is None, of[0].start or 0, of[0].row["event_id"])
    )


def _step_of(
    number: int | None, cause: Row | None, moment: int, processes: Mapping[Any, list[Step]]
) -> Step | None:
    """The last mark with this number that had started when the work was launched."""
    if number is None or cause is None:
        return None
    own = [
        mark
        for mark in processes.get(cause["pid"], [])
        if mark.number == number and mark.start is not None and mark.start <= moment
    ]
    return own[-1] if own else None


def _of_process(
    own: list[Step],
    pieces: list[Piece],
    rows: Sequence[Row],
    by_id: Mapping[int, Row],
    home: Home,
) -> Iterable[tuple[Step, dict[str, Any]]]:
    waits = _waits(own, rows, by_id, home)
    lost_places = places(rows)
    homes = {n: home(by_id[n]) for n in lost_places}
    lost = [place[2:] for n, place in lost_places.items() if homes[n] is None]
    unawaited = dict.fromkeys(own, 0)
    for place, step in enumerate(own):
        later = own[place + 1 :]
        begins = min((p.start for mark in later for p in mark.work), default=None)
        for piece in step.work:
            if begins is None or piece.end <= begins:
                step.holding.append(piece.end)
                continue
            unawaited[step] += 1
            for number, mark in enumerate(later):
                is_queued = any(
                    p.stream == piece.stream and p.queued < piece.end for p in mark.work
                )
                if is_queued or any(
                    since < piece.end
                    and device == piece.row["device"]
                    and stream in {None, piece.row["stream"]}
                    for since, device, stream in waits[mark]
                ):
                    own[place + number].holding.append(piece.end)
                    if number == 0:
                        unawaited[step] -= 1
                    break
    reached: int | None = None
    for place, step in enumerate(own):
        earliest = min((p.start for mark in own for p in mark.work), default=None)
        if place == 0:
            earlier = [
                p.end
                for p in pieces
                if p.step is None
                and (
                    (
                        p.cause["pid"] == step.row["pid"]
                        and step.start is not None
                        and p.queued < step.start
                    )
                    if p.cause is not None
                    else earliest is not None and p.start < earliest
                )
            ]
            reached = max(earlier, default=None)
        before = reached
        ends = [step.end] if step.end is not None else []
        reached = max([*ends, *step.holding, *([] if reached is None else [reached])], default=None)
        began = (
            None if step.start is None else max(x for x in (step.start, before) if x is not None)
        )
        is_behind = place > 0 and any(of is own[place - 1] for of in homes.values())
        if (place == 0 or is_behind) and began is not None and reached is not None:
            share = 0.05 if place == 0 else 0
            began = _known(step, pieces, began, share * (reached - began))
        lack = _lack(step, own, rows, homes.values())
        lack = lack or ("before" if began is None else None)
        is_known = lack not in {"open", "records"} and step.end is not None
        completed = reached if is_known else None
        row = _row(step, pieces, (began, completed), unawaited[step], lost)
        yield step, row | {"lack": lack}


def _waits(
    own: list[Step], rows: Sequence[Row], by_id: Mapping[int, Row], home: Home
) -> dict[Step, list[tuple[int, Any, Any]]]:
    """What each step waits for by recorded synchronisations: since when, device, stream or all."""
    waits: dict[Step, list[tuple[int, Any, Any]]] = {step: [] for step in own}
    for row in rows:
        if row["kind"] != "sync" or row["start_ns"] is None:
            continue
        call = by_id.get(row["launch_id"])
        has_time = call is not None and call["start_ns"] is not None
        since = call["start_ns"] if has_time else row["start_ns"]  # type: ignore[index]
        step = home(row)
        of_stream = "wait" in (row["name"] or "").lower()
        stream = row["wait_on_stream"]
        if stream is None and not of_stream:
            stream = row["stream"]
        if step in waits and (stream is not None or not of_stream):
            waits[step].append((since, row["device"], stream))
    return waits


def _known(step: Step, pieces: list[Piece], began: int, least: float) -> int | None:
    """When a step began, unless its first work waited for what is not there."""
    launched = [p for p in step.work if p.cause is not None]
    if not launched:
        return began
    first = min(launched, key=lambda p: (p.queued, p.row["event_id"]))
    ready = max([first.queued, *(p.end for p in pieces if p.start < first.start)])
    return None if first.start - ready > max(least, 200_000) else began


def _lack(
    step: Step, own: list[Step], rows: Sequence[Row], lost: Iterable[Step | None]
) -> str | None:
    if step.end is None:
        return "open"
    others = [mark for mark in own if mark is not step and mark.end is not None]
    is_phase = step.row.get("phase_id") is not None
    if step is own[-1] and others and not is_phase and not _goes_on(step, rows):
        inside = {
            id(mark): {r["name"] for r in rows if r["parent_id"] == mark.row["event_id"]}
            for mark in own
        }
        usual = set.intersection(*(inside[id(mark)] for mark in others))
        missing = usual - inside[id(step)]
        if len(others) > 1:
            is_cut = bool(missing)
        else:
            length = others[0].end - others[0].start  # type: ignore[operator]
            is_cut = 2 * len(missing) > len(usual) and 2 * (step.end - step.start) < length  # type: ignore[operator]
        if is_cut:
            return "cut"
    return "records" if any(of is step for of in lost) else None


def _goes_on(step: Step, rows: Sequence[Row]) -> bool:
    """Whether the program went on after the step."""
    return any(
        row["kind"] in {"host_op", "annotation"}
        and row["pid"] == step.row["pid"]
        and row["start_ns"] is not None
        and row["start_ns"] >= step.end
        for row in rows
    )


def _row(
    step: Step,
    pieces: list[Piece],
    interval: tuple[int | None, int | None],
    unawaited: int,
    lost: list[Span],
) -> dict[str, Any]:
    began, completed = interval
    first = min((p.start for p in step.work), default=None)
    row: dict[str, Any] = {
        "event_id": step.row["event_id"],
        "pid": step.row["pid"],
        "start_ns": step.start,
        "host_ns": None if step.end is None else step.end - step.start,  # type: ignore[operator]
        "device_start_ns": first,
        "device_window_ns": None if first is None else max(p.end for p in step.work) - first,
        "began_ns": began,
        "completed_ns": completed,
        "step_ns": None if None in {began, completed} else completed - began,  # type: ignore[operator]
        "lag_ns": None if completed is None or not pieces else completed - step.end,  # type: ignore[operator]
        "unawaited": unawaited if pieces else None,
    }
    parts: dict[str, int | None] = dict.fromkeys(
        (
            *("compute_ns", "exposed_communication_ns", "exposed_copy_ns", "unrecorded_ns"),
            *("idle_ns", "hidden_communication_ns", "hidden_copy_ns", "other_steps_ns"),
        )
    )
    if pieces and row["step_ns"] is not None:
        parts = _parts([(began, completed)], step, pieces, lost)  # type: ignore[list-item]
    return row | parts


def _parts(
    window: list[Span], step: Step, pieces: list[Piece], lost: list[Span]
) -> dict[str, int | None]:
    spans: dict[str, list[Span]] = {"compute": [], "communication": [], "copy": []}
    for piece in pieces:
        spans[class_of(piece.row)].append((piece.start, piece.end))

    def time(*classes: str) -> int:
        return shared(window, merged(span for name in classes for span in spans[name]))

    busy = time(*spans)
    not_idle = shared(window, merged([*lost, *((p.start, p.end) for p in pieces)]))
    own = shared(window, merged((p.start, p.end) for p in step.work))
    exposed = time("compute", "communication") - time("compute")
    exposed_copy = busy - time("compute", "communication")
    return {
        "compute_ns": time("compute"),
        "exposed_communication_ns": exposed,
        "exposed_copy_ns": exposed_copy,
        "unrecorded_ns": not_idle - busy,
        "idle_ns": window[0][1] - window[0][0] - not_idle,
        "hidden_communication_ns": time("communication") - exposed,
        "hidden_copy_ns": time("copy") - exposed_copy,
        "other_steps_ns": busy - own,
    }
