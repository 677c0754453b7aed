"""Long lists of flat dicts in a pickle, as columns: no opcode of most of them is decoded alone.

The first dicts of a list are decoded one by one. They show which keys there are; with them a run of
dicts is cut into its values at once (`cutting`). What does not fit is decoded one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from profframe.readers.pickle.cutting import (
    GETS,
    LIST,
    LONG,
    MEMOIZE,
    NONE,
    SHORT_TEXT,
    TEXT,
    Cut,
    Field,
    Ints,
    Kind,
    Layout,
)
from profframe.readers.pickle.machine import Machine

_CHUNK: Final = 32_768
"""Rows that become columns at once."""
_WINDOWS: Final = (1 << 16, 4 << 20)
"""Fewest and most bytes in which a run is looked for."""
_SHORT_RUN: Final = 32
_MOST_PASSED: Final = 64
"""Dicts that are decoded one by one after runs that were short."""
_MOST_SHAPES: Final = 6
_MOST_CACHED: Final = 64 << 20
_BOUNDS: Final = (-(1 << 63), 1 << 63)
_ONE_GET: Final = re.compile(rb"h(.)|j(.{4})", re.DOTALL)


class RecordList(list[Any]):
    """A list whose items were taken as they came; it stays empty."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__()
        self.name = name
        self.number = number
        self.rows = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some consecutive rows of the lists of one name."""

    name: str
    lists: Ints
    """Number of the list that each row is from."""
    columns: Mapping[str, Ints]
    """Numbers; numbers of texts and stacks, with -1 for none."""
    is_there: Mapping[str, npt.NDArray[np.bool_]]


class _Numbers:
    """Numbers by place in the memo; 0 where none is."""

    def __init__(self) -> None:
        self._values = np.zeros(1 << 12, np.int32)

    def put(self, places: Ints, values: Ints) -> None:
        if len(places):
            self._grow(int(places.max()))
            self._values[places] = values

    def get(self, places: Ints) -> Ints:
        is_here = places < len(self._values)
        return np.where(is_here, self._values[np.where(is_here, places, 0)], 0).astype(np.int64)

    def _grow(self, place: int) -> None:
        if place >= len(self._values):
            grown = np.zeros(max(place + 1, 2 * len(self._values)), np.int32)
            grown[: len(self._values)] = self._values
            self._values = grown


class RecordMachine(Machine):
    """Decodes a pickle; rows of some lists go to ``take`` in chunks.

    Parameters
    ----------
    blocks, path
        As of a `Machine`.
    fields
        By name of a key: the fields of the dicts in the list there, or in the lists in it.
    nested
        Names of keys where lists of such lists are.
    take
        Gets the chunks.
    prepare
        Makes the fields of a dict that was decoded by itself.
    """

    def __init__(  # noqa: PLR0917
        self,
        blocks: Iterator[bytes],
        path: Path | str,
        fields: Mapping[str, Mapping[str, Kind]],
        nested: frozenset[str],
        take: Callable[[Chunk], None],
        prepare: Callable[[str, dict[Any, Any]], dict[Any, Any]],
    ) -> None:
        super().__init__(blocks, path)
        self.texts: list[str] = []
        self.frames: list[tuple[str | None, str | None, int | None]] = []
        self.stacks: list[bytes] = []
        """Numbers of frames of each stack, as bytes."""
        self.unknown_keys: dict[str, int] = {}
        self._fields = fields
        self._nested = nested
        self._take = take
        self._prepare = prepare
        self._lists = 0
        self._text_ids: dict[str, int] = {}
        self._frame_ids: dict[tuple[str | None, str | None, int | None], int] = {}
        self._stack_ids: dict[bytes, int] = {}
        self._texts_at, self._frames_at, self._stacks_at = _Numbers(), _Numbers(), _Numbers()
        self._key_places: dict[str, list[int]] = {}
        self._layouts = {name: Layout.of(()) for name in fields}
        self._window = _WINDOWS[0]
        self._passing, self._to_pass = 0, 1
        """Dicts to decode one by one before a run is looked for, and those after a short run."""
        self._cached: dict[bytes, int] = {}
        self._cached_bytes = 0
        self._pending: str | None = None
        """Name of the lists that the rows are from that are not yet columns."""
        self._rows = 0
        self._list_runs: list[tuple[int, int]] = []
        self._runs: list[tuple[int, int, int]] = []
        """First row, number of rows and first place in the memo of runs."""
        self._cuts: list[Cut] = []
        self._alone: list[tuple[int, dict[Any, Any]]] = []

    # What differs from a `Machine`.

    def value(self) -> Any:
        """All but the rows of the lists."""
        value = super().value()
        self.flush()
        return value

    def release(self) -> None:
        """Let go of all that only decoding needs; texts, frames and stacks stay."""
        super().release()
        self._texts_at, self._frames_at, self._stacks_at = _Numbers(), _Numbers(), _Numbers()
        self._cached, self._stack_ids = {}, {}

    def step(self) -> None:
        """Decode one opcode, or a run of dicts."""
        if not self._run():
            super().step()

    def store(self, index: int) -> None:
        """Put the uppermost value into the memo."""
        super().store(index)
        value = self.stack[-1]
        if type(value) is str and len(self._key_places.get(value, ())) < _MOST_SHAPES:
            self._key_places.setdefault(value, []).append(index)

    def lost(self, index: int) -> Any:
        """A text or a list of frames that was cut out of a run."""
        self.flush()
        place = np.array([index])
        if number := int(self._texts_at.get(place)[0]):
            return self.texts[number - 1]
        if number := int(self._stacks_at.get(place)[0]):
            ids = np.frombuffer(self.stacks[number - 2] if number > 1 else b"", np.int32)
            rows = (self.frames[i] for i in ids.tolist())
            return [{"name": n, "filename": file, "line": line} for n, file, line in rows]
        return super().lost(index)

    def new_list(self) -> list[Any]:
        """A list; of one whose items are rows, one that says so."""
        stack, marks = self.stack, self.marks
        name = stack[-1] if stack else None
        if not (isinstance(name, str) and name in self._fields and name not in self._nested):
            outer = len(stack) - 1
            if marks and outer >= marks[-1] - 1 and type(stack[marks[-1] - 1]) is list:
                outer = marks[-1] - 1
            name = stack[outer - 1] if outer > 0 and type(stack[outer]) is list else None
            if not (isinstance(name, str) and name in self._nested):
                return []
        self._lists += 1
        return RecordList(name, self._lists - 1)

    def put_values(self, container: list[Any], items: list[Any]) -> None:
        """Add items to a list, or take them as rows."""
        if not isinstance(container, RecordList):
            super().put_values(container, items)
            return
        for item in items:
            if not isinstance(item, dict):
                self.fail(f"a list of {container.name} has a value that is no dict")
            self._begin(container, 1)
            self._alone.append((self._rows - 1, self._prepare(container.name, item)))
            self._learn(container.name, item)
            self.forget(item)

    # Runs.

    def _begin(self, container: RecordList, count: int) -> None:
        """Have so many more rows of a list."""
        if self._pending != container.name or self._rows >= _CHUNK:
            self.flush()
            self._pending = container.name
        container.rows += count
        self._list_runs.append((container.number, count))
        self._rows += count

    def _run(self) -> bool:
        """Take a run of dicts, if one begins here."""
        marks, stack, position = self.marks, self.stack, self.position
        if not marks or self.data[position : position + 1] != b"}":
            return False
        container = stack[marks[-1] - 1] if marks[-1] else None
        if type(container) is not RecordList or not self._layouts[container.name].shapes:
            return False
        if self._passing:
            self._passing -= 1
            return False
        layout = self._layouts[container.name]
        if len(self.data) - position < _WINDOWS[0]:
            self.fill(_WINDOWS[1])
            position = self.position
        cut = layout.cut(self.data[position : position + self._window])
        self._adapt(cut)
        if not cut.count:
            return False
        if items := stack[marks[-1] :]:  # dicts before the run that were decoded alone
            del stack[marks[-1] :]
            self.put_values(container, items)
            if self._layouts[container.name] is not layout:
                return False
        self._begin(container, cut.count)
        self._runs.append((self._rows - cut.count, cut.count, self.memoised))
        self._cuts.append(cut)
        self.memoised += cut.memoised(layout)
        self.position = position + cut.end
        return True

    def _adapt(self, cut: Cut) -> None:
        """Look for the next run in as many bytes as this one lets expect, or later."""
        fewest, most = _WINDOWS
        is_all = cut.end > len(cut.data) // 2
        self._window = min(4 * self._window, most) if is_all else max(2 * cut.end, fewest)
        if cut.count >= _SHORT_RUN:
            self._to_pass = 1
        else:
            self._passing = self._to_pass
            self._to_pass = min(2 * self._to_pass, _MOST_PASSED)

    # What the dicts of a list look like.

    def _learn(self, name: str, item: dict[Any, Any]) -> None:
        """Let the layout fit dicts like this one."""
        kinds = self._fields[name]
        layout = self._layouts[name]
        fields: list[Field] = []
        for key, value in item.items():
            kind = _kind(value)
            if kind is None or (key in kinds and value is not None and kind != kinds[key]):
                return
            if value is None:
                kind = kinds.get(key, "number")
            if key not in self._key_places:
                return
            fields.append(Field(key, tuple(self._key_places[key]), kind))
        known = {tuple((f.key, f.kind) for f in shape) for shape in layout.shapes}
        is_new = tuple((f.key, f.kind) for f in fields) not in known
        if fields and is_new and len(layout.shapes) < _MOST_SHAPES:
            self.flush()
            self._layouts[name] = Layout.of((*layout.shapes, tuple(fields)))

    # Columns.

    def flush(self) -> None:
        """Turn the rows that came into columns."""
        name, count = self._pending, self._rows
        if name is None or not count:
            return
        numbers, counts = np.array(self._list_runs, np.int64).T
        values = {key: np.full(count, -1, np.int64) for key in self._fields[name]}
        is_there = {key: np.zeros(count, np.bool_) for key in values}
        if self._runs:
            self._put_runs(name, values, is_there)
        self._put_alone(name, values, is_there)
        self._rows, self._list_runs, self._runs = 0, [], []
        self._cuts, self._alone = [], []
        self._take(Chunk(name, np.repeat(numbers, counts), values, is_there))

    def _put_alone(
        self,
        name: str,
        values: Mapping[str, Ints],
        is_there: Mapping[str, npt.NDArray[np.bool_]],
    ) -> None:
        """Rows that were decoded by themselves."""
        kinds = self._fields[name]
        for row, item in self._alone:
            for key, value in item.items():
                kind = kinds.get(key)
                if kind is None:
                    self.unknown_keys[key] = self.unknown_keys.get(key, 0) + 1
                    continue
                number = self._number(kind, value)
                if number is not None:
                    values[key][row] = number
                    is_there[key][row] = True

    def _number(self, kind: Kind, value: Any) -> int | None:
        if kind == "stack":
            return self.stack_id(value)
        if kind == "text":
            return (
                None
                if value is None
                else self.text_id(value if isinstance(value, str) else repr(value))
            )
        if isinstance(value, (int, float)) and _BOUNDS[0] <= value < _BOUNDS[1]:
            return int(value)
        return None

    def _put_runs(
        self,
        name: str,
        values: Mapping[str, Ints],
        is_there: Mapping[str, npt.NDArray[np.bool_]],
    ) -> None:
        layout = self._layouts[name]
        first, counts, memo = np.array(self._runs, np.int64).T
        total = int(counts.sum())
        starts = np.cumsum(counts) - counts
        rows = np.repeat(first - starts, counts) + np.arange(total)
        cut = [
            pa.concat_arrays([part.group(group) for part in self._cuts])
            for group in range(layout.count)
        ]
        # Places in the memo: each dict's first, and how many came within it before each group.
        steps = {group: _is_memoize(cut[group]) for group in layout.memos}
        each = sum(steps.values(), start=np.zeros(total, np.int64))
        before = np.cumsum(each) - each
        place = np.repeat(memo - before[np.minimum(starts, total - 1)], counts) + before
        places: dict[int, Ints] = {}
        for group in layout.memos:
            implied = place.copy()
            place += steps[group]
            given, code = _numbers(cut[group])
            places[group] = np.where(code == MEMOIZE, implied, np.where(code == 0, -1, given))
        for fields in layout.groups:
            for key, (group, kind) in fields.items():
                numbers, code = _numbers(cut[group])
                is_set = (code != 0) & (code != NONE)
                if kind == "text":
                    numbers = self._texts_of(cut[group], numbers, code, places[group + 1])
                elif kind == "stack":
                    numbers = self._stacks_of(cut[group + 2], numbers, code, places[group + 1])
                    is_set &= numbers >= 0
                if key in values:
                    at = rows[is_set]
                    values[key][at] = numbers[is_set]
                    is_there[key][at] = True
                elif count := int(is_set.sum()):
                    self.unknown_keys[key] = self.unknown_keys.get(key, 0) + count

    def _texts_of(self, cut: pa.Array, places: Ints, code: Ints, memo: Ints) -> Ints:
        numbers = np.full(len(code), -1, np.int64)
        is_new = (code == SHORT_TEXT) | (code == TEXT)
        if is_new.any():
            texts = cut.filter(pa.array(is_new)).dictionary_encode()
            ids = np.array(
                [
                    self.text_id(t[2 if t[0] == SHORT_TEXT else 5 :].decode("utf-8", "replace"))
                    for t in texts.dictionary.to_pylist()
                ]
            )
            numbers[is_new] = ids[texts.indices.to_numpy()]
            stored = is_new & (memo >= 0)
            self._texts_at.put(memo[stored], numbers[stored] + 1)
        is_get = np.isin(code, GETS)
        wanted = places[is_get]
        ids = self._texts_at.get(wanted)
        if (ids == 0).any():
            for index in np.unique(wanted[ids == 0]).tolist():
                value = self.memo.get(index)
                if not isinstance(value, str):
                    self.fail(f"value {index:,} of the memo is no text, where one should be")
                self._texts_at.put(np.array([index]), np.array([self.text_id(value) + 1]))
            ids = self._texts_at.get(wanted)
        numbers[is_get] = ids - 1
        return numbers

    def _stacks_of(self, bodies: pa.Array, places: Ints, code: Ints, memo: Ints) -> Ints:
        numbers = np.full(len(code), -1, np.int64)
        is_new = code == LIST
        if is_new.any():
            bodies = bodies.filter(pa.array(is_new)).dictionary_encode()
            ids = np.array([self._stack_of_gets(b) for b in bodies.dictionary.to_pylist()])
            numbers[is_new] = ids[bodies.indices.to_numpy()]
            stored = is_new & (memo >= 0)
            self._stacks_at.put(memo[stored], numbers[stored] + 2)
        is_get = np.isin(code, GETS)
        wanted = places[is_get]
        stacks = self._stacks_at.get(wanted)
        if (stacks == 0).any():
            for index in np.unique(wanted[stacks == 0]).tolist():
                value = self.memo.get(index)
                if not isinstance(value, list):
                    self.fail(f"value {index:,} of the memo is no list of frames")
                number = self.stack_id(value)
                number = -1 if number is None else number
                self._stacks_at.put(np.array([index]), np.array([number + 2]))
            stacks = self._stacks_at.get(wanted)
        numbers[is_get] = stacks - 2
        return numbers

    def _stack_of_gets(self, body: bytes) -> int:
        """Number of a stack by the opcodes of its list; -1 for an empty one."""
        if not body:
            return -1
        number = self._cached.get(body)
        if number is not None:
            return number
        places = np.array(
            [short[0] if short else int.from_bytes(long, "little") for short, long in _gets(body)],
            np.int64,
        )
        ids = self._frames_at.get(places)
        for index in places[ids == 0].tolist():
            frame = self.memo.get(index)
            if not isinstance(frame, dict):
                self.fail(f"value {index:,} of the memo is no frame")
            self._frames_at.put(np.array([index]), np.array([self._frame_id(frame) + 1]))
        number = self._stack_id(self._frames_at.get(places) - 1)
        if self._cached_bytes > _MOST_CACHED:
            self._cached, self._cached_bytes = {}, 0
        self._cached[body] = number
        self._cached_bytes += len(body) + 100
        return number

    def text_id(self, text: str) -> int:
        """Number of a text."""
        number = self._text_ids.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self.texts.append(text)
        return number

    def stack_id(self, frames: Any) -> int | None:
        """Number of a list of frames; None for an empty one."""
        if not isinstance(frames, list) or not frames:
            return None
        ids = [self._frame_id(frame) for frame in frames if isinstance(frame, dict)]
        return self._stack_id(np.array(ids, np.int64)) if ids else None

    def _frame_id(self, frame: dict[Any, Any]) -> int:
        name, file, line = frame.get("name"), frame.get("filename"), frame.get("line")
        is_line = isinstance(line, int) and _BOUNDS[0] <= line < _BOUNDS[1]
        triple = (
            name if isinstance(name, str) else None,
            file if isinstance(file, str) else None,
            line if is_line else None,
        )
        number = self._frame_ids.setdefault(triple, len(self.frames))
        if number == len(self.frames):
            self.frames.append(triple)
        return number

    def _stack_id(self, ids: Ints) -> int:
        key = ids.astype(np.int32).tobytes()
        number = self._stack_ids.setdefault(key, len(self.stacks))
        if number == len(self.stacks):
            self.stacks.append(key)
        return number


def _kind(value: Any) -> Kind | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return "number"
    if isinstance(value, str):
        return "text"
    return "stack" if type(value) is list else None


def _gets(body: bytes) -> list[tuple[bytes, bytes]]:
    """Places in the memo, as bytes, of all items of a list.

    No match begins at what marks its batches, which lies between items.
    """
    pairs: list[tuple[bytes, bytes]] = _ONE_GET.findall(body)
    return pairs


def _is_memoize(column: pa.Array) -> Ints:
    is_memoize: Ints = (_numbers(column)[1] == MEMOIZE).astype(np.int64)
    return is_memoize


def _numbers(column: pa.Array) -> tuple[Ints, Ints]:
    """The number behind each opcode, and the opcode; 0 where there is none."""
    _, offsets_, data_ = column.buffers()
    offsets = np.frombuffer(offsets_, np.int32)[: len(column) + 1].astype(np.int64)
    data = np.zeros(int(offsets[-1]) + 16, np.uint8)
    if data_ is not None:
        data[: offsets[-1]] = np.frombuffer(data_, np.uint8)[: offsets[-1]]
    size = np.diff(offsets)
    start = offsets[:-1]
    code = np.where(size > 0, data[start], 0).astype(np.int64)
    is_long = code == LONG
    skip = 1 + is_long
    count = np.clip(size - skip, 0, 8)
    start = start + skip
    numbers = np.zeros(len(size), np.int64)
    for byte in range(int(count.max(initial=0))):
        numbers |= np.where(byte < count, data[np.minimum(start + byte, len(data) - 1)], 0).astype(
            np.int64
        ) << (8 * byte)
    shift = 64 - 8 * count
    is_signed = (is_long | (code == ord("J"))) & (count > 0)
    signed = (numbers << np.where(is_signed, shift, 0)) >> np.where(is_signed, shift, 0)
    return signed.astype(np.int64), code
