"""What facts are computed from has a version; numbers of another are not served in silence."""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

import profframe
from profframe import schema
from profframe.cli import run as command_line
from profframe.conversion import staging
from profframe.loaders import recorded_kernels
from profframe.query import macros
from profframe.query.catalogue import find
from profframe.query.header import sql_directory
from profframe.store import facts_version, maintenance
from tests.batch.sources import names, write

PACKAGE: Final = Path(profframe.__file__).parent
OTHER: Final = "0123456789abcdef"

CHANGES_NO_NUMBER: Final = {
    "errors": "messages",
    "system.plugins": "which packages are there",
    "loaders.discovery": "which files are read; their names and contents are known by themselves",
    "loaders.remote_copies": "where the copy of a URL is",
    "query.answer_cache": "answers, each of which knows what computed it",
    "query.catalogue": "where SQL is; what it says is in the version of `loaders.recorded_kernels`",
    "query.frames": "rows as a user reaches them",
    "query.header": "where SQL is",
    "query.macros": "which macros SQL calls; what they say is in that version, too",
    "query.selection": "which rows are asked for",
    "query.session": "questions about the rows",
    "query.sources": "where rows are",
    "remote.file_systems": "how files of a URL are opened",
    "remote.trees": "how files below a URL are opened",
    "remote.urls": "what a URL says by itself",
    "store.cache": "where a store is kept, by the version",
    "store.catalogue.listing": "which folders of a store count",
    "store.catalogue.places": "which folders of a store count",
    "store.catalogue.upkeep": "what is noted of a folder of a store",
    "store.facts_version": "the version itself",
    "store.kept.records": "which answers are beside the rows",
    "store.kept.validity": "which answers are beside the rows",
    "store.layout": "which folders of a store count",
    "store.leftovers": "what killed writers leave, which no reader counts",
    "store.manifest": "what is noted of a folder of a store",
    "system.collector": "when Python looks for cycles",
    "system.drafts": "where temporary files are",
    "system.forks": "whether this process may go on",
    "system.holds": "who still reads a store",
    "system.memory_limit": "whether a trace is loaded at all",
    "system.memory_pool": "where memory is from",
    "trace.trace": "questions, which are asked anew each time",
}
"""Modules beside what is hashed that it imports, and why they are not."""


def module_of(file: str) -> str:
    name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"profframe.{name}"


def imported(file: Path) -> Iterator[str]:
    """Full names of what a module imports from the package, also inside functions and for types."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert not node.level, f"{file}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_module(name: str) -> bool:
    path = PACKAGE.parent / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def test_whatever_a_hashed_module_imports_is_hashed_or_changes_no_number() -> None:
    hashed = {file for file in facts_version.files(PACKAGE) if file.endswith(".py")}
    modules = {module_of(file) for file in hashed}
    used = {
        name if is_module(name) else name.rpartition(".")[0]
        for file in hashed
        for name in imported(PACKAGE / file)
        if name.startswith("profframe.")
    }

    beside = {name.removeprefix("profframe.") for name in used - modules}
    assert beside == set(CHANGES_NO_NUMBER)


def test_every_module_of_the_readers_and_facts_is_hashed_and_so_are_the_devices() -> None:
    hashed = set(facts_version.files(PACKAGE))
    rooms = ("readers", "facts")
    assert hashed > {
        path.relative_to(PACKAGE).as_posix()
        for room in rooms
        for path in (PACKAGE / room).rglob("*.py")
    }
    assert {"facts/devices.json", "intervals.py", "loaders/tables.py"} < hashed
    assert all(
        any(file.startswith((f"{part}.", f"{part}/")) for file in hashed)
        for part in facts_version.HASHED
    )


def test_what_reading_a_trace_brings_in_is_hashed_or_changes_no_number(example: Path) -> None:
    code = (
        "import sys\n"
        "from profframe.readers.reading import read\n"
        "from profframe.facts.pipeline import add_facts\n"
        "from pathlib import Path\n"
        f"add_facts(read(Path({str(example)!r})).tables)\n"
        "print(*(name for name in sys.modules if name.startswith('profframe.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    modules = {module_of(file) for file in facts_version.files(PACKAGE)}
    beside = {name.removeprefix("profframe.") for name in set(done.stdout.split()) - modules}
    packages = {name for name in beside if (PACKAGE / name.replace(".", "/")).is_dir()}
    assert beside - packages <= set(CHANGES_NO_NUMBER)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, as it is installed."""
    shutil.copytree(PACKAGE.parent / "sql", tmp_path / "sql")
    return Path(shutil.copytree(PACKAGE, tmp_path / "profframe"))


