r"""Kernel categories, by the patterns of ``facts/kernel_categories.json``.

An entry of the file, or of the user::

    "DeepEP": {
      "category": "expert_parallel",
      "match": [{"name": "deep_ep::"}, {"op": "^deep_ep::", "name": "kernel"}],
      "computes_and_communicates": false,
      "source": "https://...",
      "note": "..."
    }

``match`` lists descriptions, and a kernel has the category if all conditions of one of them hold:
``name``, ``op`` and ``collective`` are regular expressions (RE2) that are searched in the name of
the kernel, in the name of the host op that launched it, and in its collective from the source. The
first entry that matches decides. ``"my_kernel": "gemm"`` is short for an entry with this pattern
for names.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from profframe import schema
from profframe.errors import ParameterError
from profframe.facts.arrays import coded, encoded, is_kind, numbers
from profframe.facts.device_catalogue import document
from profframe.facts.fact import Note, Output, Tables, any_of, columns, fact
from profframe.intervals import Ints, Mask

Categories = str | os.PathLike[str] | Mapping[str, Any]
"""Entries by their names, or the path of a JSON file of them."""

_FILE: Final = Path(__file__).parent / "kernel_categories.json"
_CONDITIONS: Final = ("name", "op", "collective")
_FIELDS: Final = ("category", "match", "computes_and_communicates", "source", "note")
_WORDS: Final = (
    r"(?i)dispatch|combine|all_?to_?all|a2a|all_?reduce|all_?gather|reduce_?scatter|broad_?cast"
    r"|(^|[^a-z])(i?send|i?recv|p2p|rdma|nvlink|put_?mem|get_?mem)"
)
"""Words in names of communication between devices."""
_TEMPLATE: Final = r"<.*|\(.*"
_LONGEST: Final = 4000
"""Characters of a name that are matched."""
_MOST: Final = 1 << 14
"""Kernels whose entries are remembered before they are all forgotten."""
_Kernel = tuple[str | None, ...]
"""Name, op and collective."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: patterns, each a list with one for name, op and collective; None is any value."""

    category: str
    match: tuple[tuple[str | None, ...], ...]
    is_mixed: bool = False


@fact(
    inputs=columns(events="kind name op_id collective"),
    outputs=columns(events="kernel_category computes_and_communicates"),
    options=("categories",),
    needs=any_of(kinds=schema.DEVICE_KINDS),
)
def kernel_categories(tables: Tables, categories: tuple[Entry, ...] = ()) -> Output:
    """Add ``kernel_category`` and ``computes_and_communicates``.

    Patterns are tried once for each distinct (name, op, collective), never for each kernel. Kernels
    that are named like communication but have no category are counted (``unknown_communication``).

    Parameters
    ----------
    tables : Tables
        The tables of one trace.
    categories : tuple of Entry, optional
        The user's own, in the order in which they are tried, before the built-in ones.
    """
    events = tables["events"]
    rows = np.flatnonzero(is_kind(events, ("kernel",)))
    copies = np.flatnonzero(is_kind(events, ("memcpy", "memset")))
    if not rows.size and not copies.size:
        return Output()
    entries, of_entry, both = _in_order(categories)
    kernels = _Kernels.of(events, rows)
    entry = kernels.first(entries, _matched(categories))
    codes = np.full(events.num_rows, -1, np.int64)
    codes[copies] = _WORDS_OF_CATEGORIES.index("copy")
    codes[rows] = of_entry[entry][kernels.place]
    is_mixed = np.zeros(events.num_rows, np.bool_)
    is_mixed[rows] = both[entry][kernels.place]
    is_kernel = np.zeros(events.num_rows, np.bool_)
    is_kernel[rows] = True
    return Output(
        {
            "events.kernel_category": encoded(codes, _WORDS_OF_CATEGORIES),
            "events.computes_and_communicates": pa.array(is_mixed, pa.bool_(), mask=~is_kernel),
        },
        tuple(_unknown(kernels, entry == len(entries), rows)),
    )


