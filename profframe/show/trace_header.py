"""The first lines about a trace: what it is, where the time goes, and what would gain most."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import polars as pl
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from profframe.facts.step_times import is_ahead
from profframe.readers.formats import FORMATS
from profframe.schema import DEVICE_KINDS
from profframe.show import quality_text, units
from profframe.show.columns import KEYS
from profframe.show.device_time import (
    LEAST_SHARE,
    LONGEST_NAME,
    MOST_PARTS,
    listed,
    shares,
)
from profframe.show.each_run import most_of_each, steps_of_each, time_of_each, work_of_each
from profframe.show.findings import NOT_ESTIMATED, STYLES, gain_of, ranks_of
from profframe.show.memory_text import memory_texts
from profframe.show.summary import Summary
from profframe.show.terminal import INDENT

TOP: Final = 3
"""Findings among the first lines."""
_TOP_OF_HOST: Final = 5
"""Names with the most self time of the host that count as much."""
MOST_LINES: Final = 11
"""Maximum first lines; if there are more, inference phases are only in the table below."""
PHASES: Final = "phases"
_FLAGS: Final = MappingProxyType(
    {
        "record_shapes": "shapes",
        "profile_memory": "memory",
        "with_stack": "stacks",
        "with_flops": "FLOPs",
        "with_modules": "modules",
    }
)
_MOST_WHAT: Final = 2
"""Maximum lines about what a file is that no profiler wrote."""
_LEAST_SAMPLED: Final = 0.95
"""Part of a trace that samples of power cover at least, where nothing is said of the rest."""
_LEAST_FINDING: Final = 30
"""Minimum width of a finding before what follows it is dropped."""
_FOLDER: Final = re.compile(
    r"(?<![\w./\\~-])(?:~|[A-Za-z]:)?[/\\]?(?:[\w.@+~-]+[/\\]){2,}(?=[\w.@+-])"
)
"""Matches leading folders of a path, which are dropped."""
_RUN_AND_PHASES: Final = (pl.col("name").is_null(), pl.col("name").is_not_null())
"""Rows of `mfu` by run, and by phase."""


@dataclass(frozen=True, slots=True, repr=False)
class TraceHeader(Summary):
    """What a trace holds, where its time goes, and what would gain most.

    It shows itself as text and in a notebook. Its fields are frames, most of them the rows of the
    answer of this name; `Summary` has the others.

    Examples
    --------
    >>> import profframe
    >>> summary = profframe.load("examples/gpu_training.json.gz").summary()
    >>> summary.used_devices["model"].to_list()
    ['NVIDIA H100 80GB HBM3']
    >>> "idle 37.9 % (mostly waiting for the host)" in str(summary)
    True
    """

    idle: pl.DataFrame = field(default_factory=pl.DataFrame)
    phases: pl.DataFrame = field(default_factory=pl.DataFrame)
    mfu: pl.DataFrame = field(default_factory=pl.DataFrame)
    energy: pl.DataFrame = field(default_factory=pl.DataFrame)
    memory_peak: pl.DataFrame = field(default_factory=pl.DataFrame)
    advice: pl.DataFrame = field(default_factory=pl.DataFrame)
    self_times: pl.DataFrame = field(default_factory=pl.DataFrame)
    frameworks: pl.DataFrame = field(
        default_factory=lambda: pl.DataFrame(schema={"framework": pl.String})
    )

    synchronising: pl.DataFrame = field(
        default_factory=lambda: pl.DataFrame(schema={"name": pl.String})
    )
    """Names of calls that return when a device is done."""

    @property
    def host_waits(self) -> bool:
        """Whether such a call is among what takes the most self time of the host."""
        rows = self.self_times
        if not rows.height or not self.synchronising.height:
            return False
        host = rows.filter(~pl.col("kind").is_in(DEVICE_KINDS))
        sums = host.group_by("name", maintain_order=True).agg(pl.col("self_ns").sum())
        top = sums.sort("self_ns", descending=True, nulls_last=True).head(_TOP_OF_HOST)
        return top["name"].is_in(self.synchronising["name"].to_list()).any()

    @property
    def next_call(self) -> str:
        """What to ask next, with a comment; empty if nothing stands out."""
        number = self.advice.height
        return f"trace.advice()  # {all_findings(number)}" if number else ""

    def opening_lines(self) -> Iterator[tuple[str, str]]:
        """The first lines, and the findings with the largest gain."""
        if self.words.is_all:
            yield from Summary.opening_lines(self)
            return
        yield from ((label, texts[0]) for label, texts in first_lines(self) if texts)
        for words in self.words.parts:
            yield from words.lines
        gains = [*findings(self)]
        longest = max((len(gain) for _, gain, _, _ in gains), default=0)
        for place, (_, gain, finding, where) in enumerate(gains):
            yield "" if place else "gain", f"{gain:<{longest}}  {finding}{where}"

    @property
    def has_several_ranks(self) -> bool:
        """Whether a run has two ranks or more."""
        overview = self.overview
        return overview.height > overview["run"].n_unique()

    @property
    def findings(self) -> pl.DataFrame:
        """Findings, the largest gains first; those without a gain come last."""
        gain = pl.col("estimated_gain_ns")
        rank = pl.when(gain > 0).then(0).when(gain.is_null()).then(1).otherwise(2)
        return self.advice.sort(
            rank, gain, descending=[False, True], nulls_last=True, maintain_order=True
        )


def title(opening: TraceHeader) -> str:
    """Runs, ranks, steps and time.

    For files that no profiler wrote, it is that of `Summary.title`.
    """
    overview = opening.overview
    if opening.words.is_all:
        return opening.title
    runs, ranks = overview["run"].n_unique(), overview.height
    world = opening.traces["world_size"].max()
    of = f" of {world:,}" if runs == 1 and isinstance(world, int) and world > ranks else ""
    noun = "rank" if runs <= 1 else "trace"
    parts = [units.plural(runs, "run"), units.plural(ranks, noun) + of, _steps(overview)]
    span = overview["span_ns"].max()
    if isinstance(span, int) and overview["events"].sum():
        longest = "at most " if ranks > 1 else ""
        parts.append(f"{longest}{units.duration(span)}{_of_events(opening, span)}")
    else:
        parts[-1] = "no events with a time" if overview["events"].sum() else "no events"
    return ", ".join(parts)


def first_lines(opening: TraceHeader) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Labels, and texts for what it is and where the time goes, the longest first."""
    if opening.words.is_all:
        yield "recorded", _recorded(opening)
        what = [line for words in opening.words.parts for line in words.what]
        for place, line in enumerate(what[:_MOST_WHAT]):
            yield "" if place else "contents", (line,)
        if len(what) > _MOST_WHAT:
            yield "", (f"and {len(what) - _MOST_WHAT} more such lines below",)
        return
    yield "device", (opening.devices,)
    yield "recorded", _recorded(opening)
    if opening.time_parts is None:
        yield "time", steps_of_each(opening.steps)
        yield "host", _host(opening.self_times)
        yield "memory", memory_texts(opening.memory_peak)
        return
    yield "time", time_of_each(opening.breakdown, opening.overview, opening.idle)
    yield "pace", _pace(opening.steps)
    yield opening.work, work_of_each(opening.categories, opening.overview["run"].n_unique())
    yield PHASES, _phases(opening.phases)
    yield "mfu", _mfu(opening.mfu)
    yield "memory", memory_texts(opening.memory_peak)
    yield "energy", _energy(opening)


