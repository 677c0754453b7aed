"""Trace documents by chance: every phase, every spelling, and damage; text only, nothing is read.

Documents come in sets. A set has some of the `ODDITIES`, each of its documents more or less of
them, so that there are plain ones, and of each oddity some that have no other.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from profframe.native.scan import Kind
from profframe.readers.chrome.scanned import KEYS
from tests.fuzz.documents import DAMAGE

ODDITIES: Final = (
    "numbers", "times", "types", "escapes", "unicode escapes", "escaped names", "half surrogates",
    "invalid UTF-8", "control bytes", "non-finite", "deep", "other members", "links", "doubled",
    "missing", "order", "old names", "own columns", "many members", "space", "no members",
    "fine times",
)  # fmt: skip
RARE: Final = {
    "half surrogates": 0.1, "invalid UTF-8": 0.1, "control bytes": 0.1, "non-finite": 0.1,
    "deep": 0.15, "own columns": 0.1, "many members": 0.04, "no members": 0.1, "doubled": 0.2,
}  # fmt: skip
"""How many sets have an oddity; a third have each of the others."""
TAKEN: Final = frozenset(
    ("escapes", "other members", "missing", "order", "old names", "space", "fine times")
)
"""Those that the scanner takes: they need no piece of their own."""

_INTEGERS: Final = ("0", "7", "-1", "12", "12345", "2147483648", "1099511627776", "null")
_NUMBERS: Final = (
    "1.10", "1e5", "1E+5", "-0", "-0.0", "0.0", "-2.50", "0.1", "5e-324", "1e400", "-1e-400", "0e0",
    "100000000000000000000", "12345678901234567890", "-9223372036854775808", "9223372036854775807",
    "9223372036854775808", "18446744073709551616", "123456789.123456789123456789",
    "999999999999999",
    "1234567890123456", "12345678901234567", "123456789012345678", "1234567890123456789", "9" * 40,
    "0.00001", "0.0001", "1e22", "1.7976931348623157e308", "4.35", "0.30000000000000004", "1.0",
    "9007199254740993", "1e-7", "0.1234567890123456", "0.12345678901234567",
    "1000000000000000000000",
)  # fmt: skip
_NEARLY_PLAIN: Final = ("-0", "123456789012345", "1234567890123456")
"""Numbers that only a rule of its own tells from plain ones: they come more often."""
_PLAIN_NUMBERS: Final = ("0", "1", "-17", "64", "1024", "999999999", "123456789012345")
_TIMES: Final = ("0", "1", "12.5", "1712195495519689.047", "100.001", "-1.25", "3.000", "250")
_ODD_TIMES: Final = (
    "0.0005", "0.000499", "-0.0005", "-0.0015", "3.1234567", "1e3", "4000000000000000", '"12"',
    "4000000000000001", '"12.5"', "null", "18446744073709551616", "12.50e2", "1.1e-3", "0.1234564",
    "true", '"x"', "{}", "[1]", '"1e3"', "9999999999999999999999", "-0", '""', "1e400", "1.0000005",
)  # fmt: skip
_FINE_TIMES: Final = (
    "0.0005", "0.000499", "-0.0005", "-0.0015", "4000000000000000", "-0", "0.123456", "-0.000501",
    "1.0000", "7.999500",
)  # fmt: skip
_DECIMALS: Final = ("0", "0.5", "42.25", "100", "0.1234567890123456789", "null", "3", "1.10", "-1")
_WORDS: Final = (
    "aten::add", "aten::mm", "void f<T, 3>(T&&)", "ampere_sgemm_32x32", "{", "}", "[", "]",
    ",", ":",
    "'", "null", "NaN", "a b", "", " ", "x" * 40, "5", "-3", "[0, 1]", "[]", "nccl", "}, {", "/",
    "1.10", "module.layer.0", "f.py(3): g", "f.py(3): g;h.py(4): i;", "Infinity: 1,", "日本語", "é",
    "🚀", "\u2028", "\x7f", "\ufeff\uffff", "\u07ff\u0800", "\U0010ffff\U00010000", "\x80\u00a0",
    "b" * 15, "c" * 16, "d" * 17, "日" * 6,
)  # fmt: skip
_ESCAPES: Final = (
    '\\"', "\\\\", "\\b", "\\f", "\\n", "\\r", "\\t", '}, {\\"ph\\": \\"X\\"',
    '\\"}, {\\"name\\": \\"',
    "C:\\\\Users\\\\new", "\\\\\\\\", '\\\\\\"',
)  # fmt: skip
_UNICODE: Final = (
    "\\u00e9", "\\u0041", "\\uD83D\\uDE80", "\\ud83d\\ude80", "\\u2028", "\\u0000", "\\u001f",
    "\\/",
    "\\u001F\\u0008", "\\u007f", "\\u0022", "\\u005c", "\\u003a", "\\uFFFF", "\\u005C\\u005cn",
)  # fmt: skip
_HALVES: Final = ("\\ud83d", "\\ude80", "\\ud83dx", "\\ud83d\\ud83d\\ude80", "\\uDC00")
_BAD: Final = (
    "\udcff", "\udcc3", "\udced\udca0\udc80", "\udcf4\udc90\udc80\udc80", "\udcc0\udc80",
    "\udce2\udc82", "\udcf5\udc80\udc80\udc80", "\udc80", "\udcf0\udc9f\udc9a",
)  # fmt: skip
_RAW: Final = ("\x01", "\n", "\t", "\x00", "\x1f", "\r\n")
_CATEGORIES: Final = (
    "cpu_op", "kernel", "gpu_memcpy", "gpu_memset", "cuda_runtime", "cuda_driver", "cuda_sync",
    "user_annotation", "gpu_user_annotation", "python_function", "ac2g", "fwdbwd", "Trace",
    "overhead",
    "cpu_instant_event", "cuda_profiler_range", "Kernel", "graph_dependency",
)  # fmt: skip
_NAMES: Final = (
    "aten::add", "aten::mm", "record_param_comms", "ncclDevKernel_AllReduce", "cudaLaunchKernel",
    "ProfilerStep#3", "hcom_allReduce__123_0_1", "Record Window End", "PyTorch Profiler (0)",
    "GPU 0 Power (W)", "f.py(3): g", "_ZN2at6native4sortE",
)  # fmt: skip
_LABELS: Final = (
    ("process_name", "name"), ("process_labels", "labels"), ("process_sort_index", "sort_index"),
    ("thread_name", "name"), ("thread_sort_index", "sort_index"), ("other_label", "name"),
)  # fmt: skip
_IDS: Final = ("0", "1", "7", '"stream 7"', '"Spans"', "2147483648", '"5"', '""', "null", '"日本"')
_SPACES: Final = ("", "", "", " ", "\n", "\n  ", "\r\n\t", " \t", "    ")
_JUNK: Final = (
    '"', "\\", "{", "}", "[", "]", ",", ":", "\x00", "\n", "\udcff", "NaN", "0x1", "N/A",
    ",,", "]}",
    "}{", '"ph":"X",', "01", "+1", ".5", "5.", "-", "e", "tru", "'a'", "/**/", "\ufeff",
)  # fmt: skip
_VALUES_OF_LAUNCHES: Final = ("[1, 2, 3]", '"[128,1,1]"', "[1,1,1]", '""', "null")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A document, and what is known of it.

    Attributes
    ----------
    text
        Its bytes.
    twin
        A document that is sound and has the same events, for one with a known damage.
    checks
        What is found then, besides what is found in the twin.
    damage
        How it was damaged otherwise, in one word.
    oddities
        What it may have.
    """

    text: bytes
    twin: bytes | None = None
    checks: Counter[str] = field(default_factory=Counter)
    damage: str = ""
    oddities: frozenset[str] = frozenset()


