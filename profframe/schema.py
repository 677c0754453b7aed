"""The tables, written once: every column with its type, unit, meaning of NULL and one line of doc.

Everything else that needs a column list takes it from here: the Arrow schemas, the docs page
(``python -m scripts.pages``), and the checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from types import MappingProxyType
from typing import Final

import pyarrow as pa

SCHEMA_VERSION: Final = 15
"""Version of the tables below; what each has changed is in `store/schema_steps.py`."""

UTC_NS: Final = 1_200_000_000_000_000_000
"""A source's time from here on, in 2008, is since 1970; clocks since a machine started are behind."""

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
    "graph_node", "device_annotation", "overhead", "profiler", "gil", "other",
)  # fmt: skip
"""What a slice is, whatever word its source has for it.

A `graph_node` is what a graph does that keeps no device busy: it records an event, or calls a
function of the host. A `gil` is time in which a thread held Python's global interpreter lock, or
waited for it: it crosses the slices of its thread, and nests with none.
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
        "gemm": "products of matrices and vectors, with ops fused into them",
        "grouped_gemm": "products of many matrices in one kernel, such as for experts",
        "attention_prefill": "attention over prompts, if the name or the op says so",
        "attention_decode": "attention of one new token to a cache, if the name or the op says so",
        "attention_backward": "backward of attention",
        "attention": "other attention: forward in training, and kernels that do not say whether they are prefill or decode",
        "convolution": "convolutions, forward and backward, with their layout changes",
        "normalisation": "layer, RMS, batch and group norm, forward and backward, with ops fused into them",
        "softmax": "softmax, and cross-entropy fused with it",
        "elementwise": "elementwise work: activations, sums, casts, fills by a kernel",
        "reduction": "sums, means, scans, pooling, losses",
        "index_embedding": "reads and writes by index: embeddings, gather, scatter, KV caches",
        "sort_topk": "sorting, top-k, sampling",
        "moe_routing": "choosing and ordering tokens for experts, on one device",
        "quantisation": "conversion to and from types of at most 8 bits, with scales",
        "rotary": "rotary position embeddings",
        "state_space": "state space models and linear attention",
        "optimizer": "optimizer steps, and operations on lists of tensors",
        "random": "random numbers, dropout",
        "triton_fused": "kernels that a compiler fused from several ops",
        "collective": "communication among all ranks of a group",
        "expert_parallel": "dispatch to the ranks of experts, and combine",
        "point_to_point": "communication between two ranks",
        "copy": "memory copies and fills, and kernels that only move data: casts by `copy_`, transposing, padding, concatenation",
        "other": "kernels that no pattern matches",
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


@dataclass(frozen=True)
class Table:
    """One table: its grain is what one row stands for."""

    name: str
    grain: str
    doc: str
    columns: tuple[Column, ...]
    is_optional: bool = False
    """Few sources have rows of it: a store has a file of it only where there are some."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Column names in their order."""
        return tuple(column.name for column in self.columns)

    @cached_property
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
        Column("category", NAME, "The source's category of the slice.", null="the source has none"),
        Column("name", NAME, "Name in the source, demangled if it is one of C++, without the overload of an operator.", null="the source has none"),
        Column("start_ns", INT64, "Start, on the clock that `traces.clock` names.", "ns", "the source has no usable time"),
        Column("dur_ns", INT64, "Duration.", "ns", "never ended, or the source's value was impossible"),
        Column("pid", NAME, "The source's process id, as text.", null=_UNKNOWN),
        Column("tid", NAME, "The source's thread id, as text.", null=_UNKNOWN),
        Column("thread", INT32, "Number of the (pid, tid) within the rank; `threads` has its names."),
        Column("device", INT32, "Index of the device that the slice ran on.", null="a host slice, or " + _UNKNOWN),
        Column("stream", INT32, "Stream or queue that the slice ran on, even if the source shows it on another line.", null="a host slice, or no stream"),
        Column("correlation", INT64, "Number that a launch and what it launched share.", null=_UNKNOWN),
        Column("external_id", INT64, "The profiler's own number of the op; unreliable across launches.", null=_UNKNOWN),
        Column("sequence_nr", INT64, "Autograd sequence number, shared by a forward op and its backward.", null=_UNKNOWN),
        Column("fwd_thread", INT64, "Thread id of the forward op, in the profiler's numbering.", null=_UNKNOWN),
        Column("scope", INT32, "RecordScope: 0 function, 1 backward function, 7 user scope.", null=_UNKNOWN),
        Column("step", INT64, "N of the `ProfilerStep#N` that the slice started in; a device slice has its launch's, a device annotation that of the host slice that it mirrors.", null="outside steps"),
        Column("overload_name", NAME, "Overload of the operator.", null=_UNKNOWN),
        Column("is_async", BOOL, "Whether the slice ended on another thread than it began on, or never ended.", null=_UNKNOWN),
        Column("is_remote", BOOL, "Whether it ran on another node (RPC).", null=_UNKNOWN),
        Column("is_legacy", BOOL, "Whether the profiler before Kineto recorded it.", null=_UNKNOWN),
        Column("node_id", INT64, "Node that it ran on (RPC).", null=_UNKNOWN),
        Column("python_id", INT64, "The profiler's number of a Python frame.", null="not a Python frame"),
        Column("python_parent_id", INT64, "`python_id` of the calling frame.", null="not a Python frame, or the outermost"),
        Column("python_module_id", INT64, "Number of the nn.Module instance.", null="not a module call"),
        Column("module_hierarchy", NAME, "Path of modules around the op; for work in a graph, the module that its annotation names (`module_fqn`).", null=_UNKNOWN),
        Column("input_dims", NAME, "Input shapes: JSON text without spaces.", null=_UNKNOWN),
        Column("input_types", NAME, "Input dtypes: JSON text without spaces.", null=_UNKNOWN),
        Column("input_strides", NAME, "Input strides: JSON text without spaces.", null=_UNKNOWN),
        Column("concrete_inputs", NAME, "Values of scalar inputs: JSON text without spaces.", null=_UNKNOWN),
        Column("stack", NAME, "Source frames joined by `;`, innermost first; inside a backward function, those of its forward op.", null="not recorded, or none"),
        Column("python_stack", NAME, "Python slices around the slice, joined by `;`, innermost first; for work in a graph by `graph_stack`, around the captured call.", null="a Python slice itself, neither a host slice that nests nor such work, or no Python slice around it"),
        Column("flops", INT64, "Floating-point operations. Host op: all of its work, by a formula over its inputs. Kernel: its share, by duration, of the work of `work_id`, or the source's number.", "FLOP", "no formula, or inputs not recorded; a copy or fill"),
        Column("bytes", INT64, "Least bytes read and written. Host op: all of its work, by formula. Kernel: its share, or the source's number. Copy or fill: bytes moved.", "bytes", "no formula, or inputs not recorded; for a copy or fill, not known"),
        Column("collective", NAME, "Collective operation that a kernel, or the op that records it, takes part in.", null="none, or " + _UNKNOWN),
        Column("process_group", NAME, "Process group of the collective.", null="none, or " + _UNKNOWN),
        Column("group_size", INT32, "Number of ranks in the process group.", null=_NO_COLLECTIVE),
        Column("group_ranks", NAME, "Ranks in the process group: JSON list without spaces.", null=_NO_COLLECTIVE),
        Column("collective_seq", INT64, "Number of the collective in its process group, the same on all its ranks.", null=_NO_COLLECTIVE),
        Column("collective_id", TEXT, "Name of the collective, unique to it and the same on all its ranks.", null=_NO_COLLECTIVE),
        Column("element_type", NAME, "Data type of what is sent.", null=_NO_COLLECTIVE),
        Column("in_elements", INT64, "Number of elements that this rank puts in.", null=_NO_COLLECTIVE),
        Column("out_elements", INT64, "Number of elements that this rank gets out.", null=_NO_COLLECTIVE),
        Column("in_splits", NAME, "Elements for each rank of the group: JSON list without spaces; otherwise the source's text, such as a list that torch cut.", null=_NO_COLLECTIVE + "; equal parts"),
        Column("out_splits", NAME, "Elements from each rank of the group: JSON list without spaces; otherwise the source's text, such as a list that torch cut.", null=_NO_COLLECTIVE + "; equal parts"),
        Column("peer_rank", INT32, "Rank that it sends to or receives from.", null="not one to one, or " + _UNKNOWN),
        Column("wait_on_stream", INT32, "Stream whose work a sync waits for.", null="not a sync, or " + _UNKNOWN),
        Column("wait_on_correlation", INT64, "`correlation` of the call that recorded the event that a sync waits for.", null="not a sync, or " + _UNKNOWN),
        Column("sync_kind", NAME, "What a sync waits for, as the source names it: Stream Sync, Stream Wait Event, ...", null="not a sync, or " + _UNKNOWN),
        Column("grid", NAME, "Blocks of the kernel in each dimension: JSON list without spaces.", null=_NO_KERNEL),
        Column("block", NAME, "Threads of a block in each dimension: JSON list without spaces.", null=_NO_KERNEL),
        Column("registers", INT32, "Registers of each thread of the kernel.", null=_NO_KERNEL),
        Column("shared_memory_bytes", INT64, "Shared memory of each block of the kernel.", "bytes", _NO_KERNEL),
        Column("graph_id", INT64, "Number of the graph that the work is part of.", null="not in a graph, or " + _UNKNOWN),
        Column("graph_node_id", INT64, "Number of the graph node of the work; its low 32 bits number it in its graph.", null="not in a graph, or " + _UNKNOWN),
        Column("blocks_per_sm", DOUBLE, "Blocks of the kernel divided by multiprocessors of the device.", null=_NO_KERNEL),
        Column("occupancy", DOUBLE, "Estimated share, from 0 to 1, of the warps that a multiprocessor can hold.", null=_NO_KERNEL),
        Column("async_id", TEXT, "Id of the asynchronous operation that the slice is part of: slices with the same category and id share a lane, apart from the thread's stack; begins with `local:` if only its process knows the id.", null="on a thread's stack, or the source has no such ids"),
        Column("args", TEXT, "The source's whole argument object as JSON text.", null="the source has none"),
        Column("parent_id", INT64, "`event_id` of the slice around it on its thread.", null=_NOT_HOST + ", or a root"),
        Column("depth", INT32, "Number of slices around it on its thread.", null=_NOT_HOST),
        Column("root_id", INT64, "`event_id` of its outermost ancestor; its own for a root.", null=_NOT_HOST),
        Column("preorder", INT64, "Position in depth-first order over all threads of the rank: 0-based, dense.", null=_NOT_HOST),
        Column("last_descendant_id", INT64, "`event_id` of its last descendant in `preorder`; its own for a leaf.", null=_NOT_HOST),
        Column("self_ns", INT64, "Host: duration minus the time that direct children cover, and minus `shared_ns`. Device: duration.", "ns", "has no self time"),
        Column("shared_ns", INT64, "Part of a region, or of what else is no Python frame, that is also in frames beside it, in which it began or ended, but in no child: it is in the `self_ns` of the frames.", "ns", "none"),
        Column("merged_into", INT64, "`event_id` of the surviving duplicate around it.", null="not a duplicate"),
        Column("launch_id", INT64, "`event_id` of the call that launched this device slice.", null="a host slice, or launch not in the trace"),
        Column("op_id", INT64, "`event_id` of the innermost host op around the launch; of an annotation if the source has no op ids; for work in a graph without a capture, of what torch recorded of its node: the annotation, else the innermost Python frame.", null="a host slice, or no op known"),
        Column("lost_device", INT32, "Device of the work of a call whose work is not in the trace, by what else its thread launched.", null="not such a call, or " + _UNKNOWN),
        Column("lost_stream", INT32, "Its stream, known in the same way.", null="not such a call, or " + _UNKNOWN),
        Column("lost_start_ns", INT64, "When it may have started at the earliest: at its launch, and the end of the work before it on its stream.", "ns", "not such a call, or the trace has device work, but no launch of it"),
        Column("lost_end_ns", INT64, "When it had ended at the latest: the start of the work after it on its stream, or else the end of the trace.", "ns", "not such a call, or the trace has device work, but no launch of it"),
        Column("attributed_by", NAME, "How `op_id` was found: launch, by the call that launched it; source, by a link in the source; for work in a graph, by what it shares with the captured call: graph_node, its number in the graph; annotation, torch's name for the node; graph_name, the names of all kernels in order; graph_order, the order of captures or of calls without names; graph_stack, torch's Python stack of the node, without a capture.", null="no op known"),
        Column("replays", INT64, "How often the slice, captured into a graph, was replayed: it counts as that many calls, although it took no host time.", null="not captured into a replayed graph"),
        Column("device_ns", INT64, "Host: device time launched inside it on its thread (the answer `annotations` adds that of autograd's thread). Device: duration.", "ns", "has no device time"),
        Column("self_device_ns", INT64, "Host: device time that it launched itself. Device: duration.", "ns", "has no device time"),
        Column("cpu_bytes", INT64, "Host memory allocated minus freed inside it, on any thread.", "bytes", "not a host slice, or no memory recorded"),
        Column("self_cpu_bytes", INT64, "`cpu_bytes` minus direct children.", "bytes", "not a host slice, or no memory recorded"),
        Column("device_bytes", INT64, "Device memory allocated minus freed inside it, on any thread.", "bytes", "not a host slice, or no memory recorded"),
        Column("self_device_bytes", INT64, "`device_bytes` minus direct children.", "bytes", "not a host slice, or no memory recorded"),
        Column("fwd_id", INT64, "`event_id` of the forward op that this backward op belongs to.", null="not a backward op, or its forward op is not known"),
        Column("torch_flops", INT64, "What torch's `with_flops` counts for the op.", "FLOP", "not recorded, or torch has no formula"),
        Column("queue_depth", INT64, "Device work (kernels, copies, fills) that was launched but had not begun when the slice started, over all streams of the rank; a launch counts its own work.", null="neither a host slice that nests nor device work, or nothing was launched"),
        Column("work_id", INT64, "`event_id` of the outermost host op with known work (FLOPs, else bytes) around the slice, or around its launch: the op that owns the work.", null="outside such ops; a copy or fill"),
        Column("work_dtype", NAME, "Data type of the computation, which decides the peak: fp64 fp32 tf32 fp16 bf16 fp8 int8 ...", null="no known work, or its inputs have no type"),
        Column("is_product", BOOL, "Whether these FLOPs are of products of matrices, convolutions, attention or experts, which `mfu` counts.", null="no known FLOPs"),
        Column("node", NAME, "Name of the graph node that the slice belongs to, by the markers around it or around its launch; `node_index` as text without metadata.", null="not in a node, or a marker itself"),
        Column("node_index", INT64, "Number of the node in its graph, from its marker.", null="not in a node, or a marker itself"),
        Column("node_file", NAME, "Graph file of the node; without a node, of the innermost graph around the slice.", null="not in a graph file, or a marker itself"),
        Column("stack_trace", NAME, "Stack trace of the model source that the node comes from.", null="not in a node, or its metadata has none"),
        Column("compiled_kernel_id", INT64, "`compiled_kernel_id` of the kernel of generated code that a host slice calls, or that a device slice is or was launched by.", null="no such kernel, or no provenance is given, or it leaves several possible (`ambiguous_compiled_kernel`)"),
        Column("compiled_by", NAME, "How `compiled_kernel_id` was found: key, by the key of the graph in the annotation around the call; kernels, by the names of all generated kernels in that annotation, which only this graph has; name, outside such annotations, by a name that only this kernel has.", null="`compiled_kernel_id` is not known"),
        Column("stack_from", NAME, "Where `stack` comes from if not from the trace: provenance, from files of `load(provenance=)`. Of a kernel that was fused from several lines, it is the stack that torch lists first.", null="from the trace, or `stack` is NULL"),
        Column("is_recompute", BOOL, "Whether it ran again in backward because activation checkpointing had not kept its result; a device slice has its launch's value.", null="the source does not show it, or a slice that neither nests nor was launched"),
        Column("kernel_category", NAME, "What a kernel does, judged by its name, its op and its collective: " + " ".join(KERNEL_CATEGORIES) + ". A copy or fill is `copy`.", null="neither a kernel nor a copy or fill"),
        Column("computes_and_communicates", BOOL, "Whether the kernel does both at once, such as multiply and send; `kernel_category` says what it counts as.", null="not a kernel"),
        Column("inference_phase", NAME, "Inference phase that the slice, or its launch, is in: prefill decode mixed draft verify diffusion idle, capture (of a graph) or dummy (a warm-up run).", null="in no phase, or " + _UNKNOWN),
        Column("phase_id", INT64, "`event_id` of the annotation or Python frame that opened the occurrence of the phase; its own for that slice.", null="in no occurrence"),
        Column("annotation_id", INT64, "`event_id` of the innermost annotation around the slice, or around its launch, on the same thread.", null="there is none, or the launch is not in the trace"),
        Column("frame_id", INT64, "`event_id` of the innermost Python frame around the slice, or around its launch.", null="there is none, or the launch is not in the trace"),
        Column("graph_position", INT64, "Position of a device slice in the replay of its graph, by start: 0-based.", null="not launched by a graph"),
        Column("graph_block", INT64, "Number of the repeating block of names that it is in: 0-based, by first occurrence.", null="not in such a block"),
        Column("graph_layer", INT64, "Number of the repetition, over all blocks of the replay: 0-based.", null="not in such a block"),
        Column("idle_ns", INT64, "Part of the slice in which no device of the rank was busy, including the time before the first work and after the last.", "ns", "not a host slice that nests, or no device was used"),
    ),
)  # fmt: skip

