"""Files and folders of URLs, through fsspec."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final

from profframe.errors import (
    MissingExtraError,
    NoTraceFoundError,
    ProfframeError,
    SourceError,
    without_secrets,
    without_secrets_of,
)
from profframe.remote.urls import is_of_web, last_names

_WEB: Final = frozenset(("http", "https"))
_READS_URLS: Final = frozenset(("reference",))
"""Protocols of fsspec whose files name other URLs."""
_MAGIC: Final = re.compile(r"[*?\[]")
_ETAGS: Final = ("ETag", "etag", "generation", "sha", "md5Hash", "Content-MD5")
"""What file systems call a mark that changes with the content."""
_TIMES: Final = (
    "LastModified", "Last-Modified", "last_modified", "updated", "mtime", "modified", "created",
)  # fmt: skip
"""What they call the time of the last change."""
_ATTEMPTS: Final = 3
_REFUSED: Final = frozenset((401, 403, 407))
_GONE: Final = frozenset((404, 410))


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a URL.

    Attributes
    ----------
    url
        With its secrets.
    size
        Bytes; None if the server does not say.
    version
        What is another one after the file has changed: its etag, else its size and time. None if
        there is neither: nothing tells whether it has changed.
    is_named
        Whether a person has named the file itself, and not its folder or a pattern.
    """

    url: str = field(repr=False)
    size: int | None = None
    version: str | None = None
    is_named: bool = True

    @property
    def shown(self) -> str:
        """Its URL without secrets."""
        return without_secrets(self.url)


