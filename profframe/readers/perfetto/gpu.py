"""Device work from render stages, and device counters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe.intervals import Ints
from profframe.readers.build.counters import unit_of
from profframe.readers.build.row_tables import Batch, RowTable, conform
from profframe.readers.chrome.session import Session
from profframe.readers.perfetto.annotations import doubles, joined, member, quoted
from profframe.readers.perfetto.arrows import Arrows
from profframe.readers.perfetto.events import counter_args, event_rows
from profframe.readers.perfetto.packets import GPU_COUNTERS, RENDER_STAGE, Packets, messages
from profframe.readers.perfetto.state import State, plain_text
from profframe.readers.perfetto.tracks import TrackLines
from profframe.readers.perfetto.wire import (
    FIXED64,
    LENGTH,
    VARINT,
    Bytes,
    Fields,
    distinct_rows,
    fields,
    packed,
    texts,
)

_EVENT_ID: Final = 1
_DURATION: Final = 2
_QUEUE_ID: Final = 3
_STAGE_ID: Final = 4
_CONTEXT: Final = 5
_EXTRA: Final = 6
_SPECIFICATIONS: Final = 7
_GPU: Final = 11
_QUEUE_IID: Final = 13
_STAGE_IID: Final = 14
_OLD_NUMBERS: Final = {_QUEUE_IID: (_QUEUE_ID, 0), _STAGE_IID: (_STAGE_ID, 1)}
_NAME: Final = 17
_WAITS: Final = 18
_KERNEL_IID: Final = 19
_NAME_IID: Final = 20
_LAUNCH: Final = 21
_COMPUTE: Final = 2
"""Category of stages that compute."""
_CATEGORIES: Final = {
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
    "Annotation": "gpu_user_annotation",
    "EventRecord": "graph_event_node",
    "HostNode": "graph_host_node",
}
"""Categories of torch's stages, as its other exporter names them."""
_LANE: Final = re.compile(r"\[(\d{1,10})\] (.*)", re.DOTALL)
"""Name of a queue, with the number of its lane."""
_STREAM: Final = "stream id"
_RENAMED: Final = {"device id": "device", "context id": "context", _STREAM: "stream"}
_NUMBERS: Final = (
    "device", "context", "stream", "correlation", "priority", "queued", "channel", "channel_type",
    "graph id", "graph node id", "bytes", "value", "memory kind",
)  # fmt: skip
"""Members that are numbers in other traces, but texts here."""
_ARGUMENTS: Final = {"registers_per_thread": "registers per thread"}
_INTEGER: Final = r"^-?(0|[1-9]\d{0,17})$"
_HOST_FUNCTION: Final = r'"host fn":"((?:[^"\\]|\\.)*)"'
_NODE: Final = "HostNode"


