-- input_balance: how long each rank waits for its input, and which rank holds up the others.
-- One row per (run, step, rank) with DataLoader calls, by run, the rows without a step first, then by step and rank.
-- Waiting is defined as in the rule data_loading: time in DataLoader calls for the next batch; on ranks that used devices, only
-- the part in which no device was busy. Rows without a step cover whole traces, including calls outside steps. Ranks without a
-- call in the step do not count in it. Steps of different ranks are the same step if their numbers are equal. If only one rank of
-- a run has calls, columns that compare ranks are NULL.
-- In a bare shell read from `sql/lib` first: collectives, inputs, steps.
-- needs: events, profiler_steps
-- recorded: data_loads
-- divides by: run
-- main columns: step, load_ns, step_share, wait_ns, max_wait_ns, mean_wait_ns, slowest_rank, wait_over_mean, rank
-- main columns: over_median_ns, calls
-- run               VARCHAR       run that the trace belongs to
-- rank              INTEGER       rank within the run
-- step              BIGINT        N of the step; NULL for the whole traces
-- ranks             BIGINT        number of ranks with calls in the step
-- calls             BIGINT        number of calls
-- load_ns           BIGINT  ns    sum of their durations
-- step_share        DOUBLE  0..1  part of the time of whole steps on the host that calls in them took; NULL without steps
-- wait_ns           BIGINT  ns    time that the rank waited in them
-- mean_wait_ns      BIGINT  ns    mean of wait_ns over ranks, rounded half up
-- median_wait_ns    BIGINT  ns    median of wait_ns over ranks, one of the values
-- max_wait_ns       BIGINT  ns    largest wait_ns of a rank
-- over_median_ns    BIGINT  ns    wait_ns minus the median: how far the rank is behind; negative if it is ahead
-- wait_over_mean    DOUBLE        wait_ns over the mean; NULL if that is 0
-- slowest_rank      INTEGER       rank with max_wait_ns, the lowest on a tie
WITH whole AS MATERIALIZED (
    SELECT run, rank, step, sum(host_ns) AS host_ns, true AS is_in_step
    FROM whole_steps(profiler_steps)
    GROUP BY run, rank, step
),
calls AS (
    SELECT run, rank, step, dur_ns, input_wait(idle_ns, dur_ns) AS wait_ns, is_in_step, unnest([true, false]) AS is_all
    FROM events
    LEFT JOIN whole USING (run, rank, step)
    WHERE
        is_op(kind)
        AND name IN (SELECT name FROM events WHERE name IS NOT NULL GROUP BY name HAVING is_data_load(any_value(name)))
        AND device IS NULL
        AND dur_ns IS NOT NULL
),
steps AS (
    SELECT run, rank, unnest([step, NULL]) AS step, unnest([host_ns, host_ns]) AS host_ns
    FROM whole
),
lengths AS (
    SELECT run, rank, step, sum(host_ns) AS host_ns
    FROM steps
    GROUP BY run, rank, step
),
sums AS (
    SELECT
        run, rank, CASE WHEN is_all THEN NULL ELSE step END AS step,
        count(*) AS calls,
        try_cast(sum(dur_ns) AS BIGINT) AS load_ns,
        try_cast(sum(wait_ns) AS BIGINT) AS wait_ns,
        coalesce(sum(dur_ns) FILTER (is_in_step), 0) AS step_load_ns
    FROM calls
    WHERE is_all OR step IS NOT NULL
    GROUP BY ALL
),
shares AS (
    SELECT
        sums.*,
        step_load_ns / nullif(lengths.host_ns, 0) AS step_share,
        min(sums.rank) OVER of_run < max(sums.rank) OVER of_run AS has_several
    FROM sums
    LEFT JOIN lengths ON sums.run = lengths.run AND sums.rank = lengths.rank AND sums.step IS NOT DISTINCT FROM lengths.step
    WINDOW of_run AS (PARTITION BY sums.run)
)
SELECT
    run,
    rank,
    step,
    count(*) OVER of_step AS ranks,
    calls,
    load_ns,
    step_share,
    wait_ns,
    CASE WHEN has_several THEN round(avg(wait_ns) OVER of_step)::BIGINT END AS mean_wait_ns,
    CASE WHEN has_several THEN quantile_disc(wait_ns, 0.5) OVER of_step END AS median_wait_ns,
    CASE WHEN has_several THEN max(wait_ns) OVER of_step END AS max_wait_ns,
    CASE WHEN has_several THEN wait_ns - quantile_disc(wait_ns, 0.5) OVER of_step END AS over_median_ns,
    CASE WHEN has_several THEN wait_ns * count(*) OVER of_step / nullif(sum(wait_ns) OVER of_step, 0) END AS wait_over_mean,
    CASE WHEN has_several THEN arg_min(rank, {'ns': -wait_ns, 'rank': rank}) OVER of_step END AS slowest_rank
FROM shares
WINDOW of_step AS (PARTITION BY run, step)
ORDER BY run, step NULLS FIRST, rank
