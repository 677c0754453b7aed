"""A function for each answer of ``sql/answers``, bound to `Trace` by its name.

Made by ``python scripts/questions.py`` out of the headers; do not edit. ``profframe answer NAME``
says what each column is.
"""

from collections.abc import Sequence

import polars as pl

from profframe.query.selection import Text
from profframe.trace.base_trace import BaseTrace
from profframe.trace.parts import Each
from profframe.trace.query import answer
from profframe.workers.crew import On


def annotations(
    self: BaseTrace,
    per: str = "name",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """What ran on host and devices for each user annotation, step by step.

    Parameters
    ----------
    per
        What each row is; call: one annotation. One of ``"name"``, ``"call"``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, step, name), by run, rank, step (rows outside steps first), first
        start, name. Columns: ``run rank step name calls host_ns kernels copies device_ns busy_ns
        p50_host_ns max_host_ns first_host_ns device_start_ns device_window_ns
        exposed_communication_ns idle_ns step_ns lag_ns``.

        With ``per=call``: what ran on host and devices for each single user annotation. One row per
        annotation, by run, rank, start_ns, event_id. Columns: ``run rank step name event_id
        start_ns host_ns kernels copies device_ns busy_ns device_start_ns device_window_ns
        exposed_communication_ns idle_ns``.
    """
    return answer(
        self, "annotations", per=per, sort=sort, top=top, columns=columns, each=each, on=on
    )


def clock_skew(
    self: BaseTrace,
    skewed_ns: int = 50_000,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Whether the ranks of a run share one clock, and how far their clocks differ.

    Parameters
    ----------
    skewed_ns
        Offsets beyond this, in ns, and beyond three times their error are marked skewed.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank), by run and rank. Columns: ``run rank clock base_ns reference_rank
        offset_ns error_ns collectives note``.
    """
    return answer(
        self,
        "clock_skew",
        skewed_ns=skewed_ns,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def collective_progress(
    self: BaseTrace,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """How far each rank got in each process group: which ranks are ahead, which behind.

    Parameters
    ----------
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, process_group, group_ranks), by run, group and rank. Columns: ``run
        rank process_group process_group_description group_ranks is_loaded first_seq last_seq
        completed_seq missing_calls kind state created_ns stack``.
    """
    return answer(
        self, "collective_progress", sort=sort, top=top, columns=columns, each=each, on=on
    )


def collective_traffic(
    self: BaseTrace,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """How many bytes each rank sends to each other rank by all_to_all and send.

    Parameters
    ----------
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, peer_rank, process_group), by run, rank, peer_rank and group.
        Columns: ``run rank peer_rank process_group calls bytes``.
    """
    return answer(self, "collective_traffic", sort=sort, top=top, columns=columns, each=each, on=on)


def collectives(
    self: BaseTrace,
    per: str = "collective",
    mismatched: bool = False,
    corrected: bool = True,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Collectives matched across the ranks of each run: waits, latency, bandwidth, mismatches.

    Parameters
    ----------
    per
        What each row is; size: a group, operation, data type and size. One of ``"collective"``,
        ``"rank"``, ``"size"``.
    mismatched
        Only collectives with a mismatch other than not_loaded.
    corrected
        Correct clocks by the offsets of clock_skew, if all are known.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per collective, or with per=rank one per collective and rank, by run, number and
        rank. Columns: ``run ranks number rank process_group collective collective_seq matched_by
        expected_ranks missing_ranks mismatch step dtype bytes imbalance event_id kernels start_ns
        dur_ns wait_ns transfer_ns start_skew_ns end_skew_ns last_rank latency_ns algorithm_gb_per_s
        bus_gb_per_s is_corrected``.

        With ``per=size``: how fast collectives are, by group, operation, data type and size. One
        row per (run, process_group, collective, dtype, bytes), the most time first, then by run and
        these columns. Columns: ``run ranks process_group collective dtype bytes calls mismatches
        total_ns mean_ns min_ns p50_ns max_ns skew_ns max_skew_ns algorithm_gb_per_s bus_gb_per_s
        is_corrected``.
    """
    return answer(
        self,
        "collectives",
        per=per,
        mismatched=mismatched,
        corrected=corrected,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def counter_series(
    self: BaseTrace,
    name: str = "",
    per: str = "value",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Every counter of the trace over time.

    Parameters
    ----------
    name
        Only counters with this text in their name, taken literally.
    per
        What each row is. One of ``"value"``, ``"counter"``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per value, by run, rank, name, series, process, counter_id, device, unit and time,
        then by value. Columns: ``run rank name series pid thread counter_id device unit time_ns
        value``.

        With ``per=counter``: range and time-weighted mean of every counter. One row per (run, rank,
        name, series, pid, counter_id, device, unit), in this order. Columns: ``run rank name series
        pid counter_id device unit samples start_ns span_ns mean_value min_value max_value
        last_value``.
    """
    return answer(
        self,
        "counter_series",
        name=name,
        per=per,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def counters_by_op(
    self: BaseTrace,
    per: str = "op",
    name: str = "",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """What counters were in each op, from samples of devices, CUPTI's range profiler or rocprofv3.

    Parameters
    ----------
    per
        What each row is. One of ``"op"``, ``"kernel"``.
    name
        Only counters with this text in their name, taken literally.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, op or kernel, device, counter, series), by run, rank, its first
        slice, device, counter, series. Columns: ``run rank op kernel device counter series unit
        mean_value total min_value max_value matched_by ops ranges slices total_ns covered_ns
        samples beside_share``.
    """
    return answer(
        self,
        "counters_by_op",
        per=per,
        name=name,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def energy(
    self: BaseTrace,
    per: str = "device",
    unit: str = "",
    name: str = "",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """The energy that each device took, by samples of power, and how much of it while it worked.

    Parameters
    ----------
    per
        What each row is. One of ``"device"``, ``"step"``, ``"op"``, ``"kernel"``.
    unit
        Unit of counters of power that say none. One of ``"W"``, ``"mW"``, ``"uW"``, ``"kW"``.
    name
        Only counters with this text in their name, taken literally.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, device, counter, series), in this order. Columns: ``run rank device
        counter series unit note energy_j work_j idle_j measured_share mean_w min_w max_w samples
        start_ns span_ns sampled_ns longest_ns``.

        With ``per=step``: the energy that each device took in each step, by its samples of power.
        One row per (run, rank, device, counter, series, step), in this order, steps by start.
        Columns: ``run rank device counter series step energy_j work_j idle_j mean_w start_ns
        step_ns sampled_ns samples``.

        With ``per=op|kernel``: the energy of ops or kernels, and of idle time, by samples of the
        device's power. One row per (run, rank, device, counter, series, part, name), by run to
        series, the largest share first, then by part, name. Columns: ``run rank device counter
        series part name energy_j estimated_j share slices measured samples sampled_ns``.
    """
    return answer(
        self,
        "energy",
        per=per,
        unit=unit,
        name=name,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def expert_balance(
    self: BaseTrace,
    per: str = "step",
    corrected: bool = True,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """How evenly expert tokens are spread over ranks: bytes and time.

    Parameters
    ----------
    per
        What each row is. One of ``"step"``, ``"collective"``.
    corrected
        Correct clocks by the offsets of clock_skew, if all are known.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, step, collective, process_group, rank), or with per=collective one per
        collective and rank, in this order. Columns: ``run rank step collective process_group number
        ranks calls sent_bytes received_bytes received_over_mean received_max_over_mean
        most_received_rank dur_ns wait_ns transfer_ns transfer_over_mean transfer_max_over_mean
        slowest_rank is_corrected``.
    """
    return answer(
        self,
        "expert_balance",
        per=per,
        corrected=corrected,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def exposed_communication(
    self: BaseTrace,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """When the devices communicated while none of them computed.

    Parameters
    ----------
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, time span), by run, rank, start_ns. Columns: ``run rank start_ns
        dur_ns``.
    """
    return answer(
        self, "exposed_communication", sort=sort, top=top, columns=columns, each=each, on=on
    )


def flame(
    self: BaseTrace,
    top: int = 5000,
    min_share: float = 0.0,
    *,
    sort: Text | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """The host's call tree, merged by path, for a flame graph.

    Parameters
    ----------
    top
        Maximum nodes of a run and rank, without others and outside; 0 for all.
    min_share
        Drop nodes with a smaller share of both host and device time.
    sort, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, node), by run, rank and node_id: an outer node comes before those
        inside it. Columns: ``run rank node_id parent_id depth name kind direction calls self_ns
        total_ns self_device_ns device_ns event_id``.
    """
    return answer(
        self, "flame", top=top, min_share=min_share, sort=sort, columns=columns, each=each, on=on
    )


def fragmentation(
    self: BaseTrace,
    request_bytes: int = 0,
    per: str = "segment",
    segments: int = 32,
    pieces: int = 2000,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Memory that the allocator holds but nothing uses, by segment of a memory snapshot.

    Parameters
    ----------
    request_bytes
        A request to place; 0 for the largest that failed on the device.
    per
        What each row is. One of ``"segment"``, ``"piece"``.
    segments
        Maximum segments per (run, rank, device), the largest; 0 for all. Only with ``per=piece``.
    pieces
        Maximum pieces per (run, rank, device), the largest; 0 for all. Only with ``per=piece``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per segment with blocks, per (run, rank), by device, the most inactive bytes first,
        then by segment_id. Columns: ``run rank device_type device segment_id segment_type pool
        stream bytes active_bytes inactive_bytes free_blocks largest_free_bytes unused_bytes
        inactive_share request_bytes fits_block fits_segment is_releasable``.

        With ``per=piece``: how the segments of a memory snapshot are divided into blocks. One row
        per piece, per (run, rank, device), by device, the largest segments first, then by
        segment_id and place in the segment. Columns: ``run rank device_type device segment_id
        segment_type segment_bytes offset_bytes bytes state blocks segments pieces``.
    """
    return answer(
        self,
        "fragmentation",
        request_bytes=request_bytes,
        per=per,
        segments=segments,
        pieces=pieces,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def fx_nodes(
    self: BaseTrace,
    per: str = "post_grad",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Time of kernels that Inductor compiled, by the FX node or line of the model they come from.

    Parameters
    ----------
    per
        What each row is: a node of the compiled or the model's graph. One of ``"post_grad"``,
        ``"pre_grad"``, ``"line"``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, graph, name), by run and rank, the largest split_ns first, then by
        graph, name. Columns: ``run rank graph name kernels calls total_ns device_ns split_ns share
        main_kernel main_share``.
    """
    return answer(self, "fx_nodes", per=per, sort=sort, top=top, columns=columns, each=each, on=on)


def gaps(
    self: BaseTrace,
    top: int = 20,
    per: str = "device",
    kernel_wait_ns: int = 30_000,
    *,
    sort: Text | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """The longest gaps of the devices, their cause, and what the host did during most of each.

    Parameters
    ----------
    top
        Maximum gaps per run and rank, each of which takes time; 0 for all.
    per
        Gaps of each device as a whole, or of each stream. One of ``"device"``, ``"stream"``.
    kernel_wait_ns
        Gaps of at least this, in ns, are not kernel_wait.
    sort, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per gap, the `top` longest per (run, rank), by run and rank, the longest first, then
        by start. Columns: ``run rank device stream start_ns dur_ns share cause before_id
        before_name after_id after_name thread owner_id owner_sort owner_name owner_ns line_id
        line_name line_ns module_id module_name module_ns op_id op_name op_ns annotation_id
        annotation_name annotation_ns frame_id frame_name frame_ns call_id call_name call_ns``.
    """
    return answer(
        self,
        "gaps",
        top=top,
        per=per,
        kernel_wait_ns=kernel_wait_ns,
        sort=sort,
        columns=columns,
        each=each,
        on=on,
    )


def graph_layers(
    self: BaseTrace,
    per: str = "graph",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """The layers that repeat within graph replays, and the slowest of them.

    Parameters
    ----------
    per
        What each row is: a block of a graph, or one of its layers. One of ``"graph"``, ``"layer"``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, graph, block), by run, rank, graph and block; with per=layer one for
        each layer. Columns: ``run rank graph block layer phase replays kernels layers layer_kernels
        before after device_ns layers_ns share mean_ns p50_ns max_ns mean_span_ns before_ns after_ns
        slowest_layer slowest_ns slowest_ratio sequence first_launch_id first_id``.
    """
    return answer(
        self, "graph_layers", per=per, sort=sort, top=top, columns=columns, each=each, on=on
    )


def hangs(
    self: BaseTrace,
    per: str = "collective",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Collectives that a rank did not reach, that ranks disagree about, or that did not end.

    Parameters
    ----------
    per
        What each row is; rank: a rank's side of a collective. One of ``"collective"``, ``"rank"``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, process_group, group_ranks, collective_seq, line) that hangs; the causes
        first, then by time. Columns: ``run ranks process_group process_group_description
        group_ranks kind collective_seq line finding late_ranks waiting_ranks other_ranks
        not_loaded_ranks since_ns all_waiting_ns is_cause late_at waiting_stack late_stack``.

        With ``per=rank``: each rank's side of a hang: its call, sizes, types, time and stack. One
        row per (run, rank, process_group, collective_seq, line) of `hangs`, by run, group, number
        and rank. Columns: ``run rank process_group process_group_description collective_seq line
        finding role record_id kind called_group called_seq input_sizes input_dtypes output_sizes
        output_dtypes state created_ns stack``.
    """
    return answer(self, "hangs", per=per, sort=sort, top=top, columns=columns, each=each, on=on)


