"""Texts, frames and stacks of a pickle, each once, and their places in its memo."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from profframe.readers.pickle import limits
from profframe.readers.pickle.cutting import Dicts, Items, KeyColumn
from profframe.readers.pickle.machine import Machine, text_of
from profframe.readers.pickle.walking import EMPTY, GET, ITEMS, VALUE, Kind

__all__ = ["FRAME_FIELDS", "NUMBERED", "Contents"]

Ints = npt.NDArray[np.int64]
Frame = tuple[Any, ...]
"""Values of a frame by the keys of `FRAME_FIELDS`."""

FX_FIELDS: Final = ("fx_node_op", "fx_node_name", "fx_node_target", "fx_original_trace")
"""What `_dump_snapshot(augment_with_fx_traces=True)` adds to frames of code that FX generated."""
FRAME_FIELDS: Final[Mapping[str, Kind]] = {
    "name": "text", "filename": "text", "line": "number", **dict.fromkeys(FX_FIELDS, "text"),
}  # fmt: skip
NUMBERED: Final = ("text", "stack", "tuple")
"""Kinds whose values are numbers of what they are."""
_FRAME: Final = "frame"
_CODES: Final = {"text": 0, "stack": 1, "other": 2, _FRAME: 3}
_NOTHING: Final = -2
_NONE: Final = -1
"""The number of an empty stack, and of what is not what it should be."""
_MOST_CACHED: Final = 64 << 20
_NUMBERED: Final = 160
"""Bytes of memory of the number of a text, frame, stack or key, beside its own."""
_BOUNDS: Final = (-(1 << 63), 1 << 63)
_LOW: Final = 0xFFFF_FFFF
_MOST_NUMBERS: Final = 3
"""Numbers of a tuple that is kept, as of those that are cut."""
_ONE_GET: Final = re.compile(rb"h(.)|j(.{4})", re.DOTALL)


class _Memo:
    """Kinds and numbers by place in the memo."""

    def __init__(self, hold_bytes: Callable[[int], None]) -> None:
        self._values = np.zeros(1 << 12, np.uint32)
        self._hold_bytes = hold_bytes

    def put(self, kind: str, places: Ints, numbers: Ints) -> None:
        """Put these at these places; -1 is no place."""
        is_place = places >= 0
        if not is_place.all():
            places, numbers = places[is_place], numbers[is_place]
        if not len(places):
            return
        if (most := int(places.max())) >= len(self._values):
            # In place: memory after the end stays untouched until it is used.
            size = max(most + 1, len(self._values) * 5 // 4)
            self._hold_bytes((size - len(self._values)) * self._values.itemsize)
            self._values.resize(size, refcheck=False)
        self._values[places] = (numbers - _NOTHING << 2) | _CODES[kind]

    def get(self, kind: str, places: Ints) -> Ints:
        """The numbers of this kind; -2 where there is none."""
        is_here = places < len(self._values)
        values = np.where(is_here, self._values[np.where(is_here, places, 0)], 0).astype(np.int64)
        is_kind = (values > 3) & ((values & 3) == _CODES[kind])
        return np.where(is_kind, (values >> 2) + _NOTHING, _NOTHING)


class Contents:
    """Texts, frames and stacks by their numbers.

    Parameters
    ----------
    machine
        Has the memo of values that were decoded singly, and raises errors with their position.
    """

    def __init__(self, machine: Machine) -> None:
        self.texts: list[str] = []
        self.frames: list[Frame] = []
        self.stacks: list[bytes] = []
        """Numbers of frames of each stack, as bytes."""
        self.unknown_keys: dict[str, int] = {}
        """Keys that are not kept, and how many records and distinct frames have a value there."""
        self._unknown_of_frames: set[tuple[Any, int]] = set()
        self.odd_values = 0
        """Number of values in the memo that are used as text or a list of frames, and are not."""
        self._odd_places: set[int] = set()
        self._machine = machine
        self._hold_bytes = machine.hold_bytes
        self._memo = _Memo(machine.hold_bytes)
        self._text_ids: dict[str, int] = {}
        self._frame_ids: dict[Frame, int] = {}
        self._stack_ids: dict[bytes, int] = {}
        self._other_ids: dict[bytes, int] = {}
        self._others: list[bytes] = []
        self._of_objects: dict[int, tuple[object, int | None]] = {}
        """Numbers of lists and frames that were decoded singly, by what they are; that stays, so
        that each is walked once, however many values share it."""
        self._cached: dict[bytes, int] = {}
        self._cached_bytes = 0

    def release(self) -> None:
        """Release everything that only decoding needs; texts, frames and stacks stay."""
        self._memo = _Memo(self._hold_bytes)
        self._cached, self._stack_ids, self._other_ids, self._others = {}, {}, {}, []
        self._of_objects = {}

    # What was decoded by itself.

    def text_id(self, text: str) -> int:
        """Number of a text."""
        number = self._text_ids.setdefault(text, len(self.texts))
        if number == len(self.texts):
            self._hold_bytes(sys.getsizeof(text) + _NUMBERED)
            self.texts.append(text)
        return number

    def tuple_id(self, value: Any) -> int | None:
        """Number of the text of a short tuple or list of numbers, as JSON; None for others."""
        is_short = isinstance(value, (tuple, list)) and 0 < len(value) <= _MOST_NUMBERS
        if not is_short or not all(
            type(item) is int and _BOUNDS[0] <= item < _BOUNDS[1] for item in value
        ):
            return None
        return self.text_id(json.dumps(value, separators=(",", ":")))

    def stack_id(self, frames: Any) -> int | None:
        """Number of a list of frames; None for an empty one."""
        if not isinstance(frames, list) or not frames:
            return None
        return self._once(frames, self._stack_id_of)

    def _once(self, value: Any, number_of: Callable[[Any], int | None]) -> int | None:
        """The number of an object, which does not change; it is looked at once."""
        if (earlier := self._of_objects.get(id(value))) is not None:
            return earlier[1]
        number = number_of(value)
        self._hold_bytes(_NUMBERED)
        self._of_objects[id(value)] = value, number
        return number

    def _stack_id_of(self, frames: list[Any]) -> int | None:
        ids = [self._once(frame, self._frame_id) for frame in frames if isinstance(frame, dict)]
        return self._stack_id(np.array(ids, np.int32).tobytes()) if ids else None

    def _frame_id(self, frame: dict[Any, Any]) -> int:
        values = [frame.get(key) for key in FRAME_FIELDS]
        kept = [
            _line(value) if key == "line" else value if isinstance(value, str) else None
            for key, value in zip(FRAME_FIELDS, values, strict=True)
        ]
        self.odd_values += sum(
            one is None and value is not None for one, value in zip(kept, values, strict=True)
        )
        number = self._number_of_frame(tuple(kept))
        for key, value in frame.items():
            if key not in FRAME_FIELDS and value is not None:
                self._count_of_frame(key, number)
        return number

    def _number_of_frame(self, frame: Frame) -> int:
        number = self._frame_ids.setdefault(frame, len(self.frames))
        if number == len(self.frames):
            fx = sum(len(text) for text in frame[3:] if text is not None)
            self._hold_bytes(_NUMBERED + fx)
            self.frames.append(frame)
        return number

    def _stack_id(self, ids: bytes) -> int:
        """Number of a stack by those of its frames; -1 for one without frames."""
        if not ids:
            return _NONE
        number = self._stack_ids.setdefault(ids, len(self.stacks))
        if number == len(self.stacks):
            self._hold_bytes(len(ids) + _NUMBERED)
            self.stacks.append(ids)
        return number

    # What was cut out of runs.

    def lost(self, index: int) -> Any:
        """The memoised value at a place, if it was cut out of a run; else None."""
        place = np.array([index])
        numbers = {kind: int(self._memo.get(kind, place)[0]) for kind in _CODES}
        if (number := numbers["text"]) != _NOTHING:
            return self.texts[number]
        if (number := numbers[_FRAME]) != _NOTHING:
            return self._frame(number)
        if (number := numbers["stack"]) != _NOTHING:
            ids = self.stacks[number] if number != _NONE else b""
            self._hold_bytes(limits.CONTAINER * (len(ids) >> 2))
            return [self._frame(i) for i in np.frombuffer(ids, np.int32).tolist()]
        if (number := numbers["other"]) != _NOTHING:
            return self.value_of_bytes(self._others[number])
        return None

    def value_of_bytes(self, body: bytes) -> Any:
        """The value of the opcodes of a number or a short tuple."""
        return Machine(iter((body, b".")), self._machine.path).value()

    def _frame(self, number: int) -> dict[str, Any]:
        return dict(zip(FRAME_FIELDS, self.frames[number], strict=True))

    def memoise(self, dicts: Dicts) -> None:
        """Number what dicts put into the memo, before anything is read from it."""
        columns = [*dicts.every()]
        for kind, column in columns:
            if kind in {"text", "other"}:
                self._memoise(kind, column)
            elif kind == "tuple":
                self._memoise_tuples(column)
        with_items: list[tuple[KeyColumn, Items, Ints]] = []
        for _, column in columns:
            if column.items is not None:
                frames = self._frames_of(column.items.dicts)
                self._memo.put(_FRAME, column.items.dicts.places, frames)
                with_items.append((column, column.items, frames))
        for kind, column in columns:
            if kind == "stack":
                self._memoise(kind, column)
        for column, items, frames in with_items:
            self._memoise_items(column, items, frames)

    def recalled(self, kind: Kind, column: KeyColumn) -> Ints:
        """Numbers of a column that was memoised, including those from the memo; -1 for none."""
        is_get = column.state == GET
        if kind not in NUMBERED or not is_get.any():
            return column.numbers
        numbers = column.numbers.copy()
        places = numbers[is_get]
        if kind == "tuple":
            distinct, at = np.unique(places, return_inverse=True)
            ids = [self._tuple_of_memo(place) for place in distinct.tolist()]
            numbers[is_get] = np.array(ids, np.int64)[at]
        else:
            of_memo = self._text_of_memo if kind == "text" else self._stack_of_memo
            numbers[is_get] = self._of_memo(kind, places, of_memo)
        if self._odd_places:
            self.odd_values += int(np.isin(places, [*self._odd_places]).sum())
        return numbers

    def _of_memo(self, kind: str, places: Ints, of_memo: Callable[[int], int]) -> Ints:
        """Numbers of what the memo has at some places."""
        numbers = self._memo.get(kind, places)
        if (unknown := np.unique(places[numbers == _NOTHING])).size:
            self._memo.put(kind, unknown, np.array([of_memo(i) for i in unknown.tolist()]))
            numbers = self._memo.get(kind, places)
        return numbers

    def _memoise(self, kind: Kind, column: KeyColumn) -> None:
        """Replace places in the memo by the numbers of new texts and stacks."""
        if not len(column.bodies):
            return
        bodies = column.bodies.dictionary_encode()
        number_of = {
            "text": self._text_of_bytes,
            "stack": self._stack_of_gets,
            "other": self._other_of_bytes,
        }[kind]
        ids = np.array([number_of(body) for body in bodies.dictionary.to_pylist()], np.int64)
        is_new = column.state == VALUE
        if kind == "other":
            is_new &= column.numbers >= 0
        self._put(kind, column, is_new, ids[bodies.indices.to_numpy()])

    def _memoise_tuples(self, column: KeyColumn) -> None:
        """Replace places of tuples in the memo, which keeps their opcodes, by numbers of texts."""
        rows = column.state == VALUE
        if not rows.any():
            return
        bodies = column.bodies.dictionary_encode()
        distinct = bodies.dictionary.to_pylist()
        at = bodies.indices.to_numpy()
        others = np.array([self._other_of_bytes(body) for body in distinct], np.int64)
        values = (self.value_of_bytes(body) for body in distinct)
        ids = np.array(
            [_NONE if (n := self.tuple_id(value)) is None else n for value in values], np.int64
        )[at]
        self._memo.put("other", column.numbers[rows], others[at])
        column.numbers[rows] = ids
        self.odd_values += int(np.count_nonzero(ids == _NONE))

    def _memoise_items(self, column: KeyColumn, items: Items, frames: Ints) -> None:
        """Replace places of frame lists in the memo by the numbers of stacks."""
        is_here = items.gets < 0
        ids = np.empty(len(items.gets), np.int32)
        ids[is_here] = frames
        ids[~is_here] = self._of_memo(_FRAME, items.gets[~is_here], self._frame_of_memo)
        of_list = np.repeat(np.arange(len(items.counts)), items.counts)[ids >= 0]
        counts, ids = np.bincount(of_list, minlength=len(items.counts)), ids[ids >= 0]
        offsets = np.append([0], np.cumsum(4 * counts)).astype(np.int32)
        bodies = pa.Array.from_buffers(
            pa.binary(), len(counts), [None, pa.py_buffer(offsets), pa.py_buffer(ids)]
        ).dictionary_encode()
        numbers = np.array([self._stack_id(b) for b in bodies.dictionary.to_pylist()], np.int64)
        self._put("stack", column, column.state == ITEMS, numbers[bodies.indices.to_numpy()])

    def _put(
        self, kind: Kind, column: KeyColumn, rows: npt.NDArray[np.bool_], numbers: Ints
    ) -> None:
        self._memo.put(kind, column.numbers[rows], numbers)
        column.numbers[rows] = numbers

    def _frames_of(self, dicts: Dicts) -> Ints:
        """Numbers of dicts that are frames."""
        name, file = (self._numbers_of_text(dicts, key) for key in ("name", "filename"))
        names_files, pairs = _encoded(pa.array((name + 1 << 32) | file + 1))
        line = dicts.columns.get(("line", "number"))
        lines = pa.nulls(dicts.count, pa.int64())
        if line is not None:
            lines = pa.array(line.numbers, mask=line.state == EMPTY)
        of_lines, distinct_lines = _encoded(lines)
        of_places, places = _encoded(pa.array(names_files << 32 | of_lines))
        of_fx, nodes = self._fx_of(dicts)
        of_both, both = _encoded(pa.array(of_places << 32 | of_fx))
        ids = np.empty(len(both), np.int64)
        for i, one in enumerate(both):
            place = places[one >> 32]
            name_file, of_line = pairs[place >> 32], distinct_lines[place & _LOW]
            ids[i] = self._number_of_frame((
                self._text(name_file >> 32), self._text(name_file & _LOW), of_line,
                *(self._text(number) for number in nodes[one & _LOW]),
            ))  # fmt: skip
        for (key, _), column in dicts.columns.items():
            if key not in FRAME_FIELDS:
                for i in np.unique(of_both[column.state != EMPTY]).tolist():
                    self._count_of_frame(key, int(ids[i]))
        return ids[of_both]

    def _fx_of(self, dicts: Dicts) -> tuple[Ints, list[list[int]]]:
        """What FX says of each frame, by a number, and its texts by their numbers from 1 on."""
        none = np.zeros(dicts.count, np.int64)
        if not any((key, "text") in dicts.columns for key in FX_FIELDS):
            return none, [[0] * len(FX_FIELDS)]
        columns = [self._numbers_of_text(dicts, key) + 1 for key in FX_FIELDS]
        distinct, at = np.unique(np.column_stack(columns), axis=0, return_inverse=True)
        return at.reshape(-1).astype(np.int64), distinct.tolist()

    def _text(self, number: int) -> str | None:
        """A text by its number from 1 on; None for 0."""
        return self.texts[number - 1] if number else None

    def _numbers_of_text(self, dicts: Dicts, key: str) -> Ints:
        column = dicts.columns.get((key, "text"))
        if column is None:
            return np.full(dicts.count, -1)
        return np.where(column.state == EMPTY, -1, self.recalled("text", column))

    def count_unknown(self, key: Any, count: int = 1) -> None:
        """Count values of a key that is not kept."""
        key = key if isinstance(key, str) else repr(key)
        if count:
            if key not in self.unknown_keys:
                self._hold_bytes(_NUMBERED)
            self.unknown_keys[key] = self.unknown_keys.get(key, 0) + count

    def _count_of_frame(self, key: Any, number: int) -> None:
        """Count a key that is not kept, once for each frame."""
        if (key, number) not in self._unknown_of_frames:
            self._hold_bytes(_NUMBERED)
            self._unknown_of_frames.add((key, number))
            self.count_unknown(key)

    def _other_of_bytes(self, body: bytes) -> int:
        number = self._other_ids.setdefault(body, len(self._others))
        if number == len(self._others):
            self._hold_bytes(len(body) + _NUMBERED)
            self._others.append(body)
        return number

    def _text_of_bytes(self, body: bytes) -> int:
        try:
            return self.text_id(text_of(body))
        except UnicodeDecodeError:
            self._machine.fail("it has text that is not UTF-8")

    def _text_of_memo(self, index: int) -> int:
        value = self._value_of_memo(index)
        return self.text_id(value) if isinstance(value, str) else self._odd(index)

    def _value_of_memo(self, index: int) -> Any:
        memo = self._machine.memo
        value = memo[index] if index in memo else self.lost(index)
        if value is None and index not in memo:
            self._machine.fail_lost(index)
        return value

    def _odd(self, index: int) -> int:
        """Note that the memo has something else than it should there."""
        self._odd_places.add(index)
        return _NONE

    def _frame_of_memo(self, index: int) -> int:
        value = self._value_of_memo(index)
        if not isinstance(value, dict):
            return _NONE
        return self._once(value, self._frame_id)  # type: ignore[return-value]

    def _stack_of_memo(self, index: int) -> int:
        value = self._value_of_memo(index)
        if not isinstance(value, list):
            return self._odd(index)
        number = self.stack_id(value)
        return _NONE if number is None else number

    def _tuple_of_memo(self, index: int) -> int:
        number = self.tuple_id(self._value_of_memo(index))
        return self._odd(index) if number is None else number

    def _stack_of_gets(self, body: bytes) -> int:
        """Number of a stack by the opcodes of its list; -1 for an empty one."""
        number = self._cached.get(body)
        if number is not None:
            return number
        # No match begins at the marks of items, which are before and after them.
        gets: list[tuple[bytes, bytes]] = _ONE_GET.findall(body)
        if not gets:
            return _NONE
        places = np.array(
            [short[0] if short else int.from_bytes(long, "little") for short, long in gets],
            np.int64,
        )
        ids = self._of_memo(_FRAME, places, self._frame_of_memo)
        number = self._stack_id(ids[ids >= 0].astype(np.int32).tobytes())
        if self._cached_bytes > _MOST_CACHED:
            self._cached, self._cached_bytes = {}, 0
        self._cached[body] = number
        self._cached_bytes += len(body) + 100
        return number


def _line(value: Any) -> int | None:
    is_line = isinstance(value, int) and _BOUNDS[0] <= value < _BOUNDS[1]
    return int(value) if is_line else None


def _encoded(values: pa.Array) -> tuple[Ints, list[Any]]:
    """Numbers of values, and the values."""
    encoded = values.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()
