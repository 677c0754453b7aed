"""Planted edits of a step: each draws its place and size, and says what it changed.

An edit gets two copies of a step, base and other, and changes the other one; some change both, as
the base has to have what is lost.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tests.planted import making
from tests.planted.making import Place
from tests.planted.recorded import KERNELS, OPS, Model, Slice
from tests.planted.steps import length

LEAST: Final = 0.03
"""An edit that changes the step by less is drawn again."""
Where = tuple[str | None, str | None]
"""The op and the kernel that an edit is about."""


@dataclass(eq=False)
class Drawn:
    """The step before and after, and what is drawn for an edit."""

    base: Model
    other: Model
    draw: random.Random
    size: int
    """By how many nanoseconds the step should change."""

    def both(self, change: Callable[[Model], None]) -> None:
        change(self.base)
        change(self.other)

    def pick(self, groups: list[list[Place]], least: float = 0.02) -> list[Place] | None:
        """One of the groups that have so large a share of the device's time."""
        total = sum(making.spent(group) for group in groups)
        large = [group for group in groups if making.spent(group) >= least * total]
        return self.draw.choice(large) if large else None

    def pieces(self, count: int) -> list[int]:
        """The size in so many pieces, each about the same."""
        weights = [self.draw.uniform(0.7, 1.3) for _ in range(count)]
        return [int(self.size * weight / sum(weights)) for weight in weights]

    def sign(self, group: list[Place]) -> int:
        """Whether the group gets slower or faster: by how much."""
        can_shrink = making.spent(group) > 1.5 * self.size
        return -self.size if can_shrink and self.draw.random() < 0.4 else self.size


def _grow(group: list[Place], ns: int) -> None:
    making.scale([p.work for p in group], 1 + ns / max(1, making.spent(group)))


def kernel_of_name(drawn: Drawn) -> Where | None:
    """All kernels of one name are slower, or faster."""
    times = {
        name: sum(work.dur for work in works)
        for name, works in making.kernels_by_name(drawn.other).items()
    }
    large = [name for name in times if times[name] >= 0.02 * sum(times.values())]
    if not large:
        return None
    name = drawn.draw.choice(large)
    by = -drawn.size if times[name] > 1.5 * drawn.size and drawn.draw.random() < 0.4 else drawn.size
    same = [work for work in drawn.other.works() if work.name == name]
    making.scale(same, 1 + by / max(1, times[name]))
    return None, name


def kernel_of_op(drawn: Drawn) -> Where | None:
    """One kernel of one call of an op is slower."""
    all_ = making.kernels(drawn.other)
    if not all_:
        return None
    place = drawn.draw.choice(all_)
    place.work.dur += drawn.size
    return place.op.name, place.work.name


_TILE: Final = re.compile(r"\d+x\d+")
_WORD: Final = re.compile(r"(?:void )?(?:[a-z_0-9]+::|\(anonymous namespace\)::)*\w+")


def _renamed(name: str, draw: random.Random) -> str:
    """The name of a kernel that does the same otherwise: another tile, or another function."""
    other = _TILE.sub("256x32", name, count=1)
    if other != name:
        return other
    suffix = draw.choice(("_manual_unroll", "_sm90", "_v2"))
    return _WORD.sub(lambda match: match[0] + suffix, name, count=1)


def kernel_swapped(drawn: Drawn) -> Where | None:
    """One op's kernel of one name is another one."""
    groups = making.grouped(making.kernels(drawn.other), lambda p: (p.op.name, p.work.name))
    group = drawn.pick(groups)
    if group is None:
        return None
    new = _renamed(group[0].work.name, drawn.draw)
    for place in group:
        place.work.event = making.changed(place.work.event, new)
    _grow(group, drawn.sign(group))
    return group[0].op.name, new


def _cost(top: Slice, group: list[Place]) -> int:
    return max(making.spent(group), making.host_time(top))


def calls_added(drawn: Drawn) -> Where | None:
    """An op with its kernels is called more often."""
    tops = making.tops(making.kernels(drawn.other))
    usable = [t for t, group in tops.items() if drawn.size / _cost(t, group) <= 100]
    usable = [t for t in usable if not making.handed_over(t)]
    if not usable:
        return None
    top = drawn.draw.choice(usable)
    name = top.name
    same = [t for t in usable if t.name == name]
    missing, added = drawn.size, 0
    while missing > 0:
        top = same[added % len(same)]
        making.insert_after(tops[top][0].parent, top, [making.again(top)])
        missing, added = missing - _cost(top, tops[top]), added + 1
    return name, None


