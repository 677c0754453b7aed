"""``examples/duckdb_shell.md`` works as it stands, in the DuckDB shell and without profframe."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from profframe import load, schema
from profframe.query.catalogue import find
from profframe.query.run import script
from profframe.trace.trace import Trace
from tests import needs
from tests.builders import table
from tests.members import few

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "examples" / "duckdb_shell.md").read_text()
BLOCKS = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
VIEWS, OPTIONAL_VIEWS, SELF_TIMES, KEY_AVERAGES, OWN = BLOCKS
RUN_IN_MODULE = """
import sys
import duckdb

connection, result = duckdb.connect(), None
for line in sys.stdin.read().split(";\\n"):
    result = connection.sql(line) or result
result.write_csv(sys.argv[1])
assert not any(name.startswith("profframe") for name in sys.modules)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``sql`` and ``store``, as the page has it."""
    path = tmp_path_factory.mktemp("shell")
    (path / "sql").symlink_to(ROOT / "sql")
    loaded = load(ROOT / "examples" / "cpu_training.json.gz")
    key = {"run": loaded.traces["run"][0], "rank": 0}
    rows = {name: table(name, [key]) for name in schema.OPTIONAL_TABLES}
    Trace.from_tables(loaded.tables | rows).to_parquet(path / "store")
    unfinished = path / "store" / ".tmp-1" / "rank=0"
    unfinished.mkdir(parents=True)
    (unfinished / "events.parquet").write_bytes(b"not yet Parquet")
    return path


@pytest.fixture(scope="module")
def trace(folder: Path) -> Iterator[Trace]:
    with load(folder / "store").session() as asked:
        yield asked


def in_shell(script: str, folder: Path) -> pl.DataFrame:
    """The last table that the DuckDB shell prints."""
    return read_csv(printed(script, folder).encode())


def printed(script: str, folder: Path) -> str:
    """What the DuckDB shell prints."""
    command = [str(needs.duckdb_shell()), "-bail", "-csv", "-nullvalue", "<NULL>"]
    done = subprocess.run(
        command, input=script, cwd=folder, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def in_module(script: str, folder: Path) -> pl.DataFrame:
    """The last result of the DuckDB module, in a process of its own."""
    script = re.sub(
        r"^\.read (.*)$", lambda m: (folder / m[1]).read_text() + ";", script, flags=re.MULTILINE
    )
    output = folder / "rows.csv"
    subprocess.run(
        [sys.executable, "-I", "-c", RUN_IN_MODULE, output],
        input=script,
        cwd=folder,
        check=True,
        text=True,
    )
    return pl.read_csv(output, infer_schema=False)


def read_csv(data: bytes) -> pl.DataFrame:
    return pl.read_csv(io.BytesIO(data), infer_schema=False, null_values="<NULL>")


def as_text(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select(pl.all().exclude(pl.Float64).cast(pl.String))


Shell = Callable[[str, Path], pl.DataFrame]


@pytest.mark.parametrize("shell", [in_shell, in_module])
def test_self_times_are_those_of_the_trace(shell: Shell, folder: Path, trace: Trace) -> None:
    expected = trace.self_times()

    rows = shell(VIEWS + SELF_TIMES, folder)

    assert rows.columns == expected.columns
    assert rows.drop("self_share").equals(as_text(expected))
    shares = rows["self_share"].cast(pl.Float64)
    assert (shares - expected["self_share"]).abs().max() < 1e-12  # type: ignore[operator]


@pytest.mark.parametrize("shell", [in_shell, in_module])
def test_a_parameter_is_a_variable(shell: Shell, folder: Path, trace: Trace) -> None:
    expected = trace.key_averages(group_by_input_shape=True)

    rows = shell(VIEWS + KEY_AVERAGES, folder)

    assert rows.equals(as_text(expected))


def test_a_question_of_ones_own(folder: Path, trace: Trace) -> None:
    assert in_shell(VIEWS + OWN, folder)["name"].to_list() == trace.sql(OWN)["name"].to_list()


FILES = sorted((ROOT / "sql" / "answers").glob("*.sql"))


@pytest.fixture(scope="module")
def answers(folder: Path, request: pytest.FixtureRequest) -> Path:
    """A file for each answer that a test asks for, all of them from one shell."""
    names = {
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == "test_every_answer_runs"
    }
    shell = ""
    path = folder / "answers"
    path.mkdir()
    for file in (each for each in FILES if each.stem in names):
        asked = f".read sql/answers/{file.name}\n"
        shell += "".join(f".read sql/lib/{name}.sql\n" for name in find(file.stem).shared)
        if file.stem == "advice":  # its file alone has no rules
            asked = script(find("advice"))
        shell += f".output answers/{file.stem}.csv\n{asked}.output\n"
    assert printed(VIEWS + OPTIONAL_VIEWS + shell, folder) == ""
    return path


@pytest.mark.parametrize("name", few([file.stem for file in FILES], 8))
def test_every_answer_runs(name: str, answers: Path, trace: Trace) -> None:
    expected = trace.answer(name)

    rows = read_csv((answers / f"{name}.csv").read_bytes())

    assert (rows.columns, rows.height) == (expected.columns, expected.height)
