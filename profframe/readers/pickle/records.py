"""Long lists of flat dicts in a pickle, as columns: most of their opcodes are not decoded singly.

The first dicts of a list are decoded one by one. They show which keys there are; runs of dicts with
these keys are cut into columns at once (`cutting`). All other dicts are decoded one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from profframe.readers.pickle import limits
from profframe.readers.pickle.contents import FRAME_FIELDS, NUMBERED, Contents
from profframe.readers.pickle.cutting import Cut, Cutter, Dicts, joined
from profframe.readers.pickle.machine import Machine
from profframe.readers.pickle.walking import EMPTY, Kind, Shape, forms_of_key

__all__ = ["Chunk", "Kind", "RecordList", "RecordMachine"]

Ints = npt.NDArray[np.int64]

_CHUNK: Final = 32_768
"""Number of rows that become columns at once."""
_CHUNK_BYTES: Final = 8 << 20
"""Bytes of their runs, in which ten bytes may hold several frames."""
_WINDOW: Final = 4 << 20
_NEAR_END: Final = 1 << 16
_MOST_SHAPES: Final = 6
_WIDEST: Final = 64
"""Keys of a dict that is cut: the walk takes its time for each, even where none has it."""
_PAIR: Final = 100
"""Bytes of a key and its value in a dict that was decoded singly."""
_MOST_STEPS: Final = 1 << 14
"""Number of dicts that are cut at once; fewer as long as runs are short."""
_FEWEST_STEPS: Final = 32
_SHORT: Final = 3
_MOST_SKIPPED: Final = 64
"""A run of fewer dicts costs more than it saves: some are decoded singly before the next try."""
_BOUNDS: Final = (-(1 << 63), 1 << 63)

_PLAIN: Final = (bool, int, float)


class RecordList(list[Any]):
    """A list whose items were taken as they arrived; it stays empty."""

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
    """Numbers, or numbers of texts, stacks and of the texts of tuples; -1 for none."""
    is_there: Mapping[str, npt.NDArray[np.bool_]]


_Shape = tuple[tuple[str, Kind], ...]
"""Keys of a dict, and kinds of their values."""


class RecordMachine(Machine):
    """Decodes a pickle; rows of some lists go to ``take`` in chunks.

    Parameters
    ----------
    blocks, path
        As for a `Machine`.
    fields
        By the name of a key: the fields of the dicts in the list there, or in the lists in it.
    nested
        Names of keys where lists of such lists are.
    take
        Gets the chunks.
    prepare
        Makes the fields of a dict that was decoded singly.
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
        self.contents = Contents(self)
        self.odd_values = 0
        """Number of values of kept keys that have another kind than their key, or are too large."""
        self._fields = fields
        self._nested = nested
        self._take = take
        self._prepare = prepare
        self._lists = 0
        self._key_places: dict[str, list[int]] = {}
        self._shapes: dict[str, list[_Shape]] = {name: [] for name in fields}
        self._frame_shapes: list[_Shape] = []
        self._learned: set[int] = set()
        self._cutter = Cutter(b"", (), 0)
        self._steps = _FEWEST_STEPS
        self._skip, self._skipped = 0, 0
        self._pending: str | None = None
        """Name of the lists whose rows are not yet columns."""
        self._rows = 0
        self._list_runs: list[tuple[int, int]] = []
        self._bytes = 0
        self._runs: list[tuple[int, Dicts]] = []
        """First row of each run, and the run."""
        self._alone: dict[int, tuple[dict[Any, Any], list[int]]] = {}
        """Dicts that were decoded singly, by what they are, with their rows."""

    # What differs from a `Machine`.

    def value(self) -> Any:
        """The value without the rows of the lists."""
        value = super().value()
        self.flush()
        return value

    def release(self) -> None:
        """Release everything that only decoding needs; texts, frames and stacks stay."""
        super().release()
        self.contents.release()

    def step(self) -> None:
        """Decode one opcode, or a run of dicts."""
        is_dict = self.marks and self.data.startswith(b"}", self.position)
        if not (is_dict and self._run()):
            super().step()

    def store(self, index: int) -> None:
        """Put the uppermost value into the memo."""
        super().store(index)
        value = self.stack[-1]
        if type(value) is str and len(self._key_places.get(value, ())) < _MOST_SHAPES:
            self._key_places.setdefault(value, []).append(index)
            self.hold_bytes(limits.PLACE)

    def lost(self, index: int) -> Any:
        """A memoised value that was cut out of a run."""
        self.flush()
        value = self.contents.lost(index)
        if value is None:
            return super().lost(index)
        self.memo[index] = value
        self.hold_bytes(limits.PLACE)
        return value

    def new_list(self) -> list[Any]:
        """A list; for items that are rows, a `RecordList`."""
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
                self.fail(f"a list of {container.name} has a value that is not a dict")
            if len(item) > limits.MOST_KEYS:
                self.fail(f"a record of {container.name} has {len(item):,} keys")
            self._begin(container, 1)
            _, rows = self._alone.setdefault(id(item), (item, []))
            rows.append(self._rows - 1)
            if len(rows) == 1:
                self._bytes += _PAIR * len(item)
                self._learn(container.name, item)
                self.forget(item)

    # Runs.

    def _begin(self, container: RecordList, count: int, size: int = 0) -> None:
        """Count this many more rows of a list, of this many bytes."""
        is_full = self._rows >= _CHUNK or self._bytes >= _CHUNK_BYTES
        if self._pending != container.name or is_full:
            self.flush()
            self._pending = container.name
        container.rows += count
        self._list_runs.append((container.number, count))
        self._rows += count
        self._bytes += size

    def _run(self) -> bool:
        """Take a run of dicts, if one begins with the dict here."""
        marks, stack = self.marks, self.stack
        container = stack[marks[-1] - 1] if marks[-1] else None
        if type(container) is not RecordList:
            return False
        shapes = self._shapes[container.name]
        if self._skip and shapes:
            self._skip -= 1
            return False
        if items := stack[marks[-1] :]:  # dicts before the run that were decoded singly
            del stack[marks[-1] :]
            self.put_values(container, items)
        if not shapes:
            return False
        run = self._cut(shapes)
        self._pace(0 if run is None else run.dicts.count)
        if run is None:
            return False
        count = run.dicts.count
        self._begin(container, count, run.end - self.position)
        self._runs.append((self._rows - count, run.dicts))
        self.memoised += run.memoised
        self.position = run.end
        return True

    def _cut(self, shapes: Sequence[_Shape]) -> Cut | None:
        """The run of dicts that begins here."""
        if len(self.data) - self.position < _NEAR_END:
            self.fill(_WINDOW)
        run = self._run_of(shapes)
        if run is None and len(self.data) - self.position < _WINDOW and self.fill(2 * _WINDOW):
            run = self._run_of(shapes)  # a long one ends there now
        return run

    def _run_of(self, shapes: Sequence[_Shape]) -> Cut | None:
        of_frames = self._with_forms(self._frame_shapes)
        if self._cutter.data is not self.data or self._cutter.shapes != of_frames:
            self._cutter = Cutter(self.data, of_frames, self.places)
        of_rows = self._with_forms(shapes)
        return self._cutter.cut(self.position, self._steps, self.memoised, of_rows)

    def _with_forms(self, shapes: Sequence[_Shape]) -> list[Shape]:
        """Shapes with what may be there for each key."""
        places = self._key_places
        return [
            [(key, kind, forms_of_key(key, places.get(key, ()))) for key, kind in shape]
            for shape in shapes
        ]

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
        """Let runs take dicts like this one, and frames like its own."""
        _add_shape(self._shapes[name], _shape(item, self._fields[name]))
        if len(self._frame_shapes) < _MOST_SHAPES:
            lists = (value for value in item.values() if type(value) is list)
            for frame in chain.from_iterable(frames for frames in lists if self._is_new(frames)):
                if type(frame) is dict and len(frame) <= _WIDEST:
                    _add_shape(self._frame_shapes, _shape(frame, FRAME_FIELDS))

    def _is_new(self, frames: list[Any]) -> bool:
        """Whether a list, which does not change any more, was not looked at before."""
        count = len(self._learned)
        self._learned.add(id(frames))
        return len(self._learned) > count

    # Columns.

    def flush(self) -> None:
        """Turn the collected rows into columns."""
        name, count = self._pending, self._rows
        if name is None or not count:
            return
        numbers, counts = np.array(self._list_runs, np.int64).T
        values = {key: np.full(count, -1, np.int64) for key in self._fields[name]}
        is_there = {key: np.zeros(count, np.bool_) for key in values}
        if self._runs:
            self._put_runs(values, is_there)
        self._put_alone(name, values, is_there)
        self._rows, self._bytes = 0, 0
        self._list_runs, self._runs, self._alone = [], [], {}
        self._take(Chunk(name, np.repeat(numbers, counts), values, is_there))

    def _put_alone(
        self,
        name: str,
        values: Mapping[str, Ints],
        is_there: Mapping[str, npt.NDArray[np.bool_]],
    ) -> None:
        """Rows that were decoded singly."""
        kinds = self._fields[name]
        for item, rows in self._alone.values():
            for key, value in self._prepare(name, item).items():
                kind = kinds.get(key)
                if kind is None and value is None:
                    continue
                if kind is None:
                    self.contents.count_unknown(key, len(rows))
                    continue
                number = self._number(kind, value)
                if number is not None:
                    values[key][rows] = number
                    is_there[key][rows] = True
                elif value is not None and value != []:
                    self.odd_values += len(rows)

    def _number(self, kind: Kind, value: Any) -> int | None:
        if kind == "stack":
            return self.contents.stack_id(value)
        if kind == "text":
            is_text = isinstance(value, str)
            if not is_text and not isinstance(value, _PLAIN):
                return None
            return self.contents.text_id(value if is_text else repr(value))
        if kind == "tuple":
            return self.contents.tuple_id(value)
        if isinstance(value, (int, float)) and _BOUNDS[0] <= value < _BOUNDS[1]:
            return int(value)
        return None

    def _put_runs(
        self,
        values: Mapping[str, Ints],
        is_there: Mapping[str, npt.NDArray[np.bool_]],
    ) -> None:
        """Rows that were cut out."""
        runs = [run for _, run in self._runs]
        rows = [np.arange(first, first + run.count) for first, run in self._runs]
        dicts = joined(runs, rows, self._rows)
        self.contents.memoise(dicts)
        for (key, kind), column in dicts.columns.items():
            is_set = column.state != EMPTY
            if key not in values:  # whatever the memo has there
                self.contents.count_unknown(key, int(is_set.sum()))
                continue
            numbers = self.contents.recalled(kind, column)
            is_set &= (kind not in NUMBERED) | (numbers >= 0)
            values[key][is_set] = numbers[is_set]
            is_there[key][is_set] = True


def _add_shape(shapes: list[_Shape], shape: _Shape) -> None:
    if 0 < len(shape) <= _WIDEST and len(shapes) < _MOST_SHAPES and shape not in shapes:
        shapes.append(shape)


def _shape(item: dict[Any, Any], fields: Mapping[str, Kind]) -> _Shape:
    """How a dict like this one is cut; empty if it is not."""
    shape: list[tuple[str, Kind]] = []
    for key, value in item.items():
        kind = _kind(value, fields.get(key))
        if kind is None or type(key) is not str:
            return ()
        shape.append((key, kind))
    return tuple(shape)


def _kind(value: Any, expected: Kind | None) -> Kind | None:
    """How a value like this one is cut; None if it is not."""
    if value is None:
        return expected or "other"
    kind: Kind | None = None
    is_short = type(value) is tuple and all(
        item is None or isinstance(item, _PLAIN) for item in value
    )
    if expected == "tuple":
        return "tuple" if is_short else None
    if type(value) is int and expected is not None:
        kind = "number"
    elif type(value) is str:
        kind = "text"
    elif type(value) is list:
        kind = "stack"
    elif isinstance(value, _PLAIN) or is_short:
        kind = "other"
    return kind if expected in {None, kind} else None
