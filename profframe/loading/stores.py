"""Open a store."""

from __future__ import annotations

from pathlib import Path

from profframe.errors import ParameterError
from profframe.loading.options import LoadOptions
from profframe.trace.trace import Trace


def open_store(path: Path, options: LoadOptions) -> Trace:
    """A store as a trace; only files with the selected runs and ranks are opened.

    Raises
    ------
    ParameterError
        An option changes how traces are loaded, which does not apply to a store.
    StoreError, StoreVersionError
        It is damaged, or of another schema version.
    UnknownNameError
        There is no such run, rank or step.
    """
    _check(options)
    trace = Trace.from_store(path, runs=options.runs, ranks=options.ranks)
    return trace.limited(options.memory_limit).filter(steps=options.steps)


def _check(options: LoadOptions) -> None:
    """Raise a ParameterError for an option that does not apply to a store."""
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
