-- recorded: what the traces have anything of, and so what questions they can answer.
-- One row per page: all runs and ranks together.
-- Answers name in `recorded:` of their headers what they have no rows without.
-- In a bare shell read from `sql/lib` first: devices, lanes, collectives, inputs, steps, key_events, counters.
-- needs: events, profiler_steps, memory, counters, instants, traces, allocations, allocator_events, segments, recorded_collectives, process_groups, nodes, compiled_kernels
-- traces           BOOLEAN  any run and rank
-- slices           BOOLEAN  events of any kind
-- host_slices      BOOLEAN  host slices that nest
-- host_ops         BOOLEAN  host operators
-- calls            BOOLEAN  calls of the runtime or the driver
-- annotations      BOOLEAN  annotations
-- steps            BOOLEAN  profiler steps
-- device_work      BOOLEAN  kernels, copies or fills of devices
-- device_time      BOOLEAN  any of these, or steps that had some: a filter may leave steps without them
-- kernels          BOOLEAN  kernels
-- copies           BOOLEAN  copies or fills
-- launches         BOOLEAN  work of devices whose launch is known
-- graphs           BOOLEAN  work in launched graphs
-- communication    BOOLEAN  communication kernels
-- collective_calls BOOLEAN  kernels of collectives, sends and receives, or their slices on the host
-- collectives      BOOLEAN  collectives by name
-- known_work       BOOLEAN  work of devices whose FLOPs or bytes are known
-- input_shapes     BOOLEAN  shapes of operators' inputs
-- stacks           BOOLEAN  source lines or Python frames
-- frames           BOOLEAN  Python frames as slices, or stacks of operators
-- modules          BOOLEAN  calls of nn.Module
-- phases           BOOLEAN  inference phases
-- recomputed       BOOLEAN  what ran once more in backward
-- data_loads       BOOLEAN  DataLoader calls
-- gil              BOOLEAN  waits for Python's global interpreter lock, or holds of it
-- collections      BOOLEAN  garbage collections of Python
-- memory           BOOLEAN  records of allocations by the profiler
-- instants         BOOLEAN  events without a duration
-- counters         BOOLEAN  values of counters
-- counter_values   BOOLEAN  values of counters over time
-- counted_slices   BOOLEAN  values that slices counted while they ran
-- device_samples   BOOLEAN  values of counters of a device over time
-- power            BOOLEAN  values of power over time
-- snapshots        BOOLEAN  a memory snapshot
-- allocations      BOOLEAN  allocations in a memory snapshot
-- history          BOOLEAN  allocator records in a memory snapshot
-- segments         BOOLEAN  segments in a memory snapshot
-- dumps            BOOLEAN  dumps of the flight recorder
-- nccl_records     BOOLEAN  records of a profiler plugin of NCCL
-- nodes            BOOLEAN  nodes of an execution trace
-- compiled_kernels BOOLEAN  kernels of graphs that Inductor compiled
-- several_ranks    BOOLEAN  a run of several ranks
WITH slices AS (
    SELECT
        count(*) > 0 AS slices,
        count(preorder) > 0 AS host_slices,
        count(*) FILTER (kind = 'host_op') > 0 AS host_ops,
        count(*) FILTER (is_call(kind)) > 0 AS calls,
        count(*) FILTER (kind = 'annotation' OR kind = 'device_annotation') > 0 AS annotations,
        count(*) FILTER (is_busy(kind)) > 0 AS device_work,
        count(*) FILTER (kind = 'kernel') > 0 AS kernels,
        count(*) FILTER (is_busy(kind) AND kind <> 'kernel') > 0 AS copies,
        count(launch_id) > 0 AS launches,
        count(graph_position) > 0 AS graphs,
        count(*) FILTER (kind = 'kernel' AND is_communication(kernel_category)) > 0 AS communication,
        count(*) FILTER (
            kind = 'kernel' AND (collective IS NOT NULL OR is_communication(kernel_category))
            OR is_op(kind) AND (starts_with(name, 'gloo:') OR starts_with(name, 'mpi:'))
        ) > 0 AS collective_calls,
        count(collective) > 0 AS collectives,
        count(*) FILTER (is_busy(kind) AND coalesce(flops, bytes) IS NOT NULL) > 0 AS known_work,
        count(input_dims) > 0 AS input_shapes,
        count(stack) > 0 OR count(python_stack) > 0 AS stacks,
        count(*) FILTER (kind = 'python') > 0 OR count(stack) > 0 AS frames,
        count(python_module_id) > 0 OR count(module_hierarchy) > 0 AS modules,
        count(phase_id) > 0 AS phases,
        count(*) FILTER (is_recompute) > 0 AS recomputed,
        count(*) FILTER (is_op(kind) AND is_data_load(name)) > 0 AS data_loads,
        count(*) FILTER (kind = 'gil') > 0 AS gil,
        count(*) FILTER (is_collection(kind, name)) > 0 AS collections
    FROM events
),
records AS (
    SELECT
        count(*) FILTER (is_of_plugin(recorder)) > 0 AS nccl_records,
        count(*) FILTER (NOT is_of_plugin(recorder)) > 0 AS dumps
    FROM recorded_collectives
)
SELECT
    (SELECT count(*) FROM traces) > 0 AS traces,
    slices.slices,
    slices.host_slices,
    slices.host_ops,
    slices.calls,
    slices.annotations,
    (SELECT count(*) FROM profiler_steps) > 0 AS steps,
    slices.device_work,
    slices.device_work OR (SELECT count(compute_ns) FROM profiler_steps) > 0 AS device_time,
    slices.kernels,
    slices.copies,
    slices.launches,
    slices.graphs,
    slices.communication,
    slices.collective_calls OR records.nccl_records AS collective_calls,
    slices.collectives,
    slices.known_work,
    slices.input_shapes,
    slices.stacks,
    slices.frames,
    slices.modules,
    slices.phases,
    slices.recomputed,
    slices.data_loads,
    slices.gil,
    slices.collections,
    (SELECT count(*) FROM memory) > 0 AS memory,
    (SELECT count(*) FROM instants) > 0 AS instants,
    (SELECT count(*) FROM counters) > 0 AS counters,
    (SELECT count(*) FROM counters WHERE event_id IS NULL) > 0 AS counter_values,
    (SELECT count(*) FROM counters WHERE event_id IS NOT NULL) > 0 AS counted_slices,
    (SELECT count(*) FROM counters WHERE event_id IS NULL AND device IS NOT NULL) > 0 AS device_samples,
    (SELECT count(*) FROM counters WHERE event_id IS NULL AND is_power(name, series, unit)) > 0 AS power,
    (SELECT count(*) FROM allocations) + (SELECT count(*) FROM allocator_events) + (SELECT count(*) FROM segments) > 0
        AS snapshots,
    (SELECT count(*) FROM allocations) > 0 AS allocations,
    (SELECT count(*) FROM allocator_events) > 0 AS history,
    (SELECT count(*) FROM segments) > 0 AS segments,
    records.dumps OR (SELECT count(*) FROM process_groups) > 0 AS dumps,
    records.nccl_records,
    (SELECT count(*) FROM nodes) > 0 AS nodes,
    (SELECT count(*) FROM compiled_kernels) > 0 AS compiled_kernels,
    (SELECT count(*) FROM (SELECT run FROM traces GROUP BY run HAVING count(*) > 1)) > 0 AS several_ranks
FROM slices, records
