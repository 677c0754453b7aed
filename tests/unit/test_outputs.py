"""A file that a verb writes is there whole or not at all; so is what goes to stdout."""

from __future__ import annotations

import os
import pickle
import resource
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
import pytest

import profframe
from profframe.cli import run
from profframe.cli.verbs import verbs
from profframe.errors import ExportError
from profframe.system.atomic_files import atomic_write
from tests import needs
from tests.members import few

WAS: Final = "was here"
FILES: Final = {"output", "overlay"}
"""Parameters of verbs that name a file to write."""
NO_FILE: Final = {"convert"}
"""Verbs whose output is a store, written as stores are."""

ARGUMENTS: Final[dict[str, list[str]]] = {
    "show": ["show", "STORE"],
    "info": ["info", "STORE"],
    "tree": ["tree", "TRACE"],
    "answer": ["answer", "kernels", "STORE"],
    "sql": ["sql", "STORE", "SELECT name, dur_ns FROM events ORDER BY ALL"],
    "advice": ["advice", "STORE"],
    "diff": ["diff", "TRACE", "TRACE"],
    "explain": ["explain", "TRACE", "TRACE"],
    "check": ["check", "STORE", "--baseline", "before*"],
    "roofline": ["roofline", "STORE"],
    "augment": ["augment", "TRACE"],
    "export": ["export", "TRACE"],
    "critical-path": ["critical-path", "TRACE"],
    "what-if": ["what-if", "TRACE", "--host", "0.5"],
    "blame": ["blame", "TRACE"],
    "hang": ["hang", "DUMP"],
    "report": ["report", "TRACE", "--section", "kernels"],
    "store kept": ["store", "kept", "STORE"],
    "store ls": ["store", "ls", "STORE", "--ranks"],
    "store upgrade": ["store", "upgrade", "STORE"],
    "store verify": ["store", "verify", "STORE"],
}
"""What each verb is given beside the file."""
OTHER_WRITERS: Final = {
    "tree",
    "sql",
    "diff",
    "hang",
    "critical-path",
    "augment",
    "export",
    "report",
}
"""Rows of a table, a comment, and what is written by other ways; others write rows as these."""


