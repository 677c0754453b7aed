"""Open a store."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from profframe.errors import ParameterError
from profframe.loading.options import LoadOptions
from profframe.trace.trace import Trace

_DECIDED: Final = {
    "kinds": "are found when a trace is loaded; a store has them already",
    "fx_metadata": "names the nodes of graphs when a trace is loaded; a store has them already",
    "devices": "are matched when a trace is loaded; for a store, use .roofline(devices=)",
    "kernel_categories": "are given to kernels when a trace is loaded; a store has them already",
    "execution_traces": "are joined when a trace is loaded; a store has their tables already",
    "memory": "is joined when a trace is loaded; a store has its tables already",
    "formulas": "count work when a trace is loaded; a store has the numbers already",
    "compat": "changes what is computed when a trace is loaded; a store has that already",
}
"""Options of facts, and why a store does not take them."""


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
    for name, reason in _DECIDED.items():
        if getattr(options.facts, name) is not None:
            raise ParameterError(f"{name} {reason}")
    if options.run is not None or options.rank is not None:
        raise ParameterError("run and rank apply to traces; for a store use .filter(runs=, ranks=)")
    trace = Trace.from_store(path, runs=options.runs, ranks=options.ranks)
    return trace.limited(options.memory_limit).filter(steps=options.steps)
