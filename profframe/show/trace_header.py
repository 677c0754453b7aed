"""The first lines about a trace: what it is, where the time goes, and what would gain most."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import polars as pl
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.text import Text

from profframe.facts.step_times import is_ahead
from profframe.readers.formats import FORMATS
from profframe.show import units
from profframe.show.columns import KEYS
from profframe.show.compact_tables import with_copies_apart
from profframe.show.findings import STYLES, gain_of, ranks_of
from profframe.show.summary import Summary

TOP: Final = 3
"""Findings among the first lines."""
MOST_LINES: Final = 10
"""Maximum first lines; if there are more, inference phases are only in the table below."""
PHASES: Final = "phases"
INDENT: Final = 13
"""Columns of the labels of the first lines."""
_FLAGS: Final = MappingProxyType(
    {
        "record_shapes": "shapes",
        "profile_memory": "memory",
        "with_stack": "stacks",
        "with_flops": "FLOPs",
        "with_modules": "modules",
    }
)
_CAUSES: Final = MappingProxyType(
    {"host_wait": "waiting for the host", "sync": "waiting for another stream"}
)
"""Causes of idle time that are understood without an explanation."""
_QUEUED: Final = "mostly between a launch and its start: other work may be missing"
"""Work that was launched long before it ran, on a device that seems to do nothing."""
_MOST_PARTS: Final = 6
_MOST_WHAT: Final = 2
"""Maximum lines about what a file is that no profiler wrote."""
_LEAST_SHARE: Final = 0.005
_LITTLE: Final = 0.5
"""Smaller shares of a trace that its devices' time is are told."""
_LEAST_SHOWN: Final = 0.0005
"""Smaller shares are shown as 0.0 %."""
_LEAST_SAMPLED: Final = 0.95
"""Part of a trace that samples of power cover at least, where nothing is said of the rest."""
_LONGEST_NAME: Final = 40
_LEAST_FINDING: Final = 30
"""Minimum width of a finding before what follows it is dropped."""
_FOLDER: Final = re.compile(
    r"(?<![\w./\\~-])(?:~|[A-Za-z]:)?[/\\]?(?:[\w.@+~-]+[/\\]){2,}(?=[\w.@+-])"
)
"""Matches leading folders of a path, which are dropped."""
_RUN_AND_PHASES: Final = (pl.col("name").is_null(), pl.col("name").is_not_null())
"""Rows of `mfu` by run, and by phase."""
_DEVICE_KINDS: Final = ("kernel", "memcpy", "memset")


@dataclass(frozen=True, slots=True)
class TimeParts:
    """Device time by class: sums over rows of `time_breakdown`.

    The rows are those of steps if all runs have any, else those of whole traces.
    """

    rows: int
    """Number of steps, or of traces if there are no steps."""
    has_steps: bool
    runs: int
    span_ns: int
    compute_ns: int
    exposed_communication_ns: int
    exposed_copy_ns: int
    unrecorded_ns: int
    idle_ns: int
    hidden_communication_ns: int

    @classmethod
    def of(cls, breakdown: pl.DataFrame) -> TimeParts | None:
        """The sums; None if no device did anything."""
        if breakdown.is_empty():
            return None
        is_step = pl.col("step").is_not_null() & pl.col("lack").is_null() & (pl.col("span_ns") > 0)
        steps = breakdown.filter(is_step)
        whole = breakdown.filter(pl.col("step").is_null(), pl.col("span_ns") > 0)
        is_apart = whole["run"].n_unique() > max(steps["run"].n_unique(), 1)
        has_steps = steps.height > 0 and not is_apart
        rows = steps if has_steps else whole
        sums = {name: int(rows[name].sum()) for name in cls.__slots__[3:]}
        runs = rows["run"].n_unique()
        return cls(rows.height, has_steps, runs, **sums) if sums["span_ns"] else None

    def share(self, part_ns: int) -> float:
        """A part of the time, from 0 to 1."""
        return part_ns / self.span_ns

    @property
    def communicates(self) -> bool:
        """Whether there is communication, exposed or hidden."""
        return self.exposed_communication_ns + self.hidden_communication_ns > 0


