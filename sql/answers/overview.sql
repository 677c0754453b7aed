-- overview: what is in each trace.
-- One row per (run, rank), also without events, by run and rank.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy, traces.
-- needs: events, profiler_steps, traces
-- recorded: traces
-- divides by: rank
-- main columns: rank, span_ns, device_busy_ns, events, kernels, steps, run
-- run             VARCHAR      run that the trace belongs to
-- rank            INTEGER      rank within the run
-- events          BIGINT       number of slices
-- span_ns         BIGINT   ns  first start to last end, without the profiler's own span; NULL if unknown, or beyond BIGINT
-- threads         BIGINT       number of threads that have host slices
-- devices         BIGINT       number of devices that have kernels, copies or fills
-- kernels         BIGINT       number of kernels
-- device_busy_ns  BIGINT   ns  busy time of each device, summed over devices; overlaps on a device count once
-- steps           BIGINT       number of profiler steps, without one that the end of the profile cut
WITH busy AS (
    SELECT run, rank, sum(busy_ns) AS device_busy_ns
    FROM device_busy(events)
    GROUP BY run, rank
),
counted AS (
    SELECT run, rank, count(*) AS steps
    FROM profiler_steps
    WHERE lack IS DISTINCT FROM 'cut'
    GROUP BY run, rank
),
slices AS (
    FROM trace_slices(events)
)
SELECT
    traces.run,
    traces.rank,
    coalesce(slices.events, 0) AS events,
    try_cast(slices.end_ns::HUGEINT - slices.start_ns AS BIGINT) AS span_ns,
    coalesce(slices.threads, 0) AS threads,
    coalesce(slices.devices, 0) AS devices,
    coalesce(slices.kernels, 0) AS kernels,
    try_cast(coalesce(busy.device_busy_ns, 0) AS BIGINT) AS device_busy_ns,
    coalesce(counted.steps, 0) AS steps
FROM traces
LEFT JOIN slices ON traces.run = slices.run AND traces.rank = slices.rank
LEFT JOIN counted ON traces.run = counted.run AND traces.rank = counted.rank
LEFT JOIN busy ON traces.run = busy.run AND traces.rank = busy.rank
ORDER BY traces.run, traces.rank
