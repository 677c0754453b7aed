"""Facts: columns that vectorised functions derive from other columns of a trace."""

from __future__ import annotations

from profframe.facts.fact import Fact, Tables
from profframe.facts.kinds import RULES, Classifier, Rule
from profframe.facts.nodes import Registry
from profframe.facts.pipeline import FACTS, add_facts

__all__ = [
    "FACTS",
    "RULES",
    "Classifier",
    "Fact",
    "Registry",
    "Rule",
    "Tables",
    "add_facts",
]