@dataclass(frozen=True, slots=True)
class TraceHeader:
    """Frames that the first lines are made from, each the rows of one answer."""

    summary: Summary
    breakdown: pl.DataFrame
    categories: pl.DataFrame
    idle: pl.DataFrame
    phases: pl.DataFrame
    mfu: pl.DataFrame
    energy: pl.DataFrame
    advice: pl.DataFrame
    self_times: pl.DataFrame
    used_devices: pl.DataFrame
    frameworks: pl.DataFrame

    @property
    def time_parts(self) -> TimeParts | None:
        """Device time by class."""
        return TimeParts.of(self.breakdown)

    @property
    def has_several_ranks(self) -> bool:
        """Whether a run has two ranks or more."""
        overview = self.summary.overview
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
    summary, overview = opening.summary, opening.summary.overview
    if summary.words.is_all:
        return summary.title
    runs, ranks = overview["run"].n_unique(), overview.height
    world = summary.traces["world_size"].max()
    of = f" of {world:,}" if runs == 1 and isinstance(world, int) and world > ranks else ""
    noun = "rank" if runs <= 1 else "trace"
    parts = [units.plural(runs, "run"), units.plural(ranks, noun) + of, _steps(overview)]
    span = overview["span_ns"].max()
    if isinstance(span, int) and overview["events"].sum():
        longest = "at most " if ranks > 1 else ""
        parts.append(f"{longest}{units.duration(span)}{_of_events(summary, span)}")
    else:
        parts[-1] = "no events with a time" if overview["events"].sum() else "no events"
    return ", ".join(parts)


