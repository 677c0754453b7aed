"""The kernels that provenance is given of, as a table of numbers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import encoded
from profframe.facts.compiled_kernels.kernel_words import is_generated, word_of
from profframe.intervals import Ints, Mask
from profframe.readers.provenance import CompiledGraph, CompiledKernel


@dataclass(frozen=True, slots=True)
class KernelTable:
    """Compiled graphs, each once, and a number of each property of their kernels.

    Attributes
    ----------
    graphs : tuple of CompiledGraph
        The graphs.
    words : dict
        Number of each word of a kernel.
    graph, word, handle : Ints
        Of each kernel; -1 for no handle.
    generated : Mask
        Whether the kernel is a generated one.
    """

    graphs: tuple[CompiledGraph, ...]
    words: dict[str, int]
    graph: Ints
    word: Ints
    handle: Ints
    generated: Mask

    @property
    def kernels(self) -> list[tuple[CompiledGraph, CompiledKernel]]:
        """The kernels with their graphs."""
        return [(graph, kernel) for graph in self.graphs for kernel in graph.kernels]

    @property
    def generated_words(self) -> Ints:
        """Numbers of the words of generated kernels."""
        return np.unique(self.word[self.generated])

    def by_key(self) -> tuple[dict[str, int], set[str]]:
        """The graph of each key, and the keys of which the files say different things."""
        numbers: dict[str, list[int]] = {}
        for number, graph in enumerate(self.graphs):
            if graph.key is not None:
                numbers.setdefault(graph.key, []).append(number)
        one = {key: places[0] for key, places in numbers.items() if len(places) == 1}
        return one, numbers.keys() - one.keys()

    def columns(self) -> dict[str, pa.Array]:
        """Columns of ``compiled_kernels``."""
        kernels = self.kernels
        arrow = schema.COMPILED_KERNELS.arrow
        texts = {
            "graph": [graph.name for graph, _ in kernels],
            "graph_key": [graph.key for graph, _ in kernels],
            "name": [kernel.name for _, kernel in kernels],
            "source": [graph.source for graph, _ in kernels],
        }
        lists = {
            "post_grad_nodes": [kernel.post_grad for _, kernel in kernels],
            "pre_grad_nodes": [kernel.pre_grad for _, kernel in kernels],
            "stacks": [kernel.stacks for _, kernel in kernels],
        }
        columns = {name: pa.array(values, pa.string()) for name, values in texts.items()}
        columns |= {
            name: pa.array([_as_json(value) for value in values], pa.string())
            for name, values in lists.items()
        }
        columns["compiled_kernel_id"] = pa.array(range(len(kernels)), pa.int64())
        columns["handle"] = pa.array([kernel.handle for _, kernel in kernels], pa.int64())
        return {name: values.cast(arrow.field(name).type) for name, values in columns.items()}

    def stacks(self) -> pa.DictionaryArray:
        """The first stack of each kernel that has one."""
        texts: dict[str, int] = {}
        codes = np.full(len(self.graph), -1, np.int64)
        for place, (_, kernel) in enumerate(self.kernels):
            if kernel.stacks:
                codes[place] = texts.setdefault(kernel.stacks[0], len(texts))
        return encoded(codes, [*texts])


def kernels_in(graphs: Sequence[CompiledGraph]) -> KernelTable:
    """Graphs with numbers; what several files say alike of one graph counts once."""
    chosen = _each_once(graphs)
    words: dict[str, int] = {}
    rows = [
        (
            number,
            words.setdefault(word_of(kernel.name), len(words)),
            -1 if kernel.handle is None else kernel.handle,
            is_generated(kernel.name),
        )
        for number, graph in enumerate(chosen)
        for kernel in graph.kernels
    ]
    graph, word, handle, generated = np.array(rows, np.int64).reshape(-1, 4).T
    return KernelTable(tuple(chosen), words, graph, word, handle, generated.astype(np.bool_))


def _each_once(graphs: Sequence[CompiledGraph]) -> list[CompiledGraph]:
    """The graphs without repeated ones.

    Of one key those with code count, if there are any. A graph without a key is left out if one
    with a key has the same kernels: it is the folder of a graph that a log is given of, too.
    """
    with_code = {graph.key for graph in graphs if graph.key is not None and graph.has_code}
    chosen: dict[tuple[object, ...], CompiledGraph] = {}
    keyed: set[tuple[object, ...]] = set()
    for graph in graphs:
        if graph.key is None or (graph.key in with_code and not graph.has_code):
            continue
        chosen.setdefault((graph.key, graph.kernels), graph)
        keyed.add(_content(graph))
    for graph in graphs:
        if graph.key is None and _content(graph) not in keyed:
            chosen.setdefault((None, graph.name, graph.kernels), graph)
    return [*chosen.values()]


def _content(graph: CompiledGraph) -> tuple[object, ...]:
    """Kernels without what only some files say of them."""
    return (*(replace(kernel, stacks=None, pre_grad=None) for kernel in graph.kernels),)


def _as_json(values: tuple[str, ...] | None) -> str | None:
    return None if values is None else json.dumps(values, separators=(",", ":"), ensure_ascii=False)


def fingerprints(count: int) -> Ints:
    """A number for each of several words, whose sums tell sets of words apart."""
    digests = (hashlib.blake2b(str(n).encode(), digest_size=8).digest() for n in range(count))
    return np.frombuffer(b"".join(digests), np.int64)
