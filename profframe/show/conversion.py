"""What came of a batch, in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from profframe.show import units

if TYPE_CHECKING:
    import polars as pl

_STATUSES: Final = ("written", "unchanged", "skipped", "failed")


def headline(files: pl.DataFrame) -> str:
    """What the store has of the files, and what became of them.

    Examples
    --------
    >>> import polars as pl
    >>> row = {"status": "written", "run": "nightly", "rank": 0, "events": 1200}
    >>> headline(pl.DataFrame([row, row | {"rank": 1}]))
    '1 run, 2 ranks, 2,400 events: 2 files written'
    """
    there = files.filter(files["status"].is_in(["written", "unchanged"]))
    runs, traces = there["run"].n_unique(), there.select("run", "rank").n_unique()
    counts = [(status, files.filter(files["status"] == status).height) for status in _STATUSES]
    held = [
        units.plural(runs, "run"),
        units.plural(traces, "rank" if runs <= 1 else "trace"),
        units.plural(int(there["events"].sum()), "event"),
    ]
    return f"{', '.join(held)}: {_counted([(s, n) for s, n in counts if n])}"


def errors(files: pl.DataFrame) -> list[str]:
    """One line for each file that failed."""
    return [str(error) for error in files.filter(files["status"] == "failed")["error"]]


def _counted(counts: Sequence[tuple[str, int]]) -> str:
    parts = [f"{number:,} {status}" for status, number in counts]
    if len(counts) == 1:
        status, number = counts[0]
        parts = [f"{units.plural(number, 'file')} {status}"]
    return ", ".join(parts)
