"""What is packed is known as what has a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import profframe
from profframe import cli
from tests.batch.sources import assert_same, content, loaded, write


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


def test_a_packed_store_is_converted_once_more(
    tmp_path: Path, executor: ThreadPoolExecutor
) -> None:
    paths = [write(tmp_path / "job" / f"{n}.json", n, f"old {n}", rank=0) for n in range(3)]
    store = tmp_path / "store"
    profframe.convert(paths, store, executor)
    assert cli.run(["store", "compact", str(store)]) == 0
    assert [*store.glob("pack-*")]

    assert set(profframe.convert(paths, store, executor)["status"]) == {"unchanged"}
    write(paths[1], 1, "new", rank=0)
    another = write(tmp_path / "x" / "job" / "0.json", 9, "another", rank=0)
    files = profframe.convert([*paths, another], store, executor)

    assert files.select("status", "run").rows() == [
        ("unchanged", "job"),
        ("written", "job.1"),
        ("unchanged", "job.2"),
        ("written", "job.3"),
    ]
    assert_same(content(store), loaded([*paths, another]))
