"""How often the cause of a planted edit is named first, and how often one where nothing changed::

python -m tests.planted.run --edits 200 --seed 0
python -m tests.planted.run --unedited 100
python -m tests.planted.run --edits 20 --kind "host code" --step-noise 0.02
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final, TextIO

from tests.places import TRACES
from tests.planted.drawing import KINDS, SOURCES, Planted, plant, recorded, with_busy
from tests.planted.recorded import Model
from tests.planted.steps import simulate

NO_CAUSE: Final = ("noise", "unexplained")
SHOWN: Final = 4
Row = dict[str, Any]
Noises = tuple[float, float]
NOISE: Final = (0.02, 0.0)
"""Of each duration, and of all durations of a step together."""


def explain(
    base: Sequence[Model], other: Sequence[Model], seed: str, folder: Path, noise: Noises = NOISE
) -> list[Row]:
    """The causes that profframe names between ten noisy steps of each, largest first."""
    import profframe

    sides = []
    for name, models in (("base", base), ("other", other)):
        simulate(models, folder / name, f"{seed} {name}", noise=noise[0], of_steps=noise[1])
        sides.append(profframe.load(folder / name))
    package: Any = profframe
    rows = package.explain(*sides).causes.to_dicts()
    return sorted(rows, key=lambda row: -abs(row["change_ns"] or 0))


def by_cause(rows: Iterable[Row]) -> list[tuple[str, int]]:
    """The change by cause, largest first, without what is noise."""
    sums: Counter[str] = Counter()
    for row in rows:
        if row["cause"] != "noise":
            sums[row["cause"]] += row["change_ns"] or 0
    return sorted(sums.items(), key=lambda item: -abs(item[1]))


@dataclass(frozen=True, eq=False)
class Outcome:
    """An edit, and what was said of it."""

    planted: Planted
    seed: str
    rows: list[Row]
    seconds: float

    @property
    def causes(self) -> list[tuple[str, int]]:
        return by_cause(self.rows)

    @property
    def is_right(self) -> bool:
        return bool(self.causes) and self.causes[0][0] == self.planted.cause

    @property
    def is_first_row(self) -> bool:
        first = next((r for r in self.rows if r["cause"] != "noise"), None)
        return first is not None and first["cause"] == self.planted.cause

    @property
    def said(self) -> float:
        """The change by the right cause, as a part of the true one."""
        return dict(self.causes).get(self.planted.cause, 0) / self.planted.change_ns

    def lines(self) -> Iterator[str]:
        """The truth, and what was said."""
        planted = self.planted
        yield (
            f"{planted.kind} (seed {self.seed!r}, {planted.source}): {planted.cause},"
            f" op {planted.op}, kernel {planted.kernel}, {planted.change_ns / 1e6:+.3f} ms"
            f" of {planted.step_ns / 1e6:.3f} ms"
        )
        yield "   by cause: " + ", ".join(f"{c} {ns / 1e6:+.3f}" for c, ns in self.causes[:SHOWN])
        for row in self.rows[:SHOWN]:
            sides = ("base_op", "other_op", "base_kernel", "other_kernel")
            what = [str(row[key])[:40] for key in sides]
            change = f"{(row['change_ns'] or 0) / 1e6:+9.3f} ms"
            yield f"   {row['cause']:20} {change}  {' | '.join(what)}"


def outcomes(
    traces: Path, count: int, seed: int, kinds: Sequence[str] = tuple(KINDS), noise: Noises = NOISE
) -> Iterator[Outcome]:
    """So many edits, of each kind in turn."""
    for number, kind in zip(range(count), itertools.cycle(kinds), strict=False):
        of = f"{seed}/{number // len(kinds)}"
        planted = plant(traces, kind, of)
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            rows = explain(planted.base, planted.other, of, Path(folder), noise)
        yield Outcome(planted, of, rows, time.monotonic() - begun)


def unedited(
    traces: Path, count: int, seed: int, noise: Noises = NOISE
) -> Iterator[tuple[str, list[Row]]]:
    """Of so many pairs of the same step with noise, the source and the causes."""
    for number in range(count):
        draw = random.Random(f"unedited {seed}/{number}")  # noqa: S311 - no secret
        source = SOURCES[number % len(SOURCES)]
        model = with_busy(recorded(traces / source), draw.choice((0.0, 0.5, 1.3)))
        with tempfile.TemporaryDirectory() as folder:
            yield source, explain([model], [model], f"{seed}/{number}", Path(folder), noise)


def named(rows: Iterable[Row]) -> list[Row]:
    """The rows that name a cause."""
    return [row for row in rows if row["cause"] not in NO_CAUSE]


def show(results: Iterable[Outcome], out: TextIO) -> None:
    """Print what was named wrongly as it comes, and then how often each kind was right."""
    shown = []
    for result in results:
        shown.append(result)
        if not result.is_right:
            print(*result.lines(), sep="\n", file=out, flush=True)
    print(f"\n{'kind':18} {'right':>9} {'by row':>7}  part of the true change", file=out)
    for kind in (*KINDS, None):
        of = [r for r in shown if kind in (None, r.planted.kind)]
        if of:
            right, first = sum(r.is_right for r in of), sum(r.is_first_row for r in of)
            counts = f"{right:4}/{len(of):4} {first:7}"
            print(f"{kind or 'all':18} {counts}  {median(r.said for r in of):.2f}", file=out)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--edits", type=int, default=0)
    parser.add_argument("--unedited", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--noise", type=float, default=0.02, help="of each duration")
    parser.add_argument("--step-noise", type=float, default=0.0, help="of all of a step")
    parser.add_argument("--traces", type=Path, default=TRACES)
    given, out = parser.parse_args(), sys.stdout
    noise = given.noise, given.step_noise
    if given.edits:
        kinds = given.kind or tuple(KINDS)
        show(outcomes(given.traces, given.edits, given.seed, kinds, noise), out)
    wrong = 0
    for source, rows in unedited(given.traces, given.unedited, given.seed, noise):
        wrong += bool(named(rows))
        for row in named(rows)[:SHOWN]:
            change = f"{row['change_ns'] / 1e6:+.3f} ms"
            print(f"unedited {source}: {row['cause']} {change} {row['base_op']}", file=out)
    if given.unedited:
        print(f"unedited: a cause is named in {wrong} of {given.unedited}", file=out)


if __name__ == "__main__":
    main()
