"""The command line keeps large traces for the next command: where it should, and never stale."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

import profframe
from profframe import cli
from profframe.cli import keeping
from profframe.cli.verbs import verbs
from profframe.errors import SourceError
from profframe.loaders.options import Progress
from profframe.loaders.run_names import NamedTrace
from profframe.loaders.tables import combine
from profframe.query import answer_cache
from profframe.query.header import Answer
from profframe.readers.reading import read_parts
from profframe.store import cache, scan
from profframe.store.member_files import IN_USE
from profframe.system.holds import Hold
from profframe.trace import query
from profframe.trace.base_trace import BaseTrace
from tests.conftest import Run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache, where every file is large."""
    for name in ("CI", keeping.SWITCH):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(keeping, "LEAST_BYTES", 1)
    return tmp_path / "cache" / "profframe"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line on a terminal."""

    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.stderr.isatty", lambda: True)
            code = cli.run([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files that are loaded, not opened from the cache."""
    seen: list[Path] = []

    def counted(path: Path, progress: Progress | None) -> object:
        seen.append(path)
        return read_parts(path, progress)

    monkeypatch.setattr("profframe.loaders.trace_files.read_parts", counted)
    return seen


def written(path: Path, name: str = "op") -> Path:
    """A trace of one slice."""
    slice_ = {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"traceEvents": [slice_]}))
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return written(tmp_path / "a.json")


def asked(run: Run, path: object, *options: str) -> tuple[str, str]:
    """Name of the slice, and what stderr says."""
    query = "SELECT name FROM events"
    code, out, err = run("sql", str(path), query, "--format", "csv", *options)
    assert code == 0, err
    return out.split()[1], err


def test_the_second_command_loads_nothing_and_the_first_says_so(
    trace: Path, home: Path, reads: list[Path], run: Run
) -> None:
    name, err = asked(run, trace)
    (entry,) = cache.entries(home)
    assert name == "op"
    assert err.startswith(f"{home}: keeps this trace for the next command, ")
    assert f"{keeping.SWITCH}=0" in err
    assert err.count("\n") == 1
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert reads == [trace]

    assert asked(run, trace) == ("op", "")
    assert reads == [trace]
    assert [one.path for one in cache.entries(home)] == [entry.path]

    another = written(trace.with_name("b.json"))
    assert asked(run, another) == ("op", "")
    assert len(cache.entries(home)) == 2


