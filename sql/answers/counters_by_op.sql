-- counters_by_op: hardware counters by op, from CUPTI's range profiler or rocprofv3.
-- One row per (run, rank, op, series), by run, rank, the op's first slice with counters, op, series.
-- A slice with counters inside a host op belongs to that op (matched_by nesting). Other slices with counters are on a clock of
-- their own, one per kernel: if there are as many as kernel launches, they belong to the ops of these launches, in order
-- (matched_by order). Kernels with counters, as of rocprofv3, belong to the op around their launch (matched_by correlation).
-- The raw rows are in `counters`, with the `event_id` of the slice, whose `op_id` is in `events`. Values that are not numbers
-- (nan, inf) are in no sum.
-- needs: events, counters
-- recorded: counted_slices
-- run         VARCHAR      run that the trace belongs to
-- rank        INTEGER      rank within the run
-- op          VARCHAR      name of the innermost op around the slice or its launch; NULL if none is known
-- series      VARCHAR      name of the counter
-- matched_by  VARCHAR      nesting, order, both, or correlation; NULL if no op is known
-- ops         BIGINT       number of ops with counters
-- ranges      BIGINT       number of slices with counters
-- total       DOUBLE       sum of the counter over the slices, in the source's unit; NULL if no value is a number
-- mean_value  DOUBLE       mean over the slices
-- min_value   DOUBLE       smallest value
-- max_value   DOUBLE       largest value
WITH counts AS (
    SELECT
        counters.run, counters.rank, counters.series, counters.event_id,
        CASE WHEN isfinite(counters.value) THEN counters.value END AS value,
        slice.start_ns, slice.op_id, op.name AS op,
        CASE
            WHEN slice.kind = 'kernel' THEN CASE WHEN slice.op_id IS NOT NULL THEN 'correlation' END
            WHEN slice.launch_id IS NOT NULL THEN 'order'
            WHEN slice.op_id IS NOT NULL THEN 'nesting'
        END AS matched_by
    FROM counters
    JOIN events AS slice
        ON counters.run = slice.run AND counters.rank = slice.rank AND counters.event_id = slice.event_id
    LEFT JOIN events AS op ON slice.run = op.run AND slice.rank = op.rank AND slice.op_id = op.event_id
    WHERE counters.event_id IS NOT NULL
),
firsts AS (
    SELECT run, rank, op, min(start_ns) AS first_ns
    FROM counts
    GROUP BY run, rank, op
)
SELECT
    counts.run,
    counts.rank,
    counts.op,
    counts.series,
    CASE WHEN count(DISTINCT counts.matched_by) > 1 THEN 'both' ELSE any_value(counts.matched_by) END AS matched_by,
    count(DISTINCT counts.op_id) AS ops,
    count(DISTINCT counts.event_id) AS ranges,
    -- In order: the last digit of a sum of fractions depends on it.
    sum(counts.value ORDER BY counts.event_id) AS total,
    sum(counts.value ORDER BY counts.event_id) / count(counts.value) AS mean_value,
    min(counts.value) AS min_value,
    max(counts.value) AS max_value
FROM counts
JOIN firsts ON counts.run = firsts.run AND counts.rank = firsts.rank AND counts.op IS NOT DISTINCT FROM firsts.op
GROUP BY counts.run, counts.rank, counts.op, counts.series, firsts.first_ns
ORDER BY counts.run, counts.rank, firsts.first_ns NULLS LAST, counts.op NULLS LAST, counts.series NULLS LAST
