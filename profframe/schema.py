"""The tables, written once: every column with its type, unit, meaning of NULL and one line of doc.

Everything else that needs a column list takes it from here: the Arrow schemas, the docs page
(``python -m profframe.schema > docs/tables.md``), and the checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Final

import pyarrow as pa

SCHEMA_VERSION: Final = 9
"""Version of the tables below; a store of another version is refused."""

TEXT: Final = pa.string()
"""Text that seldom repeats."""
NAME: Final = pa.dictionary(pa.int32(), pa.string())
"""Repeated text: dictionary-encoded in Arrow, plain String in a frame handed to a user."""
INT32: Final = pa.int32()
INT64: Final = pa.int64()
DOUBLE: Final = pa.float64()
BOOL: Final = pa.bool_()

KINDS: Final = (
    "host_op", "annotation", "python", "runtime", "driver", "kernel", "memcpy", "memset", "sync",
    "graph_node", "device_annotation", "overhead", "profiler", "other",
)  # fmt: skip
"""What a slice is, whatever word its source has for it.

A `graph_node` is what a graph does that keeps no device busy: it records an event, or calls a
function of the host.
"""
HOST_KINDS: Final = ("host_op", "annotation", "python", "runtime", "driver", "overhead", "other")
"""Kinds that nest on a host thread and have a self time there."""
DEVICE_KINDS: Final = ("kernel", "memcpy", "memset")
"""Kinds that keep a device busy; their self time is their duration."""
ON_DEVICE_KINDS: Final = (*DEVICE_KINDS, "sync", "graph_node", "device_annotation")
"""Kinds on the lines of a device, busy or not."""
LAUNCH_KINDS: Final = ("runtime", "driver")
"""Kinds that put work on a device."""
KERNEL_CATEGORIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "gemm": "products of matrices and vectors, with what is fused into them",
        "grouped_gemm": "products of many matrices in one kernel, as of experts",
        "attention_prefill": "attention of prompts, where the name or the op says so",
        "attention_decode": "attention of one new token to a cache, where the name or the op says so",
        "attention_backward": "backward of attention",
        "attention": "other attention: forward of training, and what does not say whether it is prefill or decode",
        "convolution": "convolutions, forward and backward, with their changes of layout",
        "normalisation": "layer, RMS, batch and group norm, forward and backward, with what is fused into them",
        "softmax": "softmax, and cross-entropy that is fused with it",
        "elementwise": "each element by itself: activations, sums, casts, fills by a kernel",
        "reduction": "sums, means, scans, pooling, losses",
        "index_embedding": "reads and writes by index: embeddings, gather, scatter, KV caches",
        "sort_topk": "sorting, top-k, sampling",
        "moe_routing": "choice and order of the experts' tokens, on one device",
        "quantisation": "to and from types of 8 bits and less, with scales",
        "rotary": "rotary position embeddings",
        "state_space": "state space models and linear attention",
        "optimizer": "steps of optimizers, and operations on lists of tensors",
        "random": "random numbers, dropout",
        "triton_fused": "kernels that a compiler fused of several ops",
        "collective": "communication of all ranks of a group",
        "expert_parallel": "dispatch to the ranks of experts, and combine",
        "point_to_point": "communication of two ranks",
        "copy": "copies and fills of memory, and kernels that only move data: casts by `copy_`, transposing, padding, joining",
        "other": "what no pattern matches",
    }
)  # fmt: skip
"""What a kernel does, by `kernel_category`."""
COMMUNICATION: Final = ("collective", "expert_parallel", "point_to_point")
"""Categories that are communication in every breakdown."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: ``null`` says what NULL means there, or None where there is never a NULL."""

    name: str
    type: pa.DataType
    doc: str
    unit: str | None = None
    null: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its grain is what one row stands for."""

    name: str
    grain: str
    doc: str
    columns: tuple[Column, ...]
    is_optional: bool = False
    """Few sources have rows of it: a store has a file of it only where there are some."""

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in their order."""
        return tuple(column.name for column in self.columns)

    @property
    def arrow(self) -> pa.Schema:
        """The Arrow schema of the table."""
        return pa.schema(
            [pa.field(c.name, c.type, nullable=c.null is not None) for c in self.columns]
        )

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)


_KEY = (
    Column("run", NAME, "Run that the trace belongs to."),
    Column("rank", INT32, "Rank within the run."),
)
_UNKNOWN = "the source does not say"
_NOT_HOST = "not a host slice that nests"
_NO_COLLECTIVE = "no collective, or " + _UNKNOWN
_NO_KERNEL = "not a kernel, or " + _UNKNOWN

