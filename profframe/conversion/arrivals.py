"""Which files of a folder or bucket are finished, and when to look again."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

MOST_ATTEMPTS: Final = 5
"""A file that fails so often is given up until it changes."""
_UNFINISHED: Final = (".tmp", ".temp", ".part", ".partial", ".incomplete", ".crdownload", ".swp")
"""Endings of names that writers give to files until they are finished."""


@dataclass(slots=True)
class _File:
    """What is known of a file since it last changed."""

    signature: Hashable
    since_s: float
    attempts: int = 0
    next_s: float = 0.0
    is_done: bool = False


class Arrivals:
    """The files of one watch, over many looks.

    A file is finished if its signature (size and times) is the same in two looks, the later one at
    least ``pause_s`` after the first. One that fails is ready again after growing pauses, and after
    `MOST_ATTEMPTS` only once it has changed.

    Parameters
    ----------
    pause_s
        Seconds between two looks while files arrive.
    longest_pause_s
        Seconds between two looks after which nothing has arrived for long.

    Examples
    --------
    >>> files = Arrivals(1.0, 8.0)
    >>> files.look({"a": 1, "b.tmp": 1}, 0.0), files.look({"a": 1, "b.tmp": 1}, 1.0)
    ([], ['a'])
    """

    def __init__(self, pause_s: float, longest_pause_s: float) -> None:
        self._pause_s = pause_s
        self._longest_pause_s = longest_pause_s
        self._quiet_s = pause_s
        self._files: dict[str, _File] = {}

    def look(self, signatures: Mapping[str, Hashable], now_s: float) -> list[str]:
        """Names of finished files that are to be converted now, in their order.

        Parameters
        ----------
        signatures
            What differs after a file has changed, by the name of each file that is there.
        now_s
            Seconds since any moment.
        """
        has_changed = False
        before = self._files
        if signatures:  # else the sources are not there, maybe only at this moment
            self._files = {}
        for name, signature in signatures.items():
            file = before.get(name)
            if is_unfinished(name):
                continue
            if file is None or file.signature != signature:
                has_changed = True
                file = _File(signature, now_s)
            self._files[name] = file
        self._quiet_s = (
            self._pause_s if has_changed else min(2 * self._quiet_s, self._longest_pause_s)
        )
        return [name for name, file in self._files.items() if self._is_ready(file, now_s)]

    def _is_ready(self, file: _File, now_s: float) -> bool:
        is_still = now_s - file.since_s >= self._pause_s
        return is_still and not file.is_done and now_s >= file.next_s

    def settle(self, name: str, now_s: float, *, is_done: bool) -> bool:
        """Record that a file was tried; it is tried again later unless ``is_done``.

        Returns whether it is left alone now until it changes: it is done, or given up.
        """
        file = self._files[name]
        file.attempts += 1
        file.next_s = now_s + min(self._pause_s * 2.0**file.attempts, self._longest_pause_s)
        file.is_done = is_done or file.attempts >= MOST_ATTEMPTS
        return file.is_done

    def pause_s(self, now_s: float) -> float:
        """Seconds until the next look: short while files change, longer and longer after that."""
        waiting = [
            max(file.next_s, file.since_s + self._pause_s) - now_s
            for file in self._files.values()
            if not file.is_done
        ]
        return max(0.0, min([self._quiet_s, *waiting]))


def is_unfinished(name: str) -> bool:
    """Whether the name of a file says that its writer has not finished it.

    Examples
    --------
    >>> is_unfinished("/jobs/rank0.json.gz.tmp"), is_unfinished("s3://jobs/.rank0.json")
    (True, True)
    >>> is_unfinished("/jobs/rank0.json.gz")
    False
    """
    own = PurePosixPath(name).name.lower()
    return own.startswith((".", "~")) or own.endswith(_UNFINISHED) or ".tmp." in own
