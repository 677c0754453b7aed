"""Stores that older versions of profframe wrote, and what is in a store, for comparisons.

`tests/data/stores` has one of each of the last two schemas; README.md there says how they were
made.
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import profframe
from profframe import schema, store
from profframe.store import layout
from profframe.store.parquet import VERSION_KEY
from profframe.trace.trace import Trace
from profframe.workers.inline import InlineExecutor
from tests.places import ROOT

DATA: Final = ROOT / "tests/data/stores"
VERSIONS: Final = (13, 14)
OF_UPGRADES: Final = ("derived_anew", "lost_columns", "older_schema", "another_version")
"""Rows of `quality` about versions, which a fresh conversion lacks."""
SOURCES: Final[Mapping[str, str]] = {
    "cuda": "examples/cuda.json.gz",
    "gil": "examples/gil.sqlite",
    "joined": "examples/gpu_training_fused.json.gz",
    "replay": "tests/data/cuda_graph/replay.json.gz",
    "serving": "examples/serving.json.gz",
    "snapshot.pickle": "examples/snapshot.pickle",
    "torch": "examples/gpu_training_fused.json.gz",
}
"""The runs, and the file of each."""
_WRITTEN_BELOW: Final = "/profframe/"


def unpack(version: int, folder: Path) -> Path:
    """The checked-in store of a schema; its sources are not there."""
    path = folder / f"schema-{version}"
    with tarfile.open(DATA / f"schema-{version}.tar.xz") as archive:
        # extractall has filter= from Python 3.11.4 on.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(path)  # noqa: S202 - our own
    return path


def fresh(folder: Path) -> Path:
    """The same traces, converted now; in this process, as a worker takes seconds to begin."""
    path = folder / "fresh"
    sources = {run: str(ROOT / file) for run, file in SOURCES.items()}
    snapshot = sources["snapshot.pickle"]
    convert = partial(profframe.convert, executor=InlineExecutor())
    convert([sources["serving"], sources["cuda"]], path)
    convert([sources["joined"], snapshot], path, run="joined")
    convert([sources["gil"], snapshot], path)
    captures = str(ROOT / "tests/data/cuda_graph/capture.json.gz")
    convert(sources["replay"], path, captures=captures)
    return path


def with_sources(path: Path) -> None:
    """Rewrite a store so that its sources are those of this checkout."""
    for file in path.rglob("traces.parquet"):
        whole = pq.read_table(file, partitioning=None)
        for name in ("source", "joined_files"):
            text = pc.replace_substring(whole[name], _WRITTEN_BELOW, f"{ROOT}/")
            whole = whole.set_column(whole.column_names.index(name), whole.field(name), text)
        pq.write_table(whole, file)


def restamp(path: Path, version: str) -> None:
    """Say of all files of a folder that they are of another schema."""
    for file in path.rglob("*.parquet"):
        whole = pq.read_table(file, partitioning=None)
        pq.write_table(whole.replace_schema_metadata({VERSION_KEY: version}), file)


def content(path: Path) -> dict[tuple[str, int], dict[str, pa.Table]]:
    """All tables of each (run, rank), as they are in the files."""
    tables: dict[tuple[str, int], dict[str, pa.Table]] = {}
    for place in layout.places(path):
        for key in place.visible if place.members else place.keys:
            own = (pc.field("run") == key[0]) & (pc.field("rank") == key[1])
            tables[key] = {
                name: pa.concat_tables([*store.row_groups(place, name)]).filter(own)
                if place.has(name)
                else schema.empty(name)
                for name in schema.TABLES
            }
    return tables


def differences(first: Mapping[str, pa.Table], second: Mapping[str, pa.Table]) -> list[str]:
    """Columns of one (run, rank) that differ; rows about versions do not count."""
    found: list[str] = []
    for name, rows in first.items():
        one, other = (_without_notes(name, part) for part in (rows, second[name]))
        if one.num_rows != other.num_rows:
            found.append(f"{name}: {one.num_rows} rows, not {other.num_rows}")
            continue
        found += [
            f"{name}.{column}"
            for column in one.column_names
            if not _plain(one[column]).equals(_plain(other[column]))
        ]
    return found


def _without_notes(name: str, rows: pa.Table) -> pa.Table:
    if name != "quality":
        return rows
    is_of_versions = pc.is_in(rows["issue"].cast(pa.string()), pa.array(OF_UPGRADES))
    return rows.filter(pc.invert(is_of_versions))


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    return values.cast(pa.string()) if pa.types.is_dictionary(values.type) else values


def answers(trace: Trace) -> dict[str, str]:
    """A digest of the rows of every answer, or the error."""
    digests: dict[str, str] = {}
    for name in profframe.answers().filter(kind="answer")["name"]:
        try:
            rows = repr(trace.answer(name).rows())
        except profframe.ProfframeError as error:
            rows = str(error)
        digests[name] = hashlib.sha256(rows.encode()).hexdigest()
    return digests


def copy(path: Path, folder: Path) -> Path:
    """A copy of a store."""
    return Path(shutil.copytree(path, folder / path.name))