MEMORY = Table(
    "memory",
    "one row per allocation or free",
    "Allocator records.",
    (
        *_KEY,
        Column("time_ns", INT64, "Time of the record.", "ns", "the source has no usable time"),
        Column("address", INT64, "Address of the block.", null=_UNKNOWN),
        Column("bytes", INT64, "Bytes allocated; negative for a free.", "bytes", _UNKNOWN),
        Column("device_type", NAME, "CPU, CUDA, ...", null=_UNKNOWN),
        Column("device", INT32, "Index of the device.", null="host memory"),
        Column("total_allocated_bytes", INT64, "Allocated on the device after the record.", "bytes", _UNKNOWN),
        Column("total_reserved_bytes", INT64, "Reserved on the device after the record.", "bytes", _UNKNOWN),
        Column("thread", INT32, "Thread of the record, as in `threads`."),
        Column("op_id", INT64, "`event_id` of the innermost host op around the record.", null="outside all host ops"),
        Column("category", NAME, "Purpose, from torch's own analysis of a live profile: parameter gradient optimizer_state activation input temporary autograd_detail (made in backward, but not a parameter's gradient). A free has the category of what it frees.", null="not a live profile with shapes, stacks and memory, or unknown to torch"),
    ),
)  # fmt: skip

FLOWS = Table(
    "flows",
    "one row per flow event: an end or a step of an arrow",
    "Arrows between slices, from the source.",
    (
        *_KEY,
        Column("flow_id", TEXT, "Number or text that the ends of an arrow share.", null=_UNKNOWN),
        Column("category", NAME, "The source's category; or graph_dependency, from work in a graph to what had to wait for it.", null="the source has none"),
        Column("name", NAME, "Name as the source has it.", null="the source has none"),
        Column("phase", NAME, "s start, t step, f end."),
        Column("time_ns", INT64, "Time of the event.", "ns", "the source has no usable time"),
        Column("pid", NAME, "The source's process id, as text.", null=_UNKNOWN),
        Column("tid", NAME, "The source's thread id, as text.", null=_UNKNOWN),
        Column("thread", INT32, "Thread, as in `threads`."),
        Column("binding_point", NAME, "e: an f is bound to the enclosing slice. bind_id: the slice itself names the arrow.", null="the enclosing slice for an s or t, the next slice for an f"),
        Column("event_id", INT64, "`event_id` of the slice that the end or step is bound to, on its thread, by the rules of the format; if several start there, the one that the arrow is meant for.", null="no such slice"),
        Column("args", TEXT, "The source's whole argument object as JSON text.", null="the source has none"),
    ),
)  # fmt: skip

