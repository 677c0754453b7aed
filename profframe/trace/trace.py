"""`Trace`: the immutable tables of one or many traces, and questions about them.

The class is a table of contents: each line says where its method is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from profframe.errors import no_attribute
from profframe.query import renamed
from profframe.trace import (
    exports,
    generated_questions,
    jobs,
    query,
    run_statistics,
    text_views,
    trace_tables,
)
from profframe.trace.argument_hints import suggest_filter_calls
from profframe.trace.base_trace import BaseTrace

if TYPE_CHECKING:
    from profframe.trace.plots import Plots


@suggest_filter_calls
class Trace(BaseTrace):
    """Events of any number of runs and ranks, with the facts about them; immutable.

    Created by `profframe.load`. Its tables are polars DataFrames; its answers come from the files
    in
    ``sql/``.

    Examples
    --------
    >>> from profframe.schema import TABLES
    >>> empty = {name: table.arrow.empty_table() for name, table in TABLES.items()}
    >>> trace = Trace.from_tables(empty)
    >>> trace.self_times().height
    0
    """

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker would accept any name as an existing one

        def __getattr__(self, name: str) -> object:
            if name in renamed.ANSWERS:
                return query.renamed_method(self, name)
            if name in renamed.METHODS:
                new = renamed.METHODS[name]
                renamed.future_warning(renamed.sentence("Trace", name, new))
                return getattr(self, new)
            raise no_attribute(self, "a Trace", "trace", name)

    def __repr__(self) -> str:
        return text_views.prompt_text(self)

    def _repr_html_(self) -> str:
        return text_views.notebook_html(self)

    # Where it comes from: from_tables and from_store are in `BaseTrace`

    # Its tables
    @property
    def events(self) -> pl.DataFrame:
        """One row per slice, with the facts about it."""
        return trace_tables.table(self, "events")

    @property
    def memory(self) -> pl.DataFrame:
        """One row per allocation or free."""
        return trace_tables.table(self, "memory")

    @property
    def flows(self) -> pl.DataFrame:
        """One row per end or step of an arrow."""
        return trace_tables.table(self, "flows")

    @property
    def counters(self) -> pl.DataFrame:
        """One row per value of a counter event."""
        return trace_tables.table(self, "counters")

    @property
    def instants(self) -> pl.DataFrame:
        """One row per event without a duration, and per event without its own table."""
        return trace_tables.table(self, "instants")

    @property
    def threads(self) -> pl.DataFrame:
        """One row per (pid, tid), with its names."""
        return trace_tables.table(self, "threads")

    @property
    def devices(self) -> pl.DataFrame:
        """One row per device, with its peak rates."""
        return trace_tables.table(self, "devices")

    @property
    def profiler_steps(self) -> pl.DataFrame:
        """Steps of torch's profiler, each with how long it took."""
        return trace_tables.table(self, "profiler_steps")

    @property
    def phase_steps(self) -> pl.DataFrame:
        """Phases of inference, each occurrence with how long it took."""
        return trace_tables.table(self, "phase_steps")

    @property
    def segments(self) -> pl.DataFrame:
        """One row per segment of a memory snapshot."""
        return trace_tables.table(self, "segments")

    @property
    def blocks(self) -> pl.DataFrame:
        """One row per block of a segment of a memory snapshot."""
        return trace_tables.table(self, "blocks")

    @property
    def allocations(self) -> pl.DataFrame:
        """One row per allocation of a memory snapshot, with its lifetime."""
        return trace_tables.table(self, "allocations")

    @property
    def allocator_events(self) -> pl.DataFrame:
        """One row per record of the allocator in a memory snapshot."""
        return trace_tables.table(self, "allocator_events")

    @property
    def recorded_collectives(self) -> pl.DataFrame:
        """One row per record of a flight recorder: a collective, a send or a receive."""
        return trace_tables.table(self, "recorded_collectives")

    @property
    def process_groups(self) -> pl.DataFrame:
        """One row per process group that a rank is in, from flight recorder dumps."""
        return trace_tables.table(self, "process_groups")

    @property
    def stacks(self) -> pl.DataFrame:
        """One row per frame of a stack that an allocation or a collective was recorded in."""
        return trace_tables.table(self, "stacks")

    @property
    def nodes(self) -> pl.DataFrame:
        """One row per node of an execution trace."""
        return trace_tables.table(self, "nodes")

    @property
    def tensors(self) -> pl.DataFrame:
        """One row per input or output tensor of a node of an execution trace."""
        return trace_tables.table(self, "tensors")

    @property
    def compiled_kernels(self) -> pl.DataFrame:
        """Kernels of compiled graphs, and what they were made from."""
        return trace_tables.table(self, "compiled_kernels")

    @property
    def traces(self) -> pl.DataFrame:
        """One row per (run, rank): what was loaded, with its header."""
        return trace_tables.table(self, "traces")

    @property
    def quality(self) -> pl.DataFrame:
        """One row per check that found something: what was repaired, dropped or doubtful."""
        return trace_tables.table(self, "quality")

    @property
    def tables(self) -> dict[str, pa.Table]:
        """Every table as Arrow, in the schema's types; reads a store completely."""
        return trace_tables.tables(self)

    scan = trace_tables.scan

    # Some of its rows, additional tables, and how questions run
    filter = trace_tables.selected
    with_tables = trace_tables.with_tables
    with_devices = trace_tables.with_devices
    with_limits = trace_tables.with_limits
    session = trace_tables.shared_session

    # Questions
    answer = query.answer
    sql = query.sql
    advice = query.advice
    annotations = generated_questions.annotations
    clock_skew = generated_questions.clock_skew
    collective_progress = generated_questions.collective_progress
    collective_traffic = generated_questions.collective_traffic
    collectives = generated_questions.collectives
    counter_series = generated_questions.counter_series
    counters_by_op = generated_questions.counters_by_op
    op_idle_queue = generated_questions.op_idle_queue
    energy = generated_questions.energy
    expert_balance = generated_questions.expert_balance
    exposed_communication = generated_questions.exposed_communication
    flame = generated_questions.flame
    gaps = generated_questions.gaps
    graph_layers = generated_questions.graph_layers
    hangs = generated_questions.hangs
    host_waits = generated_questions.host_waits
    idle = generated_questions.idle
    input_balance = generated_questions.input_balance
    kernel_overlap = generated_questions.kernel_overlap
    kernel_categories = generated_questions.kernel_categories
    kernels = generated_questions.kernels
    key_averages = query.key_averages
    launches = generated_questions.launches
    memory_bandwidth = generated_questions.memory_bandwidth
    memory_owners = generated_questions.memory_owners
    memory_peak = generated_questions.memory_peak
    memory_timeline = generated_questions.memory_timeline
    mfu = generated_questions.mfu
    modules = generated_questions.modules
    op_kernels = generated_questions.op_kernels
    optimizable_events = generated_questions.optimizable_events
    overview = generated_questions.overview
    phases = generated_questions.phases
    pipeline_actions = generated_questions.pipeline_actions
    pipeline_bubbles = generated_questions.pipeline_bubbles
    python_lines = generated_questions.python_lines
    python_pauses = generated_questions.python_pauses
    queue_depth = generated_questions.queue_depth
    rank_balance = generated_questions.rank_balance
    recompute = generated_questions.recompute
    roofline = query.roofline
    run_samples = generated_questions.run_samples
    runs = generated_questions.runs
    self_times = generated_questions.self_times
    sequences = generated_questions.sequences
    step_times = generated_questions.step_times
    step_communication = generated_questions.step_communication
    stragglers = generated_questions.stragglers
    tensor_traffic = generated_questions.tensor_traffic
    time_breakdown = generated_questions.time_breakdown
    total_average = query.total_average
    memory_stacks = generated_questions.memory_stacks
    out_of_memory = generated_questions.out_of_memory
    fragmentation = generated_questions.fragmentation
    fx_nodes = generated_questions.fx_nodes
    snapshot_timeline = generated_questions.snapshot_timeline
    utilization = generated_questions.utilization
    work_rates = generated_questions.work_rates

    # Analyses
    critical_path = jobs.critical_path
    what_if = jobs.what_if
    what_if_grid = jobs.what_if_grid
    dependencies = jobs.dependencies
    blame = jobs.blame
    trend = run_statistics.trend
    regressions = run_statistics.regressions
    outliers = run_statistics.outliers

    # To look at
    summary = text_views.summary
    table = text_views.table
    tree = text_views.tree

    @property
    def plot(self) -> Plots:
        """Answers as charts (``pip install 'profframe[plot]'``): ``trace.plot.kernels()``, ..."""
        from profframe.trace.plots import Plots

        return Plots(self)

    @property
    def self_cpu_time_total(self) -> int:
        """Host time of all operators in nanoseconds, each moment of a thread counted once.

        torch's attribute of this name is in microseconds.
        """
        return int(self.total_average()["self_cpu_ns"].sum())

    # To write into files
    to_parquet = exports.to_parquet
    export_chrome_trace = exports.export_chrome_trace
    export_speedscope = exports.export_speedscope
    export_stacks = exports.export_stacks
    augment = exports.augment
    report = exports.report
