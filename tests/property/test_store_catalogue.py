"""The catalogue of a store against a walk of its folders, and both against a plain model.

Writers, removals and compactions come in any order, are killed before any change to a file, and the
store is copied without the times of its files. A reader with the catalogue sees what the walk sees;
both see the state before a killed change or the one after it.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from profframe import store
from profframe.store import layout, maintenance
from profframe.store.catalogue import listing, upkeep
from profframe.store.maintenance import changing
from tests.unit.test_store import one

Key = tuple[str, int]
Model = dict[Key, str]
"""Name of the only event by run and rank."""
RUNS = ("a", "b/c", "x" * 300)
keys = st.tuples(st.sampled_from(RUNS), st.integers(0, 2))


class Killed(BaseException):
    """A writer is killed; nothing of its own code runs after that but what always does."""


@contextmanager
def killed_at(moment: int) -> Iterator[None]:
    """Raise before the n-th change to a file, and before all later ones."""
    calls = iter(range(10**9))
    names = [
        (Path, "rename"), (Path, "replace"), (Path, "unlink"), (Path, "mkdir"), (Path, "rmdir"),
        (Path, "write_bytes"), (Path, "touch"), (shutil, "rmtree"),
    ]  # fmt: skip

    def failing(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if next(calls) >= moment:
                raise Killed
            return original(*arguments, **named)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for of, name in names:
            patch.setattr(of, name, failing(getattr(of, name)))
        yield


def seen(places: Any) -> dict[Key, tuple[str, frozenset[str]]]:
    """Folder and optional tables of each member that a listing shows."""
    return {
        (layout.component(run) if place.name is None else run, rank): (
            f"{place.folder}: {place.identity}",
            place.optional,
        )
        for place in places
        for run, rank in (place.visible if place.name is None else [place.name])
    }


def by_catalogue(root: Path) -> Any:
    state = listing.of_catalogue(root)
    return None if state is None else state.places


def content(root: Path, monkeypatch: pytest.MonkeyPatch) -> Model:
    """What a reader who believes the catalogue gets of the files."""
    if not store.is_store(root):
        return {}
    with monkeypatch.context() as patch:
        patch.setattr(listing, "FEW", 0)
        rows = pa.concat_tables(store.scan(root).parts("events")).to_pylist()
    return {(row["run"], row["rank"]): row["name"] for row in rows}


def check(root: Path, states: list[Model], monkeypatch: pytest.MonkeyPatch) -> Model:
    """Compare the catalogue with the walk, and its content with what it may be."""
    places = by_catalogue(root)
    walked = layout.places(root)
    if places is not None:
        assert seen(places) == seen(walked)
        assert [p.folder for p in places] == [p.folder for p in walked if p.name or p.visible]
        for part in (places.only([run], range(1, 9)) for run in RUNS):
            assert seen(part).keys() <= seen(places).keys()
        for run in RUNS:
            of_run = listing.of_catalogue(root, [run])
            assert of_run is not None
            name = layout.component(run)
            expected = {key: now for key, now in seen(walked).items() if key[0] == name}
            assert {k: v for k, v in seen(of_run.places).items() if k[0] == name} == expected
    now = content(root, monkeypatch)
    assert now in states
    return now


Change = tuple[str, Any, int]
changes = st.lists(
    st.one_of(
        st.tuples(st.just("write"), keys, st.integers(0, 200)),
        st.tuples(st.just("write"), keys, st.just(10**9)),
        st.tuples(st.just("remove"), keys, st.sampled_from([*range(12), 10**9, 10**9])),
        st.tuples(st.just("remove run"), st.sampled_from(RUNS), st.just(10**9)),
        st.tuples(st.just("compact"), st.none(), st.sampled_from([*range(60), 10**9, 10**9])),
        st.tuples(st.just("mend"), st.none(), st.just(10**9)),
        st.tuples(st.just("copy"), st.booleans(), st.just(10**9)),
    ),
    max_size=12,
)


def after(model: Model, change: Change, number: int) -> Model:
    kind, what, _ = change
    if kind == "write":
        return model | {what: f"event {number}"}
    if kind == "remove":
        return {key: name for key, name in model.items() if key != what}
    if kind == "remove run":
        return {key: name for key, name in model.items() if key[0] != what}
    return model


def apply(root: Path, change: Change, number: int) -> None:
    kind, what, moment = change
    with killed_at(moment):
        if kind == "write":
            store.write(one(what[0], what[1], (f"event {number}",)), root)
        elif kind == "remove":
            maintenance.remove(root, what[0], what[1])
        elif kind == "remove run":
            maintenance.remove(root, what)
        elif kind == "compact":
            maintenance.compact(root)
        elif kind == "mend":
            upkeep.mend(root)
    if kind == "copy":
        copy = root.with_name("copy")
        times = "-r" if what else "-a"  # times are lost, or kept
        subprocess.run(["/bin/cp", times, root, copy], check=True)
        shutil.rmtree(root)
        copy.rename(root)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(changes=changes, own_pack=st.booleans())
def test_the_catalogue_shows_what_the_folders_are(
    changes: list[Change], own_pack: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory() as folder, monkeypatch.context() as patch:
        patch.setattr(changing, "_OWN_PACK_BYTES", 0 if own_pack else 10**9)
        root = Path(folder) / "store"
        store.write(one("a", 0, ("event",)), root)
        model: Model = {("a", 0): "event"}
        for number, change in enumerate(changes):
            to_be = after(model, change, number)
            if (change[0].startswith("remove") and to_be == model) or not to_be:
                continue
            try:
                apply(root, change, number)
            except Killed:
                model = check(root, [model, to_be], monkeypatch)
            else:
                model = check(root, [to_be], monkeypatch)
        maintenance.compact(root)
        state = listing.of_catalogue(root)
        assert state is not None
        assert not state.unknown
        assert content(root, monkeypatch) == model
