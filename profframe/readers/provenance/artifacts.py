"""What single files and records of Inductor's provenance say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Key = tuple[str, int | None]
"""Name of a kernel, and number of its call."""

_MAPPINGS: Final = ("preToPost", "postToPre", "cppCodeToPost", "postToCppCode")
_VERSION: Final = "version"
_STACKS: Final = "stack_traces"
_POST, _PRE = "post_grad_nodes", "pre_grad_nodes"
_CALL: Final = re.compile(r"\[Provenance debug handles\] ([^\s<]+):(\d{1,18})(?!\S*:)")
_PHASE: Final = re.compile(r"AOT ID: \[[^\]\n]{1,20}?\d_(forward|backward|inference)\b")
_FRAME: Final = re.compile(r'File "([^"\n]*)", line (\d+), in ([^\n\\]+)')
_HANDLE: Final = re.compile(r"(.+):(\d{1,18})", re.DOTALL)
_LONGEST_NAME: Final = 1 << 16
_LONGEST_STACK: Final = 1 << 20
_LONGEST_PLACE: Final = 80


class NotProvenanceError(ValueError):
    """A text is not what it should be; the message says where."""


@dataclass(slots=True)
class Odd:
    """Values that break the format, which are skipped."""

    count: int = 0
    first: str | None = None

    def add(self, place: str) -> None:
        """Count one."""
        self.count += 1
        self.first = self.first or place[:_LONGEST_PLACE]

    def include(self, other: Odd) -> None:
        """Count those of another place, too."""
        self.count += other.count
        self.first = self.first or other.first


@dataclass(slots=True)
class Artifact:
    """A part of what is known of a compiled graph; what the part does not tell is None.

    Attributes
    ----------
    calls
        Calls of kernels in the generated code, in its order.
    phase
        What the code says it is for: forward, backward or inference.
    post_grad, post_to_pre
        Nodes of each call of a kernel, and for these the nodes before autograd.
    pre_grad, stacks
        Of each call of a kernel.
    key
        Key of the graph in torch's cache; empty if it has none.
    """

    calls: list[Key] | None = None
    phase: str | None = None
    post_grad: dict[Key, tuple[str, ...]] | None = None
    post_to_pre: dict[str, tuple[str, ...]] | None = None
    pre_grad: dict[Key, tuple[str, ...]] | None = None
    stacks: dict[Key, tuple[str, ...]] | None = None
    key: str | None = None
    odd: Odd = field(default_factory=Odd)


def of_code(text: str) -> Artifact:
    """Calls of kernels in generated code, which a comment before each one names.

    Examples
    --------
    >>> of_code("# [Provenance debug handles] extern_kernels.mm:5").calls
    [('extern_kernels.mm', 5)]
    """
    phase = _PHASE.search(text)
    return Artifact(
        calls=[(name, int(handle)) for name, handle in _CALL.findall(text)],
        phase=phase[1] if phase else None,
    )


def of_mappings(value: object) -> Artifact:
    """Nodes of kernels, from the four mappings.

    Examples
    --------
    >>> nodes = of_mappings({"cppCodeToPost": {"k:1": ["mm"]}, "postToPre": {"mm": ["x"]}})
    >>> nodes.post_grad, nodes.post_to_pre
    ({('k', 1): ('mm',)}, {'mm': ('x',)})
    """
    odd = Odd()
    members = _object(value)
    pre_to_post, post_to_pre, post, to_kernels = (
        _lists(members.get(name, {}), odd, name, _LONGEST_NAME) for name in _MAPPINGS
    )
    return Artifact(
        post_grad=_by_key(post or _inverted(to_kernels)),
        post_to_pre=post_to_pre or _inverted(pre_to_post),
        odd=odd,
    )


def of_stacks(value: object) -> Artifact:
    """Stacks of kernels; newer releases have an object for each kernel."""
    if any(isinstance(item, dict) for item in _object(value).values()):
        return of_information(value)
    odd = Odd()
    lists = _lists(value, odd, "", _LONGEST_STACK)
    return Artifact(stacks=_stacks(_by_key(lists)), odd=odd)


def of_information(value: object) -> Artifact:
    """Nodes and stacks of kernels, in an object for each of them."""
    odd = Odd()
    columns: dict[str, dict[str, object]] = {_STACKS: {}, _POST: {}, _PRE: {}}
    for name, item in _object(value).items():
        if not isinstance(item, dict):
            odd.add(name)
            continue
        for column, values in columns.items():
            if column in item:
                values[name] = item[column]
    limits = {_STACKS: _LONGEST_STACK, _POST: _LONGEST_NAME, _PRE: _LONGEST_NAME}
    stacks, post, pre = (
        _by_key(_lists(columns[name], odd, name, limit)) for name, limit in limits.items()
    )
    return Artifact(
        post_grad=post if columns[_POST] else None,
        pre_grad=pre if columns[_PRE] else None,
        stacks=_stacks(stacks) if columns[_STACKS] else None,
        odd=odd,
    )


def of_cache(value: object) -> Artifact:
    """The key of the graph in the cache of compiled graphs."""
    key = _object(value).get("key")
    return Artifact(key=clean(key) if isinstance(key, str) else "")


def by_content(value: object) -> Artifact:
    """What an object is, by its members; for files with names of their own.

    Raises
    ------
    NotProvenanceError
        It is none of these.
    """
    members = _object(value)
    if any(name in members for name in _MAPPINGS) or [*members] == [_VERSION]:
        return of_mappings(members)
    if members and all(isinstance(item, dict) for item in members.values()):
        own = {_STACKS, _POST, _PRE}
        if any(own & item.keys() for item in members.values()):
            return of_information(members)
    elif members and all(isinstance(item, list) for item in members.values()):
        return of_stacks(members)
    raise NotProvenanceError(
        "it has neither mappings of nodes nor stack traces of kernels "
        "(expected a file that Inductor wrote with INDUCTOR_PROVENANCE=1)"
    )


def parsed(text: str) -> object:
    """The value of a JSON text.

    Raises
    ------
    NotProvenanceError
        It is not JSON, or nests too deeply.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise NotProvenanceError(f"not JSON: {error.msg} at {place}") from None
    except (RecursionError, ValueError) as error:
        raise NotProvenanceError(f"not JSON that can be read: {error}") from None


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise NotProvenanceError(f"expected a JSON object, not {type(value).__name__}")
    return value


