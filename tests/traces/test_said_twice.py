"""What the first screen, advice and the report of a real trace say twice is the same each time.

The texts are read as a person reads them: a share, a time, a gain, a number of steps, ranks or
devices that two of them have for one thing must be equal, up to the digits that are shown. And
where much of the time is lost, advice must have a word on it.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import pytest

from profframe import load
from profframe.cli.next_commands import next_commands, typed
from profframe.cli.output import OutputOptions
from profframe.cli.rankings import ranked
from profframe.cli.trace_views import _parts
from profframe.pages.report.page_parts import Facts, FactTile, Finding, FindingsPart
from profframe.query.rules import shipped_rules
from profframe.show import findings, terminal, trace_header
from profframe.trace.sections.overview import overview
from profframe.trace.sections.replies import context_of
from profframe.trace.text_views import header
from profframe.trace.trace import Trace
from tests.conftest import TRACES
from tests.members import few

TABLES: Final = 1000
"""Rows of each table: all of them."""
RANKS: Final = "facebookresearch__param/dlrm_kineto"
KEPT: Final = (
    "facebookresearch__HolisticTraceAnalysis/amd/mi250_minitoy_train_ROCm6_2_kineto.json.gz",
)
"""In every run."""
UNITS: Final[dict[str, float]] = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "min": 6e10, "h": 3.6e12}
TIME: Final = r"([\d.,]+) (ns|us|ms|s|min|h)\b"
PART: Final = re.compile(rf"{TIME} of {TIME}( per step)? \(([\d.]+) %")
NAMED: Final = re.compile(r"([a-z]+(?: [a-z]+)?) ([\d.]+) %")
GAIN: Final = re.compile(r"^(?:gain {9}| {13})(?!profframe )(.+?) {2,}(.+)$", re.MULTILINE)
PLACE: Final = re.compile(r" \((?:[^()]*, )?(ranks? \d[\d, -]*(?:, this is rank \d+)?)\)$")
MEAN: Final = ", the mean of "
"""In a finding of several devices, each of which is idle for longer than all of them at once."""
OF_OTHERS: Final = ("decode step", "Steps that generate")
"""In findings about a part of the time looked at."""
KINDS: Final = {
    "idle": r"Devices (have nothing|are idle|wait for)|devices are idle|no device is busy",
    "exposed communication": r"is exposed|Exposed communication",
    "exposed copies": r"Copies run while",
}
"""Findings about a part of the time that the first lines have, too."""
LEAST: Final = 10
"""Percent of the time of which advice must say something."""
SLOW: Final = 0.2
"""Part of the peak of its type below which a kernel is slow."""
CLAIMS: Final = {rule.name: rule.claims for rule in shipped_rules()}
ABOUT: Final = {
    "idle": {name for name, claims in CLAIMS.items() if claims == "idle"}
    | {"launch_bound", "blocking_calls", "short_kernels", "slow_layers"},
    "exposed communication": {
        *("exposed_communication", "exposed_expert_parallel", "communication_share", "straggler"),
    },
    "exposed copies": {"exposed_copies", "pageable_copies", "extra_device_copy"},
    "slow": {"low_flop_rate", "tensor_cores_unused"},
}
"""Rules that have a word on it."""


def sources() -> list[str]:
    """All real traces, and a folder of ranks."""
    if not (TRACES / "index.csv").is_file():
        return []
    with (TRACES / "index.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["features"] != "not-a-trace-json"]
    return [*(row["path"] for row in rows), RANKS]


def ns(number: str, unit: str) -> float:
    return float(number.replace(",", "")) * UNITS[unit]


def half_digit(number: str, unit: str) -> float:
    """How far a time can be from what was rounded to its last digit, in ns; and a hair."""
    return 0.501 * UNITS[unit] / 10.0 ** len(number.partition(".")[2])


def slow_times(trace: Trace) -> dict[bool, float]:
    """Time in kernels of known work at less than a fifth of the peak of its type, by device.

    With True, only of those that a step launched.
    """
    peaks = {
        (row["run"], row["rank"], row["device"]): row
        for row in trace.sql("FROM devices").iter_rows(named=True)
    }
    devices = trace.sql("SELECT count(DISTINCT device) FROM events WHERE kind = 'kernel'").item()
    times = {True: 0.0, False: 0.0}
    kernels = trace.sql(
        "SELECT run, rank, device, step, dur_ns, flops, work_dtype FROM events "
        "WHERE kind = 'kernel' AND dur_ns > 0 AND flops > 0"
    )
    for run, rank, device, step, dur_ns, flops, dtype in kernels.iter_rows():
        peak = peaks.get((run, rank, device), {}).get(f"{dtype}_flop_per_s")
        if peak is not None and flops < SLOW * peak * dur_ns / 1e9:
            times[False] += dur_ns / devices
            times[True] += dur_ns / devices if step is not None else 0
    return times


@dataclass(frozen=True)
class Said:
    """What was printed of a trace."""

    screen: str
    advice: str
    facts: dict[str, FactTile]
    tiles: tuple[Finding, ...]
    slow: dict[bool, float]

    @classmethod
    def of(cls, path: str) -> Said:
        with load(TRACES / path).session() as trace:
            first = header(trace)
            commands = next_commands(first, [path], {}, (), None)
            output = OutputOptions("table", None, is_asked_for=False, full_names=True)
            lines = [trace_header.text(path, first, commands, None)]
            tables = ranked(trace, first, TABLES, "self_ns", output, has_means=False)
            lines += _parts(first, tables, TABLES, output.width, typed([path], {}, (), None))
            advice = findings.findings(first.advice, TABLES)
            parts = overview(context_of(trace, TABLES, {})).parts
            slow = slow_times(trace)
        return cls(
            "\n\n".join(terminal.text(part, None) for part in lines),
            terminal.text(advice, None),
            {fact.label: fact for part in parts if isinstance(part, Facts) for fact in part.facts},
            tuple(
                tile for part in parts if isinstance(part, FindingsPart) for tile in part.findings
            ),
            slow,
        )

    @cached_property
    def first_lines(self) -> str:
        return self.screen.partition("\n\n")[0]

    @property
    def title(self) -> str:
        return self.screen.partition("\n")[0]

    @property
    def is_single(self) -> bool:
        """Whether there is one rank, so that a number is of it."""
        return ": 1 run, 1 rank" in self.title

    def line(self, label: str) -> str:
        """One of the first lines."""
        line = re.search(rf"^{label}  +(.*)$", self.first_lines, re.MULTILINE)
        return line[1] if line else ""

    @cached_property
    def shares(self) -> dict[str, float]:
        """Percent of the time that devices spent on something."""
        return {name: float(part) for name, part in re.findall(NAMED, self.line("time"))}

    @cached_property
    def time(self) -> tuple[str, str] | None:
        """The time that these shares are of: a step, or the devices'."""
        of = re.search(rf"of {TIME} (?:per step|on the devices)", self.line("time"))
        return (of[1], of[2]) if of else None

    @cached_property
    def has_steps(self) -> bool:
        return " per step" in self.line("time")

    @cached_property
    def steps(self) -> int:
        """The number of steps that the time is the mean of; 1 without steps."""
        mean = re.search(r"the mean of ([\d,]+)", self.line("time"))
        return int(mean[1].replace(",", "")) if mean else 1

    @cached_property
    def gains(self) -> dict[str, str]:
        """Gains of advice by what was found, with its ranks."""
        blocks = [block.splitlines() for block in self.advice.split("\n\n")]
        return {
            block[0][8:]: block[1].strip().partition(":")[0] for block in blocks if len(block) > 1
        }

    @cached_property
    def rules(self) -> set[str]:
        return set(re.findall(r"^ +rule: (\w+);", self.advice, re.MULTILINE))

    def table(self, title: str) -> list[dict[str, str]]:
        """Rows of a table below the first lines, but those with an empty cell."""
        text = re.search(
            rf"^{title}[^\n]*\n(.*?)(?:\n\n|\Z)", self.screen, re.MULTILINE | re.DOTALL
        )
        header, *lines = text[1].splitlines() if text else [""]
        names = re.split(r" {2,}", header.strip())
        cells = [re.split(r" {2,}", line.strip()) for line in lines]
        return [dict(zip(names, row, strict=True)) for row in cells if len(row) == len(names)]


