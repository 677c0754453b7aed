"""trace_handler: called by hand or by torch, its place, and the name of its run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import profframe
from profframe.errors import ParameterError, SourceError, StoreError
from profframe.loaders.process import name_of_program
from tests import needs

torch = needs.torch()
pytestmark = pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")

PROFILES = [profframe.profile, torch.profiler.profile]


def run_cycles(profile: Any, on_trace_ready: Any = None, **arguments: Any) -> Any:
    """Three cycles: the steps 1, 3 and 5."""
    schedule = profframe.schedule(wait=0, warmup=1, active=1, repeat=3)
    with profile(schedule=schedule, on_trace_ready=on_trace_ready, **arguments) as prof:
        for _ in range(6):
            torch.ones(2, 2) @ torch.ones(2, 2)
            prof.step()
    return prof


def steps(store: Path) -> list[tuple[str, int]]:
    return profframe.load(store).step_times().select("run", "step").rows()


EACH = [("r", 1), ("r.1", 3), ("r.2", 5)]


@pytest.mark.parametrize("acc_events", [False, True])
@pytest.mark.parametrize("profile", PROFILES)
def test_in_a_function_of_ones_own(profile: Any, acc_events: bool, tmp_path: Path) -> None:
    def write(prof: Any) -> None:
        profframe.trace_handler(tmp_path, run="r")(prof)

    run_cycles(profile, write, acc_events=acc_events)
    assert steps(tmp_path) == EACH


@pytest.mark.parametrize("profile", PROFILES)
def test_by_hand_after_the_block_it_writes_the_last_cycle(profile: Any, tmp_path: Path) -> None:
    profframe.trace_handler(tmp_path, run="r")(run_cycles(profile))
    assert steps(tmp_path) == [("r", 5)]


def test_by_hand_all_cycles_that_were_kept_are_runs_of_their_own(tmp_path: Path) -> None:
    profframe.trace_handler(tmp_path, run="r")(run_cycles(profframe.profile, acc_events=True))
    assert steps(tmp_path) == EACH


def test_the_profile_is_what_a_handler_gets() -> None:
    seen: list[Any] = []
    prof = run_cycles(
        profframe.profile,
        lambda p: seen.append((p, p.trace.step_times()["step"].to_list(), p.key_averages())),
    )
    assert [(each, ready) for each, ready, _ in seen] == [(prof, [1]), (prof, [3]), (prof, [5])]


def test_after_a_handler_that_failed_all_cycles_are_written_again(tmp_path: Path) -> None:
    def fail(_: object) -> None:
        raise ZeroDivisionError

    prof = profframe.profile(acc_events=True)
    for handler in (None, fail):
        prof.on_trace_ready = handler
        try:
            with prof:
                pass
        except ZeroDivisionError:
            assert handler is fail
    profframe.trace_handler(tmp_path, run="r")(prof)
    assert profframe.load(tmp_path).traces["run"].to_list() == ["r", "r.1"]


def test_handlers_of_torchs_get_on_with_it(tmp_path: Path) -> None:
    run_cycles(profframe.profile, torch.profiler.tensorboard_trace_handler(str(tmp_path)))
    assert len(list(tmp_path.glob("*.pt.trace.json"))) == 3


@pytest.mark.parametrize("value", [None, "trace.json", [], 3])
def test_what_is_no_profile_is_refused(value: object, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="a handler takes a finished profile of profframe or"):
        profframe.trace_handler(tmp_path)(value)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_that_has_not_ended_is_refused(profile: Any, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no trace yet|still running, or never ran"):
        profframe.trace_handler(tmp_path)(profile())


def test_a_place_that_cannot_be_a_folder_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("no store")
    for place in ("file", "file/store", "file/a/b"):
        with pytest.raises(StoreError, match=r"cannot be a store, as .*file is no folder; give"):
            profframe.trace_handler(Path(place))
    with pytest.raises(StoreError, match="where only convert writes a store"):
        profframe.trace_handler("s3://bucket/store")
    nowhere: Any
    for nowhere in ("", 3, None):
        with pytest.raises(ParameterError, match="store must be the path of a folder"):
            profframe.trace_handler(nowhere)
    profframe.trace_handler("new/store")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_may_not_be_written_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)  # root may write
    with pytest.raises(StoreError, match=r"this process may not write into .*; give another path"):
        profframe.trace_handler(tmp_path / "a" / "b")


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("/home/me/train.py", "train"),
        ("/home/me/train/__main__.py", "train"),
        ("", "run"),
        ("-c", "run"),
        ("-", "run"),
        ("/usr/bin/ipython", "ipython"),
        ("/home/me/kernel_bench.py", "kernel_bench"),
    ],
)
def test_a_run_is_named_after_its_program(
    program: str, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    monkeypatch.setattr(sys, "argv", [program])
    assert name_of_program() == name
    run_cycles(profframe.profile, profframe.trace_handler(tmp_path))
    assert profframe.load(tmp_path).traces["run"].to_list() == [name, f"{name}.1", f"{name}.2"]


@pytest.mark.parametrize(
    ("session", "of_editor", "name"),
    [
        (None, None, "notebook"),
        ("work/My training.ipynb", None, "My training"),
        ("4f2c-console", None, "notebook"),
        (None, "/home/me/tune.ipynb", "tune"),
        (None, "/home/me/cells.py", "notebook"),
    ],
)
@pytest.mark.parametrize(
    "program",
    ["/lib/ipykernel_launcher.py", "/lib/ipykernel/__main__.py", "/lib/colab_kernel_launcher.py"],
)
def test_in_a_notebook_it_is_the_notebooks_name(
    program: str,
    session: str | None,
    of_editor: str | None,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    monkeypatch.setattr(sys, "argv", [program])
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    if session is not None:
        monkeypatch.setenv("JPY_SESSION_NAME", session)
    monkeypatch.setattr(sys.modules["__main__"], "__vsc_ipynb_file__", of_editor, raising=False)
    assert name_of_program() == name