EVENTS = Table(
    "events",
    "one row per slice: host op, annotation, Python frame, runtime call, kernel, copy, ...",
    "Everything that has a start and a duration, with the facts about it.",
    (
        *_KEY,
        Column("event_id", INT64, "Number of the slice in the source's order: 0-based, dense within (run, rank)."),
        Column("kind", NAME, "One of: " + " ".join(KINDS) + "."),
        Column("category", NAME, "The source's own word for what it is.", null="the source has none"),
        Column("name", NAME, "Name as the source has it, but for the overload of an operator.", null="the source has none"),
        Column("start_ns", INT64, "Start, on the clock that `traces.clock` names.", "ns", "the source has no usable time"),
        Column("dur_ns", INT64, "Duration.", "ns", "never ended, or the source's value was impossible"),
        Column("pid", NAME, "The source's process id, as text.", null=_UNKNOWN),
        Column("tid", NAME, "The source's thread id, as text.", null=_UNKNOWN),
        Column("thread", INT32, "Number of the (pid, tid) within the rank; `threads` has its names."),
        Column("device", INT32, "Index of the device that the slice ran on.", null="a host slice, or " + _UNKNOWN),
        Column("stream", INT32, "Stream or queue of the device that it ran on, also where the source shows it on another line.", null="a host slice, or no stream"),
        Column("correlation", INT64, "Number that a launch and what it launched share.", null=_UNKNOWN),
        Column("external_id", INT64, "The profiler's own number of the op; unreliable across launches.", null=_UNKNOWN),
        Column("sequence_nr", INT64, "Autograd sequence number, shared by a forward op and its backward.", null=_UNKNOWN),
        Column("fwd_thread", INT64, "Thread id of the forward op, in the profiler's numbering.", null=_UNKNOWN),
        Column("scope", INT32, "RecordScope: 0 function, 1 backward function, 7 user scope.", null=_UNKNOWN),
        Column("step", INT64, "N of the `ProfilerStep#N` that the slice started in; a device slice has its launch's, a device annotation that of the host slice which it shows.", null="in no step"),
        Column("overload_name", NAME, "Overload of the operator.", null=_UNKNOWN),
        Column("is_async", BOOL, "The slice did not end on the thread it began on, or never ended.", null=_UNKNOWN),
        Column("is_remote", BOOL, "Ran on another node (RPC).", null=_UNKNOWN),
        Column("is_legacy", BOOL, "Recorded by the profiler before Kineto.", null=_UNKNOWN),
        Column("node_id", INT64, "Node that it ran on (RPC).", null=_UNKNOWN),
        Column("python_id", INT64, "The profiler's number of a Python frame.", null="not a Python frame"),
        Column("python_parent_id", INT64, "`python_id` of the calling frame.", null="not a Python frame, or the outermost"),
        Column("python_module_id", INT64, "Number of the nn.Module instance.", null="not a module call"),
        Column("module_hierarchy", NAME, "Path of modules around the op.", null=_UNKNOWN),
        Column("input_dims", NAME, "Input shapes: JSON text without spaces.", null=_UNKNOWN),
        Column("input_types", NAME, "Input dtypes: JSON text without spaces.", null=_UNKNOWN),
        Column("input_strides", NAME, "Input strides: JSON text without spaces.", null=_UNKNOWN),
        Column("concrete_inputs", NAME, "Values of scalar inputs: JSON text without spaces.", null=_UNKNOWN),
        Column("stack", NAME, "Source frames joined by `;`, innermost first; of what a backward function did, those of its forward op.", null="not recorded, or none"),
        Column("python_stack", NAME, "Python slices around the slice, joined by `;`, innermost first.", null="a Python slice itself, not a host slice that nests, or no Python slice around it"),
        Column("flops", INT64, "Floating-point operations. Host op: of all its work, by formula over its inputs. Kernel: its share of its `work_id`'s, by duration, or what the source says.", "FLOP", "no formula, or inputs not recorded; a copy or fill"),
        Column("bytes", INT64, "Bytes read and written at least. Host op: of all its work, by formula. Kernel: its share, or what the source says. Copy or fill: bytes moved.", "bytes", "no formula, or inputs not recorded; of a copy or fill not known"),
        Column("collective", NAME, "Collective operation that a kernel, or the op that records it, takes part in.", null="none, or " + _UNKNOWN),
        Column("process_group", NAME, "Process group of the collective.", null="none, or " + _UNKNOWN),
        Column("group_size", INT32, "Number of ranks in the process group.", null=_NO_COLLECTIVE),
        Column("group_ranks", NAME, "Ranks in the process group: JSON list without spaces.", null=_NO_COLLECTIVE),
        Column("collective_seq", INT64, "Number of the collective in its process group, the same on all its ranks.", null=_NO_COLLECTIVE),
        Column("collective_id", TEXT, "Name of the collective that is the same on all its ranks, and no other's.", null=_NO_COLLECTIVE),
        Column("element_type", NAME, "Data type of what is sent.", null=_NO_COLLECTIVE),
        Column("in_elements", INT64, "Number of elements that this rank puts in.", null=_NO_COLLECTIVE),
        Column("out_elements", INT64, "Number of elements that this rank gets out.", null=_NO_COLLECTIVE),
        Column("in_splits", NAME, "Elements for each rank of the group: JSON list without spaces; as the source has it where it is no list, as one that torch cut.", null=_NO_COLLECTIVE + "; equal parts"),
        Column("out_splits", NAME, "Elements from each rank of the group: JSON list without spaces; as the source has it where it is no list, as one that torch cut.", null=_NO_COLLECTIVE + "; equal parts"),
        Column("peer_rank", INT32, "Rank that it sends to or receives from.", null="not one to one, or " + _UNKNOWN),
        Column("wait_on_stream", INT32, "Stream whose work a sync waits for.", null="not a sync, or " + _UNKNOWN),
        Column("wait_on_correlation", INT64, "`correlation` of the call that recorded the event which a sync waits for.", null="not a sync, or " + _UNKNOWN),
        Column("sync_kind", NAME, "What a sync waits for, in the source's words: Stream Sync, Stream Wait Event, ...", null="not a sync, or " + _UNKNOWN),
        Column("grid", NAME, "Blocks of the kernel in each dimension: JSON list without spaces.", null=_NO_KERNEL),
        Column("block", NAME, "Threads of a block in each dimension: JSON list without spaces.", null=_NO_KERNEL),
        Column("registers", INT32, "Registers of each thread of the kernel.", null=_NO_KERNEL),
        Column("shared_memory_bytes", INT64, "Shared memory of each block of the kernel.", "bytes", _NO_KERNEL),
        Column("graph_id", INT64, "Number of the graph that the work is a part of.", null="in no graph, or " + _UNKNOWN),
        Column("graph_node_id", INT64, "Number of the graph's node that the work is; its low 32 bits number it in its graph.", null="in no graph, or " + _UNKNOWN),
        Column("blocks_per_sm", DOUBLE, "Blocks of the kernel over multiprocessors of the device.", null=_NO_KERNEL),
        Column("occupancy", DOUBLE, "Share, from 0 to 1, of the warps that a multiprocessor can hold which the kernel is estimated to have had.", null=_NO_KERNEL),
        Column("async_id", TEXT, "Id of the asynchronous operation that the slice is a part of: those with its category and id are on one lane, apart from the thread's stack; `local:` before it where only its process knows it.", null="on a thread's stack, or of a source without such ids"),
        Column("args", TEXT, "The source's whole argument object as JSON text.", null="the source has none"),
        Column("parent_id", INT64, "`event_id` of the slice around it on its thread.", null=_NOT_HOST + ", or a root"),
        Column("depth", INT32, "Number of slices around it on its thread.", null=_NOT_HOST),
        Column("root_id", INT64, "`event_id` of its outermost ancestor; its own for a root.", null=_NOT_HOST),
        Column("preorder", INT64, "Place in depth-first order over all threads of the rank: 0-based, dense.", null=_NOT_HOST),
        Column("last_descendant_id", INT64, "`event_id` of its last descendant in `preorder`; its own for a leaf.", null=_NOT_HOST),
        Column("self_ns", INT64, "Host: duration minus direct children; below zero where those overlap each other. Device: duration.", "ns", "has no self time"),
        Column("merged_into", INT64, "`event_id` of the surviving duplicate around it.", null="not a duplicate"),
        Column("launch_id", INT64, "`event_id` of the call that launched this device slice.", null="a host slice, or launch not in the trace"),
        Column("op_id", INT64, "`event_id` of the innermost host op around the launch; of an annotation where the source has no ids of ops.", null="a host slice, or no op known"),
        Column("attributed_by", NAME, "How `op_id` is known: launch, by the call that launched it; source, by a link of the source; of work in a graph, by what it shares with the call that was captured: graph_node its number in the graph, annotation what torch calls the node, graph_name the names of all kernels in their order, graph_order the order of captures or of calls without names.", null="no op known"),
        Column("replays", INT64, "How often the slice, which was captured into a graph, was replayed: that often it counts as a call, though it took no time on the host.", null="not of a graph that was replayed"),
        Column("device_ns", INT64, "Host: device time launched inside it. Device: duration.", "ns", "has no device time"),
        Column("self_device_ns", INT64, "Host: device time that it launched itself. Device: duration.", "ns", "has no device time"),
        Column("cpu_bytes", INT64, "Host memory allocated minus freed inside it, on any thread.", "bytes", "not a host slice, or no memory recorded"),
        Column("self_cpu_bytes", INT64, "`cpu_bytes` minus direct children.", "bytes", "not a host slice, or no memory recorded"),
        Column("device_bytes", INT64, "Device memory allocated minus freed inside it, on any thread.", "bytes", "not a host slice, or no memory recorded"),
        Column("self_device_bytes", INT64, "`device_bytes` minus direct children.", "bytes", "not a host slice, or no memory recorded"),
        Column("fwd_id", INT64, "`event_id` of the forward op that this backward op belongs to.", null="not a backward op, or its forward op is not known"),
        Column("torch_flops", INT64, "What torch's `with_flops` gives for the op.", "FLOP", "not recorded, or torch has no formula"),
        Column("queue_depth", INT64, "Pieces of device work (kernels, copies, fills) that were launched and had not begun when the slice started, on all streams of the rank; a launch counts its own.", null="neither a host slice that nests nor device work, or nothing was launched"),
        Column("work_id", INT64, "`event_id` of the outermost host op with known work (FLOPs, else bytes) around the slice, or around its launch: the op that owns the work.", null="inside no such op; a copy or fill"),
        Column("work_dtype", NAME, "Data type that the work is done in, which decides the peak: fp64 fp32 tf32 fp16 bf16 fp8 int8 ...", null="no known work, or its inputs have no type"),
        Column("node", NAME, "Name of the graph node that the slice belongs to, by the markers around it or around its launch; `node_index` as text where no metadata was given.", null="in no node, or a marker itself"),
        Column("node_index", INT64, "Number of the node in its graph, as its marker has it.", null="in no node, or a marker itself"),
        Column("node_file", NAME, "Graph file of the node; where there is no node, of the innermost graph around.", null="in no graph file, or a marker itself"),
        Column("stack_trace", NAME, "Stack trace of the model's source that the node is from.", null="in no node, or its metadata has none"),
        Column("is_recompute", BOOL, "Ran once more in backward, for what activation checkpointing had not kept; a device slice as its launch.", null="the source cannot tell, or a slice that neither nests nor was launched"),
        Column("kernel_category", NAME, "What a kernel does, by its name, its op and the collective that it is a part of: " + " ".join(KERNEL_CATEGORIES) + ". A copy or fill is `copy`.", null="neither a kernel nor a copy or fill"),
        Column("computes_and_communicates", BOOL, "The kernel does both at once, as one that multiplies and sends; `kernel_category` says what it counts as.", null="not a kernel"),
        Column("inference_phase", NAME, "Phase of inference that the slice is in, or its launch: prefill decode mixed draft verify idle, capture (of a graph) or dummy (a run that only warms up).", null="in none, or " + _UNKNOWN),
        Column("phase_id", INT64, "`event_id` of the annotation or Python frame that the occurrence of the phase began with; its own for that.", null="in no such mark"),
        Column("annotation_id", INT64, "`event_id` of the innermost annotation around the slice, or around its launch.", null="none is, or the launch is not in the trace"),
        Column("frame_id", INT64, "`event_id` of the innermost Python frame around the slice, or around its launch.", null="none is, or the launch is not in the trace"),
        Column("graph_position", INT64, "Place of a device slice in the replay of its graph, by start: 0-based.", null="not launched with a graph"),
        Column("graph_block", INT64, "Number of the block of names, repeated in the replay, that it is in: 0-based, by where it comes first.", null="in no such block"),
        Column("graph_layer", INT64, "Number of the repetition, through all blocks of the replay: 0-based.", null="in no such block"),
        Column("idle_ns", INT64, "Part of the slice in which no device of the rank was busy, also before their first work and after their last.", "ns", "not a host slice that nests, or no device was used"),
    ),
)  # fmt: skip