def check_shares(said: Said) -> None:
    """Devices are busy in the report and the table when they are not idle in the first lines."""
    idle, busy = said.shares.get("idle"), said.facts.get("Devices busy")
    if idle is None:
        return
    if busy is None:
        assert "unknown number" in said.line("device")
        return
    assert float(busy.value.removesuffix(" %")) + idle == pytest.approx(100, abs=0.11), busy
    times = said.table("Device time") if said.is_single else []
    steps = [row["idle %"] for row in times if row.get("step", "").isdigit()]
    if not said.has_steps:
        steps = [row["idle %"] for row in times if not row.get("step", "").isdigit()]
    assert len(steps) != 1 or steps == [f"{idle:.1f} %"]


def check_numbers(said: Said) -> None:
    """Steps, ranks, devices and findings are as many everywhere."""
    median, busy = said.facts.get("Median step"), said.facts.get("Devices busy")
    if median is not None and said.has_steps:
        assert median.note == f"of {said.steps:,}"
        assert busy is None or re.fullmatch(f"of {said.steps:,} steps?", busy.note)
    devices = re.findall(r"([\d,]+) x ", said.line("device"))
    if devices and "Devices" in said.facts and "more models" not in said.line("device"):
        number = sum(int(number.replace(",", "")) for number in devices)
        assert number == int(said.facts["Devices"].value.replace(",", ""))
    rows = said.table("Overview")
    ranks = re.search(r": 1 run, ([\d,]+) rank", said.title)
    assert not rows or ranks is None or int(ranks[1]) == len(rows)
    steps = re.search(r" ranks?(?: of [\d,]+)?, ([\d,]+) steps?", said.title)
    assert steps is None or {row["steps"] for row in rows} == {steps[1]}
    told = re.search(r"# (the finding|both findings|all (\d+) findings):", said.first_lines)
    if told:
        number = int(told[2] or {"the finding": 1, "both findings": 2}[told[1]])
        assert number == len(re.findall(r"^ +rule: ", said.advice, re.MULTILINE))


