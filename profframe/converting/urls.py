"""Remote files, through fsspec."""

from __future__ import annotations

import glob
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from profframe.errors import MissingExtraError, NoTraceFoundError, SourceError
from profframe.readers.bytes import ByteSource

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(?:::|://)")
_BLOCK: Final = 4 << 20
_PARTS: Final = 3
"""Parts of a path that names come from: two folders and the file."""


def is_url(text: str) -> bool:
    """Whether a text is a URL, not a path.

    Examples
    --------
    >>> is_url("s3://bucket/rank0.json.gz"), is_url("runs/a:b.json")
    (True, False)
    """
    return _URL.match(text) is not None


def path_of(source: str) -> str:
    """The path in a URL; a path is returned as it is.

    Examples
    --------
    >>> path_of("https://host:80/jobs/nightly/rank0.json.gz?version=3")
    '/host:80/jobs/nightly/rank0.json.gz'
    """
    if not is_url(source):
        return source
    scheme, rest = source.rsplit("://", 1) if "://" in source else ("", source)
    if scheme.startswith("http"):
        parts = urlsplit(f"//{rest}")
        rest = parts.netloc + unquote(parts.path)
    return f"/{rest.lstrip('/')}"


def local_path(url: str) -> str | None:
    """The path on this machine that a URL names, or None.

    Examples
    --------
    >>> local_path("file:///jobs/rank0.json")
    '/jobs/rank0.json'
    """
    scheme, _, path = url.partition("://")
    return path if scheme in {"file", "local"} else None


def file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path on it."""
    try:
        import fsspec
    except ImportError:
        raise MissingExtraError(
            f"{url}: URLs need fsspec: pip install 'profframe[cloud]'"
        ) from None
    try:
        system: tuple[Any, str] = fsspec.core.url_to_fs(url)
    except ImportError as error:
        raise MissingExtraError(f"{url}: {error}") from error
    except ValueError as error:
        raise SourceError(f"{url}: {error}") from error
    return system


def files_of(url: str) -> Iterator[tuple[str, int, bool]]:
    """The files of a URL: URL, bytes, and whether the URL names the file itself."""
    files, path = file_system(url)
    with _url_errors(url):
        if glob.has_magic(path) and not files.exists(path):
            paths = sorted(p for p in files.glob(path) if files.isfile(p))
            if not paths:
                raise NoTraceFoundError(f"{url}: no file matches the pattern")
        elif files.isdir(path):
            names = sorted(e["name"] for e in files.ls(path, detail=True) if e["type"] == "file")
            paths = [p for p in names if not PurePosixPath(p).name.startswith(".")]
            if not paths:
                raise NoTraceFoundError(f"{url}: no files at this URL")
        else:
            yield url, files.size(path) or 0, True
            return
        for file in paths:
            yield files.unstrip_protocol(file), files.size(file) or 0, False


@contextmanager
def local_file(source: str) -> Iterator[Path]:
    """A local file with the content of a source, and the last names of its path."""
    if not is_url(source):
        with closing(ByteSource(Path(source))) as stream, stream.file() as file:
            yield file
        return
    files, path = file_system(source)
    names = [part for part in PurePosixPath(path_of(source)).parts if part not in {"/", "..", "."}]
    with tempfile.TemporaryDirectory(prefix="profframe-") as folder:
        copy = Path(folder, *names[-_PARTS:])
        copy.parent.mkdir(parents=True)
        with _url_errors(source), files.open(path, "rb") as remote, copy.open("wb") as local:
            shutil.copyfileobj(remote, local, _BLOCK)
        yield copy


@contextmanager
def _url_errors(url: str) -> Iterator[None]:
    """Turn errors of a file system into a SourceError that names the URL."""
    try:
        yield
    except FileNotFoundError:
        raise NoTraceFoundError(f"{url}: no such file") from None
    except (SourceError, MissingExtraError):
        raise
    except Exception as error:  # each file system has its own errors
        raise SourceError(f"{url}: cannot be read: {str(error) or type(error).__name__}") from error
