"""Output of `profframe` without arguments: the traces in this folder, or how to record one."""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from profframe.cli.shell import folded
from profframe.readers.archives import ENDINGS
from profframe.show.units import middle, plural, size, visible

MOST_ENTRIES: Final = 5_000
"""Maximum number of files and folders listed."""
MOST_S: Final = 2.0
"""Maximum seconds of the search."""
DEPTH: Final = 2
"""Levels of folders below this one."""
_LARGE: Final = 16 << 20
"""Bytes of a file that is looked at after all smaller ones."""
_SHOWN: Final = 20
_LONGEST_PATH: Final = 72
_SKIPPED: Final = frozenset(("node_modules", "__pycache__", "site-packages", "venv"))
_RECORDING: Final = """\
Record one around a few steps of your program:

    from torch.profiler import profile
    with profile(record_shapes=True, with_stack=True) as prof:
        train_a_few_steps()
    prof.export_chrome_trace("trace.json.gz")

and then:

    profframe trace.json.gz

It can also be a path elsewhere, a glob or a folder; profframe --help lists the verbs."""


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A trace or a store."""

    path: str
    words: str
    bytes: int | None
    """None for a store."""
    changed_s: float
    has_times: bool = True


@dataclass(slots=True)
class Listing:
    """Traces in a folder, and the entries that were not looked at."""

    entries: list[FolderEntry] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def listing(folder: Path) -> Listing:
    """Traces and stores in a folder and a few levels below it, the last changed first.

    It stops after `MOST_ENTRIES` names or `MOST_S` seconds; files are looked at from the last
    changed one on, large ones after the others: a large one that is no trace takes a while.
    """
    # Imported before the time starts to count.
    from profframe.readers.formats import FORMATS, Format, format_of

    others = Format("another package's format", "")
    result = Listing()
    entries = result.entries
    deadline = time.monotonic() + MOST_S
    files = sorted(_walk(folder, result, deadline), key=_place)
    for count, (path, about) in enumerate(files):
        if time.monotonic() > deadline:
            left = plural(len(files) - count, "file")
            result.left_out.append(f"{left}, after {MOST_S:g} seconds")
            break
        if name := format_of(folder / path):
            form = FORMATS.get(name, others)
            entry = FolderEntry(path, form.words, about.st_size, about.st_mtime, form.has_times)
            entries.append(entry)
    entries.sort(key=lambda entry: (-entry.changed_s, entry.path))
    return result


def _place(file: tuple[str, os.stat_result]) -> tuple[bool, float, str]:
    path, about = file
    return about.st_size > _LARGE, -about.st_mtime, path


def _walk(folder: Path, result: Listing, deadline: float) -> list[tuple[str, os.stat_result]]:
    """Files with the name of a trace, by their path in the folder; stores go to the result."""
    from profframe.readers.formats import FORMATS

    endings = frozenset(ENDINGS).union(*(form.endings for form in FORMATS.values()))
    files: list[tuple[str, os.stat_result]] = []
    seen = deeper = 0
    waiting: list[tuple[Path, int]] = [(folder, 0)]
    while waiting:
        parent, level = waiting.pop(0)
        for entry in _scan(parent):
            seen += 1
            if seen > MOST_ENTRIES or time.monotonic() > deadline:
                result.left_out.append(f"files and folders after the first {seen - 1:,}")
                waiting.clear()
                break
            path = os.path.relpath(entry.path, folder)
            if entry.is_dir(follow_symlinks=False):
                if entry.name.startswith(".") or entry.name in _SKIPPED:
                    continue
                if _is_store(entry.path):
                    about = entry.stat()
                    result.entries.append(FolderEntry(path, "store", None, about.st_mtime))
                elif level < DEPTH:
                    waiting.append((Path(entry.path), level + 1))
                else:
                    deeper += 1
            elif _may_be_trace(entry, endings):
                files.append((path, entry.stat()))
    if deeper:
        result.left_out.append(f"{plural(deeper, 'folder')} more than {DEPTH} levels below")
    return files


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    """Entries of a folder, by name; empty if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return sorted(itertools.islice(entries, MOST_ENTRIES + 1), key=lambda entry: entry.name)
    except OSError:
        return []


