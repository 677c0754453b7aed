"""Databases of rocprofv3 (rocpd), of versions 3 of its schema.

Each process has tables of its own, whose names end in its UUID; a merged file has those of several.
A row of work or of a call refers to one of ``rocpd_event``, which has its category and its
correlation (``stack_id``); names are in ``rocpd_string``. Views only show the same rows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl
import pyarrow as pa

from profframe.errors import SourceError
from profframe.readers.build.assembly import assemble
from profframe.readers.build.row_tables import (
    Batch,
    Header,
    Quality,
    RawTrace,
    gather,
    header_of,
)
from profframe.readers.json import exact
from profframe.readers.rocprof import DATABASE
from profframe.readers.rocprof.processes import (
    RANK_SOURCE,
    Agent,
    Process,
    device_properties,
    pids_of,
    rank_of,
)
from profframe.readers.rocprof.records import (
    ALLOCATION,
    SCRATCH,
    VALUES,
    Records,
    category_of,
    complete,
)
from profframe.readers.sqlite.sqlite_file import Selection, SourceTable, SqliteFile, quoted
from profframe.schema import DOUBLE, INT64, TEXT
from profframe.system.disk_tables import Spool

_DESCRIBING: Final = (
    "rocpd_string", "rocpd_info_node", "rocpd_info_process", "rocpd_info_thread",
    "rocpd_info_agent", "rocpd_info_queue", "rocpd_info_stream", "rocpd_info_pmc",
    "rocpd_info_code_object", "rocpd_info_kernel_symbol", "rocpd_track", "rocpd_event",
    "rocpd_arg", "rocpd_metadata",
)  # fmt: skip
"""Tables whose rows are no events, but parts of them."""
_EVENTS: Final = (
    "rocpd_region", "rocpd_sample", "rocpd_kernel_dispatch", "rocpd_memory_copy",
    "rocpd_memory_allocate", "rocpd_pmc_event",
)  # fmt: skip
_BASES: Final = tuple(sorted((*_DESCRIBING, *_EVENTS), key=len, reverse=True))
_MARKS: Final = ("rocpd_info_process", "rocpd_info_agent", "rocpd_event", "rocpd_kernel_dispatch")
"""Tables that earlier formats of the same name did not have."""
_VERSION: Final = "3"
_PREFIX: Final = "MEMORY_ALLOCATION_"
_ALONE: Final = (None, None)
_LEVELS: Final = {"REAL": "", "VIRTUAL": "VMEM_"}


def knows(database: SqliteFile) -> bool:
    """Whether rocprofv3 wrote the database, or another tool in its schema."""
    return any(_split(name)[0] in _MARKS for name in database.tables)


def read(database: SqliteFile, spool: Spool | None = None) -> RawTrace:
    """Read one database.

    Raises
    ------
    SourceError
        The database is damaged, or its schema has another version.
    """
    source = _Database(database)
    source.check_versions()
    rows = gather(source.batches(), spool)
    source.note_leftovers()
    header = header_of(rows, source.header)
    return assemble(rows, header, source.quality, 0, unread=source.accounted)


def _split(name: str) -> tuple[str | None, str]:
    """A table's name without the UUID of its process, and the UUID."""
    for base in _BASES:
        if name == base or name.startswith(f"{base}_"):
            return base, name[len(base) :]
    return None, ""