class Drawer:
    """Draws the documents of a set.

    Parameters
    ----------
    seed
        The same seed draws the same documents.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)  # noqa: S311
        self.has = frozenset(each for each in ODDITIES if self.rng.random() < RARE.get(each, 0.33))
        self.now = self.has
        self.oddness = 0.0
        self.space = ""

    def document(self) -> Drawn:
        """The next document."""
        rng = self.rng
        self.oddness = rng.choice((0.0, 0.0, 0.01, 0.05, 0.3))
        # Most have few others at once: what one hides in a piece is looked at in the next.
        others = sorted(self.has - TAKEN)
        some = rng.sample(others, min(len(others), rng.choice((1, 1, 1, 2, len(others)))))
        self.now = (self.has & TAKEN) | {*some}
        self.space = rng.choice(_SPACES) if "space" in self.has else ""
        events = [self.event() for _ in range(rng.choice((1, 1, 2, 3, 5, 8, 8, 20)))]
        if self._odd("no members"):
            events.insert(
                rng.randrange(len(events) + 1), rng.choice(("{}", "{ }", "null", "[]", "1"))
            )
        if rng.random() < 0.01:
            events = []
        whole = self._around()
        oddities = self.now if self.oddness else self.now & TAKEN
        kind = rng.random()
        if kind < 0.05:
            return self._with_known_damage(whole, events, oddities)
        text = whole(events)
        damage = ""
        if kind < 0.15:
            damage, text = self._damaged(text)
        return Drawn(_bytes(text), damage=damage, oddities=oddities)

    def _odd(self, what: str, share: float = 1.0) -> bool:
        likely = 0.1 if what in TAKEN else self.oddness * share
        return what in self.now and self.rng.random() < likely

    def event(self) -> str:
        """An event."""
        rng = self.rng
        phase = rng.choice("XXXXXXXXBEBEbeSFbestfstfCCiIMMMNODPnTR")
        members = [("ph", f'"{phase}"')]
        memory = phase in "iIX" and rng.random() < 0.15
        if phase == "M":
            name, key = rng.choice(_LABELS)
            if rng.random() < 0.1:
                members.append(("ts", self._time()))
            members.append(("name", f'"{name}"'))
            value = self.text() if rng.random() < 0.7 else self._integer()
            args = self._object([(key, value)])
        else:
            members.append(("ts", self._time()))
            if phase in "XN" or rng.random() < 0.05:
                members.append(("dur", self._time()))
            name = (
                '"[memory]"'
                if memory
                else f'"{rng.choice(_NAMES)}"'
                if rng.random() < 0.6
                else self.text()
            )
            members.append(("name", name))
            args = self._args(phase, is_memory=memory)
        if memory:
            category = rng.choice((*("cpu_instant_event",) * 5, *_CATEGORIES[:2], ""))
            members += [("cat", f'"{category}"')] if category else []
        elif rng.random() < 0.95:
            is_known = rng.random() < 0.95
            members.append(("cat", f'"{rng.choice(_CATEGORIES)}"' if is_known else self.text()))
        members += [(key, self._id()) for key in ("pid", "tid")]
        if phase in "stfbeSFCnTNODi":
            members.append(("id", self._id()))
        if phase in "stf" and rng.random() < 0.6:
            members.append(("bp", '"e"'))
        if phase in "iIR":
            members.append(("s", f'"{rng.choice("tpg")}"'))
        if args:
            members.append(("args", args))
        return self._object(self._with_oddities(members))

    def _with_oddities(self, members: list[tuple[str, str]]) -> list[tuple[str, str]]:
        rng = self.rng
        if self._odd("missing", 2):
            del members[rng.randrange(len(members))]
        if self._odd("links", 2):
            members.append(("bind_id", self._id()))
            members += [(key, rng.choice(("true", "false"))) for key in ("flow_in", "flow_out")]
        if self._odd("links", 2):
            kind = rng.choice(("local", "global"))
            members.append(("id2", self._object([(kind, self._id())])))
            members += [("scope", self.text())] if rng.random() < 0.5 else []
        if self._odd("other members", 2):
            members.append(
                (
                    rng.choice(("own", "sf", "tts", "stack", "cname", "日本", "a.b", "EXTRA")),
                    self.value(),
                )
            )
        if self._odd("types"):
            at = rng.randrange(len(members))
            members[at] = (members[at][0], self.value())
        if self._odd("many members"):
            members += [(f"own {i}", "1") for i in range(rng.choice((255, 257, 300)))]
        if self._odd("order", 3):
            rng.shuffle(members)
        return self._doubled(members)

    def _doubled(self, members: list[tuple[str, str]]) -> list[tuple[str, str]]:
        if members and self._odd("doubled"):
            key, value = self.rng.choice(members)
            at = self.rng.randrange(len(members) + 1)
            members.insert(at, (key, self.rng.choice((value, "null", "1", '"X"'))))
        return members

    def _args(self, phase: str, *, is_memory: bool) -> str:
        """The arguments of an event; empty for none."""
        rng = self.rng
        if self._odd("types", 0.5):
            return self.value()
        if is_memory:
            keys = [
                "Addr",
                "Bytes",
                "Device Type",
                "Device Id",
                "Total Allocated",
                "Total Reserved",
            ]
            members = [(key, self._argument(key)) for key in keys if rng.random() < 0.9]
        elif phase == "C":
            members = [(f"series {i}", self._number()) for i in range(rng.randrange(4))]
        elif rng.random() < 0.1:
            return ""
        else:
            names = rng.sample(_KEYS, rng.choice((0, 1, 2, 3, 3, 6, 12)))
            members = [(key, self._argument(key)) for key in names]
            if rng.random() < 0.4:
                members.append(
                    (rng.choice(("foo", "Fwd", "rank", "a.b", "$.a", "args", "ph")), self.value())
                )
        if self._odd("old names"):
            members.append(
                rng.choice((("external id", self._integer()), ("Input dims", "[[2, 3]]")))
            )
        if self._odd("own columns", 2):
            members.append(
                ("profframe columns", self._object([("stream", "7"), ("is_async", "true")]))
            )
        if self._odd("many members"):
            members += [(f"k{i}", "1") for i in range(rng.choice((60, 1100)))]
        if self._odd("order", 3):
            rng.shuffle(members)
        return self._object(self._doubled(members))

    def _argument(self, key: str) -> str:  # noqa: PLR0911
        if self._odd("types"):
            return self.value()
        rng = self.rng
        kind = KEYS.get(key)
        if kind == Kind.INTEGER:
            return self._integer()
        if kind == Kind.FLAG:
            return rng.choice(("true", "false", "null"))
        if kind == Kind.DECIMAL:
            return rng.choice(_DECIMALS)
        if key in {"grid", "block"}:
            return rng.choice(_VALUES_OF_LAUNCHES)
        if rng.random() < 0.6:
            return self.text()
        return self._array([self._number() for _ in range(rng.randrange(4))])

    def _integer(self) -> str:
        if self._odd("numbers"):
            return self.rng.choice(_NUMBERS)
        word = self.rng.choice(_INTEGERS)
        return f'"{word}"' if word != "null" and self.rng.random() < 0.1 else word

    def _number(self) -> str:
        if not self._odd("numbers", 3):
            return self.rng.choice(_PLAIN_NUMBERS)
        return self.rng.choice(_NEARLY_PLAIN if self.rng.random() < 0.3 else _NUMBERS)

    def _time(self) -> str:
        if self._odd("times"):
            return self.rng.choice(_ODD_TIMES)
        return self.rng.choice(_FINE_TIMES if self._odd("fine times") else _TIMES)

    def _id(self) -> str:
        if self._odd("types", 0.3):
            return self.value()
        return self._number() if self.rng.random() < 0.3 else self.rng.choice(_IDS)

    def text(self) -> str:
        """A string in quotes."""
        rng = self.rng
        parts = [rng.choice(_WORDS)]
        while rng.random() < 0.3:
            parts.append(rng.choice(_WORDS))
        for what, words in _STRINGS:
            if self._odd(what):
                parts.insert(rng.randrange(len(parts) + 1), rng.choice(words))
        return f'"{"".join(parts)}"'

    def value(self, depth: int = 3) -> str:  # noqa: PLR0911
        """Any value."""
        rng = self.rng
        kind = rng.randrange(9 if depth else 5)
        if kind < 2:
            return self._number()
        if kind < 4:
            return self.text()
        if kind == 4:
            if self._odd("non-finite"):
                return rng.choice(("NaN", "Infinity", "-Infinity", "nan", "inf"))
            return rng.choice(("true", "false", "null"))
        if kind == 8 and self._odd("deep"):
            levels = rng.choice((55, 58, 59, 60, 61, 62, 200))
            return '{"a":[' * (levels // 2) + "1" + "]}" * (levels // 2)
        inner = [self.value(depth - 1) for _ in range(rng.randrange(4))]
        if kind < 7:
            return self._array(inner)
        return self._object(self._doubled([(f"k{i}", value) for i, value in enumerate(inner)]))

    def _array(self, values: Sequence[str]) -> str:
        return f"[{f'{self.space},{self.space}'.join(values)}{self.space}]"

    def _object(self, members: Sequence[tuple[str, str]]) -> str:
        space = self.space
        parts = [f'"{self._key(key)}"{space}:{space}{value}' for key, value in members]
        return f"{{{space}{f',{space}'.join(parts)}{space}}}"

    def _key(self, key: str) -> str:
        if "escaped names" in self.has and key and self._odd("escaped names", 0.3):
            at = self.rng.randrange(len(key))
            return f"{key[:at]}\\u{ord(key[at]):04x}{key[at + 1 :]}"
        return key

    def _around(self) -> Callable[[Sequence[str]], str]:
        """What is around the events, as a function of them."""
        rng, space = self.rng, self.space
        if rng.random() < 0.2:
            return lambda events: f"{space}{self._array(events)}{space}"
        before, behind = (
            [self._header_member(i) for i in range(rng.choice((0, 1, 3)))] for _ in "ab"
        )
        base = rng.random()
        if base < 0.4:
            side = before if base < 0.2 else behind
            side.append(f'"baseTimeNanoseconds"{space}:{rng.choice(("0", "1700000000000000000"))}')

        def of(events: Sequence[str]) -> str:
            array = f'"traceEvents"{space}:{space}{self._array(events)}'
            members = f"{space},{space}".join((*before, array, *behind))
            return f"{space}{{{space}{members}{space}}}{space}"

        return of

    def _header_member(self, number: int) -> str:
        rng = self.rng
        known = (
            ("schemaVersion", "1"), ("displayTimeUnit", '"ms"'), ("traceName", '"t.json"'),
            ("deviceProperties", '[{"id":0,"name":"H100"}]'), ("with_stack", "1"),
            ("distributedInfo", '{"backend":"nccl","rank":0,"world_size":2}'),
        )  # fmt: skip
        key, value = rng.choice(known) if rng.random() < 0.5 else (f"member {number}", self.value())
        return f'"{key}"{self.space}:{value}'

    def _with_known_damage(
        self, whole: Callable[[Sequence[str]], str], events: list[str], oddities: frozenset[str]
    ) -> Drawn:
        """A document with one member that is damaged, and its twin without."""
        check, broken, mended = self.rng.choice(DAMAGE)
        at = self.rng.randrange(len(events) + 1)
        texts = []
        for value in (broken, mended):
            args = f'{{"damaged":{value},"b":1}}'
            event = f'{{"ph":"X","ts":5,"dur":2,"name":"n","pid":1,"tid":2,"args":{args}}}'
            texts.append(_bytes(whole([*events[:at], event, *events[at:]])))
        return Drawn(texts[0], texts[1], Counter({check: 1}), check, oddities)

    def _damaged(self, text: str) -> tuple[str, str]:
        rng = self.rng
        kind = rng.choice(("cut", "lost bytes", "put in", "flipped", "comma", "twice"))
        at = rng.randrange(len(text) + 1)
        if kind == "cut":
            return kind, text[:at]
        if kind == "lost bytes":
            return kind, text[:at] + text[at + rng.randrange(1, 20) :]
        if kind == "put in":
            return kind, text[:at] + rng.choice(_JUNK) + text[at:]
        if kind == "comma":
            places = [i for i, letter in enumerate(text) if letter in ",]}"]
            at = rng.choice(places)
            return kind, text[:at] + "," + text[at + rng.randrange(2) * (text[at] == ",") :]
        if kind == "twice":
            return kind, text[: at + rng.randrange(40)] + text[at:]
        content = bytearray(_bytes(text))
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        return kind, content.decode("utf-8", "surrogateescape")


_KEYS: Final = [
    *(key for key in KEYS if key not in {"external id", "Input dims", "profframe columns"})
]
_STRINGS: Final = (
    ("escapes", _ESCAPES), ("unicode escapes", _UNICODE), ("half surrogates", _HALVES),
    ("invalid UTF-8", _BAD), ("control bytes", _RAW),
)  # fmt: skip
"""Oddities of strings, and what is put in."""


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
