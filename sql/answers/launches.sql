-- launches: what launch calls cost the host, and how long their work waited.
-- One row per (run, rank, name), the largest total_ns first, then by run, rank, name.
-- A call is any runtime or driver slice that put work on a device: kernels, copies or fills. Waits do not count as work. A graph
-- launch is one call, however many kernels it launches. The delay of a call is the time from its end to the start of its first
-- work, or 0 if that starts earlier. Times and delays are those of `calls`; a call without work in the trace counts only in
-- calls_without_work. A row with a NULL name and no calls has the work whose call is not in the trace. A percentile is one of the
-- values: the least that is not exceeded by that percentage of values.
-- In a bare shell read from `sql/lib` first: devices.
-- needs: events
-- recorded: device_work
-- divides by: rank
-- over ranks: name
-- main columns: name, calls, total_ns, p50_ns, p50_delay_ns, p99_delay_ns, outlier_delays, mean_ns, short_kernels, kernels
-- main columns: device_ns, mean_delay_ns, max_delay_ns, calls_without_work, outlier_calls
-- parameter outlier_call_ns  BIGINT = 50000   calls longer than this, in ns, are outliers
-- parameter outlier_delay_ns BIGINT = 100000  delays longer than this, in ns, are outliers
-- run                VARCHAR      run that the trace belongs to
-- rank               INTEGER      rank within the run
-- name               VARCHAR      name of the call; NULL if the source has none, or the call is not in the trace
-- calls              BIGINT       number of calls whose work is in the trace
-- calls_without_work BIGINT       number of other calls of that name, such as those whose work ran after the recording
-- kernels            BIGINT       number of kernels that the calls launched
-- copies             BIGINT       number of copies that they launched
-- fills              BIGINT       number of fills of memory that they launched
-- device_ns          BIGINT   ns  sum of the durations of all that work; NULL if none is known, or beyond BIGINT
-- total_ns           BIGINT   ns  time of the calls on the host; NULL if none is known, or beyond BIGINT
-- mean_ns            BIGINT   ns  mean duration of a call, rounded half up
-- p50_ns             BIGINT   ns  median duration
-- p90_ns             BIGINT   ns  90th percentile of the durations
-- p99_ns             BIGINT   ns  99th percentile of the durations
-- max_ns             BIGINT   ns  longest duration
-- mean_delay_ns      BIGINT   ns  mean delay, rounded half up; NULL if none is known
-- p50_delay_ns       BIGINT   ns  median delay
-- p90_delay_ns       BIGINT   ns  90th percentile of the delays
-- p99_delay_ns       BIGINT   ns  99th percentile of the delays
-- max_delay_ns       BIGINT   ns  longest delay
-- short_kernels      BIGINT       number of calls, without outliers, that took longer than all the work they launched
-- outlier_calls      BIGINT       number of calls longer than outlier_call_ns
-- outlier_delays     BIGINT       number of delays longer than outlier_delay_ns
WITH work AS (
    SELECT
        run, rank, launch_id AS event_id,
        count(*) FILTER (kind = 'kernel') AS kernels,
        count(*) FILTER (kind = 'memcpy') AS copies,
        count(*) FILTER (kind = 'memset') AS fills,
        sum(dur_ns) AS device_ns,
        min(start_ns) AS start_ns
    FROM events
    WHERE is_busy(kind)
    GROUP BY run, rank, launch_id
),
calls AS (
    SELECT true AS in_trace, run, rank, event_id, name, try(start_ns + dur_ns) AS end_ns, dur_ns
    FROM events
    WHERE is_call(kind)
),
launches AS (
    SELECT
        run, rank, name, kernels, copies, fills, device_ns,
        in_trace,
        in_trace AND kernels IS NOT NULL AS has_work,
        CASE WHEN has_work THEN dur_ns END AS call_ns,
        CASE WHEN work.start_ns < end_ns THEN 0 ELSE try(work.start_ns - end_ns) END AS delay_ns
    FROM calls
    FULL JOIN work USING (run, rank, event_id)
),
named AS (
    SELECT
        run,
        rank,
        name,
        count(*) FILTER (has_work) AS calls,
        count(in_trace) - calls AS calls_without_work,
        sum(kernels)::BIGINT AS kernels,
        sum(copies)::BIGINT AS copies,
        sum(fills)::BIGINT AS fills,
        sum(device_ns) AS device_ns,
        sum(call_ns) AS total_ns,
        ((2 * sum(call_ns) + count(call_ns)) // nullif(2 * count(call_ns), 0))::BIGINT AS mean_ns,
        quantile_disc(call_ns, [0.5, 0.9, 0.99]) AS percentiles,
        max(call_ns) AS max_ns,
        ((2 * sum(delay_ns) + count(delay_ns)) // nullif(2 * count(delay_ns), 0))::BIGINT AS mean_delay_ns,
        quantile_disc(delay_ns, [0.5, 0.9, 0.99]) AS delay_percentiles,
        max(delay_ns) AS max_delay_ns,
        count(*) FILTER (
            call_ns <= coalesce(getvariable('outlier_call_ns'), 50000) AND device_ns < call_ns
        ) AS short_kernels,
        count(*) FILTER (call_ns > coalesce(getvariable('outlier_call_ns'), 50000)) AS outlier_calls,
        count(*) FILTER (delay_ns > coalesce(getvariable('outlier_delay_ns'), 100000)) AS outlier_delays
    FROM launches
    GROUP BY run, rank, name
    HAVING count(kernels) > 0
)
SELECT
    run,
    rank,
    name,
    calls,
    calls_without_work,
    kernels,
    copies,
    fills,
    try_cast(device_ns AS BIGINT) AS device_ns,
    try_cast(total_ns AS BIGINT) AS total_ns,
    mean_ns,
    percentiles[1] AS p50_ns,
    percentiles[2] AS p90_ns,
    percentiles[3] AS p99_ns,
    max_ns,
    mean_delay_ns,
    delay_percentiles[1] AS p50_delay_ns,
    delay_percentiles[2] AS p90_delay_ns,
    delay_percentiles[3] AS p99_delay_ns,
    max_delay_ns,
    short_kernels,
    outlier_calls,
    outlier_delays
FROM named
ORDER BY named.total_ns DESC NULLS LAST, run, rank, name NULLS LAST
