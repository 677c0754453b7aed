-- recompute_totals: how much ran again in backward, for activation checkpointing, in all.
-- One row per (run, rank), also if nothing ran again.
-- Time of the host is that of the outermost recomputed slices on each thread, and so has calls that launch and Python in it.
-- In a bare shell read from `sql/lib` first: devices, recompute.
-- needs: events, traces
-- run                         VARCHAR       run that the trace belongs to
-- rank                        INTEGER       rank within the run
-- steps                       BIGINT        number of steps in which something ran again; NULL if some of it was in none
-- kernels                     BIGINT        number of kernels that ran again
-- device_ns                   BIGINT   ns    sum of the durations of these kernels, copies and fills
-- host_ns                     BIGINT   ns    time of the host in it, summed over threads
-- share                       DOUBLE   0..1  device_ns over all work of the steps, or of the rank if steps is NULL; NULL if 0
-- share_without_communication DOUBLE   0..1  the same without communication in both
WITH again AS MATERIALIZED (
    SELECT
        run, rank, event_id, parent_id, preorder, kind, dur_ns, is_busy(kind) AS is_work,
        device_class(kind, kernel_category) = 'communication' AS communicates
    FROM events
    WHERE is_recompute
),
work AS (
    SELECT
        run, rank, count(*) FILTER (kind = 'kernel') AS kernels, sum(dur_ns) AS device_ns,
        coalesce(sum(dur_ns) FILTER (communicates), 0) AS communication_ns
    FROM again
    WHERE is_work
    GROUP BY run, rank
),
host AS (
    SELECT run, rank, sum(dur_ns) AS host_ns
    FROM again
    ANTI JOIN again AS around
        ON again.run = around.run AND again.rank = around.rank AND again.parent_id = around.event_id
    WHERE preorder IS NOT NULL
    GROUP BY run, rank
)
SELECT
    traces.run,
    traces.rank,
    CASE WHEN wholes.run IS NULL THEN 0 ELSE wholes.steps END AS steps,
    coalesce(work.kernels, 0) AS kernels,
    coalesce(work.device_ns, 0)::BIGINT AS device_ns,
    coalesce(host.host_ns, 0)::BIGINT AS host_ns,
    work.device_ns / nullif(wholes.whole_ns, 0) AS share,
    (work.device_ns - work.communication_ns) / nullif(wholes.whole_ns - wholes.whole_communication_ns, 0)
        AS share_without_communication
FROM traces
LEFT JOIN work ON traces.run = work.run AND traces.rank = work.rank
LEFT JOIN host ON traces.run = host.run AND traces.rank = host.rank
LEFT JOIN recompute_wholes(events) AS wholes ON traces.run = wholes.run AND traces.rank = wholes.rank
ORDER BY traces.run, traces.rank
