"""The verb `advice`: what makes a program slow, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from profframe.cli import completion
from profframe.cli.answers import check_question, parameter
from profframe.cli.dividing import Spread, with_spread
from profframe.cli.keeping import with_cache
from profframe.cli.loading import load
from profframe.cli.output import OutputOptions, with_output
from profframe.cli.part import Part, with_part
from profframe.cli.verbs import (
    FILE,
    TermOptions,
    takes_sources,
    verbs,
    with_facts,
    with_terms,
)

with_rules = click.option(
    "--rules",
    multiple=True,
    type=FILE,
    metavar="PATH|NAME",
    help="Your own file or folder of rules, or the name of an installed package's, in addition to "
    "profframe's.",
)


@verbs.command()
@takes_sources
@click.option("--top", default=20, show_default=True, type=click.IntRange(1), help="Findings.")
@click.option(
    "-p",
    "parameters",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a threshold.",
    shell_complete=completion.thresholds,
)
@with_rules
@with_part
@with_terms
@with_facts
@with_cache
@with_spread
@with_output
def advice(
    sources: tuple[str, ...],
    top: int,
    parameters: tuple[str, ...],
    rules: tuple[Path, ...],
    *,
    part: Part,
    terms: TermOptions,
    facts: Mapping[str, Any],
    spread: Spread,
    output: OutputOptions,
) -> int:
    """Show what makes it slow, and what to do.

    Findings of rules, the most severe first, each with its evidence. With --format or -o: the rows
    of the answer. `profframe answer advice` lists the thresholds.

    With --each run every run is replayed, else at most four.

    Rules look at times of ops and devices. For memory snapshots, dumps and execution traces alone,
    it shows the first lines of `profframe FILE`.
    """
    from profframe.query.catalogue import advice as advice_answer
    from profframe.show.findings import findings, without_rules
    from profframe.trace.file_summaries import file_summaries

    thresholds = dict(map(parameter, parameters))
    question = advice_answer(rules)
    check_question(question, thresholds)
    of_parts = spread.answer(question, thresholds) if spread else None
    trace = terms.apply(part.apply(load(sources, facts=facts), sources))
    if of_parts is not None:
        return spread.ask(
            trace, of_parts, "advice", output, lambda r: output.emit(r, lambda _: findings(r, top))
        )
    rows = trace.answer(question, **thresholds)
    if rows.height or output.is_asked_for:
        output.emit(rows, lambda _: findings(rows, top))
        return 0
    with trace.session() as session:
        words = file_summaries(session, session.traces["format"])
    output.emit(rows, lambda _: without_rules(words) if words.is_all else findings(rows, top))
    return 0
