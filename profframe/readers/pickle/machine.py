"""The stack machine of a pickle, for opcodes of plain data in protocols 0 to 5.

`pickletools` describes the opcodes. A container is sealed once nested, which rules out cycles; its
expanded size is then counted once.
"""

from __future__ import annotations

import codecs
import re
import struct
import sys
from bisect import bisect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NoReturn

from profframe.errors import NotATraceError, SourceError
from profframe.readers.pickle import limits

_WHOLE: Final = re.compile(rb"[+-]?\d{1,600}")
_FRAME: Final = 9
_FRAME_CODE: Final = 0x95
"""Bytes of the opcode that begins a frame, with its length, and its code."""
_NEVER: Final = 1 << 62

_REFUSED: Final[Mapping[int, str]] = MappingProxyType(
    {
        ord("c"): "GLOBAL",
        0x93: "STACK_GLOBAL",
        ord("i"): "INST",
        ord("o"): "OBJ",
        ord("R"): "REDUCE",
        ord("b"): "BUILD",
        0x81: "NEWOBJ",
        0x92: "NEWOBJ_EX",
        0x82: "EXT1",
        0x83: "EXT2",
        0x84: "EXT4",
        ord("P"): "PERSID",
        ord("Q"): "BINPERSID",
        0x97: "NEXT_BUFFER",
        0x98: "READONLY_BUFFER",
    }
)
"""Opcodes that name or call code, or data outside of the file."""
_NAMED: Final = (ord("c"), ord("i"))
_CONTAINERS: Final = (list, dict, tuple, set, frozenset)
_KEYS: Final = (str, int, bytes, float, type(None))


