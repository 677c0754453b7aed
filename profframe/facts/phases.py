"""The phase of inference of each slice: what a server of language models did in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa

from profframe import schema
from profframe.facts.arrays import (
    encoded,
    ids,
    is_kind,
    nulls,
    numbers,
    of_launches,
    present,
    stream_codes,
    words,
)
from profframe.facts.fact import Output, Tables, any_of, columns, fact, of_events
from profframe.intervals import Ints, nearest, nest, rows_by_value, stab

PHASES: Final = (
    "prefill", "decode", "mixed", "draft", "verify", "diffusion", "idle", "capture", "dummy",
)  # fmt: skip
"""Every phase; what is not known has none."""
_UNKNOWN: Final = len(PHASES)
_CODES: Final[Mapping[str, int]] = MappingProxyType({name: i for i, name in enumerate(PHASES)})

FORWARD: Final = 0
"""A mark around one forward pass or step, in which phase it is."""
WHOLE: Final = 1
"""A mark in which all is of its phase, whatever marks are inside."""
GUESS: Final = 2
"""A mark that counts only where a trace has no marks around forward passes."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A phase marker: its phase (None if unknown) and how much it outranks others."""

    phase: str | None
    worth: int


_SGLANG: Final[Mapping[str, Mark]] = MappingProxyType(
    {
        "EXTEND": Mark("prefill", FORWARD),
        "PREFILL": Mark("prefill", FORWARD),
        "SPLIT_PREFILL": Mark("prefill", FORWARD),
        "DECODE": Mark("decode", FORWARD),
        "MIXED": Mark("mixed", FORWARD),
        "IDLE": Mark("idle", FORWARD),
        "TARGET_VERIFY": Mark("verify", FORWARD),
        "DRAFT_EXTEND": Mark("draft", WHOLE),
        "DRAFT_EXTEND_V2": Mark("draft", WHOLE),
    }
)
"""Modes of a forward pass in SGLang; of others, as DLLM_EXTEND and PREBUILT, none of the phases."""


def _requests(context: str, generation: str, tokens: str | None) -> Mark:
    """A step of vLLM: requests in their prompts, requests that generate, and their tokens."""
    before, after = int(context), int(generation)
    if before:
        return Mark("mixed" if after else "prefill", FORWARD)
    if not after:
        return Mark("idle", FORWARD)
    # More tokens than requests: tokens that a draft proposed are verified.
    is_verify = tokens is not None and int(tokens) > after
    return Mark("verify" if is_verify else "decode", FORWARD)


def _of_vllm(match: re.Match[str]) -> Mark:
    return _requests(match["context"], match["generation"], match["tokens"])


def _of_old_vllm(match: re.Match[str]) -> Mark:
    # A cached request may be in a later part of its prompt.
    if int(match["cached"]):
        return Mark(None, FORWARD)
    return Mark("prefill" if int(match["new"]) else "idle", FORWARD)


def _of_sglang(match: re.Match[str]) -> Mark:
    return _SGLANG.get(match["mode"].upper(), Mark(None, FORWARD))


def _of_atom(match: re.Match[str]) -> Mark:
    if match["dummy"]:
        return Mark("dummy", WHOLE)
    if match["mode"] == "prefill":
        return Mark("prefill", FORWARD)
    numbers_of = dict(re.findall(r"\b(p|spec)=(\d+)", match["rest"]))
    if int(numbers_of.get("p", 0)):
        return Mark("mixed", FORWARD)
    return Mark("verify" if int(numbers_of.get("spec", 0)) else "decode", FORWARD)


def _of_word(match: re.Match[str]) -> Mark:
    word = match["word"].lower()
    phase = "draft" if word.startswith("draft") else word.removeprefix("eagle_")
    return Mark(phase, WHOLE if phase == "draft" else FORWARD)


