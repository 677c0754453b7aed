"""The table that an event goes to, by its members, and its columns there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from profframe.readers.build.counters import device_of_name, device_of_process, unit_of
from profframe.readers.build.decimal_time import nanoseconds
from profframe.readers.build.row_tables import Batch, RowTable, conform, has_values, nulls
from profframe.readers.chrome.job import ids_before

DEVICE_CATEGORIES: Final = (
    "kernel", "Kernel", "concurrent_kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset",
    "gpu_user_annotation", "cuda_sync", "cuda_event", "graph_event_node", "graph_host_node",
    "mtia_ccp_events", "hpu_op", "kernel_dispatch", "memory_copy",
)  # fmt: skip
ALLOCATOR_DEVICES: Final = (
    "CPU", "CUDA", "MKLDNN", "OPENGL", "OPENCL", "IDEEP", "HIP", "FPGA", "MAIA", "XLA", "VULKAN",
    "METAL", "XPU", "MPS", "META", "HPU", "VE", "LAZY", "IPU", "MTIA", "PRIVATEUSEONE",
)  # fmt: skip
"""c10::DeviceType by number."""
ASYNC_PHASES: Final = ("b", "e", "S", "F")
"""Begin and end of an asynchronous operation; capitals are the older form."""
_TABLES: Final = {"C": RowTable.COUNTERS} | (
    dict.fromkeys(("X", "B", "E", *ASYNC_PHASES), RowTable.EVENTS)
    | dict.fromkeys("stf", RowTable.FLOWS)
)
"""Table of each phase; any other phase is an instant."""
LAUNCH_ARROWS: Final = "ac2g"
"""Category of arrows from calls to what they launch."""
GRAPH_DEPENDENCY: Final = "graph_dependency"
"""Category of arrows between graph nodes, which torch writes like those of launches."""
FIRST_DEPENDENCY: Final = 1 << 40
"""Ids of such arrows begin here; others are correlations, of 32 bits."""
_DEVICE_TEXT: Final = r'"device"\s*:\s*"[^"\\]*?(\d{1,9})"'
"""The number of a device that the arguments name by a text."""
_COUNTING: Final = ("cuda_profiler_range",)
"""Categories of slices whose arguments are what was counted while they ran."""
_INTEGER_ARGS: Final = (
    "External id", "correlation", "device", "stream", "Stream Id", "original_stream",
    "Sequence number", "Fwd thread id", "Ev Idx", "Python id", "Python parent id",
    "Python module id", "Addr", "Bytes", "Device Type", "Device Id", "Total Allocated",
    "Total Reserved",
)  # fmt: skip
_TEXT_ARGS: Final = (
    "Module Hierarchy", "Input Dims", "Input type", "Input Strides", "Concrete Inputs",
    "Call stack",
)  # fmt: skip
LAUNCH_MEMBERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("grid", "block"), "VARCHAR"),
        **dict.fromkeys(("registers per thread", "shared memory"), "BIGINT"),
        **dict.fromkeys(("blocks per SM", "est. achieved occupancy %"), "DOUBLE"),
        **dict.fromkeys(("graph id", "graph node id"), "BIGINT"),
    }
)
"""Arguments of kernels that say how they were launched, and their SQL types."""
ARGS: Final[Mapping[str, str]] = MappingProxyType(
    dict.fromkeys(_INTEGER_ARGS, "BIGINT")
    | dict.fromkeys(_TEXT_ARGS, "VARCHAR")
    | {"finished": "BOOLEAN", **LAUNCH_MEMBERS}
)
"""Members of an event's arguments that are read, and their SQL types."""
OLD_ARGS: Final[Mapping[str, str]] = MappingProxyType(
    {"external id": "BIGINT", "Input dims": "VARCHAR"}
)
"""Spellings until 2021; their columns have ``old.`` before the name."""
_MOST_REGISTERS: Final = 2**31 - 1
MEMORY_NAME: Final = "[memory]"
INSTANT_CATEGORY: Final = "cpu_instant_event"
_MEMORY_CATEGORIES: Final = (None, INSTANT_CATEGORY)
OWN_KEY: Final = "profframe"
"""Header member of an exported trace; also category and process of the tracks in it."""
OWN_ARGS_KEY: Final = "profframe columns"
"""Member among the arguments of slices in an exported trace."""
OWN_COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "scope": "INTEGER",
        "overload_name": "VARCHAR",
        **dict.fromkeys(("is_async", "is_remote", "is_legacy"), "BOOLEAN"),
        **dict.fromkeys(("node_id", "device", "stream"), "BIGINT"),
        **dict.fromkeys(
            ("torch_flops", "cpu_bytes", "device_bytes", "kernel_ns", "named_by"), "BIGINT"
        ),
        **dict.fromkeys(("grid", "block"), "VARCHAR"),
        **dict.fromkeys(("registers", "shared_memory_bytes"), "BIGINT"),
    }
)
"""Columns that Kineto never or not always writes, and their SQL types."""
OWN_CATEGORY: Final = "category"
"""Member next to them for the category of an allocation."""
_LIST_PROCESS: Final = "CPU functions"
"""Process of the events that `EventList.export_chrome_trace` writes."""
_LIST_DEVICES: Final = "CUDA functions"
"""Process of the kernels that it wrote until 2021; their threads are devices."""
_ON_NODE: Final = re.compile(r"\s*node_id:(-?\d{1,18}), thread_id:\d+\s*")
_LABELS: Final = (
    "process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index",
)  # fmt: skip
SOURCE_PID: Final = "source pid"
"""Member with the id that the process of an event had where it was recorded."""
_KEYS: Final = {"pid": "pid", "tid": "tid", "bad_time": "bad_time", "rounded": "rounded"}
_MARK: Final = _KEYS | {"time_ns": "time_ns"}
_TEXTS: Final = {"category": "cat", "name": "name", "args": "args"}
_PHASED: Final = _TEXTS | {"phase": "ph"}
MEMBERS: Final[Mapping[RowTable, Mapping[str, str]]] = {
    RowTable.EVENTS: {
        **_KEYS,
        **_PHASED,
        "start_ns": "time_ns",
        "dur_ns": "dur_ns",
        "bad_dur": "bad_dur",
        "correlation": "correlation",
        "external_id": "External id",
        "fwd_thread": "Fwd thread id",
        "python_id": "Python id",
        "python_parent_id": "Python parent id",
        "python_module_id": "Python module id",
        "module_hierarchy": "Module Hierarchy",
        "input_types": "Input type",
        "concrete_inputs": "Concrete Inputs",
        "ev_idx": "Ev Idx",
    },
    RowTable.MEMORY: {
        **_MARK,
        "address": "Addr",
        "bytes": "Bytes",
        "total_allocated_bytes": "Total Allocated",
        "total_reserved_bytes": "Total Reserved",
    },
    RowTable.FLOWS: {**_MARK, **_PHASED, "flow_id": "id", "binding_point": "bp"},
    RowTable.COUNTERS: {**_MARK, **_TEXTS, "counter_id": "id"},
    RowTable.THREADS: {"name": "name", "pid": "pid", "tid": "tid", "args": "args"},
    RowTable.INSTANTS: {**_MARK, **_PHASED, "instant_id": "id", "scope": "s", "dur_ns": "dur_ns"},
}
"""Columns of each table that are unchanged members or arguments."""
_NUMBERS_OF_MEMORY: Final = ("Addr", "Bytes", "Total Allocated", "Total Reserved")
ARGS_OF_MEMORY: Final = (*_NUMBERS_OF_MEMORY, "Device Type", "Device Id")
_ZERO, _NO_NUMBER = pa.scalar(0, pa.int64()), pa.scalar(None, pa.int64())
_DEVICE_TYPES: Final = pa.scalar(len(ALLOCATOR_DEVICES), pa.int64())


