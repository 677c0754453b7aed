"""JSON from a grammar, sound and damaged in one known place, against a reader in plain Python.

A sound trace has every row that the plain reader has, with the text of every number and no note
that is not due. A damaged one has the rows of its twin, in which the one member that is damaged is
written as it is to be mended, and a note of that damage.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from unittest import mock

from profframe.readers import bytes as reader_bytes
from profframe.readers.build.row_tables import RawTrace
from profframe.readers.json import stream
from profframe.readers.reading import read
from tests.oracles import chrome as oracle

FRAGMENTS: Final = (
    '}, {"ph": "X"', '"}, {"name": "', '"traceEvents": [', "]}", "}]", '"}}]', "{", "[[[", "\\",
    "\\\\", '\\"', 'a\\", "b', '", "b": 1', "C:\\Users\\new", "C:\\ud800\\", "\\ud83d\\ude80",
    "\t\n\r", "\0\x1f\x7f", "\u2028\ufeff\uffff", "日本語 🚀", "f(x: nan, y)", ": NaN,", "[inf]",
    "null", " ", "", ":", ",", "'", "/", "e5", "x" * 300, json.dumps({"x": ["y", {"z": '"}]'}]}),
    json.dumps(json.dumps({"a": "b, c", "d": [1, {"e": "\\"}]})),
)  # fmt: skip
NUMBERS: Final = (
    "0", "-0", "1", "-17", "1e5", "1E+5", "-2.50", "0.1", "1.10", "5e-324", "1e400", "-1e-400",
    "123456789.123456789123456789", "9007199254740993", "18446744073709551616", "9" * 40,
)  # fmt: skip
SHORT: Final = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n",
                "\r": "\\r", "\t": "\\t"}  # fmt: skip
INTEGERS: Final = (
    "External id", "correlation", "device", "stream", "Sequence number", "Fwd thread id", "Ev Idx",
    "Python id", "Python parent id",
)  # fmt: skip
TEXTS: Final = ("Call stack", "Module Hierarchy")
Member = tuple[str, str]


class Grammar:
    """Makes texts of JSON."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.space = rng.choice(["", "", " ", "\n  ", "\r\n\t"])
        self.escapes = rng.choice([0.0, 0.02, 0.5])

    def words(self) -> str:
        """Some text, not yet JSON."""
        return "".join(self.rng.choices(FRAGMENTS, k=self.rng.choice([0, 1, 1, 2, 4])))

    def text(self, words: str | None = None) -> str:
        """Text in quotes, its letters spelled in one way or another."""
        letters = self.words() if words is None else words
        return '"' + "".join(map(self._letter, letters)) + '"'

    def _letter(self, letter: str) -> str:
        if self.rng.random() < self.escapes or (letter < " " and letter not in SHORT):
            units = letter.encode("utf-16-be").hex()
            units = units.upper() if self.rng.random() < 0.5 else units
            return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
        if letter == "/":
            return self.rng.choice(["/", "\\/"])
        return SHORT.get(letter, letter)

    def value(self, depth: int = 3) -> str:
        """Any value."""
        kind = self.rng.randrange(8 if depth else 5)
        if kind < 2:
            return self.rng.choice(NUMBERS)
        if kind < 4:
            return self.text()
        if kind == 4:
            return self.rng.choice(["true", "false", "null"])
        inner = [self.value(depth - 1) for _ in range(self.rng.randrange(4))]
        if kind < 7:
            return self.joined("{}", [f"{self.text(f'k{i}')}:{v}" for i, v in enumerate(inner)])
        return self.joined("[]", inner)

    def joined(self, brackets: str, parts: Sequence[str]) -> str:
        """An object or an array, with spaces."""
        return brackets[0] + f"{self.space},{self.space}".join(parts) + self.space + brackets[1]

    def members(self, members: Sequence[Member]) -> str:
        """An object."""
        return self.joined("{}", [f"{key}{self.space}:{value}" for key, value in members])

    def member(self, key: str, value: object) -> Member:
        """A member; what is no text is a number."""
        return self.text(key), self.text(value) if isinstance(value, str) else str(value)

    def args(self) -> list[Member]:
        """Arguments with a column, and without."""
        rng = self.rng
        members = [self.member(key, rng.randrange(-1, 1 << 40)) for key in self._some(INTEGERS)]
        members += [self.member(key, self.words()) for key in self._some(TEXTS)]
        others = range(rng.randrange(3))
        members += [(self.text(f"{self.words()}{i}"), self.value()) for i in others]
        rng.shuffle(members)
        return members

    def _some(self, names: Sequence[str]) -> list[str]:
        return self.rng.sample(names, self.rng.randrange(min(4, len(names)) + 1))

    def doubled(self, members: list[Member]) -> list[Member]:
        """The members, now and then with one of them a second time, or with a null before it."""
        if members and self.rng.random() < 0.15:
            key, value = self.rng.choice(members)
            again = (self.text(json.loads(key)), self.rng.choice([value, "null"]))
            at = self.rng.randrange(len(members) + 1)
            members = [*members[:at], again, *members[at:]]
        return members

    def time(self) -> str:
        """Microseconds, in any spelling."""
        rng = self.rng
        whole = rng.choice([rng.randrange(1000), rng.randrange(10**15, 4 * 10**15)])
        spelled = rng.choice([f"{whole}", f"{whole}.{rng.randrange(1000):03}", f"{whole}.5"])
        return rng.choice([spelled, spelled, f'"{spelled}"', f"{rng.randrange(99)}e2", "0.0005"])

    def event(self, phases: str = "XXXXBECistfMiN") -> list[Member]:
        """Members of an event of one of the phases."""
        rng = self.rng
        phase = rng.choice(phases)
        members = [self.member("ph", phase)]
        if phase != "M":
            members.append((self.text("ts"), self.time()))
        if phase in "XN":
            members.append((self.text("dur"), self.time()))
        if phase in "stf":
            members += [self.member("id", rng.randrange(9)), self.member("bp", "e")]
        members.append(self.member("name", "process_name" if phase == "M" else self.words()))
        for key in self._some(("cat", "pid", "tid")):
            members.append(self.member(key, rng.choice([rng.randrange(3), self.words()])))
        if phase == "M":
            args = [self.member("name", self.words())]
        elif phase == "C":
            args = [self.member(f"series {i}", i) for i in range(rng.randrange(3))]
        else:
            args = self.args()
            members += [(self.text(f"own {i}"), self.value()) for i in range(rng.choice([0, 0, 2]))]
        members.append((self.text("args"), self.members(self.doubled(args))))
        rng.shuffle(members)
        return self.doubled(members)

    def header(self) -> list[str]:
        """Members around the events."""
        count = self.rng.randrange(3)
        members = [(self.text(f"a {self.words()} {i}"), self.value()) for i in range(count)]
        return [f"{key}{self.space}:{value}" for key, value in self.doubled(members)]

    def document(self) -> Callable[[Sequence[str]], str]:
        """Text of a trace by its events."""
        before, behind = self.header(), self.header()
        is_array = self.rng.random() < 0.3
        key = '"traceEvents"' + self.space + ":"

        def of(events: Sequence[str]) -> str:
            array = self.joined("[]", events)
            return array if is_array else self.joined("{}", [*before, key + array, *behind])

        return of