class Machine:
    """Decodes one pickle from blocks of bytes; subclasses may take values as they arrive."""

    def __init__(self, blocks: Iterator[bytes], path: Path | str) -> None:
        self.path = path
        self.data = b""
        self.position = 0
        """Place in ``data`` of what is read next."""
        self.passed = 0
        """Bytes of the file before ``data``."""
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.memoised = 0
        """Values that were put into the memo, which numbers the next MEMOIZE."""
        self.is_done = False
        self._blocks = blocks
        self._frame_end: int | None = None
        """Where the next frame may begin, in bytes without opcodes of frames."""
        self._frames = 0
        self._removed: list[tuple[int, int]] = []
        """Where opcodes of frames were removed, and how many bytes until there."""
        self._weights: dict[int, tuple[int, int, Any]] = {}
        """Values and depth of containers as trees, and the container, which keeps its id valid."""
        self._sealed: set[int] = set()
        """Containers that are inside another one."""
        self._stored: set[int] = set()
        """Containers that the memo has."""
        self._held = 0
        """Bytes of memory that values take, as reckoned."""
        self.places = 0
        """Number of places that the memo may have."""
        self._opcode_at = 0

    def value(self) -> Any:
        """Decode all of it."""
        while not self.is_done:
            self.step()
        return self.stack.pop()

    def step(self) -> None:
        """Decode one opcode."""
        self._opcode_at = self.passed + self.position
        if self.position >= len(self.data) and not self.fill(1):
            self._ends()
        code = self.data[self.position]
        self.position += 1
        action = _ACTIONS.get(code)
        if action is None:
            self._refuse(code)
        try:
            action(self)
        except IndexError:
            self.fail("it takes a value from an empty stack")
        except UnicodeDecodeError:
            self.fail("it has text that is not UTF-8")
        if len(self.stack) > limits.MOST_STACK:
            self.fail(f"it has more than {limits.MOST_STACK:,} values in no container")

    def fill(self, count: int) -> bool:
        """Have at least this many bytes in ``data`` from ``position`` on; False at the end."""
        while len(self.data) - self.position < count:
            block = next(self._blocks, None)
            if block is None:
                return False
            parts = [self.data[self.position :], block]
            size = len(parts[0]) + len(block)
            while size < count and (block := next(self._blocks, None)) is not None:
                parts.append(block)
                size += len(block)
            self.passed += self.position
            self.position = 0
            self.data = b"".join(parts)
            self.places = min(limits.MOST_PLACES, self.passed + len(self.data))
            self._remove_frames()
        return True

    def place(self, offset: int) -> int:
        """Offset in the file, from one in its bytes without frame opcodes."""
        row = bisect(self._removed, (offset, _NEVER))
        return offset + (self._removed[row - 1][1] if row else 0)

    def begin_frame(self, size: int) -> None:
        """Note where a frame ends: another one may begin there, even within a value."""
        self._count_frames(self.position)
        self._frame_end = self.passed + self.position + size
        self._remove_frames()

    def _remove_frames(self) -> None:
        """Remove frame opcodes from ``data``: they may be anywhere, and mean nothing."""
        data, first = self.data, 0
        pieces: list[bytes] = []
        while self._frame_end is not None:
            removed = _FRAME * len(pieces)
            end = self._frame_end - self.passed + removed
            if end < self.position or end + _FRAME > len(data):
                break
            if data[end] != _FRAME_CODE:
                self._frame_end = None
                break
            pieces.append(data[first:end])
            first = end + _FRAME
            before = self._removed[-1][1] if self._removed else 0
            self._removed.append((self._frame_end, before + _FRAME))
            self._frame_end += int.from_bytes(data[end + 1 : first], "little")
            self._count_frames(first)
        if pieces:
            self.data = b"".join((*pieces, data[first:]))

    def _count_frames(self, end: int) -> None:
        self._frames += 1
        most = limits.ALWAYS_FRAMES + (self.passed + end) // limits.SPARSEST_FRAMES
        if self._frames > most:
            self.fail(f"it has more than {most:,} frames until here")

    def take(self, count: int) -> bytes:
        """The next bytes of an opcode's argument."""
        if len(self.data) - self.position < count and not self.fill(count):
            self._ends()
        start = self.position
        self.position = start + count
        return self.data[start : self.position]

    def line(self) -> bytes:
        """The next bytes until the end of a line."""
        end = self.data.find(b"\n", self.position)
        while end < 0:
            size = len(self.data) - self.position
            if size > limits.LONGEST_TEXT:
                self.fail("it has a line that never ends")
            if not self.fill(size + 1):
                self._ends()
            end = self.data.find(b"\n", self.position + size)
        line = self.data[self.position : end]
        self.position = end + 1
        return line

    def fail(self, what: str) -> NoReturn:
        """Raise an error that says what is wrong, and where."""
        raise SourceError(
            f"{self.path}: byte {self.place(self._opcode_at):,}: the pickle is damaged: {what}"
        )

    def _ends(self) -> NoReturn:
        size = self.place(self.passed + len(self.data))
        raise SourceError(
            f"{self.path}: the pickle ends early, after {size:,} bytes, within the object that "
            "starts at byte "
            f"{self.place(self._opcode_at):,} (copy or write the file again)"
        )

    def _refuse(self, code: int) -> NoReturn:
        place = f"{self.path}: byte {self.place(self._opcode_at):,}"
        opcode = _REFUSED.get(code)
        if opcode is None:
            if self._opcode_at == 0:
                raise NotATraceError(f"{self.path}: not a trace: it does not begin like a pickle")
            self.fail(f"0x{code:02x} is not an opcode")
        what = ""
        if code in _NAMED:
            names = [self.line()[:80].decode("utf-8", "replace") for _ in range(2)]
            what = " of " + ".".join(names)
        elif opcode == "STACK_GLOBAL":
            names = [name[:80] for name in self.stack[-2:] if isinstance(name, str)]
            what = " of " + ".".join(names) if len(names) == 2 else ""
        raise NotATraceError(
            f"{place}: not a trace: its opcode {opcode}{what} can run code; a snapshot or a dump "
            "has plain data only (nothing was run)"
        )

    # The stack, the memo, and containers.

    def items(self) -> list[Any]:
        """The values above the last mark, taken off the stack."""
        if not self.marks:
            self.fail("it ends a container that never began")
        start = self.marks.pop()
        if len(self.stack) < start:
            self.fail("it takes values below a mark")
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def pop(self) -> Any:
        """The uppermost value, which must be above the last mark."""
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            self.fail("it takes a value from an empty stack")
        return self.stack.pop()

    def top(self, kind: type) -> Any:
        """The uppermost value, a container of this kind, which is about to get items."""
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            self.fail("it takes a value from an empty stack")
        container = self.stack[-1]
        if not isinstance(container, kind):
            self.fail(f"it adds items to something that is not a {kind.__name__}")
        return container

    def store(self, index: int) -> None:
        """Put the uppermost value into the memo."""
        if index >= self.places:
            self.fail(f"it names place {index:,} of a memo that has {self.places:,} at most")
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            self.fail("it takes a value from an empty stack")
        value = self.stack[-1]
        if index not in self.memo:
            self.memoised += 1
            self.hold_bytes(limits.PLACE)
        if isinstance(value, _CONTAINERS):
            self._stored.add(id(value))
        self.memo[index] = value

    def recall(self, index: int) -> None:
        """Put a value of the memo onto the stack."""
        try:
            self.stack.append(self.memo[index])
        except KeyError:
            self.stack.append(self.lost(index))

    def lost(self, index: int) -> Any:
        """A value of the memo that is not in ``memo``."""
        return self.fail_lost(index)

    def fail_lost(self, index: int) -> NoReturn:
        """Raise an error about a value that the memo does not have."""
        self.fail(f"it takes value {index:,} of the memo, which does not exist")

    def hold(self, container: Any, items: list[Any]) -> None:
        """Weigh what is put into a container, and check that it does not contain itself."""
        weights, sealed = self._weights, self._sealed
        before = len(weights)
        weight, depth, _ = weights.get(id(container), (1, 1, container))
        weight += len(items)
        for item in items:
            if isinstance(item, _CONTAINERS):
                inner, deep, _ = weights.setdefault(id(item), (1, 1, item))
                sealed.add(id(item))
                weight += inner
                depth = max(depth, deep + 1)
        if id(container) in sealed:
            self.fail("a container changes after it was put into another one, or into itself")
        if depth > limits.DEEPEST:
            self.fail(f"containers are nested more than {limits.DEEPEST} deep")
        most = limits.ALWAYS_UNFOLDED + limits.UNFOLDED * (self.passed + len(self.data))
        if weight > most:
            self.fail(f"its values, shared through the memo, would expand to {weight:,}")
        weights[id(container)] = weight, depth, container
        more = len(weights) - before
        self.hold_bytes(limits.VALUE * len(items) + limits.CONTAINER * more)

    def hold_bytes(self, size: int) -> None:
        """Count memory that is taken until everything is decoded."""
        self._held += size
        if self._held > limits.MOST_BYTES:
            raise SourceError(
                f"{self.path}: byte {self.place(self._opcode_at):,}: what the pickle holds beside "
                f"records takes more than {limits.MOST_BYTES >> 20} MB of memory"
            )

    def release(self) -> None:
        """Release everything that only decoding needs."""
        self.memo, self._weights, self.data = {}, {}, b""
        self._sealed, self._stored = set(), set()

    def forget(self, container: Any) -> None:
        """Release a dict that was used up, unless another container or the memo has it, too."""
        if self._is_alone(id(container)):
            del self._weights[id(container)]
            self._held -= (limits.KEY + limits.VALUE) * len(container) + limits.CONTAINER

    def _is_alone(self, identity: int) -> bool:
        return (
            identity in self._weights
            and identity not in self._sealed
            and identity not in self._stored
        )

    def put_items(self, container: dict[Any, Any], items: list[Any]) -> None:
        """Add keys and values, one after the other, to a dict."""
        if len(items) % 2:
            self.fail("a dict has a key without a value")
        keys = items[::2]
        for key in keys:
            if not isinstance(key, _KEYS):
                self.fail(f"a dict has a key of type {type(key).__name__}")
        self.hold(container, items[1::2])
        self.hold_bytes(limits.KEY * len(keys))
        container.update(zip(keys, items[1::2], strict=True))

    def put_values(self, container: list[Any], items: list[Any]) -> None:
        """Add items to a list."""
        self.hold(container, items)
        container.extend(items)

    def new_list(self) -> list[Any]:
        """An empty list, which is put onto the stack."""
        return []

    def number(self, count: int) -> int:
        """A signed number of this many bytes."""
        if count > limits.LONGEST_NUMBER:
            self.fail(f"it has a number of {count:,} bytes")
        self.hold_bytes(count)
        return int.from_bytes(self.take(count), "little", signed=True)

    def bytes_of(self, count: int) -> bytes:
        """Text or bytes of a length from the file."""
        if count > limits.LONGEST_TEXT:
            self.fail(f"it has a text of {count:,} bytes")
        return self.take(count)

    def push_text(self, text: str | bytes) -> None:
        """Put a text onto the stack."""
        self.hold_bytes(sys.getsizeof(text))
        self.stack.append(text)