@dataclass(slots=True)
class _Database:
    """The tables of all processes; ``accounted`` counts rows that are in none of ours."""

    database: SqliteFile
    quality: Quality = field(default_factory=Quality)
    accounted: Counter[str] = field(default_factory=Counter)
    processes: list[Process] = field(default_factory=list)
    records: Records = field(default_factory=Records)
    lost_texts: int = 0
    ranks: set[tuple[int, int] | None] = field(default_factory=set)
    """Ranks of the processes, and how many there are, as their environment says."""

    @property
    def suffixes(self) -> list[str]:
        """Ends of the names of tables, one for each process, in their order."""
        return [
            *dict.fromkeys(suffix for base, suffix in map(_split, self.database.tables) if base)
        ]

    def check_versions(self) -> None:
        """Refuse schemas of other versions."""
        for suffix in self.suffixes:
            version = self._metadata(suffix).get("schema_version")
            if version is not None and str(version).partition(".")[0] != _VERSION:
                raise SourceError(
                    f"{self.database.path}: a rocpd database of schema version {version}, not "
                    f"{_VERSION} (convert it with rocpd convert -f pftrace, and load that)"
                )

    def batches(self) -> Iterator[Batch]:
        """All rows, process by process."""
        parts = [_Part(self, suffix) for suffix in self.suffixes]
        owners = [part.owner() for part in parts]
        for part, pid in zip(parts, pids_of(owners), strict=True):
            part.process.pid = pid
            self.processes.append(part.process)
            yield from part.batches()

    def note_leftovers(self) -> None:
        """Account for rows that are in no table of ours, and note what is lost."""
        unread: Counter[str] = Counter()
        for name, table in self.database.tables.items():
            base, _ = _split(name)
            if base in _DESCRIBING:
                self.accounted["metadata"] += table.rows
            elif base is None and table.rows:
                unread[name] += table.rows
        self.accounted.update(unread)
        for name, count in self.records.extra.items():
            self.accounted[name] += count
        if unread:
            detail = ", ".join(f"{name} {rows:,}" for name, rows in sorted(unread.items()))
            self.quality.note("rows_not_loaded", sum(unread.values()), detail)
        if dropped := self.records.extra["dropped"]:
            detail = "hardware counters of events that are not in the database"
            self.quality.note("rows_not_loaded", dropped, detail)
        if self.lost_texts:
            self.quality.note("lost_text", self.lost_texts)
        for check, count in self.database.anomalies.items():
            if count:
                self.quality.note(check, count)

    def header(self, *, is_utc: bool) -> Header:
        """The devices, and what the processes say about themselves."""
        devices = device_properties(self.processes)
        processes = [
            {"pid": process.pid, "command": process.command}
            | {k: v for k, v in self._metadata(suffix).items() if k != "guid"}
            for process, suffix in zip(self.processes, self.suffixes, strict=True)
        ]
        rank, world_size = next(iter(self.ranks)) or _ALONE if len(self.ranks) == 1 else _ALONE
        return Header(
            format=DATABASE,
            clock="utc" if is_utc else "relative",
            rank=rank,
            rank_source=RANK_SOURCE,
            world_size=world_size,
            device_properties=json.dumps(devices) if devices else None,
            metadata=json.dumps({"processes": processes}) if processes else None,
        )

    def _metadata(self, suffix: str) -> dict[str, Any]:
        rows = self.database.records(self.database.table(f"rocpd_metadata{suffix}"))
        return {str(row.get("tag")): row.get("value") for row in rows}