def file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path on it.

    Raises
    ------
    MissingExtraError
        A package is not installed.
    SourceError
        There is no such protocol, or it is refused.
    """
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
    from profframe.remote import web

    return {name: {"get_client": web.client(protocols[name])} for name in of_web}


def files_of(url: str) -> Iterator[RemoteFile]:
    """The files that a URL, a pattern or a folder leads to.

    Raises
    ------
    NoTraceFoundError
        There is none.
    SourceError
        It cannot be read.
    """
    files, path = file_system(url)
    with url_errors(url):
        files.invalidate_cache()  # of an earlier look: the files may have changed
        is_folder = not is_of_web(url) or url.endswith("/")  # else a file is searched for links
        if is_pattern(url, path) and not files.exists(path):
            matches = files.glob(path, detail=True).values()
            entries = _below(url, [entry for entry in matches if entry["type"] == "file"])
            if not entries:
                raise NoTraceFoundError(f"{url}: no file matches the pattern")
        elif is_folder and files.isdir(path):
            listed = [e for e in files.ls(path, detail=True) if e["type"] == "file"]
            entries = [
                entry
                for entry in _below(url, listed)
                if not PurePosixPath(entry["name"]).name.startswith(".")
            ]
            if not entries:
                raise NoTraceFoundError(f"{url}: no files at this URL")
        else:
            yield _file(url, files, path, is_named=True)
            return
        chain = url.partition("::")[1:] if "::" in url else ("", "")
        for entry in sorted(entries, key=lambda entry: str(entry["name"])):
            name = files.unstrip_protocol(entry["name"]) + "".join(chain)
            is_whole = entry.get("size") is not None and any(map(entry.get, (*_ETAGS, *_TIMES)))
            about = entry if is_whole else files.info(entry["name"])
            yield RemoteFile(name, about.get("size"), version_of(files, about), is_named=False)


def is_pattern(url: str, path: str) -> bool:
    """Whether a path of a URL has wildcards; after a question mark are parameters of a server."""
    return glob.has_magic(path.partition("?")[0] if is_of_web(url) else path)


def _file(url: str, files: Any, path: str, *, is_named: bool) -> RemoteFile:
    about = files.info(path)
    if about.get("type") == "directory":
        raise FileNotFoundError(path)
    return RemoteFile(url, about.get("size"), version_of(files, about), is_named=is_named)


def version_of(files: Any, about: Mapping[str, Any]) -> str | None:
    """What `RemoteFile.version` is, from what a file system says of a file."""
    size = about.get("size")
    for name in _ETAGS:
        if about.get(name):
            return f"{name} {about[name]} {size}"
    for name in _TIMES:
        if (time := about.get(name)) and size is not None:
            return f"{name} {time.timestamp() if isinstance(time, datetime) else time} {size}"
    own = type(files).ukey
    if own.__qualname__.startswith(("AbstractFileSystem.", "HTTPFileSystem.")):
        return None  # the one knows no more than the above, the other only the URL
    return f"ukey {files.ukey(about['name'])}"


def is_other_version(version: str | None, other: str | None) -> bool:
    """Whether two versions differ; lists have fewer marks, and what is absent tells nothing.

    Examples
    --------
    >>> is_other_version("ETag 1 90", "ETag 2 90"), is_other_version("ETag 1 90", "mtime 7 90")
    (True, False)
    """
    kinds = {(text or "").partition(" ")[0] for text in (version, other)}
    return len(kinds) == 1 and version != other


def _below(url: str, entries: list[Any]) -> list[Any]:
    """Files below the folder that a person has typed; pages of a server name others, too."""
    if not is_of_web(url):
        return entries
    folder = _MAGIC.split(url, maxsplit=1)[0].rpartition("/")[0] + "/"
    return [e for e in entries if e["name"].startswith(folder) and "/../" not in e["name"]]


def download(
    file: RemoteFile, path: Path, progress: Callable[[int], None] | None = None
) -> str | None:
    """Copy a file to this machine, whole and as it was at one time.

    Parameters
    ----------
    file
        The file.
    path
        The copy, in a folder that exists.
    progress
        Called with the bytes so far.

    Returns
    -------
    str or None
        The version of the copy.

    Raises
    ------
    NoTraceFoundError
        It is gone.
    SourceError
        It cannot be read, has ended early, or changes all the time.
    """
    files, there = file_system(file.url)
    version = file.version
    if version is None:
        with url_errors(file.url):
            version = _file(file.url, files, there, is_named=file.is_named).version
    for _ in range(_ATTEMPTS):
        with url_errors(file.url):
            files.get_file(there, str(path), callback=_callback(progress))
            files.invalidate_cache()
            now = _file(file.url, files, there, is_named=file.is_named)
            size = path.stat().st_size
            if now.version == version:
                if now.size in {None, size}:
                    return version
                raise SourceError(f"ends after {size:,} of {now.size:,} bytes")
        version = now.version
    raise SourceError(f"{file.url}: changes while it is read; try again")


def copied(
    file: RemoteFile, folder: Path, progress: Callable[[int], None] | None = None
) -> tuple[Path, str | None]:
    """A copy of a file below a folder, at the last names of its URL, and its version."""
    path = folder.joinpath(*last_names(file.url))
    path.parent.mkdir(parents=True, exist_ok=True)
    return path, download(file, path, progress)


def _callback(progress: Callable[[int], None] | None) -> Any:
    from fsspec.callbacks import DEFAULT_CALLBACK, Callback

    if progress is None:
        return DEFAULT_CALLBACK
    return Callback(hooks={"progress": lambda _, value, **__: progress(value)})


@contextmanager
def url_errors(url: str) -> Iterator[None]:
    """Turn errors of a file system into a SourceError that names the URL."""
    try:
        yield
    except FileNotFoundError as error:
        if isinstance(error.__cause__, SourceError):  # of `web`
            raise SourceError(f"{url}: {error.__cause__}") from None
        status = getattr(error.__cause__, "status", None)
        if status is not None and status not in _GONE:
            raise SourceError(f"{url}: {reason_of(url, error.__cause__)}") from None
        if error.__cause__ is not None and status is None and is_of_web(url):
            raise SourceError(f"{url}: {reason_of(url, error.__cause__)}") from None
        raise NoTraceFoundError(f"{url}: no such file") from None
    except (NoTraceFoundError, MissingExtraError):
        raise
    except SourceError as error:
        raise SourceError(f"{url}: {error}") from None
    except Exception as error:  # noqa: BLE001 - each has its own, which show the whole URL
        raise SourceError(f"{url}: {reason_of(url, error)}") from None


def reason_of(url: str, error: BaseException | None) -> str:
    """As `reason`, without secrets of the URL that it is about."""
    return without_secrets_of(url, reason(error))


def reason(error: BaseException | None) -> str:
    """Why a file cannot be read, in a line.

    Examples
    --------
    >>> reason(TimeoutError())
    'cannot be read: the server does not answer in time'
    """
    status = getattr(error, "status", None)
    if isinstance(error, PermissionError) or status in _REFUSED:
        number = f" ({status})" if status else ""
        return f"access is refused{number}; does it need credentials, or others?"
    if isinstance(error, TimeoutError) or "Timeout" in type(error).__name__:
        return "cannot be read: the server does not answer in time"
    line = " ".join(str(error).split()) or type(error).__name__
    return f"cannot be read: {line}"


@contextmanager
def named(copy: Path, url: str) -> Iterator[None]:
    """Let errors about a copy name the URL instead."""
    try:
        yield
    except ProfframeError as error:
        text = str(error)
        if str(copy) not in text:
            raise
        error.args = (text.replace(str(copy), without_secrets(url)),)
        raise
