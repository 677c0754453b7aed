"""A version of the code that computes the rows of a trace: a hash, so nobody has to increase it.

A cache, a batch and a store keep rows for longer than the code that computed them. It hashes the
text of that code and its data, whatever the line endings, so it is the same for a wheel, a checkout
and an sdist on any machine. A comment changes it, too. If only compiled files are installed, it
hashes those: each build of a release then has a version of its own.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

HASHED: Final = (
    "facts",
    "intervals",
    "loaders/communicator_ranks",
    "loaders/companion_files",
    "loaders/execution_trace_files",
    "loaders/graph_capture_files",
    "loaders/load",
    "loaders/memory_snapshot_files",
    "loaders/options",
    "loaders/programs",
    "loaders/provenance_files",
    "loaders/recorded_kernels",
    "loaders/run_names",
    "loaders/tables",
    "loaders/trace_files",
    "native",
    "readers",
    "schema",
    "store/__init__",
    "store/damaged_file",
    "store/member_files",
    "store/parquet",
    "store/schema_steps",
    "store/versions",
    "store/visible_rows",
    "store/writing",
    "system/disk_tables",
)
"""Modules, packages and data of profframe that determine the rows, without file suffixes."""
_ENDINGS: Final = ("c", "h", "json", "py", "pyc")


@cache
def facts_version() -> str:
    """Version of this profframe; computed once in a process, in 10 ms."""
    return version_of(Path(__file__).parent.parent)


def version_of(package: Path) -> str:
    """Version of the code in a folder.

    Examples
    --------
    >>> import profframe
    >>> version_of(Path(profframe.__file__).parent) == facts_version()
    True
    """
    digest = hashlib.blake2b(digest_size=8)
    for name in files(package):
        text = (package / name).read_bytes()
        if b"\r" in text:  # to look for two bytes takes thirty times as long
            text = text.replace(b"\r\n", b"\n")
        digest.update(f"{name}\0{len(text)}\0".encode())
        digest.update(text)
    return digest.hexdigest()


def files(package: Path, within: str = "") -> Iterator[str]:
    """Paths in a package of the files to hash, in an order that is the same everywhere."""
    with os.scandir(package / within) as scan:
        entries = {entry.name: entry for entry in scan}
    for name in sorted(entries):
        stem, _, ending = name.partition(".")
        path = f"{within}{stem}"
        is_hashed = any(path == part or path.startswith(f"{part}/") for part in HASHED)
        if entries[name].is_dir():
            if name != "__pycache__" and (
                is_hashed or any(part.startswith(f"{path}/") for part in HASHED)
            ):
                yield from files(package, f"{path}/")
        elif is_hashed and ending in _ENDINGS and not (ending == "pyc" and f"{stem}.py" in entries):
            yield within + name