MEMORY = Table(
    "memory",
    "one row per allocation or free",
    "Allocator records.",
    (
        *_KEY,
        Column("time_ns", INT64, "When.", "ns", "the source has no usable time"),
        Column("address", INT64, "Address of the block.", null=_UNKNOWN),
        Column("bytes", INT64, "Bytes allocated; negative for a free.", "bytes", _UNKNOWN),
        Column("device_type", NAME, "CPU, CUDA, ...", null=_UNKNOWN),
        Column("device", INT32, "Index of the device.", null="host memory"),
        Column("total_allocated_bytes", INT64, "Allocated on the device after the record.", "bytes", _UNKNOWN),
        Column("total_reserved_bytes", INT64, "Reserved on the device after the record.", "bytes", _UNKNOWN),
        Column("thread", INT32, "Thread of the record, as in `threads`."),
        Column("op_id", INT64, "`event_id` of the innermost host op around the record.", null="inside no event"),
        Column("category", NAME, "What it was for, as torch's own analysis of a live profile finds it: parameter gradient optimizer_state activation input temporary autograd_detail (made in backward, and no parameter's gradient). Of a free, that of what is freed.", null="no live profile with shapes, stacks and memory, or torch does not know"),
    ),
)  # fmt: skip

FLOWS = Table(
    "flows",
    "one row per flow event: an end or a step of an arrow",
    "Arrows between slices, as the source has them.",
    (
        *_KEY,
        Column("flow_id", TEXT, "Number or text that the ends of an arrow share.", null=_UNKNOWN),
        Column("category", NAME, "The source's word, but for graph_dependency: from work in a graph to what had to wait for it.", null="the source has none"),
        Column("name", NAME, "Name as the source has it.", null="the source has none"),
        Column("phase", NAME, "s start, t step, f end."),
        Column("time_ns", INT64, "When.", "ns", "the source has no usable time"),
        Column("pid", NAME, "The source's process id, as text.", null=_UNKNOWN),
        Column("tid", NAME, "The source's thread id, as text.", null=_UNKNOWN),
        Column("thread", INT32, "Thread, as in `threads`."),
        Column("binding_point", NAME, "Which slice an f is bound to: e the enclosing one. bind_id: the slice itself names the arrow.", null="the enclosing slice of an s or t, the next slice of an f"),
        Column("event_id", INT64, "`event_id` of the slice that the end or step is bound to: a slice on its thread, by the rules of the format; of several that start there, the one that its arrow is for.", null="no such slice"),
        Column("args", TEXT, "The source's whole argument object as JSON text.", null="the source has none"),
    ),
)  # fmt: skip

COUNTERS = Table(
    "counters",
    "one row per value of a counter event, or of a slice that counted",
    "Sampled values, and what was counted while a slice ran.",
    (
        *_KEY,
        Column("category", NAME, "The source's word.", null="the source has none"),
        Column("name", NAME, "Name of the counter.", null="the source has none"),
        Column("series", NAME, "Which of the counter's values.", null="the event has no value"),
        Column("value", DOUBLE, "The value, in the source's unit.", null="not a number"),
        Column("unit", NAME, "Unit of the value: W, C, MHz, %, cycles, or the source's word.", null=_UNKNOWN),
        Column("device", INT32, "Index of the device that it was measured on.", null="of no device, or " + _UNKNOWN),
        Column("time_ns", INT64, "When.", "ns", "the source has no usable time"),
        Column("pid", NAME, "The source's process id, as text.", null=_UNKNOWN),
        Column("tid", NAME, "The source's thread id, as text.", null=_UNKNOWN),
        Column("thread", INT32, "Thread, as in `threads`."),
        Column("counter_id", TEXT, "Id that tells counters of one name apart.", null="the source has none"),
        Column("event_id", INT64, "`event_id` of the slice that counted.", null="a sampled value"),
        Column("args", TEXT, "The source's whole argument object as JSON text.", null="the source has none; of a slice that counted, they are its own"),
    ),
)  # fmt: skip

INSTANTS = Table(
    "instants",
    "one row per event without a duration, and per event of a phase that has no table of its own",
    "Marks in time, also of async operations, object events, ends without a begin, unknown phases.",
    (
        *_KEY,
        Column("phase", NAME, "The source's phase.", null="the source has none"),
        Column("category", NAME, "The source's word.", null="the source has none"),
        Column("name", NAME, "Name as the source has it.", null="the source has none"),
        Column("scope", NAME, "g global, p process, t thread.", null=_UNKNOWN),
        Column("time_ns", INT64, "When.", "ns", "the source has no usable time"),
        Column("dur_ns", INT64, "Duration, of the few phases that have one.", "ns", "none"),
        Column("pid", NAME, "The source's process id, as text.", null=_UNKNOWN),
        Column("tid", NAME, "The source's thread id, as text.", null=_UNKNOWN),
        Column("thread", INT32, "Thread, as in `threads`."),
        Column("instant_id", TEXT, "Id of an object or async event.", null="the source has none"),
        Column("args", TEXT, "The source's whole argument object as JSON text.", null="the source has none"),
    ),
)  # fmt: skip

