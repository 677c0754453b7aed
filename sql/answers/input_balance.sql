-- input_balance: how long each rank waits for its input, and which rank holds up the others.
-- One row per (run, step, rank) with DataLoader calls, by run, the rows without a step first, then by step and rank.
-- Waiting is defined as in the rule data_loading: time in DataLoader calls for the next batch; on ranks that used devices, only
-- the part in which no device was busy. Rows without a step cover whole traces, including calls outside steps. Ranks without a
-- call in the step do not count in it. Steps of different ranks are the same step if their numbers are equal.
-- In a bare shell read from `sql/lib` first: collectives, inputs.
-- needs: events
-- recorded: data_loads
-- divides by: run
-- main columns: step, wait_ns, max_wait_ns, mean_wait_ns, slowest_rank, wait_over_mean, rank, load_ns, over_median_ns, calls
-- run               VARCHAR       run that the trace belongs to
-- rank              INTEGER       rank within the run
-- step              BIGINT        N of the step; NULL for the whole traces
-- ranks             BIGINT        number of ranks with calls in the step
-- calls             BIGINT        number of calls
-- load_ns           BIGINT  ns    sum of their durations
-- wait_ns           BIGINT  ns    time that the rank waited in them
-- mean_wait_ns      BIGINT  ns    mean of wait_ns over ranks, rounded half up
-- median_wait_ns    BIGINT  ns    median of wait_ns over ranks, one of the values
-- max_wait_ns       BIGINT  ns    largest wait_ns of a rank
-- over_median_ns    BIGINT  ns    wait_ns minus the median: how far the rank is behind; negative if it is ahead
-- wait_over_mean    DOUBLE        wait_ns over the mean; NULL if that is 0
-- slowest_rank      INTEGER       rank with max_wait_ns, the lowest on a tie
WITH calls AS (
    SELECT run, rank, step, dur_ns, input_wait(idle_ns, dur_ns) AS wait_ns, unnest([true, false]) AS is_whole
    FROM events
    WHERE
        is_op(kind)
        AND name IN (SELECT name FROM events WHERE name IS NOT NULL GROUP BY name HAVING is_data_load(any_value(name)))
        AND device IS NULL
        AND dur_ns IS NOT NULL
),
sums AS (
    SELECT
        run, rank, CASE WHEN is_whole THEN NULL ELSE step END AS step,
        count(*) AS calls,
        try_cast(sum(dur_ns) AS BIGINT) AS load_ns,
        try_cast(sum(wait_ns) AS BIGINT) AS wait_ns
    FROM calls
    WHERE is_whole OR step IS NOT NULL
    GROUP BY ALL
)
SELECT
    run,
    rank,
    step,
    count(*) OVER of_step AS ranks,
    calls,
    load_ns,
    wait_ns,
    round(avg(wait_ns) OVER of_step)::BIGINT AS mean_wait_ns,
    quantile_disc(wait_ns, 0.5) OVER of_step AS median_wait_ns,
    max(wait_ns) OVER of_step AS max_wait_ns,
    wait_ns - quantile_disc(wait_ns, 0.5) OVER of_step AS over_median_ns,
    wait_ns * count(*) OVER of_step / nullif(sum(wait_ns) OVER of_step, 0) AS wait_over_mean,
    arg_min(rank, {'ns': -wait_ns, 'rank': rank}) OVER of_step AS slowest_rank
FROM sums
WINDOW of_step AS (PARTITION BY run, step)
ORDER BY run, step NULLS FIRST, rank
