"""Planted edits of the host: compiled code, loading, waiting, collectives and what others do.

Each is as those of `edits`: it changes copies of a step, and says what it is about.
"""

from __future__ import annotations

import re
from typing import Final

from tests.planted import making
from tests.planted.edits import Drawn, Where
from tests.planted.recorded import CALLS, OPS, Model, Slice

LOOKUP: Final = "TorchDynamo Cache Lookup"
REGION: Final = re.compile(r"Torch-Compiled Region(: \d+/\d+)?")
COMPILED: Final = re.compile(r"## Call CompiledFxGraph|Torch-Compiled")
LOADING: Final = "enumerate(Data"
LOADER: Final = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def _compiled(model: Model, begin: float, end: float) -> tuple[Slice, Slice]:
    """A region of compiled code and its parent; where there is none, ops in a row become one."""
    for parent in model.root.walk():
        for child in parent.children:
            if REGION.fullmatch(child.name):
                return parent, child
    counts = {
        s: sum(any(c.works for c in child.walk()) for child in s.children)
        for s in model.root.walk()
        if s.thread == model.root.thread
    }
    parent = max(counts, key=lambda s: (counts[s], s is model.root))
    first, last = int(begin * len(parent.children)), int(end * len(parent.children))
    inside = parent.children[first:last]
    lead = inside[0].lead
    inside[0].lead = making.BETWEEN
    category, thread = making.op_category(model), model.root.thread
    region = making.new_slice("Torch-Compiled Region: 0/0", category, thread, 2_000, inside)
    lookup = making.new_slice(LOOKUP, category, thread, 8_000)
    lookup.lead = lead
    parent.children[first:last] = [lookup, region]
    return parent, region


def _regions(drawn: Drawn) -> tuple[Slice, Slice]:
    begin, end = drawn.draw.uniform(0, 0.3), drawn.draw.uniform(0.6, 0.95)
    _compiled(drawn.base, begin, end)
    return _compiled(drawn.other, begin, end)


def _deepest(region: Slice) -> Slice:
    """What in the region holds the most ops."""
    return max(region.walk(), key=lambda s: len(s.children) if s.thread == region.thread else 0)


