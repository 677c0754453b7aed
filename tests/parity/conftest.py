from __future__ import annotations

import pytest

from tests import needs
from tests.members import few
from tests.parity.profiles import SCENARIOS, Library, Taken


@pytest.fixture(scope="session")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> Library:
    """Real profiles by name, taken once a session; skips where torch is not installed."""
    needs.torch()
    return Library(tmp_path_factory.mktemp("profiles"))


@pytest.fixture(params=few(SCENARIOS, 12))
def taken(request: pytest.FixtureRequest, profiles: Library) -> Taken:
    """Each of the profiles; every second one with ``-m long`` only."""
    return profiles[request.param]