DAMAGE: Final = (
    ("non_finite_number", "NaN", "null"),
    ("non_finite_number", "-inf", "null"),
    ("non_finite_number", '[1, {"a": Infinity}]', '[1, {"a": null}]'),
    ("hex_number", "0x1F", "31"),
    ("odd_number", "+1", "1"),
    ("odd_number", "007.50", "7.50"),
    ("odd_number", ".5", "0.5"),
    ("bare_word", "N/A", "null"),
    ("bare_word", "None", "null"),
    ("missing_value", "", "null"),
    ("control_byte", '"two\nlines, {\\"a\\": \\"b\\"}]"', '"two\\nlines, {\\"a\\": \\"b\\"}]"'),
    ("raw_backslash", '"C:\\Users\\me\\run.py(3): f"', '"C:\\\\Users\\\\me\\\\run.py(3): f"'),
    ("raw_backslash", '"C:\\Users\\"', '"C:\\\\Users\\\\"'),
    ("lone_surrogate", '"a\\ud83d \\\\ud83d"', '"a\\ufffd \\\\ud83d"'),
    ("invalid_utf8", '"caf\udce9"', '"caf\ufffd"'),
    ("raw_quote", '"say "hi" now"', '"say \\"hi\\" now"'),
    ("raw_quote", '"f("x", "y")"', '"f(\\"x\\", \\"y\\")"'),
)
"""A check, a value that it finds, and what is to become of it."""


