"""Open a store."""

from __future__ import annotations

from pathlib import Path

from profframe.errors import ParameterError
from profframe.loading.options import FACT_OPTIONS, LoadOptions
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
    for name in options.facts.given:
        raise ParameterError(f"{name} {FACT_OPTIONS[name].reason}")
    if options.run is not None or options.rank is not None:
        raise ParameterError("run and rank apply to traces; for a store use .filter(runs=, ranks=)")
    trace = Trace.from_store(path, runs=options.runs, ranks=options.ranks)
    return trace.limited(options.memory_limit).filter(steps=options.steps)
