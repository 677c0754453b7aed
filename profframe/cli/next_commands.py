"""Suggested next commands for a trace, with paths quoted for a shell."""

from __future__ import annotations

import glob
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from profframe.cli.shell import folded
from profframe.loaders.options import FLAGS
from profframe.show.nccl_text import WITHOUT_STARTS
from profframe.show.terminal import INDENT
from profframe.show.trace_header import all_findings

if TYPE_CHECKING:
    import polars as pl

    from profframe.show.device_time import TimeParts
    from profframe.show.trace_header import TraceHeader

Verb: TypeAlias = tuple[tuple[str, ...], str]
"""The words of a command before the trace, and what it is for."""
_MUCH: Final = 0.1
"""Minimum share of the time that is worth a question of its own."""
_MOST_LINES: Final = 4
"""Maximum lines of a command; longer ones say TRACE instead of the paths."""
_OF_WORDS: Final = {
    "flight recorder": (("hang",), "which ranks did not arrive, and the stacks"),
    "collectives": (("answer", "stragglers"), "which ranks the others wait for"),
    "memory": (("answer", "memory_stacks"), "who holds the memory, by stack"),
    "execution trace": (("answer", "tensor_traffic"), "bytes that each op moves"),
}
_ALSO: Final[Mapping[str, tuple[Verb, ...]]] = {
    "memory": (
        (("answer", "memory_stacks", "-p", "at=change"), "what is never freed, such as a leak"),
    ),
}
_HOST_WAITS: Final = (("answer", "host_waits"), "which calls make the host wait for devices")
_WITHOUT_STARTS: Final = (
    ("answer", "collectives", "-p", "per=size"),
    "how fast they are, by group and size",
)
"""For records that do not say when kernels started, which `stragglers` needs."""
_OF_ALL_RANKS: Final = ("hang",)
"""It takes no part of a trace."""
_NEVER_FREED: Final = ("memory_owners", {"at": "end"}, "what is never freed, and of how many steps")
_BY_MODULE: Final = ("memory_owners", {"per": "module"}, "by module; also by line or step")
_AFTER: Final[Mapping[str, tuple[tuple[str, Mapping[str, str], str], ...]]] = {
    "memory_owners": (_BY_MODULE, _NEVER_FREED),
    "memory_peak": (
        ("memory_owners", {}, "what holds the memory at the peak"),
        _BY_MODULE,
        _NEVER_FREED,
    ),
    "memory_stacks": (
        ("memory_stacks", {"per": "frame"}, "by line of your code; also by module or annotation"),
        ("memory_stacks", {"at": "change"}, "what is never freed: at the end, but not before"),
    ),
}
"""Answers that follow others, with their parameters and what they are for."""
_KEPT: Final = ("per", "at")
"""Parameters that the next question keeps, if it is one of the same answer."""


def next_commands(
    opening: TraceHeader,
    sources: Sequence[str],
    facts: Mapping[str, Any],
    part: Sequence[str],
    width: int | None,
) -> Iterator[tuple[str, str]]:
    """Commands to continue with, the best first, with what each is for.

    Parameters
    ----------
    opening
        What the trace has.
    sources
        Its paths, as the user gave them.
    facts
        Options that change facts; they are added to the commands.
    part
        Options that select a part of the trace, to add likewise.
    width
        Columns of a line; None for any.
    """
    verbs = _verbs(opening, 1 if part else len(sources))
    yield from commands(verbs, sources, facts, part, width)


def commands(
    verbs: Iterable[Verb],
    sources: Sequence[str],
    facts: Mapping[str, Any],
    part: Sequence[str],
    width: int | None,
) -> Iterator[tuple[str, str]]:
    """Commands of verbs, each with what it is for; the parameters are those of `next_commands`."""
    options = [*_options(facts)]
    paths = [*_paths(sources)]
    for place, (verb, comment) in enumerate(verbs):
        selected = () if verb == _OF_ALL_RANKS else part
        begin = ("profframe", *verb)
        command = folded([*begin, *paths, *options, *selected], width, INDENT)
        if command.count("\n") >= _MOST_LINES:
            command = " ".join([shlex.join(begin), "TRACE...", *map(shlex.quote, selected)])
        if place and "\n" in command:  # the first ten lines have no room for it
            return
        yield command, comment


def typed(
    sources: Sequence[str], facts: Mapping[str, Any], part: Sequence[str], width: int | None
) -> Callable[[Sequence[str]], str]:
    """What makes a command of the words of a question; parameters are those of `next_commands`."""
    return lambda verb: next(commands([((*verb,), "")], sources, facts, part, width))[0]