def writing() -> Iterator[tuple[str, str]]:
    """Verbs that write a file, and the option that names it; none where it comes by its place."""

    def below(group: click.Group, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        for name, command in group.commands.items():
            if isinstance(command, click.Group):
                yield from below(command, (*names, name))
                continue
            for parameter in command.params:
                if parameter.name in FILES:
                    option = max(parameter.opts, key=len)
                    yield " ".join((*names, name)), option if option.startswith("-") else ""

    yield from ((verb, option) for verb, option in below(verbs, ()) if verb not in NO_FILE)


def test_every_verb_that_writes_a_file_is_tried() -> None:
    assert {verb for verb, _ in writing()} == set(ARGUMENTS)


@pytest.fixture(scope="module")
def sources(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    store = tmp_path_factory.mktemp("outputs") / "store"
    trace = store.with_name("trace.json.gz")
    whole = profframe.load(root / "examples" / "gpu_training.json.gz")
    whole.filter(steps=2).export_chrome_trace(trace)
    for run_name in ("before", "before.1", "now"):
        profframe.load(trace, run=run_name).to_parquet(store)
    dump = store.with_name("dump_0")
    entry = {"process_group": ("0", "default_pg"), "collective_seq_id": 1, "record_id": 0}
    dump.write_bytes(pickle.dumps({"version": "2.10", "pg_config": {}, "entries": [entry]}))
    return {"TRACE": str(trace), "STORE": str(store), "DUMP": str(dump)}


@contextmanager
def small_disk(size: int = 100) -> Iterator[None]:
    """No file can grow beyond some bytes: a full disk, as far as a writer can tell."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)  # it would be kept as far as it goes
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("verb", "option"),
    few(writing(), [each for each in writing() if each[0] in OTHER_WRITERS], arguments=2),
)
def test_a_full_disk_leaves_what_was_there(
    verb: str,
    option: str,
    sources: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if verb == "report":
        needs.charts()
    out = tmp_path / "out.json"
    arguments = [sources.get(word, word) for word in ARGUMENTS[verb]]
    arguments += [word for word in (option, str(out)) if word]
    out.write_text(WAS)
    out.chmod(0o640)
    is_brief = verb in {
        "check",
        "blame",
        "explain",
        "store kept",
        "store verify",
    }  # [] if all is well
    size = 1 if is_brief else 100
    with small_disk(size):
        code = run(arguments)
    said = capsys.readouterr().err.splitlines()

    assert code == 1
    assert said[-1] == f"error: {out}: cannot be written: File too large"
    assert out.read_text() == WAS
    assert [*tmp_path.iterdir()] == [out]

    assert run(arguments) == 0
    assert out.read_text() != WAS
    assert stat.S_IMODE(out.stat().st_mode) == 0o640
    assert [*tmp_path.iterdir()] == [out]


Save = Callable[[profframe.Trace, Path], object]
SAVES: Final[dict[str, Save]] = {
    "report": lambda trace, path: trace.report(path, sections=["kernels"]),
    "chrome": lambda trace, path: trace.export_chrome_trace(path),
    "list": lambda trace, path: trace.export_chrome_trace(path, legacy=True),
    "speedscope": lambda trace, path: trace.export_speedscope(path),
    "stacks": lambda trace, path: trace.export_stacks(path, by="path"),
    "augment": lambda trace, path: trace.augment(path),
    "flame": lambda trace, path: trace.plot.flame().save(path),
}


@pytest.mark.parametrize(
    ("name", "ending"),
    [*((name, "") for name in SAVES), ("chrome", ".gz"), ("chrome", ".zst"), ("stacks", ".gz")],
)
def test_so_it_is_from_python_also_compressed(
    name: str, ending: str, sources: dict[str, str], tmp_path: Path
) -> None:
    trace, out = profframe.load(sources["STORE"], runs="before"), tmp_path / f"out.json{ending}"
    out.write_text(WAS)
    told = rf"^{out}: cannot be written: File too large$"
    with small_disk(), pytest.raises(ExportError, match=told):
        SAVES[name](trace, out)
    assert out.read_text() == WAS
    assert [*tmp_path.iterdir()] == [out]


def test_a_cache_that_cannot_be_kept_is_an_error_that_names_it(root: Path, tmp_path: Path) -> None:
    trace = root / "examples" / "cpu_training.json.gz"
    told = rf"^{tmp_path}/seen/\w+.json: cannot be written: File too large$"
    with small_disk(1), pytest.raises(ExportError, match=told):
        profframe.load(trace, cache=tmp_path)
    assert [*tmp_path.rglob("*.*")] == []
    (tmp_path / "file").touch()
    told = f"^{tmp_path}/file: cannot be created: File exists$"
    with pytest.raises(ExportError, match=told):
        profframe.load(trace, cache=tmp_path / "file")


def test_an_interrupt_leaves_what_was_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text(WAS)

    def interrupted() -> None:
        with atomic_write(out) as draft:
            draft.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert out.read_text() == WAS
    assert [*tmp_path.iterdir()] == [out]


def test_a_new_file_has_the_permissions_that_open_gives(tmp_path: Path) -> None:
    for mask in (0o022, 0o077):
        before = os.umask(mask)
        try:
            plain, out = tmp_path / f"plain{mask}", tmp_path / f"out{mask}"
            plain.touch()
            with atomic_write(out) as draft:
                draft.write_text("new")
        finally:
            os.umask(before)
        assert out.stat().st_mode == plain.stat().st_mode


def test_what_is_secret_stays_secret_while_it_is_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.touch(0o600)
    with atomic_write(out) as draft:
        assert stat.S_IMODE(draft.stat().st_mode) == 0o600


def test_links_are_followed_to_what_they_name(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    link, other = tmp_path / "a" / "link", tmp_path / "a" / "other"
    other.symlink_to("../b/out")
    link.symlink_to("other")
    for text in ("new", "again"):
        with atomic_write(link) as draft:
            assert draft.parent == tmp_path / "b"
            draft.write_text(text)
        assert link.is_symlink()
        assert other.is_symlink()
        assert (tmp_path / "b" / "out").read_text() == text


def test_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_text)
        with atomic_write(pipe) as draft:
            draft.write_text("through")
        assert read.result() == "through"
    with atomic_write("/dev/null") as draft:
        draft.write_text("away")
    assert Path("/dev/null").is_char_device()
    full = "^/dev/full: cannot be written: No space left on device$"
    with pytest.raises(ExportError, match=full), atomic_write("/dev/full") as draft:
        draft.write_text("text")
    folder = f"^{tmp_path}: cannot be written: Is a directory$"
    with pytest.raises(ExportError, match=folder), atomic_write(tmp_path) as draft:
        draft.write_text("text")


def test_an_open_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        for path in (f"/dev/fd/{file.fileno()}", f"/proc/self/fd/{file.fileno()}"):
            with atomic_write(path) as draft:
                draft.write_text(path)
            assert (tmp_path / "out").read_text() == path
            assert os.fstat(file.fileno()).st_nlink == 1


# Stdout and stderr

LONG: Final = ["sql", "STORE", "SELECT * FROM events", "--format", "csv"]
SHORT: Final = ["sql", "STORE", "SELECT 1 AS one"]


def shell(arguments: list[str], streams: str, sources: dict[str, str]) -> tuple[int, str]:
    """Exit code and what stderr has of a command whose streams are led elsewhere by a shell."""
    words = [sys.executable, "-m", "profframe", *(sources.get(word, word) for word in arguments)]
    command = ["/bin/sh", "-c", f'"$@" {streams}', "sh", *words]
    done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "arguments", few([["--version"], ["info", "STORE"], LONG], [["--version"], LONG]), ids=" ".join
)
def test_a_closed_stdout_is_one_line_of_error(
    arguments: list[str], sources: dict[str, str]
) -> None:
    told = "error: stdout: Bad file descriptor\n"
    assert shell(arguments, ">&-", sources) == (1, told)


@pytest.mark.parametrize(
    "arguments",
    few([["--help"], ["answer", "kernels", "--sql"], SHORT, LONG], [["--help"], SHORT]),
    ids=" ".join,
)
def test_a_full_stdout_is_one_line_of_error(arguments: list[str], sources: dict[str, str]) -> None:
    told = "error: stdout: No space left on device\n"
    assert shell(arguments, "> /dev/full", sources) == (1, told)


@pytest.mark.parametrize(("arguments", "code"), [(["info", "STORE"], 0), (["info", "no/such"], 1)])
def test_without_stderr_the_exit_code_says_it(
    arguments: list[str], code: int, sources: dict[str, str]
) -> None:
    assert shell(arguments, "> /dev/null 2>&-", sources) == (code, "")


def test_without_any_stream_a_file_is_written_all_the_same(
    sources: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    arguments = ["sql", "STORE", "SELECT 1 AS one", "-o", str(out)]
    assert shell(arguments, "<&- >&- 2>&-", sources) == (0, "")
    assert out.read_text() == "one\n1\n"
    assert shell(["info", "no/such"], "> /dev/full 2>&1", sources) == (1, "")
