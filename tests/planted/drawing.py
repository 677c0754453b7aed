"""Which edits there are, and drawing one: a recorded step, how busy its device is, and the edit."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.planted import edits, host_edits, making
from tests.planted.edits import LEAST, Drawn, Where
from tests.planted.recorded import Model, cut
from tests.planted.steps import closed, length

Edit = Callable[[Drawn], Where | None]

_PARAM: Final = "facebookresearch__param/"
_LENS: Final = "AMD-AGI__TraceLens/"
_PARTICLES: Final = "harryjmoss__particle_transformer/batch_size_64/"
SOURCES: Final = (
    _LENS + "h100/Falconsai_nsfw_image_detection.json.gz",
    _LENS + "mi300/Falconsai_nsfw_image_detection.json.gz",
    _PARAM + "dlrm_kineto/worker3_step_12.1694128201557.pt.trace.json.gz",
    _PARAM + "dlrm_kineto/worker2_step_12.1694128201554.pt.trace.json.gz",
    _PARAM + "dlrm_kineto/worker1_step_12.1694128201556.pt.trace.json.gz",
    _PARAM + "linear_kineto.json.gz",
    "luatil__torch-profile/trace_04.json.gz",
    "pytorch-labs__segment-anything-fast/asdf_False.9ab058.json.gz",
    "pytorch__kineto/samples/resnet50_num_workers_0/worker0.1623143566756.pt.trace.json.gz",
    _LENS + "inference/sglang_deepseek_r1_MI300_1782841132.2905657-TP-0-DECODE.trace.json.gz",
    _LENS + "inference/sglang_deepseek_r1_B300_1782843274.7730265-TP-0-DECODE.trace.json.gz",
    _PARTICLES + "hmoss-6a49xb_1986400.1733769504651191315.pt.trace.json.gz",
)
"""Whose step plays within 3 % of the recorded one, and is small."""
WITH_COLLECTIVES: Final = SOURCES[2:5]


@dataclass(frozen=True)
class Kind:
    """An edit, the right word for its cause, and the steps where it shows."""

    edit: Edit
    cause: str
    busy: tuple[float, ...] = (0.0,)
    """How busy the device is, against the host; 0 is as recorded."""
    ranks: int = 1
    late: bool = False
    """Only the last rank has the edit."""
    sources: tuple[str, ...] = SOURCES


ANY: Final = (0.0, 0.4, 1.3)
FULL: Final = (1.2, 1.6)
IDLE: Final = (0.3, 0.6)
KINDS: Final = {
    "kernel of a name": Kind(edits.kernel_of_name, "kernel_time", FULL),
    "kernel of an op": Kind(edits.kernel_of_op, "kernel_time", ANY),
    "kernel swapped": Kind(edits.kernel_swapped, "kernel_swapped", FULL),
    "calls added": Kind(edits.calls_added, "calls_added", ANY),
    "calls removed": Kind(edits.calls_removed, "calls_removed", ANY),
    "shape changed": Kind(edits.shape_changed, "shape_changed", FULL),
    "dtype changed": Kind(edits.dtype_changed, "dtype_changed", FULL),
    "copies": Kind(edits.copies, "copies", ANY),
    "fusion made": Kind(edits.fusion_made, "fusion_made", FULL),
    "fusion lost": Kind(edits.fusion_lost, "fusion_lost", FULL),
    "graph break": Kind(host_edits.graph_break, "graph_break", IDLE),
    "recompile": Kind(host_edits.recompile, "recompile", ANY),
    "slower transfer": Kind(
        host_edits.slower_transfer, "collective_transfer", ranks=2, sources=WITH_COLLECTIVES
    ),
    "late rank": Kind(
        host_edits.late_rank, "collective_wait", ranks=3, late=True, sources=WITH_COLLECTIVES
    ),
    "launch bound": Kind(host_edits.launch_bound, "launch_bound", (1.05, 1.2)),
    "data loading": Kind(host_edits.data_loading, "data_loading", ANY),
    "synchronization": Kind(host_edits.synchronization, "synchronization", (0.9, 1.1)),
    "host code": Kind(host_edits.host_code, "host_code", IDLE),
}


@dataclass(frozen=True, eq=False)
class Planted:
    """Two jobs that differ by one edit, and the truth about it."""

    kind: str
    cause: str
    source: str
    op: str | None
    kernel: str | None
    step_ns: int
    change_ns: int
    base: list[Model]
    other: list[Model]


@cache
def recorded(path: Path) -> Model:
    return closed(cut(path))


def with_busy(model: Model, busy: float) -> Model:
    """A copy whose device is that busy, against how long the host takes by itself."""
    model = making.copied(model)
    if busy:
        idle = making.copied(model)
        making.scale(idle.works(), 0)
        total = sum(work.dur for work in model.works())
        making.scale(model.works(), busy * length([idle], steps=2) / total)
    return model


def plant(traces: Path, kind: str, seed: int | str) -> Planted:
    """Draw an edit of the kind, until there is one that changes the step by 3 % or more."""
    draw, what = random.Random(f"{kind} {seed}"), KINDS[kind]  # noqa: S311 - no secret
    for _ in range(200):
        source, busy = draw.choice(what.sources), draw.choice(what.busy)
        base = with_busy(recorded(traces / source), busy)
        before = length([base])
        size = int(draw.uniform(0.05, 0.30) * before)
        drawn = Drawn(base, making.copied(base), draw, size)
        where = what.edit(drawn)
        if where is None:
            continue
        others = [drawn.base if what.late else drawn.other] * (what.ranks - 1)
        planted = [*map(making.copied, others), drawn.other]
        bases = [making.copied(drawn.base) for _ in planted]
        step, change = edits.true_change(bases, planted)
        if LEAST * step <= abs(change) <= 0.6 * step:
            return Planted(kind, what.cause, source, *where, step, change, bases, planted)
    raise AssertionError(f"no place for an edit of the kind {kind!r} in 200 draws")
