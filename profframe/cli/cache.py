"""The verb `cache`: what the command line keeps of large traces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from profframe.cli import keeping
from profframe.cli.verbs import verbs
from profframe.show.units import plural, size, visible

if TYPE_CHECKING:
    from profframe.store.cache import Entry


@verbs.group("cache", invoke_without_command=True)
@click.pass_context
def cache_verbs(ctx: click.Context) -> None:
    """Show what is kept of large traces and of URLs, or clear it.

    On a terminal, outside CI, a trace of 2 MB of text or more is kept for the next command, with
    answers about it: read again only if its content or profframe has changed. So is the copy of
    each file of a URL: it is copied again only if its etag, or its size and time, have changed. The
    least recently used go first.
    PROFFRAME_CACHE=0 keeps nothing; PROFFRAME_CACHE=DIR is another folder.
    """
    if ctx.invoked_subcommand is not None:
        return
    from profframe.store.cache import entries

    folder = keeping.folder()
    kept = entries(folder)
    total = sum(entry.bytes for entry in kept)
    text = f"{visible(str(folder))}: {_counts(kept)}, {size(total).strip()}"
    if folder.is_dir():
        text += f" of at most {size(keeping.most_bytes(folder, total)).strip()}"
    click.echo(text)


@cache_verbs.command("clear")
def cache_clear() -> None:
    """Remove all that is kept, but what another process reads."""
    from profframe.store.cache import clear

    folder = keeping.folder()
    removed = clear(folder)
    total = size(sum(entry.bytes for entry in removed)).strip()
    click.echo(f"{visible(str(folder))}: {_counts(removed)} removed, {total}", err=True)


def _counts(kept: Sequence[Entry]) -> str:
    """How many traces and copies there are."""
    copies = sum(entry.is_download for entry in kept)
    traces = plural(len(kept) - copies, "trace")
    return f"{traces} and copies of {plural(copies, 'URL')}" if copies else traces
