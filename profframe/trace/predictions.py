"""Many predictions of a trace at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

from profframe.analysis.replay import what_if as replay
from profframe.show.frame import frame
from profframe.trace.analyses import replayed

if TYPE_CHECKING:
    from profframe.trace.trace import Trace

FACTORS: Final = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)


def what_if_grid(
    self: Trace,
    step: int | None = None,
    run: str | None = None,
    *,
    communication: Sequence[float] = FACTORS,
    host: Sequence[float] = FACTORS,
) -> pl.DataFrame:
    """Predict what a step, or the whole trace, would take for many factors at once.

    As `what_if` does for one factor of communication and one of the host.

    Parameters
    ----------
    step
        N of a profiler step; without it the whole trace.
    run
        The run, where there are several.
    communication
        Factors of the time of transfers.
    host
        Factors of the time of all that threads do.

    Returns
    -------
    polars.DataFrame
        One row for each pair, by ``communication`` and then ``host`` as they were given, with the
        ``now_ns predicted_ns saved_ns saved_share`` of `what_if`.

    Raises
    ------
    UnknownNameError
        There is no such run or step.
    ParameterError
        There are several runs, or a factor is below 0 or no number.

    Examples
    --------
    >>> from profframe import load
    >>> rows = load("examples/cpu_training.json.gz").what_if_grid(communication=[1], host=[0, 1])
    >>> rows["predicted_ns"][0] < rows["predicted_ns"][1]
    True
    """
    model, _, _ = replayed(self, step, run)
    return frame(replay.grid(model, communication, host))
