"""Segments of the catalogue of a store: immutable Parquet files, one row per member.

::

    <store>/catalogue/<number>-<digest>.parquet

A segment has the rows of one commit. Its name has a digest of its content, so that nobody ever
writes over another one's segment, and two writers at once both land, on any file system and object
store. A later number comes after an earlier one; two of the same number were written at once, and
their digests put them in an order that is the same for all readers. A segment that folds others
lists them by name in its metadata: they no longer count, whether they are there or not, and a
segment that arrives late still does.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Protocol, TypeVar

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe.errors import StoreError
from profframe.store.layout import CATALOGUE
from profframe.store.manifest import PACK
from profframe.store.parquet import reading
from profframe.system.drafts import draft

if TYPE_CHECKING:
    import pyarrow.parquet as pq

COLUMNS: Final = pa.schema(
    [
        pa.field("run", pa.string(), nullable=False),
        pa.field("rank", pa.int32(), nullable=False),
        pa.field("folder", pa.string(), nullable=False),
        pa.field("is_removed", pa.bool_(), nullable=False),
        ("traces_bytes", pa.int64()),
        ("traces_mtime_ns", pa.int64()),
        ("folder_mtime_ns", pa.int64()),
        ("run_mtime_ns", pa.int64()),
        ("run_checksum", pa.int64()),
        ("replaced_bytes", pa.int64()),
        ("replaced_mtime_ns", pa.int64()),
        ("pack_members", pa.int32()),
        ("optional_tables", pa.string()),
        ("events", pa.int64()),
        ("source_events", pa.int64()),
        ("bytes", pa.int64()),
        ("start_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("clock", pa.string()),
        ("schema_version", pa.string()),
        ("facts_version", pa.string()),
        ("source", pa.string()),
        ("content_hash", pa.string()),
        ("convert_options", pa.string()),
        ("joined_files", pa.string()),
        ("format", pa.string()),
        ("rank_source", pa.string()),
        ("world_size", pa.int32()),
        ("written_ns", pa.int64()),
    ]
)
"""Columns of a segment.

