"""Reports of every kind of trace, without a browser: what their pages hold is what answers say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reports import KINDS, check_numbers, data, loaded, tables_of

ALIKE = ("cpu", "cuda, real", "rocm", "mtia", "8 ranks", "graphs", "nvprof")
"""Their reports have the sections of CUDA's, of Nsight's, or of the two ranks of Ascend."""


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.long) if kind in ALIKE else kind for kind in KINDS],
)
def test_the_data_of_a_page_is_that_of_the_answers(
    kind: str, report: Callable[[str], Path]
) -> None:
    document = data(report(kind))
    tables = tables_of(document)
    assert (not tables.keys() & {"self_times", "kernels"}) == loaded(kind).events.is_empty()
    check_numbers(tables, loaded(kind))
    used = {frame for chart in document["charts"].values() for frame in chart["frames"].values()}
    assert used | {flame["frame"] for flame in document["flames"].values()} <= tables.keys()
    assert report(kind).stat().st_size < 8_000_000
