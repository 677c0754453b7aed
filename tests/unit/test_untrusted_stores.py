"""A store that somebody else has made: it stays within its folder, and is taken at no word."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from profframe import cli, convert, load, schema, store
from profframe.conversion.keep import free, keep
from profframe.conversion.staging import Folder
from profframe.errors import StoreError
from profframe.store import layout, maintenance, manifest, parquet
from profframe.store.layout import STAGED, TEMPORARY
from profframe.system import drafts
from tests import needs
from tests.fuzz.stores import not_utf8
from tests.members import few
from tests.unit.test_store import one


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of a pack and a folder, beside another store."""
    folder = tmp_path_factory.mktemp("untrusted")
    for rank in range(2):
        store.write(one("a", rank, ("mm", "bmm")), folder / "store")
    maintenance.compact(folder / "store")
    store.write(one("b", 0), folder / "store")
    store.write(one("v", 0), folder / "victim")
    return folder


@pytest.fixture
def root(written: Path, tmp_path: Path) -> Path:
    """A copy of the store, which a test may damage."""
    shutil.copytree(written, tmp_path, dirs_exist_ok=True)
    return tmp_path / "store"


@pytest.fixture
def victim(root: Path) -> Iterator[Path]:
    """What is not to be touched."""
    folder = root.parent / "victim"
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    yield folder
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


def pack_of(root: Path) -> Path:
    (pack,) = root.glob("pack-*")
    return pack


def say(folder: Path, **noted: Any) -> None:
    """Change what a manifest says."""
    file = folder / manifest.NAME
    file.write_text(json.dumps(json.loads(file.read_text()) | noted))


CHANGES: tuple[Callable[[Path], object], ...] = (
    maintenance.compact,
    lambda root: maintenance.remove(root, "b"),
)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ["../victim", "{victim}", "run=a/../../victim", "../victim/run=v"])
def test_names_of_others_are_refused(
    name: str, change: Callable[[Path], object], root: Path, victim: Path
) -> None:
    say(pack_of(root), replaces={name.format(victim=victim): ""})

    with pytest.raises(
        StoreError, match=r"pack-.*/manifest\.json: not a profframe manifest.* it replaces"
    ):
        change(root)
    with pytest.raises(StoreError, match=r"manifest\.json"):
        load(root)
    found = maintenance.verify(root)
    assert found["file"].to_list() == [f"{pack_of(root).name}/manifest.json"]
    assert "which is not a folder of a store" in found["problem"][0]
    assert cli.run(["store", "verify", str(root)]) == 1


@pytest.mark.parametrize("change", CHANGES)
def test_a_link_to_another_folder_is_not_followed_to_what_is_replaced(
    change: Callable[[Path], object], root: Path, victim: Path
) -> None:
    (root / "run=v").symlink_to(victim / "run=v")
    was = layout.identity(victim / "run=v/rank=0")
    say(pack_of(root), replaces={"run=v/rank=0": was})

    with pytest.raises(StoreError, match=r"manifest\.json: .*run=v: a link"):
        change(root)
    found = maintenance.verify(root)
    assert ("run=v", "a link, which is not followed") in found.rows()


def test_nothing_is_written_behind_a_link(root: Path, victim: Path) -> None:
    (root / "run=v").symlink_to(victim / "run=v")
    (root / "run=b/rank=1").symlink_to(victim / "run=v/rank=0")
    (root / "run=b/.old-rank=2").symlink_to(victim / "run=v/rank=0")
    for run, rank in (("v", 0), ("b", 1), ("b", 2)):
        with pytest.raises(StoreError, match="a link; profframe changes nothing behind links"):
            store.write(one(run, rank, ("new",)), root)


def test_what_is_staged_behind_a_link_is_not_taken(root: Path, victim: Path) -> None:
    (root / f"{STAGED}key").symlink_to(victim)
    destination = Folder(root)
    staged = destination.find("key")
    assert staged is not None

    with pytest.raises(StoreError, match="a link"):
        destination.publish(staged, replace=True)