COUNTERS = Table(
    "counters",
    "one row per value of a counter event, or of a slice with hardware counters",
    "Sampled values, and hardware counters of slices.",
    (
        *_KEY,
        Column("category", NAME, "The source's word.", null="the source has none"),
        Column("name", NAME, "Name of the counter.", null="the source has none"),
        Column("series", NAME, "Which of the counter's values; the name of the counter if its only value has no name.", null="the event has no value"),
        Column("value", DOUBLE, "The value, in the source's unit.", null="not a number"),
        Column("unit", NAME, "Unit of the value: W, C, MHz, %, cycles, or the source's word.", null=_UNKNOWN),
        Column("device", INT32, "Index of the device that it was measured on.", null="not on a device, or " + _UNKNOWN),
        Column("time_ns", INT64, "Time of the value.", "ns", "the source has no usable time"),
        Column("pid", NAME, "The source's process id, as text.", null=_UNKNOWN),
        Column("tid", NAME, "The source's thread id, as text.", null=_UNKNOWN),
        Column("thread", INT32, "Thread, as in `threads`."),
        Column("counter_id", TEXT, "Id that tells counters of one name apart.", null="the source has none"),
        Column("event_id", INT64, "`event_id` of the slice that the counter belongs to.", null="a sampled value"),
        Column("args", TEXT, "The source's whole argument object as JSON text.", null="the source has none; for hardware counters, see the slice's own args"),
    ),
)  # fmt: skip