``folder`` is the folder in the store, a pack for packed members. ``traces_bytes`` and
``traces_mtime_ns`` are of its `traces.parquet`; ``run_mtime_ns`` and ``run_checksum`` say what else
the folder of the run had; the pack has replaced a folder of the member with a `traces.parquet` of
``replaced_bytes`` and ``replaced_mtime_ns``, and has ``pack_members`` in all. ``optional_tables``
are words. ``bytes`` of a packed member are its share by events.
"""
VERSION: Final = b"1"
_VERSION_KEY: Final = b"profframe.catalogue_version"
_FOLDS_KEY: Final = b"profframe.folds"
_PACKS_KEY: Final = b"profframe.packs"
_NAME: Final = re.compile(r"([0-9]{8,18})-[0-9a-f]{16}\.parquet", re.ASCII)
DRAFT: Final = ".tmp-"
"""Prefix of a segment at work."""
_ROW_GROUP: Final = 4096
"""Rows per row group: a run is read of few of them, and footers stay small."""
_AT_ONCE: Final = 4
"""Row groups that are read at once."""
_MANY: Final = 16
"""From so many segments on they are folded by who adds one."""
_TOMBSTONE_NS: Final = 24 * 3600 * 10**9
"""How long rows of removed members stay: two that fold at once must not undo a removal."""
_ATTEMPTS: Final = 20
_ENCODED: Final = [
    field.name for field in COLUMNS if pa.types.is_string(field.type) and field.name != "folder"
]
Value = TypeVar("Value")


class SegmentFiles(Protocol):
    """Where the segments of a store are, by their names."""

    def names(self) -> Sequence[str]:
        """Names of all files there; none where there is no catalogue."""

    def open(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """One to read; a FileNotFoundError if it is gone."""

    def put(self, name: str, content: bytes) -> None:
        """Write one, complete or not at all; one of this name has this content."""

    def remove(self, name: str) -> None:
        """Remove one, if it is there."""

    def place(self, name: str) -> str:
        """Its path or URL for messages."""


@dataclass(frozen=True, slots=True)
class LocalSegments:
    """Segments on a file system.

    Examples
    --------
    >>> LocalSegments(Path("no/such/store")).names()
    []
    """

    root: Path
    """The store."""

    def names(self) -> list[str]:
        """Names of all files there."""
        folder = self.root / CATALOGUE
        with suppress(OSError):
            if not folder.is_symlink():
                return [name.name for name in folder.iterdir()]
        return []

    def open(self, name: str) -> IO[bytes]:
        """One to read."""
        path = self.root / CATALOGUE / name
        if not path.is_file():  # reading a pipe would wait
            raise FileNotFoundError(path)
        return path.open("rb")

    def put(self, name: str, content: bytes) -> None:
        """Write one by a rename."""
        folder = self.root / CATALOGUE
        folder.mkdir(exist_ok=True)
        if folder.is_symlink():
            raise StoreError(f"{folder}: a link; profframe changes nothing behind links in a store")
        with draft(folder, DRAFT, create=_create) as path:
            path.write_bytes(content)
            path.replace(folder / name)

    def remove(self, name: str) -> None:
        """Remove one."""
        (self.root / CATALOGUE / name).unlink(missing_ok=True)

    def place(self, name: str) -> str:
        """Its path."""
        return str(self.root / CATALOGUE / name)


def _create(path: Path) -> None:
    path.touch(exist_ok=False)


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment that counts, open to read."""

    name: str
    place: str
    file: pq.ParquetFile

    @property
    def packs(self) -> frozenset[str]:
        """Names of the packs that its rows are of."""
        return frozenset(_names_in(self.file, _PACKS_KEY, self.place))

    def rows(
        self, columns: Sequence[str], runs: Sequence[str] | None = None
    ) -> Iterator[pl.DataFrame]:
        """Some columns of its rows, maybe only of row groups that can have some runs."""
        with reading(self.place):
            groups = [
                number
                for number in range(self.file.num_row_groups)
                if runs is None or _may_have(self.file.metadata.row_group(number), runs)
            ]
            for start in range(0, len(groups), _AT_ONCE):
                rows = self._checked(groups[start : start + _AT_ONCE], columns)
                if runs is not None:
                    rows = rows.filter(pc.is_in(rows["run"], pa.array(runs, pa.string())))
                yield _frame(rows)

    def _checked(self, groups: Sequence[int], columns: Sequence[str]) -> pa.Table:
        rows = self.file.read_row_groups(groups, [*columns], use_threads=False)
        rows.validate(full=True)
        expected = pa.schema([COLUMNS.field(name) for name in columns])
        rows = rows.select(expected.names).cast(expected)
        for field in expected:
            if not field.nullable and rows[field.name].null_count:
                raise ValueError(f"a member without {field.name}")
        return rows


def _may_have(group: pq.RowGroupMetaData, runs: Sequence[str]) -> bool:
    column = group.column(0)
    bounds = column.statistics if column.path_in_schema == "run" else None
    if bounds is None or not bounds.has_min_max:
        return True
    return any(bounds.min <= run <= bounds.max for run in runs)


def number_of(name: str) -> int | None:
    """Number of a segment; None for other files.

    Examples
    --------
    >>> number_of("00000012-0123456789abcdef.parquet"), number_of(".tmp-x")
    (12, None)
    """
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else None


def in_order(names: Iterable[str]) -> list[str]:
    """Names of segments, the earliest first; without other files."""
    return sorted(
        (name for name in names if number_of(name) is not None),
        key=lambda name: (number_of(name), name),
    )


@dataclass(frozen=True, slots=True)
class Contents:
    """What segments have.

    Attributes
    ----------
    rows
        Every row that was read, also of removed members and of folders that are gone.
    packs
        Names of all packs that any row is of.
    total
        Number of all rows.
    are_latest
        Whether each is known to be the latest of its folder and member: all are of one segment.
    """

    rows: pl.DataFrame
    packs: frozenset[str]
    total: int
    are_latest: bool

    def latest(self) -> pl.DataFrame:
        """The latest row of each folder and member."""
        return self.rows if self.are_latest else latest(self.rows, ["folder", "run", "rank"])


