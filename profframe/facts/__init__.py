"""Facts: one more column per event, found by vectorised functions from tables to tables."""

from __future__ import annotations

from typing import Final

from profframe.facts.columns import Fact, Tables
from profframe.facts.duplicates import duplicates
from profframe.facts.flops import flops
from profframe.facts.forward import forward
from profframe.facts.kinds import RULES, Classifier, Rule, kinds
from profframe.facts.launches import launches
from profframe.facts.memory import memory
from profframe.facts.nesting import nesting
from profframe.facts.overloads import overloads
from profframe.facts.python_stacks import python_stacks
from profframe.facts.scopes import scopes
from profframe.facts.stacks import stacks
from profframe.facts.steps import steps

__all__ = ["FACTS", "RULES", "Classifier", "Fact", "Rule", "Tables", "add_facts"]

FACTS: Final[tuple[Fact, ...]] = (
    kinds,
    overloads,
    nesting,
    scopes,
    duplicates,
    launches,
    steps,
    memory,
    flops,
    forward,
    stacks,
    python_stacks,
)
"""All facts, in the order they run: each may use the columns of those before it."""


def add_facts(tables: Tables, classifier: Classifier | None = None) -> Tables:
    """Add every fact to the tables of one trace.

    Parameters
    ----------
    tables : Tables
        As a reader gives them; row ``i`` of ``events`` has ``event_id`` ``i``.
    classifier : Classifier, optional
        Rules for ``kind`` in place of :data:`RULES`.

    Returns
    -------
    Tables
        The same tables with the columns of the facts, and what they found in ``quality``.
    """
    tables = kinds(tables, RULES if classifier is None else classifier)
    for fact in FACTS[1:]:
        tables = fact(tables)
    return tables
