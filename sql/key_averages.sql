-- key_averages: what torch's key_averages() adds up, in integer nanoseconds and bytes.
-- One row per (run, rank, name, kind, device_type and what else is grouped by), by run, rank and first occurrence.
-- As in torch, a duplicate is no call of its own and its self values stay with the survivor, ops such as aten::is_leaf are
-- part of the op around them, and `ProfilerStep#N` is `ProfilerStep*`. Columns that are not grouped by are NULL.
-- Unlike torch, kinds are told apart where names agree, allocations outside every slice are no row `[memory]`, a backward
-- operator keeps its own stack, and a name that was exported with its overload (aten::add.Tensor) stays as it is.
-- In a bare shell read `sql/_key_events.sql` first.
-- needs: events, traces
-- parameter group_by_input_shape    BOOLEAN = false  slices with other input shapes are another row
-- parameter group_by_stack_n        INTEGER = 0      slices with other first n frames of the stack are another row
-- parameter group_by_overload_name  BOOLEAN = false  other overloads of an operator are another row
-- run                VARCHAR         run that the trace belongs to
-- rank               INTEGER         rank within the run
-- name               VARCHAR         name of the slices; NULL where the source has none
-- kind               VARCHAR         what the slices are: host_op, kernel, ...
-- device_type        VARCHAR         CPU, or the type of the devices in the trace; CUDA where that is not known
-- input_dims         VARCHAR         input shapes as JSON text; NULL without group_by_input_shape
-- stack              VARCHAR         first group_by_stack_n frames, innermost first, joined by ;
-- overload_name      VARCHAR         overload of the operator; NULL without group_by_overload_name
-- calls              BIGINT          number of slices, duplicates left out
-- cpu_ns             BIGINT   ns     sum of durations on the host; 0 on a device
-- self_cpu_ns        BIGINT   ns     host time in the slices and in none of their children; 0 on a device
-- device_ns          BIGINT   ns     device time launched inside the slices; on a device, their time
-- self_device_ns     BIGINT   ns     device time launched by the slices themselves; on a device, their time
-- cpu_bytes          BIGINT   bytes  host memory allocated minus freed inside the slices; NULL where not recorded
-- self_cpu_bytes     BIGINT   bytes  cpu_bytes minus that of their children; NULL where not recorded
-- device_bytes       BIGINT   bytes  device memory allocated minus freed inside the slices; NULL where not recorded
-- self_device_bytes  BIGINT   bytes  device_bytes minus that of their children; NULL where not recorded
-- torch_flops        BIGINT   FLOP   what torch's with_flops gives; NULL where it gives nothing
WITH keys AS (
    SELECT
        run,
        rank,
        name,
        kind,
        on_device,
        CASE WHEN coalesce(getvariable('group_by_input_shape'), false) THEN input_dims END AS input_dims,
        stack,
        CASE WHEN coalesce(getvariable('group_by_overload_name'), false) THEN overload_name END AS overload_name,
        min((start_ns, -dur_ns, event_id)) AS first_occurrence,
        sum(calls) AS calls,
        sum(cpu_ns) AS cpu_ns,
        coalesce(sum(self_cpu_ns), 0) AS self_cpu_ns,
        coalesce(sum(device_ns), 0) AS device_ns,
        coalesce(sum(self_device_ns), 0) AS self_device_ns,
        sum(cpu_bytes) AS cpu_bytes,
        sum(self_cpu_bytes) AS self_cpu_bytes,
        sum(device_bytes) AS device_bytes,
        sum(self_device_bytes) AS self_device_bytes,
        sum(torch_flops) AS torch_flops
    FROM key_events(events, coalesce(getvariable('group_by_stack_n'), 0))
    GROUP BY ALL
)
SELECT
    keys.run,
    keys.rank,
    keys.name,
    keys.kind,
    CASE WHEN keys.on_device THEN coalesce(traces.device_type, 'CUDA') ELSE 'CPU' END AS device_type,
    keys.input_dims,
    keys.stack,
    keys.overload_name,
    keys.calls::BIGINT AS calls,
    try_cast(keys.cpu_ns AS BIGINT) AS cpu_ns,
    try_cast(keys.self_cpu_ns AS BIGINT) AS self_cpu_ns,
    try_cast(keys.device_ns AS BIGINT) AS device_ns,
    try_cast(keys.self_device_ns AS BIGINT) AS self_device_ns,
    try_cast(keys.cpu_bytes AS BIGINT) AS cpu_bytes,
    try_cast(keys.self_cpu_bytes AS BIGINT) AS self_cpu_bytes,
    try_cast(keys.device_bytes AS BIGINT) AS device_bytes,
    try_cast(keys.self_device_bytes AS BIGINT) AS self_device_bytes,
    try_cast(keys.torch_flops AS BIGINT) AS torch_flops
FROM keys
LEFT JOIN traces ON keys.run = traces.run AND keys.rank = traces.rank
ORDER BY keys.run, keys.rank, keys.first_occurrence