@dataclass(frozen=True, slots=True)
class _Kernels:
    """The distinct (name, op, collective) of kernels, and which one each kernel has.

    ``texts`` are the distinct texts of each of the three, and ``codes`` their places for each
    distinct kernel; -1 is NULL.
    """

    texts: tuple[pa.Array, ...]
    codes: tuple[Ints, ...]
    place: Ints

    @classmethod
    def of(cls, events: pa.Table, rows: Ints) -> _Kernels:
        names, name_texts = coded(events, "name")
        collectives, collective_texts = coded(events, "collective")
        op_rows = numbers(events, "op_id", missing=-1)[rows]
        is_op = (op_rows >= 0) & is_kind(events, ("host_op",))[op_rows]
        ops = np.where(is_op, names[op_rows], -1)
        parts = [
            _compact(names[rows], name_texts),
            _compact(ops, name_texts),
            _compact(collectives[rows], collective_texts),
        ]
        key = np.zeros(rows.size, np.int64)
        for codes, texts in parts:
            key = key * (len(texts) + 1) + codes + 1
        distinct = pa.array(key).dictionary_encode()
        keys = distinct.dictionary.to_numpy()
        of_keys = []
        for _, texts in reversed(parts):
            keys, code = np.divmod(keys, len(texts) + 1)
            of_keys.append(code - 1)
        place: Ints = distinct.indices.to_numpy().astype(np.int64, copy=False)
        return cls(tuple(texts for _, texts in parts), tuple(reversed(of_keys)), place)

    def first(self, entries: tuple[Entry, ...], matched: dict[_Kernel, int]) -> Ints:
        """The first entry that each distinct kernel matches; the number of entries if none does.

        Those that are not in ``matched`` are added to it.
        """
        kernels = [*zip(*map(_texts, self.texts, self.codes), strict=True)]
        answer: Ints = np.array([matched.get(kernel, -1) for kernel in kernels], np.int64)
        new = np.flatnonzero(answer < 0)
        if new.size:
            answer[new] = self._first(entries, new)
            if len(matched) > _MOST:
                matched.clear()
            matched.update((kernels[i], int(answer[i])) for i in new.tolist())
        return answer

    def _first(self, entries: tuple[Entry, ...], left: Ints) -> Ints:
        """`first` for some of the distinct kernels."""
        answer: Ints = np.full(self.codes[0].size, len(entries), np.int64)
        rows = left
        for number, entry in enumerate(entries):
            holds = self._holds(entry, left)
            answer[left[holds]] = number
            left = left[~holds]
            if not left.size:
                break
        return answer[rows]

    def _holds(self, entry: Entry, left: Ints) -> Mask:
        holds: Mask = np.zeros(left.size, np.bool_)
        for patterns in entry.match:
            both: Mask = np.ones(left.size, np.bool_)
            for pattern, texts, codes in zip(patterns, self.texts, self.codes, strict=True):
                if pattern is not None and both.any():
                    both &= _matches(pattern, texts, codes[left])
            holds |= both
        return holds


def _texts(texts: pa.Array, codes: Ints) -> Iterator[str | None]:
    """The text of each code."""
    listed = [*texts.to_pylist(), None]
    return (listed[code] for code in codes.tolist())


def _compact(codes: Ints, texts: pa.StringArray) -> tuple[Ints, pa.Array]:
    """Codes without unused texts, and the used ones."""
    is_used = np.zeros(len(texts) + 1, np.bool_)
    is_used[codes] = True
    is_used[-1] = False
    used = np.flatnonzero(is_used)
    place = np.full(len(texts) + 1, -1, np.int64)
    place[used] = np.arange(used.size)
    return place[codes], pc.utf8_slice_codeunits(texts.take(pa.array(used)), 0, _LONGEST)


def _matches(pattern: str, texts: pa.Array, codes: Ints) -> Mask:
    """The codes of texts that contain the pattern; NULL matches nothing."""
    used = np.unique(codes[codes >= 0])
    is_match = np.zeros(len(texts) + 1, np.bool_)
    if used.size:
        matched = pc.match_substring_regex(texts.take(pa.array(used)), pattern)
        is_match[used] = matched.to_numpy(zero_copy_only=False)
    answer: Mask = is_match[codes]
    return answer


def _unknown(kernels: _Kernels, is_other: Mask, rows: Ints) -> Iterator[Note]:
    """A note on kernels without a category that are named like communication."""
    if not is_other.any():
        return
    names = kernels.codes[0]
    functions = pc.replace_substring_regex(
        pc.replace_substring_regex(kernels.texts[0], r"\(anonymous namespace\)|<unnamed>", ""),
        _TEMPLATE,
        "",
    )
    alike = np.zeros(len(functions) + 1, np.bool_)
    alike[:-1] = pc.match_substring_regex(functions, _WORDS).to_numpy(zero_copy_only=False)
    of_interest = is_other & alike[names]
    chosen = rows[of_interest[kernels.place]]
    if chosen.size:
        texts = functions.take(pa.array(np.unique(names[of_interest]))).to_pylist()
        detail = ", ".join(text.removeprefix("void ")[:80] for text in texts[:3])
        more = f" and {len(texts) - 3} more" if len(texts) > 3 else ""
        yield "unknown_communication", chosen.size, detail + more, int(chosen[0])


_WORDS_OF_CATEGORIES: Final = (*schema.KERNEL_CATEGORIES,)


@lru_cache(maxsize=8)
def _in_order(categories: tuple[Entry, ...]) -> tuple[tuple[Entry, ...], Ints, Mask]:
    """All entries, the place of their categories, and which compute, too; the last is of none."""
    entries = categories + builtin()
    names = [*(entry.category for entry in entries), "other"]
    of_entry: Ints = np.array([_WORDS_OF_CATEGORIES.index(name) for name in names])
    both: Mask = np.array([*(entry.is_mixed for entry in entries), False])
    return entries, of_entry, both