INSTANTS = Table(
    "instants",
    "one row per event without a duration, and per event of a phase without its own table",
    "Instant events, steps of async operations, object events, ends without a begin, unknown phases.",
    (
        *_KEY,
        Column("phase", NAME, "The source's phase.", null="the source has none"),
        Column("category", NAME, "The source's word.", null="the source has none"),
        Column("name", NAME, "Name as the source has it.", null="the source has none"),
        Column("scope", NAME, "g global, p process, t thread.", null=_UNKNOWN),
        Column("time_ns", INT64, "Time of the event.", "ns", "the source has no usable time"),
        Column("dur_ns", INT64, "Duration, for the few phases that have one.", "ns", "none"),
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
    "Threads, streams and whatever else the source shows on a separate line.",
    (
        *_KEY,
        Column("thread", INT32, "Number of the (pid, tid): 0-based, dense within (run, rank)."),
        Column("pid", NAME, "The source's process id, as text.", null=_UNKNOWN),
        Column("tid", NAME, "The source's thread id, as text.", null=_UNKNOWN),
        Column("process_name", TEXT, "Name of the process.", null=_UNKNOWN),
        Column("process_labels", TEXT, "Labels of the process.", null=_UNKNOWN),
        Column("process_sort_index", INT64, "Position of the process in a viewer.", null=_UNKNOWN),
        Column("thread_name", TEXT, "Name of the thread.", null=_UNKNOWN),
        Column("thread_sort_index", INT64, "Position of the thread in a viewer.", null=_UNKNOWN),
    ),
)  # fmt: skip

_NO_GROUP = "the dump does not say, as with gloo"
_NOT_OF_PLUGIN = "not from a profiler plugin of NCCL"

RECORDED_COLLECTIVES = Table(
    "recorded_collectives",
    "one row per record of a flight recorder, or of a profiler plugin of NCCL: a collective, send or receive that the rank called",
    "Contents of torch's flight recorder when it was dumped, the last calls of each rank and how far they got; and what NCCL's profiler plugins wrote, with durations and bandwidths.",
    (
        *_KEY,
        Column("record_id", INT64, "Number of the record in its process: 0-based; earlier records may be overwritten. Of a plugin: in its file.", null=_UNKNOWN),
        Column("process_group", NAME, "Name of the process group, as in `events`.", null=_UNKNOWN),
        Column("process_group_description", NAME, "Purpose of the process group: default_pg, or the text passed to `new_group`.", null=_UNKNOWN),
        Column("group_ranks", NAME, "Ranks in the process group: JSON list without spaces.", null=_NO_GROUP),
        Column("group_size", INT32, "Number of ranks in the process group.", null=_NO_GROUP),
        Column("collective_seq", INT64, "Number of the collective in its process group, the same on all its ranks; for a send or receive, that of the previous collective. NCCL counts each operation of a communicator by itself.", null=_UNKNOWN),
        Column("p2p_seq", INT64, "Number of the send or receive in its process group, on this rank.", null=_UNKNOWN),
        Column("call_number", INT64, "Number of the call in its process group; coalesced calls have one each.", null=_UNKNOWN),
        Column("is_p2p", BOOL, "Whether it is a send or receive, or several coalesced.", null=_UNKNOWN),
        Column("kind", NAME, "The operation, as the source names it: all_reduce, _all_gather_base, send, ...; of NCCL's plugins, in torch's words.", null=_UNKNOWN),
        Column("backend", NAME, "Communication library: nccl, gloo, ...", null=_UNKNOWN),
        Column("peer_rank", INT32, "Rank that it sends to or receives from.", null="not a send or receive, or the ranks of its group are not known"),
        Column("input_sizes", NAME, "Shapes of the inputs: JSON list without spaces.", null=_UNKNOWN),
        Column("input_dtypes", NAME, "Data types of the inputs: JSON list without spaces.", null=_UNKNOWN),
        Column("output_sizes", NAME, "Shapes of the outputs: JSON list without spaces.", null=_UNKNOWN),
        Column("output_dtypes", NAME, "Data types of the outputs: JSON list without spaces.", null=_UNKNOWN),
        Column("state", NAME, "How far it got: scheduled, started or completed; gloo leaves it at scheduled.", null=_UNKNOWN),
        Column("is_retired", BOOL, "Whether the recorder no longer tracks it: it has ended, successfully or not.", null=_UNKNOWN),
        Column("created_ns", INT64, "Time of the call.", "ns", _UNKNOWN),
        Column("started_ns", INT64, "When it was seen to have started: late by up to one watchdog period.", "ns", "not seen"),
        Column("completed_ns", INT64, "When it was seen to have ended: late by up to one watchdog period.", "ns", "not seen"),
        Column("dur_ns", INT64, "Duration on the device.", "ns", "not measured"),
        Column("timeout_ns", INT64, "Timeout of the call.", "ns", _UNKNOWN),
        Column("thread_id", TEXT, "The source's id of the thread that called it.", null=_UNKNOWN),
        Column("thread_name", NAME, "Name of that thread.", null=_UNKNOWN),
        Column("stack_id", INT64, "Where it was called: `stacks` has the frames.", null="not recorded, as in JSON dumps"),
        Column("recorder", NAME, "What recorded it: flight_recorder, nccl_inspector or nccl_profiler.", null=_UNKNOWN),
        Column("communicator", NAME, "Hash of NCCL's communicator, the same on all its ranks: 0x7f8c496ae9f661.", null=_NOT_OF_PLUGIN),
        Column("group_rank", INT32, "The rank's number in the communicator.", null=_NOT_OF_PLUGIN),
        Column("group_peer", INT32, "Number in the communicator of the rank that it sends to or receives from.", null="not a send or receive, or " + _NOT_OF_PLUGIN),
        Column("nodes", INT32, "Number of machines that the communicator spans.", null="not from Inspector"),
        Column("message_bytes", INT64, "Bytes of the call's own count: per rank for all_gather, reduce_scatter and all_to_all, else of the whole message.", "bytes", _NOT_OF_PLUGIN),
        Column("algorithm", NAME, "Algorithm that NCCL chose: RING, TREE, NVLS, ...", null="not recorded, as before format 4.2 of Inspector"),
        Column("protocol", NAME, "Protocol that NCCL chose: LL, LL128, SIMPLE.", null="not recorded, as before format 4.2 of Inspector"),
        Column("channels", INT32, "Number of channels.", null="not recorded, as without NCCL_INSPECTOR_DUMP_VERBOSE=1"),
        Column("timing_source", NAME, "Where dur_ns is from: kernel_gpu (clock of the GPU), kernel_cpu or collective_cpu (when the host saw it).", null=_NOT_OF_PLUGIN),
        Column("algorithm_gb_per_s", DOUBLE, "Size of the whole message over dur_ns, as the plugin computed it.", "GB/s", "not from Inspector"),
        Column("bus_gb_per_s", DOUBLE, "The same for the slowest link, as the plugin computed it.", "GB/s", "not from Inspector"),
        Column("enqueued_ns", INT64, "When the host had enqueued it.", "ns", "not recorded, as without NCCL_INSPECTOR_DUMP_VERBOSE=1"),
        Column("written_ns", INT64, "When the plugin wrote the record: after the call had ended, by up to one dump interval.", "ns", "not from Inspector"),
        Column("channel_events", TEXT, "Times of each channel in microseconds, as the plugin wrote them: JSON list.", null="not recorded, as without NCCL_INSPECTOR_DUMP_VERBOSE=1"),
        Column("event_id", INT64, "The first of its kernels in the trace of its rank, in `events`.", null="no trace of its rank is loaded with it, or none of its kernels is certain"),
    ),
    is_optional=True,
)  # fmt: skip

PROCESS_GROUPS = Table(
    "process_groups",
    "one row per process group that a rank is in",
    "Process groups in flight recorder dumps, and how far the rank got in each.",
    (
        *_KEY,
        Column("process_group", NAME, "Name of the process group.", null=_UNKNOWN),
        Column("process_group_description", NAME, "What the process group is for.", null=_UNKNOWN),
        Column("group_ranks", NAME, "Ranks in the process group: JSON list without spaces.", null=_NO_GROUP),
        Column("group_size", INT32, "Number of ranks in the process group.", null=_NO_GROUP),
        Column("last_enqueued_seq", INT64, "Number of the last collective that the rank called.", null="none, or " + _UNKNOWN),
        Column("last_started_seq", INT64, "Number of the last collective that was seen to have started.", null="none, or " + _UNKNOWN),
        Column("last_completed_seq", INT64, "Number of the last collective that was seen to have ended.", null="none, or " + _UNKNOWN),
    ),
    is_optional=True,
)  # fmt: skip

DTYPES: Final = (
    "fp64", "fp64_tensor", "fp32", "fp32_tensor", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4", "int8",
)  # fmt: skip
"""Data types that devices have a peak for; `_tensor` if matrix units have a separate peak."""

_NO_MODEL = "no known model, or its data sheet does not say"

DEVICES = Table(
    "devices",
    "one row per device in the trace",
    "Each device with its peak rates, matched by name with the models in `profframe/facts/devices.json`.",
    (
        *_KEY,
        Column("device", INT32, "Index of the device."),
        Column("name", NAME, "Name from the driver.", null="the source has none"),
        Column("model", NAME, "Model that the device was matched with.", null="no known model"),
        Column("memory_bytes", INT64, "Size of its memory.", "bytes", _UNKNOWN),
        Column("multiprocessors", INT32, "Number of multiprocessors or compute units.", null=_UNKNOWN),
        Column("compute_capability", NAME, "Version of its architecture, such as 9.0.", null=_UNKNOWN),
        Column("cache_bytes", INT64, "Size of its last-level cache.", "bytes", _NO_MODEL),
        Column("bandwidth_bytes_per_s", DOUBLE, "Peak rate of its memory.", "bytes/s", _NO_MODEL),
        *(
            Column(f"{dtype}_flop_per_s", DOUBLE, f"Peak rate of {dtype} operations without sparsity.", "FLOP/s", _NO_MODEL)
            for dtype in DTYPES
        ),
    ),
)  # fmt: skip

_NO_STACK = "none recorded"
PINNED: Final = "PINNED_HOST"
"""Type of the device that pinned host memory is, in the tables of memory snapshots."""
_MEMORY_OF = (
    Column("device_type", NAME, f"CUDA or XPU; {PINNED} for pinned memory of the host, which is a device of its own.", null=_UNKNOWN),
    Column("device", INT32, "Index of the device.", null="pinned host memory, or " + _UNKNOWN),
)  # fmt: skip
_POOL = "Memory pool, such as that of a graph or of torch.cuda.MemPool: JSON list of two numbers; [0,0] is the default pool."

SEGMENTS = Table(
    "segments",
    "one row per segment of a memory snapshot: memory that the allocator obtained from the driver",
    "What the allocator held when the snapshot was made.",
    (
        *_KEY,
        Column("segment_id", INT64, "Number of the segment in the source's order: 0-based, dense within (run, rank)."),
        *_MEMORY_OF,
        Column("address", INT64, "Where it begins.", null=_UNKNOWN),
        Column("bytes", INT64, "Its size.", "bytes", _UNKNOWN),
        Column("allocated_bytes", INT64, "Bytes of its allocated blocks.", "bytes", _UNKNOWN),
        Column("active_bytes", INT64, "Bytes of its blocks that are allocated, or wait for a stream before they are free.", "bytes", _UNKNOWN),
        Column("requested_bytes", INT64, "Bytes that were asked for, before rounding.", "bytes", _UNKNOWN),
        Column("stream", INT64, "Stream that it belongs to, as numbered in the source; 0 is the default stream.", null=_UNKNOWN),
        Column("segment_type", NAME, "large, small, ...", null=_UNKNOWN),
        Column("pool", NAME, _POOL, null=_UNKNOWN),
        Column("is_expandable", BOOL, "Whether it can grow.", null=_UNKNOWN),
        Column("stack_id", INT64, "Stack of its allocation, in `stacks`.", null=_NO_STACK),
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
        Column("segment_id", INT64, "`segment_id` of its segment.", null="in a list without a segment"),
        *_MEMORY_OF,
        Column("address", INT64, "Where it begins; if the source does not say, after the previous block.", null=_UNKNOWN),
        Column("bytes", INT64, "Its size.", "bytes", _UNKNOWN),
        Column("requested_bytes", INT64, "Bytes that were asked for, before rounding.", "bytes", "inactive, or " + _UNKNOWN),
        Column("state", NAME, "active_allocated, active_pending_free or active_awaiting_free (freed, but waiting for a stream), inactive.", null=_UNKNOWN),
        Column("stack_id", INT64, "Stack that it was allocated in, in `stacks`.", null=_NO_STACK),
        Column("metadata", NAME, "Text of the program for it, if the source has one for blocks.", null="none"),
    ),
    is_optional=True,
)  # fmt: skip

ALLOCATIONS = Table(
    "allocations",
    "one row per allocation of a memory snapshot or timeline, from its creation until it was freed",
    "Matched pairs of allocator records, and memory from before the first record.",
    (
        *_KEY,
        Column("allocation_id", INT64, "Number of the allocation: 0-based, dense within (run, rank); by device, those from before the first record last."),
        *_MEMORY_OF,
        Column("address", INT64, "Where it begins.", null=_UNKNOWN),
        Column("bytes", INT64, "Requested bytes; if the source does not say, its size.", "bytes", _UNKNOWN),
        Column("alloc_ns", INT64, "When it was allocated.", "ns", "before the first record, or without times"),
        Column("free_requested_ns", INT64, "When the program freed it.", "ns", "never, or " + _UNKNOWN),
        Column("free_ns", INT64, "When its memory could be used again.", "ns", "never, or " + _UNKNOWN),
        Column("alloc_event_id", INT64, "`allocator_event_id` of the allocation record.", null="before the first record"),
        Column("free_requested_event_id", INT64, "`allocator_event_id` of the record that the program freed it.", null="none"),
        Column("free_event_id", INT64, "`allocator_event_id` of the record that its memory became free.", null="alive at the end"),
        Column("stream", INT64, "Stream that it was made for, as numbered in the source.", null=_UNKNOWN),
        Column("stack_id", INT64, "Stack that it was made in, in `stacks`.", null=_NO_STACK),
        Column("pool", NAME, _POOL, null="not recorded, as by older torch, and not alive at the end"),
        Column("metadata", NAME, "Text that the program had set when it was made (`torch.cuda.memory._set_memory_metadata`).", null="none, or before the first record"),
        Column("annotation", NAME, "Text that the program gave it last, after it was made (`torch.cuda.memory._annotate_tensor`); `allocator_events` has all.", null="none"),
        Column("compile_context", NAME, "torch.compile graph that made it.", null="none, or before the first record"),
        Column("category", NAME, "Purpose. If a joined live profile has the same record, `memory.category`. Otherwise by these rules, in this order: optimizer_state, made in `Optimizer.step` and alive when that ends; gradient, made by a backward function and alive when that backward pass ends; parameter, made where an nn.Module creates or moves its own (`__init__`, `to`, `_apply`: frames of its stack or of the trace) and never freed; input, made in a DataLoader or by a copy from the host to a device outside modules; activation, made by an op of the forward pass or in a call of an nn.Module, and alive when the next backward pass begins; temporary, freed in the step, backward or forward pass that made it; parameter again, made in the trace before its first forward pass, never freed and as large as some gradient.", null="not known without a trace, or fits no rule"),
        Column("op_id", INT64, "`event_id` of the innermost host op that it was made in, as in `allocator_events`.", null="no trace joined with it, outside ops, or its thread is not known"),
        Column("step", INT64, "N of the `ProfilerStep#N` that it was made in.", null="no trace joined with it, or in no step"),
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
        *_MEMORY_OF,
        Column("action", NAME, "alloc free_requested free_completed segment_alloc segment_free segment_map segment_unmap snapshot oom annotate.", null=_UNKNOWN),
        Column("address", INT64, "Where the memory begins.", null="oom, or " + _UNKNOWN),
        Column("bytes", INT64, "Requested bytes, or bytes of the segment.", "bytes", _UNKNOWN),
        Column("stream", INT64, "Stream, as numbered in the source.", null=_UNKNOWN),
        Column("time_ns", INT64, "Time of the record.", "ns", "the source has no times (before torch 2.1)"),
        Column("device_free_bytes", INT64, "Free bytes on the device when memory ran out.", "bytes", "not oom"),
        Column("stack_id", INT64, "Stack, in `stacks`.", null=_NO_STACK),
        Column("compile_context", NAME, "torch.compile graph that ran.", null="none, or " + _UNKNOWN),
        Column("pool", NAME, _POOL, null="not recorded, as by older torch"),
        Column("metadata", NAME, "Text that the program had set on its thread; of annotate, the text that it gave the allocation.", null="none"),
        Column("allocation_id", INT64, "`allocation_id` of the allocation that it makes, frees or annotates.", null="none of these"),
        Column("op_id", INT64, "`event_id` of the innermost host op that it was made in: on the thread of the profiler's own record of it (`memory`, or [OutOfMemory] in `instants`), else on the only thread inside an op at that time.", null="no trace joined with it, outside ops, or several threads are inside one"),
        Column("step", INT64, "N of the `ProfilerStep#N` that it was made in.", null="no trace joined with it, or in no step"),
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
        Column("depth", INT32, "Position in the stack: 0 is the innermost frame."),
        Column("name", NAME, "Name of the function.", null=_UNKNOWN),
        Column("file", NAME, "Its file.", null=_UNKNOWN),
        Column("line", INT64, "Line in the file.", null=_UNKNOWN),
        Column("fx_node", NAME, "Node of the FX graph that the line was generated for, in snapshots with `augment_with_fx_traces=True`.", null="not a line of code that FX generated, or not recorded"),
        Column("fx_op", NAME, "Kind of that node: call_function, call_module, output, ...", null="no node"),
        Column("fx_target", NAME, "What that node calls.", null="no node"),
        Column("fx_trace", NAME, "Lines of the model that the node is from, as text.", null="no node, or " + _UNKNOWN),
    ),
    is_optional=True,
)  # fmt: skip

NODES = Table(
    "nodes",
    "one row per node of an execution trace: an op, an annotation, a thread",
    "What ran, as seen by torch's ExecutionTraceObserver, without times; `event_id` leads to those.",
    (
        *_KEY,
        Column("node_id", INT64, "Number of the node in its source; a new one if another node has it (`repeated_node_id`).", null="the source has none"),
        Column("name", NAME, "Name as the source has it.", null="the source has none"),
        Column("parent_id", INT64, "`node_id` of the node that it ran in: its control parent.", null="the outermost"),
        Column("event_id", INT64, "`event_id` of its slice.", null="no trace joined with it, or no slice with its id and name"),
        Column("linked_by", NAME, "How `event_id` was found: record_function, by the number of the call; external_id, by `events.external_id`; order, by the names of all calls on its thread in order.", null="`event_id` is not known"),
        Column("record_function_id", INT64, "The profiler's number of the call, which recent traces have in event arguments.", null="none, or " + _UNKNOWN),
        Column("fwd_parent_id", INT64, "The source's number of the forward node of a backward op.", null="none, or " + _UNKNOWN),
        Column("sequence_nr", INT64, "Autograd sequence number, shared by a forward op and its backward.", null="none, or " + _UNKNOWN),
        Column("scope", INT32, "RecordScope: 0 function, 1 backward function, 7 user scope.", null=_UNKNOWN),
        Column("tid", INT64, "The source's own number of the thread.", null=_UNKNOWN),
        Column("fwd_tid", INT64, "The source's own number of the thread of the forward op.", null="none, or " + _UNKNOWN),
        Column("op_schema", NAME, "Signature of the operator: what it reads and writes.", null="not an operator, or " + _UNKNOWN),
        Column("kernel_backend", NAME, "What generated the node's kernel, such as triton.", null="none, or " + _UNKNOWN),
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
        Column("attributes", TEXT, "Everything else in the source about the node, as JSON text.", null="nothing"),
    ),
    is_optional=True,
)  # fmt: skip

TENSORS = Table(
    "tensors",
    "one row per input or output tensor of a node of an execution trace",
    "Inputs and outputs of ops: which tensor, and which part of which storage.",
    (
        *_KEY,
        Column("node_id", INT64, "`node_id` of the node in `nodes`.", null="the source has none"),
        Column("event_id", INT64, "`event_id` of the node's slice.", null="not known"),
        Column("direction", NAME, "in or out."),
        Column("position", INT32, "Position among the inputs or outputs: 0-based."),
        Column("list_position", INT32, "Position within an input or output that is a list of tensors: 0-based.", null="not in a list"),
        Column("tensor_id", INT64, "The source's number of the tensor.", null=_UNKNOWN),
        Column("storage_id", INT64, "The source's number of its storage, which views share.", null="without a storage, or " + _UNKNOWN),
        Column("offset_elements", INT64, "Elements of the storage before its first element.", null=_UNKNOWN),
        Column("elements", INT64, "Number of its elements.", null=_UNKNOWN),
        Column("element_bytes", INT64, "Size of an element.", "bytes", _UNKNOWN),
        Column("device", NAME, "Device, as the source names it: cpu, cuda:0.", null=_UNKNOWN),
        Column("dtype", NAME, "Data type, as the source names it: float, c10::Half.", null=_UNKNOWN),
        Column("shape", NAME, "Size in each dimension: JSON list without spaces.", null=_UNKNOWN),
        Column("strides", NAME, "Stride in each dimension, in elements: JSON list without spaces.", null=_UNKNOWN),
        Column("is_read", BOOL, "Whether the node reads it: an input, except one that it only writes to: `out`, or `self` of `copy_`, `fill_`, `normal_`, ..."),
        Column("is_written", BOOL, "Whether the node creates or changes it: a new output, or what its signature says it writes."),
    ),
    is_optional=True,
)  # fmt: skip

_NO_PARTS = "`step_ns` is not known, or no device was used"
_TIMES_OF_STEPS = (
    Column("pid", NAME, "The source's process id, as text: steps of different processes may overlap.", null=_UNKNOWN),
    Column("start_ns", INT64, "Start on the host, on the clock that `traces.clock` names.", "ns", "the source has no usable time"),
    Column("host_ns", INT64, "Duration on the host.", "ns", "never ended, or only devices have marks"),
    Column("device_start_ns", INT64, "Start of the first device work launched in it.", "ns", "it launched none"),
    Column("device_window_ns", INT64, "From there to the end of the last.", "ns", "it launched none"),
    Column("began_ns", INT64, "Start of its interval: when the step before it was completed, or its own start where that is later. For the first step of a process, device work launched earlier counts as the step before.", "ns", "the source has no usable time, or the first device work waited for what was not recorded"),
    Column("completed_ns", INT64, "End of its interval: when the host and the device work of this step and all before it had ended, without work that nothing of the next step waits for.", "ns", "never ended, or the last of its device work was not recorded"),
    Column("step_ns", INT64, "How long the step took: from `began_ns` to `completed_ns`. Intervals of the steps of a process do not overlap.", "ns", "one of these is not known"),
    Column("lag_ns", INT64, "How far the devices were behind when the host ended it.", "ns", "`host_ns` or `completed_ns` is not known, or no device was used"),
    Column("unawaited", INT64, "Pieces of its device work that ran beside the next step, and that nothing of the next step waited for: no work was put behind them on their stream, and nothing synchronised with them, before they ended.", null="no device was used"),
    Column("compute_ns", INT64, "Time of its interval in which computation (or a fill) ran on a device of the rank, of any step. This and the next three add up to `step_ns`.", "ns", _NO_PARTS),
    Column("exposed_communication_ns", INT64, "Time in which communication ran, but no computation.", "ns", _NO_PARTS),
    Column("exposed_copy_ns", INT64, "Time in which a copy ran, but neither of these.", "ns", _NO_PARTS),
    Column("unrecorded_ns", INT64, "Time in which none was busy, and work that is not in the trace may have run.", "ns", _NO_PARTS),
    Column("idle_ns", INT64, "Time in which no device of the rank was busy.", "ns", _NO_PARTS),
    Column("hidden_communication_ns", INT64, "Time in which communication ran under computation.", "ns", _NO_PARTS),
    Column("hidden_copy_ns", INT64, "Time in which a copy ran under either of these.", "ns", _NO_PARTS),
    Column("other_steps_ns", INT64, "Time in which only device work of other steps, or of none, ran.", "ns", _NO_PARTS),
    Column("lack", NAME, "Why it is left out of means: open, it never ended; cut, the profile ended in it; records, its last call that launches work has none in the trace; before, its first device work waited for what was not recorded.", null="nothing"),
)  # fmt: skip
"""Columns of tables of steps."""
PROFILER_STEPS = Table(
    "profiler_steps",
    "one row per step: a slice `ProfilerStep#N` on the host, by start",
    "How long each step took: on the host, on the devices, and from one completion to the next.",
    (
        *_KEY,
        Column("event_id", INT64, "`event_id` of the slice."),
        Column("step", INT64, "N of its name."),
        *_TIMES_OF_STEPS,
    ),
)
PHASE_STEPS = Table(
    "phase_steps",
    "one row per occurrence of a phase of inference that is not within another one, by start",
    "The same for what a server of language models did: how long each occurrence took.",
    (
        *_KEY,
        Column("event_id", INT64, "`event_id` of the marker that opens it: `phase_id` of its events."),
        Column("phase", NAME, "`inference_phase` of the marker.", null="not known"),
        *_TIMES_OF_STEPS,
    ),
    is_optional=True,
)  # fmt: skip

TRACES = Table(
    "traces",
    "one row per (run, rank)",
    "What was loaded, with its header.",
    (
        *_KEY,
        Column("source", TEXT, "Path or URL that it was read from."),
        Column("content_hash", TEXT, "SHA-256 of the source's bytes, as printed by sha256sum; `convert` uses it to skip what it has done already.", null="not made by `convert`"),
        Column("convert_options", TEXT, "Options of `convert`, as JSON text.", null="not made by `convert`"),
        Column("joined_files", TEXT, "JSON list of the memory snapshots and dumps that `convert` joined with it: source, content_hash and convert_options of each.", null="none, or not made by `convert`"),
        Column("format", NAME, "Format of the source."),
        Column("clock", NAME, "utc: since the Unix epoch; relative: since its own origin; unknown: the source lost the origin."),
        Column("base_ns", INT64, "Origin that was added to the source's times.", "ns", "the source has none"),
        Column("start_ns", INT64, "Earliest time in the trace.", "ns", "no event has a time"),
        Column("end_ns", INT64, "Latest time in the trace.", "ns", "no event has a time"),
        Column("schema_version", INT32, "Version of these tables."),
        Column("facts_version", TEXT, "What computed the numbers: a hash of profframe's readers, facts and device data.", null="tables that profframe did not load"),
        Column("rank_source", NAME, "Where the rank comes from: argument, distributedInfo, environment (what a launcher such as torchrun told the process), path, groups (the one rank that is in all its process groups), processes (what a file that was merged from several ranks says of its processes), assumed."),
        Column("world_size", INT32, "Number of ranks of the job.", null=_UNKNOWN),
        Column("backend", TEXT, "Communication backend.", null=_UNKNOWN),
        Column("device_type", NAME, "Type of the devices in it: CUDA (also ROCm), MTIA, XPU, ...", null="no device slices, nor device memory of ops"),
        Column("device_properties", TEXT, "Devices, as JSON text.", null=_UNKNOWN),
        Column("profiler_flags", TEXT, "Options of the profiler, as JSON text.", null=_UNKNOWN),
        Column("metadata", TEXT, "Everything else in the header, as JSON text.", null="nothing"),
        Column("source_events", INT64, "Number of events in the source."),
        Column("accounted", TEXT, "JSON object: table, `metadata`, `dropped`, or a table of the source that is not loaded -> number of source events; adds up to `source_events`."),
    ),
)  # fmt: skip

COMPILED_KERNELS = Table(
    "compiled_kernels",
    "one row per call of a kernel in the generated code of a compiled graph",
    "What Inductor made its kernels from, by files of `load(provenance=)`; `events.compiled_kernel_id` leads here.",
    (
        *_KEY,
        Column("compiled_kernel_id", INT64, "Number of the row: 0-based, dense within (run, rank)."),
        Column("graph", NAME, "What the files call the graph: its compilation as torch shows it and what it is for (`0/1 backward`), or its folder."),
        Column("graph_key", NAME, "Key of the graph in torch's cache, which the annotations of its calls have.", null="none, or the files do not say"),
        Column("name", NAME, "Name of the kernel in the code."),
        Column("handle", INT64, "Number of the call in its compilation, torch's debug handle.", null="the release of torch has none (before 2.9): the row stands for all calls of the name"),
        Column("post_grad_nodes", TEXT, "Nodes that it was made from, in the graph that was compiled, as a JSON list.", null="the files do not say, as for graphs of backward"),
        Column("pre_grad_nodes", TEXT, "Nodes of the model's graph that these come from, as a JSON list.", null="the files do not say, as for graphs of backward"),
        Column("stacks", TEXT, "Stacks of the lines of the model that it was made from, as a JSON list of frames joined by `;`, the innermost first.", null="the files do not say"),
        Column("source", NAME, "File or folder that says so."),
    ),
    is_optional=True,
)  # fmt: skip

QUALITY = Table(
    "quality",
    "one row per check that found something",
    "What was repaired, dropped or doubtful. Nothing is lost silently.",
    (
        *_KEY,
        Column("issue", NAME, "What was found; see below."),
        Column("events", INT64, "Number of events affected."),
        Column("example_event_id", INT64, "One of them.", null="not about a row of `events`"),
        Column("action", TEXT, "What was done."),
        Column("detail", TEXT, "What was found, where, and the values."),
    ),
)  # fmt: skip

_IN_EACH_TRACE: Final = (
    EVENTS, MEMORY, FLOWS, COUNTERS, INSTANTS, THREADS, DEVICES, PROFILER_STEPS, TRACES, QUALITY,
)  # fmt: skip
_OF_SOME_SOURCES: Final = (
    PHASE_STEPS, SEGMENTS, BLOCKS, ALLOCATIONS, ALLOCATOR_EVENTS, RECORDED_COLLECTIVES,
    PROCESS_GROUPS, STACKS, NODES, TENSORS, COMPILED_KERNELS,
)  # fmt: skip
DEPENDENCIES = Table(
    "dependencies",
    "one row per pair of moments, the second of which had to wait for the first",
    "What waited for what, on all ranks of a run; computed when a query names it, and never stored.",
    (
        Column("run", NAME, "Run that the traces belong to."),
        Column("source_rank", INT32, "Rank of the first."),
        Column("source_id", INT64, "Its `event_id`."),
        Column("source_edge", NAME, "Which moment of it: start or end."),
        Column("target_rank", INT32, "Rank of the one that waited."),
        Column("target_id", INT64, "Its `event_id`."),
        Column("target_edge", NAME, "Which moment of it: start or end."),
        Column("kind", NAME, "launch: a call, and the work it launched. stream: work, and the next work on its stream. wait: work, and work on another stream that waits for it. graph: the same within a graph. sync: work, and the end of a call that waits for it. thread: something, and what waits for it on another thread. collective, message: the start on the last rank, and the end on each rank; the start on each rank, and the end on the last. backward: a forward op, and its backward op. data: an op, and an op that reads what it wrote."),
        Column("certainty", NAME, "recorded: the source says so. implied: the order of a stream, or what a call does, implies it. ordered: only the order of events suggests it."),
        Column("lag_ns", INT64, "Time from the first moment to the second, on the clock of the lowest rank.", "ns"),
    ),
)  # fmt: skip

TABLES: Final[Mapping[str, Table]] = MappingProxyType(
    {t.name: t for t in (*_IN_EACH_TRACE, *_OF_SOME_SOURCES)}
)
OPTIONAL_TABLES: Final[frozenset[str]] = frozenset(t.name for t in TABLES.values() if t.is_optional)
"""Tables that most traces have no rows of."""
FACT_TABLES: Final = frozenset({PROFILER_STEPS.name, PHASE_STEPS.name, COMPILED_KERNELS.name})
"""Tables that facts make of `events`, or of what a user gives, and no reader."""
MAY_BE_MISSING: Final = OPTIONAL_TABLES | FACT_TABLES
"""Tables that readers need not give."""
JOINED_TABLES: Final = OPTIONAL_TABLES - FACT_TABLES
"""Tables that a file without events can have rows of, for the trace that it is joined with."""


@cache
def empty(name: str) -> pa.Table:
    """A table without rows."""
    return TABLES[name].arrow.empty_table()


def complete(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Every table in the schema's order; one that is missing is empty, if it may be missing.

    Examples
    --------
    >>> tables = {name: empty(name) for name in TABLES if name not in MAY_BE_MISSING}
    >>> complete(tables).keys() == TABLES.keys()
    True
    """
    return {
        name: empty(name) if name in MAY_BE_MISSING and name not in tables else tables[name]
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
        "shared_ns",
        "merged_into",
        "launch_id",
        "op_id",
        "attributed_by",
        "lost_device",
        "lost_stream",
        "lost_start_ns",
        "lost_end_ns",
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
        "is_product",
        "node",
        "node_index",
        "node_file",
        "stack_trace",
        "compiled_kernel_id",
        "compiled_by",
        "stack_from",
        "model",
        *(f"{dtype}_flop_per_s" for dtype in DTYPES),
    ]
)
"""Columns that a fact adds, not a reader."""
READER_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        t.name: ()
        if t.name in FACT_TABLES
        else tuple(n for n in t.names[2:] if t.is_optional or n not in FACT_COLUMNS)
        for t in TABLES.values()
    }
)
"""Columns of each table that a reader fills: all but run, rank and the facts."""


def conform(name: str, rows: pa.Table, run: str, rank: int) -> pa.Table:
    """The table in the order and the types of the schema, with its run and rank.

    Examples
    --------
    >>> rows = pa.table({"issue": ["truncated"], "events": [1], "action": ["kept"]})
    >>> conform("quality", rows, "nightly", 3).select(["run", "rank", "issue"]).to_pylist()
    [{'run': 'nightly', 'rank': 3, 'issue': 'truncated'}]
    """
    count = rows.num_rows
    if not count:
        return empty(name)
    # `column_names` takes ten times as long.
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    run_codes = pa.DictionaryArray.from_arrays(
        pa.repeat(pa.scalar(0, INT32), count), pa.array([run], TEXT)
    )
    columns |= {"run": run_codes, "rank": pa.repeat(pa.scalar(rank, INT32), count)}
    nulls_of = cache(partial(pa.nulls, count))  # columns of NULLs share their memory
    arrays = [
        columns[column.name] if column.name in columns else nulls_of(column.type)
        for column in TABLES[name]
    ]
    return pa.Table.from_arrays(arrays, schema=TABLES[name].arrow)  # this casts where needed


@dataclass(frozen=True, slots=True)
class Check:
    """A check of a trace, and what is done about its findings."""

    name: str
    finds: str
    action: str
    remedy: str = ""
    """What it means for the numbers, and what to do about it."""


CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    {
        c.name: c
        for c in (
            # The text of the source.
            Check("invalid_utf8", "bytes in text that are not UTF-8", "became U+FFFD"),
            Check("control_byte", "raw control bytes in text", "escaped"),
            Check("lone_surrogate", "half a surrogate pair in text", "became U+FFFD"),
            Check("raw_backslash", "backslashes that do not begin an escape, as in a Windows path", "taken literally"),
            Check("raw_quote", "unescaped quotes inside text", "taken as part of the text"),
            Check("non_finite_number", "NaN or infinity", "became null"),
            Check("hex_number", "numbers in hexadecimal", "became decimal"),
            Check("odd_number", "numbers that JSON does not allow: +1, 007, 5., .5", "read as what they mean"),
            Check("bare_word", "words without quotes, such as N/A", "became null"),
            Check("missing_value", "keys without a value", "became null"),
            Check("missing_quote", "text without a closing quote", "closed where the next member begins"),
            Check("doubled_member", "members that occur more than once in their object", "the last one counts"),
            Check("odd_comma", "missing or superfluous commas", "corrected to one"),
            Check("missing_colon", "keys without a colon", "taken as keys of what follows"),
            Check("missing_bracket", "objects and arrays that are not opened or not closed", "opened or closed where the next thing begins"),
            Check("lost_packets", "places where the recorder dropped packets because its buffer was full", "their contents are missing"),
            Check("lost_text", "names, categories or stages from an earlier packet that is missing", "became NULL, or a number"),
            Check("dropped_junk", "text outside any value", "dropped"),
            Check("not_an_event", "elements among the events that are not objects", "dropped"),
            Check("unreadable_event", "events that could not be repaired, such as those that were cut", "dropped"),
            Check("long_event", "events whose text is longer than 32 MB", "dropped"),
            Check("truncated", "the source ends too early; `events` counts the one that was cut", "the events before it are kept", "The program was killed while it wrote, or the copy is not whole: copy or record it again if the end matters."),
            Check("unreadable_header", "text before the events that could not be repaired, or exceeds 32 MB, 2 million values or 256 nested brackets", "dropped"),
            Check("unreadable_trailer", "text after the events that could not be repaired, or exceeds these limits", "dropped"),
            Check("second_array", "events in a second array of events", "dropped"),
            Check("trailing_text", "text after the JSON document", "dropped"),
            Check("damaged_stream", "the compressed stream is damaged after the last event", "all events were read"),
            Check("repeated_node_id", "nodes of an execution trace with the number of another node, as when forked processes write into one file", "renumbered, after all others; data dependencies exist only beside a trace, between nodes that have slices"),
            Check("missing_parent", "nodes of an execution trace whose parent is no node of it, as where nodes were lost", "kept, with the number of the parent"),
            Check("unread_tensor", "values of nodes that claim to be tensors but break the format", "not in `tensors`; `nodes` has the values"),
            Check("combined_file", "one file has several traces, with the header of the first (`combine_with` of torch)", "each is a separate run; rank, metadata and flags of the later ones are unknown, and their times are assumed to have the base of the first"),
            Check("clock_corrected", "times of a rank that were written on the clock of other ranks", "kept as written: `detail` has their difference from the rank's own clock"),
            Check("mixed_traces", "one file has several traces that cannot be told apart", "loaded as one: ids of different traces may collide"),
            Check("no_events", "the source holds no events", "loaded as an empty trace"),
            Check("odd_value", "values of a database, a memory snapshot or a memory record that do not have the type of their column, such as numbers beyond 64 bits", "became NULL, or text"),
            Check("unread_key", "values in records, blocks and frames of a memory snapshot, under keys that profframe does not know, such as those of a later torch", "not loaded: `traces.metadata` has the keys"),
            Check("odd_member", "members of records in rocprofv3's JSON that are absent, or have another type than expected", "became NULL"),
            Check("rows_not_loaded", "rows of tables that hold no work, calls or ranges, such as operating system calls, scheduling and samples", "not loaded, and counted in traces.accounted", "Nothing to do: no time of ops or devices is missing."),
            Check("unknown_table", "rows of tables whose names extend that of a table of work, calls or ranges, such as `NVTX_EVENTS_COPY`", "counted in traces.accounted, not loaded: what they hold is missing from all times"),
            # Events.
            Check("sub_nanosecond_time", "times or durations finer than a nanosecond", "rounded to the nearest", "Nothing to do: sums differ by less than a nanosecond for each."),
            Check("impossible_time", "times that are not numbers, are beyond 146 years or a month from all others, or are zero among absolute times", "became NULL"),
            Check("missing_time", "events without a time", "kept, the time is NULL"),
            Check("impossible_duration", "durations that are not numbers, are beyond 146 years, or end a month after all others begin", "became NULL"),
            Check("negative_duration", "negative durations", "became NULL"),
            Check("missing_duration", "slices without a duration", "kept, dur_ns is NULL"),
            Check("unmatched_begin", "begin events without an end", "kept as slices without a duration"),
            Check("unmatched_end", "end events without a begin event", "kept in instants"),
            Check("end_of_another_name", "end events with a name that no begin event before them on their thread has", "they close the last one, whose name the slice has"),
            Check("unreadable_arguments", "arguments that could not be repaired or represented; `detail` names those of Perfetto", "kept as text, or left out"),
            Check("earlier_cycles", "events of earlier cycles (`acc_events`), which torch keeps only in its `events()`", "not loaded: use `load(profile.events())`, or `profframe.profile(acc_events=True)` to keep everything"),
            Check("several_cycles", "events of later cycles in one torch list (`acc_events`), in which times restart with each cycle", "moved to after the previous cycle"),
            Check("unmatched_live_events", "live events that are not in the order of the profiler's activities", "columns that only the live object has are NULL"),
            # Facts.
            Check("unknown_category", "slices of categories of torch that profframe does not know, as of a newer profiler", "kept, kind is other: `load(classifier=)` takes rules for them"),
            Check("crossing_slices", "slices of one thread that overlap without one being inside the other", "both are kept side by side, as in torch; the time that they share counts once in self_ns of what is around them, but in that of each of them (of a Python frame and anything else, of the frame)", "Self times of these are a little too high. Nothing to do."),
            Check("cut_frame", "Python frames that end after the frame that called them, as where the profiler missed their return", "cut at the end of their caller", "Nothing to do."),
            Check("frame_of_another_thread", "Python frames whose caller, by the profiler's numbers, is on another thread or was over", "placed by time", "Nothing to do, unless the stack of one of them looks wrong."),
            Check("overrun", "work of devices that ends after two pieces behind it on its stream have ended", "dur_ns is NULL"),
            Check("doubtful_overrun", "work of devices that ends more than 2 us after one piece behind it on its stream: one of the two has a wrong time", "kept: nothing says which"),
            Check("kernel_without_launch", "work of devices whose launch is not in the trace, as where it was launched before recording began", "kept, without a launch and an op (launch_id is NULL)", "No op, module or line has its time, and why the device waited before it is unknown. Record the calls of the host too, or a step before the one that you look at."),
            Check("kernel_without_correlation", "device slices without a correlation that nothing else links to an op, beside calls that have one", "kept, launch_id and op_id are NULL", "No op, module or line has its time."),
            Check("ambiguous_launch", "device slices whose correlation several calls of their process have, or of all processes if none is theirs", "launch_id is the last of them before the slice"),
            Check("launch_by_order", "device slices without a correlation, all on one stream, beside as many calls of their kind without work", "launch_id is that of the call at their position"),
            Check("launch_without_work", "launches of work that is not in the trace, or has no time, although no graph was captured", "kept: the time in which it may have run does not count as idle, and steps with such launches are in no mean", "Device times are too low: the profiler lost work, or recording ended before it ran. Profile fewer steps at once, and let the device finish (torch.cuda.synchronize()) before the profiler stops."),
            Check("fill_without_work", "calls that fill memory (memset) whose work is not in the trace, beside kernels that are: fills of some sizes are never recorded", "kept: their time counts as idle", "Nothing to do: fills are short."),
            Check("graph_launch_in_part", "launches of graphs with less work than at least half of the launches of their graph: some may not have been recorded", "kept"),
            Check("external_id_mismatch", "work of devices that the profiler assigns to another op (external_id) than the one around its launch", "assigned to the op around the launch", "Nothing to do: the launch is the better witness. torch's own table may show the time at another op."),
            Check("kernel_before_launch", "kernels that start before the call that launched them", "kept: host and device clocks differ"),
            Check("kernel_during_sync", "kernels that still ran when a synchronisation of their stream started, one for each synchronisation", "kept: one of the two times is doubtful"),
            Check("wait_for_unknown_event", "waits of a stream for an event whose record is not in the trace", "kept: what they wait for is unknown", "A critical path may miss what it waited for. Record a step before, or (torch) with enable_cuda_sync_events."),
            Check("collective_without_metadata", "collectives of which the trace lacks the name, data type, number of elements or group size", "kept without them (NULL)", "Sizes and bandwidths of these are unknown: a newer torch writes them."),
            Check("repeated_sequence_number", "sequence numbers shared by backward functions with different names", "kept: their forward ops may be swapped"),
            Check("counted_slice_without_launch", "slices with counters outside host ops, whose number differs from that of kernel launches", "kept, their op is not known"),
            Check("broken_launch_arrow", "arrows from ops to device slices, in a list of torch's events, without a start, an end or a slice at one of them", "kept in flows; they give no op_id and no device time"),
            Check("outside_steps", "work of devices in no profiler step, although there are steps", "left out of what is per step; in times of the whole trace", "Usually it was launched before the first step: nothing to do, or record a step before. `profframe diff --outside all` counts it."),
            Check("cut_step", "steps that the end of the profile cut, such as the one that torch opens within the last `step()`", "left out of means, trends and limits", "Nothing to do: other steps are whole."),
            Check("incomplete_step", "steps in which work of devices is missing from the trace", "their time is unknown (step_ns is NULL), and they are in no mean", "Look at other steps, or profile fewer at once."),
            Check("unknown_start_of_step", "steps whose first device work waited for what was not recorded", "step_ns is NULL", "The step before is not recorded. Record one more step, or a warm-up step, and look at the later ones."),
            Check("unawaited_work", "device work that ran beside later steps although nothing of the next step waits for it", "it does not count in how long its step took", "Nothing to do if it is meant to overlap; wait for it at the end of a step if not."),
            Check("host_ahead", "steps that the host ended before the devices completed them, by more than a twentieth of a step", "a step counts from one completion on the devices to the next (step_ns); host_ns is its time on the host", "Nothing to do: launches run ahead, as they should. A time from the host's clock, such as that of a progress bar, differs."),
            Check("unreadable_graph_marker", "host ops named `## ... ##` that name neither a graph file nor the number of a node, or that have no end", "treated as ordinary slices"),
            Check("crossing_graph_markers", "markers of graph files and nodes that start inside another one and end after it", "among open markers, the last opened counts"),
            Check("node_outside_graph", "markers of graph nodes with no marker of a graph file around them", "skipped"),
            Check("unknown_graph_node", "markers of graph nodes that the metadata of their file lacks", "skipped"),
            Check("unknown_graph_file", "markers of graph files that the given metadata lacks", "kept in node_file; their nodes are skipped"),
            Check("odd_provenance", "values in files of `load(provenance=)` that break their format", "skipped"),
            Check("ambiguous_compiled_kernel", "calls of compiled kernels and graphs that could be several of those of the given provenance", "compiled_kernel_id is NULL"),
            Check("unknown_compiled_graph", "calls of compiled graphs that the given provenance lacks", "compiled_kernel_id of their kernels is NULL"),
            Check("long_python_stack", "slices inside so many Python frames that their text would be too long", "python_stack is NULL"),
            Check("unknown_communication", "kernels with names like communication that match no category", "counted as computation; `load(kernel_categories=)` takes patterns for them", "If they are communication, pass patterns: --kernel-categories."),
            Check("unnamed_device", "kernels, copies and fills without a device in their arguments or process", "kept, device is NULL", "Answers show them without a number of a device."),
            Check("several_models", "work on devices that fit several models, whose names and sizes do not tell them apart", "compared with the peaks of the first", "If it is another one, say so with your own devices=, see docs/devices.md."),
            Check("unknown_device", "kernels with known work on a model of device whose peaks profframe does not know", "their rates have no share of a peak", "Pass the peaks: devices=, see docs/devices.md."),
            Check("work_needs_lengths", "attention calls whose work depends on sequence lengths, which are in tensors and not recorded", "their FLOPs are unknown (NULL), and so are bytes of keys in pages of a cache, unless the step of a server says the lengths", "MFU and roofline leave these calls out."),
            Check("uneven_attention", "attention calls of one step that take very different times for equal work: some may see only a window, which nothing records", "kept: their flops and bytes are an upper limit", "MFU may be too high."),
            Check("faster_than_peak", "kernels that did their work faster than the peak of their device in their data type", "kept: they do less than the formula counts, or compute in another data type", "Their share of the peak is no measure: name the type that they compute in (--dtype)."),
            Check("faster_than_memory", "kernels that read and wrote faster than the peak of their device's memory", "kept: some of the data was in a cache, or the formula counts more than was moved", "Their share of the peak is no measure: look at their time."),
            Check("other_capture", "graph launches that match none of the given captures", "their work keeps the op around the launch"),
            Check("ambiguous_capture", "work in graphs that could belong to several captured calls", "it keeps the op around the launch"),
            Check("stack_without_kernel", "Python stacks of graph nodes without work in the trace", "left out"),
            Check("kernel_without_stack", "work in graphs without a capture, for which the given stacks have none", "it keeps the op around the launch, or its annotation"),
            Check("stack_of_another_rank", "Python stacks of graph nodes in files of other ranks, or, beside several traces, of no rank", "left out: each process has its own numbers of graphs"),
            Check("stacks_disagree", "graph nodes with different Python stacks in the given files, or in one", "no stack"),
            Check("unreadable_stack", "members of a file of Python stacks that are not the stack of a graph node", "left out"),
            Check("lost_replay_work", "work of graphs that was captured but not recorded when it ran", "missing here, too"),
            # Dumps of the flight recorder.
            Check("overwritten_records", "flight recorder records that later ones had overwritten before the dump", "missing here, too; a longer buffer (TORCH_FR_BUFFER_SIZE) keeps more"),
            Check("odd_record", "records of a flight recorder or of NCCL's Inspector with values of the wrong type", "kept, those values are NULL"),
            Check("unrecorded_collectives", "collectives that NCCL's Inspector did not record, by gaps in their numbers: smaller than NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES (8,192), without a time from the GPU (NCCL_INSPECTOR_REQUIRE_KERNEL_TIMING), or overwritten before they were written (overwritten_collectives)", "missing here, too"),
            Check("overwritten_collectives", "records of NCCL's Inspector that later ones had overwritten before they were written (dump_stats)", "missing here, too; a longer ring (NCCL_INSPECTOR_DUMP_COLL_RING_SIZE, NCCL_INSPECTOR_DUMP_P2P_RING_SIZE) or a shorter NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS keeps more"),
            Check("missing_lines", "lines that an Inspector's dump_stats announces and that do not follow", "missing here, too"),
            Check("orphan_line", "lines of NCCL's Inspector whose communicator is not certain, because the line that says it is missing or damaged", "dropped"),
            Check("repeated_record", "records of NCCL's Inspector with the number of another one of their communicator and rank", "kept; the first of them counts in answers"),
            Check("conflicting_headers", "headers of NCCL's Inspector that say something else of a communicator or process than its first one", "kept as written in their rows; the first one names the rank and the process"),
            Check("unplaced_record", "records of NCCL's Inspector in a file of several ranks, of a communicator that does not have all of these ranks", "dropped, as their rank is not certain"),
            Check("assumed_ranks", "records of processes whose rank no communicator says: none of theirs has all of them", "ranks are in the order of host name and process id: pass rank=, or name the files by rank"),
            Check("ambiguous_kernels", "collectives in the trace of a rank that could be several records of NCCL's plugins", "not joined"),
            # Loading.
            Check("paired_by_size", "frees of a memory timeline, which does not say what each one frees", "assigned to the oldest allocation of that size and category; sums by category over time match the source"),
            Check("free_without_allocation", "frees of a memory timeline without an allocation", "kept in allocator_events, allocation_id is NULL"),
            Check("same_run_and_rank", "another trace has this run and rank", "taken as a run of its own, with a number in its name", "If they are ranks of one job, name the files by rank (rank0.json) or pass rank=."),
            Check("joined_file", "rows of another file of this run and rank, which has no events", "in their tables, joined to this trace"),
            Check("snapshot_outside_trace", "records of a memory snapshot that shares no time with the trace", "joined; their op, step and category by time are NULL"),
            Check("record_in_several_ops", "records of a memory snapshot made while several threads were inside ops, without a matching profiler record", "kept, op_id is NULL"),
            Check("annotation_of_snapshot", "annotations of a memory snapshot that was joined to a trace, which has its own", "not in `events`"),
            Check("unknown_categories", "memory records of a live profile whose category torch could not determine", "category is NULL"),
            Check("node_without_event", "nodes of an execution trace without a slice in the trace: no host op or annotation has their id and name", "kept, event_id is NULL"),
            Check("nodes_linked_by_order", "nodes of an execution trace whose ids no slices have, such as from another recording of the same program", "linked by the order of names on each thread, at the first place that fits"),
            Check("dependency_without_event", "data dependencies of nodes without a slice in the trace", "not in `flows`"),
            Check("another_version", "a stored trace read by another version of profframe, whose facts may differ", "kept as it is; run `profframe convert` on its source to rewrite it"),
            Check("older_schema", "a stored trace of an older version of the tables", "kept as it is: what it lacks is NULL; `profframe store upgrade` derives what stored columns allow"),
            Check("derived_anew", "a stored trace whose facts `profframe store upgrade` derived anew, with its source unread", "what its reader read is as it was; `profframe convert` reads the source again"),
            Check("lost_columns", "rows of tables with columns that only the source has, which was gone or had changed when the store was upgraded", "those columns are NULL"),
            Check("skipped_file", "a file in the directory or pattern is not a trace", "not loaded", "Name the traces, or a pattern such as '*.json.gz', to leave it out."),
            Check("unreadable_file", "a file in the directory or pattern cannot be read", "not loaded", "Its ranks or runs are missing from all numbers."),
        )
    }
)  # fmt: skip
"""Everything that `quality` can name."""


def quality_rows(*notes: tuple[str, int, str | None, int | None]) -> pa.Table:
    """Rows of `quality`, without run and rank, of (issue, events, detail, example_event_id).

    Examples
    --------
    >>> quality_rows(("missing_time", 2, "in table flows", None))["action"].to_pylist()
    ['kept, the time is NULL']
    """
    rows = [
        {
            "issue": issue,
            "events": events,
            "example_event_id": example,
            "action": CHECKS[issue].action,
            "detail": CHECKS[issue].finds if detail is None else f"{CHECKS[issue].finds}: {detail}",
        }
        for issue, events, detail, example in notes
    ]
    return pa.Table.from_pylist(rows, QUALITY.arrow.remove(0).remove(0))


def type_word(type_: pa.DataType) -> str:
    """SQL word for a column's type, as DuckDB shows it."""
    if pa.types.is_dictionary(type_) or pa.types.is_string(type_):
        return "VARCHAR"
    return {INT32: "INTEGER", INT64: "BIGINT", DOUBLE: "DOUBLE", BOOL: "BOOLEAN"}[type_]