def graph_break(drawn: Drawn) -> Where | None:
    """A compiled region is several, each with a look-up and host time of its own."""
    parent, region = _regions(drawn)
    inner = _deepest(region)
    count = drawn.draw.randint(2, 6)
    if len(inner.children) < 2 * count:
        return None
    category, thread = making.op_category(drawn.other), region.thread
    step = len(inner.children) // count
    parts = [inner.children[n * step : (n + 1) * step] for n in range(1, count - 1)]
    parts.append(inner.children[(count - 1) * step :])
    del inner.children[step:]
    more = []
    for number, (part, own) in enumerate(zip(parts, drawn.pieces(len(parts)), strict=True), 1):
        lookup = making.new_slice(LOOKUP, category, thread, own // 2)
        name = f"Torch-Compiled Region: {number}/0"
        call = making.new_slice("CompiledFunction", category, thread, own - own // 2, part)
        more += [lookup, making.new_slice(name, category, thread, 2_000, [call])]
    making.insert_after(parent, region, more)
    return None, None


def recompile(drawn: Drawn) -> Where | None:
    """The region is compiled anew in each step."""
    parent, region = _regions(drawn)
    thread, category = region.thread, making.annotation_category(drawn.other)
    inner: list[Slice] = []
    names = ("compile_fx_inner", "OutputGraph.call_user_compiler", "_compile.compile_inner")
    for name, own in zip(names, drawn.pieces(len(names)), strict=True):
        inner = [making.new_slice(f"{name} (dynamo_timed)", category, thread, own, inner)]
    place = parent.children.index(region)
    parent.children[place:place] = inner
    return None, None


def launch_bound(drawn: Drawn) -> Where | None:
    """All ops and calls take longer, so that the device waits; loading data does not."""
    own = [s for s in drawn.other.slices() if s.category in (*OPS, *CALLS) and not s.waits]
    loading = {
        id(s) for top in drawn.other.slices() if top.name.startswith(LOADING) for s in top.walk()
    }
    own = [s for s in own if s is not drawn.other.root and id(s) not in loading]
    busy = sum(work.dur for work in drawn.other.works())
    time = sum(s.tail + sum(child.lead for child in s.children) for s in own)
    rest = making.host_time(drawn.other.root) - time
    factor = (busy + drawn.size - rest) / max(1, time)
    if not 1.05 < factor < 12:
        return None
    for slice_ in own:
        slice_.tail = int(slice_.tail * factor)
        for child in slice_.children:
            child.lead = int(child.lead * factor)
    return None, None


def data_loading(drawn: Drawn) -> Where | None:
    """The next batch takes longer."""
    for model, more in ((drawn.base, 0), (drawn.other, drawn.size)):
        loader = next((s for s in model.slices() if s.name.startswith(LOADING)), None)
        if loader is None:
            category = making.annotation_category(model)
            loader = making.new_slice(LOADER, category, model.root.thread, 60_000)
            model.root.children.insert(0, loader)
        loader.tail += more
    return None, None


def synchronization(drawn: Drawn) -> Where | None:
    """The host asks the device for a number between ops, and waits until all is done."""
    model = drawn.other
    spots = [
        g for t, g in making.tops(making.kernels(model)).items() if t.thread == model.root.thread
    ]
    spots = spots or list(making.tops(making.kernels(model)).values())
    calls, prefix = model.runtime()
    copy = "Memcpy" if calls == "Runtime" else "gpu_memcpy"
    category = making.op_category(model)
    for group in drawn.draw.sample(spots, min(len(spots), drawn.draw.randint(1, 30))):
        thread, like = group[0].top.thread, group[0].work
        call = making.new_slice(f"{prefix}MemcpyAsync", calls, thread, 4_000)
        words = "Memcpy DtoH (Device -> Pageable)"
        call.works = [making.new_work(words, copy, like, 1_500, {"bytes": 4})]
        wait = making.new_slice(f"{prefix}StreamSynchronize", calls, thread, 2_000)
        wait.waits = like.stream
        inner = making.new_slice("aten::_local_scalar_dense", category, thread, 1_000, [call, wait])
        outer = making.new_slice("aten::item", category, thread, 1_000, [inner])
        making.insert_after(group[0].parent, group[0].top, [outer])
    return "aten::item", None


_FILE: Final = re.compile(r"[^<].*\.py\(\d+\): ")


def host_code(drawn: Drawn) -> Where | None:
    """The user's code takes longer: a function of Python, or the time between two ops."""
    root = drawn.other.root
    frames = [s for s in root.walk() if s.category == "python_function" and _FILE.match(s.name)]
    frames = [s for s in frames if not s.name.startswith(("torch/", "<built"))]
    if frames:
        frame = drawn.draw.choice(frames)
        frame.tail += drawn.size
        return frame.name, None
    spots = [
        child
        for s in root.walk()
        if s is root or (s.category == "user_annotation" and not COMPILED.match(s.name))
        for child in s.children[1:]
        if child.category in OPS and child.thread == root.thread
    ]
    if not spots:
        return None
    drawn.draw.choice(spots).lead += drawn.size
    return None, None


def slower_transfer(drawn: Drawn) -> Where | None:
    """Collectives of one name take longer, on all ranks."""
    works = [work for work in drawn.other.works() if work.meets]
    if not works:
        return None
    name = drawn.draw.choice(sorted({work.name for work in works}))
    same = [work for work in works if work.name == name]
    for work, more in zip(same, drawn.pieces(len(same)), strict=True):
        work.dur += more
    return None, name


def late_rank(drawn: Drawn) -> Where | None:
    """This rank comes late to its first collective; the others wait."""
    calls = [s for s in drawn.other.slices() if any(work.meets for work in s.works)]
    if not calls:
        return None
    first = drawn.other.root.children
    place = drawn.draw.choice([c for c in first if c.category in OPS] or first[:1])
    place.lead += drawn.size
    return None, None
