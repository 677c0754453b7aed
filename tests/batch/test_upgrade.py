"""Upgrades on processes and a cluster, and upgrades that are killed."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import profframe
from profframe.conversion.upgrade import upgrade
from tests import needs, old_stores

SCRIPT: Final = """
import sys
from profframe.conversion.upgrade import upgrade
import profframe.conversion.member_upgrade  # what would be imported late
print("ready", flush=True)
upgrade(sys.argv[1], progress=lambda done, total: print(done, flush=True))
"""


def test_on_processes(tmp_path: Path) -> None:
    alone = old_stores.unpack(13, tmp_path / "alone")
    path = old_stores.unpack(13, tmp_path / "processes")
    upgrade(alone)

    rows = upgrade(path, workers=2)
    assert (
        rows["status"].to_list() == upgrade(alone)["status"].replace("current", "derived").to_list()
    )
    first, second = old_stores.content(alone), old_stores.content(path)
    assert all(old_stores.differences(first[key], second[key]) == [] for key in first)


@pytest.mark.long
def test_on_a_cluster(tmp_path: Path) -> None:
    distributed = needs.module("distributed")
    path = old_stores.unpack(14, tmp_path)
    with distributed.Client(n_workers=2, processes=False, dashboard_address=None) as client:
        rows = upgrade(path, client.get_executor())

    assert rows.filter(status="failed").height == 0
    assert profframe.load(path).events.height == 4570


@pytest.mark.parametrize("kills", [1, pytest.param(30, marks=pytest.mark.long)])
def test_kills_lose_nothing_and_leave_nothing(kills: int, tmp_path: Path) -> None:
    undisturbed = old_stores.unpack(14, tmp_path / "undisturbed")
    upgrade(undisturbed)
    expected = old_stores.content(undisturbed)
    chance = random.Random(5)  # noqa: S311
    unfinished = 0
    for number in range(kills):
        path = old_stores.unpack(14, tmp_path / f"killed{number}")
        command = [sys.executable, "-c", SCRIPT, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            for _ in range(chance.randrange(6)):
                process.stdout.readline()
            try:
                process.wait(chance.random() * 0.2)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
        assert profframe.load(path).events.height == 4570
        rows = upgrade(path)
        unfinished += "derived" in rows["status"]

        assert rows.filter(status="failed").height == 0
        found = old_stores.content(path)
        assert found.keys() == expected.keys()
        assert all(old_stores.differences(found[key], expected[key]) == [] for key in expected)
        assert not [*path.glob(".staged-*"), *path.glob(".tmp-*")]
    assert unfinished >= kills // 3