def all_findings(number: int) -> str:
    """What a list of that many findings is for.

    Examples
    --------
    >>> all_findings(2)
    'both findings: where, why, and what to do'
    """
    what = {1: "the finding", 2: "both findings"}.get(number, f"all {number} findings")
    return f"{what}: where, why, and what to do"


def findings(opening: TraceHeader) -> Iterator[tuple[str, str, str, str]]:
    """Severity, gain, text and ranks of the findings with the largest gain."""
    if opening.words.is_all:
        return
    keys = opening.overview.select(KEYS)
    has_runs, has_several = keys["run"].n_unique() > 1, keys.height > 1
    for row in opening.findings.head(TOP).iter_rows(named=True):
        place = []
        if has_runs:
            place.append(units.middle(units.visible(str(row["run"])), LONGEST_NAME))
        if has_several:
            place.append(ranks_of(row))
        yield (
            str(row["severity"]),
            gain_of(row) or NOT_ESTIMATED,
            units.visible(str(row["finding"])),
            f" ({', '.join(place)})" if place else "",
        )


def text(
    name: str,
    opening: TraceHeader,
    commands: Iterable[tuple[str, str]],
    width: int | None,
) -> RenderableType:
    """The first lines.

    Parameters
    ----------
    name
        What was loaded, as the user gave it.
    opening
        What the lines say.
    commands
        What to type next, from `profframe.cli.next_commands`: lines, and a comment on each.
    width
        Columns of a line; None for any.
    """
    gains = [*findings(opening)]
    room = None if width is None else max(width - INDENT, _LEAST_FINDING)
    heading = title(opening)
    path = units.visible(name)
    if width is not None:
        path = units.middle(path, max(width - cell_len(heading) - 2, _LEAST_FINDING))
    rows = [_line(Text(f"{path}: {heading}", style="bold"))]
    typed = [*commands]
    shown = ((label, texts) for label, texts in first_lines(opening) if any(texts))
    labelled = [(label, _fitting(texts, room)) for label, texts in shown]
    number = 1 + len(labelled) + len(gains) + sum(1 + c.count("\n") for c, _ in typed)
    if number > MOST_LINES:
        labelled = [(label, line) for label, line in labelled if label != PHASES]
    rows += [_line(_label(label).append(line, style="not dim")) for label, line in labelled]
    longest = max((len(gain) for _, gain, _, _ in gains), default=0)
    for place, (severity, gain, finding, where) in enumerate(gains):
        left = None if room is None else room - longest - 2
        row = _label("" if place else "gain")
        row.append(f"{gain:<{longest}}  ", style=f"not dim {STYLES.get(severity, '')}")
        rows.append(_line(row.append(_cut(finding, where, left), style="not dim")))
    return Group(*rows, *next_lines(typed, width))


