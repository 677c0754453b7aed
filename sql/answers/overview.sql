-- overview: what is in each trace.
-- One row per (run, rank), also where it has no events, by run and rank.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, traces.
-- needs: events, traces
-- run             VARCHAR      run that the trace belongs to
-- rank            INTEGER      rank within the run
-- events          BIGINT       number of slices
-- span_ns         BIGINT   ns  first start to last end, without the profiler's own span; NULL where unknown, or beyond BIGINT
-- threads         BIGINT       number of threads that have host slices
-- devices         BIGINT       number of devices that have kernels, copies or fills
-- kernels         BIGINT       number of kernels
-- device_busy_ns  BIGINT   ns  time in which a device had a kernel, copy or fill, summed over devices; overlaps counted once
-- steps           BIGINT       number of profiler steps
WITH work AS MATERIALIZED (
    SELECT run, rank, device, NULL AS stream, event_id, start_ns, start_ns + dur_ns AS end_ns
    FROM events
    WHERE is_busy(kind) AND start_ns IS NOT NULL AND dur_ns IS NOT NULL
),
lanes AS MATERIALIZED (
    FROM device_lanes('work')
),
on_lanes AS (
    FROM on_device_lanes('work', 'lanes')
),
busy AS (
    SELECT lanes.run, lanes.rank, sum(greatest(end_ns - greatest(start_ns, free_ns), 0)) AS device_busy_ns
    FROM lane_order('on_lanes') AS work
    JOIN few('lanes') AS lanes ON work.lane = lanes.lane
    GROUP BY lanes.run, lanes.rank
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
    coalesce(slices.steps, 0) AS steps
FROM traces
LEFT JOIN slices ON traces.run = slices.run AND traces.rank = slices.rank
LEFT JOIN busy ON traces.run = busy.run AND traces.rank = busy.rank
ORDER BY traces.run, traces.rank