def read(
    files: SegmentFiles,
    columns: Sequence[str] = COLUMNS.names,
    runs: Iterable[str] | None = None,
) -> Contents:
    """Rows of all segments that count, the latest last.

    Parameters
    ----------
    files
        Where they are.
    columns
        Columns to read.
    runs
        Names of runs to read; None for all.

    Returns
    -------
    Contents
        Its rows are of these columns and runs.

    Raises
    ------
    StoreError
        A segment is damaged, or of another version of the catalogue.
    """
    names = None if runs is None else [*runs]
    types = pa.schema([COLUMNS.field(name) for name in columns])

    def contents(segments: Sequence[Segment]) -> Contents:
        packs = frozenset().union(*(segment.packs for segment in segments))
        total = sum(segment.file.metadata.num_rows for segment in segments)
        frames = [frame for segment in segments for frame in segment.rows(columns, names)]
        rows = pl.concat([_frame(types.empty_table()), *frames])
        return Contents(rows, packs, total, len(segments) < 2)

    return _with_segments(files, contents)


def members(
    files: SegmentFiles,
    columns: Sequence[str] = COLUMNS.names,
    runs: Iterable[str] | None = None,
) -> pl.DataFrame:
    """Members of a store on an object store, where the catalogue is the commit.

    On a file system folders are the truth: `profframe.store.catalogue.listing` compares.

    Parameters
    ----------
    files, columns, runs
        As for `read`.

    Returns
    -------
    polars.DataFrame
        The latest row of each run and rank that is not removed, by run and rank.

    Raises
    ------
    StoreError
        A segment is damaged.
    """
    needed = [*dict.fromkeys((*columns, "run", "rank", "is_removed"))]
    return (
        latest(read(files, needed, runs).rows, ["run", "rank"])
        .filter(~pl.col("is_removed"))
        .sort("run", "rank")
        .select(columns)
    )


