"""Real traces of several ranks: one command, and an answer is that of each file, put together."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import profframe
from profframe import Trace, cli
from profframe.query.catalogue import find
from tests.batch.sources import assert_same, content, loaded
from tests.members import few

DLRM = "facebookresearch__param/dlrm_kineto/worker[{}]*.gz"
ASCEND = "xiaobingling93-pixel__Ascend-msinsight/v2/level0/rank*/trace_view.json.gz"
FEW = ("collectives", "kernels", "self_times")
"""Answers that are asked in every run of the tests."""


@pytest.fixture(scope="module", params=few(["01", "0-7"], 1))
def ranks(request: pytest.FixtureRequest) -> str:
    """Which ranks there are of the larger set: two, or all."""
    return str(request.param)


@pytest.fixture(scope="module")
def paths(traces: Path, ranks: str) -> list[Path]:
    return [*sorted(traces.glob(DLRM.format(ranks))), *sorted(traces.glob(ASCEND))]


@pytest.fixture(scope="module")
def store(traces: Path, ranks: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store")
    sources = [str(traces / DLRM.format(ranks)), str(traces / ASCEND)]
    assert cli.run(["convert", *sources, "-o", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def parts(paths: list[Path]) -> list[Trace]:
    return [profframe.load(path) for path in paths]


@pytest.fixture(scope="module")
def whole(paths: list[Path]) -> Trace:
    return profframe.load(paths)


def test_the_store_has_every_rank(store: Path, paths: list[Path]) -> None:
    found = profframe.load(store).traces.select("run", "rank").rows()
    expected = [("dlrm_kineto", rank) for rank in range(len(paths) - 2)]
    expected += [("level0", 0), ("level0", 1)]
    assert sorted(found) == expected
    assert_same(content(store), loaded(paths))


def per_file(name: str) -> bool:
    division = find(name).division
    return division is not None and division.unit == "rank"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in FEW else pytest.mark.long)
        for name in profframe.answers().filter(kind="answer")["name"]
    ],
)
def test_an_answer_is_that_of_each_file_put_together(
    name: str, store: Path, whole: Trace, parts: list[Trace]
) -> None:
    found = profframe.load(store).answer(name)
    assert found.equals(whole.answer(name))
    if per_file(name):  # some begin with what is largest, of whatever rank
        united = pl.concat([part.answer(name) for part in parts])
        assert sorted(map(repr, found.rows())) == sorted(map(repr, united.rows()))
