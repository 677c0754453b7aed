-- What activation checkpointing runs again in backward.

-- recompute_wholes: one row per (run, rank) in which something ran again: the work of devices that shares of it are of. That is
-- the work of the steps in which something ran again; of the whole rank, if some of that was in no step.
-- parameter events TABLE  `events`
-- column run, rank  as in events
-- column steps BIGINT  number of these steps; NULL if something ran again in no step
-- column whole_ns HUGEINT  sum of the durations of their kernels, copies and fills
-- column whole_communication_ns HUGEINT  part of it that communicates
-- example: FROM recompute_wholes(events)
CREATE OR REPLACE TEMP MACRO recompute_wholes(events) AS TABLE
WITH marks AS MATERIALIZED (
    SELECT DISTINCT run, rank, step
    FROM query_table(events)
    WHERE is_recompute
),
ranks AS (
    SELECT run, rank, CASE WHEN count(*) = count(step) THEN count(*) END AS steps
    FROM marks
    GROUP BY run, rank
),
work AS (
    SELECT run, rank, step, dur_ns, device_class(kind, kernel_category) = 'communication' AS communicates
    FROM query_table(events)
    WHERE is_busy(kind)
)
SELECT
    ranks.run,
    ranks.rank,
    any_value(ranks.steps) AS steps,
    coalesce(sum(dur_ns) FILTER (ranks.steps IS NULL OR marks.step IS NOT NULL), 0) AS whole_ns,
    coalesce(sum(dur_ns) FILTER (communicates AND (ranks.steps IS NULL OR marks.step IS NOT NULL)), 0) AS whole_communication_ns
FROM ranks
LEFT JOIN work ON ranks.run = work.run AND ranks.rank = work.rank
LEFT JOIN marks ON work.run = marks.run AND work.rank = marks.rank AND work.step = marks.step
GROUP BY ranks.run, ranks.rank;
