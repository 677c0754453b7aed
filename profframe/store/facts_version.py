"""What decides the numbers of a trace, as one hash: a version that nobody has to raise.

A cache, a batch and a store keep numbers for longer than the code that found them. Each knows them
by the text of that code and of the data beside it, as they lie in the package: the same for a
wheel, a checkout and an sdist, of any machine and with any line endings. A comment counts, too.
Where only compiled files are installed, those are taken: of one release there are then as many
versions as there are such builds.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

DECIDES: Final = (
    "facts",
    "intervals",
    "loading/files",
    "loading/options",
    "loading/profiles",
    "loading/run_names",
    "loading/tables",
    "readers",
    "schema",
    "store/__init__",
    "store/checking",
    "store/parquet",
    "store/reading",
    "store/rows",
    "store/versions",
    "store/writing",
    "system/disk_tables",
)
"""Modules, packages and data of profframe from which rows are made, without their endings."""
_ENDINGS: Final = ("json", "py", "pyc")


@cache
def facts_version() -> str:
    """Version of what this profframe makes of a source; found once in a process, in 2 ms."""
    return version_of(Path(__file__).parent.parent)


def version_of(package: Path) -> str:
    """Version of what the code in a folder makes of a source.

    Examples
    --------
    >>> import profframe
    >>> version_of(Path(profframe.__file__).parent) == facts_version()
    True
    """
    digest = hashlib.blake2b(digest_size=8)
    for name in files(package):
        text = (package / name).read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{name}\0{len(text)}\0".encode())
        digest.update(text)
    return digest.hexdigest()


def files(package: Path, within: str = "") -> Iterator[str]:
    """Paths in a package of the files that are hashed, in an order that is the same everywhere."""
    with os.scandir(package / within) as found:
        entries = {entry.name: entry for entry in found}
    for name in sorted(entries):
        stem, _, ending = name.partition(".")
        path = f"{within}{stem}"
        decides = any(path == one or path.startswith(f"{one}/") for one in DECIDES)
        if entries[name].is_dir():
            if name != "__pycache__" and (
                decides or any(one.startswith(f"{path}/") for one in DECIDES)
            ):
                yield from files(package, f"{path}/")
        elif decides and ending in _ENDINGS and not (ending == "pyc" and f"{stem}.py" in entries):
            yield within + name
