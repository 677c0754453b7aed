-- recompute: what ran again in backward, for activation checkpointing, by module and op.
-- One row per (run, rank, module, op), the most device_ns first, then in this order.
-- Only ops that did something themselves count, each with the work that it launched itself. What Python launched without an op (a
-- Triton kernel) is in the rows without one. See `is_recompute` in `events`. Shares are of the kernels, copies and fills of the
-- steps in which something ran again, and of the whole rank if some of it was in no step.
-- In a bare shell read from `sql/lib` first: devices, recompute.
-- needs: events
-- recorded: recomputed
-- divides by: rank
-- main columns: op, device_ns, share, calls, module, self_host_ns, kernel_ns, kernels
-- run            VARCHAR       run that the trace belongs to
-- rank           INTEGER       rank within the run
-- module         VARCHAR       innermost nn.Module around the op; NULL if none is recorded
-- op             VARCHAR       name of the op; NULL if the source has none, and for work that no recomputed op launched
-- calls          BIGINT        number of recomputed ops
-- launching      BIGINT        number of them that launched a kernel themselves
-- self_host_ns   BIGINT   ns    time of the ops on the host, without their children
-- kernels        BIGINT        number of kernels that they launched
-- kernel_ns      BIGINT   ns    sum of the durations of these kernels
-- device_ns      BIGINT   ns    the same with copies and fills
-- share          DOUBLE   0..1  device_ns over all work of the steps in which something ran again; NULL if 0
WITH slices AS MATERIALIZED (
    SELECT
        run, rank, event_id, kind, name, dur_ns, self_ns, op_id, launch_id, coalesce(replays, 1) AS calls,
        coalesce(nullif(regexp_extract(python_stack, '(?:^|;)(nn\.Module: [^;]*)', 1), ''), module_hierarchy) AS module
    FROM events
    WHERE is_recompute
),
ops AS (
    SELECT run, rank, event_id, name AS op, self_ns, module, calls
    FROM slices
    WHERE kind = 'host_op'
),
work AS (
    SELECT
        work.run, work.rank, ops.event_id AS op_id, CASE WHEN ops.event_id IS NULL THEN launch.module END AS module,
        count(*) FILTER (work.kind = 'kernel') AS kernels,
        sum(work.dur_ns) FILTER (work.kind = 'kernel') AS kernel_ns,
        sum(work.dur_ns) AS device_ns
    FROM slices AS work
    LEFT JOIN ops ON work.run = ops.run AND work.rank = ops.rank AND work.op_id = ops.event_id
    LEFT JOIN slices AS launch ON work.run = launch.run AND work.rank = launch.rank AND work.launch_id = launch.event_id
    WHERE is_busy(work.kind)
    GROUP BY ALL
),
parts AS (
    SELECT ops.*, work.kernels, work.kernel_ns, work.device_ns
    FROM ops
    LEFT JOIN work ON ops.run = work.run AND ops.rank = work.rank AND ops.event_id = work.op_id
    UNION ALL BY NAME
    SELECT run, rank, module, 0 AS calls, kernels, kernel_ns, device_ns
    FROM work
    WHERE op_id IS NULL
)
SELECT
    parts.run,
    parts.rank,
    parts.module,
    parts.op,
    sum(calls)::BIGINT AS calls,
    coalesce(sum(calls) FILTER (kernels > 0), 0)::BIGINT AS launching,
    coalesce(sum(self_ns), 0)::BIGINT AS self_host_ns,
    coalesce(sum(kernels), 0)::BIGINT AS kernels,
    coalesce(sum(kernel_ns), 0)::BIGINT AS kernel_ns,
    coalesce(sum(device_ns), 0)::BIGINT AS device_ns,
    coalesce(sum(device_ns), 0) / nullif(any_value(wholes.whole_ns), 0) AS share
FROM parts
LEFT JOIN recompute_wholes(events) AS wholes ON parts.run = wholes.run AND parts.rank = wholes.rank
GROUP BY parts.run, parts.rank, parts.module, parts.op
ORDER BY 10 DESC, parts.run, parts.rank, parts.module NULLS LAST, parts.op NULLS LAST
