"""Compiled graphs from what torch wrote about them, in the order in which it was written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from profframe.readers.provenance import CompiledGraph, CompiledKernel
from profframe.readers.provenance.artifacts import Artifact, Key

_FIELDS = ("calls", "post_grad", "post_to_pre", "pre_grad", "stacks", "key")


def graphs_of(
    artifacts: Iterable[Artifact], name: str, rank: int | None, source: str
) -> list[CompiledGraph]:
    """The graphs of one compilation, forward and backward.

    torch writes of each graph its code, its mappings, its stacks and its key, in this order. What
    comes again begins another graph; so do stacks that lack a kernel of the mappings.
    """
    graphs: list[CompiledGraph] = []
    current = Artifact()
    for artifact in artifacts:
        if not _fits(current, artifact):
            graphs += _finished(current, name, rank, source)
            current = Artifact()
        parts = {field: getattr(artifact, field) for field in (*_FIELDS, "phase")}
        current = replace(current, **{field: v for field, v in parts.items() if v is not None})
    return _named_apart(graphs + _finished(current, name, rank, source))


def _named_apart(graphs: list[CompiledGraph]) -> list[CompiledGraph]:
    """Graphs whose names differ: nodes of several graphs have the same names."""
    counts: dict[str, int] = {}
    apart = []
    for graph in graphs:
        count = counts[graph.name] = counts.get(graph.name, 0) + 1
        apart.append(replace(graph, name=f"{graph.name} ({count})") if count > 1 else graph)
    return apart


def _fits(current: Artifact, later: Artifact) -> bool:
    """Whether a part is about the graph of the parts before it."""
    ranks = [
        [place for place, field in enumerate(_FIELDS) if getattr(part, field) is not None]
        for part in (current, later)
    ]
    if ranks[0] and ranks[1] and min(ranks[1]) <= max(ranks[0]):
        return False
    is_alike = current.post_grad is None or later.stacks is None
    return is_alike or (current.post_grad or {}).keys() <= (later.stacks or {}).keys()


def _finished(part: Artifact, name: str, rank: int | None, source: str) -> list[CompiledGraph]:
    post, stacks, pre = part.post_grad or {}, part.stacks or {}, part.pre_grad or {}
    keys: Iterable[Key] = dict.fromkeys(part.calls or ())
    has_code = bool(part.calls)
    if not has_code:
        keys = sorted({**post, **stacks, **pre}, key=_by_handle)
    kernels = tuple(
        CompiledKernel(
            *key,
            post.get(key),
            pre[key] if key in pre else _before(post.get(key), part),
            stacks.get(key) or None,
        )
        for key in keys
    )
    if not kernels:
        return []
    if part.phase is not None and part.phase not in name:
        name = f"{name} {part.phase}"
    return [CompiledGraph(name, part.key or None, rank, source, kernels, has_code)]


def _by_handle(key: Key) -> tuple[int, str]:
    return (-1 if key[1] is None else key[1], key[0])


def _before(nodes: tuple[str, ...] | None, part: Artifact) -> tuple[str, ...] | None:
    """The nodes before autograd of some nodes."""
    if nodes is None or part.post_to_pre is None:
        return None
    before = part.post_to_pre
    return (*dict.fromkeys(name for node in nodes for name in before.get(node, ())),)
