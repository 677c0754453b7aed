"""Python stacks of graph kernels, as torch saves them.

No released torch has ``torch.cuda.graph_annotations.dump_kernel_py_stacks``: this writes the form
that torch's main branch documents.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.graphs import chrome, replay_rows


def node(graph: int, number: int) -> int:
    """The number of a node, with its graph."""
    return (graph << 32) | number


def stack(*frames: tuple[str, int, str]) -> str:
    """A stack of (file, line, function), the innermost first."""
    return "\n".join(f"{file}:{line}:{function}" for file, line, function in frames)


def save(path: Path, stacks: Mapping[int, Any]) -> Path:
    """Save stacks by node."""
    with gzip.open(path, "wt", encoding="utf-8") as file:
        json.dump({str(key): value for key, value in stacks.items()}, file)
    return path


def work(
    kernel: str, graph: int, number: int, /, *, is_whole: bool = False, **annotation: Any
) -> tuple[str, dict[str, Any]]:
    """A kernel in a graph, as Kineto (``is_whole``) and Cuspy write it, with its annotation."""
    args = json.dumps({"graph id": graph, **annotation})
    return kernel, {"graph_node_id": node(graph, number) if is_whole else number, "args": args}


def write_replays(path: Path, *launches: Sequence[tuple[str, Mapping[str, Any]]]) -> Path:
    """A trace of launches of graphs, 1 us apart, whose work takes 1, 2, 3, 4, 5, 1, ... ns."""
    path.write_text(chrome([*rows_of(launches)]), encoding="utf-8")
    return path


def rows_of(
    launches: Sequence[Sequence[tuple[str, Mapping[str, Any]]]],
) -> Iterator[dict[str, Any]]:
    """Rows of such launches."""
    for place, kernels in enumerate(launches):
        yield from replay_rows(list(kernels), 100_000 + 1000 * place, 501 + place)