def case(seed: int) -> None:
    """One document: sound, or with a damaged member in one event."""
    rng = random.Random(seed)  # noqa: S311
    grammar = Grammar(rng)
    events = [grammar.members(grammar.event()) for _ in range(rng.randrange(16))]
    document = grammar.document()
    sound, damaged, found = events, events, Counter[str]()
    if rng.random() < 0.5 or not events:
        check, broken, mended = rng.choice(DAMAGE)
        found[check] += 1
        at, event, key = rng.randrange(len(events) + 1), grammar.event("X"), grammar.text("damaged")
        put_in = rng.choice([_beside_args, _in_args])
        # Behind a raw backslash nobody can tell the next key, if that has escapes, from more text.
        place = 1.0 if broken.endswith('\\"') and "\\" in grammar.members(event) else rng.random()
        sound, damaged = (
            [*events[:at], grammar.members(put_in(event, (key, value), place)), *events[at:]]
            for value in (mended, broken)
        )
    twin = oracle.read(document(sound))
    twin.found += found
    _compare(_read(document(damaged), rng.choice([32, 300, 1 << 17, 1 << 17])), twin)


def _beside_args(event: Sequence[Member], member: Member, place: float) -> list[Member]:
    at = round(place * len(event))
    return [*event[:at], member, *event[at:]]


def _in_args(event: Sequence[Member], member: Member, place: float) -> list[Member]:
    """The member at the beginning or at the end of the last of the event's arguments."""
    at = max(i for i, (key, _) in enumerate(event) if json.loads(key) == "args")
    key, args = event[at]
    if args == "null":
        return _beside_args(event, member, place)
    inside, text = args[1:-1].strip(), ":".join(member)
    parts = [text, inside] if place < 0.5 else [inside, text]
    return [*event[:at], (key, "{" + ",".join(filter(None, parts)) + "}"), *event[at + 1 :]]


def _read(text: str, size: int) -> RawTrace:
    """Read it with pieces and blocks so small that their borders fall anywhere."""
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(stream, "PIECE", size),
        mock.patch.object(stream, "WAVE", 4 * size),
        mock.patch.object(reader_bytes, "BLOCK", size + 36),
    ):
        path = Path(folder) / "trace.json"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        return read(path, threads=1)


def _compare(trace: RawTrace, plain: oracle.Plain) -> None:
    assert not (wrong := oracle.differences(trace.tables, plain)), wrong
    (row,) = trace.tables["traces"].to_pylist()
    assert json.loads(row["accounted"]) == plain.accounted, row["accounted"]
    noted: Counter[str] = Counter()
    for note in trace.tables["quality"].to_pylist():
        noted[note["issue"]] += note["events"]
    assert noted == plain.found, (noted, plain.found)
    header = {k: v for k, v in plain.header.items() if k != "baseTimeNanoseconds"}
    assert oracle.DECODE(row["metadata"] or "{}") == header, row["metadata"]