def next_lines(commands: Iterable[tuple[str, str]], width: int | None) -> Iterator[Text]:
    """Lines with what to type next; the parameters are those of `text`."""
    for place, (command, comment) in enumerate(commands):
        yield _command(_label("" if place else "next"), command, comment, width)


def _fitting(texts: Sequence[str], room: int | None) -> str:
    """The first text that fits, or else what fits of the last one."""
    fitting = (text for text in texts if room is None or cell_len(text) <= room)
    return next(fitting, _cut(texts[-1], "", room))


def _line(text: Text) -> Text:
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _label(label: str) -> Text:
    return Text(f"{label:<{INDENT}}", style="dim")


def _command(label: Text, command: str, comment: str, width: int | None) -> Text:
    """A command, and what it is for if there is room; it may have several lines."""
    row = label.append(command, style="not dim bold")
    needed = cell_len(row.plain) + len(comment) + 4
    if "\n" not in command and (width is None or needed <= width):
        row.append(f"  # {comment}")
    return _line(row)


def _cut(finding: str, where: str, room: int | None) -> str:
    """A finding and its ranks in a given width: folders are dropped first, then the end."""
    if room is None or len(finding) + len(where) <= room:
        return finding + where
    finding = _FOLDER.sub("…/", finding)
    left = room - len(where)
    if left < _LEAST_FINDING:
        where, left = "", room
    if len(finding) <= left:
        return finding + where
    return _whole_clauses(finding, left) + where


def _whole_clauses(finding: str, room: int) -> str:
    """The clauses that fit, or else the words: cut within a clause, it loses its point.

    Examples
    --------
    >>> _whole_clauses("Devices are idle for 16 of 35 ms per step (45 %), in 3 gaps", 46)
    'Devices are idle for 16 of 35 ms per step …'
    >>> _whole_clauses("Devices are idle", 0)
    '…'
    """
    begin = finding[: max(room - 1, 0)]
    whole = begin[: begin.rfind("(")] if begin.rfind("(") > begin.rfind(")") else begin
    ends = [match.start() for match in re.finditer(r"[,;:] ", whole)]
    if ends and 2 * ends[-1] >= room:
        return f"{whole[: ends[-1]]} …"
    words = whole.rpartition(" ")[0].rstrip(" ,;:")
    return f"{words} …" if words else f"{begin}…"


def _of_events(summary: Summary, span_ns: int) -> str:
    """The period that a time refers to, unless it is the only step."""
    steps = summary.steps
    lengths = steps.filter(pl.col("lack").is_null())["step_ns"].to_list()
    is_single = len(lengths) == steps.height == summary.overview.height == 1
    is_other = is_single and abs(lengths[0] - span_ns) > LEAST_SHARE * span_ns
    return " from its first event to its last" if is_other else ""