def host_waits(
    self: BaseTrace,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Calls that made the host wait for a device, by op and line, and whether one had work.

    Parameters
    ----------
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, name, op, call_site, process), the largest total_ns first, then by
        these. Columns: ``run rank name op call_site process top_caller calls total_ns max_ns
        device_idle_ns idle_after_ns host_share``.
    """
    return answer(self, "host_waits", sort=sort, top=top, columns=columns, each=each, on=on)


def idle(
    self: BaseTrace,
    per: str = "stream",
    kernel_wait_ns: int = 30_000,
    by: str = "cause",
    into: str = "none",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """How long each stream had nothing to do, by cause.

    Parameters
    ----------
    per
        Gaps of each stream, or of each device as a whole. One of ``"stream"``, ``"device"``.
    kernel_wait_ns
        Gaps of at least this, in ns, are not kernel_wait.
    by
        What each row is; others: what the host was in. One of ``"cause"``, ``"line"``,
        ``"module"``, ``"op"``, ``"annotation"``, ``"frame"``, ``"call"``.
    into
        Libraries whose frames are lines too, as in `python_lines`. Only with
        ``by=line|module|op|annotation|frame|call``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, device, stream, cause that occurs), by run, rank, device and stream,
        the longest idle_ns first. Columns: ``run rank device stream cause gaps idle_ns mean_ns
        max_ns share span_share busy_ns span_ns line_name line_ns module_name module_ns op_name
        op_ns annotation_name annotation_ns launch_wait_ns``.

        With ``by=line|module|op|annotation|frame|call``: what the host did while the devices had
        nothing to do. One row per (run, rank, device, stream, name), by run, rank, device and
        stream, the longest idle_ns first, then by name. Columns: ``run rank device stream name gaps
        idle_ns share max_ns max_id``.
    """
    return answer(
        self,
        "idle",
        per=per,
        kernel_wait_ns=kernel_wait_ns,
        by=by,
        into=into,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def input_balance(
    self: BaseTrace,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """How long each rank waits for its input, and which rank holds up the others.

    Parameters
    ----------
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, step, rank) with DataLoader calls, by run, the rows without a step first,
        then by step and rank. Columns: ``run rank step ranks calls load_ns step_share wait_ns
        mean_wait_ns median_wait_ns max_wait_ns over_median_ns wait_over_mean slowest_rank``.
    """
    return answer(self, "input_balance", sort=sort, top=top, columns=columns, each=each, on=on)


def kernel_categories(
    self: BaseTrace,
    per: str = "rank",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Where device time went: matrix products, attention, collectives, ...

    Parameters
    ----------
    per
        What rows are split by. One of ``"rank"``, ``"step"``, ``"stream"``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, step, device, stream, category, class), the largest total_ns first
        within a rank, step or stream. Columns: ``run rank step device stream category class calls
        total_ns share busy_ns exposed_ns both_ns``.
    """
    return answer(
        self, "kernel_categories", per=per, sort=sort, top=top, columns=columns, each=each, on=on
    )