_Action = Callable[[Machine], None]


def _push(value: Any) -> _Action:
    def action(machine: Machine) -> None:
        machine.stack.append(value)

    return action


def _fixed(form: str) -> _Action:
    """A number of a fixed size."""
    packed = struct.Struct(form)

    def action(machine: Machine) -> None:
        machine.stack.append(packed.unpack(machine.take(packed.size))[0])

    return action


def _sized(size: int, make: Callable[[bytes], Any]) -> _Action:
    """Text or bytes after their length, which has this many bytes."""

    def action(machine: Machine) -> None:
        count = int.from_bytes(machine.take(size), "little")
        machine.push_text(make(machine.bytes_of(count)))

    return action


def _long(size: int) -> _Action:
    def action(machine: Machine) -> None:
        machine.stack.append(machine.number(int.from_bytes(machine.take(size), "little")))

    return action


def _get(size: int) -> _Action:
    def action(machine: Machine) -> None:
        machine.recall(int.from_bytes(machine.take(size), "little"))

    return action


def _put(size: int) -> _Action:
    def action(machine: Machine) -> None:
        machine.store(int.from_bytes(machine.take(size), "little"))

    return action


def text_of(data: bytes) -> str:
    """Text; lone halves of surrogate pairs, which no column can hold, become question marks."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return whole_text(data.decode("utf-8", "surrogatepass"))


def whole_text(text: str) -> str:
    """Text without lone halves of surrogate pairs."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _old_text(data: bytes) -> str | bytes:
    """A str of Python 2: text if it is ASCII."""
    return data.decode() if data.isascii() else data