THREADS = Table(
    "threads",
    "one row per (pid, tid)",
    "Threads, streams and whatever else the source puts on a line of its own.",
    (
        *_KEY,
        Column("thread", INT32, "Number of the (pid, tid): 0-based, dense within (run, rank)."),
        Column("pid", NAME, "The source's process id, as text.", null=_UNKNOWN),
        Column("tid", NAME, "The source's thread id, as text.", null=_UNKNOWN),
        Column("process_name", TEXT, "Name of the process.", null=_UNKNOWN),
        Column("process_labels", TEXT, "Labels of the process.", null=_UNKNOWN),
        Column("process_sort_index", INT64, "Where a viewer shows the process.", null=_UNKNOWN),
        Column("thread_name", TEXT, "Name of the thread.", null=_UNKNOWN),
        Column("thread_sort_index", INT64, "Where a viewer shows the thread.", null=_UNKNOWN),
    ),
)  # fmt: skip

_NO_GROUP = "the dump does not say, as that of gloo"

RECORDED_COLLECTIVES = Table(
    "recorded_collectives",
    "one row per record of a flight recorder: a collective, or a send or receive, that the rank has called",
    "What torch's flight recorder had when it was dumped: the last calls of each rank, and how far they came.",
    (
        *_KEY,
        Column("record_id", INT64, "Number of the record in its process: 0-based; earlier ones were overwritten.", null=_UNKNOWN),
        Column("process_group", NAME, "Name of the process group, as events have it.", null=_UNKNOWN),
        Column("process_group_description", NAME, "What the process group is for: default_pg, or as it was given to `new_group`.", null=_UNKNOWN),
        Column("group_ranks", NAME, "Ranks in the process group: JSON list without spaces.", null=_NO_GROUP),
        Column("group_size", INT32, "Number of ranks in the process group.", null=_NO_GROUP),
        Column("collective_seq", INT64, "Number of the collective in its process group, the same on all its ranks; of a send or receive that of the collective before.", null=_UNKNOWN),
        Column("p2p_seq", INT64, "Number of the send or receive in its process group, on this rank.", null=_UNKNOWN),
        Column("call_number", INT64, "Number of the call in its process group; calls that are coalesced have one each.", null=_UNKNOWN),
        Column("is_p2p", BOOL, "A send or a receive, or some of them coalesced.", null=_UNKNOWN),
        Column("kind", NAME, "What was called, in the source's word: all_reduce, _all_gather_base, send, ...", null=_UNKNOWN),
        Column("backend", NAME, "Library that does it: nccl, gloo, ...", null=_UNKNOWN),
        Column("peer_rank", INT32, "Rank that it sends to or receives from.", null="not one to one, or the ranks of its group are not known"),
        Column("input_sizes", NAME, "Shapes of the inputs: JSON list without spaces.", null=_UNKNOWN),
        Column("input_dtypes", NAME, "Data types of the inputs: JSON list without spaces.", null=_UNKNOWN),
        Column("output_sizes", NAME, "Shapes of the outputs: JSON list without spaces.", null=_UNKNOWN),
        Column("output_dtypes", NAME, "Data types of the outputs: JSON list without spaces.", null=_UNKNOWN),
        Column("state", NAME, "How far it came: scheduled, started or completed; gloo leaves it at scheduled.", null=_UNKNOWN),
        Column("is_retired", BOOL, "No one looks after it any more: it has ended, well or not.", null=_UNKNOWN),
        Column("created_ns", INT64, "When it was called.", "ns", _UNKNOWN),
        Column("started_ns", INT64, "When it was seen to have started: late by up to a period of the watchdog.", "ns", "it was not seen"),
        Column("completed_ns", INT64, "When it was seen to have ended: late by up to a period of the watchdog.", "ns", "it was not seen"),
        Column("dur_ns", INT64, "Duration on the device.", "ns", "not measured"),
        Column("timeout_ns", INT64, "After which time it is given up.", "ns", _UNKNOWN),
        Column("thread_id", TEXT, "The source's id of the thread that called it.", null=_UNKNOWN),
        Column("thread_name", NAME, "Name of that thread.", null=_UNKNOWN),
        Column("stack_id", INT64, "Where it was called: `stacks` has the frames.", null="not recorded, as in JSON"),
    ),
    is_optional=True,
)  # fmt: skip

PROCESS_GROUPS = Table(
    "process_groups",
    "one row per process group that a rank is in",
    "Process groups of dumps of the flight recorder, and how far the rank came in each.",
    (
        *_KEY,
        Column("process_group", NAME, "Name of the process group.", null=_UNKNOWN),
        Column("process_group_description", NAME, "What the process group is for.", null=_UNKNOWN),
        Column("group_ranks", NAME, "Ranks in the process group: JSON list without spaces.", null=_NO_GROUP),
        Column("group_size", INT32, "Number of ranks in the process group.", null=_NO_GROUP),
        Column("last_enqueued_seq", INT64, "Number of the last collective that the rank has called.", null="none, or " + _UNKNOWN),
        Column("last_started_seq", INT64, "Number of the last one that was seen to have started.", null="none, or " + _UNKNOWN),
        Column("last_completed_seq", INT64, "Number of the last one that was seen to have ended.", null="none, or " + _UNKNOWN),
    ),
    is_optional=True,
)  # fmt: skip

DTYPES: Final = (
    "fp64", "fp64_tensor", "fp32", "fp32_tensor", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4", "int8",
)  # fmt: skip
"""Data types that devices have a peak for; `_tensor` where matrix units have another than the rest."""

_NO_MODEL = "no known model, or its data sheet does not say"

DEVICES = Table(
    "devices",
    "one row per device that the trace knows of",
    "What each device is, and what it can do at most: matched by name with the models of `profframe/facts/devices.json`.",
    (
        *_KEY,
        Column("device", INT32, "Index of the device."),
        Column("name", NAME, "Name that the driver gives it.", null="the source has none"),
        Column("model", NAME, "Model that it was matched with.", null="no model that is known"),
        Column("memory_bytes", INT64, "Size of its memory.", "bytes", _UNKNOWN),
        Column("multiprocessors", INT32, "Number of multiprocessors or compute units.", null=_UNKNOWN),
        Column("compute_capability", NAME, "Version of its architecture, as 9.0.", null=_UNKNOWN),
        Column("cache_bytes", INT64, "Size of the last cache before its memory.", "bytes", _NO_MODEL),
        Column("bandwidth_bytes_per_s", DOUBLE, "Peak rate of its memory.", "bytes/s", _NO_MODEL),
        *(
            Column(f"{dtype}_flop_per_s", DOUBLE, f"Peak rate of {dtype} operations without sparsity.", "FLOP/s", _NO_MODEL)
            for dtype in DTYPES
        ),
    ),
)  # fmt: skip

_NO_STACK = "none recorded"

SEGMENTS = Table(
    "segments",
    "one row per segment of a memory snapshot: memory that the allocator got from the driver",
    "What the allocator held when the snapshot was made.",
    (
        *_KEY,
        Column("segment_id", INT64, "Number of the segment in the source's order: 0-based, dense within (run, rank)."),
        Column("device", INT32, "Index of the device.", null=_UNKNOWN),
        Column("address", INT64, "Where it begins.", null=_UNKNOWN),
        Column("bytes", INT64, "Its size.", "bytes", _UNKNOWN),
        Column("allocated_bytes", INT64, "Bytes of its blocks that are allocated.", "bytes", _UNKNOWN),
        Column("active_bytes", INT64, "Bytes of its blocks that are allocated, or wait for a stream before they are free.", "bytes", _UNKNOWN),
        Column("requested_bytes", INT64, "Bytes that were asked for, before rounding.", "bytes", _UNKNOWN),
        Column("stream", INT64, "Stream that it belongs to, as the source numbers it; 0 is the default one.", null=_UNKNOWN),
        Column("segment_type", NAME, "large, small, ...", null=_UNKNOWN),
        Column("pool", NAME, "Memory pool, as that of graphs: JSON list of two numbers; [0,0] is the usual one.", null=_UNKNOWN),
        Column("is_expandable", BOOL, "It can grow.", null=_UNKNOWN),
        Column("stack_id", INT64, "Stack that it was got in, in `stacks`.", null=_NO_STACK),
    ),
    is_optional=True,
)  # fmt: skip

