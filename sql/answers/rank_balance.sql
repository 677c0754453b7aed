-- rank_balance: how evenly each class of time is spread over ranks, overall and in each step.
-- One row per (run, step, class), by run, the rows without a step first, then by step and class in the order below.
-- Classes on the devices are those of time_breakdown: span, compute, exposed_communication, exposed_copy, idle,
-- hidden_communication, hidden_copy; then on the host: ops (self time of host ops, summed over threads) and calls (the same for
-- runtime and driver calls). span of a step is its step_ns, as in `step_times`; of steps there are also host, device_window and
-- lag: host_ns, device_window_ns and lag_ns there. A rank without devices, or without the step, does not count in its rows, nor
-- does a step that is not whole. Steps of different ranks are the same step if their numbers are equal.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy.
-- needs: events, profiler_steps
-- recorded: host_ops|calls|device_work|steps
-- divides by: run
-- main columns: class, mean_ns, max_ns, max_over_mean, max_rank, min_ns, min_rank, step, std_ns
-- run           VARCHAR      run that the traces belong to
-- ranks         BIGINT       number of ranks that count
-- step          BIGINT       N of the step; NULL for the whole traces
-- class         VARCHAR      class of time, see above
-- min_ns        BIGINT   ns  shortest time of a rank
-- max_ns        BIGINT   ns  longest time of a rank
-- mean_ns       BIGINT   ns  mean over ranks, rounded half up
-- std_ns        BIGINT   ns  sample standard deviation over ranks, rounded half up; NULL for one rank
-- max_over_mean DOUBLE       max_ns over the mean: 1 if all ranks are equal; NULL if that is 0
-- min_rank      INTEGER      rank with min_ns, the lowest on a tie
-- max_rank      INTEGER      rank with max_ns, the lowest on a tie
WITH device AS MATERIALIZED (
    SELECT parts.*
    FROM step_breakdown(events, profiler_steps, 'step') AS parts
    ANTI JOIN (FROM profiler_steps WHERE lack IS NOT NULL) AS lacking
        ON parts.run = lacking.run AND parts.rank = lacking.rank AND parts.event_id = lacking.event_id
),
host AS (
    SELECT
        run, rank, CASE WHEN is_whole THEN NULL ELSE step END AS step,
        coalesce(sum(self_ns) FILTER (WHERE kind = 'host_op'), 0) AS ops_ns,
        coalesce(sum(self_ns) FILTER (WHERE is_call(kind)), 0) AS calls_ns
    FROM (
        SELECT run, rank, step, kind, self_ns, unnest([true, false]) AS is_whole
        FROM events
        WHERE kind = 'host_op' OR is_call(kind)
    )
    WHERE is_whole OR step IS NOT NULL
    GROUP BY ALL
),
classes AS (
    SELECT
        run, rank, step, unnest([1, 2, 3, 4, 5, 6, 7]) AS place,
        unnest(
            [
                'span', 'compute', 'exposed_communication', 'exposed_copy', 'idle', 'hidden_communication', 'hidden_copy'
            ]
        ) AS class,
        unnest(
            [
                span_ns, compute_ns, exposed_communication_ns, exposed_copy_ns, idle_ns, hidden_communication_ns, hidden_copy_ns
            ]
        ) AS time_ns
    FROM device
    WHERE step IS NULL OR event_id IS NOT NULL
    UNION ALL
    SELECT run, rank, step, unnest([8, 9]), unnest(['ops', 'calls']), unnest([ops_ns, calls_ns])
    FROM host
    UNION ALL
    SELECT
        run, rank, step, unnest([10, 11, 12]), unnest(['host', 'device_window', 'lag']),
        unnest([host_ns, device_window_ns, lag_ns])
    FROM whole_steps(profiler_steps)
    UNION ALL
    SELECT whole.run, whole.rank, whole.step, 1, 'span', whole.step_ns
    FROM whole_steps(profiler_steps) AS whole
    ANTI JOIN device ON whole.run = device.run AND whole.rank = device.rank
),
times AS (
    SELECT run, rank, step, place, class, sum(time_ns) AS time_ns
    FROM classes
    WHERE time_ns IS NOT NULL
    GROUP BY ALL
)
SELECT
    run,
    count(*) AS ranks,
    step,
    class,
    min(time_ns)::BIGINT AS min_ns,
    max(time_ns)::BIGINT AS max_ns,
    round(avg(time_ns))::BIGINT AS mean_ns,
    round(stddev_samp(time_ns))::BIGINT AS std_ns,
    max(time_ns) * count(*) / nullif(sum(time_ns), 0) AS max_over_mean,
    first(rank ORDER BY time_ns, rank) AS min_rank,
    first(rank ORDER BY time_ns DESC, rank) AS max_rank
FROM times
GROUP BY run, step, place, class
ORDER BY run, step NULLS FIRST, place