_N: Final = r"\d{1,18}"
_LENGTHS: Final = r"(?:\((?:sq)?{}(?:(?:[a-z]+|_)\d+)*\))?"
_ANNOTATIONS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Mark]], ...]] = (
    (
        re.compile(
            rf"execute_(?:{_N}_)?context_(?P<context>{_N})" + _LENGTHS.format(_N)
            + rf"_generation_(?P<generation>{_N})" + _LENGTHS.format(rf"(?P<tokens>{_N})")
        ),
        _of_vllm,
    ),
    (re.compile(rf"execute_new_(?P<new>{_N})_cached_(?P<cached>{_N})"), _of_old_vllm),
    (re.compile(r"step\[(?P<mode>\w+)(?: [^\]]*)?\]"), _of_sglang),
    (re.compile(rf"(?:ForwardMode\.)?(?P<mode>{'|'.join(_SGLANG)})"), _of_sglang),
    (
        re.compile(
            rf"(?P<dummy>dummy_)?(?:eager_)?(?P<mode>prefill|decode)\[bs={_N}(?P<rest>.*)\]"
        ),
        _of_atom,
    ),
    (re.compile(rf"(?:draft\[{_N}/{_N} |dspark\[)bs=.*\]"), lambda _: Mark("draft", WHOLE)),
    (re.compile(rf"execute_diffusion_{_N}_{_N}x{_N}"), lambda _: Mark("diffusion", FORWARD)),
    (
        re.compile(
            rf"\[Executor\] _forward_step {_N}: (?P<context>{_N}) ctx reqs, (?:{_N} ctx tokens, )?"
            rf"(?P<generation>{_N}) gen reqs(?P<tokens>)?.*"
        ),
        lambda match: _requests(match["context"], match["generation"], None),
    ),
    (
        re.compile(
            r"(?:(?:v2_)?gpu_model_runner: )?"
            r"(?P<word>(?i:prefill|decode|verify|eagle_verify|draft|draft_extend))"
        ),
        _of_word,
    ),
    (re.compile(rf"capture_(?:{_N}_\w+|graph_bs_{_N})"), lambda _: Mark("capture", WHOLE)),
    (
        re.compile(r"(?:(?:v2_)?gpu_model_runner: forward|Forward)"),
        lambda _: Mark(None, GUESS),
    ),
)  # fmt: skip
"""Names of annotations of vLLM, SGLang, ATOM, TensorRT-LLM and xDiT, in their order."""

_SGLANG_RUNNER: Final = r"sglang/srt/model_executor/"
_SGLANG_DRAFTS: Final = r"sglang/srt/speculative/\w*worker\w*"
_VLLM_WORKER: Final = r"vllm/(?:v1/)?worker/(?:\w+/)?"
_FRAMES: Final = tuple(
    (re.compile(rf"(?:.*/)?{file}\.py\(\d+\): {function}"), Mark(phase, worth))
    for file, function, phase, worth in (
        (rf"{_SGLANG_RUNNER}model_runner", r"forward_(?:extend|split_prefill)", "prefill", GUESS),
        (rf"{_SGLANG_RUNNER}model_runner", "forward_decode", "decode", GUESS),
        (rf"{_SGLANG_RUNNER}model_runner", "forward_idle", "idle", GUESS),
        (rf"{_SGLANG_RUNNER}(?:\w+/)?(?:decode_)?cuda_graph_runner", "replay", "decode", GUESS),
        (rf"{_SGLANG_RUNNER}.*graph_runner", "capture_one_batch_size", "capture", WHOLE),
        (_SGLANG_DRAFTS, r"(?:forward_)?draft(?:_extend\w*|_forward)?", "draft", WHOLE),
        (_SGLANG_DRAFTS, "verify", "verify", WHOLE),
        (rf"{_VLLM_WORKER}\w+", r"(?:_dummy_run|execute_dummy_batch|profile_run)", "dummy", WHOLE),
        (rf"{_VLLM_WORKER}\w+", "propose_draft_token_ids", "draft", WHOLE),
        (rf"{_VLLM_WORKER}\w*model_runner", "execute_model", None, GUESS),
    )
)
"""Python frames of vLLM and SGLang."""


def mark_of(name: str, *, is_frame: bool) -> Mark | None:
    """Parse the name of an annotation or of a Python frame as a phase marker.

    Examples
    --------
    >>> mark_of("step[DECODE bs=32]", is_frame=False)
    Mark(phase='decode', worth=0)
    >>> mark_of("vllm/v1/worker/gpu_model_runner.py(4712): _dummy_run", is_frame=True).phase
    'dummy'
    >>> mark_of("aten::mm", is_frame=False)
    """
    if is_frame:
        # A trace has many names of frames; two substring tests are much cheaper than ten patterns.
        if "sglang" not in name and "vllm" not in name:
            return None
        path = name.replace("\\", "/")
        return next((mark for pattern, mark in _FRAMES if pattern.fullmatch(path)), None)
    matches = ((pattern.fullmatch(name), read) for pattern, read in _ANNOTATIONS)
    return next((read(match) for match, read in matches if match), None)


@fact(
    inputs=columns(
        events="kind name start_ns dur_ns device depth parent_id preorder launch_id op_id stream"
    ),
    outputs=columns(events="inference_phase phase_id"),
    needs=any_of(kinds=("annotation", "device_annotation", "python")),
)
def phases(tables: Tables) -> Output:
    """Add ``inference_phase`` and ``phase_id``.

    A mark opens an occurrence of its phase; inside another one of the same phase it is a part of
    that. Everything inside drafts, captures and dummy runs belongs to them. A slice belongs to the
    occurrence that it is in, a device slice to that of its launch. Python frames that mark a
    forward pass count only if no annotation does. If the host has no marks, for example because
    only devices were recorded, those of the devices count: what starts in them on their stream.
    """
    events = tables["events"]
    phase, worth = _marks(events)
    if not (phase >= 0).any():
        names = ("inference_phase", "phase_id")
        return of_events(**{name: nulls(events, name) for name in names})
    count = events.num_rows
    owner = np.full(count, -1, np.int64)
    is_host = present(events, "preorder") & (phase >= 0)
    # Marks on devices mirror those of the host, from their first to their last kernel: they are
    # needed only without these.
    if is_host.any():
        owner = _on_host(events, np.where(is_host, phase, -1), worth)
    else:
        owner = _on_devices(events, phase, worth)
    of_row = np.append(phase, -1)[owner]
    of_row[of_row == _UNKNOWN] = -1
    return of_events(inference_phase=encoded(of_row, PHASES), phase_id=ids(owner))