def _may_be_trace(entry: os.DirEntry[str], endings: Container[str]) -> bool:
    """Whether it is a file without a suffix, or with one of a trace, such as ``a.json.gz.1``."""
    name = entry.name.lower()
    if name.startswith(".") or not entry.is_file():
        return False
    return "." not in name or any(f".{part}" in endings for part in name.split(".")[1:])


def _is_store(path: str) -> bool:
    """Whether a folder has the folders of a store.

    `is_store` looks closer, but is called later: it takes a second to import what reads Parquet.
    """
    names = {entry.name.partition("=")[0] for entry in _scan(Path(path)) if "=" in entry.name}
    if "run" not in names and not any(e.name.startswith("pack-") for e in _scan(Path(path))):
        return False
    from profframe.store import is_store

    return is_store(path)


def text(result: Listing, width: int, verbs: Container[str]) -> str:
    """The listing, and what to type.

    Parameters
    ----------
    result
        What is here.
    width
        Columns of a line.
    verbs
        Names of verbs: a trace of such a name needs its folder.
    """
    entries = result.entries
    where = f"this folder and {DEPTH} levels of folders below it"
    notes = [f"Not looked at: {note}." for note in result.left_out]
    if not entries:
        return "\n".join([f"No trace found in {where}.", *notes, "", _RECORDING])
    room = min(_LONGEST_PATH, max(width - 36, 20))
    lines_of = _lines(entries)
    rows = [(middle(visible(path), room), bytes_, what) for path, bytes_, what, _ in lines_of]
    widths = [max(len(row[column]) for row in rows[:_SHOWN]) for column in (0, 1)]
    lines = [
        f"{path:<{widths[0]}}  {bytes_:>{widths[1]}}  {what}"
        for path, bytes_, what in rows[:_SHOWN]
    ]
    if rest := sum(number for *_, number in lines_of[_SHOWN:]):
        lines.append(f"and {plural(rest, 'more trace')}")
    own = sum(not os.path.dirname(entry.path) for entry in entries)  # noqa: PTH120
    here = "" if own in {0, len(entries)} else f" ({own:,} in this folder itself)"
    heading = f"{plural(len(entries), 'trace')} in {where}{here}, the latest first:"
    commands = [f"  {command}" for command in _commands(entries, width, verbs)]
    return "\n".join([heading, *lines, *notes, "", "What to type:", *commands])


def _lines(entries: list[FolderEntry]) -> list[tuple[str, str, str, int]]:
    """Path, size, format and number of traces of each line: a folder of one format is a line."""
    groups: dict[tuple[str, str], list[FolderEntry]] = {}
    for entry in entries:
        folder = os.path.dirname(entry.path)  # noqa: PTH120
        key = entry.path if entry.bytes is None or not folder else f"{folder}/"
        groups.setdefault((key, entry.words), []).append(entry)
    return [
        (
            group[0].path if len(group) == 1 else path,
            "" if group[0].bytes is None else size(sum(entry.bytes or 0 for entry in group)),
            words if len(group) == 1 else f"{words}, {len(group):,} files",
            len(group),
        )
        for (path, words), group in groups.items()
    ]


def _commands(entries: list[FolderEntry], width: int, verbs: Container[str]) -> Iterator[str]:
    """Commands for the latest trace, and for the folder with the most traces of a profiler."""
    timed = [entry for entry in entries if entry.has_times]
    latest = (timed or entries)[0]
    yield _command(latest.path, width, verbs)
    folders = Counter(os.path.dirname(e.path) for e in timed if e.bytes is not None)  # noqa: PTH120
    if folders and (most := folders.most_common(1)[0])[1] > 1:
        yield _command(most[0] or ".", width, verbs)
    yield "profframe --help"


def _command(path: str, width: int, verbs: Container[str]) -> str:
    is_taken = path.startswith("-") or path in verbs
    return folded(["profframe", f"./{path}" if is_taken else path], width, 2)
