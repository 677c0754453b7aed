"""Digests of what profframe says of every real trace, to compare two trees of the code.

::

    python scripts/digests.py ROOT OUT.json      # of the profframe in a folder; ten minutes
    python scripts/digests.py --compare A.json B.json

A digest is of the values in their order and of the types, so that what differs is named: trace,
table and column, or answer with its parameters. Nothing of the tree is imported but ``profframe``
itself, and only what it has for users.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

sys.path.append(str(Path(__file__).resolve().parent.parent))

from tests.places import TRACES

if TYPE_CHECKING:
    import polars as pl

    from profframe import Trace

Digests = dict[str, str]

ENDINGS: Final = (".json", ".json.gz", ".json.zst", ".sqlite", ".nvvp", ".db")
_PARAMETER: Final = re.compile(
    r"^-- parameter +(\w+) +(\w+)(?:\(([^)]*)\))? *= *(\S+)", re.MULTILINE
)
_NUMBERS: Final = ("1", "7")
_PART: Final = "; "


def variants(sql: str) -> Iterator[dict[str, Any]]:
    """Parameters of an answer: all defaults, then another value for one at a time."""
    yield {}
    for name, kind, choices, default in _PARAMETER.findall(sql):
        if kind == "BOOLEAN":
            yield {name: default != "true"}
        elif choices:
            yield from ({name: choice} for choice in choices.split("|") if choice != default)
        elif kind == "BIGINT":
            yield from ({name: int(number)} for number in _NUMBERS if number != default)


def digest(value: str | bytes) -> str:
    """A short one."""
    return hashlib.sha256(value if isinstance(value, bytes) else value.encode()).hexdigest()[:16]


def of_frame(frame: pl.DataFrame) -> str:
    """Name, type and values of each column, in the order of the rows."""
    columns = (
        f"{name}:{kind} {digest(frame.select(name).write_json())}"
        for name, kind in frame.schema.items()
    )
    return _PART.join([f"{frame.height} rows", *columns])


def of_trace(root: str, path: Path) -> Digests:
    """All digests of one file."""
    sys.path.insert(0, root)
    import profframe

    if not Path(profframe.__file__).is_relative_to(root):
        raise SystemExit(f"{profframe.__file__} is not in {root}")
    out: Digests = {}

    def note(name: str, work: Callable[[], str]) -> None:
        try:
            out[name] = work()
        except profframe.ProfframeError as error:
            out[name] = f"{type(error).__name__}: {error}"

    name = str(path.relative_to(TRACES))
    try:
        trace = profframe.load(path)
    except profframe.ProfframeError as error:
        return {f"{name} load": f"{type(error).__name__}: {error}"}
    with tempfile.TemporaryDirectory() as folder:
        _tables(trace, note)
        _answers(root, trace, "", note)
        _texts(trace, Path(folder), note)
        store = Path(folder, "store")
        note("store", lambda: _written(trace, store))
        if store.is_dir():
            stored = profframe.load(store)
            _tables(stored, lambda what, work: note(f"store {what}", work))
            _answers(root, stored, "store ", note, few=True)
    return {f"{name} {what}": found.replace(folder, "") for what, found in out.items()}


def _written(trace: Trace, store: Path) -> str:
    trace.to_parquet(store)
    return "written"


def _tables(trace: Trace, note: Callable[[str, Callable[[], str]], None]) -> None:
    for table in trace.tables:
        frame = trace.scan(table).collect()
        for column in frame.columns:
            note(f"{table}.{column}", lambda c=column, f=frame: of_frame(f.select(c)))  # type: ignore[misc]


def _answers(
    root: str,
    trace: Trace,
    prefix: str,
    note: Callable[[str, Callable[[], str]], None],
    *,
    few: bool = False,
) -> None:
    """Every answer, with other parameters too, and of a part of the trace."""
    for file in sorted(
        [*Path(root, "sql").glob("[!_]*.sql"), *Path(root, "sql").glob("answers/*")]
    ):
        options = list(variants(file.read_text(encoding="utf-8")))
        for given in options[: 1 if few else None]:
            note(
                f"{prefix}{file.stem} {given}",
                lambda f=file, g=given: of_frame(trace.answer(f.stem, **g)),  # type: ignore[misc]
            )
    if not few:
        start: int = min(trace.traces["start_ns"].drop_nulls().to_list(), default=0)
        part = trace.filter(start_ns=start + 1_000_000)
        for name in ("flame", "self_times", "key_averages", "time_breakdown", "idle"):
            note(f"part {name}", lambda n=name: of_frame(part.answer(n)))  # type: ignore[misc]


def _texts(trace: Trace, folder: Path, note: Callable[[str, Callable[[], str]], None]) -> None:
    """What is printed and exported, and the critical path of a step."""

    def exported(method: str) -> str:
        file = folder / method
        getattr(trace, method)(file)
        return digest(file.read_bytes())

    def path() -> str:
        numbers = trace.step_times()["step"].drop_nulls()
        found = trace.critical_path(step=numbers[len(numbers) // 2] if len(numbers) else None)
        return f"{found.length_ns} {of_frame(found.bounds)} {of_frame(found.events)}"

    note("table", lambda: digest(str(trace.table())))
    note("table of torch", lambda: digest(str(trace.table(compat="torch"))))
    note("tree", lambda: digest(str(trace.tree())))
    note("summary", lambda: digest(repr(trace)))
    note("critical path", path)
    for method in ("export_chrome_trace", "export_speedscope", "export_stacks"):
        note(method, lambda m=method: exported(m))  # type: ignore[misc]


def compared(before: Digests, after: Digests) -> Iterator[str]:
    """Lines that say what differs, then how many do."""
    differing = [key for key in sorted(before | after) if before.get(key) != after.get(key)]
    for key in differing:
        parts = [one.get(key, "").split(_PART) for one in (before, after)]
        lost, new = (
            [part for part in one if part not in other] for one, other in (parts, parts[::-1])
        )
        yield f"{key}\n    {_PART.join(lost)}\n    {_PART.join(new)}"
    for what, count in Counter(key.split(" ", 1)[1] for key in differing).most_common(20):
        yield f"{count:6} {what}"
    yield f"{len(before)} and {len(after)} digests, {len(differing)} differ"


def main() -> None:
    """Write the digests of a tree, or compare two files of them."""
    parser = argparse.ArgumentParser(description="Digests of the answers of two trees.")
    parser.add_argument("first", help="folder of the tree; with --compare a file of digests")
    parser.add_argument("second", type=Path, help="file of digests")
    parser.add_argument("--compare", action="store_true")
    given = parser.parse_args()
    if given.compare:
        files = (Path(given.first), given.second)
        lines = list(compared(*(json.loads(file.read_text()) for file in files)))
        print(*lines, sep="\n")
        sys.exit(lines[-1].split()[-2] != "0")
    root = str(Path(given.first).resolve())
    paths = sorted(p for p in TRACES.rglob("*") if p.name.endswith(ENDINGS) and p.is_file())
    found: Digests = {}
    with ProcessPoolExecutor() as pool:
        for number, some in enumerate(pool.map(of_trace, repeat(root), paths), 1):
            found |= some
            print(
                f"{number} of {len(paths)} files, {len(found)} digests", end="\r", file=sys.stderr
            )
    given.second.write_text(json.dumps(found, indent=0, sort_keys=True))
    print(f"\n{len(found)} digests")


if __name__ == "__main__":
    main()
