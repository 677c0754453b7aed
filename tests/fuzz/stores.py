"""Damaged Parquet: every question ends in rows or in one line that names a file.

A file of a small store is flipped, cut, spliced, or written anew with what no writer of profframe
writes; its manifest knows of it, does not, or is gone.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

import profframe
from profframe import schema
from profframe.errors import ProfframeError
from profframe.store import layout, maintenance
from tests.fuzz.manifests import MANIFEST
from tests.fuzz.verbs import check_verb

Work = Callable[[random.Random, Path], object]

EXAMPLE: Final = Path(__file__).parent.parent.parent / "examples/cpu_training.json.gz"
ANSWERS: Final = tuple(profframe.answers().filter(kind="answer")["name"])
VERBS: Final[tuple[tuple[str, ...], ...]] = (
    ("STORE",),
    ("tree", "STORE"),
    ("info", "STORE"),
    ("advice", "STORE"),
    ("roofline", "STORE"),
    ("critical-path", "STORE"),
    ("diff", "STORE", "STORE"),
    ("sql", "STORE", "FROM events SELECT * ORDER BY ALL DESC LIMIT 3"),
    ("store", "ls", "STORE"),
    ("store", "ls", "--ranks", "STORE"),
    ("store", "verify", "STORE"),
    ("store", "compact", "STORE"),
    ("store", "rm", "STORE", "--rank", "1"),
)


def case(seed: int) -> None:
    """Damage a file, and ask."""
    rng = random.Random(seed)  # noqa: S311 - cases, no secret
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "store")
        shutil.copytree(_packed() if rng.random() < 0.3 else _alone(), root)
        always = [name for name in schema.TABLES if name not in schema.OPTIONAL_TABLES]
        tables = ("events", "events", "traces", *always)
        file = rng.choice(sorted(root.rglob(f"{rng.choice(tables)}.parquet")))
        was = file.read_bytes()
        rng.choice(DAMAGES)(rng, file)
        is_known = rng.choice((True, True, False, None))
        _note(file, is_known=is_known)
        if is_known is True and (not file.is_file() or file.read_bytes() != was):
            named = [root / name for name in maintenance.verify(root)["file"]]
            assert file in named, "not found by verify"
        check_verb(*(str(root) if word == "STORE" else word for word in rng.choice(VERBS)))
        check_verb("answer", rng.choice(ANSWERS), str(root))
        for work in rng.sample(WORKS, 2):
            said = _said(work, rng, root)
            assert "\n" not in said, said


def _said(work: Work, rng: random.Random, root: Path) -> str:
    try:
        work(rng, root)
    except ProfframeError as error:
        return str(error)
    return ""


def _note(file: Path, *, is_known: bool | None) -> None:
    """Let the manifest be as it was, or as if the file had been written so, or not be there."""
    noted = file.parent / MANIFEST
    if is_known is None:
        noted.unlink()
    elif not is_known and file.is_file():
        said = json.loads(noted.read_bytes())
        said["files"][file.name] = {
            "bytes": file.stat().st_size,
            "sha256": layout.checksum(file),
        }
        noted.write_text(json.dumps(said))


@cache
def _alone() -> Path:
    """Two ranks of a trace of a few hundred events."""
    folder = Path(tempfile.mkdtemp(prefix="profframe-fuzz-"))
    whole = profframe.load(EXAMPLE)
    middle = int(whole.events["start_ns"].sort()[400])
    for rank in range(2):
        profframe.load(EXAMPLE, run="a", rank=rank).filter(end_ns=middle).to_parquet(folder)
    return folder


@cache
def _packed() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="profframe-fuzz-"))
    shutil.copytree(_alone(), folder, dirs_exist_ok=True)
    maintenance.compact(folder)
    return folder


def _flip(rng: random.Random, file: Path) -> None:
    """Change bytes anywhere, or in the footer, some of them to what makes sizes huge."""
    data = bytearray(file.read_bytes())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    start = rng.choice((0, 0, footer, len(data) - 8))
    for _ in range(rng.choice((1, 1, 3, 20))):
        data[rng.randrange(start, len(data))] = rng.choice((0, 127, 128, 255, rng.randrange(256)))
    file.write_bytes(data)


def _cut(rng: random.Random, file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[: rng.choice((0, 4, 12, rng.randrange(len(data)), len(data) - 1))])


def _splice(rng: random.Random, file: Path) -> None:
    """Put bytes of one place, or of another file, into another place."""
    data = bytearray(file.read_bytes())
    other = rng.choice(sorted(file.parent.glob("*.parquet"))).read_bytes()
    size = rng.randrange(1, 200)
    start, end = rng.randrange(len(other)), rng.randrange(len(data))
    data[end : end + rng.choice((0, size))] = other[start : start + size]
    file.write_bytes(data)


def _other_table(rng: random.Random, file: Path) -> None:
    shutil.copy(rng.choice(sorted(file.parent.glob("*.parquet"))), file.with_suffix(".copy"))
    file.with_suffix(".copy").rename(file)


def _not_a_file(rng: random.Random, file: Path) -> None:
    file.unlink()
    if rng.random() < 0.5:
        file.mkdir()
    else:
        os.mkfifo(file)


def _rewrite(rng: random.Random, file: Path) -> None:
    """Write the file anew with a column that no writer of profframe writes."""
    rows = pq.ParquetFile(file).read()
    metadata = pq.read_metadata(file).metadata
    place = rng.randrange(rows.num_columns)
    name, size = rows.column_names[place], len(rows)
    kind = rng.randrange(5)
    if kind == 0:
        rows = rows.drop_columns(name)
    elif kind == 1:
        rows = rows.append_column("strange", pa.nulls(size, pa.int64()))
    elif kind == 2:
        values = rng.choice((pa.nulls(size, pa.string()), pa.array([b"\xff\xfe"] * size)))
        rows = rows.set_column(place, name, values)
    elif kind == 3:
        rows = rows.set_column(place, name, pa.nulls(size, rows.schema.field(place).type))
    else:
        texts = [c for c, f in enumerate(rows.schema) if f.type == pa.string()]
        place = rng.choice(texts)
        text = not_utf8(size)
        rows = rows.set_column(place, rows.column_names[place], text)
    keys = {k: v for k, v in (metadata or {}).items() if k.startswith(b"profframe")}
    pq.write_table(rows.replace_schema_metadata(keys), file, store_schema=False)


def not_utf8(size: int) -> pa.Array:
    """Texts that are none, which Arrow holds if it does not look."""
    _, *buffers = pa.array([b"ok \xc3"] * size, pa.binary()).buffers()
    return pa.StringArray.from_buffers(size, *buffers) if size else pa.array([], pa.string())


DAMAGES: Final[tuple[Work, ...]] = (
    _flip,
    _flip,
    _flip,
    _cut,
    _splice,
    _other_table,
    _not_a_file,
    _rewrite,
    _rewrite,
)


def _export(root: Path) -> None:
    trace = profframe.load(root).filter(ranks=0)
    trace.export_chrome_trace(root.with_name("trace.json"))
    trace.export_stacks(root.with_name("trace.folded"))


def _convert(rng: random.Random, root: Path) -> None:
    with ThreadPoolExecutor(1) as executor:
        profframe.convert(EXAMPLE, root, executor, run="a", rank=rng.randrange(2))


WORKS: Final[tuple[Work, ...]] = (
    lambda _, root: profframe.load(root).events,
    lambda _, root: [profframe.load(root).scan(name).collect() for name in schema.TABLES],
    lambda _, root: profframe.load(root).tables,
    lambda _, root: profframe.load(root).filter(start_ns=1).to_parquet(root.with_name("copy")),
    lambda rng, root: profframe.load(root).answer(rng.choice(ANSWERS)),
    lambda _, root: profframe.load(root).sql("SELECT sum(hash(e)) FROM events AS e"),
    lambda _, root: profframe.load(root, runs="a", ranks=1).events,
    lambda _, root: _export(root),
    lambda _, root: repr(profframe.load(root)),
    lambda _, root: maintenance.compact(root),
    _convert,
)