BLOCKS = Table(
    "blocks",
    "one row per block of a segment of a memory snapshot",
    "How segments were divided when the snapshot was made.",
    (
        *_KEY,
        Column("block_id", INT64, "Number of the block in the source's order: 0-based, dense within (run, rank)."),
        Column("segment_id", INT64, "`segment_id` of its segment.", null="in a list that is no segment's"),
        Column("device", INT32, "Index of the device.", null=_UNKNOWN),
        Column("address", INT64, "Where it begins; where the source does not say, behind the block before it.", null=_UNKNOWN),
        Column("bytes", INT64, "Its size.", "bytes", _UNKNOWN),
        Column("requested_bytes", INT64, "Bytes that were asked for, before rounding.", "bytes", "inactive, or " + _UNKNOWN),
        Column("state", NAME, "active_allocated, active_pending_free or active_awaiting_free (freed, and waits for a stream), inactive.", null=_UNKNOWN),
        Column("stack_id", INT64, "Stack that it was allocated in, in `stacks`.", null=_NO_STACK),
    ),
    is_optional=True,
)  # fmt: skip

ALLOCATIONS = Table(
    "allocations",
    "one row per allocation of a memory snapshot or timeline, from when it was made until it was freed",
    "Pairs of what the allocator recorded; and what was there before it began to.",
    (
        *_KEY,
        Column("allocation_id", INT64, "Number of the allocation: 0-based, dense within (run, rank); by device, those before the first record last."),
        Column("device", INT32, "Index of the device.", null=_UNKNOWN),
        Column("address", INT64, "Where it begins.", null=_UNKNOWN),
        Column("bytes", INT64, "Bytes that were asked for; where the source does not say, its size.", "bytes", _UNKNOWN),
        Column("alloc_ns", INT64, "When it was made.", "ns", "before the first record, or without times"),
        Column("free_requested_ns", INT64, "When the program freed it.", "ns", "never, or " + _UNKNOWN),
        Column("free_ns", INT64, "When its memory could be used again.", "ns", "never, or " + _UNKNOWN),
        Column("alloc_event_id", INT64, "`allocator_event_id` of the record that it was made.", null="before the first record"),
        Column("free_requested_event_id", INT64, "`allocator_event_id` of the record that the program freed it.", null="none"),
        Column("free_event_id", INT64, "`allocator_event_id` of the record that its memory was free.", null="lives at the end"),
        Column("stream", INT64, "Stream that it was made for, as the source numbers it.", null=_UNKNOWN),
        Column("stack_id", INT64, "Stack that it was made in, in `stacks`.", null=_NO_STACK),
        Column("category", NAME, "What it was for. Where a live profile is beside it and has a record of the same, the word of `memory.category`. Else by these rules, in this order: optimizer_state, made in `Optimizer.step` and alive when that ends; gradient, made by a backward function and alive when that backward pass ends; parameter, made where an nn.Module makes or moves its own (`__init__`, `to`, `_apply`: frames of its stack or of the trace) and never freed; input, made in a DataLoader or by a copy from the host to a device outside of modules; activation, made by an op of the forward pass or in a call of an nn.Module, and alive when the next backward pass begins; temporary, freed in the step, backward or forward pass that made it; parameter again, made in the trace before its first forward pass, never freed and as large as some gradient.", null="not known without a trace, or fits no rule"),
        Column("op_id", INT64, "`event_id` of the innermost host op that it was made in, as in `allocator_events`.", null="no trace beside it, in no op, or not known of which thread"),
        Column("step", INT64, "N of the `ProfilerStep#N` that it was made in.", null="no trace beside it, or in no step"),
    ),
    is_optional=True,
)  # fmt: skip

ALLOCATOR_EVENTS = Table(
    "allocator_events",
    "one row per record of the allocator in a memory snapshot or timeline",
    "What the allocator did, in its order within a device; the oldest records may be lost.",
    (
        *_KEY,
        Column("allocator_event_id", INT64, "Number of the record in the source's order, device by device: 0-based, dense within (run, rank)."),
        Column("device", INT32, "Index of the device.", null=_UNKNOWN),
        Column("action", NAME, "alloc free_requested free_completed segment_alloc segment_free segment_map segment_unmap snapshot oom.", null=_UNKNOWN),
        Column("address", INT64, "Where the memory begins.", null="oom, or " + _UNKNOWN),
        Column("bytes", INT64, "Bytes that were asked for, or of the segment.", "bytes", _UNKNOWN),
        Column("stream", INT64, "Stream, as the source numbers it.", null=_UNKNOWN),
        Column("time_ns", INT64, "When.", "ns", "the source has no times (before torch 2.1)"),
        Column("device_free_bytes", INT64, "Bytes that the device had free when memory ran out.", "bytes", "not oom"),
        Column("stack_id", INT64, "Stack, in `stacks`.", null=_NO_STACK),
        Column("compile_context", NAME, "Graph of torch.compile that ran.", null="none, or " + _UNKNOWN),
        Column("allocation_id", INT64, "`allocation_id` of the allocation that it makes or frees.", null="neither"),
        Column("op_id", INT64, "`event_id` of the innermost host op that it was made in: on the thread of the profiler's own record of it (`memory`, or [OutOfMemory] in `instants`), else of the only thread that is inside an op then.", null="no trace beside it, in no op, or several threads are in one"),
        Column("step", INT64, "N of the `ProfilerStep#N` that it was made in.", null="no trace beside it, or in no step"),
    ),
    is_optional=True,
)  # fmt: skip

STACKS = Table(
    "stacks",
    "one row per frame of a stack",
    "Stacks that allocations and collectives were recorded in, each once.",
    (
        *_KEY,
        Column("stack_id", INT64, "Number of the stack: 0-based, dense within (run, rank)."),
        Column("depth", INT32, "Place in the stack: 0 is the innermost frame."),
        Column("name", NAME, "Name of the function.", null=_UNKNOWN),
        Column("file", NAME, "Its file.", null=_UNKNOWN),
        Column("line", INT64, "Line in the file.", null=_UNKNOWN),
    ),
    is_optional=True,
)  # fmt: skip

