"""The parts of a file made of several traces by torch's ``JsonProfile.combine_with``.

The events of all traces stand one after another, with the header of the first. Kineto ends each
with its own mark, and names processes and one span of the profiler in each, at the beginning or
near the end. Ids of ops, calls and flows mean nothing outside their part.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from profframe.errors import SourceError
from profframe.readers.build.row_tables import RawTrace
from profframe.readers.chrome.job import JOB_KEY
from profframe.readers.json.exact import dumps

WINDOW_END: Final = "Record Window End"
_SPAN: Final = "PyTorch Profiler (0)"
_OF_SPANS: Final = "Trace"
_EVENTS: Final = b'"traceEvents": ['
_END: Final = re.compile(
    rb'"name"\s*:\s*"Record Window End"[^{}"\\]*(?:"[^"\\]*"[^{}"\\]*)*\}(?=\s*(?:,\s*\{|\]))'
)
"""The mark, up to the end of its event, followed by another event or the end of the array."""
_NAME: Final = re.compile(rb'"ph"\s*:\s*"M"')
_LONGEST: Final = 4 << 10
"""Bytes of a mark and of what must follow it, at most."""


OF_RANKS: Final = "of several ranks, which only profframe.load can separate"
_OF_JOB: Final = "written together by profframe, which only profframe.load can separate"
_OF_TORCH: Final = "from torch's combine_with, which only profframe.load can turn into runs"


class SeveralTracesError(SourceError):
    """A file has several traces where one was expected; ``parts`` are these, if already read."""

    def __init__(
        self,
        path: Path,
        count: int,
        header: Mapping[str, object],
        parts: Sequence[RawTrace] | None = None,
        what: str | None = None,
    ) -> None:
        what = what or (_OF_JOB if JOB_KEY in header else _OF_TORCH)
        super().__init__(
            f"{path}: {count} traces in one file, {what}: write load(path).to_parquet(store)"
        )
        self.count = count
        self.header = header
        self.parts = parts


class MixedRanksError(Exception):
    """The ranks of a file cannot be told apart; the message says what is certain."""


def windows(instants: pa.Table) -> int:
    """Marks at the end of a trace."""
    return _count(instants, WINDOW_END)


def spans(events: pa.Table) -> int:
    """Spans of a profiler; each trace has one. An op may have the same name."""
    is_span = np.logical_and(_has(events["name"], _SPAN), _has(events["category"], _OF_SPANS))
    return int(is_span.sum())


def _count(rows: pa.Table, name: str) -> int:
    return int(_has(rows["name"], name).sum())


def _has(column: pa.ChunkedArray, text: str) -> npt.NDArray[np.bool_]:
    """Rows with a text; each chunk has a dictionary."""
    masks = [np.empty(0, np.bool_)]
    for chunk in column.chunks:
        code = pc.index(chunk.dictionary, pa.scalar(text, pa.string())).as_py()
        if code < 0:
            masks.append(np.zeros(len(chunk), np.bool_))
        else:
            masks.append(chunk.indices.fill_null(-2).to_numpy() == code)
    return np.concatenate(masks)


def split(
    text: Iterator[bytes],
    header: Mapping[str, object],
    shared: Mapping[str, object],
    folder: Path,
) -> list[Path]:
    """Write each part as a separate trace; no files if a part lacks its mark or names.

    Parameters
    ----------
    text
        The events, from after the bracket that opens them.
    header
        The text around them, which belongs to the first part.
    shared
        The part of it that applies to the other parts, too.
    folder
        An empty folder for the files.
    """
    paths: list[Path] = []
    pending = b""
    has_names = False
    out: BinaryIO | None = None
    for block in text:
        pending += block
        while match := _END.search(pending):
            with out or _begun(paths, folder, shared if paths else header) as part:
                part.write(pending[: match.end()] + b"]}")
            out = None
            if not has_names and _NAME.search(pending, 0, match.end()) is None:
                return []
            has_names = False
            pending = pending[match.end() :].lstrip().removeprefix(b",").lstrip()
        if pending.startswith(b"]"):  # the rest of the header
            return paths
        if len(pending) > _LONGEST:
            has_names = has_names or _NAME.search(pending) is not None
            out = out or _begun(paths, folder, shared if paths else header)
            out.write(pending[:-_LONGEST])
            pending = pending[-_LONGEST:]
    if out is not None:
        out.close()
    return []


def _begun(paths: list[Path], folder: Path, header: Mapping[str, object]) -> BinaryIO:
    path = folder / f"part{len(paths)}.json"
    paths.append(path)
    out = path.open("wb")
    members = dumps(dict(header))[1:-1].encode("utf-8", "surrogatepass")
    out.write(b"{" + members + (b", " if members else b"") + _EVENTS)
    return out