@dataclass(slots=True)
class Stages:
    """Rows of device work."""

    state: State
    lines: TrackLines
    arrows: Arrows
    session: Session
    damaged: int = 0

    def batches(self, packets: Packets) -> Iterator[Batch]:
        """Rows of the work in some packets."""
        rows = packets.of(RENDER_STAGE)
        if not rows.owner.size:
            return
        parts, damaged = fields(packets.buffer, rows.value, rows.value + rows.size)
        self.damaged += int(damaged.sum())
        # What only says how stages are numbered is not work.
        is_work = ~damaged & (
            parts.has(_EVENT_ID, damaged.size) | ~parts.has(_SPECIFICATIONS, damaged.size)
        )
        self._number(packets, parts, rows.owner)
        if not is_work.all():
            place = np.cumsum(is_work) - 1
            low = parts.where(is_work[parts.owner])
            parts = Fields(place[low.owner], low.number, low.wire, low.value, low.size)
            rows = rows.where(is_work)
        of = rows.owner
        count = of.size
        if not count:
            return
        epoch, sequence = packets.epoch[of], packets.sequence[of]
        gpu = parts.numbers(_GPU, count)
        stage = self._specifications(parts, epoch, sequence, _STAGE_IID)
        queue = self._specifications(parts, epoch, sequence, _QUEUE_IID)
        category_of = {entry: _category(*entry) for entry in set(stage)}
        categories = [category_of[entry] for entry in stage]
        lane_of = {name: _lane(name) for name in {name for name, _ in queue}}
        lanes = [lane_of[name] for name, _ in queue]
        args = self._args(packets.buffer, parts, count, epoch, lanes)
        names = self._names(packets.buffer, parts, count, epoch, stage, args)
        base = self.state.origin()
        duration = parts.numbers(_DURATION, count)
        pid = [str(number) for number in gpu.tolist()]
        tid = [lane for lane, _ in lanes]
        self._label(parts, epoch, pid, lanes)
        members = {
            "ph": pa.array(["X"] * count, pa.string()),
            "cat": pa.array(categories, pa.string()),
            "name": names,
            "pid": pa.array(pid, pa.string()),
            "tid": pa.array(tid, pa.string()),
            "time_ns": pa.array(packets.time[of] - base, mask=packets.lacks_time[of]),
            "dur_ns": pa.array(duration),
            "args": args,
        }
        yield event_rows(members, self.session)
        ids = parts.numbers(_EVENT_ID, count)
        self.arrows.work(members, ids, duration)
        waits = packed(packets.buffer, parts.of(_WAITS, VARINT, LENGTH))
        if waits.owner.size:
            self.arrows.dependencies(ids[waits.owner], waits.value)

    def _number(self, packets: Packets, parts: Fields, rows: Ints) -> None:
        """Take the queues and stages that older writers number in one of their events."""
        from google.protobuf.message import DecodeError

        own = parts.of(_SPECIFICATIONS, LENGTH)
        for owner, at, size in zip(
            *(a.tolist() for a in (own.owner, own.value, own.size)), strict=True
        ):
            specifications = messages().GpuRenderStageEvent.Specifications()
            try:
                specifications.ParseFromString(packets.buffer[at : at + size].tobytes())
            except DecodeError:
                self.damaged += 1
                continue
            queues, stages = (
                [plain_text(entry.name) for entry in entries]
                for entries in (specifications.hw_queue, specifications.stage)
            )
            for sequence in (int(packets.sequence[rows[owner]]), 0):
                self.state.stages[sequence] = queues, stages

    def _specifications(
        self, parts: Fields, epoch: Ints, sequence: Ints, iid: int
    ) -> list[tuple[str | None, int]]:
        """Names and categories of stages or queues; in old traces by their number."""
        count = epoch.size
        numbers = parts.numbers(iid, count)
        described = self.state.values("gpu_specifications", epoch, numbers)
        number, which = _OLD_NUMBERS[iid]
        # Some writers leave out a number of 0.
        old = parts.numbers(number, count)
        is_named = parts.has(iid, count)
        self.state.lost_texts += sum(
            entry is None for entry, own in zip(described, is_named.tolist(), strict=True) if own
        )
        if is_named.all():
            return [entry or (None, 0) for entry in described]
        nothing: tuple[list[str], list[str]] = ([], [])
        stages = self.state.stages
        names = {
            (own, part): _at(stages.get(part, stages.get(0, nothing))[which], own)
            for own, part in set(zip(old.tolist(), sequence.tolist(), strict=True))
        }
        has = parts.has(number, count) | np.array([part in stages for part in sequence.tolist()])
        return [
            entry or (names[own, part] if h and not n else None, 0)
            for entry, own, part, h, n in zip(
                described, old.tolist(), sequence.tolist(), has.tolist(), is_named.tolist(),
                strict=True,
            )
        ]  # fmt: skip

    def _names(  # noqa: PLR0917
        self,
        buffer: Bytes,
        parts: Fields,
        count: int,
        epoch: Ints,
        stage: list[tuple[str | None, int]],
        args: pa.Array,
    ) -> pa.Array:
        """Name of the event, else of the kernel, else of the stage."""
        names = pa.array([name for name, _ in stage], pa.string())
        for kind, number in (("compute_kernels", _KERNEL_IID), ("event_names", _NAME_IID)):
            has = parts.has(number, count)
            if has.any():
                looked_up = self.state.texts(kind, epoch, parts.numbers(number, count))
                self.state.lost_texts += sum(
                    t is None for t, h in zip(looked_up, has.tolist(), strict=True) if h
                )
                own = pa.array(
                    [t if h else None for t, h in zip(looked_up, has, strict=True)], pa.string()
                )
                names = pc.coalesce(own, names)
        plain = parts.of(_NAME, LENGTH)
        if plain.owner.size:
            place = np.full(count, -1, np.int64)
            place[plain.owner] = np.arange(plain.owner.size)
            own = texts(buffer, plain.value, plain.size).take(pa.array(place, mask=place < 0))
            names = pc.coalesce(own, names)
        if _NODE not in names.unique().to_pylist():
            return names
        function = _plain(pl.Series(args).str.extract(_HOST_FUNCTION))
        called = pl.Series(names)
        frame = pl.DataFrame({"name": called, "function": function})
        shown = pl.when((pl.col("name") == _NODE) & pl.col("function").is_not_null()).then(
            pl.concat_str(pl.lit(f"{_NODE}: "), "function")
        )
        return (
            frame.select(shown.otherwise("name").alias("name"))["name"].to_arrow().cast(pa.string())
        )

    def _args(
        self, buffer: Bytes, parts: Fields, count: int, epoch: Ints, lanes: list[Any]
    ) -> pa.Array:
        """Arguments as torch's other exporter writes them."""
        extra, stream = self._extra(buffer, parts)
        members = [extra, *self._launches(buffer, parts, epoch)]
        # Zeros are left out, but the first node of a graph has number 0 in it.
        nodes = extra.filter(key="graph node id").select("owner")
        first = extra.filter(key="graph id").join(nodes, on="owner", how="anti")
        if first.height:
            first = first.select("owner", key=pl.lit("graph node id"), value=pl.lit("0"))
            extra = members[0] = pl.concat([extra, first])
        # What was moved to another lane keeps its stream.
        moved = (
            stream.with_columns(
                pl.Series("lane", [lanes[row][0] for row in stream["owner"].to_list()], pl.String)
            )
            .filter(pl.col("lane").str.contains(_INTEGER), pl.col("lane") != pl.col("value"))
            .join(extra.filter(key="graph node id").select("owner"), on="owner", how="semi")
        )
        if moved.height:
            members[0] = extra.join(
                moved.select("owner", "lane", key=pl.lit("stream")), on=["owner", "key"], how="left"
            ).select("owner", "key", value=pl.coalesce("lane", "value"))
            members.append(moved.select("owner", pl.lit("original_stream").alias("key"), "value"))
        frame = pl.concat(members)
        frame = frame.sort("owner", maintain_order=True)
        shown = member(
            quoted(frame["key"].to_arrow().cast(pa.string())),
            frame["value"].to_arrow().cast(pa.string()),
        )
        return pc.fill_null(joined(frame["owner"].to_numpy(), shown, count, "{", "}"), "{}")

    def _extra(self, buffer: Bytes, parts: Fields) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Additional data of events, as members of an object.

        The stream comes last, so that it counts if an annotation has a member of that name, too.
        """
        extra = parts.of(_EXTRA, LENGTH)
        inside, damaged = fields(buffer, extra.value, extra.value + extra.size)
        self.damaged += int(damaged.sum())
        count = extra.owner.size
        columns = {}
        for name, number in (("key", 1), ("value", 2)):
            own = inside.of(number, LENGTH)
            place = np.full(count, -1, np.int64)
            place[own.owner] = np.arange(own.owner.size)
            columns[name] = texts(buffer, own.value, own.size).take(pa.array(place, mask=place < 0))
        columns["quoted"] = quoted(pc.fill_null(columns["value"], ""))
        key = pl.col("key").fill_null("").replace(_RENAMED)
        is_number = key.is_in(_NUMBERS) & pl.col("value").str.contains(_INTEGER)
        frame = pl.DataFrame({"owner": extra.owner, **columns})
        shown = (
            frame.with_columns(key)
            .select("owner", "key", value=pl.when(is_number).then("value").otherwise("quoted"))
            .unique(["owner", "key"], keep="last", maintain_order=True)
        )
        is_stream = (pl.col("key") == _STREAM) & pl.col("value").str.contains(_INTEGER)
        stream = frame.filter(is_stream).select("owner", key=pl.lit("stream"), value="value")
        return shown, stream.unique("owner", keep="first", maintain_order=True)

    def _launches(self, buffer: Bytes, parts: Fields, epoch: Ints) -> Iterator[pl.DataFrame]:
        """Grid, block and arguments of launches, as members of an object."""
        launches = parts.of(_LAUNCH, LENGTH)
        if not launches.owner.size:
            return
        inside, damaged = fields(buffer, launches.value, launches.value + launches.size)
        self.damaged += int(damaged.sum())
        for key, number in (("grid", 1), ("block", 2)):
            sizes = inside.of(number, LENGTH)
            axes, damaged = fields(buffer, sizes.value, sizes.value + sizes.size)
            self.damaged += int(damaged.sum())
            x, y, z = (axes.numbers(axis, sizes.owner.size) for axis in (1, 2, 3))
            frame = pl.DataFrame({"owner": launches.owner[sizes.owner], "x": x, "y": y, "z": z})
            yield frame.select(
                "owner", pl.lit(key).alias("key"), value=pl.format("[{},{},{}]", "x", "y", "z")
            )
        arguments = inside.of(3, LENGTH)
        if not arguments.owner.size:
            return
        values, damaged = fields(buffer, arguments.value, arguments.value + arguments.size)
        self.damaged += int(damaged.sum())
        count = arguments.owner.size
        owner = launches.owner[arguments.owner]
        looked_up = self.state.texts("compute_arguments", epoch[owner], values.numbers(1, count))
        keys = [_ARGUMENTS.get(text or "", text or "argument") for text in looked_up]
        shown = pl.Series(
            [str(n) for n in (values.numbers(3, count) + values.numbers(4, count)).tolist()]
        )
        own = values.of(5, FIXED64)
        if own.owner.size:
            texts_ = pl.Series(doubles(own.value.view(np.float64), self.state))
            shown = shown.scatter(own.owner, texts_)
        yield pl.DataFrame(
            {"owner": owner, "key": pl.Series(keys, dtype=pl.String), "value": shown}
        ).unique(["owner", "key"], keep="last", maintain_order=True)

    def _label(self, parts: Fields, epoch: Ints, pid: list[str], lanes: list[Any]) -> None:
        """Names of the processes and lanes of devices."""
        contexts = self.state.values(
            "graphics_contexts", epoch, parts.numbers(_CONTEXT, epoch.size)
        )
        for number, context in {(p, c) for p, c in zip(pid, contexts, strict=True)}:
            labels = self.lines.processes.setdefault(number, {})
            labels.setdefault("labels", f"GPU {number}")
            if context is not None and (own := self.lines.processes.get(str(context))):
                labels.setdefault("name", own.get("name", ""))
        for number, (lane, name) in set(zip(pid, lanes, strict=True)):
            if name is not None:
                self.lines.threads[number, lane] = name


@dataclass(slots=True)
class GpuCounters:
    """Rows of counters of devices."""

    state: State
    damaged: int = 0

    def batches(self, packets: Packets) -> Iterator[Batch]:
        """Rows of the values in some packets."""
        rows = packets.of(GPU_COUNTERS)
        if not rows.owner.size:
            return
        parts, damaged = fields(packets.buffer, rows.value, rows.value + rows.size)
        self.damaged += int(damaged.sum())
        count = rows.owner.size
        epoch = packets.epoch[rows.owner]
        iids = parts.numbers(4, count)
        gpu = parts.numbers(3, count, missing=-1)
        interned = self.state.values("gpu_counter_descriptors", epoch, iids)
        self._describe(packets.buffer, parts)
        gpu = np.array(
            [
                g if g >= 0 or d is None else d.gpu_id
                for g, d in zip(gpu.tolist(), interned, strict=True)
            ],
            np.int64,
        )
        gpu = np.where(gpu < 0, 0, gpu)
        lists = parts.of(2, LENGTH)
        values, bad = fields(packets.buffer, lists.value, lists.value + lists.size)
        self.damaged += int(bad.sum())
        size = lists.owner.size
        if not size:
            return
        ids = values.numbers(1, size)
        value = values.numbers(2, size).astype(np.float64)
        doubles = values.of(3, FIXED64)
        value[doubles.owner] = doubles.value.view(np.float64)
        rows_of, place = distinct_rows(epoch[lists.owner], iids[lists.owner], ids)
        descriptors = self.state.values("gpu_counter_descriptors", rows_of[:, 0], rows_of[:, 1])
        named = [
            self._name(descriptor, number)
            for descriptor, number in zip(descriptors, rows_of[:, 2].tolist(), strict=True)
        ]
        at = pa.array(place)
        of = rows.owner[lists.owner]
        base = self.state.origin()
        device = gpu[lists.owner]
        columns = {
            "time_ns": pa.array(packets.time[of] - base, mask=packets.lacks_time[of]),
            "name": pa.array([name for name, _ in named], pa.string()).take(at),
            "unit": pa.array([unit for _, unit in named], pa.string()).take(at),
            "device": pa.array(device),
            "pid": pa.array([f"GPU {n} Counters" for n in device.tolist()], pa.string()),
            "args": counter_args(value, self.state),
        }
        yield {RowTable.COUNTERS: conform(RowTable.COUNTERS, columns)}

    def _describe(self, buffer: Bytes, parts: Fields) -> None:
        """Take descriptors that are in the events themselves."""
        from google.protobuf.message import DecodeError

        for row in range((own := parts.of(1, LENGTH)).owner.size):
            at, size = int(own.value[row]), int(own.size[row])
            descriptor = messages().GpuCounterDescriptor()
            try:
                descriptor.ParseFromString(buffer[at : at + size].tobytes())
            except DecodeError:
                self.damaged += 1
                continue
            for spec in descriptor.specs:
                self.state.counters[spec.counter_id] = _spec(spec)

    def _name(self, interned: Any, number: int) -> tuple[str, str | None]:
        if interned is not None:
            for spec in interned.counter_descriptor.specs:
                if spec.counter_id == number:
                    return _spec(spec)
        return self.state.counters.get(number, (f"counter {number}", None))


def _spec(spec: Any) -> tuple[str, str | None]:
    """Name and unit of a counter."""
    kind = type(spec).DESCRIPTOR.fields_by_name["numerator_units"].enum_type
    above, below = (
        "*".join(_UNITS.get(name := kind.values_by_number[n].name, name.lower()) for n in numbers)
        for numbers in (spec.numerator_units, spec.denominator_units)
    )
    unit = f"{above or '1'}/{below}" if below else above
    name = plain_text(spec.name)
    return name, unit or unit_of(name)


_UNITS: Final = {
    "NONE": "", "BYTE": "bytes", "HERTZ": "Hz", "KILOHERTZ": "kHz", "MEGAHERTZ": "MHz",
    "GIGAHERTZ": "GHz", "NANOSECOND": "ns", "MICROSECOND": "us", "MILLISECOND": "ms",
    "SECOND": "s", "MILLIWATT": "mW", "WATT": "W", "CELSIUS": "C", "PERCENT": "%",
}  # fmt: skip
"""Units as counters of other traces name them; all others are in lower case."""


def _category(name: str | None, category: int) -> str | None:
    if name in _CATEGORIES:
        return _CATEGORIES[name]
    return "kernel" if category == _COMPUTE else name


def _plain(quoted_: pl.Series) -> pl.Series:
    """Texts from what is between JSON's quotation marks; few have anything escaped."""
    odd = quoted_.str.contains("\\", literal=True).fill_null(value=False)
    if not odd.any():
        return quoted_
    texts_ = [json.loads(f'"{text}"') for text in quoted_.filter(odd).to_list()]
    return quoted_.scatter(odd.arg_true(), texts_)


def _lane(name: str | None) -> tuple[str | None, str | None]:
    """Thread id and name of a queue."""
    match = _LANE.fullmatch(name or "")
    return (str(int(match[1])), match[2]) if match else (name, name)


def _at(names: list[str], number: int) -> str:
    """A name by its number, or else the number."""
    return names[number] if 0 <= number < len(names) else str(number)
