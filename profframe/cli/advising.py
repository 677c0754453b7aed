"""The verb `advice`: what makes a program slow, and what to do about it."""

from __future__ import annotations

from pathlib import Path

import click

from profframe.cli.asking import check_question, parameter
from profframe.cli.loading import load
from profframe.cli.output import checked_form, echo, emit
from profframe.cli.verbs import (
    Terms,
    takes_sources,
    verbs,
    with_compat,
    with_form,
    with_output,
    with_terms,
)

with_rules = click.option(
    "--rules",
    multiple=True,
    type=Path,
    metavar="PATH",
    help="A file or folder of rules of your own, beside those of profframe.",
)


@verbs.command()
@takes_sources
@click.option("--top", default=20, show_default=True, type=click.IntRange(1), help="Findings.")
@click.option("-p", "parameters", multiple=True, metavar="KEY=VALUE", help="Set a threshold.")
@with_rules
@with_terms
@with_compat
@with_form
@with_output
def advice(
    sources: tuple[str, ...],
    top: int,
    parameters: tuple[str, ...],
    rules: tuple[Path, ...],
    *,
    terms: Terms,
    compat: str | None,
    form: str | None,
    output: Path | None,
) -> None:
    """Show what makes it slow, and what to do.

    Findings of rules, the most severe first, each with the events that show it. With --format or
    -o: the rows of the answer. `profframe answer advice` lists the thresholds.
    """
    from profframe.query.catalogue import advice as with_own
    from profframe.show.findings import findings

    form = checked_form(form, output)
    given = dict(map(parameter, parameters))
    asked = with_own(rules)
    check_question(asked, given)
    trace = terms.on(load(sources, compat=compat))
    found = trace.answer(asked, **given)
    if form == "table" and output is None:
        echo(findings(found, top))
    else:
        emit(found, form, output, lambda _: findings(found, top))
