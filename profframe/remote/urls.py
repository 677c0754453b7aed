"""What a URL says by itself; nothing is opened."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from profframe.errors import HIDDEN, without_secrets

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(?:::|://)")
_PATH_OF_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/[^/]")
_WEB: Final = frozenset(("http", "https"))
_PARTS: Final = 3
"""Parts of a path that names come from: two folders and the file."""
_LONGEST_NAME: Final = 200
"""Bytes of a name that file systems of this machine take, with room for what is added to it."""


def is_url(text: str) -> bool:
    """Whether a text is a URL, not a path.

    Examples
    --------
    >>> is_url("s3://bucket/rank0.json.gz"), is_url("runs/a:b.json")
    (True, False)
    """
    return _URL.match(text) is not None


def was_url(path: str) -> bool:
    """Whether a path was a URL before `pathlib.Path` took a slash from it.

    Examples
    --------
    >>> was_url("s3:/bucket/rank0.json.gz"), was_url("runs/a:b.json")
    (True, False)
    """
    return _PATH_OF_URL.match(path) is not None


def is_of_web(url: str) -> bool:
    """Whether a web server has it."""
    return url.partition("://")[0].lower() in _WEB


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


def last_names(url: str) -> Sequence[str]:
    """The names at the end of the path of a URL, each one that a file of this machine can have.

    Examples
    --------
    >>> last_names("s3://bucket/jobs/nightly/../rank0.json.gz")
    ['jobs', 'nightly', 'rank0.json.gz']
    """
    parts = PurePosixPath(path_of(url)).parts
    names = [part.replace("\0", "_") for part in parts if part not in {"/", "..", "."}]
    return [_shortened(name) for name in names[-_PARTS:]] or ["file"]


def inside(url: str, member: str) -> str:
    """The URL of a member of an archive, with what follows the path of the archive at its end.

    Examples
    --------
    >>> inside("https://host/all.zip?v=2", "/job/rank0.json"), inside("s3://b/all.zip", "")
    ('https://host/all.zip/job/rank0.json?v=2', 's3://b/all.zip')
    """
    path, mark, query = url.partition("?") if is_of_web(url) else (url, "", "")
    return f"{path}{member}{mark}{query}"


def _shortened(name: str) -> str:
    """The end of a long name, which has its suffixes."""
    data = name.encode("utf-8", "surrogateescape")
    return data[-_LONGEST_NAME:].decode("utf-8", "ignore") if len(data) > _LONGEST_NAME else name