def calls_removed(drawn: Drawn) -> Where | None:
    """Some calls of one op are gone."""
    tops = making.tops(making.kernels(drawn.other))
    names: dict[str, list[Slice]] = {}
    for top in tops:
        if not making.handed_over(top):
            names.setdefault(top.name, []).append(top)
    cost = {name: sum(_cost(t, tops[t]) for t in same) for name, same in names.items()}
    enough = [name for name in names if cost[name] > LEAST * 2 * drawn.base.recorded]
    if not enough:
        return None
    name = drawn.draw.choice(enough)
    missing = drawn.size
    for top in drawn.draw.sample(names[name], len(names[name])):
        if missing > 0:
            making.remove(tops[top][0].parent, top)
            missing -= _cost(top, tops[top])
    return name, None


def _dims(value: Any, old: int, new: int) -> Any:
    if isinstance(value, list):
        return [_dims(each, old, new) for each in value]
    return new if value == old else value


def _numbers(value: Any) -> list[int]:
    if isinstance(value, list):
        return [number for each in value for number in _numbers(each)]
    return [value] if isinstance(value, int) else []


def _signature(slice_: Slice, key: str) -> str:
    return f"{slice_.name}{slice_.args.get(key)}"


def shape_changed(drawn: Drawn) -> Where | None:
    """One op gets tensors of another size, and its kernels take longer or less."""
    has = [p for p in making.kernels(drawn.other) if _numbers(p.top.args.get("Input Dims"))]
    group = drawn.pick(making.grouped(has, lambda p: _signature(p.top, "Input Dims")), 0.01)
    if group is None:
        return None
    sizes = [n for n in _numbers(group[0].top.args["Input Dims"]) if n >= 8]
    if not sizes:
        return None
    old, by = drawn.draw.choice(sizes), drawn.sign(group)
    new = max(old + 1, int(old * 1.5)) if by > 0 else old // 2
    for top in making.tops(group):
        for slice_ in top.walk():
            if slice_.event and "Input Dims" in slice_.args:
                dims = _dims(slice_.args["Input Dims"], old, new)
                slice_.event = making.changed(slice_.event, args={"Input Dims": dims})
    _grow(group, by)
    return group[0].top.name, None


_DTYPES: Final = {"float": "c10::BFloat16", "c10::BFloat16": "float", "c10::Half": "float"}
_KERNELS: Final = (
    (re.compile(r"_sgemm_"), "_bf16_s16816gemm_bf16_"),
    (re.compile(r"bf16bf16_bf16f32"), "f32f32_f32f32"),
    (re.compile(r"\bfloat\b"), "c10::BFloat16"),
    (re.compile(r"c10::(BFloat16|Half)"), "float"),
)


def dtype_changed(drawn: Drawn) -> Where | None:
    """One op gets elements of another type, and has other kernels."""
    key = "Input type"
    has = [p for p in making.kernels(drawn.other) if set(p.top.args.get(key, ())) & set(_DTYPES)]
    group = drawn.pick(making.grouped(has, lambda p: _signature(p.top, key)))
    if group is None:
        return None
    for top in making.tops(group):
        for slice_ in top.walk():
            if slice_.event and key in slice_.args:
                types = [_DTYPES.get(word, word) for word in slice_.args[key]]
                slice_.event = making.changed(slice_.event, args={key: types})
    for place in group:
        name = next(
            (p.sub(to, place.work.name) for p, to in _KERNELS if p.search(place.work.name)),
            place.work.name + "_bf16",
        )
        place.work.event = making.changed(place.work.event, name)
    _grow(group, drawn.sign(group))
    return group[0].top.name, None