def batch_of(
    members: Mapping[str, pa.Array], source_pids: Mapping[str, str | None] = MappingProxyType({})
) -> Batch:
    """Rows by the table that they go to.

    Parameters
    ----------
    members
        Arrays of the members of events and of their arguments, by name; those in ``old.`` have an
        old spelling, and ``time_text.`` is there if a time could not be read. Instead of the
        decimals ``ts`` and ``dur`` there may be the result of `_times`.
    source_pids
        The ids that processes had where the events were recorded: devices are recognised by them.
    """
    members = dict(members)
    for name in ("ph", "cat", "name", "pid", "tid"):
        members[name] = pc.dictionary_encode(members[name])
    members[SOURCE_PID] = source_pid(members["pid"], source_pids)
    if "full_id" in members:
        members["id"] = pc.coalesce(members["full_id"], members["id"])
    if "time_ns" not in members:
        members |= _times(members)
    destinations = _destinations(members)
    tables = np.flatnonzero(np.bincount(destinations, minlength=len(RowTable)))
    batch: dict[RowTable, pa.Table] = {}
    for table in map(RowTable, tables.tolist()):
        rows = _FilteredMembers(members, pa.array(destinations == table))
        batch[table] = rows_of(table, rows, source_pids)
    return batch


class Members(Protocol):
    """Members of the events that go to one table, and of their arguments, by name."""

    def __getitem__(self, name: str) -> pa.Array: ...

    def __contains__(self, name: str) -> bool: ...

    def all(self, names: Mapping[str, str]) -> dict[str, pa.Array]:
        """Columns by their names in the schema."""
        ...