def _lists(value: object, odd: Odd, place: str, limit: int) -> dict[str, tuple[str, ...]]:
    """Lists of texts by name; what is neither, or too long, is counted as odd."""
    if not isinstance(value, dict):
        odd.add(place)
        return {}
    lists = {}
    for name, items in value.items():
        if not isinstance(items, list) or len(name) > _LONGEST_NAME:
            odd.add(f"{place} {name}".strip())
            continue
        texts = [item for item in items if isinstance(item, str) and len(item) <= limit]
        if len(texts) < len(items):
            odd.add(f"{place} {name}".strip())
        lists[clean(name)] = (*dict.fromkeys(map(clean, texts)),)
    return lists


def _inverted(mapping: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    lists: dict[str, list[str]] = {}
    for name, others in mapping.items():
        for other in others:
            lists.setdefault(other, []).append(name)
    return {name: (*others,) for name, others in lists.items()}


def _by_key(lists: Mapping[str, tuple[str, ...]]) -> dict[Key, tuple[str, ...]]:
    return {key_of(name): values for name, values in lists.items()}


def key_of(text: str) -> Key:
    """Name of a kernel and number of its call; releases before 2.9 have no numbers.

    Examples
    --------
    >>> key_of("torch.ops.lib::op:12"), key_of("extern_kernels.mm")
    (('torch.ops.lib::op', 12), ('extern_kernels.mm', None))
    """
    match = _HANDLE.fullmatch(text)
    return (match[1], int(match[2])) if match else (text, None)


def _stacks(lists: Mapping[Key, tuple[str, ...]]) -> dict[Key, tuple[str, ...]]:
    return {key: (*dict.fromkeys(_each(stack_of, texts)),) for key, texts in lists.items()}


def _each(function: Callable[[str], str], texts: tuple[str, ...]) -> Iterator[str]:
    return (value for text in texts if (value := function(text)))


def stack_of(text: str) -> str:
    r"""Frames of a traceback joined by ``;``, the innermost first; empty if it has none.

    Examples
    --------
    >>> stack_of('  File "m.py", line 7, in forward\n    x = f(a)\n  File "f.py", line 2, in f')
    'f.py(2): f;m.py(7): forward'
    """
    frames = [f"{file}({line}): {name.strip()}" for file, line, name in _FRAME.findall(text)]
    return ";".join(frame.replace(";", ",") for frame in reversed(frames))


def clean(text: str) -> str:
    """The text without half surrogate pairs, which Arrow does not hold."""
    return text.encode(errors="replace").decode()