def copies(drawn: Drawn) -> Where | None:
    """Tensors are copied between ops: to another type by a kernel, or to the device."""
    model = drawn.other
    spots = list(making.tops(making.kernels(model)).values())
    chosen = drawn.draw.sample(spots, min(len(spots), drawn.draw.randint(1, 12)))
    is_kernel, category = drawn.draw.random() < 0.5, making.op_category(model)
    calls, prefix = model.runtime()
    for group, dur in zip(chosen, drawn.pieces(len(chosen)), strict=True):
        thread, like = group[0].top.thread, group[0].work
        if is_kernel:
            name = (
                "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_"
                "cuda(at::TensorIteratorBase&)::{lambda()#3}>(int)"
            )
            call = making.new_slice(f"{prefix}LaunchKernel", calls, thread, 4_000)
            grid = {"grid": [1024, 1, 1], "block": [128, 1, 1]}
            kernel = next(w.event["cat"] for w in model.works() if w.event["cat"] in KERNELS)
            call.works = [making.new_work(name, kernel, like, dur, grid)]
        else:
            copy = "Memcpy" if kernel_words(model) else "gpu_memcpy"
            call = making.new_slice(f"{prefix}MemcpyAsync", calls, thread, 4_000)
            moved = {"bytes": dur * 20}
            name = drawn.draw.choice(
                ("Memcpy HtoD (Pinned -> Device)", "Memcpy DtoD (Device -> Device)")
            )
            call.works = [making.new_work(name, copy, like, dur, moved)]
        inner = call
        for op in ("aten::copy_", "aten::_to_copy", "aten::to"):
            inner = making.new_slice(op, category, thread, 1_000, [inner])
        making.insert_after(group[0].parent, group[0].top, [inner])
    return "aten::copy_", None


def kernel_words(model: Model) -> bool:
    """Whether the trace has the old words for categories."""
    return making.op_category(model) == OPS[1]


_POINTWISE: Final = re.compile(r"elementwise_kernel")


def _fuse(model: Model, runs: list[list[Slice]], spots: dict[Slice, list[Place]], own: int) -> str:
    name = "triton_poi_fused_" + "_".join(t.name.removeprefix("aten::").strip("_") for t in runs[0])
    category, (calls, _) = making.op_category(model), model.runtime()
    calls = calls if calls == "Runtime" else "cuda_driver"
    kernel = next(w.event["cat"] for w in model.works() if w.event["cat"] in KERNELS)
    for run in runs:
        first, parent = spots[run[0]][0], spots[run[0]][0].parent
        call = making.new_slice("cuLaunchKernel", calls, run[0].thread, 4_000)
        grid = {"grid": [1024, 1, 1], "block": [128, 1, 1]}
        call.works = [making.new_work(name + "_0", kernel, first.work, own, grid)]
        op = making.new_slice(name + "_0", category, run[0].thread, 3_000, [call])
        op.lead = run[0].lead
        making.insert_after(parent, run[-1], [op])
        for top in run:
            making.remove(parent, top)
    return name + "_0"


def _runs(model: Model, count: int) -> tuple[list[list[Slice]], dict[Slice, list[Place]]]:
    """So many ops in a row, each of one pointwise kernel."""
    spots = making.tops(making.places(model))
    runs: list[list[Slice]] = []
    parents = {group[0].parent for group in spots.values()}
    for parent in sorted(parents, key=lambda p: (p.lead, p.tail, len(p.children))):
        row: list[Slice] = []
        for child in parent.children:
            group = spots.get(child, [])
            is_one = len(group) == 1 and _POINTWISE.search(group[0].work.name) is not None
            if not is_one and not any(s.works or s.event is None for s in child.walk()):
                continue
            row = [*row, child] if is_one and not making.handed_over(child) else []
            if len(row) == count:
                runs.append(row)
                row = []
    return runs, spots


def _fusion(drawn: Drawn, fused: Model, plain: Model) -> Where | None:
    count = drawn.draw.randint(2, 4)
    runs, spots = _runs(plain, count)
    words = {tuple(top.name for top in run) for run in runs}
    if not words:
        return None
    chosen = drawn.draw.choice(sorted(words))
    in_fused, spots_of_fused = _runs(fused, count)
    own = drawn.size
    same = [run for run in runs if tuple(t.name for t in run) == chosen]
    same_of_fused = [run for run in in_fused if tuple(t.name for t in run) == chosen]
    each = own // len(same)
    for run in same:
        for top in run:
            spots[top][0].work.dur += each // (count - 1)
    longest = max(spots[top][0].work.dur for run in same for top in run)
    return None, _fuse(fused, same_of_fused, spots_of_fused, longest)


def fusion_made(drawn: Drawn) -> Where | None:
    """Pointwise ops in a row are one kernel."""
    return _fusion(drawn, drawn.other, drawn.base)


def fusion_lost(drawn: Drawn) -> Where | None:
    """What was one kernel is that of several ops."""
    return _fusion(drawn, drawn.base, drawn.other)


def true_change(base: list[Model], other: list[Model]) -> tuple[int, int]:
    """A step of the base without noise, and by how much the other one's is longer."""
    before = length(base)
    return before, length(other) - before