def rows_of(
    table: RowTable, rows: Members, source_pids: Mapping[str, str | None] = MappingProxyType({})
) -> pa.Table:
    """Rows of one table, from the members of its events."""
    columns = rows.all(MEMBERS[table])
    if table is RowTable.EVENTS:
        columns |= _event_columns(rows, columns["external_id"])
    elif table is RowTable.MEMORY:
        columns |= _device_of_memory(rows) | _category_of_memory(rows)
        columns["is_odd"] = _lacks_numbers(rows["args"], columns)
    elif table is RowTable.FLOWS:
        ids = ids_before(columns["flow_id"]) if source_pids else columns["flow_id"]
        columns["category"] = _flow_category(columns["category"], ids)
    elif table is RowTable.COUNTERS:
        columns |= _counted(columns["name"], rows[SOURCE_PID], columns["category"])
    return conform(table, columns)


def source_pid(pid: pa.DictionaryArray, names: Mapping[str, str | None]) -> pa.DictionaryArray:
    """Ids of processes where the events were recorded."""
    if not names:
        return pid
    texts = [names.get(text, text) for text in pid.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(pid.indices).dictionary_encode()


class _FilteredMembers:
    """Members of some rows, copied when they are read.

    They must be copies: a column from DuckDB would keep its whole result in memory.
    """

    def __init__(self, members: Mapping[str, pa.Array], mask: pa.Array) -> None:
        self._members = members
        self._mask = mask
        self._nulls_of = nulls(mask.true_count)
        self._filtered: dict[str, pa.Array] = {}

    def __getitem__(self, name: str) -> pa.Array:
        if name not in self._filtered:
            values = self._members[name]
            self._filtered[name] = (
                values.filter(self._mask) if has_values(values) else self._nulls_of(values.type)
            )
        return self._filtered[name]

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def all(self, names: Mapping[str, str]) -> dict[str, pa.Array]:
        """Columns by their names in the schema."""
        used = dict.fromkeys(n for n in names.values() if has_values(self._members[n]))
        if used:
            arrays = [self._members[name] for name in used]
            rows = pa.RecordBatch.from_arrays(arrays, names=[*used]).filter(self._mask)
            self._filtered |= zip(used, rows.columns, strict=True)
        return {column: self[name] for column, name in names.items()}


def _times(members: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """Times in nanoseconds, and flags of those that are bad or rounded."""
    start, duration = nanoseconds(members["ts"]), nanoseconds(members["dur"])
    bad_start, bad_duration = start.bad, duration.bad
    if "time_text.ts" in members:
        bad_start = bad_start | _unread(members["time_text.ts"], members["ts"])
        bad_duration = bad_duration | _unread(members["time_text.dur"], members["dur"])
    # No other event needs one: the text of times is not always there to tell.
    bad_start = bad_start & ~_is(members["ph"], ("M",))
    bad_duration = bad_duration & _is(members["ph"], ("X",))
    return {
        "time_ns": start.ns,
        "dur_ns": duration.ns,
        "bad_time": pa.array(bad_start),
        "bad_dur": pa.array(bad_duration),
        "rounded": pa.array(start.rounded | duration.rounded),
    }


def _unread(text: pa.Array, value: pa.Array) -> npt.NDArray[np.bool_]:
    unread = pc.and_(pc.is_valid(text), pc.is_null(value))
    flags: npt.NDArray[np.bool_] = unread.to_numpy(zero_copy_only=False)
    return flags


def _destinations(members: Mapping[str, pa.Array]) -> npt.NDArray[np.int8]:
    """The table of each row: by its phase, except for memory, labels, and slices we added."""
    phases = members["ph"].dictionary.to_pylist()
    tables = _by_code(
        members["ph"], [_TABLES.get(p, RowTable.INSTANTS) for p in phases], RowTable.INSTANTS
    )
    is_memory = _is(members["name"], (MEMORY_NAME,)) & _is(members["cat"], _MEMORY_CATEGORIES)
    tables[is_memory & _is(members["ph"], ("i", "I", "X"))] = RowTable.MEMORY
    tables[_is(members["ph"], ("M",)) & _is(members["name"], _LABELS)] = RowTable.THREADS
    tables[_is(members["cat"], (OWN_KEY,)) & _is(members["ph"], ("X",))] = RowTable.INSTANTS
    return tables


def _by_code(
    encoded: pa.DictionaryArray, values: Sequence[int], missing: int
) -> npt.NDArray[np.int8]:
    """A small number for each row, by its text."""
    indices = encoded.indices
    codes = (indices.fill_null(len(values)) if indices.null_count else indices).to_numpy()
    numbers: npt.NDArray[np.int8] = np.array([*values, missing], np.int8)[codes]
    return numbers


def _is(encoded: pa.DictionaryArray, texts: Sequence[str | None]) -> npt.NDArray[np.bool_]:
    """Rows whose text is one of these."""
    values = [text in texts for text in encoded.dictionary.to_pylist()]
    return _by_code(encoded, values, None in texts) > 0


def _event_columns(rows: Members, external_id: pa.Array) -> dict[str, pa.Array]:
    """Columns of slices that need more than a copy of a member."""
    input_dims = rows["Input Dims"]
    if "old.external id" in rows:
        external_id = pc.coalesce(external_id, rows["old.external id"])
    if "old.Input dims" in rows:
        input_dims = pc.coalesce(
            *(rows[n].cast(pa.string()) for n in ("Input Dims", "old.Input dims"))
        )
    finished = rows["finished"]
    derived: dict[str, tuple[pa.Array, Callable[[pa.Array], pa.Array]]] = {
        "sequence_nr": (rows["Sequence number"], _not_negative),
        "is_async": (finished, _unfinished),
        "input_dims": (input_dims, partial(_on_texts, function=_without_spaces)),
        "input_strides": (rows["Input Strides"], partial(_on_texts, function=_without_spaces)),
        "stack": (rows["Call stack"], partial(_on_texts, function=_without_last_mark)),
    }
    columns = {
        "external_id": external_id,
        **{name: of(values) for name, (values, of) in derived.items() if has_values(values)},
        **_device_columns(rows),
        **_node_columns(rows),
        **_async_columns(rows, finished),
        **_arrow_columns(rows),
    }
    columns |= _launch_columns(rows, columns.get("device"))
    if (counts := _is(rows["cat"], _COUNTING)).any():
        columns["counts"] = pa.array(counts, mask=~counts)
    return columns | _exported_columns(rows, columns)


def _not_negative(values: pa.Array) -> pa.Array:
    return pc.if_else(pc.greater_equal(values, _ZERO), values, _NO_NUMBER)


def _unfinished(finished: pa.Array) -> pa.Array:
    """Whether slices are asynchronous: those that are finished may not be."""
    return pc.if_else(finished, pa.scalar(None, pa.bool_()), pc.invert(finished))


def _without_last_mark(stacks: pa.Array) -> pa.Array:
    return pc.utf8_rtrim(stacks, characters=";")


def _exported_columns(rows: Members, columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """Columns in an exported trace, which take precedence over derived ones."""
    if f"{OWN_KEY}.{next(iter(OWN_COLUMNS))}" not in rows:
        return {}
    exported = rows.all({column: f"{OWN_KEY}.{column}" for column in OWN_COLUMNS})
    return {
        column: pc.coalesce(values, columns[column]) if column in columns else values
        for column, values in exported.items()
        if values.null_count < len(values)
    }


def _device_columns(rows: Members) -> dict[str, pa.Array]:
    """Device and stream of device events: from the arguments, else from process and thread."""
    is_device = _is(rows["cat"], DEVICE_CATEGORIES)
    on_device = is_device | rows["Stream Id"].is_valid().to_numpy(zero_copy_only=False)
    in_list = _is(rows[SOURCE_PID], (_LIST_DEVICES,))
    if not (on_device | in_list).any():
        return {}
    line = _numbers(rows["tid"])
    by_process = pc.if_else(pa.array(is_device), _numbers(rows[SOURCE_PID]), None)
    device = _with_named(rows["device"], rows["args"], pa.array(is_device))
    device = pc.coalesce(device, by_process)
    stream = pc.coalesce(
        rows["original_stream"],
        _stream_of_nodes(rows, line),
        rows["stream"],
        rows["Stream Id"],
        line,
    )
    mask = pa.array(on_device)
    return {
        "device": pc.if_else(mask, device, pc.if_else(pa.array(in_list), line, None)),
        "stream": pc.if_else(mask, stream, None),
    }


def _with_named(device: pa.Array, args: pa.Array, is_device: pa.Array) -> pa.Array:
    """Devices, with the numbers of those that the arguments name by a text, such as "amd:0"."""
    unread = pc.and_(is_device, pc.is_null(device))
    if not pc.any(unread).as_py():
        return device
    texts = pl.Series(pc.if_else(unread, args, None)).str.extract(_DEVICE_TEXT)
    return pc.coalesce(device, texts.cast(pl.Int64).to_arrow())


def _stream_of_nodes(rows: Members, line: pa.Array) -> pa.Array:
    """Stream of graph nodes that were not moved to another lane: the line that they are on.

    Their annotations are among the arguments, and those of torch's `mark_stream` have their own
    member ``stream``, that of the capture, which hides that of the replay.
    """
    nodes = rows["graph node id"]
    if not has_values(nodes):
        return pa.nulls(len(line), pa.int64())
    is_node = pc.is_valid(nodes)
    is_on_own_line = pc.equal(_numbers(rows[SOURCE_PID]), rows["device"])
    return pc.if_else(pc.and_(is_node, pc.fill_null(is_on_own_line, fill_value=False)), line, None)


def _launch_columns(rows: Members, device: pa.Array | None) -> dict[str, pa.Array]:
    """Launches of device work; calls have such arguments, too."""
    if device is None:
        return {}
    on_device = pc.or_(pc.is_valid(device), pa.array(_is(rows["cat"], DEVICE_CATEGORIES)))
    columns = {
        name: _masked(values, on_device)
        for name, values in launch_columns([rows[name] for name in LAUNCH_MEMBERS]).items()
    }
    return {name: values for name, values in columns.items() if has_values(values)}


def launch_columns(members: Sequence[pa.Array]) -> dict[str, pa.Array]:
    """How kernels were launched, and how they fill a device, in the order of `LAUNCH_MEMBERS`."""
    grid, block, registers, shared, blocks, occupancy, graph, node = members
    columns: dict[str, tuple[pa.Array, Callable[[pa.Array], pa.Array]]] = {
        "grid": (grid, _sizes),
        "block": (block, _sizes),
        "registers": (registers, _registers),
        "shared_memory_bytes": (shared, lambda of: _where(pc.greater_equal(of, 0), of)),
        "blocks_per_sm": (blocks, lambda of: _where(_is_rate(of), of)),
        "occupancy": (occupancy, lambda of: _where(_is_rate(of), pc.divide(of, 100.0))),
        "graph_id": (graph, lambda of: _where(pc.greater(of, 0), of)),
        "graph_node_id": (node, lambda of: _where(_is_node(of, graph), of)),
    }
    return {name: of(values) for name, (values, of) in columns.items() if has_values(values)}


def _where(is_sound: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(is_sound, values, None)


def _masked(values: pa.Array, mask: pa.Array) -> pa.Array:
    """The values of some rows; of texts in a dictionary only the codes are looked at."""
    if not pa.types.is_dictionary(values.type):
        return pc.if_else(mask, values, None)
    codes = pc.if_else(mask, values.indices, None)
    return pa.DictionaryArray.from_arrays(codes, values.dictionary, safe=False)


def _sizes(texts: pa.Array) -> pa.Array:
    def lists(words: pa.Array) -> pa.Array:
        return _where(pc.starts_with(words, "["), pc.replace_substring(words, " ", ""))

    return _on_texts(texts, lists)


def _registers(values: pa.Array) -> pa.Array:
    fits = pc.and_(pc.greater_equal(values, 0), pc.less_equal(values, _MOST_REGISTERS))
    return _where(fits, values)


def _is_node(node: pa.Array, graph: pa.Array) -> pa.Array:
    """Work in graphs: the low 32 bits alone would number the first node 0, like other work."""
    is_in_graph = pc.fill_null(pc.greater(graph, 0), fill_value=False)
    return pc.or_kleene(pc.greater(node, 0), pc.and_(pc.equal(node, 0), is_in_graph))


def _is_rate(values: pa.Array) -> pa.Array:
    return pc.and_(pc.greater_equal(values, 0), pc.is_finite(values))


def _node_columns(rows: Members) -> dict[str, pa.Array]:
    """Node of remote events, from the thread names in torch's lists of events."""
    in_list = _is(rows[SOURCE_PID], (_LIST_PROCESS,))
    if not in_list.any():
        return {}
    tid = rows["tid"]
    matches = [_ON_NODE.fullmatch(text) for text in tid.dictionary.to_pylist()]
    node = pa.array([int(m[1]) if m else None for m in matches], pa.int64()).take(tid.indices)
    mask = pa.array(in_list)
    return {
        "node_id": pc.if_else(mask, node, None),
        "is_remote": pc.if_else(mask, node.is_valid(), None),
    }


def _async_columns(rows: Members, finished: pa.Array) -> dict[str, pa.Array]:
    """Operations of slices that are not on a thread's stack."""
    is_async = _is(rows["ph"], ASYNC_PHASES)
    if not is_async.any():
        return {}
    mask = pa.array(is_async)
    return {
        "is_async": pc.if_else(mask, pa.scalar(True), _unfinished(finished)),
        "async_id": pc.if_else(mask, pc.fill_null(rows["id"], ""), None),
    }


def _arrow_columns(rows: Members) -> dict[str, pa.Array]:
    """Arrows that slices name themselves, and whether they start, continue or end there."""
    if "bind_id" not in rows:
        return {}
    leaves, comes = rows["flow_out"], rows["flow_in"]
    phase = pc.if_else(leaves, pc.if_else(comes, "t", "s"), pc.if_else(comes, "f", None))
    # The end of a pair is not a slice.
    phase = pc.if_else(pa.array(_is(rows["ph"], ("E", "e", "F"))), None, phase)
    return {
        "arrow_id": pc.if_else(pc.is_valid(phase), rows["bind_id"], None),
        "arrow_phase": phase,
    }


def _numbers(encoded: pa.DictionaryArray) -> pa.Array:
    """The number that a name is or ends in, as in "stream 7"."""
    matches = (re.search(r"(?:\A|\s)(\d{1,9})\Z", t) for t in encoded.dictionary.to_pylist())
    numbers = [int(match.group(1)) if match else None for match in matches]
    return pa.array(numbers, pa.int64()).take(encoded.indices)


def _on_texts(texts: pa.Array, function: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """A function applied to each distinct text."""
    encoded = pc.dictionary_encode(texts)
    results = function(encoded.dictionary)
    if results.equals(encoded.dictionary):
        return encoded
    results = pc.dictionary_encode(results)
    return pa.DictionaryArray.from_arrays(results.indices.take(encoded.indices), results.dictionary)


def _without_spaces(texts: pa.Array) -> pa.Array:
    """JSON lists without spaces; other text stays as it is."""
    is_list = pc.starts_with(texts, "[")
    return pc.if_else(is_list, pc.replace_substring(texts, " ", ""), texts)


def _flow_category(category: pa.DictionaryArray, flow_id: pa.Array) -> pa.Array:
    """Categories of arrows, with a separate one for those between graph nodes."""
    if LAUNCH_ARROWS not in category.dictionary.to_pylist():
        return category
    is_long = pc.match_substring_regex(flow_id, r"^[0-9]{13,18}$")
    is_long = pc.fill_null(is_long, fill_value=False)  # an arrow without an id keeps its category
    number = pc.if_else(is_long, flow_id, "0").cast(pa.int64())
    between_nodes = pc.and_(
        pa.array(_is(category, (LAUNCH_ARROWS,))), pc.greater_equal(number, FIRST_DEPENDENCY)
    )
    if not pc.any(between_nodes).as_py():
        return category
    return pc.if_else(between_nodes, GRAPH_DEPENDENCY, category.cast(pa.string()))


def _counted(
    name: pa.DictionaryArray, pid: pa.DictionaryArray, category: pa.DictionaryArray
) -> dict[str, pa.Array]:
    """Unit and device of counters, if name and process say them."""
    names, pids, categories = (
        [*column.dictionary.to_pylist(), None] for column in (name, pid, category)
    )
    of_name = pa.array([device_of_name(text) for text in names[:-1]], pa.int64())
    width = len(categories)
    pair = pc.add(
        pc.multiply(pc.fill_null(pid.indices, len(pids) - 1).cast(pa.int64()), width),
        pc.fill_null(category.indices, width - 1).cast(pa.int64()),
    ).dictionary_encode()
    of_process = pa.array(
        [
            device_of_process(pids[both // width], categories[both % width])
            for both in pair.dictionary.to_pylist()
        ],
        pa.int64(),
    )
    units = pa.array([unit_of(text) for text in names[:-1]], pa.string())
    return {
        "unit": units.take(name.indices),
        "device": pc.coalesce(of_process.take(pair.indices), of_name.take(name.indices)),
    }


def _device_of_memory(rows: Members) -> dict[str, pa.Array]:
    type_ = rows["Device Type"]
    is_valid = pc.and_(pc.greater_equal(type_, _ZERO), pc.less(type_, _DEVICE_TYPES))
    index = pc.if_else(is_valid, type_, _NO_NUMBER)
    return {
        "device_type": pa.array(ALLOCATOR_DEVICES).take(index),
        "device": pc.if_else(pc.greater(type_, _ZERO), rows["Device Id"], _NO_NUMBER),
    }


def _lacks_numbers(args: pa.Array, columns: Mapping[str, pa.Array]) -> pa.Array:
    """Rows that have a number which is none of 64 bits."""
    odd = pa.array(np.zeros(len(args), np.bool_))
    for column, member in MEMBERS[RowTable.MEMORY].items():
        if member in _NUMBERS_OF_MEMORY and columns[column].null_count:
            written = pc.match_substring_regex(args, rf'"{member}"\s*:\s*[^n\s]')
            lost = pc.and_(pc.is_null(columns[column]), pc.fill_null(written, fill_value=False))
            if pc.any(lost).as_py():  # or an inner object has a member of that name
                texts = pl.Series(pc.if_else(lost, args, None)).str.json_path_match(
                    f'$["{member}"]'
                )
                odd = pc.or_(odd, texts.is_not_null().to_arrow())
    return odd


def _category_of_memory(rows: Members) -> dict[str, pa.Array]:
    """Category of allocations, which only an exported trace has."""
    member = f"{OWN_KEY}.{OWN_CATEGORY}"
    return {"category": rows[member]} if member in rows else {}
