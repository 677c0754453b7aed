"""Hostile manifests and links: nothing outside a store is touched, and nothing fails but in a line.

A store with a pack and two folders stands beside victims; a manifest of it, or a link in it, is
changed; then every verb is run, and what is beside the store is compared byte by byte.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import profframe
from profframe import store
from profframe.errors import ProfframeError
from profframe.store import maintenance
from tests.fuzz.verbs import check_verb
from tests.unit.test_store import one

MANIFEST = "manifest.json"
STRANGE: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    1.5,
    float("nan"),
    "",
    "0",
    "0) OR EXISTS (FROM read_text('/etc/hostname')) OR (rank = 0",
    "a' OR 'a' = 'a",
    "a\0b",
    "\ud800",
    "../victim",
    "x" * 10_000,
    [],
    [[]],
    {},
    {"run": "a"},
    [{"run": "a", "rank": 0, "events": 2}] * 2,
)
NO_MANIFESTS = (
    "[" * 200_000,
    '{"a":' * 200_000,
    "",
    "\xff",
    "{",
    "[]",
    "NaN",
    '{"files": NaN}',
    '{"files": ' + "1" * 5000 + "}",
)
NAMES = (
    "../victim",
    "../victim/run=v/rank=0",
    "../../victim",
    "{beside}",
    "{beside}/run=v/rank=0",
    ".",
    "",
    "..",
    "run=a",
    "run=a/rank=0",
    "run=a/../../victim",
    "run=a/rank=0/../../../victim",
    "run=link/rank=0",
    "pack-link",
    "pack-000001-00000000",
    "pack-999999-00000000",
    "run=b/rank=0/events.parquet",
    ".tmp-link",
    "run=a/rank=0\n",
)
LINKS = (
    "run=link",
    "run=a/rank=1",
    "run=b/.old-rank=0",
    "run=new",
    "run=new/rank=0",
    "pack-link",
    "pack-000009-00000000",
    ".tmp-link",
    ".old-link",
    ".staged-link",
    ".lock",
    "run=b/rank=0/manifest.json",
)
VERBS: tuple[tuple[str, ...], ...] = (
    ("store", "ls", "STORE"),
    ("store", "verify", "STORE"),
    ("store", "compact", "STORE"),
    ("store", "rm", "STORE", "a"),
    ("store", "rm", "STORE", "--rank", "0"),
    ("STORE",),
    ("answer", "self_times", "STORE"),
    ("sql", "STORE", "SELECT run, rank, count(*) FROM events GROUP BY ALL"),
)


def case(seed: int) -> None:
    """Change one thing, run the verbs in some order."""
    rng = random.Random(seed)  # noqa: S311 - cases, no secret
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "store")
        shutil.copytree(_made(), folder, dirs_exist_ok=True)
        if rng.random() < 0.3:
            _link(rng, root)
        if rng.random() < 0.9:
            _spoil(rng, root)
        beside = _content(root)
        for verb in rng.sample(VERBS, 4):
            check_verb(*(str(root) if word == "STORE" else word for word in verb))
        for work in rng.sample(_WORKS, 2):
            with contextlib.suppress(ProfframeError):
                work(root)
        assert _content(root) == beside, "something outside the store was touched"


def _content(root: Path) -> dict[str, bytes]:
    """Everything beside a store."""
    return {
        str(file): file.read_bytes()
        for file in root.parent.rglob("*")
        if file.is_file() and root not in file.parents
    }


@cache
def _made() -> Path:
    """A store with a pack and folders, and victims that are stores, too."""
    folder = Path(tempfile.mkdtemp(prefix="profframe-fuzz-"))
    for run in "ab":
        for rank in range(2):
            store.write(one(run, rank), folder / "store")
    maintenance.compact(folder / "store")
    store.write(one("b", 0, ("new",)), folder / "store")
    store.write(one("a", 0, ("new",)), folder / "store")
    store.write(one("v", 0), folder / "victim")
    shutil.copytree(folder / "victim/run=v/rank=0", folder / "victim/rank=0")
    (folder / "victim/file").write_text("of somebody else")
    return folder


def _link(rng: random.Random, root: Path) -> None:
    """Put a link to a victim where a store has something."""
    link = root / rng.choice(LINKS)
    target = root.parent / rng.choice(("victim", "victim/run=v", "victim/run=v/rank=0"))
    if link.name in {".lock", MANIFEST}:
        target = root.parent / rng.choice(("victim/file", "victim/run=v/rank=0/manifest.json"))
    if link.is_dir():
        shutil.rmtree(link)
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def _spoil(rng: random.Random, root: Path) -> None:
    """Change a manifest."""
    file = rng.choice(sorted(root.glob("pack-*/") if rng.random() < 0.8 else root.glob("run=*/*/")))
    file /= MANIFEST
    if not file.is_file() or file.is_symlink():
        return
    noted = json.loads(file.read_bytes())
    kind = rng.randrange(6)
    if kind == 0:
        data = bytearray(file.read_bytes())
        for _ in range(rng.choice((1, 5))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        file.write_bytes(data)
        return
    if kind == 1:
        file.write_bytes(rng.choice(NO_MANIFESTS).encode("latin-1"))
        return
    if kind == 2:
        then = rng.choice(("", "1-1", "0", 7, None))
        names = rng.sample(NAMES, rng.randrange(1, 3))
        noted["replaces"] = {name.format(beside=root.parent / "victim"): then for name in names}
    elif kind == 3:
        noted[rng.choice(("members", "replaces", "files", "schema_version"))] = rng.choice(STRANGE)
    elif kind == 4 and noted.get("members"):
        member = rng.choice(noted["members"])
        member[rng.choice(("run", "rank", "events"))] = rng.choice(STRANGE)
    else:
        name = rng.choice((*noted["files"], "../../victim/file", "/etc/hostname", "no.parquet"))
        known = noted["files"].setdefault(name, {"bytes": 1, "sha256": "0" * 64})
        known[rng.choice(("bytes", "sha256"))] = rng.choice(STRANGE)
    file.write_text(json.dumps(noted))


def _load(root: Path) -> None:
    trace = profframe.load(root)
    assert trace.events.height == trace.tables["events"].num_rows
    assert trace.sql("SELECT count(*) AS n FROM events").item() == trace.events.height


def _verify(root: Path) -> None:
    assert {"file", "problem"} == set(maintenance.verify(root).columns)


_WORKS: tuple[Callable[[Path], object], ...] = (
    _load,
    _verify,
    maintenance.contents,
    maintenance.compact,
    lambda root: maintenance.remove(root, "b"),
    lambda root: store.write(one("new", 0), root),
    lambda root: store.write(one("a", 1), root),
    lambda root: profframe.load(root).answer("self_times"),
)