NODES = Table(
    "nodes",
    "one row per node of an execution trace: an op, an annotation, a thread",
    "What ran, as torch's ExecutionTraceObserver saw it, without times; `event_id` leads to those.",
    (
        *_KEY,
        Column("node_id", INT64, "Number of the node in its source; a new one where another node has it (`repeated_node_id`).", null="the source has none"),
        Column("name", NAME, "Name as the source has it.", null="the source has none"),
        Column("parent_id", INT64, "`node_id` of the node that it ran in: its control parent.", null="the outermost"),
        Column("event_id", INT64, "`event_id` of the slice that it is.", null="no trace beside it, or no slice with its id and name"),
        Column("linked_by", NAME, "How `event_id` is known: record_function by the number of the call, external_id by `events.external_id`, order by the names of all calls of its thread in their order.", null="`event_id` is not known"),
        Column("record_function_id", INT64, "The profiler's number of the call, which recent traces have among the arguments of events.", null="none, or " + _UNKNOWN),
        Column("fwd_parent_id", INT64, "The source's number of the forward node of a backward op.", null="none, or " + _UNKNOWN),
        Column("sequence_nr", INT64, "Autograd sequence number, shared by a forward op and its backward.", null="none, or " + _UNKNOWN),
        Column("scope", INT32, "RecordScope: 0 function, 1 backward function, 7 user scope.", null=_UNKNOWN),
        Column("tid", INT64, "The source's own number of the thread.", null=_UNKNOWN),
        Column("fwd_tid", INT64, "The source's own number of the thread of the forward op.", null="none, or " + _UNKNOWN),
        Column("op_schema", NAME, "Signature of the operator: what it reads, and what it writes to.", null="not an operator, or " + _UNKNOWN),
        Column("kernel_backend", NAME, "What made the kernel that the node ran, as triton.", null="none, or " + _UNKNOWN),
        Column("kernel_file", TEXT, "File of that kernel.", null="none, or " + _UNKNOWN),
        Column("collective", NAME, "Collective operation that the node records.", null=_NO_COLLECTIVE),
        Column("process_group", NAME, "Process group of the collective.", null=_NO_COLLECTIVE),
        Column("process_group_description", NAME, "What the process group is for.", null=_NO_COLLECTIVE),
        Column("group_size", INT32, "Number of ranks in the process group.", null=_NO_COLLECTIVE),
        Column("group_ranks", NAME, "Ranks in the process group: JSON list without spaces.", null=_NO_COLLECTIVE),
        Column("element_type", NAME, "Data type of what is sent.", null=_NO_COLLECTIVE),
        Column("in_elements", INT64, "Number of elements that this rank puts in.", null=_NO_COLLECTIVE),
        Column("out_elements", INT64, "Number of elements that this rank gets out.", null=_NO_COLLECTIVE),
        Column("inputs", TEXT, "Values of all inputs as JSON text; a tensor is a list of its ids and sizes.", null=_UNKNOWN),
        Column("outputs", TEXT, "Values of all outputs as JSON text.", null=_UNKNOWN),
        Column("attributes", TEXT, "Whatever else the source has of the node, as JSON text.", null="nothing"),
    ),
    is_optional=True,
)  # fmt: skip

TENSORS = Table(
    "tensors",
    "one row per tensor that a node of an execution trace takes or gives",
    "Inputs and outputs of ops: which tensor, and which part of which storage.",
    (
        *_KEY,
        Column("node_id", INT64, "`node_id` of the node in `nodes`.", null="the source has none"),
        Column("event_id", INT64, "`event_id` of the slice that the node is.", null="not known"),
        Column("direction", NAME, "in or out."),
        Column("position", INT32, "Place among the inputs or outputs: 0-based."),
        Column("list_position", INT32, "Place in the list of tensors that the input or output is: 0-based.", null="not in a list"),
        Column("tensor_id", INT64, "The source's number of the tensor.", null=_UNKNOWN),
        Column("storage_id", INT64, "The source's number of its storage, which views share.", null="without a storage, or " + _UNKNOWN),
        Column("offset_elements", INT64, "Elements of the storage before its first.", null=_UNKNOWN),
        Column("elements", INT64, "Number of its elements.", null=_UNKNOWN),
        Column("element_bytes", INT64, "Size of an element.", "bytes", _UNKNOWN),
        Column("device", NAME, "Device as the source names it: cpu, cuda:0.", null=_UNKNOWN),
        Column("dtype", NAME, "Data type as the source names it: float, c10::Half.", null=_UNKNOWN),
        Column("shape", NAME, "Size in each dimension: JSON list without spaces.", null=_UNKNOWN),
        Column("strides", NAME, "Stride in each dimension, in elements: JSON list without spaces.", null=_UNKNOWN),
        Column("is_read", BOOL, "The node reads it: an input, but for one that it only writes to: `out`, or `self` of `copy_`, `fill_`, `normal_`, ..."),
        Column("is_written", BOOL, "The node makes or changes it: a new output, or what its signature says that it writes to."),
    ),
    is_optional=True,
)  # fmt: skip

TRACES = Table(
    "traces",
    "one row per (run, rank)",
    "What was loaded, and what its header says.",
    (
        *_KEY,
        Column("source", TEXT, "Path or URL that it was read from."),
        Column("content_hash", TEXT, "SHA-256 of the source's bytes, as sha256sum prints it; `convert` knows by it what it has done already.", null="not made by `convert`"),
        Column("convert_options", TEXT, "What `convert` was told, as JSON text.", null="not made by `convert`"),
        Column("joined_files", TEXT, "JSON list of the memory snapshots and dumps that `convert` put beside it: source, content_hash and convert_options of each.", null="none, or not made by `convert`"),
        Column("format", NAME, "Format of the source."),
        Column("clock", NAME, "utc: since the Unix epoch; relative: since an origin of its own; unknown: an origin that the source lost."),
        Column("base_ns", INT64, "Origin that was added to the source's times.", "ns", "the source has none"),
        Column("start_ns", INT64, "Earliest time in the trace.", "ns", "no event has a time"),
        Column("end_ns", INT64, "Latest time in the trace.", "ns", "no event has a time"),
        Column("schema_version", INT32, "Version of these tables."),
        Column("facts_version", TEXT, "What the numbers were computed by: a hash of profframe's readers, facts and data of devices.", null="tables that profframe did not load"),
        Column("rank_source", NAME, "Where the rank is from: argument, distributedInfo, path, groups (the one rank that is in all its process groups), assumed."),
        Column("world_size", INT32, "Number of ranks of the job.", null=_UNKNOWN),
        Column("backend", TEXT, "Communication backend.", null=_UNKNOWN),
        Column("device_type", NAME, "Type of the devices in it: CUDA (also ROCm), MTIA, XPU, ...", null="no device slices"),
        Column("device_properties", TEXT, "Devices, as JSON text.", null=_UNKNOWN),
        Column("profiler_flags", TEXT, "Options of the profiler, as JSON text.", null=_UNKNOWN),
        Column("metadata", TEXT, "Everything else in the header, as JSON text.", null="nothing"),
        Column("source_events", INT64, "Number of events in the source."),
        Column("accounted", TEXT, "JSON object: table, `metadata`, `dropped`, or a table of the source that is not loaded -> source events there; adds up to `source_events`."),
    ),
)  # fmt: skip

QUALITY = Table(
    "quality",
    "one row per check that found something",
    "What was repaired, dropped or doubtful. Nothing is lost in silence.",
    (
        *_KEY,
        Column("check", NAME, "Name of the check; see below."),
        Column("events", INT64, "Number of events concerned."),
        Column("example_event_id", INT64, "One of them.", null="not about a row of `events`"),
        Column("action", TEXT, "What was done."),
        Column("detail", TEXT, "What was found, where, and the values."),
    ),
)  # fmt: skip

_IN_EACH_TRACE: Final = (
    EVENTS, MEMORY, FLOWS, COUNTERS, INSTANTS, THREADS, DEVICES, TRACES, QUALITY,
)  # fmt: skip
_OF_SOME_SOURCES: Final = (
    SEGMENTS, BLOCKS, ALLOCATIONS, ALLOCATOR_EVENTS, RECORDED_COLLECTIVES, PROCESS_GROUPS, STACKS,
    NODES, TENSORS,
)  # fmt: skip
DEPENDENCIES = Table(
    "dependencies",
    "one row per pair of moments of which the second had to wait for the first",
    "What waited for what, on all ranks of a run; found when it is asked for, and in no store.",
    (
        Column("run", NAME, "Run that the traces belong to."),
        Column("source_rank", INT32, "Rank of what came first."),
        Column("source_id", INT64, "Its `event_id`."),
        Column("source_edge", NAME, "Which moment of it: start or end."),
        Column("target_rank", INT32, "Rank of what waited."),
        Column("target_id", INT64, "Its `event_id`."),
        Column("target_edge", NAME, "Which moment of it: start or end."),
        Column("kind", NAME, "launch: a call, and the work that it launched. stream: work, and the next on its stream. wait: work, and work of another stream that waits for it. graph: the same within a graph. sync: work, and the end of a call that waits for it. thread: what another thread waited for. collective, message: the start of the last rank, and the end of each; the start of each, and the end on the last rank. backward: a forward op, and its backward op. data: an op, and one that reads what it wrote."),
        Column("certainty", NAME, "recorded: the source says it. implied: the order of a stream, or what a call does, implies it. ordered: only the order of what happened suggests it."),
        Column("lag_ns", INT64, "From the one moment to the other, on the clock of the lowest rank.", "ns"),
    ),
)  # fmt: skip

