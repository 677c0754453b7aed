"""Load the sources of a verb, with a progress bar if it takes a while."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from profframe.cli import keeping
from profframe.cli.messages import warn
from profframe.errors import AnswerError, ExportError, StoreError, UnknownNameError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from profframe.trace.trace import Trace

QUIET_S: Final = 1.0
"""Loading that takes less time shows no progress."""
NO_FACTS: Final[Mapping[str, Any]] = MappingProxyType({})


def load(
    sources: Sequence[str],
    run: str | None = None,
    rank: int | None = None,
    facts: Mapping[str, Any] = NO_FACTS,
) -> Trace:
    """Load traces as one; options are those of `profframe.load`."""
    from profframe.loaders.discovery import Files, discover
    from profframe.loaders.load import load as load_traces
    from profframe.loaders.load import load_from_cache
    from profframe.loaders.remote_copies import fetched
    from profframe.loaders.tables import UNREADABLE_FILE

    with closing(LoadingBar()) as bar:
        source = discover([*sources])
        if isinstance(source, Files) and source.remote:
            source = fetched(source, keeping.folder_of_downloads(), partial(bar, what="copying"))
        folder = keeping.place(source)
        options = {"run": run, "rank": rank, "progress": bar, **facts}
        trace = None
        if folder is not None and isinstance(source, Files):
            try:
                trace, keep = load_from_cache(source, folder, **options)
            except (StoreError, ExportError) as error:  # of the cache, or the next line says it
                keeping.warn_of(error)
            else:
                if keep is not None:
                    keeping.keep_at_end(folder, keep)
        if trace is None:
            trace = load_traces(source, **options)
    if isinstance(source, Files):
        quality = trace.quality
        for detail in quality["detail"].filter(quality["issue"] == UNREADABLE_FILE):
            warn(detail)
    return trace


@contextmanager
def naming(sources: Sequence[str], kind: type[AnswerError] = UnknownNameError) -> Iterator[None]:
    """Let errors of some type begin with the traces that they are about."""
    try:
        yield
    except kind as error:
        named = type(error)(f"{' '.join(sources)}: {error}")
        raise named.with_suggestion(error.instead) from None


class LoadingBar:
    """Progress of loading on a terminal, if it takes a while."""

    def __init__(self, unit: str = "bytes") -> None:
        self._unit = unit
        self._start = time.monotonic()
        self._bar: tuple[Progress, TaskID] | None = None

    def __call__(self, done: int, total: int, what: str = "loading") -> None:
        """Move the bar, by bytes or any other count."""
        if self._bar is None:
            if time.monotonic() - self._start < QUIET_S or not sys.stderr.isatty():
                return
            from rich.progress import DownloadColumn, MofNCompleteColumn, Progress

            from profframe.show.terminal import console

            count = DownloadColumn() if self._unit == "bytes" else MofNCompleteColumn()
            columns = *Progress.get_default_columns(), count
            progress = Progress(*columns, console=console(error=True), transient=True)
            self._bar = progress, progress.add_task(what)
            progress.start()
        progress, task = self._bar
        progress.update(task, completed=done, total=total, description=what)

    def close(self) -> None:
        """Remove the bar from the terminal."""
        if self._bar is not None:
            self._bar[0].stop()
