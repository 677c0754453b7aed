-- key_averages: the sums of torch's key_averages(), in integer nanoseconds and bytes.
-- One row per (run, rank, name, kind, device_type, node_id and any other grouping), by run, rank and first occurrence.
-- As in torch, a duplicate does not count as a call and its self values stay with the surviving event, ops such as aten::is_leaf
-- are part of the op around them, `ProfilerStep#N` is `ProfilerStep*`, allocations outside all slices are the row `[memory]`, and
-- failed ones `[OutOfMemory]`. Columns that are not grouped by are NULL.
-- With compat=torch the rows are exactly torch's: only user annotations are told apart, not kinds, also in recordings of the
-- profiler before Kineto, and a list of tensors has the shape []; `kind` is then that of the first occurrence.
-- Python functions are rows, as in torch up to 2.13, unless include_python_functions is false. With compat=torch the default
-- follows the installed torch: false since 2.14, and if none is installed; in a bare shell it is true.
-- In a bare shell read from `sql/lib` first: key_events.
-- needs: events, memory, instants, traces
-- recorded: slices|memory|instants
-- divides by: rank
-- over ranks: name, kind, device_type; input_dims, stack, overload_name, node_id
-- main columns: name, self_cpu_ns, self_device_ns, calls, cpu_ns, device_ns, input_dims, self_device_bytes, self_cpu_bytes
-- tables by: self_device_ns, self_cpu_ns
-- parameter group_by_input_shape     BOOLEAN = false  slices with different input shapes are separate rows
-- parameter group_by_stack_n         INTEGER = 0      slices with different first n stack frames are separate rows
-- parameter group_by_overload_name   BOOLEAN = false  different overloads of an operator are separate rows
-- parameter include_python_functions BOOLEAN = true   include Python functions; with compat=torch as in the installed torch
-- parameter compat                   VARCHAR(none|torch) = none  torch: merge rows exactly as torch does
-- parameter per                      VARCHAR(name|all)   = name  what each row is; all: the sums over all names
-- run                VARCHAR         run that the trace belongs to
-- rank               INTEGER         rank within the run
-- name               VARCHAR         name of the slices; NULL if the source has none
-- kind               VARCHAR         what the slices are: host_op, kernel, ...; other for [memory]
-- device_type        VARCHAR         CPU, or the type of the devices in the trace; CUDA if that is not known
-- input_dims         VARCHAR         input shapes as JSON text; NULL without group_by_input_shape
-- stack              VARCHAR         first group_by_stack_n frames, innermost first, joined by ;
-- overload_name      VARCHAR         overload of the operator; NULL without group_by_overload_name
-- calls              BIGINT          number of slices without duplicates; for [memory], allocations and frees
-- cpu_ns             BIGINT   ns     sum of durations on the host; 0 on a device
-- self_cpu_ns        BIGINT   ns     host time in the slices but in none of their children; 0 on a device
-- device_ns          BIGINT   ns     device time launched inside the slices; on a device, their time
-- self_device_ns     BIGINT   ns     device time launched by the slices themselves; on a device, their time
-- cpu_bytes          BIGINT   bytes  host memory allocated minus freed inside the slices; NULL if not recorded
-- self_cpu_bytes     BIGINT   bytes  cpu_bytes minus that of their children; NULL if not recorded
-- device_bytes       BIGINT   bytes  device memory allocated minus freed inside the slices; NULL if not recorded
-- self_device_bytes  BIGINT   bytes  device_bytes minus that of their children; NULL if not recorded
-- torch_flops        BIGINT   FLOP   FLOPs as counted by torch's with_flops; NULL if it counts none
-- node_id            BIGINT          node that the slices ran on (RPC); NULL if the source does not say
-- first_event_id     BIGINT          event_id of the first occurrence; NULL for [memory]
WITH given AS (
    FROM with_own_times(events, coalesce(getvariable('compat'), 'none') = 'torch')
),
keys AS (
    SELECT
        run,
        rank,
        name,
        kind_key,
        on_device,
        legacy_key,
        node_id,
        input_dims,
        stack,
        overload_name,
        min({start_ns: start_ns, less_ns: -dur_ns, preorder: preorder, event_id: event_id, kind: kind}) AS first_occurrence,
        sum(calls) AS calls,
        sum(total_ns) AS total_ns,
        coalesce(sum(self_ns), 0) AS self_ns,
        coalesce(sum(device_ns), 0) AS device_ns,
        coalesce(sum(self_device_ns), 0) AS self_device_ns,
        sum(cpu_bytes) AS cpu_bytes,
        sum(self_cpu_bytes) AS self_cpu_bytes,
        sum(device_bytes) AS device_bytes,
        sum(self_device_bytes) AS self_device_bytes,
        sum(torch_flops) AS torch_flops
    FROM key_events(
        given,
        memory,
        instants,
        coalesce(getvariable('group_by_input_shape'), false),
        coalesce(getvariable('group_by_stack_n'), 0),
        coalesce(getvariable('group_by_overload_name'), false),
        coalesce(getvariable('compat'), 'none') = 'torch'
    )
    WHERE
        coalesce(getvariable('include_python_functions'), true)
        OR NOT is_frame(kind, name)
    GROUP BY ALL
)
SELECT
    keys.run,
    keys.rank,
    keys.name,
    keys.first_occurrence.kind AS kind,
    CASE WHEN keys.on_device THEN coalesce(traces.device_type, 'CUDA') ELSE 'CPU' END AS device_type,
    keys.input_dims,
    keys.stack,
    keys.overload_name,
    keys.calls::BIGINT AS calls,
    try_cast(CASE WHEN keys.on_device THEN 0 ELSE keys.total_ns END AS BIGINT) AS cpu_ns,
    try_cast(CASE WHEN keys.on_device THEN 0 ELSE keys.self_ns END AS BIGINT) AS self_cpu_ns,
    try_cast(CASE WHEN keys.on_device THEN coalesce(keys.total_ns, 0) ELSE keys.device_ns END AS BIGINT) AS device_ns,
    try_cast(CASE WHEN keys.on_device THEN coalesce(keys.total_ns, 0) ELSE keys.self_device_ns END AS BIGINT) AS self_device_ns,
    try_cast(keys.cpu_bytes AS BIGINT) AS cpu_bytes,
    try_cast(keys.self_cpu_bytes AS BIGINT) AS self_cpu_bytes,
    try_cast(keys.device_bytes AS BIGINT) AS device_bytes,
    try_cast(keys.self_device_bytes AS BIGINT) AS self_device_bytes,
    try_cast(keys.torch_flops AS BIGINT) AS torch_flops,
    keys.node_id,
    keys.first_occurrence.event_id AS first_event_id
FROM keys
LEFT JOIN traces ON keys.run = traces.run AND keys.rank = traces.rank
ORDER BY keys.run, keys.rank, keys.first_occurrence, keys.name
