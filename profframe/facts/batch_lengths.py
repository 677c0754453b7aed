"""Lengths of the sequences that each slice worked on, from the names of the steps of servers.

Kernels of attention take lengths from tensors, whose values no profiler records. Servers write the
sums of them into the annotation of a step, if they are asked to: vLLM with
``detailed_trace_annotation`` (pull request 37524), SGLang with ``roofline_annotations`` (24911) or
in vLLM's form, ATOM with ``ATOM_ENABLE_DETAILED_ANNOTATION`` (477). ``sq`` are queries, ``sk``
keys, ``sqsq`` the squares of queries, and ``sqsk`` queries times keys.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa

from profframe.facts.arrays import is_kind, numbers, of_launches, present, words
from profframe.facts.formulas.sequence_lengths import NO_SEQUENCES, BatchLengths, SequenceSums
from profframe.intervals import Ints, nearest

_N: Final = r"\d{1,18}"
_SUMS: Final = rf"(\d{{1,9}})\(sq({_N})sk({_N})sqsq({_N})sqsk({_N})\)"
_VLLM: Final = re.compile(rf"execute_{_N}_context_{_SUMS}_generation_{_SUMS}", re.ASCII)
_SGLANG: Final = re.compile(r"step\[(?P<mode>\w+) (?P<values>[^\]]*)\]")
_ATOM: Final = re.compile(r"(?P<mode>prefill|decode|eager_decode)\[(?P<values>.*)\]", re.DOTALL)
_VALUE: Final = re.compile(rf"(?:^| )(\w+)=({_N})(?=[ /]|$)", re.ASCII)


def lengths_of_step(name: str) -> BatchLengths | None:
    """The lengths in the name of an annotation; None if it has none, or impossible ones.

    Examples
    --------
    >>> lengths_of_step("decode[bs=2 tok=2 d=2 sqsq=2 sqsk=90 sk=90]").generation
    SequenceSums(sequences=2, queries=2, keys=90, squares=2, products=90)
    >>> lengths_of_step("decode[bs=2 tok=2 d=2]")
    """
    lengths = _of_vllm(name) or _of_sglang(name) or _of_atom(name)
    if lengths is None or not any(sums.queries for sums in lengths):
        return None
    return lengths if all(sums.is_possible for sums in lengths) else None


def _of_vllm(name: str) -> BatchLengths | None:
    match = _VLLM.fullmatch(name)
    if match is None:
        return None
    values = [int(group) for group in match.groups()]
    return BatchLengths(SequenceSums(*values[:5]), SequenceSums(*values[5:]))


def _of_sglang(name: str) -> BatchLengths | None:
    match = _SGLANG.fullmatch(name)
    if match is None:
        return None
    values = _values(match["values"])
    requests = {"c": values.get("c"), "g": values.get("g")}
    if match["mode"] != "MIXED":
        requests = dict.fromkeys("cg", values.get("bs"))
    parts = [_part(values, f"{part}_", f"{part}_sq", requests[part]) for part in "cg"]
    return BatchLengths(*(part or NO_SEQUENCES for part in parts)) if any(parts) else None


def _of_atom(name: str) -> BatchLengths | None:
    """One sum for the whole batch, even if some of it is in its prompts."""
    match = _ATOM.fullmatch(name)
    if match is None:
        return None
    values = _values(match["values"])
    part = _part(values, "", "tok", values.get("bs"))
    if part is None:
        return None
    in_prompts = match["mode"] == "prefill" or values.get("p")
    return BatchLengths(part, NO_SEQUENCES) if in_prompts else BatchLengths(NO_SEQUENCES, part)


def _values(text: str) -> dict[str, int]:
    return {key: int(value) for key, value in _VALUE.findall(text)}


def _part(
    values: dict[str, int], prefix: str, queries: str, sequences: int | None
) -> SequenceSums | None:
    keys = (queries, *(f"{prefix}{key}" for key in ("sk", "sqsq", "sqsk")))
    sums = [values.get(key) for key in keys]
    if sequences is None or not all(sums):
        return None
    return SequenceSums(sequences, *(value or 0 for value in sums))


def batch_lengths(events: pa.Table) -> tuple[Ints, list[BatchLengths]]:
    """Number of the lengths of each row, -1 without any, and those lengths.

    A row has those of the innermost step around it; a device slice those of its launch. Where a
    phase has a step with lengths somewhere in it, all of the phase has them, if no other step in it
    differs.
    """
    none = np.full(events.num_rows, -1, np.int64)
    codes, texts = words(events, "name")
    rows = np.flatnonzero(is_kind(events, ("annotation", "device_annotation")))
    used = np.unique(codes[rows])
    by_code = {code: lengths_of_step(texts[code]) for code in used[used >= 0].tolist()}
    distinct = list(dict.fromkeys(lengths for lengths in by_code.values() if lengths))
    if not distinct:
        return none, []
    place = {lengths: i for i, lengths in enumerate(distinct)}
    table = np.full(len(texts) + 1, -1, np.int64)
    for code, lengths in by_code.items():
        table[code] = -1 if lengths is None else place[lengths]
    of_mark = none.copy()
    of_mark[rows] = table[codes[rows]]
    is_host = present(events, "preorder")
    parent = np.where(is_host, numbers(events, "parent_id", missing=-1), -1)
    number = np.append(of_mark, -1)[nearest(parent, is_host & (of_mark >= 0))]
    number = of_launches(events, number)
    return np.where(number >= 0, number, _of_phases(events, of_mark)), distinct


def _of_phases(events: pa.Table, of_mark: Ints) -> Ints:
    """The lengths of the phase that each row is in, if only one step in it has any."""
    phase = numbers(events, "phase_id", missing=-1)
    marks = np.flatnonzero((of_mark >= 0) & (phase >= 0))
    least = np.full(events.num_rows + 1, np.iinfo(np.int64).max)
    most = np.full(events.num_rows + 1, -1, np.int64)
    np.minimum.at(least, phase[marks], of_mark[marks])
    np.maximum.at(most, phase[marks], of_mark[marks])
    return np.where(least == most, most, -1)[phase]
