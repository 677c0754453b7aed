"""Opening a store."""

from __future__ import annotations

from pathlib import Path

from profframe.errors import ParameterError
from profframe.loading.options import LoadOptions
from profframe.trace.trace import Trace


def open_store(path: Path, options: LoadOptions) -> Trace:
    """A store as a trace; no file is opened that has nothing of the runs and ranks asked for.

    Raises
    ------
    ParameterError
        An option changes what is found when traces are loaded, and a store has that already.
    StoreError, StoreVersionError
        It is damaged, or of another schema version.
    UnknownNameError
        There is no such run, rank or step.
    """
    _check(options)
    trace = Trace.from_store(path, runs=options.runs, ranks=options.ranks)
    return trace.limited(options.memory_limit).filter(steps=options.steps)


def _check(options: LoadOptions) -> None:
    """Raise a ParameterError for an option that a store has no use for."""
    facts = options.facts
    if facts.kinds is not None:
        raise ParameterError("kinds are found when a trace is loaded; a store has them already")
    if facts.fx_metadata is not None:
        raise ParameterError(
            "fx_metadata names the nodes of graphs when a trace is loaded; a store has them already"
        )
    if facts.devices is not None:
        raise ParameterError(
            "devices are matched when a trace is loaded; of a store, use .roofline(devices=)"
        )
    if facts.formulas is not None:
        raise ParameterError(
            "formulas count work when a trace is loaded; a store has the numbers already"
        )
    if facts.compat is not None:
        raise ParameterError(
            "compat changes what is found when a trace is loaded; a store has that already"
        )
    if options.run is not None or options.rank is not None:
        raise ParameterError(
            "run and rank name what is loaded from traces; use .filter(runs=, ranks=) on a store"
        )
