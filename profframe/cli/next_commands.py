"""What to type next, by what a trace has: commands whose paths a shell reads as they are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from profframe.show.opening import INDENT
from profframe.show.units import visible

if TYPE_CHECKING:
    from profframe.show.opening import Opening, TimeParts

_MUCH: Final = 0.1
"""Part of the time from which on it is worth a question of its own."""
_MOST_LINES: Final = 4
"""Lines that a command may take; longer ones say TRACE in place of the paths."""
_JOINT: Final = 2
"""Columns of what joins a line with the next."""
_OF_WORDS: Final = {
    "flight recorder": (("hang",), "who did not come, and the stacks"),
    "memory": (("answer", "memory_stacks"), "who holds the memory, by stack"),
    "execution trace": (("answer", "tensor_traffic"), "bytes that each op moves"),
}
_FACTS: Final = {
    "captures": "--captures",
    "execution_trace": "--execution-trace",
    "memory": "--memory-snapshot",
    "compat": "--compat",
    "kernel_categories": "--kernel-categories",
}
_UNREADABLE: Final = re.compile(r"[\ud800-\udfff]")
"""Bytes of a file's name that are no text."""
_SURROGATE: Final = 0xDC00


def next_commands(
    opening: Opening, sources: Sequence[str], facts: Mapping[str, Any], width: int | None
) -> Iterator[tuple[str, str]]:
    """Commands that lead on, the best first, with what each is for.

    Parameters
    ----------
    opening
        What the trace has.
    sources
        Its paths, as the user gave them.
    facts
        Options that change facts; they are repeated.
    width
        Columns of a line; None for any.
    """
    options = [*_options(facts)]
    for place, (verb, comment) in enumerate(_verbs(opening, len(sources))):
        words = ["profframe", *verb, *map(_path, sources), *options]
        command = folded(words, width, INDENT)
        if command.count("\n") >= _MOST_LINES:
            command = shlex.join(["profframe", *verb]) + " TRACE..."
        if place and "\n" in command:  # the first ten lines have no room for it
            return
        yield command, comment


def _verbs(opening: Opening, sources: int) -> Iterator[tuple[tuple[str, ...], str]]:
    """Two verbs at most, and what they are for."""
    summary = opening.summary
    if summary.words.is_all:
        yield _OF_WORDS[summary.words.parts[0].label]
        return
    if not summary.overview["events"].sum():
        yield ("info",), "what the file says of itself"
        return
    number = opening.advice.height
    if number:
        what = "the finding" if number == 1 else f"all {number} findings"
        yield ("advice",), f"{what}: where, why, and what to do"
    if sources == 2 and summary.overview["run"].n_unique() == 2:
        yield ("explain",), "why one takes longer than the other"
    elif not opening.phases.height or not number:
        yield _question(opening, opening.time_parts)


def _question(opening: Opening, parts: TimeParts | None) -> tuple[tuple[str, ...], str]:
    """A question about what most of the time goes to beside computation."""
    if parts is None:
        return ("tree",), "what ran inside what on the host"
    exposed, copies, idle = (
        parts.share(ns)
        for ns in (parts.exposed_communication_ns, parts.exposed_copy_ns, parts.idle_ns)
    )
    waits = parts.communicates and opening.has_several_ranks
    has_peak = bool(opening.used_devices["has_peak"].any())
    questions = (
        (waits and max(exposed, idle) >= _MUCH, ("blame",), "which ranks hold up the others"),
        (exposed >= max(idle, _MUCH), ("answer", "collective_summary"), "how fast collectives are"),
        (copies >= max(idle, _MUCH), ("answer", "memory_bandwidth"), "how fast copies are"),
        (idle >= _MUCH, ("answer", "gaps"), "what the devices waited for"),
        (has_peak, ("roofline",), "how close kernels come to what the device can do"),
        (True, ("answer", "op_kernels"), "which kernels each op launches"),
    )
    return next((verb, what) for fits, verb, what in questions if fits)


def _options(facts: Mapping[str, Any]) -> Iterator[str]:
    for name, option in _FACTS.items():
        given = facts.get(name) or []
        for value in given if isinstance(given, list) else [given]:
            yield option
            yield str(value)


def _path(source: str) -> str:
    """A source that is no option, and that can be read again."""
    if source == "-":
        return "TRACE"
    return f"./{source}" if source.startswith("-") else source


def shell_word(word: str) -> str:
    r"""A word as a shell reads it, without bytes that a terminal would act on.

    Examples
    --------
    >>> print(shell_word("my trace.json"), shell_word("it's"), shell_word("a\x1b[31m\n"))
    'my trace.json' 'it'"'"'s' $'a\x1b[31m\n'
    """
    if visible(word) == word:
        return shlex.quote(word)
    text = word.replace("\\", "\\\\").replace("'", "\\'")
    text = _UNREADABLE.sub(lambda match: f"\\x{(ord(match[0]) - _SURROGATE) & 0xFF:02x}", text)
    return f"$'{''.join(map(_escaped, text))}'"


def _escaped(character: str) -> str:
    shown = visible(character)
    if shown == character or not shown.startswith("\\x"):
        return shown
    return shown if ord(character) < 0x80 else f"\\u{ord(character):04x}"


def folded(words: Sequence[str], width: int | None, indent: int = 0) -> str:
    r"""Words as a command, of several lines joined by backslashes where one is too short for it.

    A path that is longer than a line goes on in the next one; a shell joins the parts.

    Parameters
    ----------
    words
        Words as they are, not quoted.
    width
        Columns of a line; None for any.
    indent
        Columns before the first line; before another one only where there is room.

    Examples
    --------
    >>> print(folded(["profframe", "advice", "trace one.json"], 20))
    profframe advice \
    'trace one.json'
    >>> print(folded(["profframe", "folder/trace.json"], 12))
    profframe \
    folder/trac\
    e.json
    """
    quoted = [shell_word(word) for word in words]
    if width is None or indent + len(" ".join(quoted)) <= width:
        return " ".join(quoted)
    lines, line = [], " " * indent + quoted[0]
    for word, text in zip(words[1:], quoted[1:], strict=True):
        if len(line) + len(text) + _JOINT <= width:
            line += f" {text}"
            continue
        lines.append(f"{line} \\")
        line = " " * indent + text
        if len(line) + _JOINT > width:
            *begun, line = _pieces(word, width)
            lines += [f"{piece}\\" for piece in begun]
    return "\n".join([*lines, line])[indent:]


def _pieces(word: str, width: int) -> Iterator[str]:
    """A word in quoted parts that fit a line each."""
    while word:
        size = len(word)
        while size > 1 and len(shell_word(word[:size])) + _JOINT > width:
            size -= 1
        yield shell_word(word[:size])
        word = word[size:]