def test_a_lock_that_is_a_link_empties_no_file(root: Path, victim: Path) -> None:
    (root / ".lock").unlink()
    (root / ".lock").symlink_to(victim / "run=v/rank=0/events.parquet")

    with pytest.raises(StoreError, match=r"\.lock: cannot change the store"):
        maintenance.compact(root)


@pytest.mark.parametrize("name", ["catalogue", "kept"])
def test_nothing_is_changed_where_a_folder_beside_the_members_is_a_link(
    name: str, root: Path, victim: Path
) -> None:
    keep(root)
    maintenance.compact(root)
    assert (root / name).is_dir()
    elsewhere = victim / "elsewhere"
    (root / name).rename(elsewhere)
    (root / name).symlink_to(elsewhere)
    with drafts.draft(elsewhere, TEMPORARY) as path:
        abandoned = path
    abandoned.mkdir()
    before = {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")}

    store.write(one("c", 0), root)
    assert load(root).trend("span_ns")["run"].to_list() == ["a", "b", "c"]
    if name == "kept":
        assert "kept: a link; profframe changes nothing behind links" in keep(root).errors[0]
        with pytest.raises(StoreError, match=r"no events were removed.*a link"):
            free(root, "a")
    maintenance.compact(root)
    maintenance.remove(root, "b")

    assert {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")} == before
    assert (name, "a link, which is not followed") in maintenance.verify(root).rows()
    shutil.rmtree(elsewhere)


def test_packs_that_are_links_say_nothing(root: Path, victim: Path) -> None:
    other = victim / "pack-000009-ff"
    other.mkdir()
    was = layout.identity(root / "run=b/rank=0")
    (other / manifest.NAME).write_text(json.dumps({"replaces": {"run=b/rank=0": was}}))
    (root / other.name).symlink_to(other)

    maintenance.compact(root)

    assert set(load(root).traces["run"]) == {"a", "b"}
    shutil.rmtree(other)


def test_a_rank_is_no_sql(root: Path) -> None:
    secret = root.parent / "secret"
    secret.write_text("of somebody else")
    rank = f"0) OR EXISTS (SELECT error(content) FROM read_text('{secret}')) OR (rank = 0"
    say(pack_of(root), members=[{"run": "a", "rank": rank, "events": 1}])
    store.write(one("a", 1), root)

    with pytest.raises(StoreError, match=r"a member's rank is '0. OR EXISTS") as error:
        load(root)
    assert "somebody" not in str(error.value)
    assert maintenance.verify(root).height == 1


def test_members_that_are_left_out_are_found_and_kept(root: Path) -> None:
    pack = pack_of(root)
    for members in ([], [{"run": "a", "rank": 0, "events": 2}]):
        say(pack, members=members)

        assert len(load(root).traces.select("run", "rank").unique()) == 3
        assert maintenance.verify(root).rows() == [
            (f"{pack.name}/manifest.json", "its members are not those of traces.parquet")
        ]
    say(pack, members=[])
    maintenance.compact(root)
    assert set(load(root).events.select("run", "rank").rows()) == {("a", 0), ("a", 1), ("b", 0)}


def test_folders_of_other_names_are_left_alone(root: Path) -> None:
    shutil.copytree(root / "run=b/rank=0", root / "mine/copy")
    shutil.copytree(root / "run=b/rank=0", root / "run=b/rank=007")
    store.write(one("c", 0), root)

    maintenance.compact(root)

    assert (root / "mine/copy/events.parquet").exists()
    assert (root / "run=b/rank=007/events.parquet").exists()
    assert set(load(root).traces.select("run", "rank").rows()) >= {("a", 0), ("b", 0), ("c", 0)}


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


def zero(file: Path) -> None:
    data = file.read_bytes()
    middle = len(data) // 2
    file.write_bytes(data[:4] + bytes(middle) + data[4 + middle :])


def replace(file: Path, made: Callable[[pa.Field, int], pa.Array], *names: str) -> None:
    """Make those of the columns anew that the file has, of their field and the number of rows."""
    rows = pq.ParquetFile(file).read()
    for place, field in enumerate(rows.schema):
        if field.name in names:
            rows = rows.set_column(place, field.name, made(field, len(rows)))
    metadata = {parquet.VERSION_KEY: str(schema.SCHEMA_VERSION)}
    rows = rows.replace_schema_metadata(metadata)
    pq.write_table(rows, file, store_schema=False, compression="none")


def no_utf8(file: Path) -> None:
    """A text column that is none, as other writers leave it."""
    replace(file, lambda _, number: not_utf8(number), "name", "source")


def other_type(file: Path) -> None:
    replace(file, lambda _, number: pa.array(["x"] * number), "dur_ns", "end_ns")


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


DAMAGES: tuple[Callable[[Path], None], ...] = (cut, zero, no_utf8, other_type, pipe)


ASKED: tuple[Callable[..., object], ...] = (
    lambda trace: trace().events if trace().traces.height else None,
    lambda trace: trace().scan("events").collect() if trace().traces.height else None,
    lambda trace: trace().tables,
    lambda trace: trace().answer("self_times") if trace().traces.height else None,
    lambda trace: trace().sql("SELECT sum(dur_ns + 1) FROM events, traces WHERE name > source"),
    lambda trace: trace().tree() if trace().traces.height else None,
)
DAMAGED: tuple[tuple[int, int, str], ...] = tuple(
    (ask, damage, table)
    for ask in range(len(ASKED))
    for damage in range(len(DAMAGES))
    for table in ("events", "traces")
)
ONCE = [
    (ask, damage, table)
    for ask, damage, table in DAMAGED
    if (ask + damage) % 3 == 0 and (ask + damage) % 2 == (table == "traces")
]
"""Each question of one damage or two, each damage of two questions, half of them in each table."""


@pytest.mark.parametrize(("ask", "damage", "table"), few(DAMAGED, ONCE, arguments=3))
def test_damage_is_one_line_that_names_the_file(
    ask: int, damage: int, table: str, root: Path
) -> None:
    DAMAGES[damage](root / f"run=b/rank=0/{table}.parquet")

    with pytest.raises(StoreError, match=rf"run=b/rank=0/{table}\.parquet: ") as error:
        ASKED[ask](lambda: load(root, runs="b"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("table", ["events", "traces"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_by_verify(damage: Callable[[Path], None], table: str, root: Path) -> None:
    damage(root / f"run=b/rank=0/{table}.parquet")

    assert f"run=b/rank=0/{table}.parquet" in set(maintenance.verify(root)["file"])


@pytest.mark.parametrize(
    ("damage", "table"),
    few(
        [(cut, "events"), (other_type, "events"), (pipe, "events"), (pipe, "traces")],
        2,
        arguments=2,
    ),
)
def test_what_is_damaged_is_converted_anew(
    damage: Callable[[Path], None], table: str, root: Path, example: Path
) -> None:
    def converted() -> list[tuple[str, str | None]]:
        with ThreadPoolExecutor(1) as executor:
            return convert(example, root, executor, run="c").select("status", "error").rows()

    converted()
    damage(root / f"run=c/rank=0/{table}.parquet")

    assert converted() == [("written", None)]
    assert load(root, runs="c").events.height == load(example).events.height
    assert maintenance.verify(root).is_empty()


def test_damage_is_one_line_of_every_verb(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    needs.charts()
    store.write(one("c", 0), root)
    no_utf8(root / "run=b/rank=0/events.parquet")
    text = str(root)
    for verb in (
        ["show", text],
        ["answer", "kernels", text],
        ["sql", text, "SELECT * FROM events"],
        ["tree", text, "--run", "b"],
        ["diff", text, text],
        ["report", text, "-o", str(root.with_name("page.html"))],
        ["export", text, "--run", "b", "-o", str(root.with_name("trace.json"))],
        ["store", "compact", text],
        ["store", "verify", text],
    ):
        assert cli.run(verb) == 1, verb
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1 or verb[:2] == ["store", "verify"], lines
        for line in lines:
            assert line.startswith("error: "), verb
            assert "run=b/rank=0/events.parquet: " in line, verb


def say_its_checksum(file: Path) -> None:
    """Let the manifest say that a file is as it was written."""
    files = json.loads((file.parent / manifest.NAME).read_text())["files"]
    files[file.name] = {"bytes": file.stat().st_size, "sha256": layout.checksum(file)}
    say(file.parent, files=files)


def strange_code(file: Path) -> None:
    """Codes of texts that are not in their dictionary."""
    replace(file, lambda *_: pa.array(["x", "y", "z"]), "name")
    group = pq.read_metadata(file).row_group(0)
    (name,) = (
        column
        for column in map(group.column, range(group.num_columns))
        if column.path_in_schema == "name"
    )
    data = bytearray(file.read_bytes())
    end = name.dictionary_page_offset + name.total_compressed_size
    data[end - 2 : end] = b"\xff\xff"
    file.write_bytes(data)


@pytest.mark.parametrize("damage", few([cut, zero, no_utf8, other_type, strange_code], 3))
def test_a_checksum_proves_nothing(damage: Callable[[Path], None], root: Path) -> None:
    store.write(one("b", 0, ("x", "y", "z")), root)
    file = root / "run=b/rank=0/events.parquet"
    damage(file)
    say_its_checksum(file)

    for ask in (
        lambda: load(root).events,
        lambda: load(root).scan("events").select("name", "dur_ns").collect(),
        lambda: load(root).scan("events").filter(name="x", dur_ns=0).collect(),
        lambda: load(root).tables,
    ):
        with pytest.raises(StoreError, match=r"run=b/rank=0/events\.parquet: ") as error:
            ask()
        assert "\n" not in str(error.value)


def test_null_is_refused_where_there_is_none(root: Path) -> None:
    file = root / "run=b/rank=0/events.parquet"
    replace(file, lambda field, number: pa.nulls(number, field.type), "kind", "event_id")
    say_its_checksum(file)

    for asked in ("kind", "event_id", ["kind", "flops"], pl.all()):
        with pytest.raises(StoreError, match=r"run=b/rank=0/events\.parquet: "):
            load(root).scan("events").select(asked).collect()


def test_no_file_is_read_by_polars(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader panics at some files, or ends the process."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("polars reads a file")

    for name in ("scan_parquet", "read_parquet", "read_parquet_schema", "read_parquet_metadata"):
        monkeypatch.setattr(pl, name, refuse)
    store.write(one("a", 1, ("new",)), root)
    trace = load(root)

    for name in schema.TABLES:
        assert trace.scan(name).collect().height == trace.tables[name].num_rows
    assert trace.events.height == 4
    assert trace.traces.height == 3
    assert load(root, runs="a").scan("events").head(1).collect().height == 1


HUGE = """
import sys
sys.path[:0] = {path!r}
from profframe import load
from profframe.errors import StoreError
from tests.unit.test_untrusted_stores import flipped

for place in range(*{places}):
    with flipped({file!r}, place):
        try:
            load({root!r}).events
        except StoreError:
            pass
print("done")
"""


class flipped:  # noqa: N801 - used like a function
    """A file with one byte of its footer as 255, for a while."""

    def __init__(self, file: str, place: int) -> None:
        self.file, self.was = Path(file), Path(file).read_bytes()
        data = bytearray(self.was)
        data[place] = 255
        self.file.write_bytes(data)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.file.write_bytes(self.was)


def test_no_size_in_a_footer_ends_the_process(root: Path) -> None:
    file = root / "run=b/rank=0/events.parquet"
    data = file.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    code = HUGE.format(
        path=sys.path, places=(footer, len(data) - 8, 61), file=str(file), root=str(root)
    )

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )

    assert (done.stdout, done.stderr, done.returncode) == ("done\n", "", 0)
