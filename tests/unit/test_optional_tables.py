"""Tables that few sources have rows of: a store has a file of one only where it has rows."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import profframe
from profframe import load, schema, store
from profframe.conversion.staging import Folder
from profframe.errors import StoreError
from profframe.store import maintenance
from profframe.trace.trace import Trace
from tests.builders import table

KEY = {"run": "run", "rank": 0}


def one(run: str = "run", rank: int = 0, nodes: int = 0) -> dict[str, pa.Table]:
    """All tables of one small trace, with some nodes and a tensor of each."""
    key = {"run": run, "rank": rank}
    rows = {
        "events": [key | {"kind": "host_op", "name": "mm"}],
        "traces": [key | {"source": "t.json", "schema_version": schema.SCHEMA_VERSION}],
        "nodes": [key | {"node_id": n, "name": f"n{n}"} for n in range(nodes)],
        "tensors": [key | {"node_id": n, "direction": "in", "tensor_id": 7} for n in range(nodes)],
    }
    return {name: table(name, rows.get(name, [])) for name in schema.TABLES}


def files(folder: Path) -> set[str]:
    return {file.stem for file in folder.glob("**/[a-z_]*.parquet")}


def counts(trace: Trace) -> list[tuple[str, int, int]]:
    """Rows of `nodes` by trace, asked in SQL, that polars and Arrow have, too."""
    rows = trace.sql("SELECT run, rank, count(*) FROM nodes GROUP BY ALL ORDER BY ALL").rows()
    total = sum(number for *_, number in rows)
    assert trace.nodes.height == trace.scan("nodes").collect().height == total
    assert trace.tables["nodes"].num_rows == total
    assert trace.tables["nodes"].schema.equals(schema.TABLES["nodes"].arrow)
    return rows


def test_every_optional_table_has_a_property_and_columns(tmp_path: Path) -> None:
    trace = load("examples/cpu_training.json.gz")
    trace.to_parquet(tmp_path)
    for name in schema.OPTIONAL_TABLES:
        for source in (trace, load(tmp_path)):
            empty = pl.DataFrame(schema=getattr(source, name).schema)
            assert getattr(source, name).equals(empty)
            assert getattr(source, name).columns == list(schema.TABLES[name].names)
            assert source.sql(f"FROM {name}").columns == list(schema.TABLES[name].names)


def test_an_ordinary_trace_has_no_more_files(tmp_path: Path) -> None:
    profframe.convert("examples/cpu_training.json.gz", tmp_path, keep=None)
    load("examples/cpu_training.json.gz", run="again").to_parquet(tmp_path)
    always = schema.TABLES.keys() - schema.OPTIONAL_TABLES
    for folder in ("cpu_training", "again"):
        assert files(tmp_path / f"run={folder}") == always
        manifest = json.loads((tmp_path / f"run={folder}/rank=0/manifest.json").read_bytes())
        assert manifest["files"].keys() == {f"{name}.parquet" for name in always}
    maintenance.compact(tmp_path)
    assert files(tmp_path) == always
    assert load(tmp_path).nodes.height == 0


def test_presence_may_be_mixed_by_rank_and_pack(tmp_path: Path) -> None:
    for rank, nodes in enumerate((0, 3, 0, 2)):
        store.write(one(rank=rank, nodes=nodes), tmp_path)
    expected = [("run", 1, 3), ("run", 3, 2)]
    assert counts(load(tmp_path)) == expected
    assert counts(load(tmp_path).filter(ranks=[0, 3])) == [("run", 3, 2)]
    assert counts(load(tmp_path, ranks=[0, 2])) == []
    assert maintenance.compact(tmp_path) == 4
    assert counts(load(tmp_path)) == expected
    store.write(one(rank=4, nodes=0), tmp_path)
    store.write(one(rank=5, nodes=1), tmp_path)
    assert counts(load(tmp_path)) == [*expected, ("run", 5, 1)]
    maintenance.remove(tmp_path, ranks=[1])
    assert counts(load(tmp_path)) == [("run", 3, 2), ("run", 5, 1)]
    maintenance.remove(tmp_path, ranks=[3, 5])
    assert counts(load(tmp_path)) == []
    maintenance.compact(tmp_path)
    assert "nodes" not in files(tmp_path)
    assert maintenance.verify(tmp_path).height == 0


def test_a_file_that_the_manifest_lists_has_to_be_there(tmp_path: Path) -> None:
    store.write(one(nodes=1), tmp_path)
    store.write(one(rank=1), tmp_path)
    trace = load(tmp_path)
    (tmp_path / "run=run/rank=0/nodes.parquet").unlink()
    with pytest.raises(StoreError, match=r"nodes\.parquet: missing from the store"):
        load(tmp_path)
    with pytest.raises(StoreError, match=r"nodes\.parquet"):
        trace.sql("FROM nodes")
    with pytest.raises(StoreError, match=r"nodes\.parquet"):
        maintenance.compact(tmp_path)
    problems = maintenance.verify(tmp_path)
    assert problems.rows() == [("run=run/rank=0/nodes.parquet", "missing")]
    assert load(tmp_path, ranks=1).nodes.height == 0


def test_a_folder_without_a_manifest_has_what_is_there(tmp_path: Path) -> None:
    store.write(one(nodes=2), tmp_path)
    (tmp_path / "run=run/rank=0/manifest.json").unlink()
    assert counts(load(tmp_path)) == [("run", 0, 2)]
    (tmp_path / "run=run/rank=0/nodes.parquet").unlink()
    assert counts(load(tmp_path)) == []


def test_verify_names_a_file_that_the_manifest_does_not_list(tmp_path: Path) -> None:
    store.write(one(nodes=2), tmp_path / "other")
    store.write(one(), tmp_path / "store")
    file = "run=run/rank=0/nodes.parquet"
    (tmp_path / "store" / file).write_bytes((tmp_path / "other" / file).read_bytes())
    ((name, problem),) = maintenance.verify(tmp_path / "store").rows()
    assert name == file
    assert "not in the manifest" in problem


def test_damage_of_an_optional_table_is_named(tmp_path: Path) -> None:
    store.write(one(nodes=2), tmp_path)
    file = tmp_path / "run=run/rank=0/nodes.parquet"
    content = bytearray(file.read_bytes())
    content[10] ^= 0xFF
    file.write_bytes(content)
    problems = maintenance.verify(tmp_path)
    assert set(problems["file"]) == {"run=run/rank=0/nodes.parquet"}
    assert "checksum" in problems["problem"][0]


def test_what_replaces_a_trace_has_its_own_tables_only(tmp_path: Path) -> None:
    store.write(one(nodes=2), tmp_path)
    with_nodes = load(tmp_path)
    assert with_nodes.nodes.height == 2
    store.write(one(), tmp_path)
    assert with_nodes.sql("FROM nodes").height == 0
    assert load(tmp_path).nodes.height == 0
    assert "nodes" not in files(tmp_path)


def test_a_batch_knows_an_incomplete_folder(tmp_path: Path) -> None:
    profframe.convert("examples/cpu_training.json.gz", tmp_path)
    target = Folder(tmp_path)
    folder = "run=cpu_training/rank=0"
    assert target._is_complete(folder)
    path = tmp_path / folder / "manifest.json"
    content = json.loads(path.read_bytes())
    content["files"]["nodes.parquet"] = content["files"]["events.parquet"]
    path.write_text(json.dumps(content))
    assert not target._is_complete(folder)
    again = profframe.convert("examples/cpu_training.json.gz", tmp_path)
    assert again["status"].to_list() == ["written"]
    assert target._is_complete(folder)


def test_a_macro_and_a_quoted_or_shouted_name_reach_the_table(tmp_path: Path) -> None:
    store.write(one(nodes=2), tmp_path)
    trace = load(tmp_path)
    for sql in ('SELECT count(*) FROM "nodes"', "SELECT COUNT(*) FROM NODES n"):
        assert trace.sql(sql).item() == 2
    own = tmp_path / "mine.sql"
    own.write_text("SELECT count(*) AS n FROM nodes")
    assert trace.answer(own)["n"].item() == 2


def test_tables_in_memory_may_lack_optional_ones() -> None:
    tables = {n: rows for n, rows in one().items() if n not in schema.OPTIONAL_TABLES}
    trace = Trace.from_tables(tables)
    assert trace.tables.keys() == schema.TABLES.keys()
    assert counts(trace) == []


def test_show_lists_optional_tables_with_rows_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from profframe.cli import run as command_line

    store.write(one(nodes=2), tmp_path / "with")
    store.write(one(), tmp_path / "without")
    shown = {}
    for name in ("with", "without"):
        assert command_line(["info", str(tmp_path / name)]) == 0
        shown[name] = capsys.readouterr().out
    assert "nodes" in shown["with"]
    assert "nodes" not in shown["without"]
    assert "counters" in shown["without"]
