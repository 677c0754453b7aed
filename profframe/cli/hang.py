"""The verb `hang`: which rank did not arrive at which collective."""

from __future__ import annotations

from functools import partial
from typing import Final

import click

from profframe.cli.dividing import Spread, with_spread
from profframe.cli.keeping import with_cache
from profframe.cli.loading import load
from profframe.cli.output import OutputOptions, with_output
from profframe.cli.verbs import (
    SOURCE,
    one_option,
    verbs,
)
from profframe.errors import ParameterError

_RECORDS: Final = "SELECT count(*) FROM recorded_collectives WHERE NOT is_of_plugin(recorder)"


@verbs.command()
@click.argument("sources", metavar="DUMP...", nargs=-1, required=True, type=SOURCE)
@one_option("--as-rank", type=int, help="Rank of a single dump, if its name does not have it.")
@click.option("--top", default=20, show_default=True, type=click.IntRange(1), help="Rows.")
@with_cache
@with_spread
@with_output
def hang(
    sources: tuple[str, ...],
    *,
    as_rank: int | None,
    top: int,
    spread: Spread,
    output: OutputOptions,
) -> int:
    """Show which rank did not arrive at which collective.

    DUMPs are torch's flight recorder dumps of all ranks: files, a glob, a folder or a store. It
    says in a sentence what hangs, with the stack of each side; then follow a table of hangs, and
    one of how far each rank got. With --format, -o or --each: the rows of the answer `hangs`.

    The exit code is 0 whether or not something hangs: --format json writes [] if nothing does.
    """
    from profframe.cli.next_commands import typed
    from profframe.query.catalogue import find
    from profframe.show import terminal
    from profframe.trace import file_summaries
    from profframe.trace.query import own_rows

    of_parts = spread.answer(find("hangs"), {}) if spread else None
    trace = load(sources, rank=as_rank)
    if not own_rows(trace, "SELECT count(*) FROM process_groups").item() and not (
        own_rows(trace, _RECORDS).item()
    ):
        raise ParameterError(
            f"{' '.join(sources)}: no flight recorder records in it (give the dumps of all ranks; "
            "TORCH_FR_BUFFER_SIZE=2000 records them, and an NCCL timeout writes them)"
        )
    if of_parts is not None:
        show = partial(output.emit, readable=output.of_parts(trace), top=top)
        return spread.ask(trace, of_parts, "hangs", output, show)
    rows = trace.hangs()
    if output.is_asked_for:
        output.emit(rows, readable=output.of(trace))
        return 0
    with trace.session() as session:
        command = typed(sources, {}, (), output.width)
        output.echo(*terminal.words(file_summaries.dumps(session), top, output.width, command))
    return 0
