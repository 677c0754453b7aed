"""What the command line keeps of large traces, so that the next command need not load them again.

It does so where it talks to a person, or where `--cache` asks for it.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import click

from profframe.cli.messages import warn
from profframe.errors import ExportError, StoreError
from profframe.show.units import size

SWITCH: Final = "PROFFRAME_CACHE"
"""Environment variable: 0 to keep nothing, or the folder."""
LEAST_BYTES: Final = 2_000_000
"""Bytes of text. To keep a GPU trace of 2 MB takes 0.35 s of processor time after the answer.

`show` of it then takes 1.2 s in place of 2.6, and a new question 1.2 s in place of 1.3.
"""
MOST_BYTES: Final = 5 * 1024**3
_MOST_SHARE: Final = 10
"""It takes a tenth of the free disk at most."""
_COMPRESSED: Final = (".gz", ".zst", ".zip", ".tgz")
_RATIO: Final = 10
"""How many times longer the text of a compressed trace is, about."""
_WANTED: Final = "profframe.cache"
"""Where a context has what the option says."""
_NO_FILES: Final = (Path("/dev"), Path("/proc"))


def _note(ctx: click.Context, _: click.Parameter, is_wanted: bool | None) -> None:
    ctx.meta[_WANTED] = is_wanted


with_cache = click.option(
    "--cache/--no-cache",
    default=None,
    expose_value=False,
    callback=_note,
    help="Keep a large trace, and copies of URLs, for the next command; default: on a terminal.",
)
"""The option of every verb that loads traces."""


def place(source: object) -> Path | None:
    """The folder that keeps what is loaded from a source that was discovered; None if none does."""
    from profframe.loaders.discovery import Files

    if not isinstance(source, Files) or not _is_on():
        return None
    return folder() if sum(map(_text_bytes, source.paths)) >= LEAST_BYTES else None


def folder_of_downloads() -> Path | None:
    """The folder that keeps copies of files of URLs, cut to its size at the end; None if none does.

    Files of any size are worth it: the network is slower than the disk.
    """
    if not _is_on():
        return None
    from profframe.store.cache import cache_folder, entries

    try:
        kept = cache_folder(folder())
    except (StoreError, ExportError) as error:
        warn_of(error)
        return None
    is_new = not any(entry.is_download for entry in entries(kept))
    click.get_current_context().call_on_close(lambda: _cut(kept, is_new=is_new))
    return kept


def _is_on() -> bool:
    ctx = click.get_current_context(silent=True)
    return ctx is not None and _is_wanted(ctx.meta.get(_WANTED))


def _is_wanted(option: bool | None) -> bool:
    if option is not None:
        return option
    return (
        os.environ.get(SWITCH) != "0"
        and os.environ.get("CI", "").lower() in ("", "0", "false")
        and sys.stderr.isatty()
        and _can_be_made(folder())
    )


def _can_be_made(folder: Path) -> bool:
    """Whether it exists, or would be in a folder of this user: not so with `sudo`."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    return nearest == folder or not hasattr(os, "geteuid") or nearest.stat().st_uid == os.geteuid()


def folder() -> Path:
    """The folder of the cache, whether or not it exists."""
    given = os.environ.get(SWITCH, "")
    if given in ("", "0"):
        return default_folder(sys.platform)
    if not Path(given).is_absolute():
        raise click.UsageError(f"{SWITCH}: 0 or an absolute path, not {given!r}")
    return Path(given)


def default_folder(platform: str) -> Path:
    """Where programs keep what they can compute again."""
    home = Path("~").expanduser()
    variable, usual = {
        "darwin": ("", home / "Library" / "Caches"),
        "win32": ("LOCALAPPDATA", home / "AppData" / "Local"),
    }.get(platform, ("XDG_CACHE_HOME", home / ".cache"))
    given = Path(os.environ.get(variable, ""))
    return (given if given.is_absolute() else usual) / "profframe"


def _text_bytes(path: Path) -> int:
    """Bytes of its text, about; 0 for what is no file."""
    if not path.is_file() or any(path.is_relative_to(folder) for folder in _NO_FILES):
        return 0
    ratio = _RATIO if path.suffix.lower() in _COMPRESSED else 1
    return path.stat().st_size * ratio


def most_bytes(folder: Path, kept: int) -> int:
    """How large it may be."""
    return min(MOST_BYTES, (shutil.disk_usage(folder).free + kept) // _MOST_SHARE)


def keep_at_end(folder: Path, keep: Callable[[], bool]) -> None:
    """Keep a trace when the verb has said what it has to say."""
    click.get_current_context().call_on_close(lambda: _keep(folder, keep))


def _keep(folder: Path, keep: Callable[[], bool]) -> None:
    from profframe.store.cache import entries, trim

    with suppress(OSError):
        sys.stdout.flush()
    try:
        before = entries(folder)
        keep()
        now = entries(folder)
        trim(folder, most_bytes(folder, sum(entry.bytes for entry in now)))
    except Exception as error:  # noqa: BLE001 - the answer is out: nothing makes it an error
        warn_of(error)
        return
    traces = [entry for entry in now if not entry.is_download]
    if traces and all(entry.is_download for entry in before):
        _note_kept(folder, "this trace", traces[0].bytes)


def _cut(folder: Path, *, is_new: bool) -> None:
    """Remove what was used least recently, until the folder is no larger than it may be."""
    from profframe.store.cache import entries, trim

    try:
        now = entries(folder)
        trim(folder, most_bytes(folder, sum(entry.bytes for entry in now)))
    except Exception as error:  # noqa: BLE001 - the answer is out: nothing makes it an error
        warn_of(error)
        return
    copies = [entry.bytes for entry in now if entry.is_download]
    if is_new and copies:
        _note_kept(folder, "copies of URLs", sum(copies))


def _note_kept(folder: Path, what: str, number: int) -> None:
    click.echo(
        f"{folder}: keeps {what} for the next command, {size(number).strip()}; --no-cache or "
        f"{SWITCH}=0 keeps none, profframe cache clear removes all",
        err=True,
    )


def warn_of(error: Exception) -> None:
    """Say why nothing is kept."""
    warn(f"{error}; nothing is kept ({SWITCH}=0 asks for none)")