def _proto(machine: Machine) -> None:
    version = machine.take(1)[0]
    if version > 5:
        machine.fail(f"it has protocol {version}, but 5 is the latest one known")


def _frame(machine: Machine) -> None:
    machine.begin_frame(int.from_bytes(machine.take(8), "little"))


def _stop(machine: Machine) -> None:
    if len(machine.stack) != 1 or machine.marks:
        machine.fail(f"it stops with {len(machine.stack)} values instead of one")
    machine.is_done = True


def _mark(machine: Machine) -> None:
    if len(machine.marks) > 4 * limits.DEEPEST:
        machine.fail(f"containers are nested more than {limits.DEEPEST} deep")
    machine.marks.append(len(machine.stack))


def _decimal(machine: Machine) -> None:
    line = machine.line()
    machine.stack.append({b"00": False, b"01": True}.get(line, _whole(machine, line)))


def _decimal_long(machine: Machine) -> None:
    machine.stack.append(_whole(machine, machine.line().removesuffix(b"L")))


def _whole(machine: Machine, line: bytes) -> int:
    if not _WHOLE.fullmatch(line):
        machine.fail(f"it has the number {line[:40]!r}")
    machine.hold_bytes(len(line))
    return int(line)


def _decimal_float(machine: Machine) -> None:
    line = machine.line()
    try:
        machine.stack.append(float(line))
    except ValueError:
        machine.fail(f"it has the number {line[:40]!r}")


def _quoted(machine: Machine) -> None:
    line = machine.line().strip()
    if len(line) < 2 or line[:1] != line[-1:] or line[:1] not in {b"'", b'"'}:
        machine.fail("it has a text without quotes")
    try:
        machine.push_text(_old_text(codecs.escape_decode(line[1:-1])[0]))
    except ValueError:
        machine.fail("it has a text with a wrong escape")


def _escaped(machine: Machine) -> None:
    machine.push_text(whole_text(machine.line().decode("raw-unicode-escape")))


def _line_number(machine: Machine) -> int:
    number = _whole(machine, machine.line())
    if number < 0:
        machine.fail(f"it names place {number} of the memo")
    return number


