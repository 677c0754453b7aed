"""Stores of older schemas: they open, and upgrade to what a fresh conversion has."""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import profframe
from profframe import schema, store
from profframe.cli import run as cli
from profframe.conversion import member_upgrade
from profframe.conversion.upgrade import upgrade
from profframe.errors import ParameterError, StoreError, StoreVersionError
from profframe.store import maintenance, schema_steps, versions
from profframe.store.catalogue import listing
from profframe.store.schema_steps import OLDEST, STEPS, Step
from tests import needs, old_stores
from tests.members import few
from tests.old_stores import VERSIONS, content, differences, unpack
from tests.places import ROOT

Content = dict[tuple[str, int], dict[str, pa.Table]]

DERIVED: Final = ("cuda", "serving")
"""Runs of which the stored columns are enough."""
LACKING: Final = ("gil", "joined", "snapshot.pickle")
"""Runs whose source has more than any stored column."""


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture(scope="module")
def packed(version: int, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a version, which nobody changes."""
    return unpack(version, tmp_path_factory.mktemp("old"))


@pytest.fixture
def old(packed: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return old_stores.copy(packed, tmp_path)


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return old_stores.fresh(tmp_path_factory.mktemp("fresh"))


@pytest.fixture(scope="session")
def fresh_content(fresh: Path) -> Content:
    return content(fresh)


@pytest.fixture(scope="module")
def derived(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pl.DataFrame]:
    """The store upgraded without its sources."""
    path = old_stores.copy(packed, tmp_path_factory.mktemp("derived"))
    return path, upgrade(path)


@pytest.fixture(scope="module")
def read(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pl.DataFrame]:
    """The store upgraded with its sources."""
    path = old_stores.copy(packed, tmp_path_factory.mktemp("read"))
    old_stores.with_sources(path)
    return path, upgrade(path)


def status(rows: pl.DataFrame) -> dict[str, str]:
    return dict(rows.select("run", "status").iter_rows())


class TestSteps:
    def test_they_say_what_the_stores_lack(self, version: int, packed: Path) -> None:
        """A new column of the schema that is in no step fails here."""
        steps = schema_steps.steps_since(version)
        for name, table in schema.TABLES.items():
            files = [*packed.rglob(f"{name}.parquet")]
            if not files:
                continue
            present = {c for file in files for c in pq.read_schema(file).names}
            added = {column for step in steps for column in step.added.get(name, ())}
            assert present | added == {*table.names}, name
            assert not present & added, name

    def test_they_are_one_after_the_other_up_to_now(self) -> None:
        numbers = [step.version for step in STEPS]

        assert numbers == [*range(OLDEST + 1, schema.SCHEMA_VERSION + 1)]
        assert len(STEPS) == len(VERSIONS), "a store of each schema that opens is checked in"

    def test_columns_are_those_of_the_schema_and_may_be_null(self) -> None:
        for step in STEPS:
            for table, columns in step.added.items():
                fields = [schema.TABLES[table].arrow.field(column) for column in columns]
                assert all(field.nullable for field in fields), step.version
            assert step.tables <= schema.OPTIONAL_TABLES
            assert step.from_source <= step.added.keys()

    def test_a_column_that_was_renamed_twice_has_its_first_name(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        steps = (
            Step(14, {}, renamed={"events": {"kernel_kind": "kernel_class"}}),
            Step(15, {}, renamed={"events": {"kernel_category": "kernel_kind"}}),
        )
        monkeypatch.setattr(schema_steps, "STEPS", steps)

        assert schema_steps.old_names("events", 13) == {"kernel_category": "kernel_class"}
        assert schema_steps.old_names("events", 14) == {"kernel_category": "kernel_kind"}
        assert schema_steps.old_names("memory", 13) == {}


class TestOpening:
    def test_missing_columns_are_null_in_their_type(self, version: int, packed: Path) -> None:
        trace = profframe.Trace.from_store(packed)
        added = {
            (table, column)
            for step in schema_steps.steps_since(version)
            for table, columns in step.added.items()
            for column in columns
        }

        for table, column in sorted(added):
            word = schema.type_word(schema.TABLES[table].arrow.field(column).type)
            query = f'SELECT DISTINCT typeof("{column}"), count("{column}") FROM {table} GROUP BY 1'
            assert trace.sql(query).rows() in ([], [(word, 0)])
        rows = trace.events
        assert rows.columns == [*schema.EVENTS.names]
        assert rows.height == 4570
        assert trace.sql("SELECT count(*) FROM compiled_kernels").item() == 0

    def test_polars_arrow_and_sql_read_the_same(self, packed: Path) -> None:
        opened = store.scan(packed)
        trace = profframe.Trace.from_store(packed)

        for name in schema.TABLES:
            rows = pa.concat_tables([schema.empty(name), *opened.parts(name)])
            frame = opened.scan(name).collect()
            of_sql = trace.sql(f"SELECT * FROM {name}")
            extra = 2 * len(old_stores.SOURCES) if name == "quality" else 0
            assert frame.columns == rows.column_names == of_sql.columns, name
            assert (frame.height, of_sql.height) == (rows.num_rows + extra,) * 2, name
            for column in frame.columns:
                assert frame[column].dtype == of_sql[column].dtype, (name, column)

    def test_some_columns_of_it(self, packed: Path) -> None:
        rows = store.scan(packed).scan("allocations")

        assert rows.select("pool").collect()["pool"].to_list() == [None] * 16
        assert rows.select("device", "pool").collect().width == 2
        assert rows.filter(pl.col("pool").is_null()).collect().height == 16

    def test_quality_says_so_once_for_each_trace(self, version: int, packed: Path) -> None:
        rows = profframe.Trace.from_store(packed).quality.filter(issue="older_schema")

        assert {*rows["run"]} == old_stores.SOURCES.keys()
        assert rows.height == len(old_stores.SOURCES)
        words = f"schema {version}, not {schema.SCHEMA_VERSION}, without columns of "
        assert all(words in detail for detail in rows["detail"])
        assert rows.filter(run="cuda")["events"].item() > 0

    def test_a_store_of_today_has_no_such_row(self, fresh: Path) -> None:
        rows = profframe.Trace.from_store(fresh).quality

        assert not {*rows["issue"]} & {*old_stores.OF_UPGRADES}

    def test_a_part_of_it(self, packed: Path) -> None:
        trace = profframe.load(packed, runs="gil")

        assert trace.events["run"].unique().to_list() == ["gil"]
        assert trace.quality.filter(issue="older_schema")["run"].to_list() == ["gil"]
        assert profframe.Trace.from_store(packed / "run=gil").events.height == 450

    def test_it_verifies(self, packed: Path) -> None:
        assert maintenance.verify(packed).rows() == []

    def test_a_damaged_file_of_it_is_named(self, old: Path) -> None:
        file = old / "run=gil/rank=0/events.parquet"
        rows = pq.read_table(file, partitioning=None).drop_columns(["name"])
        pq.write_table(rows, file)  # `name` was there in every schema

        with pytest.raises(StoreError, match=r"run=gil/rank=0/events.parquet.*'name'"):
            profframe.Trace.from_store(old).events  # noqa: B018

    def test_renamed_columns_are_read_by_both_readers(
        self, old: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        values = profframe.Trace.from_store(old).events["kernel_category"].to_list()
        for file in old.rglob("events.parquet"):
            whole = pq.read_table(file, partitioning=None)
            old_names = [{"kernel_category": "kernel_class"}.get(n, n) for n in whole.column_names]
            renamed = whole.rename_columns(old_names).replace_schema_metadata(whole.schema.metadata)
            pq.write_table(renamed, file)
        names = {"events": {"kernel_category": "kernel_class"}}
        last = Step(15, STEPS[-1].added, renamed=names)
        monkeypatch.setattr(schema_steps, "STEPS", (*STEPS[:-1], last))

        trace = profframe.Trace.from_store(old)
        assert trace.events["kernel_category"].to_list() == values
        counted = trace.sql("SELECT count(kernel_category) FROM events").item()
        assert counted == sum(value is not None for value in values)


class TestRefused:
    @pytest.mark.parametrize("text", ["99", "16", "x", "", "1" * 40])
    def test_newer_ones(self, text: str, old: Path) -> None:
        old_stores.restamp(old / "run=gil", text)

        with pytest.raises(StoreVersionError) as error:
            profframe.load(old)
        now = f"version {schema.SCHEMA_VERSION}; convert the traces again"
        words = f"{old}: store of schema version {text}, this profframe reads {now}"
        assert words in str(error.value)
        with pytest.raises(StoreVersionError):
            upgrade(old)

    @pytest.mark.parametrize("text", ["12", "0", "1"])
    def test_too_old_ones_with_what_to_do(self, text: str, old: Path) -> None:
        old_stores.restamp(old / "run=gil", text)

        with pytest.raises(StoreVersionError) as error:
            profframe.load(old)
        words = f"store of schema version {text}, this profframe reads versions 13 to 15"
        assert words in str(error.value)
        assert "convert its sources again (`source` in its traces.parquet" in str(error.value)

    def test_to_pack_them(self, old: Path) -> None:
        with pytest.raises(StoreError, match=r"run `profframe store upgrade .* first"):
            maintenance.compact(old)
        upgrade(old)
        assert maintenance.compact(old) == len(old_stores.SOURCES)
        assert len([*old.glob("pack-*")]) == 1
        assert profframe.load(old).events.height == 4570


class TestUpgrade:
    def test_what_is_done(self, derived: tuple[Path, pl.DataFrame]) -> None:
        _, rows = derived

        assert status(rows) == {
            **dict.fromkeys(("cuda", "serving", "gil", "joined", "snapshot.pickle"), "derived"),
            "replay": "kept",
            "torch": "kept",
        }
        reasons = dict(rows.select("run", "reason").iter_rows())
        assert reasons["cuda"] is None
        assert reasons["replay"].startswith("it was converted with captures")
        assert "/profframe/examples/snapshot.pickle is gone" in reasons["snapshot.pickle"]

    @pytest.mark.parametrize("run", DERIVED)
    def test_columns_are_those_of_a_fresh_conversion(
        self, run: str, derived: tuple[Path, pl.DataFrame], fresh_content: Content
    ) -> None:
        found = differences(content(derived[0])[run, 0], fresh_content[run, 0])

        assert found == ["traces.source"]

    @pytest.mark.parametrize("run", [*DERIVED, *LACKING])
    def test_and_with_the_sources_of_those_that_need_them(
        self, version: int, run: str, read: tuple[Path, pl.DataFrame], fresh_content: Content
    ) -> None:
        path, rows = read

        needs_no_source = run in DERIVED or (run == "gil" and version >= 14)
        assert status(rows)[run] == ("derived" if needs_no_source else "read")
        assert differences(content(path)[run, 0], fresh_content[run, 0]) == []

    # Of the older version at night: its tables are those of the newer one, in the test above.
    @pytest.mark.parametrize(
        "version", few(VERSIONS, [VERSIONS[-1]]), indirect=True, scope="module"
    )
    def test_every_answer_is_that_of_a_fresh_conversion(
        self, read: tuple[Path, pl.DataFrame], fresh: Path
    ) -> None:
        runs = [*DERIVED, *LACKING]
        own, other = (
            old_stores.answers(profframe.load(path, runs=runs)) for path in (read[0], fresh)
        )

        # A snapshot's own rows differ in quality alone, which says how they became current.
        assert {name for name in own if own[name] != other[name]} <= {"quality"}
        assert len(own) > 50

    def test_the_options_of_torch_are_read_again(self, read: tuple[Path, pl.DataFrame]) -> None:
        options = profframe.load(read[0], runs="torch").traces["convert_options"].item()

        expected = "read" if '"release":[2,13]' in options else "kept"
        assert status(read[1])["torch"] in {expected, "kept"}

    def test_kept_facts_get_new_columns_that_others_say(
        self, derived: tuple[Path, pl.DataFrame], fresh_content: Content
    ) -> None:
        tables = content(derived[0])["replay", 0]
        found = differences(tables, fresh_content["replay", 0])

        assert "events.is_product" not in found
        assert tables["traces"]["schema_version"].to_pylist() == [schema.SCHEMA_VERSION]
        notes = profframe.load(derived[0], runs="replay").quality["issue"].to_list()
        assert "another_version" in notes
        assert "older_schema" not in notes

    def test_quality_counts_what_only_the_source_had(
        self, derived: tuple[Path, pl.DataFrame]
    ) -> None:
        rows = profframe.load(derived[0], runs="joined").quality.filter(issue="lost_columns")

        tables = pl.col("detail").str.extract(r"upgraded: .* of (\w+): ")
        counts = dict(rows.select(tables, "events").iter_rows())
        assert counts["allocations"] == 8
        assert {*counts} == {"allocations", "allocator_events", "blocks", "segments", "stacks"}
        assert rows["detail"].str.contains("gpu_training_fused.json.gz is gone").all()

    def test_derived_traces_say_so_and_which_facts_they_had(
        self, version: int, derived: tuple[Path, pl.DataFrame]
    ) -> None:
        row = profframe.load(derived[0], runs="cuda").quality.filter(issue="derived_anew")

        assert row["detail"].item().endswith(f"tables of schema {version}")
        assert (
            row["events"].item()
            == profframe.load(derived[0], runs="cuda").traces["source_events"].item()
        )

    def test_again_it_does_nothing(self, derived: tuple[Path, pl.DataFrame]) -> None:
        path, _ = derived
        before = {file: file.stat().st_mtime_ns for file in path.rglob("*.parquet")}

        assert {*status(upgrade(path)).values()} == {"current", "kept"}
        assert {file: file.stat().st_mtime_ns for file in path.rglob("*.parquet")} == before
        assert not [*path.glob(".staged-*"), *path.glob(".tmp-*")]

    def test_a_source_that_changed_is_not_read(self, old: Path, tmp_path: Path) -> None:
        changed = tmp_path / "changed.pickle"
        changed.write_bytes(b"other")
        file = old / "run=snapshot.pickle/rank=0/traces.parquet"
        rows = pq.read_table(file, partitioning=None)
        at = rows.column_names.index("source")
        pq.write_table(rows.set_column(at, "source", pa.array([str(changed)])), file)

        result = upgrade(old).filter(run="snapshot.pickle")
        assert result["status"].item() == "derived"
        assert result["reason"].item().endswith(f"{changed} has changed")

    def test_sources_are_not_read_if_nobody_wants_that(self, old: Path) -> None:
        old_stores.with_sources(old)

        rows = upgrade(old, sources=False).filter(run="snapshot.pickle")
        assert rows["status"].to_list() == ["derived"]
        assert rows["reason"].item().endswith("its source is not to be read")

    def test_convert_finds_it_current(self, old: Path) -> None:
        old_stores.with_sources(old)
        upgrade(old)

        source = str(ROOT / "examples/cuda.json.gz")
        assert profframe.convert(source, old)["status"].to_list() == ["unchanged"]

    def test_traces_without_a_record_of_options(self, old: Path, tmp_path: Path) -> None:
        copied = tmp_path / "copied"
        trace = profframe.load(old, runs="cuda")
        trace.to_parquet(copied)
        for file in copied.rglob("traces.parquet"):
            rows = pq.read_table(file, partitioning=None)
            at = rows.column_names.index("convert_options")
            pq.write_table(rows.set_column(at, "convert_options", pa.nulls(1, pa.string())), file)

        first = upgrade(copied)
        assert first["status"].to_list() == ["kept"]
        assert "--default-options" in first["reason"].item()
        assert upgrade(copied, default_options=True)["status"].to_list() == ["derived"]

    def test_a_store_that_mixes_schemas_answers(self, version: int, old: Path, fresh: Path) -> None:
        profframe.load(fresh, runs="cuda").to_parquet(old)

        trace = profframe.load(old, runs=["cuda", "serving"])
        counts = "SELECT run, count(*), count(is_product) > 0 FROM events GROUP BY run ORDER BY run"
        assert trace.sql(counts).rows() == [("cuda", 650, True), ("serving", 1404, version > 13)]
        notes = trace.quality.filter(issue="older_schema")
        assert notes["run"].to_list() == ["serving"]
        assert {row[0] for row in trace.self_times().select("run").iter_rows()} == {
            "cuda",
            "serving",
        }


class TestInterrupted:
    def test_it_goes_on_where_it_was_stopped(self, old: Path, fresh_content: Content) -> None:
        def stop(done: int, _: int) -> None:
            if done == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            upgrade(old, progress=stop)
        assert profframe.load(old).events.height == 4570
        rows = upgrade(old)

        assert rows.filter(status="current").height == 2
        assert differences(content(old)["cuda", 0], fresh_content["cuda", 0]) == ["traces.source"]

    def test_what_is_written_meanwhile_stays(
        self, old: Path, fresh: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write = member_upgrade._write

        def slow(folder: Any, record: Any, *rest: Any) -> None:
            write(folder, record, *rest)
            if record.run in {"gil", "serving"}:  # a folder of its own, and one in a pack
                profframe.load(fresh, runs=record.run).to_parquet(folder.root)

        monkeypatch.setattr(member_upgrade, "_write", slow)
        rows = upgrade(old)

        assert status(rows)["gil"] == status(rows)["serving"] == "failed"
        assert rows.filter(run="gil")["reason"].item().endswith("again meanwhile: run it again")
        monkeypatch.undo()
        assert status(upgrade(old))["gil"] == "current"

    def test_a_damaged_member_fails_alone(self, old: Path) -> None:
        (old / "run=gil/rank=0/events.parquet").write_bytes(b"PAR1 no more")

        rows = upgrade(old)
        assert rows.filter(status="failed")["run"].to_list() == ["gil"]
        assert "events.parquet: cannot be read" in rows.filter(run="gil")["reason"].item()
        assert status(rows)["cuda"] == "derived"

    def test_a_member_that_lacks_a_table_fails_alone(self, old: Path) -> None:
        (old / "run=gil/rank=0/events.parquet").unlink()

        assert upgrade(old).filter(status="failed")["run"].to_list() == ["gil"]

    def test_on_an_executor(self, old: Path, fresh_content: Content) -> None:
        done: list[tuple[int, int]] = []
        with ThreadPoolExecutor(2) as executor:
            rows = upgrade(old, executor, lambda *of: done.append(of))

        assert rows.height == len(old_stores.SOURCES)
        assert done[-1] == (rows.height, rows.height)
        assert differences(content(old)["cuda", 0], fresh_content["cuda", 0]) == ["traces.source"]

    @pytest.mark.parametrize(
        "arguments",
        [{"workers": 0}, {"workers": 1.5}, {"workers": 1, "executor": ThreadPoolExecutor(1)}],
    )
    def test_bad_arguments(self, arguments: dict[str, Any], packed: Path) -> None:
        with pytest.raises(ParameterError, match="workers"):
            upgrade(packed, **arguments)

    def test_a_part_of_a_store_is_refused(self, packed: Path, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="only a part of a store"):
            upgrade(packed / "run=gil")
        with pytest.raises(StoreError, match="not a profframe store"):
            upgrade(tmp_path / "none")


class TestCommandLine:
    def test_it_says_what_was_done_and_why_not_more(
        self, old: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert cli(["store", "upgrade", str(old)]) == 0

        shown = capsys.readouterr().err
        assert f"{old}: 7 traces: 5 derived anew from stored columns, 2 kept as it was" in shown
        assert "such as run replay, rank 0: it was converted with captures" in shown
        assert cli(["store", "ls", str(old)]) == 0
        assert "`profframe store upgrade`" in capsys.readouterr().out

    def test_a_failure_is_the_exit_code(
        self, old: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (old / "run=gil/rank=0/events.parquet").write_bytes(b"PAR1 no more")

        assert cli(["store", "upgrade", str(old), "--format", "json"]) == 1
        captured = capsys.readouterr()
        assert "error: " in captured.err
        assert '"status": "failed"' in captured.out or '"status":"failed"' in captured.out

    def test_workers_and_a_cluster_at_once(self, old: Path) -> None:
        assert cli(["store", "upgrade", str(old), "--dask", "x", "--workers", "2"]) == 2


def test_one_function_checks_versions() -> None:
    """No other module compares the version of a file."""
    package = Path(profframe.__file__).parent
    users = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if re.search(r"\bVERSION_KEY\b", path.read_text())
    }

    assert users == {"store/parquet.py", "store/versions.py"}
    assert versions.is_readable(str(schema.SCHEMA_VERSION))


@pytest.mark.parametrize("is_far", [False, True])
@pytest.mark.parametrize("few", [0, 100])
def test_what_shares_a_pack_of_an_older_schema_is_removed_after_an_upgrade_only(
    few: int, *, is_far: bool, old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "FEW", few)
    path = f"memory://{old.name}-{few}" if is_far else str(old)
    if is_far:
        files = needs.module("fsspec").filesystem("memory")
        files.put(str(old), path, recursive=True)
    before = profframe.load(path).traces["run"].to_list()
    assert "cuda" in before

    with pytest.raises(StoreError, match=r"pack-.*of schema version .*store upgrade"):
        maintenance.remove(path, ["cuda", "gil"])

    assert profframe.load(path).traces["run"].to_list() == before
    if is_far:
        assert maintenance.contents(path)["run"].to_list() == sorted(before)
        with pytest.raises(StoreError, match="below a URL cannot be upgraded: copy it"):
            upgrade(path)
        files.rm(path, recursive=True)


@pytest.mark.parametrize(
    ("source", "why"),
    [("/proc/self/status", "is gone"), (f"/{'x' * 300}.json", "cannot be read: File name too")],
)
def test_a_source_that_cannot_be_read_is_no_failure(source: str, why: str, old: Path) -> None:
    for folder in old.iterdir():
        if folder.name != "run=snapshot.pickle":
            shutil.rmtree(folder)
    file = old / "run=snapshot.pickle/rank=0/traces.parquet"
    rows = pq.read_table(file, partitioning=None)
    number = rows.column_names.index("source")
    pq.write_table(rows.set_column(number, rows.field(number), pa.array([source])), file)

    (row,) = upgrade(old).to_dicts()
    assert row["status"] == "derived"
    assert f"{source} {why}" in row["reason"]
