-- run_samples: calls, time and work of every op, kernel and annotation, run by run or step by step.
-- One row per (run, rank, step, what, name, device), by run, rank, step, what, the largest spent_ns first, name, device.
-- This is the input of a comparison: see `profframe.diff`. `ProfilerStep#N` is `ProfilerStep*`; no other name is rewritten, so
-- names that differ only in a number or an address are separate rows. Work is counted once, in the row of the op that owns it
-- (`event_id = work_id`) and in those of its kernels. A kernel's peak is that of its device in the data type of its work; an op's
-- peak is that of its kernels.
-- In a bare shell read from `sql/lib` first: devices, kernel_names, roofline.
-- needs: events, devices
-- recorded: host_ops|annotations|kernels
-- divides by: rank
-- main columns: name, step, spent_ns, calls, device_ns, what, flops, bytes
-- parameter per        VARCHAR(run|step) = run                    step: each step, and nothing outside steps
-- parameter kernel_by  VARCHAR(name|short_name|shapes|category) = name  shapes: op around the launch with its input shapes
-- parameter copies     BOOLEAN = false                            treat memory copies and fills as kernels
-- parameter outside    VARCHAR(none|kernels|all) = none                with per=step, also rows for what is outside steps
-- parameter devices    BOOLEAN = false                            separate rows for the kernels of each device
-- parameter dtype      VARCHAR(fp64|fp32|tf32|fp16|bf16|fp8|fp6|fp4|int8) = ''  data type assumed for work of unknown type
-- run        VARCHAR         run that the trace belongs to
-- rank       INTEGER         rank within the run
-- step       BIGINT          profiler step; NULL for a whole run, and outside steps
-- what       VARCHAR         op (on the host), kernel or annotation (on the host)
-- name       VARCHAR         name, or what kernels are grouped by; NULL if the source has none, or no op is known
-- device     INTEGER         device of kernels, with devices; else NULL
-- calls      BIGINT          number of executions
-- spent_ns   BIGINT   ns     op: self time; kernel or annotation: duration; NULL if none is known, or beyond BIGINT
-- device_ns  BIGINT   ns     op: device time it launched itself; kernel: duration; annotation: device time launched inside
-- flops      BIGINT   FLOP   known work; NULL if none is known
-- flops_ns   BIGINT   ns     time of what did the work: an op's kernels, or the op itself if it launched none; or the kernel
-- bytes      BIGINT   bytes  known bytes read and written; NULL if none are known
-- bytes_ns   BIGINT   ns     time of what did this work, as in flops_ns
-- compute_ps BIGINT          least time of the work at the device's peak, in picoseconds; NULL if no peak is known
-- compute_ns BIGINT   ns     time of the kernels with a known peak: compute_ps / compute_ns / 1000 of the peak were achieved
-- memory_ps  BIGINT          least time of the bytes at the peak rate of the memory, in ps; NULL if that is not known
-- memory_ns  BIGINT   ns     time of the kernels with known bytes and peak
WITH limits AS MATERIALIZED (
    SELECT run, rank, event_id, work_id, dur_ns, compute_ps, memory_ps
    FROM kernel_limits(events, devices, coalesce(getvariable('dtype'), ''))
    WHERE compute_ps IS NOT NULL OR memory_ps IS NOT NULL
),
-- Of each kernel, and of the op that owns the work of several.
achieved AS (
    SELECT
        run, rank, event_id, compute_ps, CASE WHEN compute_ps IS NOT NULL THEN dur_ns END AS compute_ns,
        memory_ps, CASE WHEN memory_ps IS NOT NULL THEN dur_ns END AS memory_ns
    FROM limits
    UNION ALL
    SELECT
        run, rank, work_id, sum(compute_ps), sum(dur_ns) FILTER (compute_ps IS NOT NULL),
        sum(memory_ps), sum(dur_ns) FILTER (memory_ps IS NOT NULL)
    FROM limits
    WHERE work_id IS NOT NULL
    GROUP BY run, rank, work_id
),
slices AS (
    SELECT
        run,
        rank,
        event_id,
        CASE WHEN coalesce(getvariable('per'), 'run') = 'step' THEN step END AS step,
        kind,
        CASE
            WHEN NOT is_busy(kind) THEN name
            WHEN coalesce(getvariable('kernel_by'), 'name') = 'shapes' THEN NULL
            WHEN coalesce(getvariable('kernel_by'), 'name') = 'category' THEN kernel_category
            ELSE name
        END AS name,
        CASE WHEN is_busy(kind) AND coalesce(getvariable('kernel_by'), 'name') = 'shapes' THEN op_id END AS around_id,
        CASE WHEN is_busy(kind) AND coalesce(getvariable('devices'), false) THEN device END AS device,
        coalesce(replays, 1) AS calls,
        CASE kind WHEN 'host_op' THEN self_ns ELSE dur_ns END AS spent_ns,
        CASE kind WHEN 'host_op' THEN self_device_ns ELSE device_ns END AS device_ns,
        CASE WHEN is_busy(kind) OR event_id = work_id THEN flops * coalesce(replays, 1) END AS flops,
        CASE WHEN is_busy(kind) OR event_id = work_id THEN bytes * coalesce(replays, 1) END AS bytes,
        CASE kind WHEN 'host_op' THEN coalesce(nullif(device_ns, 0), dur_ns) ELSE dur_ns END AS work_ns
    FROM events
    WHERE
        (
            kind = 'host_op' OR kind = 'annotation' OR kind = 'kernel'
            OR (is_busy(kind) AND coalesce(getvariable('copies'), false))
        )
        AND (
            step IS NOT NULL
            OR coalesce(getvariable('per'), 'run') = 'run'
            OR coalesce(getvariable('outside'), 'none') = 'all'
            OR (is_busy(kind) AND coalesce(getvariable('outside'), 'none') = 'kernels')
        )
),
sums AS MATERIALIZED (
    SELECT
        slices.run, slices.rank, step, kind, name, around_id, device,
        sum(calls) AS calls,
        sum(spent_ns) AS spent_ns,
        sum(device_ns) AS device_ns,
        sum(flops) AS flops,
        sum(work_ns) FILTER (flops IS NOT NULL) AS flops_ns,
        sum(bytes) AS bytes,
        sum(work_ns) FILTER (bytes IS NOT NULL) AS bytes_ns,
        sum(compute_ps) AS compute_ps,
        sum(compute_ns) AS compute_ns,
        sum(memory_ps) AS memory_ps,
        sum(memory_ns) AS memory_ns
    FROM slices
    LEFT JOIN achieved ON slices.run = achieved.run AND slices.rank = achieved.rank AND slices.event_id = achieved.event_id
    GROUP BY slices.run, slices.rank, step, kind, name, around_id, device
),
names AS MATERIALIZED (
    SELECT
        kind,
        name,
        CASE kind WHEN 'host_op' THEN 'op' WHEN 'annotation' THEN 'annotation' ELSE 'kernel' END AS what,
        CASE
            WHEN NOT is_busy(kind) AND regexp_full_match(name, 'ProfilerStep#[0-9]+') THEN 'ProfilerStep*'
            WHEN is_busy(kind) AND coalesce(getvariable('kernel_by'), 'name') = 'short_name' THEN short_name(kind, name)
            ELSE name
        END AS label
    FROM (SELECT DISTINCT kind, name FROM sums)
),
ops AS (
    SELECT run, rank, event_id, name || coalesce(' ' || input_dims, '') AS label
    FROM events
    WHERE
        coalesce(getvariable('kernel_by'), 'name') = 'shapes'
        AND event_id IN (SELECT around_id FROM sums)
)
SELECT
    sums.run,
    sums.rank,
    sums.step,
    names.what,
    coalesce(ops.label, names.label) AS name,
    sums.device,
    sum(sums.calls)::BIGINT AS calls,
    try_cast(sum(sums.spent_ns) AS BIGINT) AS spent_ns,
    try_cast(sum(sums.device_ns) AS BIGINT) AS device_ns,
    try_cast(sum(sums.flops) AS BIGINT) AS flops,
    try_cast(sum(sums.flops_ns) AS BIGINT) AS flops_ns,
    try_cast(sum(sums.bytes) AS BIGINT) AS bytes,
    try_cast(sum(sums.bytes_ns) AS BIGINT) AS bytes_ns,
    try_cast(sum(sums.compute_ps) AS BIGINT) AS compute_ps,
    try_cast(sum(sums.compute_ns) AS BIGINT) AS compute_ns,
    try_cast(sum(sums.memory_ps) AS BIGINT) AS memory_ps,
    try_cast(sum(sums.memory_ns) AS BIGINT) AS memory_ns
FROM sums
JOIN names ON sums.kind = names.kind AND sums.name IS NOT DISTINCT FROM names.name
LEFT JOIN ops ON sums.run = ops.run AND sums.rank = ops.rank AND sums.around_id = ops.event_id
GROUP BY sums.run, sums.rank, sums.step, names.what, coalesce(ops.label, names.label), sums.device
ORDER BY sums.run, sums.rank, sums.step, list_position(['op', 'kernel', 'annotation'], names.what),
    sum(sums.spent_ns) DESC NULLS LAST, coalesce(ops.label, names.label) NULLS LAST,
    sums.device NULLS LAST
