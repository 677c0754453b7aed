"""Of the devices' time in real traces next to nothing is of no category."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.other_kernels import sums


@pytest.mark.long
def test_at_most_a_twentieth_of_the_time_is_other(traces: Path) -> None:
    times = [(total, other) for _, total, other, _ in sums(traces)]
    assert times
    assert sum(other for _, other in times) <= 0.05 * sum(total for total, _ in times)
