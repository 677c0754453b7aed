"""Files that arrive while a watch is killed again and again: each is in the store once.

::

    python -m tests.fuzz.arrivals --files 200 --kills 10

Files arrive in five folders, as runs of ranks, some in pieces, some under a name that is not yet
final, some compressed; the watch is killed at random moments and started again.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from profframe import load
from profframe.store.maintenance import contents, verify
from tests.batch.sources import write

_ENOUGH_S = 600.0


def start(source: Path, store: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "profframe", "convert", "--watch", str(source / "**" / "*")]
    command += ["-o", str(store), "--workers", "2"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def arrive(source: Path, number: int, rng: random.Random) -> None:
    """One more file: at once, in pieces, or by a rename."""
    ending = rng.choice((".json", ".json.gz"))
    path = source / f"run{number % 5}" / f"rank{number // 5}{ending}"
    with tempfile.TemporaryDirectory() as folder:
        own = write(Path(folder) / path.name, name=f"op{number}", rank=number // 5, events=30)
        content = own.read_bytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = rng.randrange(3)
    if kind == 0:
        path.write_bytes(content)
    elif kind == 1:
        with path.open("wb") as file:
            for at in range(0, len(content), 1 + len(content) // 3):
                file.write(content[at : at + 1 + len(content) // 3])
                file.flush()
                time.sleep(0.02)
    else:
        draft = path.with_name(f"{path.name}.tmp")
        draft.write_bytes(content)
        draft.rename(path)


def attack(folder: Path, files: int, kills: int, seed: int) -> list[str]:
    """What is wrong at the end: a line for each fault."""
    rng = random.Random(seed)  # noqa: S311 - moments, no secret
    source, store = folder / "jobs", folder / "store"
    moments = sorted(rng.sample(range(1, files), kills))
    watch = start(source, store)
    try:
        for number in range(files):
            arrive(source, number, rng)
            time.sleep(rng.random() * 0.2)
            if number in moments:
                time.sleep(rng.random() * 4)
                watch.send_signal(signal.SIGKILL)
                watch.communicate()
                watch = start(source, store)
        end = time.monotonic() + _ENOUGH_S
        while time.monotonic() < end and len(_members(store)) < files:
            time.sleep(0.5)
        time.sleep(3)
        begin = time.monotonic()
        watch.send_signal(signal.SIGTERM)
        _, errors = watch.communicate(timeout=60)
        took_s = time.monotonic() - begin
    finally:
        watch.kill()
    faults = [] if watch.returncode == 0 else [f"exit code {watch.returncode}: {errors}"]
    faults += [f"ended after {took_s:.1f} s"] if took_s > 2 else []
    expected = sorted((f"run{n % 5}", n // 5, f"op{n}") for n in range(files))
    query = (
        "SELECT run, rank, min(name) AS name, count(*) AS n FROM events GROUP BY ALL ORDER BY ALL"
    )
    rows = load(store).sql(query)
    if rows.select("run", "rank", "name").rows() != expected or set(rows["n"]) != {30}:
        faults.append("other rows than those of the files")
    if problems := verify(store)["problem"].to_list():
        faults.append(f"verify: {problems[:3]}")
    faults += [f"left over: {p.name}" for p in store.glob(".tmp-*")]
    faults += [f"left over: {p.name}" for p in store.glob(".staged-*")]
    trend, sql = load(store).trend("events"), "SELECT run, count(*) AS n FROM events GROUP BY run"
    counts = dict(load(store).sql(sql).rows())
    if dict(trend["run", "value"].rows()) != counts:
        faults.append("kept answers differ from events")
    return faults


def _members(store: Path) -> list[str]:
    try:
        return contents(store)["folder"].to_list()
    except Exception:  # noqa: BLE001 - there is no store yet
        return []


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        faults = attack(Path(folder), given.files, given.kills, given.seed)
    sys.stdout.write(("\n".join(faults) or "each file once") + "\n")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