def check_categories(said: Said) -> None:
    """A category has one share, and one row."""
    rows = said.table("Time of the devices by category") if said.is_single else []
    shares = {row["category"]: row["%"] for row in rows}
    assert len(shares) == len(rows), "two rows of one name"
    if rows:
        for name, share in re.findall(r"(\w+) ([\d.]+ %)", said.line("(?:kernels|work)")):
            assert shares[name] == share, name


def check_findings(said: Said) -> None:
    """The first lines and the report have findings, gains and ranks of advice."""
    for gain, words in GAIN.findall(said.first_lines):
        place = PLACE.search(words)
        text = words[: place.start()] if place else words
        same = {of: told for of, told in said.gains.items() if of.startswith(text)}
        assert {f"gain about {gain}", f"gain {gain}"} & {*same.values()}, words
        assert not place or any(of.endswith(place[1]) for of in same), words
    for tile in said.tiles:
        text = re.sub(r" \([^()]*(?:rank|more finding)[^()]*\)$", "", tile.text)
        same = {of: told for of, told in said.gains.items() if of.startswith(text)}
        gain = tile.gain or "not estimated"
        assert {f"gain about {gain}", f"gain {gain}"} & {*same.values()}, tile


def check_parts(said: Said) -> None:
    """A part in a finding is of the time of the first lines, and no more than they have of it."""
    sums = dict.fromkeys(said.shares, 0.0)
    for words, gain in said.gains.items():
        for part in PART.finditer(words):
            check_share(part, words)
            if said.time is None or not said.is_single:
                continue
            check_whole(said, part, words)
            check_gain(gain, ns(*said.time), words)
            for name, is_of_it in KINDS.items():
                if re.search(is_of_it, words) and MEAN not in words:
                    least = ns(part[1], part[2]) - half_digit(part[1], part[2])
                    sums[name] = sums.get(name, 0.0) + 100 * least / ns(*said.time)
    if said.is_single:
        for name, total in sums.items():
            assert total <= said.shares.get(name, 0.0) + 0.06, name


def check_share(part: re.Match[str], words: str) -> None:
    """Its percent are those of its two times."""
    ends = [
        (ns(part[n], part[n + 1]), half_digit(part[n], part[n + 1]), sign)
        for n, sign in ((1, 1), (3, -1))
    ]
    least, most = (
        100 * (ends[0][0] - side * ends[0][1]) / (ends[1][0] + side * ends[1][1])
        for side in (1, -1)
    )
    digit = half_digit(part[6], "ns")
    assert least - digit <= float(part[6]) <= most + digit, words


def check_whole(said: Said, part: re.Match[str], words: str) -> None:
    """What it is a part of is the time of the first lines, unless it says of what else."""
    assert said.time is not None
    whole_ns = ns(*said.time)
    room_ns = half_digit(part[3], part[4]) + half_digit(*said.time)
    if any(other in words for other in OF_OTHERS):
        assert part[5] or ns(part[3], part[4]) <= whole_ns + room_ns, words
    else:
        assert ns(part[3], part[4]) == pytest.approx(whole_ns, abs=room_ns), words
        assert bool(part[5]) == said.has_steps, words


def check_gain(gain: str, time_ns: float, words: str) -> None:
    """No gain is more than the time that it is of."""
    amount = re.search(TIME, gain)
    if amount:
        assert ns(*amount.groups()) <= time_ns + half_digit(*amount.groups()) + 1e3, words


def check_silence(said: Said) -> None:
    """Where a tenth of the time is lost, advice has a word on it."""
    for name, rules in ABOUT.items():
        if said.shares.get(name, 0.0) > LEAST:
            assert said.rules & rules, name
    if said.time is not None and said.is_single:
        slow = 100 * said.slow[said.has_steps] / said.steps / ns(*said.time)
        assert slow <= LEAST or said.rules & ABOUT["slow"], slow


def check_kernels(said: Said) -> None:
    """Shares of one kernel that are of different times are in columns of different names."""
    own = {row["name"]: row for row in said.table("Self time") if row["kind"] == "kernel"}
    for row in said.table("Kernels"):
        for name in {*row} & {*own.get(row["name"], ())} - {"name"}:
            if name.endswith("%"):
                assert row[name] == own[row["name"]][name], row["name"]


CHECKS: Final = (
    check_shares, check_numbers, check_categories, check_findings, check_parts, check_silence,
    check_kernels,
)  # fmt: skip


@pytest.mark.parametrize("path", few(sources(), KEPT if sources() else 0))
def test_it_is_the_same_each_time(path: str) -> None:
    said = Said.of(path)
    for check in CHECKS:
        check(said)