def _energy(opening: TraceHeader) -> tuple[str, ...]:
    """What the devices that worked took, in how much of the trace, if samples do not cover it.

    Counters of one device may contain one another: the one with the highest mean is of the whole.
    """
    rows = opening.energy
    if not rows.height:
        return ()
    device = ("run", "rank", "device")
    used = (
        rows.filter(pl.col("work_j") > 0)
        .sort("mean_w", descending=True, maintain_order=True)
        .unique(device, keep="first", maintain_order=True)
    )
    if not used.height:
        return _unplaced_energy(rows)
    total, idle, sampled_ns = (float(used[c].sum()) for c in ("energy_j", "idle_j", "sampled_ns"))
    spans = opening.overview.select("run", "rank", pl.col("span_ns").alias("whole_ns"))
    of_trace = used.join(spans, on=["run", "rank"], how="left", nulls_equal=True)
    whole_ns = float(of_trace["whole_ns"].sum())
    on = f" of {units.plural(used.height, 'device')}"
    if (devices := int(opening.overview["devices"].sum())) > used.height:
        on = f" of {used.height:,} of {units.plural(devices, 'device')}"
    part, of = "", "it"
    if sampled_ns < _LEAST_SAMPLED * whole_ns:
        share = units.share(sampled_ns / whole_ns)
        part, of = f" in the {share} of the trace with samples", "the energy"
    text = f"{units.energy(total)}{on}{part}, {units.share(idle / total)} of {of} while idle"
    return (f"{text}; {units.power(total / sampled_ns * 1e9)} each on average", text)


def _unplaced_energy(rows: pl.DataFrame) -> tuple[str, ...]:
    """Why energy is not that of devices that worked, where power was sampled."""
    note, device = pl.col("note").fill_null(""), pl.col("device")
    reasons = {
        "power without a unit: profframe answer energy TRACE -p unit=W": (
            note.str.contains("no_unit") & device.is_not_null()
        ),
        "power was sampled, but of which device is not known": note == "no_device",
        "power was sampled only of devices that have no work in the trace": note == "no_work",
        "power was sampled only while no work ran": (note == "") & (pl.col("energy_j") > 0),
    }
    lines = (text for text, is_so in reasons.items() if rows.filter(is_so).height)
    return tuple(itertools.islice(lines, 1))


def _mfu(rows: pl.DataFrame) -> tuple[str, ...]:
    """The utilization of each run and phase where it could be measured; no impossible one."""
    measured = rows.filter(pl.col("mfu") <= 1) if rows.height else rows
    if not measured.height:
        return ()
    runs, phases = (measured.filter(is_one) for is_one in _RUN_AND_PHASES)
    if rows["run"].n_unique() > 1:
        parts = [
            f"{units.middle(units.visible(run), LONGEST_NAME)} {units.share(mfu)}"
            for run, mfu in runs.select("run", "mfu").iter_rows()
        ]
    else:
        parts = [units.share(mfu) for mfu in runs["mfu"]]
        largest = phases.sort("mfu", descending=True).select("name", "mfu")
        parts += [f"{name} {units.share(mfu)}" for name, mfu in largest.iter_rows()]
    if not parts:
        return ()
    rates = sorted({units.flop_rate(rate) for rate in measured["peak_flop_per_s"]})
    types = sorted(measured["dtype"].unique())
    of = f"{rates[0]} {types[0]}" if len(rates) == len(types) == 1 else " and ".join(types)
    text = f"{', '.join(parts[:MOST_PARTS])} of {of}"
    share = measured["known_flops_share"].min()
    if not isinstance(share, float):
        return (text,)
    return f"{text}; {units.share(share)} of kernel time is counted", text


def _steps(overview: pl.DataFrame) -> str:
    """The number of profiler steps, of each rank."""
    least, most = overview["steps"].min(), overview["steps"].max()
    if not isinstance(least, int) or not isinstance(most, int) or not most:
        return "no profiler steps"
    number = units.plural(most, "step") if least == most else f"{least:,} to {most:,} steps"
    return f"{number} each" if overview.height > 1 else number