def test_any_byte_of_what_is_hashed_changes_the_version(package: Path) -> None:
    before = facts_version.version_of(package)
    assert before == facts_version.facts_version()
    for file in facts_version.files(package):
        text = (package / file).read_bytes()
        (package / file).write_bytes(text[:-2] + b"#" + text[-1:])
        assert facts_version.version_of(package) != before, file
        (package / file).write_bytes(text)
    (package / "facts" / "new.py").touch()
    assert facts_version.version_of(package) != before
    (package / "facts" / "new.py").rename(package / "facts" / "newer.py")
    assert facts_version.version_of(package) != before


def test_the_version_hangs_on_nothing_else(package: Path) -> None:
    before = facts_version.version_of(package)
    for file in [*facts_version.files(package)]:
        text = (package / file).read_bytes()
        (package / file).write_bytes(text.replace(b"\n", b"\r\n"))
    subprocess.run([sys.executable, "-m", "compileall", "-q", package], check=True)
    subprocess.run([sys.executable, "-m", "compileall", "-q", "-b", package], check=True)
    (package / "facts" / "kinds.py.orig").touch()
    (package / "cli" / "__init__.py").write_text("")
    os.utime(package / "schema.py", (1, 1))
    moved = package.rename(package.with_name("elsewhere"))

    assert facts_version.version_of(moved) == before


def test_where_only_compiled_files_are_installed_those_are_hashed(package: Path) -> None:
    subprocess.run([sys.executable, "-m", "compileall", "-q", "-b", package], check=True)
    for file in package.rglob("*.py"):
        file.unlink()
    assert "facts/kinds.pyc" in facts_version.files(package)
    before = facts_version.version_of(package)
    compiled = package / "facts" / "kinds.pyc"
    compiled.write_bytes(compiled.read_bytes() + b"\0")
    assert facts_version.version_of(package) != before


def test_an_upgrade_is_not_served_the_numbers_of_before(package: Path, tmp_path: Path) -> None:
    """The whole way: a cache and a store of one version, then a mended table of devices."""
    source = write(tmp_path / "job" / "rank0.json")
    code = (
        "import sys, profframe\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "source, folder = sys.argv[1:]\n"
        "profframe.load(source, cache=folder + '/cache')\n"
        "print(len([*__import__('pathlib').Path(folder, 'cache').glob('store-*')]))\n"
        "print(profframe.load(folder + '/store').quality['issue'].to_list()"
        " if profframe.store.is_store(folder + '/store') else None)\n"
        "files = profframe.convert(source, folder + '/store', ThreadPoolExecutor(1))\n"
        "print(files['status'].item())\n"
    )

    def ask() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", code, str(source), str(tmp_path)],
            cwd=package.parent,
            env=os.environ | {"PYTHONPATH": str(package.parent)},
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout.split("\n")[:3]

    assert ask() == ["1", "None", "written"]
    assert ask() == ["1", "[]", "unchanged"]
    devices = package / "facts" / "devices.json"
    devices.write_bytes(devices.read_bytes() + b"\n")
    assert ask() == ["2", "['another_version']", "written"]
    assert ask() == ["2", "[]", "unchanged"]


def test_the_version_changes_with_the_sql_that_joins_records_with_kernels() -> None:
    sql = find(sql_directory() / "inner" / "recorded_kernels.sql").sql
    texts = "\n".join([*macros.definitions(sql).values(), sql])
    code = "\n".join(line for line in texts.splitlines() if not line.lstrip().startswith("--"))
    assert hashlib.blake2b(code.encode(), digest_size=8).hexdigest() == recorded_kernels.SQL_VERSION