@lru_cache(maxsize=8)
def _matched(_categories: tuple[Entry, ...]) -> dict[_Kernel, int]:
    """The entries of kernels so far: for each call Arrow compiles all patterns again.

    In a small trace that takes longer than all other facts, and traces of one job have the same
    kernels.
    """
    return {}


@cache
def builtin() -> tuple[Entry, ...]:
    """The entries of ``profframe/facts/kernel_categories.json``."""
    return tuple(_entry(name, value) for name, value in builtin_document().items())


def builtin_document() -> dict[str, dict[str, Any]]:
    """The content of ``profframe/facts/kernel_categories.json``."""
    document: dict[str, dict[str, Any]] = json.loads(_FILE.read_text(encoding="utf-8"))
    return document


def entries_of(categories: Categories) -> tuple[Entry, ...]:
    """Read a user's own entries.

    Parameters
    ----------
    categories
        Entries by their names, or a JSON file of them.

    Returns
    -------
    tuple of Entry
        The entries, checked, in their order, without the built-in ones.

    Raises
    ------
    ParameterError
        The file cannot be read, or an entry does not have the form above; the message says which.

    Examples
    --------
    >>> entries_of({"^my_a2a": "expert_parallel"})[0].category
    'expert_parallel'
    """
    source, entries = document("kernel_categories", categories, "categories")
    if not isinstance(entries, Mapping):
        raise ParameterError(
            f"{source}: needs an object of entries by their names, got {entries!r:.60}"
        )
    for name, value in entries.items():
        _check(name, value, f"{source}: {name!r:.80}")
    return tuple(_entry(name, value) for name, value in entries.items())


def _entry(name: str, value: Any) -> Entry:
    """An entry; descriptions with one and the same condition are one pattern."""
    if isinstance(value, str):
        return Entry(value, ((name, None, None),))
    alone: dict[str, list[str]] = {}
    match: list[tuple[str | None, ...]] = []
    for description in value["match"]:
        if len(description) == 1:
            ((condition, pattern),) = description.items()
            alone.setdefault(condition, []).append(pattern)
        else:
            match.append(tuple(description.get(condition) for condition in _CONDITIONS))
    for condition, patterns in alone.items():
        pattern = patterns[0] if len(patterns) == 1 else "|".join(f"(?:{p})" for p in patterns)
        match.append(tuple(pattern if condition == c else None for c in _CONDITIONS))
    return Entry(value["category"], tuple(match), value.get("computes_and_communicates", False))


def _check(name: object, value: object, where: str) -> None:
    """Raise an error for an entry that does not have the form."""
    if type(name) is not str or not name:
        raise ParameterError(f"{where}: the name of an entry must be text")
    if isinstance(value, str):
        _check_category(value, where)
        _check_pattern(name, where)
        return
    if not isinstance(value, Mapping):
        raise ParameterError(f"{where}: needs a category or an object, got {value!r:.60}")
    unknown = [field for field in value if field not in _FIELDS]
    if unknown:
        raise ParameterError(
            f"{where}: no field {unknown[0]!r:.40}; fields are {', '.join(_FIELDS)}"
        )
    missing = [field for field in ("category", "match") if field not in value]
    if missing:
        raise ParameterError(f"{where}: needs the field {missing[0]}")
    _check_category(value["category"], where)
    _check_match(value["match"], where)
    if type(value.get("computes_and_communicates", False)) is not bool:
        raise ParameterError(f"{where}: computes_and_communicates must be true or false")
    for field in ("source", "note"):
        if type(value.get(field, "")) is not str:
            raise ParameterError(f"{where}: {field} must be text")


def _check_match(match: object, where: str) -> None:
    if not isinstance(match, (list, tuple)) or not match:
        raise ParameterError(f"{where}: match must be a list of descriptions, got {match!r:.60}")
    conditions = ", ".join(_CONDITIONS)
    for description in match:
        if not isinstance(description, Mapping) or not description:
            raise ParameterError(
                f"{where}: match needs objects with {conditions}, got {description!r:.60}"
            )
        for condition, pattern in description.items():
            if condition not in _CONDITIONS:
                raise ParameterError(
                    f"{where}: no condition {condition!r:.40}; conditions are {conditions}"
                )
            _check_pattern(pattern, where)


def _check_category(category: object, where: str) -> None:
    if type(category) is not str or category not in schema.KERNEL_CATEGORIES:
        raise ParameterError(
            f"{where}: no category {category!r:.60}; categories are "
            f"{', '.join(schema.KERNEL_CATEGORIES)}"
        )


def _check_pattern(pattern: object, where: str) -> None:
    if type(pattern) is not str or not pattern:
        raise ParameterError(f"{where}: a pattern must be text, got {pattern!r:.60}")
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        raise ParameterError(
            f"{where}: {pattern!r:.80} is not a regular expression: {error}"
        ) from None
