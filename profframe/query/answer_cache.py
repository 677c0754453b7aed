"""Rows of answers about a trace in a cache, so that the next process need not compute them again.

They are in a folder of the store that the cache has of the trace, and are removed with it. Another
version of profframe, of its SQL or of what runs it does not read them.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from profframe.errors import ExportError
from profframe.query.header import sql_directory
from profframe.system.atomic_files import atomic_write

if TYPE_CHECKING:
    import polars as pl

FOLDER: Final = ".answers"
"""Its name in a store."""
MOST_BYTES: Final = 4 << 20
"""Larger answers are computed again."""
MOST_ANSWERS: Final = 1_000
_CODE: Final = (".py", ".pyc", ".sql", ".json")
_ENGINES: Final = ("duckdb", "polars")
_CHECKSUM: Final = 16


class AnswerCache:
    """Rows by question; without a folder they stay in memory until they are written to one."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._rows: dict[str, bytes] = {}

    def __reduce__(self) -> tuple[type[AnswerCache], tuple[Path | None]]:
        return AnswerCache, (self._folder,)

    def once(self, question: object, compute: Callable[[], pl.DataFrame]) -> pl.DataFrame:
        """The rows of an answer; ``compute`` is called where the cache does not have them.

        ``question`` has all that determines them beside the trace and profframe; it is known by its
        `repr`.
        """
        import polars as pl

        key = hashlib.blake2b(f"{code_version()}{question!r}".encode(), digest_size=16).hexdigest()
        packed = self._packed(key)
        if packed is not None:
            return pl.read_ipc_stream(BytesIO(packed))
        rows = compute()
        if rows.estimated_size() <= MOST_BYTES:
            self._keep(key, _packed(rows))
        return rows

    def write(self, folder: Path) -> None:
        """Write what is in memory into a new folder."""
        folder.mkdir(0o700)
        with self._lock:
            rows = dict(self._rows)
        for key, packed in rows.items():
            (folder / key).write_bytes(_checked(packed))

    def _packed(self, key: str) -> bytes | None:
        if self._folder is None:
            with self._lock:
                return self._rows.get(key)
        with suppress(OSError):
            file = (self._folder / key).read_bytes()
            if _checked(file[_CHECKSUM:]) == file:
                return file[_CHECKSUM:]
        return None

    def _keep(self, key: str, packed: bytes) -> None:
        if self._folder is None:
            with self._lock:
                if len(self._rows) < MOST_ANSWERS:
                    self._rows[key] = packed
            return
        with suppress(OSError, ExportError):  # a full disk, or one that can only be read
            self._folder.mkdir(0o700, exist_ok=True)
            kept = [*self._folder.iterdir()]
            for file in kept if len(kept) >= MOST_ANSWERS else ():
                file.unlink(missing_ok=True)
            with atomic_write(self._folder / key) as draft:
                draft.chmod(0o600)
                draft.write_bytes(_checked(packed))


def _packed(rows: pl.DataFrame) -> bytes:
    packed = BytesIO()
    rows.write_ipc_stream(packed)
    return packed.getvalue()


def _checked(packed: bytes) -> bytes:
    """Rows after their checksum: a crash of the machine can leave anything."""
    return hashlib.blake2b(packed, digest_size=_CHECKSUM).digest() + packed


@cache
def code_version() -> str:
    """Version of all that computes answers: a hash of its text, in 30 ms, once in a process."""
    digest = hashlib.blake2b(digest_size=8)
    digest.update(" ".join(map(version, _ENGINES)).encode())
    for root in (Path(__file__).parent.parent, sql_directory()):
        for path in sorted(root.rglob("*")):
            if path.suffix in _CODE and path.parent.name != "__pycache__":
                text = path.read_bytes()
                digest.update(f"{path.relative_to(root)}\0{len(text)}\0".encode())
                digest.update(text)
    return digest.hexdigest()