def test_what_is_kept_says_the_same(
    example: Path, reads: list[Path], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = [run(str(example))[:2] for _ in range(2)]
    monkeypatch.setenv(keeping.SWITCH, "0")
    assert shown == [run(str(example))[:2]] * 2
    assert reads == [example] * 2


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of answers that are computed."""
    names: list[str] = []

    def counted(trace: BaseTrace, question: Answer, parameters: Mapping[str, object]) -> object:
        names.append(question.name)
        return compute(trace, question, parameters)

    compute = query._computed
    monkeypatch.setattr(query, "_computed", counted)
    return names


def test_the_second_command_computes_no_answer(
    example: Path, computed: list[str], run: Run
) -> None:
    shown = run(str(example))[:2]
    assert {"advice", "self_times"} <= {*computed}
    computed.clear()
    assert run(str(example))[:2] == shown
    assert computed == ["contents"]  # the first command saw it in the tables
    assert run(str(example))[:2] == shown
    assert computed == ["contents"]


@pytest.mark.parametrize(
    "options", [["-p", "sort=name"], ["-p", "top=1"], ["--columns", "name"], ["--step", "2"]]
)
def test_another_question_is_not_served(
    options: list[str], example: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ("answer", "self_times", str(example), "--format", "csv")
    first = run(*ask)
    second = run(*ask, *options)
    assert run(*ask, *options) == (*second[:2], "")
    assert run(*ask) == (*first[:2], "")
    monkeypatch.setenv(keeping.SWITCH, "0")
    assert run(*ask, *options)[:2] == second[:2] != first[:2]


def test_an_answer_of_other_code_is_not_served(
    example: Path, computed: list[str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ("answer", "self_times", str(example))
    run(*ask)
    monkeypatch.setattr(answer_cache, "code_version", lambda: "another")
    run(*ask)
    run(*ask)
    assert computed == ["self_times"] * 2


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "missing"])
def test_a_damaged_answer_is_computed_anew(
    damage: str, example: Path, home: Path, computed: list[str], run: Run
) -> None:
    ask = ("answer", "self_times", str(example))
    first = run(*ask)
    (file,) = home.rglob(f"{answer_cache.FOLDER}/*")
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        flipped = content[:40] + bytes([content[40] ^ 1]) + content[41:]
        file.write_bytes({"cut": content[:-9], "empty": b"", "flipped": flipped}[damage])
    assert run(*ask)[:2] == run(*ask)[:2] == first[:2]
    assert computed == ["self_times"] * 2
    assert file.read_bytes() == content


def test_there_are_not_too_many_answers(
    example: Path, home: Path, computed: list[str], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_cache, "MOST_ANSWERS", 2)
    for top in (1, 2, 3, 4, 4):
        run("answer", "self_times", str(example), "-p", f"top={top}")
    assert len([*home.rglob(f"{answer_cache.FOLDER}/*")]) == 2
    assert len(computed) == 4
    monkeypatch.setattr(answer_cache, "MOST_BYTES", 1)
    for _ in range(2):
        run("answer", "overview", str(example))
    assert len(computed) == 6


def test_any_byte_of_the_code_changes_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, sql = tmp_path / "package", tmp_path / "sql"
    for folder in (package / "query", sql / "lib", package / "query" / "__pycache__"):
        folder.mkdir(parents=True)
    monkeypatch.setattr(answer_cache, "__file__", str(package / "query" / "a.py"))
    monkeypatch.setattr(answer_cache, "sql_directory", lambda: sql)
    versions = []
    for file, text in [
        (package / "a.py", "1"),
        (package / "a.py", "2"),
        (sql / "lib" / "a.sql", "1"),
        (package / "rates.json", "{}"),
        (package / "b.py", ""),
    ]:
        file.write_text(text)
        versions.append(answer_cache.code_version.__wrapped__())
    assert len({*versions}) == 5
    (package / "query" / "__pycache__" / "a.pyc").write_text("1")
    assert answer_cache.code_version.__wrapped__() == versions[-1]


@pytest.mark.parametrize(
    ("where", "is_kept"),
    [
        ("", True),
        (" --no-cache", False),
        ("CI=true", False),
        ("CI=true --cache", True),
        ("CI=false", True),
        ("PROFFRAME_CACHE=0", False),
        ("PROFFRAME_CACHE=0 --cache", True),
    ],
)
def test_where_it_keeps(where: str, is_kept: bool, trace: Path, home: Path, run: Run) -> None:
    variable, _, option = where.partition(" ")
    name, _, value = variable.partition("=")
    with pytest.MonkeyPatch.context() as patch:
        if name:
            patch.setenv(name, value)
        asked(run, trace, *option.split())
    assert len(cache.entries(home)) == is_kept


def test_nothing_is_kept_away_from_a_terminal_unless_asked_for(trace: Path, home: Path) -> None:
    words = ["sql", str(trace), "SELECT name FROM events"]
    assert cli.run(words) == 0
    assert not home.exists()
    assert cli.run([*words, "--cache"]) == 0
    assert len(cache.entries(home)) == 1


def test_the_folder_can_be_moved(
    trace: Path, home: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(keeping.SWITCH, str(tmp_path / "mine"))
    asked(run, trace)
    assert len(cache.entries(tmp_path / "mine")) == 1
    assert not home.exists()

    monkeypatch.setenv(keeping.SWITCH, "1")
    code, _, err = run(str(trace))
    assert (code, "PROFFRAME_CACHE: 0 or an absolute path, not '1'" in err) == (2, True)


def test_small_files_stores_and_pipes_are_not_kept(
    trace: Path, home: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    profframe.load(trace).to_parquet(tmp_path / "store")
    asked(run, tmp_path / "store")
    inner, outer = os.pipe()
    os.write(outer, trace.read_bytes())
    os.close(outer)
    asked(run, f"/dev/fd/{inner}")
    os.close(inner)
    monkeypatch.setattr(keeping, "LEAST_BYTES", trace.stat().st_size + 1)
    asked(run, trace)
    assert not home.exists()
    monkeypatch.setattr(keeping, "LEAST_BYTES", trace.stat().st_size)
    asked(run, trace)
    assert len(cache.entries(home)) == 1


@pytest.mark.parametrize(
    ("platform", "variable", "place"),
    [
        ("linux", "XDG_CACHE_HOME", ".cache/profframe"),
        ("darwin", "", "Library/Caches/profframe"),
        ("win32", "LOCALAPPDATA", "AppData/Local/profframe"),
    ],
)
def test_its_place_is_the_usual_one(
    platform: str, variable: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable or "XDG_CACHE_HOME", "relative")
    assert keeping.default_folder(platform) == tmp_path / place
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "there"))
        assert keeping.default_folder(platform) == tmp_path / "there" / "profframe"


def test_a_file_that_is_written_again_at_once_is_not_stale(
    trace: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system whose times are so coarse that the second file has those of the first."""
    same = cache.signature(trace)
    for module in ("store.cache", "loaders.trace_files"):
        monkeypatch.setattr(f"profframe.{module}.signature", lambda _: same)
    for name in ("op", "po", "op"):
        assert asked(run, written(trace, name))[0] == name


def test_a_file_that_is_old_enough_is_hashed_once(
    trace: Path, home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(run, trace)
    (note,) = (home / "seen").iterdir()
    assert json.loads(note.read_text())["is_settled"] is False
    now = time.time_ns()
    monkeypatch.setattr("time.time_ns", lambda: now + 3 * 10**9)
    asked(run, trace)
    assert json.loads(note.read_text())["is_settled"] is True
    note.write_text(note.read_text().replace('"content": "', '"content": "another'))
    asked(run, trace)
    assert len(cache.entries(home)) == 2  # the note is believed


def test_a_file_that_changes_while_it_is_loaded_is_not_kept(
    trace: Path, home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(traces: list[NamedTrace], skipped: list[SourceError]) -> object:
        written(trace, "po")
        return combine(traces, skipped)

    monkeypatch.setattr("profframe.loaders.trace_files.combine", slow)
    assert asked(run, trace)[0] == "op"
    assert cache.entries(home) == []
    assert [path.name for path in home.iterdir()] == ["seen"]
    assert asked(run, trace)[0] == "po"


def test_another_version_or_another_option_is_not_served(
    trace: Path, reads: list[Path], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(run, trace)
    asked(run, trace, "--compat", "torch")
    assert len(reads) == 2
    monkeypatch.setattr("profframe.store.cache.facts_version", lambda: "another")
    asked(run, trace)
    assert len(reads) == 3


@pytest.mark.parametrize("damage", ["cut", "zeros", "flipped", "missing", "manifest", "empty"])
def test_a_damaged_entry_is_loaded_anew(
    damage: str, trace: Path, home: Path, reads: list[Path], run: Run
) -> None:
    asked(run, trace)
    (entry,) = cache.entries(home)
    (file,) = entry.path.rglob("events.parquet")
    content = file.read_bytes()
    middle = len(content) // 2
    if damage == "missing":
        file.unlink()
    elif damage == "manifest":
        (file.parent / "manifest.json").write_text('{"files": {')
    elif damage == "empty":
        file.parent.rename(home.parent / "elsewhere")
    else:
        file.write_bytes(
            {
                "cut": content[:middle],
                "zeros": bytes(len(content)),
                "flipped": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
            }[damage]
        )
    for _ in range(2):
        assert asked(run, trace)[0] == "op"
    assert reads == [trace] * 2
    assert len(cache.entries(home)) == 1


def test_the_least_recently_used_goes_first(tmp_path: Path, home: Path, run: Run) -> None:
    paths = [written(tmp_path / f"{i}.json") for i in range(3)]
    for path in paths:
        asked(run, path)
    kept = cache.entries(home)
    for place, entry in enumerate(kept):
        os.utime(entry.path / IN_USE, (place, place))
    asked(run, paths[2])  # the oldest of them is used once more
    used = cache.entries(home)
    assert [entry.path for entry in used] == [kept[0].path, kept[2].path, kept[1].path]

    total = sum(entry.bytes for entry in used)
    cache.trim(home, total)
    assert len(cache.entries(home)) == 3
    cache.trim(home, total - 1)
    assert cache.entries(home) == used[:2]


def test_what_is_read_stays_and_what_is_too_large_goes(
    tmp_path: Path, home: Path, run: Run
) -> None:
    for name in "ab":
        asked(run, written(tmp_path / f"{name}.json"))
    first, second = cache.entries(home)
    reader = scan(second.path).only(None, range(1))
    cache.trim(home, 0)
    assert cache.entries(home) == [second]
    assert cache.clear(home) == []
    assert next(reader.parts("events"))["name"].to_pylist() == ["op"]
    del reader
    assert [entry.path for entry in cache.clear(home)] == [second.path]
    assert [*home.iterdir()] == []
    assert not first.path.exists()


def test_a_larger_one_than_the_cache_removes_no_other(tmp_path: Path, home: Path, run: Run) -> None:
    for name in "ab":
        asked(run, written(tmp_path / f"{name}.json"))
    large, small = cache.entries(home)
    (large.path / "more").write_bytes(bytes(100_000))
    cache.trim(home, 2 * small.bytes)
    assert cache.entries(home) == [small]


def test_a_hold_ends_with_its_last_user(tmp_path: Path) -> None:
    from profframe.system.holds import alone

    path = tmp_path / "in-use"
    assert Hold.of(path) is None
    path.touch()
    hold = Hold.of(path)
    with alone(path) as is_alone:
        assert not is_alone
    del hold
    with alone(path) as is_alone:
        assert is_alone


def test_it_is_a_part_of_the_disk_at_most(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = 10**9
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    assert keeping.most_bytes(home, 5 * 10**8) == 15 * 10**7
    free = 10**15
    assert keeping.most_bytes(home, 0) == keeping.MOST_BYTES


def test_a_folder_that_others_can_write_to_is_refused_and_the_answer_is_there(
    trace: Path, home: Path, run: Run
) -> None:
    home.mkdir(0o700, parents=True)
    home.chmod(0o777)
    name, err = asked(run, trace)
    assert name == "op"
    assert err.startswith(f"warning: {home}: others can write to this cache")
    assert [*home.iterdir()] == []


def test_a_disk_that_is_full_takes_no_answer(
    trace: Path, home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise profframe.StoreError("No space left on device")

    monkeypatch.setattr("profframe.store.write", full)
    name, err = asked(run, trace)
    assert (name, err.count("\n")) == ("op", 1)
    assert err.startswith("warning: No space left on device; nothing is kept")
    assert cache.entries(home) == []


def test_a_wrong_trace_has_the_error_that_it_always_has(
    tmp_path: Path, home: Path, run: Run
) -> None:
    path = tmp_path / "a.json"
    path.write_text("{}")
    found = run(str(path))
    assert found == run(str(path), "--no-cache")
    assert found[0] == 1
    assert cache.entries(home) == []


def test_what_is_kept_is_shown_and_cleared(trace: Path, home: Path, run: Run) -> None:
    assert run("cache") == (0, f"{home}: 0 traces, 0 B\n", "")
    asked(run, trace)
    code, out, _ = run("cache")
    assert code == 0
    assert out.startswith(f"{home}: 1 trace, ")
    assert " of at most " in out
    code, _, err = run("cache", "clear")
    assert (code, err.startswith(f"{home}: 1 trace removed, ")) == (0, True)
    assert cache.entries(home) == []
    assert run("cache", "clear")[0] == 0


def test_every_verb_that_loads_traces_has_the_option() -> None:
    have = {
        name
        for name, verb in verbs.commands.items()
        if any("--cache" in parameter.opts for parameter in verb.params)
    }
    assert {*verbs.commands} - have == {"cache", "convert", "store"}
