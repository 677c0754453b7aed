"""Compiled graphs from torch's structured log, which ``TORCH_TRACE`` names a folder for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from profframe.readers.provenance import CompiledGraph
from profframe.readers.provenance.artifacts import (
    Artifact,
    NotProvenanceError,
    Odd,
    of_cache,
    of_code,
    of_mappings,
    of_stacks,
    parsed,
)
from profframe.readers.provenance.sequence import graphs_of

_BEGINS: Final = re.compile(rb"[VDIWEC]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ [^\n]*?\] ?(?=\{)")
_PAYLOAD: Final = b"\t"
_CODE: Final = "inductor_output_code"
_ARTIFACTS: Final = {
    "inductor_provenance_tracking_node_mappings": of_mappings,
    "inductor_provenance_tracking_kernel_stack_traces": of_stacks,
    "fx_graph_cache_miss": of_cache,
    "fx_graph_cache_hit": of_cache,
    "fx_graph_cache_bypass": of_cache,
}
_WORDS: Final = tuple(f'"{word}"'.encode() for word in (_CODE, *_ARTIFACTS))
_LARGEST: Final = (1 << 31) - 1
Compilation = tuple[str, int | None]
"""Name of a compilation, and the rank of its process."""


def knows(head: bytes) -> bool:
    """Whether a file begins like such a log."""
    return _BEGINS.match(head) is not None


def graphs_of_log(
    blocks: Iterable[bytes], source: str, rank: int | None, odd: Odd
) -> list[CompiledGraph]:
    """The graphs of each compilation in a log; records that cannot be read are counted as odd."""
    parts: dict[Compilation, list[Artifact]] = {}
    for number, header, payload in _records(blocks):
        try:
            compilation, artifact = _artifact(header, payload)
        except NotProvenanceError as error:
            odd.add(f"line {number}: {error}")
            continue
        if artifact.odd.first:
            odd.add(f"line {number}: {artifact.odd.first}")
        parts.setdefault(compilation, []).append(artifact)
    return [
        graph
        for (name, own_rank), artifacts in parts.items()
        for graph in graphs_of(artifacts, name, rank if own_rank is None else own_rank, source)
    ]


def _records(blocks: Iterable[bytes]) -> Iterator[tuple[int, bytes, bytes]]:
    """Line, header and payload of the records that are about compiled graphs."""
    header, first, payload = b"", 0, list[bytes]()
    for number, line in enumerate(_lines(blocks), 1):
        if line.startswith(_PAYLOAD):
            if header:
                payload.append(line[1:])
            continue
        if header:
            yield first, header, b"\n".join(payload)
        begin = _BEGINS.match(line) if any(word in line for word in _WORDS) else None
        header, first, payload = line[begin.end() :] if begin else b"", number, []
    if header:
        yield first, header, b"\n".join(payload)


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    rest: list[bytes] = []
    for block in blocks:
        first, *lines = block.split(b"\n")
        rest.append(first)
        if lines:
            yield b"".join(rest)
            yield from lines[:-1]
            rest = [lines[-1]]
    yield b"".join(rest)


def _artifact(header: bytes, payload: bytes) -> tuple[Compilation, Artifact]:
    envelope = parsed(header.decode(errors="replace"))
    if not isinstance(envelope, dict):
        raise NotProvenanceError("the record is not an object")
    text = payload.decode(errors="replace")
    compilation = _compilation(envelope)
    if _CODE in envelope:
        return compilation, of_code(text)
    described = envelope.get("artifact")
    name = described.get("name") if isinstance(described, dict) else None
    if not isinstance(name, str) or name not in _ARTIFACTS:
        return compilation, Artifact()
    return compilation, _ARTIFACTS[name](parsed(text))


def _compilation(envelope: dict[str, Any]) -> Compilation:
    """Its name as torch writes it elsewhere, and the rank of its process."""
    fields = ("compiled_autograd_id", "frame_id", "frame_compile_id", "attempt", "rank")
    autograd, frame, compile_id, attempt, rank = (
        value if type(value := envelope.get(name)) is int else None for name in fields
    )
    rank = rank if rank is not None and 0 <= rank <= _LARGEST else None
    return compilation_name(autograd, frame, compile_id, attempt), rank


def compilation_name(
    autograd: int | None, frame: int | None, compile_id: int | None, attempt: int | None
) -> str:
    """Name of a compilation.

    Examples
    --------
    >>> compilation_name(None, 0, 1, 2), compilation_name(3, None, None, None)
    ('0/1_2', '!3')
    """
    name = f"{frame}/{compile_id}" if frame is not None else ""
    if autograd is not None:
        name = f"!{autograd}/{name}".rstrip("/")
    return (name or "-") + (f"_{attempt}" if attempt else "")
