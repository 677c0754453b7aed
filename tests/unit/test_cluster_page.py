"""``examples/cluster.md`` works as it stands, and its engines agree."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from contextlib import chdir
from pathlib import Path

import pytest

from profframe import cli
from tests.members import few

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "examples" / "cluster.md").read_text()
BLOCKS = re.findall(r"```(sh|python)\n(.*?)```", PAGE, re.DOTALL)

AGREE = """
    expected = sorted(by_duckdb.select("run", "rank", "name", "self_ns").rows())
    assert expected
    assert sorted(by_polars.select("run", "rank", "name", "self_ns").rows()) == expected
    table = by_pyarrow.select(["run", "rank", "name", "self_ns_sum"]).to_pylist()
    assert sorted(tuple(row.values()) for row in table) == expected
    whole = profframe.load("store").self_times()
    assert together.equals(whole)
    top = whole.group_by("name").agg(pl.col("self_ns").sum()).sort(
        ["self_ns", "name"], descending=[True, False]
    )
    assert slowest.select("name", "self_ns").rows() == top.head(5).rows()
    assert set(together["run"]) == {"monday", "tuesday"}
"""


def script() -> str:
    """The Python of the page as one script, which needs no guard."""
    code = "".join(block for language, block in BLOCKS if language == "python")
    return code + textwrap.dedent(AGREE)


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cluster")
    for run in ("monday", "tuesday"):
        (path / "jobs").mkdir(exist_ok=True)
        shutil.copy(ROOT / "examples" / "cpu_training.json.gz", path / f"jobs/{run}.json.gz")
    for language, block in BLOCKS:
        if language == "sh":
            arguments = shlex.split(block)
            assert arguments[0] == "profframe"
            with chdir(path):
                assert cli.run(arguments[1:]) == 0
    return path


@pytest.fixture
def folder(converted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(converted, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("is_packed", few([False, True], [True]))
def test_every_block_runs_and_the_engines_agree(is_packed: bool, folder: Path) -> None:
    if is_packed:
        command = ["store", "compact", "store"]
        assert " ".join(command) in PAGE
        assert cli.run(command) == 0
    (folder / "page.py").write_text(script())

    done = subprocess.run(
        [sys.executable, "page.py"], cwd=folder, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert "aten::" in done.stdout
