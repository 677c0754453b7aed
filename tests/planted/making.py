"""What edits are made of: copies of models, where works are in them, and slices that are new."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.planted.recorded import KERNELS, OPS, Event, Line, Model, Slice, Work

AROUND: Final = re.compile(
    r"autograd::|torch::autograd|.*Backward\d*$|CompiledFunction|Torch-Compiled|## |.*#|TorchDynamo"
)
"""Ops that hold other ops and are none of a model's own."""
COPIES: Final = re.compile(r"direct_copy|aten::(copy_|_?to(_copy)?|clone|contiguous)( |$)|CatArray")
BETWEEN: Final = 1_000


def clone(slice_: Slice, works: dict[int, Work], *, flows: bool = True) -> Slice:
    """A copy of the slice and all in it; events are shared, and replaced where they change."""
    copy = Slice(slice_.event, slice_.thread, slice_.lead, slice_.tail, waits=slice_.waits)
    copy.waited, copy.flows = slice_.waited, list(slice_.flows) if flows else []
    copy.children = [clone(child, works, flows=flows) for child in slice_.children]
    for work in slice_.works:
        again = Work(work.event, work.stream, work.lag, work.gap, work.dur, work.after)
        works[id(work)] = again
        copy.works.append(again)
    return copy


def copied(model: Model) -> Model:
    works: dict[int, Work] = {}
    root = clone(model.root, works)
    for work in works.values():
        work.after = works.get(id(work.after)) if work.after else None
    for slice_ in root.walk():
        if isinstance(slice_.waits, Work):
            slice_.waits = works.get(id(slice_.waits))
    return Model(root, model.header, model.flow, model.recorded, model.unlinked)


def again(slice_: Slice) -> Slice:
    """One more call of what the slice does."""
    works: dict[int, Work] = {}
    copy = clone(slice_, works, flows=False)
    for work in works.values():
        work.after = works.get(id(work.after), work.after) if work.after else None
    for each in copy.walk():
        if isinstance(each.waits, Work):
            each.waits = works.get(id(each.waits), each.waits)
    copy.lead = min(copy.lead, BETWEEN)
    return copy


@dataclass(eq=False)
class Place:
    """A work, the call that launches it, its innermost op, and the outermost one of the model."""

    work: Work
    call: Slice
    op: Slice
    top: Slice
    parent: Slice
    """What the outermost op is a child of."""


def places(model: Model) -> list[Place]:
    """Where each work is that an op launches, in order."""
    result: list[Place] = []

    def visit(slice_: Slice, path: list[Slice]) -> None:
        inner = [*path, slice_]
        ops = [n for n, s in enumerate(inner) if s.category in OPS and s is not model.root]
        own = [n for n in ops if not AROUND.match(inner[n].name)]
        for work in slice_.works:
            if own:
                top = inner[own[0]]
                result.append(Place(work, slice_, inner[ops[-1]], top, inner[own[0] - 1]))
        for child in slice_.children:
            visit(child, inner)

    visit(model.root, [])
    return result


def kernels(model: Model) -> list[Place]:
    """Places of kernels that are no collectives, and no copies: those have causes of their own."""
    return [
        place
        for place in places(model)
        if place.work.event["cat"] in KERNELS
        and not place.work.meets
        and not COPIES.search(f"{place.op.name} {place.top.name} {place.work.name}")
    ]


def kernels_by_name(model: Model) -> dict[str, list[Work]]:
    """The same kernels, and those that no op launches, as of a graph."""
    placed, usable = {p.work for p in places(model)}, {p.work for p in kernels(model)}
    result: dict[str, list[Work]] = defaultdict(list)
    for work in model.works():
        is_bare = work not in placed and work.event["cat"] in KERNELS and not work.meets
        if work in usable or (is_bare and not COPIES.search(work.name)):
            result[work.name].append(work)
    return result


def grouped(members: Iterable[Place], by: Callable[[Place], Hashable]) -> list[list[Place]]:
    """The places in groups, in order of the first of each."""
    groups: dict[Hashable, list[Place]] = defaultdict(list)
    for place in members:
        groups[by(place)].append(place)
    return list(groups.values())


def tops(members: Iterable[Place]) -> dict[Slice, list[Place]]:
    """The outermost ops, each with its places."""
    result: dict[Slice, list[Place]] = defaultdict(list)
    for place in members:
        result[place.top].append(place)
    return dict(result)


def spent(members: Iterable[Place]) -> int:
    return sum(place.work.dur for place in members)


def host_time(slice_: Slice) -> int:
    """How long the slice takes on the host, if it waits for nothing."""
    return slice_.tail + sum(child.lead + host_time(child) for child in slice_.children)


def handed_over(slice_: Slice) -> bool:
    return any(s.event is None for s in slice_.walk())


def scale(works: Iterable[Work], factor: float) -> None:
    for work in works:
        work.dur = max(1, int(work.dur * factor))


def changed(event: Event, name: str | None = None, args: Mapping[str, Any] | None = None) -> Event:
    """The event under another name, or with other args."""
    return {
        **event,
        "name": name or event["name"],
        "args": {**event.get("args", {}), **(args or {})},
    }


def new_slice(
    name: str, category: str, thread: Line, own: int, children: Iterable[Slice] = ()
) -> Slice:
    """A slice that is in no recording; its ids are given when it plays."""
    args: dict[str, Any] = {} if "untime" in category else {"External id": 0}
    if "untime" in category or category == "cuda_driver":
        args = {"External id": 0, "correlation": 0}
    event = {"ph": "X", "cat": category, "name": name, "args": args}
    return Slice(event, thread, BETWEEN, own, list(children))


def new_work(name: str, category: str, like: Work, dur: int, args: Mapping[str, Any]) -> Work:
    """A work on the stream of another one, with its device and stream."""
    kept = ("device", "context", "stream", "External id", "external id")
    has = {key: value for key, value in like.event.get("args", {}).items() if key in kept}
    event = {"ph": "X", "cat": category, "name": name, "args": {**has, "correlation": 0, **args}}
    return Work(event, like.stream, like.lag, 0, dur)


def op_category(model: Model) -> str:
    """The category of ops in this trace."""
    return next((s.category for s in model.slices() if s.category in OPS[1:]), OPS[0])


def annotation_category(model: Model) -> str:
    return model.root.category


def insert_after(parent: Slice, child: Slice, more: Iterable[Slice]) -> None:
    place = parent.children.index(child) + 1
    parent.children[place:place] = list(more)


def remove(parent: Slice, child: Slice) -> None:
    """Take the child away, and the time before it."""
    parent.children.remove(child)
