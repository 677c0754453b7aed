"""Long lists of flat dicts in a pickle, as columns: no opcode of most of them is decoded alone.

The first dicts of a list are decoded one by one. They show which keys there are; runs of dicts with
these keys are cut into columns at once (`cutting`). Other dicts are decoded one by one, as before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from profframe.readers.pickle.cutting import EMPTY, GET, VALUE, Column, Cut, Cutter, Kind, joined
from profframe.readers.pickle.machine import Machine, text_of

__all__ = ["Chunk", "Kind", "RecordList", "RecordMachine"]

Ints = npt.NDArray[np.int64]

_CHUNK: Final = 32_768
"""Rows that become columns at once."""
_WINDOW: Final = 4 << 20
_NEAR_END: Final = 1 << 16
_MOST_SHAPES: Final = 6
_MOST_STEPS: Final = 1 << 14
"""Dicts that are cut at once; fewer as long as runs are short."""
_FEWEST_STEPS: Final = 32
_SHORT: Final = 3
_MOST_SKIPPED: Final = 64
"""A run of fewer dicts costs more than it saves: some are decoded alone before the next try."""
_MOST_CACHED: Final = 64 << 20
_BOUNDS: Final = (-(1 << 63), 1 << 63)

_ONE_GET: Final = re.compile(rb"h(.)|j(.{4})", re.DOTALL)
_FRAME_KEYS: Final = frozenset(["name", "filename", "line"])
_PLAIN: Final = (bool, int, float)


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


_Shape = tuple[tuple[str, Kind], ...]
"""Keys of a dict, and kinds of their values."""


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
        self.odd_values = 0
        """Values of keys that are kept that are not of their kind, or too large."""
        self._fields = fields
        self._nested = nested
        self._take = take
        self._prepare = prepare
        self._lists = 0
        self._text_ids: dict[str, int] = {}
        self._frame_ids: dict[tuple[str | None, str | None, int | None], int] = {}
        self._stack_ids: dict[bytes, int] = {}
        self._texts_at, self._frames_at, self._stacks_at = _Numbers(), _Numbers(), _Numbers()
        self._others_at = _Numbers()
        self._other_ids: dict[bytes, int] = {}
        self._key_places: dict[str, list[int]] = {}
        self._shapes: dict[str, list[_Shape]] = {name: [] for name in fields}
        self._cutter = Cutter(b"")
        self._steps = _FEWEST_STEPS
        self._skip, self._skipped = 0, 0
        self._cached: dict[bytes, int] = {}
        self._cached_bytes = 0
        self._pending: str | None = None
        """Name of the lists that the rows are from that are not yet columns."""
        self._rows = 0
        self._list_runs: list[tuple[int, int]] = []
        self._runs: list[tuple[int, Cut]] = []
        """First row of each run, and the run."""
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
        self._others_at = _Numbers()
        self._cached, self._stack_ids, self._other_ids = {}, {}, {}

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
        if number := int(self._others_at.get(place)[0]):
            body = next(islice(self._other_ids, number - 1, None))
            return Machine(iter((body, b".")), self.path).value()
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
        if type(container) is not RecordList:
            return False
        shapes = self._shapes[container.name]
        if self._skip and shapes:
            self._skip -= 1
            return False
        if items := stack[marks[-1] :]:  # dicts before the run that were decoded alone
            del stack[marks[-1] :]
            self.put_values(container, items)
        if not shapes:
            return False
        if len(self.data) - position < _NEAR_END:
            self.fill(_WINDOW)
        if self._cutter.data is not self.data:
            self._cutter = Cutter(self.data)
        places = self._key_places
        run = self._cutter.cut(
            self.position,
            self._steps,
            self.memoised,
            [[(key, kind, places[key]) for key, kind in shape] for shape in shapes],
        )
        self._pace(0 if run is None else run.count)
        if run is None:
            return False
        self._begin(container, run.count)
        self._runs.append((self._rows - run.count, run))
        self.memoised += run.memoised
        self.position = run.end
        return True

    def _pace(self, count: int) -> None:
        """Look at more dicts after a long run, and at none for a while after a short one."""
        if count >= _SHORT:
            self._skipped = 0
            is_long = 2 * count > self._steps
            self._steps = (
                min(_MOST_STEPS, 4 * self._steps)
                if is_long
                else max(_FEWEST_STEPS, self._steps // 2)
            )
        else:
            self._steps = _FEWEST_STEPS
            self._skipped = min(_MOST_SKIPPED, 2 * self._skipped + 1)
            self._skip = self._skipped

    # What the dicts of a list look like.

    def _learn(self, name: str, item: dict[Any, Any]) -> None:
        """Let the pattern match dicts like this one."""
        kinds, shapes = self._fields[name], self._shapes[name]
        if len(shapes) >= _MOST_SHAPES or not item:
            return
        fields: list[tuple[str, Kind]] = []
        for key, value in item.items():
            kind = _kind(value, kinds.get(key))
            if kind is None or key not in self._key_places:
                return
            fields.append((key, kind))
        if (shape := tuple(fields)) not in shapes:
            shapes.append(shape)

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
            self._put_runs(values, is_there)
        self._put_alone(name, values, is_there)
        self._rows, self._list_runs, self._runs, self._alone = 0, [], [], []
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
                if kind is None and value is None:
                    continue
                if kind is None:
                    self.unknown_keys[key] = self.unknown_keys.get(key, 0) + 1
                    continue
                number = self._number(kind, value)
                if number is not None:
                    values[key][row] = number
                    is_there[key][row] = True
                elif value is not None and value != []:
                    self.odd_values += 1

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
        values: Mapping[str, Ints],
        is_there: Mapping[str, npt.NDArray[np.bool_]],
    ) -> None:
        parts: dict[tuple[str, Kind], list[tuple[Ints, Column]]] = {}
        for first, run in self._runs:
            rows = np.arange(first, first + run.count)
            for of, column in run.columns.items():
                parts.setdefault(of, []).append((rows, column))
        columns = {of: joined(of_key, self._rows) for of, of_key in parts.items()}
        # All that is put into the memo, before what is taken from it, under whichever key.
        for (_, kind), column in columns.items():
            self._memoise(kind, column)
        for (key, kind), column in columns.items():
            is_set = column.state != EMPTY
            if key not in values:  # whatever the memo has there
                if count := int(is_set.sum()):
                    self.unknown_keys[key] = self.unknown_keys.get(key, 0) + count
                continue
            numbers = self._recalled(kind, column)
            is_set &= (kind != "stack") | (numbers >= 0)
            values[key][is_set] = numbers[is_set]
            is_there[key][is_set] = True

    def _memoise(self, kind: Kind, column: Column) -> None:
        """Put the numbers of new texts and stacks in place of where they are in the memo."""
        if not len(column.bodies):
            return
        bodies = column.bodies.dictionary_encode()
        number_of = {
            "text": self._text_of_bytes,
            "stack": self._stack_of_gets,
            "other": self._other_of_bytes,
        }[kind]
        ids = np.array([number_of(body) for body in bodies.dictionary.to_pylist()], np.int64)
        numbers = ids[bodies.indices.to_numpy()]
        is_new = column.state == VALUE
        memo = column.numbers[is_new]
        is_stored = memo >= 0
        if kind == "other":
            self._others_at.put(memo[is_stored], numbers + 1)
            return
        if kind == "text":
            self._texts_at.put(memo[is_stored], numbers[is_stored] + 1)
        else:
            self._stacks_at.put(memo[is_stored], numbers[is_stored] + 2)
        column.numbers[is_new] = numbers

    def _recalled(self, kind: Kind, column: Column) -> Ints:
        """Numbers of a column, with those of texts and stacks that the memo has."""
        is_get = column.state == GET
        if kind not in {"text", "stack"} or not is_get.any():
            return column.numbers
        at, least = (self._texts_at, 1) if kind == "text" else (self._stacks_at, 2)
        places = column.numbers[is_get]
        numbers = at.get(places)
        if (unknown := np.unique(places[numbers == 0])).size:
            of_memo = self._text_of_memo if kind == "text" else self._stack_of_memo
            at.put(unknown, np.array([of_memo(i) for i in unknown.tolist()]) + least)
            numbers = at.get(places)
        column.numbers[is_get] = numbers - least
        return column.numbers

    def _other_of_bytes(self, body: bytes) -> int:
        return self._other_ids.setdefault(body, len(self._other_ids))

    def _text_of_bytes(self, body: bytes) -> int:
        try:
            return self.text_id(text_of(body))
        except UnicodeDecodeError:
            self.fail("it has text that is not UTF-8")

    def _text_of_memo(self, index: int) -> int:
        value = self.memo.get(index)
        if not isinstance(value, str):
            self.fail(f"value {index:,} of the memo is no text, where one should be")
        return self.text_id(value)

    def _stack_of_memo(self, index: int) -> int:
        value = self.memo.get(index)
        if not isinstance(value, list):
            self.fail(f"value {index:,} of the memo is no list of frames")
        number = self.stack_id(value)
        return -1 if number is None else number

    def _stack_of_gets(self, body: bytes) -> int:
        """Number of a stack by the opcodes of its list; -1 for an empty one."""
        number = self._cached.get(body)
        if number is not None:
            return number
        # No match begins at what marks the items, which lies before and behind them.
        gets: list[tuple[bytes, bytes]] = _ONE_GET.findall(body)
        if not gets:
            return -1
        places = np.array(
            [short[0] if short else int.from_bytes(long, "little") for short, long in gets],
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
            for key in frame.keys() - _FRAME_KEYS:
                self.unknown_keys[key] = self.unknown_keys.get(key, 0) + 1
        return number

    def _stack_id(self, ids: Ints) -> int:
        key = ids.astype(np.int32).tobytes()
        number = self._stack_ids.setdefault(key, len(self.stacks))
        if number == len(self.stacks):
            self.stacks.append(key)
        return number


def _kind(value: Any, expected: Kind | None) -> Kind | None:
    """How a value like this one is cut; None: not at all."""
    if value is None:
        return expected or "other"
    kind: Kind | None = None
    if type(value) is int and expected is not None:
        kind = "number"
    elif type(value) is str:
        kind = "text"
    elif type(value) is list:
        kind = "stack"
    elif isinstance(value, _PLAIN) or (
        type(value) is tuple and all(item is None or isinstance(item, _PLAIN) for item in value)
    ):
        kind = "other"
    return kind if expected in {None, kind} else None
