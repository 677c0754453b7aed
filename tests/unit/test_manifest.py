"""What a manifest may say."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from profframe import store
from profframe.errors import StoreError
from profframe.store import maintenance, manifest
from tests.unit.test_store import one

DIGEST = "0" * 64
MEMBER = {"run": "a", "rank": 0, "events": 2}


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    folder = tmp_path / "pack-000002-0a1b2c3d"
    folder.mkdir()
    return folder


def test_what_the_store_writes_is_read(tmp_path: Path) -> None:
    for rank in range(2):
        store.write(one("a/b", rank), tmp_path)
    maintenance.compact(tmp_path)
    (folder,) = tmp_path.glob("pack-*")

    found = manifest.read(folder)

    assert found.members == {("a/b", 0): 1, ("a/b", 1): 1}
    assert found.replaces.keys() == {"run=a%2Fb/rank=0", "run=a%2Fb/rank=1"}
    assert found.files["events.parquet"].size == (folder / "events.parquet").stat().st_size


def test_what_it_does_not_know_is_passed_by(pack: Path) -> None:
    (pack / manifest.NAME).write_text(json.dumps({"of": "later", "members": [MEMBER | {"x": 1}]}))

    assert manifest.read(pack).members == {("a", 0): 2}


@pytest.mark.parametrize(
    "noted",
    [
        [],
        None,
        {"members": None},
        {"members": {}},
        {"members": ["a"]},
        {"members": [{"run": "a", "rank": 0}]},
        {"members": [MEMBER, MEMBER]},
        {"members": [MEMBER | {"run": None}]},
        {"members": [MEMBER | {"run": "\ud800"}]},
        {"members": [MEMBER | {"rank": "0) OR EXISTS (FROM read_text('/etc/hostname')) --"}]},
        {"members": [MEMBER | {"rank": True}]},
        {"members": [MEMBER | {"rank": -1}]},
        {"members": [MEMBER | {"rank": 2**31}]},
        {"members": [MEMBER | {"rank": 0.0}]},
        {"members": [MEMBER | {"events": "2"}]},
        {"members": [MEMBER | {"events": -1}]},
        {"files": []},
        {"files": {"events.parquet": None}},
        {"files": {"events.parquet": {"bytes": True, "sha256": DIGEST}}},
        {"files": {"events.parquet": {"bytes": 1, "sha256": "x"}}},
        {"files": {"../events.parquet": {"bytes": 1, "sha256": DIGEST}}},
        {"files": {"/etc/hostname": {"bytes": 1, "sha256": DIGEST}}},
        {"replaces": ["run=a/rank=0"]},
        {"replaces": {"../victim": ""}},
        {"replaces": {"/victim": ""}},
        {"replaces": {"run=a/../../victim": "1-1"}},
        {"replaces": {"run=../rank=0/x": "1-1"}},
        {"replaces": {"run=a": "1-1"}},
        {"replaces": {"": ""}},
        {"replaces": {"run=a/rank=00": "1-1"}},
        {"replaces": {"run=a/rank=0\n": "1-1"}},
        {"replaces": {"run=a/rank=0": ""}},
        {"replaces": {"run=a/rank=0": 11}},
        {"replaces": {"run=a/rank=0": "then"}},
        {"replaces": {"pack-000001-ff": "1-1"}},
        {"replaces": {"pack-000002-0a1b2c3d": ""}},
        {"replaces": {"pack-000003-ff": ""}},
        {"replaces": {"pack-" + "9" * 5000: ""}},
    ],
    ids=repr,
)
def test_what_it_may_not_say_is_an_error_that_names_it(noted: object, pack: Path) -> None:
    (pack / manifest.NAME).write_text(json.dumps(noted))

    with pytest.raises(StoreError, match=rf"{pack.name}/manifest\.json: not a profframe manifest"):
        manifest.read(pack)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff",
        b"\xff\xfe{",
        b'{"files": NaN}',
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"a": ' + b"1" * 5000 + b"}",
    ],
    ids=lambda data: repr(data[:12]),
)
def test_what_is_no_json_is_an_error_that_names_it(data: bytes, pack: Path) -> None:
    (pack / manifest.NAME).write_bytes(data)

    with pytest.raises(StoreError, match=r"manifest\.json: cannot be read") as error:
        manifest.read(pack)
    assert "\n" not in str(error.value)


def test_a_pipe_is_not_waited_for(pack: Path) -> None:
    os.mkfifo(pack / manifest.NAME)

    with pytest.raises(StoreError, match=r"manifest\.json: not a file"):
        manifest.read(pack)