def _recorded(opening: TraceHeader) -> tuple[str, ...]:
    """Recorder, its options, and the framework."""
    traces = opening.traces
    formats = traces["format"].drop_nulls().unique(maintain_order=True)
    by = " and ".join(FORMATS[n].words if n in FORMATS else units.visible(n) for n in formats)
    flags = _flags(traces["profiler_flags"])
    full = f"{by} with {', '.join(flags)}" if flags else by
    ran = opening.frameworks["framework"].to_list()
    notes = len(quality_text.notes(opening.quality))
    of = [f"runs {', '.join(ran)}"] if ran else []
    note = [f"{units.plural(notes, 'quality note')} below"] if notes else []
    return tuple("; ".join(p) for p in ([full, *of, *note], [full, *of], [by, *of], [by]))


def _flags(texts: pl.Series) -> list[str]:
    """The options that all traces which list them were recorded with."""
    recorded: set[str] | None = None
    for text in texts.drop_nulls().unique():
        flags = json.loads(text)
        own = {name for name in _FLAGS if isinstance(flags, dict) and flags.get(name)}
        recorded = own if recorded is None else recorded & own
    return [word for name, word in _FLAGS.items() if name in (recorded or ())]


def _pace(steps: pl.DataFrame) -> tuple[str, ...]:
    """How far the host runs ahead of the devices in the run where that is most, if it does.

    The first step of a rank does not count: the devices may begin it late, because they still do
    earlier work.
    """
    whole = steps.filter(pl.col("lack").is_null()).drop_nulls(["step_ns", "host_ns", "lag_ns"])
    lags = {
        rows["lag_ns"].to_numpy().max(): rows for rows in whole.partition_by("run") if _ahead(rows)
    }
    if not lags:
        return ()
    most = max(lags)
    run = lags[most]
    behind = units.duration(most)
    name = units.middle(units.visible(run["run"][0]), LONGEST_NAME)
    where = f" in {name}" if whole["run"].n_unique() > 1 else ""
    ahead = f"the host runs up to {behind} ahead"
    later = run.filter(pl.int_range(pl.len()).over("rank") > 0)
    if not later.height:
        return (f"{ahead} of the devices{where}",)
    host_ns, step_ns = (int(later[name].sum()) / later.height for name in ("host_ns", "step_ns"))
    host, step = (units.duration(ns) for ns in (host_ns, step_ns))
    pace = f"it takes {host} per step, and the devices complete one every {step}"
    if step_ns < host_ns:
        pace = f"the devices catch up: they complete a step every {step}, the host takes {host}"
    return (
        f"{ahead}{where}: after the first step {pace}",
        f"{ahead}{where}; after the first step the devices complete one every {step}",
        f"{ahead}{where}",
    )


def _ahead(steps: pl.DataFrame) -> bool:
    """Whether the host runs ahead on some rank of a run."""
    names = ("host_ns", "step_ns", "lag_ns")
    ranks = steps.partition_by("rank")
    return any(is_ahead(*(of[name].to_numpy() for name in names)) for of in ranks)


def _phases(phases: pl.DataFrame) -> tuple[str, ...]:
    """Inference phases, the longest first."""
    if not phases.height:
        return ()
    rows = phases.with_columns(pl.col("phase").fill_null("not known")).sort(
        "span_ns", descending=True, nulls_last=True, maintain_order=True
    )
    texts = []
    for row in rows.head(MOST_PARTS).iter_rows(named=True):
        how = f" ({row['execution']})" if row["execution"] else ""
        warm = "warm-up of " if row["is_warmup"] else ""
        span = "" if row["span_ns"] is None else f" {units.duration(row['span_ns'])}"
        texts.append(f"{warm}{row['phase']}{how}{span}")
    return tuple(listed(texts[:size], rows.height) for size in range(len(texts), 0, -1))


def _host(self_times: pl.DataFrame) -> tuple[str, ...]:
    """The ops with most of the host's self time; of several runs, the first one of each."""
    host = self_times.filter(~pl.col("kind").is_in(DEVICE_KINDS))
    if host["run"].n_unique() > 1:
        return most_of_each(host.select("run", "name", "self_ns"), " of self time")
    total = int(host["self_ns"].sum())
    sums = (
        host.group_by("name", maintain_order=True)
        .agg(pl.col("self_ns").sum())
        .sort("self_ns", descending=True, maintain_order=True)
    )
    return shares(sums, total, " of self time") if total > 0 else ()