def following(answer: str, given: Mapping[str, str], rows: pl.DataFrame) -> Iterator[Verb]:
    """Questions that a table about memory leads to, and what they are for.

    Parameters
    ----------
    answer
        The answer that has the rows.
    given
        Its parameters, as they were given.
    rows
        The rows; those of memory snapshots lead to stacks.
    """
    names = _AFTER.get(answer, ())
    if names and "source" in rows.columns and (rows["source"] == "snapshot").all():
        names = _AFTER["memory_stacks"]
    for name, values, comment in names:
        own = {key: given[key] for key in _KEPT if key in given} if name == answer else {}
        asked_for = {**own, **values}
        if name == answer and asked_for == own:
            continue
        words = (word for key, value in asked_for.items() for word in ("-p", f"{key}={value}"))
        yield ("answer", name, *words), comment


def _verbs(opening: TraceHeader, sources: int) -> Iterator[Verb]:
    """Three verbs at most, and what they are for; with records of memory of a device one more."""
    yield from _main_verbs(opening, sources)
    peaks = opening.memory_peak
    if peaks.height and peaks["device"].count() and not opening.words.is_all:
        yield ("answer", "memory_owners"), "what holds the memory, and what is never freed"


def _main_verbs(opening: TraceHeader, sources: int) -> Iterator[Verb]:
    if opening.words.is_all:
        part = opening.words.parts[0]
        yield _WITHOUT_STARTS if part.hint == WITHOUT_STARTS else _OF_WORDS[part.label]
        yield from _ALSO.get(part.label, ())
        return
    if not opening.overview["events"].sum():
        yield ("info",), "what the file says about itself"
        return
    number = opening.advice.height
    if number:
        yield ("advice",), all_findings(number)
    if sources == 2 and opening.overview["run"].n_unique() == 2:
        yield ("explain",), "why one takes longer than the other"
    elif not opening.phases.height or not number:
        verb, what = _question(opening, opening.time_parts)
        yield verb, what
        if opening.host_waits and verb != _HOST_WAITS[0]:
            yield _HOST_WAITS


def _question(opening: TraceHeader, parts: TimeParts | None) -> Verb:
    """A question about what takes most of the time besides computation."""
    if parts is None:
        return ("tree",), "what ran inside what on the host"
    exposed, copies, idle = (
        parts.share(ns)
        for ns in (parts.exposed_communication_ns, parts.exposed_copy_ns, parts.idle_ns)
    )
    waits = parts.communicates and opening.has_several_ranks
    has_kernels = opening.overview["kernels"].sum() > 0
    has_peak = has_kernels and bool(opening.used_devices["has_peak"].any())
    blocks = opening.advice.height > 0 and "blocking_calls" in opening.advice["rule"]
    questions = (
        (waits and max(exposed, idle) >= _MUCH, ("blame",), "which ranks hold up the others"),
        (
            exposed >= max(idle, _MUCH),
            ("answer", "collectives", "-p", "per=size"),
            "how fast collectives are",
        ),
        (copies >= max(idle, _MUCH), ("answer", "memory_bandwidth"), "how fast copies are"),
        (idle >= _MUCH and blocks, *_HOST_WAITS),
        (idle >= _MUCH, ("answer", "gaps"), "what the devices waited for"),
        (has_peak, ("roofline",), "how close kernels come to the limits of the device"),
        (has_kernels, ("answer", "op_kernels"), "which kernels each op launches"),
        (True, ("tree",), "what ran inside what on the host"),
    )
    return next((verb, what) for fits, verb, what in questions if fits)


def _options(facts: Mapping[str, Any]) -> Iterator[str]:
    for name, flag in FLAGS.items():
        given = facts.get(name) or []
        for value in given if isinstance(given, list) else [given]:
            yield flag.name
            yield str(value)


def _paths(sources: Sequence[str]) -> Iterator[str]:
    """Sources that are not options and can be read again; a glob, if it has just these files."""
    if "-" in sources:
        yield "TRACE"
        return
    if len(sources) > 1:
        prefix = _common(sources)
        ending = _common([source[len(prefix) :][::-1] for source in sources])[::-1]
        pattern = f"{glob.escape(prefix)}*{glob.escape(ending)}"
        if {*glob.glob(pattern)} == {*sources}:  # noqa: PTH207 -- names as they were given
            sources = [pattern]
    for source in sources:
        yield f"./{source}" if source.startswith("-") else source


def _common(texts: Sequence[str]) -> str:
    """The common prefix of texts."""
    first, last = min(texts), max(texts)
    size = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return first if size is None else first[:size]