@contextmanager
def another_version() -> Iterator[None]:
    """What is loaded in the block is loaded by another version."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("profframe.loaders.tables._VERSION", OTHER)
        for module in ("store.cache", "conversion.staging", "store.versions"):
            patch.setattr(f"profframe.{module}.facts_version", lambda: OTHER)
        yield


def checks(trace: profframe.Trace) -> list[tuple[str, int, str, int]]:
    """Of each trace that another version has read: its name, and how much it is."""
    rows = trace.quality.select("run", "rank", "issue", "events").rows()
    assert rows == trace.sql("SELECT run, rank, issue, events FROM quality").rows()
    return rows


def test_what_is_loaded_says_by_which_version(tmp_path: Path) -> None:
    trace = profframe.load(write(tmp_path / "a.json"))
    assert trace.traces["facts_version"].to_list() == [facts_version.facts_version()]
    trace.to_parquet(tmp_path / "store")
    assert profframe.load(tmp_path / "store").quality.height == trace.quality.height == 0


def test_a_store_of_another_version_says_so_until_it_is_written_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [write(tmp_path / "job" / f"rank{rank}.json", rank, events=3) for rank in range(2)]
    store = tmp_path / "store"
    profframe.convert(paths[0], store)
    with another_version():
        profframe.convert(paths[1], store)

    trace = profframe.load(store)
    source_events = trace.traces["source_events"][1]
    assert checks(trace) == [("job", 1, "another_version", source_events)]
    (note,) = trace.quality.rows(named=True)
    assert "profframe convert" in note["action"]
    assert OTHER in note["detail"]
    assert facts_version.facts_version() in note["detail"]
    assert "another_version" in str(trace)
    assert checks(trace.filter(ranks=1)) == checks(profframe.load(store, ranks=1)) == checks(trace)
    assert checks(trace.filter(ranks=0)) == checks(profframe.load(store, ranks=0)) == []
    assert [row["facts_version"] for row in maintenance.contents(store).rows(named=True)] == [
        facts_version.facts_version(),
        OTHER,
    ]
    assert maintenance.verify(store).is_empty()
    assert command_line(["store", "ls", str(store)]) == 0
    assert "1 trace read by another version of profframe" in capsys.readouterr().out
    assert command_line([str(store)]) == 0
    assert "another_version" in capsys.readouterr().out

    with ThreadPoolExecutor(1) as threads:
        files = profframe.convert(paths, store, threads)
    assert files["status"].to_list() == ["unchanged", "written"]
    assert checks(profframe.load(store)) == []
    assert command_line(["store", "ls", str(store)]) == 0
    assert "another version" not in capsys.readouterr().out


def test_packs_and_copies_keep_the_version_of_each_trace(tmp_path: Path) -> None:
    paths = [write(tmp_path / "job" / f"rank{rank}.json", rank, events=3) for rank in range(3)]
    store = tmp_path / "store"
    with ThreadPoolExecutor(1) as threads:
        profframe.convert(paths[:2], store, threads, run="a")
    with another_version():
        profframe.convert(paths[2], store, run="a")
    before = checks(profframe.load(store))
    assert [row[:3] for row in before] == [("a", 2, "another_version")]

    maintenance.compact(store)
    assert checks(profframe.load(store)) == before
    profframe.convert(store, tmp_path / "copy")
    assert checks(profframe.load(tmp_path / "copy")) == before
    with ThreadPoolExecutor(1) as threads:
        files = profframe.convert(paths, store, threads, run="a")
    assert files["status"].to_list() == ["unchanged", "unchanged", "written"]
    assert checks(profframe.load(store)) == []
    assert names(store) == names(tmp_path / "copy")
    profframe.load(tmp_path / "copy").to_parquet(tmp_path / "again")
    assert checks(profframe.load(tmp_path / "again")) == before


def test_a_cache_of_another_version_is_not_served(tmp_path: Path) -> None:
    path, cache = write(tmp_path / "a.json"), tmp_path / "cache"
    with another_version():
        profframe.load(path, cache=cache)
    trace = profframe.load(path, cache=cache)
    assert trace.traces["facts_version"].to_list() == [facts_version.facts_version()]
    assert len([*cache.glob("store-*")]) == 2


def test_what_a_killed_batch_of_another_version_has_converted_is_not_taken_up() -> None:
    of_file = ("a.json", "content", "{}")
    with another_version():
        other = staging.staging_key(*of_file)
    assert staging.staging_key(*of_file) != other


def test_tables_that_profframe_did_not_load_are_of_no_version(tmp_path: Path) -> None:
    trace = profframe.load(write(tmp_path / "a.json"))
    tables = dict(trace.tables)
    place = schema.TRACES.names.index("facts_version")
    nothing = pa.nulls(1, schema.TEXT)
    tables["traces"] = tables["traces"].set_column(place, "facts_version", nothing)
    profframe.Trace.from_tables(tables).to_parquet(tmp_path / "store")
    assert checks(profframe.load(tmp_path / "store")) == []


def test_importing_profframe_computes_no_version() -> None:
    code = (
        "import profframe, profframe.cli, profframe.store.facts_version\n"
        "print(profframe.store.facts_version.facts_version.cache_info().currsize)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "0\n"


def test_what_is_installed_meanwhile_is_not_the_version_of_what_runs(
    package: Path, tmp_path: Path
) -> None:
    code = (
        "import sys\n"
        "import profframe.loaders.load\n"
        "from profframe.store.facts_version import version_of\n"
        "from pathlib import Path\n"
        "package, source = map(Path, sys.argv[1:])\n"
        "before = version_of(package)\n"
        "(package / 'facts' / 'kinds.py').write_text('')\n"
        "found = profframe.load(source).traces['facts_version'].item()\n"
        "print(found == before, version_of(package) == before)"
    )
    source = write(tmp_path / "a.json")
    done = subprocess.run(
        [sys.executable, "-c", code, str(package), str(source)],
        cwd=package.parent,
        env=os.environ | {"PYTHONPATH": str(package.parent)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "True False\n"