def _append(machine: Machine) -> None:
    value = machine.pop()
    machine.put_values(machine.top(list), [value])


def _appends(machine: Machine) -> None:
    items = machine.items()
    machine.put_values(machine.top(list), items)


def _setitem(machine: Machine) -> None:
    value = machine.pop()
    key = machine.pop()
    machine.put_items(machine.top(dict), [key, value])


def _setitems(machine: Machine) -> None:
    items = machine.items()
    machine.put_items(machine.top(dict), items)


def _additems(machine: Machine) -> None:
    items = machine.items()
    container = machine.top(set)
    if not all(isinstance(item, _KEYS) for item in items):
        machine.fail("a set has a container in it")
    machine.hold(container, items)
    container.update(items)


def _made(make: Callable[[list[Any]], Any]) -> _Action:
    """A container of everything above the last mark."""

    def action(machine: Machine) -> None:
        items = machine.items()
        container = make(items)
        machine.hold(container, items)
        machine.stack.append(container)

    return action


def _dict(machine: Machine) -> None:
    items = machine.items()
    container: dict[Any, Any] = {}
    machine.put_items(container, items)
    machine.stack.append(container)


def _frozenset(machine: Machine) -> None:
    items = machine.items()
    if not all(isinstance(item, _KEYS) for item in items):
        machine.fail("a set has a container in it")
    container = frozenset(items)
    machine.hold(container, items)
    machine.stack.append(container)


def _short_tuple(count: int) -> _Action:
    def action(machine: Machine) -> None:
        items = [machine.pop() for _ in range(count)][::-1]
        container = tuple(items)
        machine.hold(container, items)
        machine.stack.append(container)

    return action


def _pop(machine: Machine) -> None:
    if machine.marks and machine.marks[-1] == len(machine.stack):
        machine.marks.pop()
    else:
        machine.pop()


def _dup(machine: Machine) -> None:
    machine.stack.append(machine.stack[-1])


def _empty(kind: Callable[[], Any]) -> _Action:
    def action(machine: Machine) -> None:
        machine.stack.append(kind())

    return action


_ACTIONS: Final[Mapping[int, _Action]] = MappingProxyType(
    {
        0x80: _proto,
        0x95: _frame,
        ord("."): _stop,
        ord("("): _mark,
        ord("0"): _pop,
        ord("1"): lambda machine: machine.items().clear(),
        ord("2"): _dup,
        ord("N"): _push(None),
        0x88: _push(True),
        0x89: _push(False),
        ord("I"): _decimal,
        ord("L"): _decimal_long,
        ord("F"): _decimal_float,
        ord("J"): _fixed("<i"),
        ord("K"): _fixed("<B"),
        ord("M"): _fixed("<H"),
        ord("G"): _fixed(">d"),
        0x8A: _long(1),
        0x8B: _long(4),
        ord("S"): _quoted,
        ord("V"): _escaped,
        ord("U"): _sized(1, _old_text),
        ord("T"): _sized(4, _old_text),
        ord("C"): _sized(1, bytes),
        ord("B"): _sized(4, bytes),
        0x8E: _sized(8, bytes),
        0x96: _sized(8, bytes),
        0x8C: _sized(1, text_of),
        ord("X"): _sized(4, text_of),
        0x8D: _sized(8, text_of),
        ord("]"): lambda machine: machine.stack.append(machine.new_list()),
        ord("}"): _empty(dict),
        ord(")"): _empty(tuple),
        0x8F: _empty(set),
        ord("a"): _append,
        ord("e"): _appends,
        ord("s"): _setitem,
        ord("u"): _setitems,
        0x90: _additems,
        0x91: _frozenset,
        ord("l"): _made(list),
        ord("t"): _made(tuple),
        ord("d"): _dict,
        0x85: _short_tuple(1),
        0x86: _short_tuple(2),
        0x87: _short_tuple(3),
        ord("p"): lambda machine: machine.store(_line_number(machine)),
        ord("q"): _put(1),
        ord("r"): _put(4),
        0x94: lambda machine: machine.store(machine.memoised),
        ord("g"): lambda machine: machine.recall(_line_number(machine)),
        ord("h"): _get(1),
        ord("j"): _get(4),
    }
)
"""Handlers of the opcodes of plain data."""
