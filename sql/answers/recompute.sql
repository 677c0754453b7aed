-- recompute: what ran once more in backward, for activation checkpointing, by module and op.
-- One row per (run, rank, module, op), the most device_ns first, then in this order.
-- Ops count, not those that are only around others: each has the work that it launched itself. See `is_recompute` in `events`.
-- In a bare shell read from `sql/lib` first: devices.
-- needs: events
-- run            VARCHAR       run that the trace belongs to
-- rank           INTEGER       rank within the run
-- module         VARCHAR       innermost nn.Module around the op; NULL where none is recorded
-- op             VARCHAR       name of the op; NULL where the source has none
-- calls          BIGINT        number of recomputed ops
-- launching      BIGINT        number of those that launched a kernel themselves
-- self_host_ns   BIGINT   ns    time of the ops on the host, without their children
-- kernels        BIGINT        number of kernels that they launched
-- kernel_ns      BIGINT   ns    sum of the durations of these
-- device_ns      BIGINT   ns    the same with copies and fills
-- share          DOUBLE   0..1  device_ns over that of all kernels, copies and fills of the run and rank; NULL where that is 0
WITH ops AS (
    SELECT
        run, rank, event_id, name AS op, self_ns, coalesce(replays, 1) AS calls,
        coalesce(nullif(regexp_extract(python_stack, '(?:^|;)(nn\.Module: [^;]*)', 1), ''), module_hierarchy) AS module
    FROM events
    WHERE is_recompute AND kind = 'host_op'
),
work AS (
    SELECT
        run, rank, op_id,
        count(*) FILTER (kind = 'kernel') AS kernels,
        sum(dur_ns) FILTER (kind = 'kernel') AS kernel_ns,
        sum(dur_ns) AS device_ns
    FROM events
    WHERE is_busy(kind) AND is_recompute
    GROUP BY run, rank, op_id
),
totals AS (
    SELECT run, rank, sum(dur_ns) AS all_ns
    FROM events
    WHERE is_busy(kind)
    GROUP BY run, rank
)
SELECT
    ops.run,
    ops.rank,
    ops.module,
    ops.op,
    sum(ops.calls)::BIGINT AS calls,
    coalesce(sum(ops.calls) FILTER (work.kernels > 0), 0)::BIGINT AS launching,
    sum(ops.self_ns)::BIGINT AS self_host_ns,
    coalesce(sum(work.kernels), 0)::BIGINT AS kernels,
    coalesce(sum(work.kernel_ns), 0)::BIGINT AS kernel_ns,
    coalesce(sum(work.device_ns), 0)::BIGINT AS device_ns,
    coalesce(sum(work.device_ns), 0) / nullif(any_value(totals.all_ns), 0) AS share
FROM ops
LEFT JOIN work ON ops.run = work.run AND ops.rank = work.rank AND ops.event_id = work.op_id
LEFT JOIN totals ON ops.run = totals.run AND ops.rank = totals.rank
GROUP BY ops.run, ops.rank, ops.module, ops.op
ORDER BY 10 DESC, ops.run, ops.rank, ops.module NULLS LAST, ops.op NULLS LAST
