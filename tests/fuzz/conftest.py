from __future__ import annotations

import pytest


@pytest.fixture(params=["few", pytest.param("many", marks=pytest.mark.long)])
def seeds(request: pytest.FixtureRequest) -> range:
    """Seeds of a fuzzer: ``@pytest.mark.cases(few, many)`` says how many."""
    marker = request.node.get_closest_marker("cases")
    few, many = marker.args
    return range(few) if request.param == "few" else range(few, few + many)