def latest(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """The last row of each key."""
    return rows.unique(keys, keep="last", maintain_order=True)


def append(files: SegmentFiles, rows: pa.Table) -> None:
    """Add a segment; fold some if there are many.

    Parameters
    ----------
    files
        Where the segments are.
    rows
        Its rows; missing columns are NULL.
    """
    names = in_order(files.names())
    _put(files, rows, _last_number(names) + 1)
    if len(names) + 1 >= _MANY:
        fold(files)


def fold(
    files: SegmentFiles,
    *,
    all_of_them: bool = False,
    is_live: Callable[[pl.DataFrame], pl.Series] | None = None,
) -> None:
    """Fold segments into one: the latest ones, as long as an earlier one is no larger than these.

    So a row is written again as often as the catalogue doubles.

    Parameters
    ----------
    files
        Where the segments are.
    all_of_them
        Whether to fold all.
    is_live
        Which of the rows that are the latest of their member are kept; by default all.
    """
    with suppress(FileNotFoundError):  # another process has folded them
        part = _with_segments(files, lambda s: _to_fold(s, {*files.names()}, all_of_them))
        if len(part.names) < 2 and (is_live is None or not part.names):
            return
        rows = _with_states(latest(part.rows, ["folder", "run", "rank"]))
        if part.is_whole:
            is_young = pl.col("written_ns").fill_null(0) > time.time_ns() - _TOMBSTONE_NS
            rows = rows.filter(~pl.col("is_removed") | is_young)
        if is_live is not None:
            rows = rows.filter(is_live(rows))
        if len(part.names) < 2 and len(rows) == len(part.rows):
            return
        rows = rows.sort("run", "rank", maintain_order=True)
        _put(files, rows.to_arrow(), _last_number(part.names), part.names)
        for name in part.names:
            files.remove(name)


@dataclass(frozen=True, slots=True)
class _Part:
    """Segments to fold, with those that they have folded, and their rows."""

    names: list[str]
    rows: pl.DataFrame
    is_whole: bool


def _to_fold(segments: Sequence[Segment], present: set[str], all_of_them: bool) -> _Part:
    picked: list[Segment] = []
    count = 0
    for segment in reversed(segments):
        number = segment.file.metadata.num_rows
        if not all_of_them and len(picked) >= _MANY // 2 and number > count:
            break
        picked.append(segment)
        count += number
    picked.reverse()
    folded = {n for s in picked for n in _names_in(s.file, _FOLDS_KEY, s.place) & present}
    frames = [frame for segment in picked for frame in segment.rows(COLUMNS.names)]
    rows = pl.concat([_frame(COLUMNS.empty_table()), *frames])
    names = in_order(folded | {segment.name for segment in picked})
    return _Part(names, rows, len(picked) == len(segments))


def _frame(rows: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - for the type checker
    return frame


def _with_states(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that all have the latest state of the folder of their run, so that one may go."""
    names = ["run_mtime_ns", "run_checksum"]
    of_run = pl.col("folder").str.extract(r"^([^/]*)").alias("of_run")
    states = (
        rows.select(of_run, *names).drop_nulls().sort("run_mtime_ns").unique("of_run", keep="last")
    )
    return (
        rows.drop(names)
        .with_columns(of_run)
        .join(states, "of_run", "left", maintain_order="left")
        .select(COLUMNS.names)
    )


def _with_segments(files: SegmentFiles, use: Callable[[Sequence[Segment]], Value]) -> Value:
    """What is read of all segments that count, listed again if one is folded meanwhile."""
    for _ in range(_ATTEMPTS):
        with suppress(FileNotFoundError), _opened(files) as segments:
            return use(segments)
    with _opened(files) as segments:
        return use(segments)


@contextmanager
def _opened(files: SegmentFiles) -> Iterator[list[Segment]]:
    """All segments that count, the earliest first."""
    import pyarrow.parquet as pq

    names = in_order(files.names())
    with ExitStack() as stack:
        segments: list[Segment] = []
        folded: set[str] = set()
        for name in reversed(names):
            if name in folded:
                continue
            place = files.place(name)
            stream = stack.enter_context(files.open(name))
            with reading(place):
                file = stack.enter_context(pq.ParquetFile(stream, page_checksum_verification=True))
            folded |= _names_in(file, _FOLDS_KEY, place)
            segments.append(Segment(name, place, file))
        yield [segment for segment in reversed(segments) if segment.name not in folded]


def _names_in(file: pq.ParquetFile, key: bytes, place: str) -> set[str]:
    """Names that the metadata of a segment lists."""
    with reading(place):
        metadata = file.metadata.metadata or {}
        if metadata.get(_VERSION_KEY) != VERSION:
            raise ValueError("not a catalogue of this version of profframe")
        names = json.loads(metadata.get(key, b"[]"))
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{key.decode()} lists what is no name")
        return set(names)


def _put(files: SegmentFiles, rows: pa.Table, number: int, folds: Sequence[str] = ()) -> None:
    content = _encoded(rows, folds)
    digest = _digest(content).hexdigest()
    files.put(f"{number:08}-{digest}.parquet", content)


def _digest(content: bytes = b"") -> hashlib.blake2b:
    return hashlib.blake2b(content, digest_size=8)


def damaged(files: SegmentFiles) -> list[str]:
    """Names of segments that have another content than was written."""
    names = []
    for name in in_order(files.names()):
        with suppress(FileNotFoundError):
            with files.open(name) as stream:
                digest = hashlib.file_digest(stream, _digest).hexdigest()  # type: ignore[arg-type]
            if not name.endswith(f"-{digest}.parquet"):
                names.append(name)
    return names


def _encoded(rows: pa.Table, folds: Sequence[str]) -> bytes:
    import pyarrow.parquet as pq

    present = {*rows.column_names}
    arrays: list[Any] = [
        rows[field.name] if field.name in present else pa.nulls(len(rows), field.type)
        for field in COLUMNS
    ]
    table = pa.table(
        [array.cast(field.type) for array, field in zip(arrays, COLUMNS, strict=True)],
        schema=COLUMNS,
    )
    buffer = io.BytesIO()
    with pq.ParquetWriter(
        buffer,
        COLUMNS,
        compression="zstd" if len(rows) > _ROW_GROUP else "snappy",
        use_dictionary=_ENCODED,
        store_schema=False,
        write_page_checksum=True,
    ) as writer:
        writer.add_key_value_metadata(
            {
                _VERSION_KEY: VERSION,
                _FOLDS_KEY: json.dumps([*folds]),
                _PACKS_KEY: json.dumps(_packs_of(table)),
            }
        )
        writer.write_table(table, _ROW_GROUP)
    return buffer.getvalue()


def _packs_of(rows: pa.Table) -> list[str]:
    folders = pc.unique(rows["folder"])
    return sorted(folders.filter(pc.starts_with(folders, PACK)).to_pylist())


def _last_number(names: Sequence[str]) -> int:
    return max((number_of(name) or 0 for name in names), default=0)
