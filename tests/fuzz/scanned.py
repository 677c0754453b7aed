"""Events that the scanner in C may take or hand back: all tables are as without it.

The arguments have the names that have columns, and values of any kind; texts are now and then
damaged, and cut so that some pieces of a file are handed back and others not.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from unittest import mock

import pyarrow as pa

from profframe.native.scan import Kind
from profframe.readers import bytes as reader_bytes
from profframe.readers.build.row_tables import RawTrace
from profframe.readers.chrome import parsing, scanned
from profframe.readers.json import stream
from profframe.readers.reading import read
from tests.fuzz.documents import Grammar

KEYS: Final = (*scanned.KEYS, "unknown", "other key")
PLAIN: Final = (
    "0", "7", "-1", "12345", "2147483648", '"5"', '"-3"', '"nccl"', '""',
    '"[]"', '"[2, 4]"', "[2, 4]", "[[1, 2], []]", '["float", ""]', "null", '"a\\nb"', '"[0, 1]"',
)  # fmt: skip
DECIMALS: Final = ("0", "0.5", "42.25", "100", "0.1234567890123456789", "null")
ODD: Final = (
    "true", "false", "0.5", "123456789012345678",
    "9223372036854775807", "9223372036854775808", "1.5", "1e3", "-0", '" 5 "', '"+7"', '"0x1F"',
    '"1_000"', '"nan"', '"caf\\u00e9"', '"a\\/b"', "{}", '{"a": 1}', "[1.10]", '[{"b": 2e5}]',
    "12345678901234567", '"日本"', "[" * 70 + "]" * 70,
)  # fmt: skip
TIMES: Final = (
    "0", "1", "12.5", "0.0005", "0.000499", "1712195495519689.047", "-1.25", "-0.0005", "3.1234567",
    "1e3", "4000000000000000", "4000000000000001", '"12"', "null", "5.", "18446744073709551616",
)  # fmt: skip
DAMAGE: Final = ("NaN", "0x10", '"', "{", "}", "\\", "\x01", "\udcff", "]", "01", ",")
NAMES: Final = (
    "aten::add", "[memory]", "process_name", "thread_name", "record_param_comms",
    "Record Window End",
    "hcom_allReduce__123_0_1", "ncclKernel", "日本", "a\\tb", "PyTorch Profiler (0)",
)  # fmt: skip
CATEGORIES: Final = (
    "cpu_op", "kernel", "gpu_memcpy", "cuda_runtime", "cpu_instant_event", "ac2g", "Trace",
    "profframe", "user_annotation", "cuda_profiler_range",
)  # fmt: skip


def event(rng: random.Random, grammar: Grammar, oddness: float) -> str:
    """One event."""
    phase = rng.choice("XXXXXXBECisftMNbe")
    members = [f'"ph":"{phase}"']
    if phase != "M" or rng.random() < 0.1:
        members.append(f'"ts":{_one(rng, TIMES[:3], TIMES, oddness)}')
    if phase in "XN":
        members.append(f'"dur":{_one(rng, TIMES[:6], TIMES, oddness)}')
    members.append(f'"name":"{rng.choice(NAMES)}"')
    members += [f'"cat":"{rng.choice(CATEGORIES)}"'] if rng.random() < 0.9 else []
    members += [f'"{key}":{_one(rng, PLAIN[:4], PLAIN + ODD, oddness)}' for key in ("pid", "tid")]
    if phase in "stfbe":
        members += [f'"id":{_one(rng, PLAIN[:6], PLAIN + ODD, oddness)}', '"bp":"e"']
    keys = rng.sample(KEYS, rng.choice([0, 1, 3, 8]))
    args = [f'"{key}":{_one(rng, _plain_values(key), ODD, oddness)}' for key in keys]
    if rng.random() < oddness / 4:
        args.append(f"{grammar.text()}:{grammar.value()}")
    members.append(f'"args":{grammar.joined("{}", args)}')
    if rng.random() < oddness / 4:
        members.append(
            f'"{rng.choice(["own", "id2", "bind_id", "stream", "sf"])}":{rng.choice(PLAIN)}'
        )
    if rng.random() < oddness / 8:
        members.append(rng.choice(members))
    if rng.random() < 0.3:
        rng.shuffle(members)
    return grammar.joined("{}", members)


def _plain_values(key: str) -> tuple[str, ...]:
    kind = scanned.KEYS.get(key)
    if kind == Kind.FLAG:
        return "true", "false", "null"
    return DECIMALS if kind == Kind.DECIMAL else PLAIN


def _one(rng: random.Random, plain: tuple[str, ...], odd: tuple[str, ...], oddness: float) -> str:
    return rng.choice(odd if rng.random() < oddness / 8 else plain)


def case(seed: int) -> None:
    """One document."""
    rng = random.Random(seed)  # noqa: S311
    grammar = Grammar(rng)
    grammar.escapes = rng.choice([0.0, 0.0, 0.05])
    oddness = rng.choice([0.0, 0.0, 0.05, 0.5])
    events = [event(rng, grammar, oddness) for _ in range(rng.choice([1, 3, 10, 40]))]
    text = grammar.document()(events)
    if rng.random() < 0.15:
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(DAMAGE) + text[at + rng.randrange(2) :]
    size = rng.choice([200, 1000, 1 << 17])
    with (
        TemporaryDirectory() as folder,
        mock.patch.object(stream, "PIECE", size),
        mock.patch.object(stream, "WAVE", 8 * size),
        mock.patch.object(reader_bytes, "BLOCK", size + 36),
    ):
        path = Path(folder) / "trace.json"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        native = said(path)
        with mock.patch.object(parsing, "library", return_value=None):
            pure = said(path)
    assert not (wrong := [*differences(native, pure)]), wrong


def said(path: Path) -> RawTrace | str:
    """What a file becomes: a trace, or an error."""
    try:
        return read(path, threads=1)
    except Exception as error:  # noqa: BLE001 - of both it is the same
        return f"{type(error).__name__}: {error}"


def differences(one: RawTrace | str, other: RawTrace | str) -> Iterator[str]:
    """Columns that differ, with the first row that does."""
    if isinstance(one, str) or isinstance(other, str):
        if one != other:
            yield f"{one} | {other}"
        return
    for name, table in one.tables.items():
        for column in table.column_names:
            left, right = (_plain(raw.tables[name][column]) for raw in (one, other))
            if not left.equals(right):
                pairs = zip(left.to_pylist(), right.to_pylist(), strict=False)
                first = next((pair for pair in pairs if repr(pair[0]) != repr(pair[1])), None)
                if first or len(left) != len(right):  # NaN is not equal to itself
                    yield f"{name}.{column}: {first}"
    if one.header != other.header:
        yield f"{one.header} | {other.header}"


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = values.type
    values = values.cast(pa.string()) if pa.types.is_dictionary(kind) else values
    return pa.chunked_array([values.combine_chunks()])
