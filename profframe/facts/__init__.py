"""Facts: one more column per event, found by vectorised functions from tables to tables."""

from __future__ import annotations

from collections.abc import Mapping

from profframe.facts.columns import Tables
from profframe.facts.formulas import Formula
from profframe.facts.kinds import RULES, Classifier, Rule
from profframe.facts.models import Model
from profframe.facts.nodes import Registry
from profframe.facts.pipeline import FACTS, Fact, facts_for, run

__all__ = ["FACTS", "RULES", "Classifier", "Fact", "Registry", "Rule", "Tables", "add_facts"]


def add_facts(  # noqa: PLR0917 - what a user may replace, each
    tables: Tables,
    classifier: Classifier | None = None,
    compat: str | None = None,
    registry: Registry | None = None,
    formulas: Mapping[str, Formula | None] | None = None,
    models: Mapping[str, Model] | None = None,
) -> Tables:
    """Add every fact to the tables of one trace.

    Parameters
    ----------
    tables : Tables
        As a reader gives them; row ``i`` of ``events`` has ``event_id`` ``i``.
    classifier : Classifier, optional
        Rules for ``kind`` in place of :data:`RULES`.
    compat : str, optional
        ``"torch"`` for what torch's own ``events()`` has, also where that is wrong: device time by
        External id, stacks of backward functions that have no sequence number, and FLOPs of
        convolutions as its reports have them, without their padding.
    registry : Registry, optional
        What is known of the nodes of graphs.
    formulas : Mapping[str, Formula | None], optional
        Work of ops by their names, before those of `profframe.facts.formulas.FORMULAS`; None for
        unknown.
    models : Mapping[str, Model], optional
        Models of devices in place of those that come with profframe.

    Returns
    -------
    Tables
        The same tables with the columns of the facts, and what they found in ``quality``.
    """
    return run(facts_for(classifier, compat, registry, formulas, models), tables)
