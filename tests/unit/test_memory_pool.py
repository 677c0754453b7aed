from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import profframe
from profframe.errors import NotATraceError
from profframe.system.memory_pool import release, system_memory
from tests import needs


def backend() -> str:
    name: str = pa.default_memory_pool().backend_name
    return name


@pytest.fixture
def chosen() -> str:
    """The pool that the process has set."""
    if backend() == "system":
        needs.own_pool()
    return backend()


def test_the_last_of_several_resets_the_pool(chosen: str) -> None:
    first, second = system_memory(), system_memory()
    with first:
        second.__enter__()
        assert backend() == "system"
    assert backend() == "system"
    second.__exit__(None, None, None)
    assert backend() == chosen


def test_a_load_leaves_the_pool_as_it_was_also_where_it_fails(tmp_path: Path, chosen: str) -> None:
    path = tmp_path / "t.json"
    path.write_text('[{"ph": "X", "name": "a", "ts": 1, "dur": 2}]')
    seen: list[str] = []
    profframe.load(path, progress=lambda _done, _all: seen.append(backend()))
    assert set(seen) == {"system"}
    assert backend() == chosen
    path.write_text("{}")
    with pytest.raises(NotATraceError):
        profframe.load(path)
    assert backend() == chosen


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it reads /proc")
def test_freed_memory_is_returned() -> None:
    # Below what malloc maps by itself, and each between two that stay.
    blocks = [np.ones(1 << 17, np.uint8) for _ in range(1000)]
    kept = blocks[::2]
    del blocks
    before = resident()
    release()
    assert len(kept) == 500
    assert resident() <= before


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])
