"""Remote files, through fsspec."""

from __future__ import annotations

import glob
import re
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from profframe.errors import (
    HIDDEN,
    MissingExtraError,
    NoTraceFoundError,
    SourceError,
    without_secrets,
)
from profframe.readers.bytes import ByteSource
from profframe.system.drafts import scratch

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(?:::|://)")
_WEB: Final = frozenset(("http", "https"))
_READS_URLS: Final = frozenset(("reference",))
"""Protocols of fsspec whose files name other URLs."""
_MAGIC: Final = re.compile(r"[*?\[]")
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
    >>> path_of("https://ada:secret@host:80/jobs/nightly/rank0.json.gz?version=3")
    '/host:80/jobs/nightly/rank0.json.gz'
    """
    if not is_url(source):
        return source
    plain = without_secrets(source)
    scheme, rest = plain.rsplit("://", 1) if "://" in plain else ("", plain)
    rest = rest.removeprefix(f"{HIDDEN}@")
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
        system: tuple[Any, str] = fsspec.core.url_to_fs(url, **_clients(url))
    except ImportError as error:
        raise MissingExtraError(f"{url}: {error}") from None
    except ValueError as error:
        raise SourceError(f"{url}: {error}") from None
    return system


def _clients(url: str) -> dict[str, dict[str, Any]]:
    """Options by protocol, for each that a URL is chained of."""
    protocols = {part.partition("://")[0]: part for part in url.split("::")}
    if refused := protocols.keys() & _READS_URLS:
        name = min(refused)
        raise SourceError(f"{url}: {name} opens what files name, which is refused")
    of_web = protocols.keys() & _WEB
    if not of_web:
        return {}
    from profframe.conversion import web

    return {name: {"get_client": web.client(protocols[name])} for name in of_web}


def files_of(url: str) -> Iterator[tuple[str, int, bool]]:
    """The files of a URL: URL, bytes, and whether the URL names the file itself."""
    files, path = file_system(url)
    with _url_errors(url):
        is_folder = not _is_of_web(url) or url.endswith("/")  # else a file is searched for links
        if glob.has_magic(path) and not files.exists(path):
            paths = sorted(p for p in files.glob(path) if files.isfile(p))
            paths = _below(url, paths)
            if not paths:
                raise NoTraceFoundError(f"{url}: no file matches the pattern")
        elif is_folder and files.isdir(path):
            names = sorted(e["name"] for e in files.ls(path, detail=True) if e["type"] == "file")
            paths = [p for p in _below(url, names) if not PurePosixPath(p).name.startswith(".")]
            if not paths:
                raise NoTraceFoundError(f"{url}: no files at this URL")
        else:
            yield url, files.size(path) or 0, True
            return
        for file in paths:
            yield files.unstrip_protocol(file), files.size(file) or 0, False


def _is_of_web(url: str) -> bool:
    return url.partition("://")[0] in _WEB


def _below(url: str, paths: list[str]) -> list[str]:
    """Files below the folder that a person has typed; pages of a server name others, too."""
    if not _is_of_web(url):
        return paths
    folder = _MAGIC.split(url, maxsplit=1)[0].rpartition("/")[0] + "/"
    return [path for path in paths if path.startswith(folder) and "/../" not in path]


@contextmanager
def local_file(source: str) -> Iterator[Path]:
    """A local file with the content of a source, and the last names of its path."""
    if not is_url(source):
        with closing(ByteSource(Path(source))) as stream, stream.file() as file:
            yield file
        return
    files, path = file_system(source)
    names = [part for part in PurePosixPath(path_of(source)).parts if part not in {"/", "..", "."}]
    with scratch() as folder:
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
    except FileNotFoundError as error:
        if isinstance(error.__cause__, SourceError):  # of `web`
            raise SourceError(f"{url}: {error.__cause__}") from None
        raise NoTraceFoundError(f"{url}: no such file") from None
    except (NoTraceFoundError, MissingExtraError):
        raise
    except SourceError as error:
        raise SourceError(f"{url}: {error}") from None
    except Exception as error:  # noqa: BLE001 - each has its own, which show the whole URL
        message = str(error) or type(error).__name__
        raise SourceError(f"{url}: cannot be read: {message}") from None