def kernel_overlap(
    self: BaseTrace,
    per: str = "rank",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """How much of the communication was hidden under computation.

    Parameters
    ----------
    per
        What each row is; collective: every communication kernel. One of ``"rank"``,
        ``"process_group"``, ``"collective"``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank) that communicated, per (run, rank, process_group), or per
        communication kernel, by run, rank, start. Columns: ``run rank process_group collective
        event_id name start_ns calls communication_ns hidden_ns exposed_ns hidden_share``.
    """
    return answer(
        self, "kernel_overlap", per=per, sort=sort, top=top, columns=columns, each=each, on=on
    )


def kernels(
    self: BaseTrace,
    per: str = "name",
    top: int = 0,
    copies: bool = False,
    tiny_ns: int = 5000,
    *,
    per_op: bool = False,
    sort: Text | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Device time by kernel name, and the op that launched most of it.

    Parameters
    ----------
    per
        What each row is; launch: grid, block, registers. One of ``"name"``, ``"short_name"``,
        ``"category"``, ``"class"``, ``"launch"``.
    top
        N: the N largest per rank, and one row `others`; 0: all.
    copies
        Include memory copies and fills.
    tiny_ns
        Executions that are shorter, in ns, are tiny.
    per_op
        Also split rows by the op that launched the kernel. Only with ``per=launch``.
    sort, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, name, class), the largest total_ns first, then by run, rank, name,
        class; `others` last. Columns: ``run rank name calls total_ns mean_ns p50_ns std_ns min_ns
        max_ns share top_op top_op_share launch_site launch_site_share class class_share short_name
        category fused_ops precision tiny_calls tiny_share tiny_total_ns is_mixed``.

        With ``per=launch``: device time of kernels by how they were launched: grid, block,
        registers and shared memory. One row per (run, rank, name, grid, block, registers,
        shared_memory_bytes, op), the largest total_ns first, then in this order. Columns: ``run
        rank name grid block registers shared_memory_bytes op calls total_ns mean_ns p50_ns min_ns
        max_ns share blocks_per_sm occupancy``.
    """
    return answer(
        self,
        "kernels",
        per=per,
        top=top,
        copies=copies,
        tiny_ns=tiny_ns,
        per_op=per_op,
        sort=sort,
        columns=columns,
        each=each,
        on=on,
    )


def launches(
    self: BaseTrace,
    outlier_call_ns: int = 50_000,
    outlier_delay_ns: int = 100_000,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """What launch calls cost the host, and how long their work waited.

    Parameters
    ----------
    outlier_call_ns
        Calls longer than this, in ns, are outliers.
    outlier_delay_ns
        Delays longer than this, in ns, are outliers.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, name), the largest total_ns first, then by run, rank, name. Columns:
        ``run rank name calls calls_without_work kernels copies fills device_ns total_ns mean_ns
        p50_ns p90_ns p99_ns max_ns mean_delay_ns p50_delay_ns p90_delay_ns p99_delay_ns
        max_delay_ns short_kernels outlier_calls outlier_delays``.
    """
    return answer(
        self,
        "launches",
        outlier_call_ns=outlier_call_ns,
        outlier_delay_ns=outlier_delay_ns,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def memory_bandwidth(
    self: BaseTrace,
    per: str = "direction",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """How fast memory was copied and filled.

    Parameters
    ----------
    per
        Name: separate rows for pinned and pageable memory. One of ``"direction"``, ``"name"``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, device, kind, name), the largest total_ns first, then by these.
        Columns: ``run rank device kind name calls unsized_calls bytes total_ns busy_ns bytes_per_s
        busy_bytes_per_s min_bytes_per_s max_bytes_per_s busy_share``.
    """
    return answer(
        self, "memory_bandwidth", per=per, sort=sort, top=top, columns=columns, each=each, on=on
    )


def memory_owners(
    self: BaseTrace,
    per: str = "op",
    at: str = "peak",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """What was allocated at the memory peak, or is never freed, by op, module, line or step.

    Parameters
    ----------
    per
        What each row is. One of ``"op"``, ``"module"``, ``"line"``, ``"annotation"``, ``"step"``.
    at
        The moment: the peak, or the end of the trace, for what is never freed. One of ``"peak"``,
        ``"end"``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, device_type, device, origin, name), by device, the most bytes first,
        then by origin and name. Columns: ``run rank device_type device origin name blocks bytes
        share max_bytes steps op_id source``.
    """
    return answer(
        self, "memory_owners", per=per, at=at, sort=sort, top=top, columns=columns, each=each, on=on
    )


def memory_peak(
    self: BaseTrace,
    per: str = "device",
    top: int | None = None,
    *,
    sort: Text | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """When the most memory was allocated on each device, by which op, and what was never freed.

    Parameters
    ----------
    per
        What each row is; block: one that was never freed. One of ``"device"``, ``"block"``.
    top
        Maximum rows per (run, rank); 0 for all. Only with ``per=block``.
    sort, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, device_type, device), in this order; on a tie the earliest record.
        Columns: ``run rank device_type device allocated_bytes before_trace_bytes reserved_bytes
        time_ns op_id op_name module_name line_name annotation_id annotation_name unfreed_blocks
        unfreed_bytes has_totals source``.

        With ``per=block``: the largest blocks that were allocated in the trace and never freed, and
        the op of each. One row per block, per (run, rank, device_type, device), the largest first,
        then by run, rank, time, device and address. Columns: ``run rank device_type device address
        bytes time_ns op_id op_name step annotation_id annotation_name``.
    """
    return answer(
        self, "memory_peak", per=per, top=top, sort=sort, columns=columns, each=each, on=on
    )


def memory_stacks(
    self: BaseTrace,
    per: str = "stack",
    at: str = "peak",
    top: int = 100,
    from_ns: int = 0,
    *,
    to_ns: int = 0,
    since: str = "",
    until: str = "",
    sort: Text | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """What a memory snapshot holds at the peak and at the end, by stack, module, pool, ...

    Parameters
    ----------
    per
        What each row is. One of ``"stack"``, ``"frame"``, ``"module"``, ``"category"``, ``"pool"``,
        ``"metadata"``, ``"fx_node"``, ``"annotation"``.
    at
        Peak, or the last time that memory ran out; change: from one moment to another. One of
        ``"peak"``, ``"oom"``, ``"change"``.
    top
        Maximum rows per (run, rank, device); 0 for all.
    from_ns
        From this time, on the clock that traces.clock names; 0 for the beginning. Only with
        ``at=change``.
    to_ns
        To this time; 0 for the end. Only with ``at=change``.
    since
        From the first start of an annotation of this name. Only with ``at=change``.
    until
        To the last end of an annotation of this name. Only with ``at=change``.
    sort, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per name, per (run, rank, device), by device, the most held at the peak first, then
        at the end, then by name. Columns: ``run rank device_type device stack_id name peak_ns
        peak_bytes peak_blocks peak_share end_bytes end_blocks unfreed_bytes unfreed_blocks
        allocations allocated_bytes stack``.

        With ``at=change``: what a memory snapshot holds more of at one time than at another. One
        row per name, per (run, rank, device), with memory allocated or freed for good in between,
        by device, largest change first. Columns: ``run rank device_type device stack_id name
        from_bytes to_bytes change_bytes made_bytes made_blocks freed_bytes freed_blocks stack``.
    """
    return answer(
        self,
        "memory_stacks",
        per=per,
        at=at,
        top=top,
        from_ns=from_ns,
        to_ns=to_ns,
        since=since,
        until=until,
        sort=sort,
        columns=columns,
        each=each,
        on=on,
    )


def memory_timeline(
    self: BaseTrace,
    points: int = 1000,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Allocated and reserved memory of each device over time.

    Parameters
    ----------
    points
        Maximum rows per device; 0 for every record.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per allocation or free, by run, rank, device_type, device and time; allocations
        first within an instant. Columns: ``run rank device_type device time_ns bytes
        allocated_bytes reserved_bytes op_id op_name``.
    """
    return answer(
        self,
        "memory_timeline",
        points=points,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def mfu(
    self: BaseTrace,
    per: str = "run",
    model_flops_per_step: float = 0.0,
    dtype: str = "",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """How much of the devices' peak went into the model (MFU), and with what ran again (HFU).

    Parameters
    ----------
    per
        What each row is. One of ``"run"``, ``"step"``, ``"phase"``, ``"annotation"``.
    model_flops_per_step
        By run and step: FLOPs of a step of all ranks, such as 6ND.
    dtype
        Not the peak of the type with most. One of ``"fp64"``, ``"fp32"``, ``"tf32"``, ``"fp16"``,
        ``"bf16"``, ``"fp8"``, ``"fp6"``, ``"fp4"``, ``"int8"``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, step, name), steps and names in the order of their first work. Columns:
        ``run ranks step name mfu hfu dtype peak_flop_per_s known_flops_share known_product_share
        model_flops recomputed_flops devices steps device_ns note``.
    """
    return answer(
        self,
        "mfu",
        per=per,
        model_flops_per_step=model_flops_per_step,
        dtype=dtype,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def modules(
    self: BaseTrace,
    per: str = "step",
    together: Sequence[str] = (),
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """What ran on host and devices for each nn.Module, forward and backward.

    Parameters
    ----------
    per
        What rows are split by: steps, nothing within a run, or classes of modules. One of
        ``"step"``, ``"run"``, ``"class"``.
    together
        Names or classes, or patterns with `*`: one row for all modules that one fits, and no
        others.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, step, name, module_id), by run and rank, the longest total_device_ns
        first, then total_host_ns. Columns: ``run rank step name module_id modules calls host_ns
        self_host_ns backward_host_ns total_host_ns kernels device_ns self_device_ns
        backward_kernels backward_device_ns self_backward_device_ns total_device_ns
        total_self_device_ns busy_ns span_ns exposed_communication_ns idle_ns``.
    """
    return answer(
        self,
        "modules",
        per=per,
        together=together,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def op_idle_queue(
    self: BaseTrace,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Self time of each host slice, and whether the devices had work meanwhile.

    Parameters
    ----------
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per host slice that nests, by run, rank, start and event_id. Columns: ``run rank
        event_id parent_id name kind step start_ns dur_ns self_ns idle_ns idle_share queue_depth``.
    """
    return answer(self, "op_idle_queue", sort=sort, top=top, columns=columns, each=each, on=on)


def op_kernels(
    self: BaseTrace,
    group_by_input_shape: bool = False,
    copies: bool = False,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Which op launched which kernels in which order, how often and with what delays.

    Parameters
    ----------
    group_by_input_shape
        Separate rows for different input shapes.
    copies
        Include memory copies and fills in the sequences.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, name, kind, launch_site, input_dims, sequence), largest device_ns
        first, by run, rank, first_event_id. Columns: ``run rank name kind launch_site input_dims
        sequence kernels calls device_ns total_ns mean_op_delay_ns p50_op_delay_ns p90_op_delay_ns
        max_op_delay_ns mean_runtime_delay_ns p50_runtime_delay_ns p90_runtime_delay_ns
        max_runtime_delay_ns first_event_id``.
    """
    return answer(
        self,
        "op_kernels",
        group_by_input_shape=group_by_input_shape,
        copies=copies,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def optimizable_events(
    self: BaseTrace,
    n: int = 1,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """The host slices most worth optimizing where the devices ran out of work.

    Parameters
    ----------
    n
        Rows per (run, rank).
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per host slice, the best `n` per (run, rank), by run, rank, the highest score first,
        then start and event_id. Columns: ``run rank event_id name kind start_ns dur_ns self_ns
        idle_ns idle_share score source_location``.
    """
    return answer(
        self, "optimizable_events", n=n, sort=sort, top=top, columns=columns, each=each, on=on
    )


def out_of_memory(
    self: BaseTrace,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Each time that memory ran out: the request, and what held the rest.

    Parameters
    ----------
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per record `oom`, per (run, rank), in their order. Columns: ``run rank device_type
        device allocator_event_id time_ns requested_bytes device_free_bytes missing_bytes held_bytes
        held_blocks reserved_bytes inactive_bytes largest_free_bytes segment_free_bytes fits_block
        fits_segment fits_sum frame holder_bytes holder_frame holder_stack_id stack``.
    """
    return answer(self, "out_of_memory", sort=sort, top=top, columns=columns, each=each, on=on)


def overview(
    self: BaseTrace,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """What is in each trace.

    Parameters
    ----------
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank), also without events, by run and rank. Columns: ``run rank events
        span_ns threads devices kernels device_busy_ns steps``.
    """
    return answer(self, "overview", sort=sort, top=top, columns=columns, each=each, on=on)


def phases(
    self: BaseTrace,
    per: str = "phase",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Inference phases: requests, tokens, host and device time, graph or eager.

    Parameters
    ----------
    per
        What each row is: a phase, a batch size of it, or an occurrence. One of ``"phase"``,
        ``"batch"``, ``"occurrence"``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, phase, execution, is_warmup), with `per` also per batch or
        occurrence, by run, rank, first start. Columns: ``run rank phase execution is_warmup batch
        name event_id start_ns calls mean_batch tokens prefill_tokens decode_tokens host_ns span_ns
        p50_span_ns max_span_ns step_ns p50_step_ns max_step_ns device_start_ns device_window_ns
        lag_ns tokens_per_s kernels graphs device_ns graph_share busy_ns idle_ns idle_share
        communication_ns exposed_communication_ns known_share roofline_share``.
    """
    return answer(self, "phases", per=per, sort=sort, top=top, columns=columns, each=each, on=on)


def pipeline_actions(
    self: BaseTrace,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """What each pipeline rank did when: which stage, which microbatch, forward or backward.

    Parameters
    ----------
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per action of a pipeline, by run, rank, start, event_id, stage and microbatch.
        Columns: ``run rank step pass stage microbatch phase event_id name start_ns dur_ns idle_ns
        source``.
    """
    return answer(self, "pipeline_actions", sort=sort, top=top, columns=columns, each=each, on=on)


def pipeline_bubbles(
    self: BaseTrace,
    corrected: bool = True,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """How long each pipeline rank waited for others: before, between and after its work.

    Parameters
    ----------
    corrected
        Correct clocks by the offsets of clock_skew, if all are known.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, step, pass), by run, step, pass and rank. Columns: ``run rank step
        pass stages microbatches actions start_ns window_ns busy_ns bubble_ns bubble_share warmup_ns
        steady_ns cooldown_ns pipeline_ranks ideal_share is_corrected``.
    """
    return answer(
        self,
        "pipeline_bubbles",
        corrected=corrected,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def python_lines(
    self: BaseTrace,
    into: str = "none",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Host self time, device time and idle time by line of the user's code, or of libraries too.

    Parameters
    ----------
    into
        Libraries whose frames are lines too: none, all, torch, or any folder or module such as PIL.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, name), by run and rank, what only waits last, the longest self_ns,
        then self_device_ns first, by name. Columns: ``run rank name calls total_ns self_ns
        self_share idle_ns kernels device_ns self_device_ns self_backward_device_ns device_share
        first_id only_waits lines_from``.
    """
    return answer(
        self, "python_lines", into=into, sort=sort, top=top, columns=columns, each=each, on=on
    )


def python_pauses(
    self: BaseTrace,
    per: str = "thread",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Waits for Python's lock (GIL), who held it meanwhile, and garbage collections.

    Parameters
    ----------
    per
        What each row is; threads of a step are added up. One of ``"thread"``, ``"step"``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, thread) or (run, rank, step), by run, rank, step, the largest
        wait_ns first, then collection_ns. Columns: ``run rank thread thread_name step waits wait_ns
        max_wait_ns holder_name holder_share collections collection_ns max_collection_ns holds
        hold_ns max_hold_ns p50_wait_ns max_wait_start_ns holder``.
    """
    return answer(
        self, "python_pauses", per=per, sort=sort, top=top, columns=columns, each=each, on=on
    )


def queue_depth(
    self: BaseTrace,
    points: int = 0,
    per: str = "change",
    full_depth: int = 1024,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """How much work was waiting for each stream: launched but not begun.

    Parameters
    ----------
    points
        Maximum rows per stream, from 2; 0 for every change.
    per
        What each row is. One of ``"change"``, ``"stream"``.
    full_depth
        Depth from which a queue counts as full, so that a launch blocks. Only with ``per=stream``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, device, stream, moment in which the number changes), in this order.
        Columns: ``run rank device stream time_ns depth``.

        With ``per=stream``: how full the queue of each stream was, every depth weighted by its
        time. One row per (run, rank, device, stream) for which work was waiting, in this order.
        Columns: ``run rank device stream span_ns mean_depth min_depth max_depth p50_depth p90_depth
        p99_depth empty_ns empty_share blocked_ns blocked_share``.
    """
    return answer(
        self,
        "queue_depth",
        points=points,
        per=per,
        full_depth=full_depth,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def rank_balance(
    self: BaseTrace,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """How evenly each class of time is spread over ranks, overall and in each step.

    Parameters
    ----------
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, step, class), by run, the rows without a step first, then by step and
        class in the order below. Columns: ``run ranks step class min_ns max_ns mean_ns std_ns
        max_over_mean min_rank max_rank``.
    """
    return answer(self, "rank_balance", sort=sort, top=top, columns=columns, each=each, on=on)


def recompute(
    self: BaseTrace,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """What ran again in backward, for activation checkpointing, by module and op.

    Parameters
    ----------
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, module, op), the most device_ns first, then in this order. Columns:
        ``run rank module op calls launching self_host_ns kernels kernel_ns device_ns share``.
    """
    return answer(self, "recompute", sort=sort, top=top, columns=columns, each=each, on=on)


def run_samples(
    self: BaseTrace,
    per: str = "run",
    kernel_by: str = "name",
    copies: bool = False,
    outside: str = "none",
    *,
    devices: bool = False,
    dtype: str = "",
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Calls, time and work of every op, kernel and annotation, run by run or step by step.

    Parameters
    ----------
    per
        Step: each step, and nothing outside steps. One of ``"run"``, ``"step"``.
    kernel_by
        Shapes: op around the launch with its input shapes. One of ``"name"``, ``"short_name"``,
        ``"shapes"``, ``"category"``.
    copies
        Treat memory copies and fills as kernels.
    outside
        With per=step, also rows for what is outside steps. One of ``"none"``, ``"kernels"``,
        ``"all"``.
    devices
        Separate rows for the kernels of each device.
    dtype
        Data type assumed for work of unknown type. One of ``"fp64"``, ``"fp32"``, ``"tf32"``,
        ``"fp16"``, ``"bf16"``, ``"fp8"``, ``"fp6"``, ``"fp4"``, ``"int8"``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, step, what, name, device), by run, rank, step, what, the largest
        spent_ns first, name, device. Columns: ``run rank step what name device calls spent_ns
        device_ns flops flops_ns bytes bytes_ns compute_ps compute_ns memory_ps memory_ns``.
    """
    return answer(
        self,
        "run_samples",
        per=per,
        kernel_by=kernel_by,
        copies=copies,
        outside=outside,
        devices=devices,
        dtype=dtype,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def runs(
    self: BaseTrace,
    per_step: int = 0,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """How long each run and its steps took, what its devices did, and its memory peak.

    Parameters
    ----------
    per_step
        Tokens, samples or other units that a step processes on all ranks together; 0: not known.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per run, by run. Columns: ``run ranks clock start_ns events kernels span_ns steps
        step_mean_ns step_min_ns step_p50_ns step_p90_ns step_p99_ns step_max_ns throughput_per_s
        op_self_ns kernel_ns device_span_ns compute_ns exposed_communication_ns exposed_copy_ns
        unrecorded_ns idle_ns busy_ns busy_share exposed_communication_share peak_device_bytes
        peak_host_bytes``.
    """
    return answer(
        self, "runs", per_step=per_step, sort=sort, top=top, columns=columns, each=each, on=on
    )


def self_times(
    self: BaseTrace,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Where the time went, by name and kind.

    Parameters
    ----------
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, name, kind), the largest self_ns first, then by run, rank, name,
        kind. Columns: ``run rank name kind calls self_ns total_ns mean_ns min_ns max_ns
        self_share``.
    """
    return answer(self, "self_times", sort=sort, top=top, columns=columns, each=each, on=on)


def sequences(
    self: BaseTrace,
    name: str = "",
    min_kernels: int = 3,
    top: int = 10,
    copies: bool = False,
    *,
    sort: Text | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Which kernels run in sequence under an op, annotation or module, and how often.

    Parameters
    ----------
    name
        Text in the name of the slices, taken literally; '' for all outermost slices.
    min_kernels
        Leave out shorter sequences.
    top
        Maximum rows per run and rank; 0: all.
    copies
        Include memory copies and fills in the sequences.
    sort, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, name, kind, sequence), the most calls first, then by device_ns, run,
        rank, first_event_id. Columns: ``run rank name kind sequence kernels calls device_ns
        total_ns first_event_id``.
    """
    return answer(
        self,
        "sequences",
        name=name,
        min_kernels=min_kernels,
        top=top,
        copies=copies,
        sort=sort,
        columns=columns,
        each=each,
        on=on,
    )


def snapshot_timeline(
    self: BaseTrace,
    per: str = "device",
    points: int = 1000,
    top: int = 10,
    *,
    sort: Text | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Memory of a snapshot over time: allocated, active and reserved bytes, or what held them.

    Parameters
    ----------
    per
        What each row is. One of ``"device"``, ``"stack"``, ``"frame"``, ``"module"``,
        ``"category"``, ``"pool"``, ``"metadata"``, ``"fx_node"``, ``"annotation"``.
    points
        Maximum moments per device, from 5; 0 for all.
    top
        Maximum names per device; 0 for all.
    sort, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per moment, per (run, rank, device), by device and moment, and within it per name,
        the largest at the peak first. Columns: ``run rank device_type device event_id time_ns
        stack_id name is_rest allocated_bytes active_bytes reserved_bytes``.
    """
    return answer(
        self,
        "snapshot_timeline",
        per=per,
        points=points,
        top=top,
        sort=sort,
        columns=columns,
        each=each,
        on=on,
    )


def step_communication(
    self: BaseTrace,
    window: str = "step",
    corrected: bool = True,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """What ranks compute and communicate in each step, and how much of it is waiting.

    Parameters
    ----------
    window
        What a step is: its interval, as in `step_times`, or its slice on the host. One of
        ``"step"``, ``"host"``.
    corrected
        Correct clocks by the offsets of clock_skew, if all are known.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, step, rank) that used devices, by run, the rows without a step first, then
        by step and rank. Columns: ``run rank step ranks start_ns span_ns compute_ns
        communication_ns hidden_ns exposed_ns wait_ns transfer_ns unknown_ns hidden_share
        exposed_share wait_share compute_over_mean exposed_over_mean wait_over_mean step_ns host_ns
        device_start_ns device_window_ns lag_ns``.
    """
    return answer(
        self,
        "step_communication",
        window=window,
        corrected=corrected,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def step_times(
    self: BaseTrace,
    window: str = "step",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """How long each profiler step took, and what the devices did in it.

    Parameters
    ----------
    window
        What the parts are of: the interval of a step, or its slice on the host. One of ``"step"``,
        ``"host"``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per host slice `ProfilerStep#N`, by run, rank and start. Columns: ``run rank step
        start_ns step_ns host_ns device_start_ns device_window_ns lag_ns busy_ns compute_ns
        exposed_communication_ns exposed_copy_ns unrecorded_ns idle_ns other_steps_ns busy_share
        is_steady lack``.
    """
    return answer(
        self, "step_times", window=window, sort=sort, top=top, columns=columns, each=each, on=on
    )


def stragglers(
    self: BaseTrace,
    per: str = "rank",
    corrected: bool = True,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """Which rank the others wait for, how often, for how long, and what took it longer before.

    Parameters
    ----------
    per
        What each row is. One of ``"rank"``, ``"op"``, ``"kernel"``.
    corrected
        Correct clocks by the offsets of clock_skew, if all are known.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank) that takes part in collectives with others; with per=op or
        per=kernel one for each op or kernel before. Columns: ``run rank before_op before_kernel
        collectives times_last last_share times_first held_up_ns max_held_up_ns shared_ns excess
        excess_ns late_ns mean_late_ns max_late_ns wait_ns mean_wait_ns communication_ns
        is_corrected``.
    """
    return answer(
        self,
        "stragglers",
        per=per,
        corrected=corrected,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def tensor_traffic(
    self: BaseTrace,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """How many bytes ops of an execution trace read and write, by name.

    Parameters
    ----------
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, name, collective, process_group); by run and rank, those with the
        most bytes first. Columns: ``run rank name collective process_group
        process_group_description calls read_bytes written_bytes allocated_bytes largest_bytes
        largest_dtype largest_shape largest_node_id``.
    """
    return answer(self, "tensor_traffic", sort=sort, top=top, columns=columns, each=each, on=on)


def time_breakdown(
    self: BaseTrace,
    window: str = "step",
    per: str = "step",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """How the devices of each trace spent their time: compute, communicate, copy, idle.

    Parameters
    ----------
    window
        What a step is: its interval, or its slice on the host. One of ``"step"``, ``"host"``.
    per
        What each row is; combination: of classes that ran at once. One of ``"step"``,
        ``"combination"``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank) that used a device, with a NULL step, over the whole time of its
        devices, and one per profiler step. Columns: ``run rank step span_ns compute_ns
        exposed_communication_ns exposed_copy_ns unrecorded_ns idle_ns hidden_communication_ns
        hidden_copy_ns other_steps_ns step_ns host_ns device_start_ns device_window_ns lag_ns
        lack``.

        With ``per=combination``: how long the devices of each trace computed, communicated and
        copied, alone and together. One row per (run, rank, what was running together), the longest
        first, then by run, rank and classes. Columns: ``run rank classes total_ns share``.
    """
    return answer(
        self,
        "time_breakdown",
        window=window,
        per=per,
        sort=sort,
        top=top,
        columns=columns,
        each=each,
        on=on,
    )


def utilization(
    self: BaseTrace,
    window: str = "step",
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """How much of the time each device worked, and how much of the device its kernels could fill.

    Parameters
    ----------
    window
        What a step is: its interval, or its slice on the host. One of ``"step"``, ``"host"``.
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, device, step), by run, rank, device, step, the row without a step
        first. Columns: ``run rank device step span_ns kernel_ns busy_ns unrecorded_ns kernel_share
        busy_share sm_efficiency occupancy step_ns host_ns device_start_ns device_window_ns
        lag_ns``.
    """
    return answer(
        self, "utilization", window=window, sort=sort, top=top, columns=columns, each=each, on=on
    )


def work_rates(
    self: BaseTrace,
    *,
    sort: Text | None = None,
    top: int | None = None,
    columns: Text | None = None,
    each: Each | None = None,
    on: On = None,
) -> pl.DataFrame:
    """How fast each device worked over time: FLOP and bytes per second.

    Parameters
    ----------
    sort, top, columns
        Order, number and columns of the rows, as for `answer`.
    each, on
        Ask each rank or run by itself, and where, as for `answer`.

    Returns
    -------
    polars.DataFrame
        One row per (run, rank, device, moment at which a rate changes), in this order. Columns:
        ``run rank device time_ns flop_per_s bytes_per_s``.
    """
    return answer(self, "work_rates", sort=sort, top=top, columns=columns, each=each, on=on)