def lines(opening: TraceHeader) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Labels, and texts for what it is and where the time goes, the longest first."""
    summary = opening.summary
    if summary.words.is_all:
        yield "recorded", _recorded(opening)
        what = [line for words in summary.words.parts for line in words.what]
        for place, line in enumerate(what[:_MOST_WHAT]):
            yield "" if place else "contents", (line,)
        if len(what) > _MOST_WHAT:
            yield "", (f"and {len(what) - _MOST_WHAT} more such lines below",)
        return
    if summary.overview["events"].sum():
        yield "device", (_devices(opening),)
    yield "recorded", _recorded(opening)
    parts = opening.time_parts
    if parts is None:
        yield "time", _step_time(summary)
        yield "host", _host(opening.self_times)
        return
    yield "time", _time(parts, opening)
    yield "pace", _pace(summary.steps)
    yield "kernels" if summary.overview["kernels"].sum() else "work", _kernels(opening.categories)
    yield PHASES, _phases(opening.phases)
    yield "mfu", _mfu(opening.mfu)
    yield "energy", _energy(opening)


def findings(opening: TraceHeader) -> Iterator[tuple[str, str, str, str]]:
    """Severity, gain, text and ranks of the findings with the largest gain."""
    if opening.summary.words.is_all:
        return
    keys = opening.summary.overview.select(KEYS)
    has_runs, has_several = keys["run"].n_unique() > 1, keys.height > 1
    for row in opening.findings.head(TOP).iter_rows(named=True):
        place = []
        if has_runs:
            place.append(units.middle(units.visible(str(row["run"])), _LONGEST_NAME))
        if has_several:
            place.append(ranks_of(row))
        yield (
            str(row["severity"]),
            gain_of(row) or "unknown",
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
    labelled = [(label, _fitting(texts, room)) for label, texts in lines(opening) if texts]
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
    for place, (command, comment) in enumerate(typed):
        rows.append(_command(_label("" if place else "next"), command, comment, width))
    return Group(*rows)


def _fitting(texts: Sequence[str], room: int | None) -> str:
    """The first text that fits, or else the last one."""
    return next((text for text in texts if room is None or cell_len(text) <= room), texts[-1])


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
    return finding[: left - 1].rstrip(" ,") + "…" + where


def _of_events(summary: Summary, span_ns: int) -> str:
    """The period that a time refers to, unless it is the only step."""
    steps = summary.steps
    lengths = steps.filter(pl.col("lack").is_null())["step_ns"].to_list()
    is_single = len(lengths) == steps.height == summary.overview.height == 1
    is_other = is_single and abs(lengths[0] - span_ns) > _LEAST_SHARE * span_ns
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
    spans = opening.summary.overview.select("run", "rank", pl.col("span_ns").alias("whole_ns"))
    of_trace = used.join(spans, on=["run", "rank"], how="left", nulls_equal=True)
    whole_ns = float(of_trace["whole_ns"].sum())
    on = f" of {units.plural(used.height, 'device')}"
    if (devices := int(opening.summary.overview["devices"].sum())) > used.height:
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
            f"{units.middle(units.visible(run), _LONGEST_NAME)} {units.share(mfu)}"
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
    text = f"{', '.join(parts[:_MOST_PARTS])} of {of}"
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


def _devices(opening: TraceHeader) -> str:
    """How many devices did something, and their models."""
    overview, used = opening.summary.overview, opening.used_devices
    types = sorted(opening.summary.traces["device_type"].drop_nulls().unique())
    kind = units.visible(" + ".join(types)) or "device"
    if overview["run"].n_unique() > 1 and overview["devices"].sum():
        return _devices_of_runs(used, kind)
    if not overview["devices"].sum():
        return (
            f"{kind}, of an unknown number"
            if opening.breakdown.height
            else "no device work in this trace"
        )
    return _models(used["model"], kind)


def _devices_of_runs(used: pl.DataFrame, kind: str) -> str:
    """The devices of each trace: those of several runs may be the same ones."""
    sets = Counter(_models(rows["model"].sort(), kind) for rows in used.partition_by(KEYS))
    most = sets.most_common(_MOST_PARTS)
    parts = [
        f"{models} in {f'each of {count:,} traces' if count > 1 else '1 trace'}"
        for models, count in most
    ]
    rest = sets.total() - sum(count for _, count in most)
    return ", ".join([*parts, *([f"others in {units.plural(rest, 'trace')}"] if rest else [])])


def _models(column: pl.Series, kind: str) -> str:
    """The number of devices of each model."""
    models = Counter(column.fill_null(""))
    parts = [
        f"{count:,} x {units.middle(units.visible(model), _LONGEST_NAME)}"
        if model
        else f"{count:,} x {kind} (model not in the trace)"
        for model, count in models.most_common(_MOST_PARTS)
    ]
    rest = len(models) - _MOST_PARTS
    return ", ".join([*parts, *([f"and {rest} more models"] if rest > 0 else [])])


def _recorded(opening: TraceHeader) -> tuple[str, ...]:
    """Recorder, its options, and the framework."""
    traces = opening.summary.traces
    formats = traces["format"].drop_nulls().unique(maintain_order=True)
    by = " and ".join(FORMATS[n].words if n in FORMATS else units.visible(n) for n in formats)
    flags = _flags(traces["profiler_flags"])
    full = f"{by} with {', '.join(flags)}" if flags else by
    ran = opening.frameworks["framework"].to_list()
    notes = opening.summary.quality.height
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


def _mean_step(step_ns: int, steps: int, runs: int = 1) -> str:
    mean = units.duration(step_ns / steps)
    of_runs = f" in {runs:,} runs" if runs > 1 else ""
    return f"{mean} per step" if steps == 1 else f"{mean} per step, the mean of {steps:,}{of_runs}"


def _on_devices(parts: TimeParts, overview: pl.DataFrame) -> str:
    """The time from the first to the last work of the devices, and how much of the traces it is."""
    noun = "rank" if parts.runs == 1 else "trace"
    several = f" of {units.plural(parts.rows, noun)}" if parts.rows > 1 else ""
    whole = int(overview.filter(pl.col("devices") > 0)["span_ns"].sum())
    share = parts.span_ns / whole if whole else 1.0
    of = f", {units.share(share)} of the trace" if share < _LITTLE else ""
    plural = "s" if of and parts.rows > 1 else ""
    return f"{units.duration(parts.span_ns)} on the devices{several}{of}{plural}"


def _time(parts: TimeParts, opening: TraceHeader) -> tuple[str, ...]:
    """Device time by class, as shares of the steps or of the whole time."""
    if parts.has_steps:
        whole = _mean_step(parts.span_ns, parts.rows, parts.runs)
    else:
        whole = _on_devices(parts, opening.summary.overview)
    shares = {
        "compute": parts.compute_ns,
        "exposed communication": parts.exposed_communication_ns,
        "exposed copies": parts.exposed_copy_ns,
        "not recorded": parts.unrecorded_ns,
        "idle": parts.idle_ns,
    }
    texts = [
        f"{name} {units.share(parts.share(ns))}"
        for name, ns in shares.items()
        if parts.share(ns) >= _LEAST_SHOWN
        or name in {"compute", "idle"}
        or (name == "exposed communication" and parts.communicates)
    ]
    listed = ", ".join(texts)
    cause = _cause(opening.idle)
    of_step = whole.partition(",")[0]
    most = ", ".join(text for text in texts if not text.startswith("exposed copies"))
    return (
        f"{listed}{cause and f' ({cause})'} of {whole}",
        f"{listed} of {whole}",
        f"{listed} of {of_step}",
        listed,
        most,
    )


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
    name = units.middle(units.visible(run["run"][0]), _LONGEST_NAME)
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


def _cause(idle: pl.DataFrame) -> str:
    """The cause of most of the idle time."""
    recorded = idle.filter(pl.col("cause") != "unrecorded")
    sums = recorded.group_by("cause").agg(pl.col("idle_ns", "launch_wait_ns").sum())
    if not sums.height:
        return ""
    cause, longest, late = sums.sort("idle_ns", "cause").row(-1)
    total = sums["idle_ns"].sum()
    if 2 * longest <= total or cause not in _CAUSES:
        return ""
    if cause == "host_wait" and 2 * late <= total:
        return _QUEUED if 2 * (longest - late) > total else ""
    return f"mostly {_CAUSES[cause]}"


def _shares(sums: pl.DataFrame, total: int, what: str = "") -> tuple[str, ...]:
    """Names with their share of a total, the largest first: many of them, or fewer."""
    parts = [
        f"{units.middle(units.visible(str(name)), _LONGEST_NAME)} {units.share(ns / total)}"
        for name, ns in sums.head(_MOST_PARTS).iter_rows()
        if ns >= _LEAST_SHARE * total
    ]
    return tuple(_listed(parts[:size], sums.height, what) for size in range(len(parts), 0, -1))


def _listed(parts: Sequence[str], number: int, what: str = "") -> str:
    """The first ones, with the number of the others."""
    rest = number - len(parts)
    return f"{', '.join(parts)}{what}{f', {rest:,} more' if rest > 0 else ''}"


def _kernels(categories: pl.DataFrame) -> tuple[str, ...]:
    """Categories of what ran on the devices, with their shares of the time."""
    sums = (
        with_copies_apart(categories.drop_nulls("total_ns"))
        .group_by("category", maintain_order=True)
        .agg(pl.col("total_ns").sum())
        .sort("total_ns", descending=True, maintain_order=True)
    )
    total = int(sums["total_ns"].sum())
    return _shares(sums, total) if total else ()


def _phases(phases: pl.DataFrame) -> tuple[str, ...]:
    """Inference phases, the longest first."""
    if not phases.height:
        return ()
    rows = phases.with_columns(pl.col("phase").fill_null("not known")).sort(
        "span_ns", descending=True, nulls_last=True, maintain_order=True
    )
    texts = []
    for row in rows.head(_MOST_PARTS).iter_rows(named=True):
        how = f" ({row['execution']})" if row["execution"] else ""
        warm = "warm-up of " if row["is_warmup"] else ""
        span = "" if row["span_ns"] is None else f" {units.duration(row['span_ns'])}"
        texts.append(f"{warm}{row['phase']}{how}{span}")
    return tuple(_listed(texts[:size], rows.height) for size in range(len(texts), 0, -1))


def _step_time(summary: Summary) -> tuple[str, ...]:
    """The time of steps if no device did anything."""
    steps = summary.steps.filter(pl.col("lack").is_null(), pl.col("step_ns") > 0)
    if not steps.height:
        return ()
    return (_mean_step(int(steps["step_ns"].sum()), steps.height, steps["run"].n_unique()),)


def _host(self_times: pl.DataFrame) -> tuple[str, ...]:
    """The ops with most of the host's self time."""
    host = self_times.filter(~pl.col("kind").is_in(_DEVICE_KINDS))
    total = int(host["self_ns"].sum())
    sums = (
        host.group_by("name", maintain_order=True)
        .agg(pl.col("self_ns").sum())
        .sort("self_ns", descending=True, maintain_order=True)
    )
    return _shares(sums, total, " of self time") if total > 0 else ()