def _marks(events: pa.Table) -> tuple[Ints, Ints]:
    """Phase and worth of each row by its name; -1 for no mark."""
    codes, texts = words(events, "name")
    phase = np.full(events.num_rows, -1, np.int64)
    worth = np.zeros(events.num_rows, np.int64)
    for kinds, is_frame in ((("annotation", "device_annotation"), False), (("python",), True)):
        rows = np.flatnonzero(is_kind(events, kinds) & present(events, "start_ns", "dur_ns"))
        used = np.unique(codes[rows])
        marks = {c: mark_of(texts[c], is_frame=is_frame) for c in used[used >= 0].tolist()}
        table = np.full((2, len(texts) + 1), -1, np.int64)
        for code, mark in marks.items():
            if mark is not None:
                table[:, code] = _CODES.get(mark.phase or "", _UNKNOWN), mark.worth
        phase[rows], worth[rows] = table[:, codes[rows]]
    return phase, worth


def _on_host(events: pa.Table, phase: Ints, worth: Ints) -> Ints:
    """The mark that opens the occurrence which each row is in, or -1."""
    if ((phase >= 0) & (worth == FORWARD)).any():
        phase = np.where(worth == GUESS, -1, phase)
    is_mark = phase >= 0
    parent = np.where(present(events, "preorder"), numbers(events, "parent_id", missing=-1), -1)
    around = nearest(parent, is_mark)
    marks = np.flatnonzero(is_mark)
    outer = np.append(around, -1)[parent[marks]]
    owner = _openings(marks, outer, numbers(events, "depth")[marks], phase, worth)
    return of_launches(events, np.append(owner, -1)[around])


def _openings(marks: Ints, outer: Ints, depth: Ints, phase: Ints, worth: Ints) -> Ints:
    """For each mark the one that opens its occurrence; one depth at a time, from the outside."""
    owner = np.full(phase.size, -1, np.int64)
    for level in rows_by_value(depth):
        inner = marks[level]
        around = np.append(owner, -1)[outer[level]]
        # A step and the forward pass in it may both be marked, with one phase: that is one
        # occurrence.
        joins = (around >= 0) & ((phase[around] == phase[inner]) | (worth[around] == WHOLE))
        owner[inner] = np.where(joins, around, inner)
    return owner


def _on_devices(events: pa.Table, phase: Ints, worth: Ints) -> Ints:
    """The opening mark of each row in a trace with marks on devices only."""
    marks = np.flatnonzero(phase >= 0)
    start = numbers(events, "start_ns")
    # Ends are excluded: the next mark may begin there.
    last = start + np.maximum(numbers(events, "dur_ns"), 1) - 1
    line = stream_codes(events)
    forest = nest(line[marks], start[marks], last[marks] + 1)
    outer = np.append(marks, -1)[forest.parent]
    owner = _openings(marks, outer, forest.depth, phase, worth)
    codes, _ = words(events, "name")
    openings = np.unique(owner[marks])
    owner[openings] = _over_streams(openings, codes, start, last)
    owner[marks] = owner[owner[marks]]

    is_work = is_kind(events, (*schema.DEVICE_KINDS, "sync", "graph_node")) & present(
        events, "start_ns"
    )
    rows = np.flatnonzero(is_work)
    inside = stab(line[marks], start[marks], last[marks], line[rows], start[rows])
    owner[rows] = owner[np.append(marks, -1)[inside]]
    owner[rows[inside < 0]] = -1
    return owner


def _over_streams(marks: Ints, codes: Ints, start: Ints, last: Ints) -> Ints:
    """The first of overlapping marks with one name: each stream shows what runs on several."""
    times, places = np.unique(np.stack((start[marks], last[marks])), return_inverse=True)
    begin, end = places.reshape(2, -1) + codes[marks] * times.size
    order = np.lexsort((marks, begin))
    reach = np.maximum.accumulate(end[order])
    is_new = np.append(True, begin[order][1:] > reach[:-1])
    first = np.empty_like(marks)
    first[order] = marks[order][np.maximum.accumulate(np.where(is_new, np.arange(marks.size), 0))]
    return first
