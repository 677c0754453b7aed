"""Drafts of those who were killed go, drafts of those at work stay; nobody else gets at them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn

import pytest

import profframe
from profframe import StoreError, cli, store
from profframe.conversion.staging import Folder
from profframe.query.sandbox import Terms, connect
from profframe.store import maintenance
from profframe.store.layout import STAGED, temporary
from profframe.system import drafts
from profframe.system.atomic_files import atomic_write
from tests import needs
from tests.unit.test_store import one

pytestmark = [needs.fork, pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")]
NOBODY: Final = 65534


def killed(work: Callable[[], object]) -> None:
    """Do some work in a process that ends in the middle of it, without a word."""
    child = os.fork()
    if not child:
        work()
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 9


def end() -> NoReturn:
    os._exit(9)


@contextmanager
def of_another_user(folder: Path) -> Iterator[None]:
    """What is done in here is done by another user, who can get to the folder."""
    for parent in (folder, *folder.parents):
        if parent.owner() == "root" and parent.stat().st_mode & 0o777 == 0o700:
            parent.chmod(0o711)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def leave_draft(folder: Path) -> None:
    with drafts.draft(folder, ".tmp-") as path:
        (path / "half").write_text("half")
        end()


def leave_scratch() -> None:
    drafts.process_scratch()
    end()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestDraft:
    def test_the_draft_of_a_killed_process_goes_and_one_at_work_stays(self, tmp_path: Path) -> None:
        killed(lambda: leave_draft(tmp_path))
        with drafts.draft(tmp_path, ".tmp-") as own:
            assert len([*tmp_path.iterdir()]) == 2
            assert drafts.sweep(tmp_path, ".tmp-") == 1
            assert [*tmp_path.iterdir()] == [own]
        assert [*tmp_path.iterdir()] == []

    def test_what_was_not_made_on_this_machine_stays(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        killed(lambda: leave_draft(tmp_path))
        monkeypatch.setattr(drafts, "_machine", lambda: "0" * 8)
        assert drafts.sweep(tmp_path, ".tmp-") == 0
        assert len([*tmp_path.iterdir()]) == 1

    def test_a_link_of_its_name_is_not_followed(self, tmp_path: Path) -> None:
        victim = tmp_path / "victim"
        victim.mkdir()
        (victim / "file").touch()
        link = tmp_path / f".tmp-{drafts._machine()}-{'0' * 16}"
        link.symlink_to(victim)
        assert drafts.sweep(tmp_path, ".tmp-") == 0
        assert (victim / "file").exists()
        assert link.is_symlink()

    def test_it_belongs_to_its_user_alone(self, tmp_path: Path) -> None:
        before = os.umask(0)
        try:
            with drafts.scratch() as folder, drafts.draft(tmp_path, ".tmp-") as path:
                assert (mode(folder), mode(path)) == (0o700, 0o700)
        finally:
            os.umask(before)

    def test_one_that_is_swept_before_it_is_locked_is_made_again(self, tmp_path: Path) -> None:
        made: list[Path] = []

        def create(path: Path) -> None:
            made.append(path)
            path.mkdir()
            if len(made) == 1:
                path.rmdir()

        with drafts.draft(tmp_path, ".tmp-", create=create) as path:
            assert path == made[1]
            assert path.is_dir()

    @needs.root
    def test_that_of_another_user_stays(self, tmp_path: Path) -> None:
        with of_another_user(tmp_path):
            pass
        shared = tmp_path / "shared"
        shared.mkdir()
        shared.chmod(0o1777)

        def by_nobody() -> None:
            os.setuid(NOBODY)
            leave_draft(shared)

        killed(by_nobody)
        assert drafts.sweep(shared, ".tmp-") == 0
        assert len([*shared.iterdir()]) == 1


def test_what_a_killed_writer_left_beside_a_file_goes_with_the_next(tmp_path: Path) -> None:
    def write() -> None:
        with atomic_write(tmp_path / "page.html") as draft:
            draft.write_text("half")
            end()

    killed(write)
    assert len([*tmp_path.iterdir()]) == 1
    with atomic_write(tmp_path / "page.html") as draft:
        draft.write_text("whole")
    assert [*tmp_path.iterdir()] == [tmp_path / "page.html"]


class TestSpilling:
    def test_a_query_spills_into_a_folder_of_this_user_alone(self) -> None:
        with connect(Terms(memory_limit="100MB"), ()) as connection:
            (setting,) = connection.execute("SELECT current_setting('temp_directory')").fetchone()  # type: ignore[misc]
            assert mode(Path(setting).parent) == 0o700
            assert Path(setting).parent == drafts.process_scratch()

    def test_what_a_killed_query_spilled_goes_with_the_next_process(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

        def spill() -> None:
            (drafts.process_scratch() / "spilled").write_text("rows")
            end()

        killed(spill)
        assert len([*tmp_path.rglob("spilled")]) == 1
        drafts._sweep_once.cache_clear()
        with drafts.scratch() as folder:
            assert [*tmp_path.iterdir()] == [folder]

    def test_the_command_line_leaves_no_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        killed(leave_scratch)

        def show() -> None:
            monkeypatch.setattr("sys.argv", ["profframe", "--version"])
            with suppress(SystemExit):
                cli.main()
            end()

        assert len([*tmp_path.iterdir()]) == 1
        killed(show)
        assert [*tmp_path.iterdir()] == []


class TestStore:
    """The next of `convert`, `compact` and `verify` removes what nobody works on."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        root = tmp_path / "store"
        store.write(one(), root)
        return root

    @pytest.mark.parametrize("work", ["compact", "verify", "convert"])
    def test_drafts_and_staged_folders_go(self, root: Path, work: str) -> None:
        killed(lambda: leave_draft(root))
        (root / f"{STAGED}key" / "run=a").mkdir(parents=True)
        if work == "convert":
            with Folder(root).at_work():
                pass
        else:
            getattr(maintenance, work)(root)
        assert {path.name for path in root.iterdir()} <= {"catalogue", "run=run", ".lock"}

    def test_what_a_batch_waits_for_stays(self, root: Path) -> None:
        (root / f"{STAGED}key").mkdir()
        with temporary(root) as at_work:
            maintenance.verify(root)
            maintenance.compact(root)
            assert at_work.exists()
        assert (root / f"{STAGED}key").exists()

    def test_an_interrupted_batch_keeps_what_it_can_go_on_from(self, root: Path) -> None:
        (root / f"{STAGED}key").mkdir()

        def stop() -> None:
            with Folder(root).at_work():
                killed(lambda: leave_draft(root))  # a worker
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            stop()
        assert {path.name for path in root.iterdir()} == {"catalogue", "run=run", f"{STAGED}key"}

    def test_the_command_line_says_so(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        killed(lambda: leave_draft(root))
        assert cli.run(["store", "verify", str(root)]) == 0
        assert capsys.readouterr().err == (
            f"{root}: 1 folder removed that a killed or interrupted process had left\n"
            f"{root}: sound\n"
        )


class TestCache:
    """Whoever can write to a cache could say what a file contains."""

    def test_it_is_private(self, example: Path, tmp_path: Path) -> None:
        cache = tmp_path / "cache"
        before = os.umask(0)
        try:
            profframe.load(example, cache=cache)
        finally:
            os.umask(before)
        assert mode(cache) == mode(cache / "seen") == 0o700
        assert [mode(path) for path in cache.glob("store-*")] == [0o700]

    @pytest.mark.parametrize("part", ["", "seen", "store-*", "seen/*"])
    def test_one_that_others_can_write_to_is_refused(
        self, example: Path, tmp_path: Path, part: str
    ) -> None:
        cache = tmp_path / "cache"
        profframe.load(example, cache=cache)
        path = next(cache.glob(part)) if part else cache
        path.chmod(0o775)
        with pytest.raises(StoreError, match=f"^{path}: others can write to this cache"):
            profframe.load(example, cache=cache)

    @pytest.mark.parametrize("part", ["seen", "store-*", "seen/*"])
    def test_no_link_is_followed(self, example: Path, tmp_path: Path, part: str) -> None:
        cache = tmp_path / "cache"
        profframe.load(example, cache=cache)
        path = next(cache.glob(part))
        victim = path.rename(tmp_path / "victim")
        content = victim.read_bytes() if victim.is_file() else [*victim.rglob("*")]
        path.symlink_to(victim)
        with pytest.raises(StoreError, match=f"^{path}: a link"):
            profframe.load(example, cache=cache)
        assert content == (victim.read_bytes() if victim.is_file() else [*victim.rglob("*")])

    def test_a_cache_may_be_a_link_of_ones_own(self, example: Path, tmp_path: Path) -> None:
        (tmp_path / "disk").mkdir(0o700)
        (tmp_path / "cache").symlink_to(tmp_path / "disk")
        profframe.load(example, cache=tmp_path / "cache")
        assert len([*(tmp_path / "disk").glob("store-*")]) == 1

    @needs.root
    def test_a_cache_is_no_link_of_another_user(self, example: Path, tmp_path: Path) -> None:
        (tmp_path / "victim").mkdir(0o700)
        (tmp_path / "cache").symlink_to(tmp_path / "victim")
        os.chown(tmp_path / "cache", NOBODY, NOBODY, follow_symlinks=False)
        with pytest.raises(StoreError, match=f"^{tmp_path}/cache: a link"):
            profframe.load(example, cache=tmp_path / "cache")
        assert [*(tmp_path / "victim").iterdir()] == []

    @needs.root
    @pytest.mark.parametrize("part", ["", "seen", "store-*", "seen/*"])
    def test_what_another_user_made_is_refused(
        self, example: Path, tmp_path: Path, part: str
    ) -> None:
        cache = tmp_path / "cache"
        profframe.load(example, cache=cache)
        path = next(cache.glob(part)) if part else cache
        os.chown(path, NOBODY, NOBODY)
        with pytest.raises(StoreError, match=f"^{path}: belongs to another user"):
            profframe.load(example, cache=cache)

    @needs.root
    def test_another_user_reads_nothing_of_it(self, example: Path, tmp_path: Path) -> None:
        cache = tmp_path / "cache"
        profframe.load(example, cache=cache)
        paths = [cache, *cache.rglob("*"), drafts.process_scratch()]
        with of_another_user(tmp_path):
            for path in paths:
                with pytest.raises(PermissionError):
                    path.open().close() if path.is_file() else [*path.iterdir()]