TABLES: Final[Mapping[str, Table]] = MappingProxyType(
    {t.name: t for t in (*_IN_EACH_TRACE, *_OF_SOME_SOURCES)}
)
OPTIONAL_TABLES: Final[frozenset[str]] = frozenset(t.name for t in TABLES.values() if t.is_optional)
"""Tables that most traces have no rows of."""


@cache
def empty(name: str) -> pa.Table:
    """A table without rows."""
    return TABLES[name].arrow.empty_table()


def complete(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Every table in the schema's order; an optional one that is missing is empty.

    Examples
    --------
    >>> tables = {name: empty(name) for name in TABLES if name not in OPTIONAL_TABLES}
    >>> complete(tables).keys() == TABLES.keys()
    True
    """
    return {
        name: empty(name) if name in OPTIONAL_TABLES and name not in tables else tables[name]
        for name in TABLES
    }


FACT_COLUMNS: Final = frozenset(
    [
        "kind",
        "step",
        "parent_id",
        "depth",
        "root_id",
        "preorder",
        "last_descendant_id",
        "self_ns",
        "merged_into",
        "launch_id",
        "op_id",
        "attributed_by",
        "kernel_category",
        "computes_and_communicates",
        "replays",
        "device_ns",
        "self_device_ns",
        "cpu_bytes",
        "self_cpu_bytes",
        "device_bytes",
        "self_device_bytes",
        "fwd_id",
        "is_recompute",
        "torch_flops",
        "queue_depth",
        "inference_phase",
        "phase_id",
        "annotation_id",
        "frame_id",
        "graph_position",
        "graph_block",
        "graph_layer",
        "idle_ns",
        "flops",
        "work_id",
        "work_dtype",
        "node",
        "node_index",
        "node_file",
        "stack_trace",
        "model",
        *(f"{dtype}_flop_per_s" for dtype in DTYPES),
    ]
)
"""Columns that a fact adds, not a reader."""
READER_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        t.name: tuple(n for n in t.names[2:] if t.is_optional or n not in FACT_COLUMNS)
        for t in TABLES.values()
    }
)
"""Columns of each table that a reader fills: all but run, rank and the facts; of optional tables all."""


def conform(name: str, rows: pa.Table, run: str, rank: int) -> pa.Table:
    """The table in the order and the types of the schema, with its run and rank.

    Examples
    --------
    >>> rows = pa.table({"check": ["truncated"], "events": [1], "action": ["kept"]})
    >>> conform("quality", rows, "nightly", 3).select(["run", "rank", "check"]).to_pylist()
    [{'run': 'nightly', 'rank': 3, 'check': 'truncated'}]
    """
    count = rows.num_rows
    columns = {column: rows[column] for column in rows.column_names}
    run_codes = pa.DictionaryArray.from_arrays(
        pa.repeat(pa.scalar(0, INT32), count), pa.array([run], TEXT)
    )
    columns |= {"run": run_codes, "rank": pa.repeat(pa.scalar(rank, INT32), count)}
    arrays = []
    for column in TABLES[name]:
        values = columns.get(column.name)
        if values is None:
            values = pa.nulls(count, column.type)
        arrays.append(values if values.type == column.type else values.cast(column.type))
    return pa.Table.from_arrays(arrays, schema=TABLES[name].arrow)


@dataclass(frozen=True, slots=True)
class Check:
    """A check of a trace, and what is done about its findings."""

    name: str
    finds: str
    action: str


CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        c.name: c
        for c in (
            # The text of the source.
            Check("invalid_utf8", "bytes in text that are no UTF-8", "became U+FFFD"),
            Check("control_byte", "raw control bytes in text", "escaped"),
            Check("lone_surrogate", "half a surrogate pair in text", "became U+FFFD"),
            Check("raw_backslash", "backslashes that begin no escape, as in a Windows path", "taken literally"),
            Check("raw_quote", "unescaped quotes inside text", "taken as part of the text"),
            Check("non_finite_number", "NaN or infinity", "became null"),
            Check("hex_number", "numbers in hexadecimal", "became decimal"),
            Check("odd_number", "numbers that JSON does not allow: +1, 007, 5., .5", "read as what they mean"),
            Check("bare_word", "words without quotes, as N/A", "became null"),
            Check("missing_value", "keys without a value", "became null"),
            Check("missing_quote", "text that is not closed", "closed where the next member begins"),
            Check("doubled_member", "members that their object has more than once", "the last one counts"),
            Check("odd_comma", "commas missing or too many", "one was put there"),
            Check("missing_colon", "keys without a colon", "taken as keys of what follows"),
            Check("missing_bracket", "objects and arrays that are not opened or not closed", "opened or closed where the next thing begins"),
            Check("lost_packets", "places where the recorder dropped packets, as its buffer was full", "what was in them is missing"),
            Check("lost_text", "names, categories or stages that a packet before was to hold, which is not there", "became NULL, or a number"),
            Check("dropped_junk", "text that is part of no value", "dropped"),
            Check("not_an_event", "elements among the events that are no objects", "dropped"),
            Check("unreadable_event", "events that could not be mended", "dropped"),
            Check("long_event", "events whose text is longer than 32 MB", "dropped"),
            Check("truncated", "the source ends too early; `events` counts the one that was cut", "the events before it are kept"),
            Check("unreadable_header", "what is around the events could not be mended, or is more than 32 MB, 2 million values or 256 brackets deep", "dropped"),
            Check("unreadable_trailer", "what is behind the events could not be mended, or is more than that", "dropped"),
            Check("second_array", "events in a second array of events", "dropped"),
            Check("trailing_text", "text behind the JSON document", "dropped"),
            Check("damaged_stream", "the compressed stream is damaged behind the last event", "all events were read"),
            Check("repeated_node_id", "nodes of an execution trace with the number of another one, as forked processes write them into one file", "numbered anew, after all others; data dependencies are drawn beside a trace only, between nodes that are its slices"),
            Check("unread_tensor", "values of nodes that say to be tensors and are not of the format's form", "not in `tensors`; `nodes` has the values"),
            Check("combined_file", "one file has several traces, with the header of the first (`combine_with` of torch)", "each is a run of its own; rank, metadata and flags of the later ones are unknown, and times are taken to have the base of the first"),
            Check("clock_corrected", "times of a rank that was written together with others, on their clock", "as they are written: by how much they differ from the rank's own clock is in `detail`"),
            Check("mixed_traces", "one file has several traces that cannot be told apart", "loaded as one: ids of one may be those of another"),
            Check("no_events", "the source holds no events", "loaded as an empty trace"),
            Check("odd_value", "values of a database or a memory snapshot that are not of the type of their column", "became NULL, or text"),
            Check("rows_not_loaded", "rows of tables that have no place here, as of operating system calls, scheduling and samples", "counted in traces.accounted, not loaded"),
            # Events.
            Check("sub_nanosecond_time", "times or durations finer than a nanosecond", "rounded to the nearest"),
            Check("impossible_time", "times that are no numbers, or beyond 146 years", "became NULL"),
            Check("missing_time", "events without a time", "kept, the time is NULL"),
            Check("impossible_duration", "durations that are no numbers, or beyond 146 years", "became NULL"),
            Check("negative_duration", "durations below zero", "became NULL"),
            Check("missing_duration", "slices without a duration", "kept, dur_ns is NULL"),
            Check("unmatched_begin", "begin events without an end", "kept as slices without a duration"),
            Check("unmatched_end", "end events without a beginning", "kept in instants"),
            Check("end_of_another_name", "end events that have another name than the begin event which they close", "the slice has the name of its begin event"),
            Check("unreadable_arguments", "arguments that could not be mended or have no form here; `detail` names those of Perfetto", "kept as text, or left out"),
            Check("earlier_cycles", "events of earlier cycles (`acc_events`), of which torch keeps no more than what its `events()` gives", "not loaded: `load(profile.events())` has them, and `profframe.profile(acc_events=True)` all of them"),
            Check("several_cycles", "events of later cycles in one list of torch's (`acc_events`), where the times of each cycle begin anew", "moved behind the cycle before"),
            Check("unmatched_live_events", "live events that are not in the order of the profiler's activities", "what only the live object knows is NULL"),
            # Facts.
            Check("crossing_slices", "slices of one thread that start before the sibling before them has ended", "nested as torch does, as siblings: the parent's self_ns loses their overlap twice"),
            Check("kernel_without_launch", "device slices whose correlation no call of their process has", "kept, launch_id is NULL"),
            Check("external_id_mismatch", "device slices whose external_id is not that of the op around their launch", "op_id is the op around the launch"),
            Check("kernel_before_launch", "kernels that start before the call that launched them", "kept: the clocks of host and device differ, or the launch is another one"),
            Check("kernel_during_sync", "kernels that still ran when a synchronisation of their stream started, one for each of those", "kept: the end of the one or the start of the other is doubtful"),
            Check("wait_for_unknown_event", "waits for an event of which no record is in the trace before them", "kept, what they wait for is not known"),
            Check("collective_without_metadata", "records of a collective without its name, data type, numbers of elements or group size", "kept, those columns are NULL"),
            Check("repeated_sequence_number", "sequence numbers that backward functions of different names have", "kept: their forward ops may be each other's"),
            Check("counted_slice_without_launch", "slices with counters that are inside no host op, and are not as many as the launches of kernels", "kept, their op is not known"),
            Check("broken_launch_arrow", "arrows from ops to device slices, in a list of torch's events, without a start, an end or a slice there", "kept in flows; they give no op_id and no device time"),
            Check("outside_steps", "kernels, copies and fills in no profiler step, though there are steps", "left out of what is per step; `profframe.diff` counts them with `outside=`"),
            Check("unreadable_graph_marker", "host ops named `## ... ##` that name neither a graph file nor the number of a node, or that have no end", "taken for ordinary slices"),
            Check("crossing_graph_markers", "markers of graph files and nodes that start inside another one and end after it", "of those that are open the one that opened last counts"),
            Check("node_outside_graph", "markers of graph nodes with no marker of a graph file around them", "passed over, as if not there"),
            Check("unknown_graph_node", "markers of graph nodes that the metadata of their file lacks", "passed over, as if not there"),
            Check("unknown_graph_file", "markers of graph files that the given metadata lacks", "kept in node_file; their nodes are passed over, as if not there"),
            Check("long_python_stack", "slices within so many Python frames that the text of all of them would be too long", "python_stack is NULL"),
            Check("unknown_communication", "kernels that are named like communication and are in no category", "computation; `load(kernel_categories=)` takes patterns for them"),
            Check("unnamed_device", "kernels, copies and fills whose arguments and process name no device", "kept, device is NULL"),
            Check("several_models", "work on devices that fit several models, as their names and sizes do not tell them apart", "peaks are those of the first; devices= of your own says which it is"),
            Check("unknown_device", "kernels with known work on devices of which no peak is known", "their rates have no share of a peak"),
            Check("work_needs_lengths", "calls of attention whose operations depend on lengths of sequences, which stand in tensors and are not recorded", "flops are NULL; bytes are a bound, of the queries, the result, and a key and value for each query"),
            Check("faster_than_peak", "kernels that did their work faster than their device can at most in their data type", "kept: they do less than the formula counts, or compute in another data type"),
            Check("faster_than_memory", "kernels that read and wrote faster than the memory of their device can at most", "kept: some of the data was in a cache, or is not all of what the formula counts"),
            Check("other_capture", "launches of graphs that are not of the captures that are there", "their work keeps the op around the launch"),
            Check("ambiguous_capture", "work in graphs that may be of several captured calls", "it keeps the op around the launch"),
            Check("lost_replay_work", "work of graphs that was captured and not recorded when it ran", "missing here, too"),
            # Dumps of the flight recorder.
            Check("overwritten_records", "records of the flight recorder that later ones had replaced when it was dumped", "missing here, too; a longer buffer (TORCH_FR_BUFFER_SIZE) keeps more"),
            Check("odd_record", "records of the flight recorder with values of another type than theirs", "kept, those values are NULL"),
            # Loading.
            Check("paired_by_size", "frees of a memory timeline, which says of no free what it frees", "of the oldest allocation of that size and category; sums by category over time are those of the source"),
            Check("free_without_allocation", "frees of a memory timeline of what it never allocated", "kept in allocator_events, allocation_id is NULL"),
            Check("same_run_and_rank", "another trace has this run and rank", "taken as a later cycle, with a run of its own"),
            Check("joined_file", "rows of another file of this run and rank, which has no events", "in their tables beside this trace"),
            Check("snapshot_outside_trace", "records of a memory snapshot that shares no time with the trace", "joined; their op, step and category by time are NULL"),
            Check("record_in_several_ops", "records of a memory snapshot made while several threads were inside ops, of which the profiler has no record of its own", "kept, op_id is NULL"),
            Check("annotation_of_snapshot", "annotations of a memory snapshot beside a trace, which has those of its own", "not in `events`"),
            Check("unknown_categories", "records of memory of a live profile that torch could not tell the categories of", "category is NULL"),
            Check("node_without_event", "nodes of an execution trace that are no slice of the trace: with none of its host ops and annotations they share id and name", "kept, event_id is NULL"),
            Check("nodes_linked_by_order", "nodes of an execution trace whose ids the slices do not have, as of another recording of the same program", "linked by the order of names on each thread, where that fits first"),
            Check("dependency_without_event", "data dependencies of nodes that are no slice of the trace", "not in `flows`"),
            Check("another_version", "a trace in a store that another version of profframe has read, whose facts may differ", "kept as it is; `profframe convert` of its source writes it anew"),
            Check("skipped_file", "a file of the directory or pattern is no trace", "not loaded"),
            Check("unreadable_file", "a file of the directory or pattern cannot be read", "not loaded"),
        )
    }
)  # fmt: skip
"""Everything that `quality` can name."""


def quality_rows(*notes: tuple[str, int, str | None, int | None]) -> pa.Table:
    """Rows of `quality`, without run and rank, of (check, events, detail, example_event_id).

    Examples
    --------
    >>> quality_rows(("missing_time", 2, "in table flows", None))["action"].to_pylist()
    ['kept, the time is NULL']
    """
    rows = [
        {
            "check": check,
            "events": events,
            "example_event_id": example,
            "action": CHECKS[check].action,
            "detail": CHECKS[check].finds if detail is None else f"{CHECKS[check].finds}: {detail}",
        }
        for check, events, detail, example in notes
    ]
    return pa.Table.from_pylist(rows, QUALITY.arrow.remove(0).remove(0))


def type_word(type_: pa.DataType) -> str:
    """SQL word for a column's type, as DuckDB shows it."""
    if pa.types.is_dictionary(type_) or pa.types.is_string(type_):
        return "VARCHAR"
    return {INT32: "INTEGER", INT64: "BIGINT", DOUBLE: "DOUBLE", BOOL: "BOOLEAN"}[type_]