@dataclass(slots=True)
class _Part:
    """The tables of one process."""

    whole: _Database
    suffix: str
    process: Process = field(default_factory=lambda: Process(None))
    _texts: dict[str, pl.DataFrame] = field(default_factory=dict)

    @property
    def database(self) -> SqliteFile:
        return self.whole.database

    def table(self, base: str) -> SourceTable:
        return self.database.table(base + self.suffix)

    def owner(self) -> tuple[object, int | None]:
        """Machine and number of the process."""
        rows = self.database.records(self.table("rocpd_info_process"))
        row = rows[0] if rows else {}
        pid = row.get("pid")
        command = row.get("command")
        self.process.os_pid = pid if isinstance(pid, int) else None
        if isinstance(command, str) and command.split():
            self.process.command = command.split()[0]
        self.whole.ranks.add(rank_of(_members(row.get("environment"))))
        return row.get("nid"), self.process.os_pid

    def batches(self) -> Iterator[Batch]:
        """All rows of the process."""
        process, records = self.process, self.whole.records
        self._agents()
        tids = self._read("rocpd_info_thread", {"tid": ("{tid}", INT64)})["tid"]
        process.threads = {tid for tid in tids if tid is not None}
        process.by_queue = self._is_by_queue()
        arguments = self._arguments()
        for table in ("rocpd_region", "rocpd_sample"):
            for frame in self._calls(table, arguments):
                yield records.calls(frame, process)
        for frame in self._copies():
            yield records.copies(frame, process)
        values = self._values()
        for frame in self._kernels():
            yield records.kernels(frame, process, values)
        yield from self._counted(values)
        for frame in self._allocations():
            yield records.allocations(frame, process)
        yield from records.memory(process)
        labels = process.labels()
        # They are made from rows that are counted already.
        self.whole.accounted["metadata"] -= sum(part.num_rows for part in labels.values())
        yield labels

    def _agents(self) -> None:
        for row in self.database.records(self.table("rocpd_info_agent")):
            key = row.get("id")
            if not isinstance(key, int) or key < 0:
                continue
            own = _members(row.get("extdata"))
            numbers = (row.get("logical_index"), row.get("absolute_index"), key)
            number = next((n for n in numbers if isinstance(n, int) and 0 <= n < 1 << 31), None)
            names = {k: v for k, v in row.items() if v is not None and k.endswith("name")}
            type_ = row.get("type")
            details = own | names
            self.process.agents[key] = Agent(
                number, type_ if isinstance(type_, str) else None, details
            )

    def _is_by_queue(self) -> bool:
        """Whether no work has a stream, although it was on several queues of an agent."""
        streams = self._read("rocpd_kernel_dispatch", {"of": ("max({stream_id})", INT64)})
        copies = self._read("rocpd_memory_copy", {"of": ("max({stream_id})", INT64)})
        if any((column or 0) > 0 for part in (streams, copies) for column in part["of"].to_list()):
            return False
        table = self.table("rocpd_kernel_dispatch")
        if not table.rows or not {"queue_id", "agent_id"} <= {*table.columns}:
            return False
        queues = self._read(
            "rocpd_kernel_dispatch", {"of": ("count(DISTINCT {queue_id})", INT64)},
            "GROUP BY agent_id",
        )  # fmt: skip
        return max(queues["of"].to_list(), default=0) > 1 and not self._has_hip()

    def _has_hip(self) -> bool:
        texts = self._lookup("rocpd_string", "string").filter(
            pl.col("text").str.contains("^(HIP_|rocm_hip_api$)")
        )
        table = self.table("rocpd_event")
        if not table.rows or not texts.height or "category_id" not in table:
            return False
        used = self.database.read_all(table, {"id": ("DISTINCT category_id", INT64)})["id"]
        return not set(used.to_pylist()).isdisjoint(texts["id"].to_list())

    def _calls(self, base: str, arguments: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Calls; those of a sample have no duration, and are of the thread of a track."""
        is_sample = base == "rocpd_sample"
        table = self.table(base)
        columns = {
            "start": table["timestamp"] if is_sample else table["start"],
            "end": table["timestamp"] if is_sample else table["end"],
            "name_id": table["name_id"],
            "tid": table["tid"],
            "track": table["track_id"],
            "event": table["event_id"],
        }
        messages = self._event_columns("category_id", "correlation", "ancestor", "external")
        selection = {name: (_own(sql), INT64) for name, sql in columns.items()} | messages
        selection["message"] = (self._message(), TEXT)
        counted = self._counted_events() if is_sample else None
        for frame in self._frames(base, selection):
            own = (
                self._on_threads(frame) if counted is None else self._sampled_calls(frame, counted)
            )
            kinds = self._with_text(own, "category_id", "rocpd_string", "string", "kind")
            whole = kinds.join(arguments, on="event", how="left", maintain_order="left")
            message = pl.when(pl.col("message") != "").then("message")
            yield complete(
                whole.with_columns(
                    name=pl.coalesce(message, "kind" if is_sample else "name"),
                    category=_mapped(whole["kind"]),
                ),
                "calls",
            )

    def _on_threads(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Calls with their names and threads."""
        return self._with_threads(
            self._with_text(frame, "name_id", "rocpd_string", "string", "name")
        )

    def _sampled_calls(self, frame: pl.DataFrame, counted: pl.Series) -> pl.DataFrame:
        """Calls without a duration, on the threads of tracks, without values that were sampled."""
        is_value = _is_among(frame["event"], counted)
        self.whole.accounted["metadata"] += int(is_value.sum())
        own = frame.filter(~is_value).drop("tid")
        return own.join(self._tracks(), on="track", how="left", maintain_order="left")

    def _copies(self) -> Iterator[pl.DataFrame]:
        table = self.table("rocpd_memory_copy")
        columns = {
            "start": table["start"],
            "end": table["end"],
            "tid": table["tid"],
            "name_id": table["name_id"],
            "stream": table["stream_id"],
            "queue": table["queue_id"],
            "src": table["src_agent_id"],
            "dst": table["dst_agent_id"],
            "bytes": table["size"],
        }
        selection = {name: (_own(sql), INT64) for name, sql in columns.items()}
        selection |= self._event_columns("correlation")
        for end in ("src", "dst"):
            address = _own(table[f"{end}_address"])
            text = f"CASE WHEN {address} <> 0 THEN CAST({address} AS TEXT) END"
            selection[f"{end}_address"] = (text, TEXT)
        for frame in self._frames("rocpd_memory_copy", selection):
            yield complete(self._on_threads(frame), "copies")

    def _kernels(self) -> Iterator[pl.DataFrame]:
        table = self.table("rocpd_kernel_dispatch")
        columns = {
            "start": table["start"],
            "end": table["end"],
            "tid": table["tid"],
            "stream": table["stream_id"],
            "queue": table["queue_id"],
            "agent": table["agent_id"],
            "key": table["event_id"],
            "kernel_id": table["kernel_id"],
            "dispatch_id": table["dispatch_id"],
            "scratch": table["private_segment_size"],
            "lds": table["group_segment_size"],
            "region_id": table["region_name_id"],
            **{
                f"{word}_{axis}": table[f"{word}_size_{axis}"]
                for word in ("workgroup", "grid")
                for axis in "xyz"
            },
        }
        selection = {name: (_own(sql), INT64) for name, sql in columns.items()}
        selection |= self._event_columns("correlation", "external")
        symbols = self._symbols()
        for frame in self._frames("rocpd_kernel_dispatch", selection):
            regions = self._with_text(frame, "region_id", "rocpd_string", "string", "region")
            whole = regions.join(symbols, on="kernel_id", how="left", maintain_order="left")
            is_lost = pl.col("kernel_id").is_not_null() & pl.col("name").is_null()
            self.whole.lost_texts += whole.filter(is_lost).height
            yield complete(self._with_threads(whole), "kernels")

    def _symbols(self) -> pl.DataFrame:
        table = self.table("rocpd_info_kernel_symbol")
        name = f"coalesce(nullif({table['display_name']}, ''), {table['kernel_name']})"
        selection: Selection = {
            "kernel_id": (table["id"], INT64),
            "name": (name, TEXT),
            "vgprs": (table["arch_vgpr_count"], INT64),
            "accum_vgprs": (table["accum_vgpr_count"], INT64),
            "sgprs": (table["sgpr_count"], INT64),
        }
        return _unique(pl.DataFrame(self.database.read_all(table, selection)), "kernel_id")

    def _allocations(self) -> Iterator[pl.DataFrame]:
        table = self.table("rocpd_memory_allocate")
        columns = {
            "start": table["start"],
            "end": table["end"],
            "tid": table["tid"],
            "agent": table["agent_id"],
            "address": table["address"],
            "bytes": table["size"],
            "stream": table["stream_id"],
            "queue": table["queue_id"],
        }
        selection: dict[str, tuple[str, pa.DataType]] = {
            name: (_own(sql), INT64) for name, sql in columns.items()
        }
        selection["address"] = (f"nullif({_own(table['address'])}, 0)", INT64)
        selection |= self._event_columns("correlation")
        selection |= {
            "kind": (_own(table["type"]), TEXT),
            "level": (_own(table["level"]), TEXT),
            "flags": (_member(_own(table["extdata"]), "flags", "INTEGER"), INT64),
        }
        is_scratch = pl.col("level") == "SCRATCH"
        scratch = pl.col("kind").replace({"RECLAIM": "ASYNC_RECLAIM"})
        word = pl.when(pl.col("kind") == "ALLOC").then(pl.lit("ALLOCATE")).otherwise("kind")
        real = pl.concat_str(
            pl.lit(_PREFIX), pl.col("level").replace_strict(_LEVELS, default=""), word
        )
        for frame in self._frames("rocpd_memory_allocate", selection):
            whole = frame.with_columns(
                name=pl.when(is_scratch)
                .then(pl.concat_str(pl.lit("SCRATCH_MEMORY_"), scratch))
                .otherwise(real),
                category=pl.when(is_scratch).then(pl.lit(SCRATCH)).otherwise(pl.lit(ALLOCATION)),
                is_allocation=pl.col("kind").is_in(["ALLOC", "REALLOC"]).fill_null(value=False),
            )
            yield complete(self._with_threads(whole), "allocations")

    def _values(self) -> pl.DataFrame:
        """Hardware counters by event, added up over the instances of a counter."""
        table = self.table("rocpd_pmc_event")
        empty = pl.DataFrame(schema=VALUES)
        if not table.rows or not {"event_id", "pmc_id", "value"} <= {*table.columns}:
            self.whole.records.extra["dropped"] += table.rows
            return empty
        columns = {
            "key": ("event_id", INT64),
            "pmc": ("pmc_id", INT64),
            "value": (
                "sum(CASE WHEN typeof(value) IN ('integer', 'real') THEN value END)",
                DOUBLE,
            ),
            "records": ("count(*)", INT64),
        }
        rows = self.database.read_all(table, columns, "GROUP BY event_id, pmc_id")
        frame = pl.DataFrame(rows)
        frame = self._with_text(frame, "pmc", "rocpd_info_pmc", "name", "name")
        frame = frame.join(self._measures(), on="pmc", how="left", maintain_order="left")
        return frame.select(
            pl.col(name).cast(type_, strict=False) for name, type_ in VALUES.items()
        )

    def _measures(self) -> pl.DataFrame:
        """Units of counters, and what agents they are of."""
        table = self.table("rocpd_info_pmc")
        selection = {
            "pmc": (table["id"], INT64),
            "agent": (table["agent_id"], INT64),
            "unit": (f"nullif({table['units']}, '')", TEXT),
        }
        return _unique(pl.DataFrame(self.database.read_all(table, selection)), "pmc")

    def _counted_events(self) -> pl.Series:
        """Events that have hardware counters, or other sampled values."""
        table = self.table("rocpd_pmc_event")
        if not table.rows or "event_id" not in table:
            return pl.Series("id", [], pl.Int64)
        rows = self.database.read_all(table, {"id": ("DISTINCT event_id", INT64)})
        return pl.Series("id", rows["id"]).drop_nulls()

    def _counted(self, values: pl.DataFrame) -> Iterator[Batch]:
        """Counters of kernels, and values that were sampled."""
        if not values.height:
            return
        kernels = self._events_of("rocpd_kernel_dispatch")
        samples = self._sampled()
        of_kernel = _is_among(values["key"], kernels)
        yield from self.whole.records.counters(values.filter(of_kernel), self.process)
        rest = values.filter(~of_kernel)
        sampled = rest.join(samples, on="key", how="inner", maintain_order="left")
        yield from self.whole.records.samples(sampled, self.process)
        lost = int(rest["records"].sum()) - int(sampled["records"].sum())
        self.whole.records.extra["dropped"] += lost

    def _events_of(self, base: str) -> pl.Series:
        table = self.table(base)
        if not table.rows or "event_id" not in table:
            return pl.Series("id", [], pl.Int64)
        return pl.Series("id", self.database.read_all(table, {"id": ("event_id", INT64)})["id"])

    def _sampled(self) -> pl.DataFrame:
        """Times and threads of samples, by their events."""
        table = self.table("rocpd_sample")
        selection = {
            "key": (table["event_id"], INT64),
            "start": (table["timestamp"], INT64),
            "track": (table["track_id"], INT64),
        }
        rows = pl.DataFrame(self.database.read_all(table, selection))
        rows = rows.join(self._tracks(), on="track", how="left", maintain_order="left")
        return _unique(rows.select("key", "start", "tid"), "key")

    def _tracks(self) -> pl.DataFrame:
        table = self.table("rocpd_track")
        selection = {"track": (table["id"], INT64), "tid": (table["tid"], INT64)}
        frame = pl.DataFrame(self.database.read_all(table, selection))
        return _unique(self._with_threads(frame), "track")

    def _arguments(self) -> pl.DataFrame:
        """Arguments of calls, as one JSON object for each event."""
        table = self.table("rocpd_arg")
        if not table.rows or not {"event_id", "name", "value"} <= {*table.columns}:
            return pl.DataFrame(schema={"event": pl.Int64, "arguments": pl.String})
        name = "coalesce(CAST(name AS TEXT), '')"
        value = "CASE typeof(value) WHEN 'blob' THEN hex(value) ELSE value END"
        selection = {
            "event": ("event_id", INT64),
            "arguments": (f"json_group_object({name}, {value})", TEXT),
        }
        rows = self.database.read_all(table, selection, "GROUP BY event_id")
        return _unique(pl.DataFrame(rows), "event")

    def _event_columns(self, *names: str) -> dict[str, tuple[str, pa.DataType]]:
        """Columns of the events that rows refer to, where there are any."""
        event = self.table("rocpd_event")
        source = {
            "category_id": "category_id",
            "correlation": "stack_id",
            "ancestor": "parent_stack_id",
            "external": "correlation_id",
        }
        return {
            name: (
                f"e.{event[source[name]]}" if self._can_join and source[name] in event else "NULL",
                INT64,
            )
            for name in names
        }

    def _message(self) -> str:
        """SQL of the text of a marker."""
        event = self.table("rocpd_event")
        if not self._can_join or "extdata" not in event:
            return "NULL"
        return _member("e.extdata", "message", "TEXT")

    @property
    def _can_join(self) -> bool:
        event = self.table("rocpd_event")
        return event.rows > 0 and "id" in event

    def _frames(self, base: str, selection: Selection) -> Iterator[pl.DataFrame]:
        """Rows of a table beside their events, some thousand at a time."""
        table = self.table(base)
        joins = self._can_join and "event_id" in table
        event = quoted(self.table("rocpd_event").name)
        where = f"AS t LEFT JOIN {event} AS e ON e.id = t.event_id" if joins else "AS t"
        if not joins:
            selection = {
                n: ("NULL" if sql.startswith("e.") or "e.extdata" in sql else sql, t)
                for n, (sql, t) in selection.items()
            }
        for columns in self.database.batches(table, selection, where):
            yield pl.DataFrame(columns)

    def _read(
        self, base: str, columns: Mapping[str, tuple[str, pa.DataType]], where: str = ""
    ) -> pl.DataFrame:
        """Some columns of a small table, or totals of a large one."""
        table = self.table(base)
        selection = {name: (sql.format_map(table), type_) for name, (sql, type_) in columns.items()}
        return pl.DataFrame(self.database.read_all(table, selection, where))

    def _with_text(
        self, frame: pl.DataFrame, number: str, base: str, column: str, name: str
    ) -> pl.DataFrame:
        """The frame with the text of a number in another table; a text that is absent is noted."""
        texts = self._lookup(base, column).rename({"id": number, "text": name})
        frame = frame.join(texts, on=number, how="left", maintain_order="left")
        is_lost = pl.col(number).is_not_null() & pl.col(name).is_null()
        self.whole.lost_texts += frame.filter(is_lost).height
        return frame

    def _lookup(self, base: str, column: str) -> pl.DataFrame:
        if base not in self._texts:
            table = self.table(base)
            selection = {"id": (table["id"], INT64), "text": (table[column], TEXT)}
            frame = pl.DataFrame(self.database.read_all(table, selection))
            self._texts[base] = _unique(frame, "id")
        return self._texts[base]

    def _with_threads(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The frame with numbers of the system in place of those of rows of threads."""
        if "threads" not in self._texts:
            table = self.table("rocpd_info_thread")
            selection = {"tid": (table["id"], INT64), "own": (table["tid"], INT64)}
            rows = pl.DataFrame(self.database.read_all(table, selection))
            self._texts["threads"] = _unique(rows, "tid")
        joined = frame.join(self._texts["threads"], on="tid", how="left", maintain_order="left")
        return joined.with_columns(tid=pl.coalesce("own", "tid")).drop("own")


def _own(sql: str) -> str:
    """SQL of a column of the table itself, which is joined with another."""
    return sql if sql == "NULL" else f"t.{sql}"


def _member(sql: str, name: str, type_: str) -> str:
    """SQL of a member of JSON text, if it is any."""
    if sql == "NULL":
        return sql
    valid = f"typeof({sql}) = 'text' AND json_valid({sql})"
    return f"CASE WHEN {valid} THEN CAST(json_extract({sql}, '$.{name}') AS {type_}) END"


def _members(text: object) -> dict[str, Any]:
    try:
        value = exact.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _is_among(values: pl.Series, others: pl.Series) -> pl.Series:
    """Which values are among the others; NULL is not."""
    marked = pl.DataFrame({"value": others.unique()}).with_columns(is_among=pl.lit(value=True))
    joined = (
        values.rename("value")
        .to_frame()
        .join(marked, on="value", how="left", maintain_order="left")
    )
    return joined["is_among"].fill_null(value=False)


def _unique(frame: pl.DataFrame, key: str) -> pl.DataFrame:
    return frame.filter(pl.col(key).is_not_null()).unique(key, keep="first", maintain_order=True)


def _mapped(kinds: pl.Series) -> pl.Series:
    """Categories of kinds, each looked at once."""
    distinct = [kind for kind in kinds.unique().to_list() if kind is not None]
    words = {kind: category_of(kind) for kind in distinct}
    return kinds.replace_strict(words, default=None, return_dtype=pl.String) if words else kinds
