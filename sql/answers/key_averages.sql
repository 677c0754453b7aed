-- key_averages: what torch's key_averages() adds up, in integer nanoseconds and bytes.
-- One row per (run, rank, name, kind, device_type, node_id and what else is grouped by), by run, rank and first occurrence.
-- As in torch, a duplicate is no call of its own and its self values stay with the survivor, ops such as aten::is_leaf are
-- part of the op around them, `ProfilerStep#N` is `ProfilerStep*`, and allocations that no slice is around are the row
-- `[memory]`, as failed ones are `[OutOfMemory]`. Columns that are not grouped by are NULL.
-- With compat=torch the rows are exactly torch's: instead of kinds only user annotations are told apart, recordings of the
-- profiler before Kineto too, and a list of tensors has the shape []; `kind` is then that of the first occurrence.
-- Python functions are rows, as in torch up to 2.13, unless include_python_functions is false. With compat=torch its default is
-- that of the torch that is installed: false since 2.14, and where none is; in a bare shell it is true.
-- In a bare shell read from `sql/lib` first: key_events.
-- needs: events, memory, instants, traces
-- recorded: slices|memory|instants
-- parameter group_by_input_shape     BOOLEAN = false  slices with other input shapes are another row
-- parameter group_by_stack_n         INTEGER = 0      slices with other first n frames of the stack are another row
-- parameter group_by_overload_name   BOOLEAN = false  other overloads of an operator are another row
-- parameter include_python_functions BOOLEAN = true   Python functions are rows; with compat=torch as in the installed torch
-- parameter compat                   VARCHAR(none|torch) = none  torch makes one row of what is one row in torch
-- run                VARCHAR         run that the trace belongs to
-- rank               INTEGER         rank within the run
-- name               VARCHAR         name of the slices; NULL where the source has none
-- kind               VARCHAR         what the slices are: host_op, kernel, ...; other for [memory]
-- device_type        VARCHAR         CPU, or the type of the devices in the trace; CUDA where that is not known
-- input_dims         VARCHAR         input shapes as JSON text; NULL without group_by_input_shape
-- stack              VARCHAR         first group_by_stack_n frames, innermost first, joined by ;
-- overload_name      VARCHAR         overload of the operator; NULL without group_by_overload_name
-- calls              BIGINT          number of slices, duplicates left out; of [memory] the number of allocations and frees
-- cpu_ns             BIGINT   ns     sum of durations on the host; 0 on a device
-- self_cpu_ns        BIGINT   ns     host time in the slices and in none of their children; 0 on a device
-- device_ns          BIGINT   ns     device time launched inside the slices; on a device, their time
-- self_device_ns     BIGINT   ns     device time launched by the slices themselves; on a device, their time
-- cpu_bytes          BIGINT   bytes  host memory allocated minus freed inside the slices; NULL where not recorded
-- self_cpu_bytes     BIGINT   bytes  cpu_bytes minus that of their children; NULL where not recorded
-- device_bytes       BIGINT   bytes  device memory allocated minus freed inside the slices; NULL where not recorded
-- self_device_bytes  BIGINT   bytes  device_bytes minus that of their children; NULL where not recorded
-- torch_flops        BIGINT   FLOP   what torch's with_flops gives; NULL where it gives nothing
-- node_id            BIGINT          node that the slices ran on (RPC); NULL where the source does not say
-- first_event_id     BIGINT          event_id of the first occurrence; NULL for [memory]
WITH keys AS (
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
        events,
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
