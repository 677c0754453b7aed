-- runs: how long each run and its steps took, what its devices did, and its memory peak.
-- One row per run, by run.
-- For several ranks, times of devices and ops are added up, so parts add up; spans and peaks are the largest of any rank. A step
-- is completed with its last rank, and took the time since the completion before it, as step_ns of `step_times`; only whole steps
-- count. Device times are NULL if no rank used a device.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy, memory, traces.
-- needs: events, memory, profiler_steps, traces
-- recorded: traces
-- divides by: run
-- main columns: run, span_ns, step_p50_ns, steps, idle_ns, busy_share, exposed_communication_ns, step_mean_ns
-- main columns: throughput_per_s, compute_ns, peak_device_bytes, kernel_ns, ranks, start_ns
-- parameter per_step  BIGINT = 0  tokens, samples or other units that a step processes on all ranks together; 0: not known
-- run                         VARCHAR         run
-- ranks                       BIGINT          number of ranks
-- clock                       VARCHAR         clock of its ranks, as in traces.clock; NULL if they differ
-- start_ns                    BIGINT   ns     earliest time in the run, on that clock; NULL if clocks differ
-- events                      BIGINT          number of slices
-- kernels                     BIGINT          number of kernels
-- span_ns                     BIGINT   ns     first start to last end, on the longest rank; NULL if unknown
-- steps                       BIGINT          number of whole profiler steps
-- step_mean_ns                BIGINT   ns     mean time of a step, rounded half up; NULL without steps, like the next five
-- step_min_ns                 BIGINT   ns     shortest step
-- step_p50_ns                 BIGINT   ns     median
-- step_p90_ns                 BIGINT   ns     90th percentile
-- step_p99_ns                 BIGINT   ns     99th percentile
-- step_max_ns                 BIGINT   ns     longest step
-- throughput_per_s            DOUBLE          per_step over the mean time of a step; NULL if per_step is 0
-- op_self_ns                  BIGINT   ns     self time of all ops on the host; NULL if none is known
-- kernel_ns                   BIGINT   ns     time of all kernels; NULL if none is known
-- device_span_ns              BIGINT   ns     first start to last end on the devices of a rank; the next five add up to it
-- compute_ns                  BIGINT   ns     time in which computation (or a fill) was running
-- exposed_communication_ns    BIGINT   ns     time in which communication was running, but no computation
-- exposed_copy_ns             BIGINT   ns     time in which a copy was running, but neither of these
-- unrecorded_ns               BIGINT   ns     time in which none was, and work that is not in the trace may have run
-- idle_ns                     BIGINT   ns     the rest: no device of a rank was busy, summed over ranks
-- busy_ns                     BIGINT   ns     time in which a device of a rank was busy: the first three of these
-- busy_share                  DOUBLE   0..1   busy_ns over busy_ns and idle_ns; NULL if that is 0
-- exposed_communication_share DOUBLE   0..1   exposed_communication_ns over device_span_ns; NULL if that is 0
-- peak_device_bytes           BIGINT   bytes  most memory allocated on a device at once; NULL if nothing was recorded
-- peak_host_bytes             BIGINT   bytes  most memory a rank allocated on the host at once; NULL if nothing was recorded
WITH whole AS (
    SELECT
        run,
        count(*) AS ranks,
        CASE WHEN count(clock) = count(*) AND min(clock) = max(clock) THEN min(clock) END AS clock,
        min(start_ns) AS start_ns
    FROM traces
    GROUP BY run
),
slices AS (
    SELECT
        run,
        sum(events)::BIGINT AS events,
        sum(kernels)::BIGINT AS kernels,
        try_cast(max(end_ns::HUGEINT - start_ns) AS BIGINT) AS span_ns,
        try_cast(sum(op_self_ns) AS BIGINT) AS op_self_ns,
        try_cast(sum(kernel_ns) AS BIGINT) AS kernel_ns
    FROM trace_slices(events)
    GROUP BY run
),
step_sums AS (
    SELECT
        run,
        count(*) AS steps,
        sum(step_ns) AS all_steps_ns,
        min(step_ns) AS min_ns,
        quantile_disc(step_ns, [0.5, 0.9, 0.99]) AS percentiles,
        max(step_ns) AS max_ns
    FROM job_steps(profiler_steps)
    GROUP BY run
),
no_windows AS (
    FROM host_windows(profiler_steps)
    WHERE false
),
parts AS (
    SELECT
        run,
        sum(span_ns) AS span_ns,
        sum(compute_ns) AS compute_ns,
        sum(exposed_communication_ns) AS exposed_communication_ns,
        sum(exposed_copy_ns) AS exposed_copy_ns,
        sum(busy_ns) AS busy_ns,
        sum(unrecorded_ns) AS unrecorded_ns,
        sum(idle_ns) AS idle_ns
    FROM device_breakdown(events, no_windows)
    GROUP BY run
),
records AS (
    FROM memory_records(memory)
),
peaks AS (
    SELECT
        run,
        max(peak_bytes) FILTER (device IS NOT NULL) AS peak_device_bytes,
        max(peak_bytes) FILTER (device IS NULL) AS peak_host_bytes
    FROM memory_peaks('records')
    GROUP BY run
)
SELECT
    whole.run,
    whole.ranks,
    whole.clock,
    CASE WHEN whole.clock IS NOT NULL THEN whole.start_ns END AS start_ns,
    coalesce(slices.events, 0) AS events,
    coalesce(slices.kernels, 0) AS kernels,
    slices.span_ns,
    coalesce(step_sums.steps, 0) AS steps,
    try_cast((2 * step_sums.all_steps_ns + step_sums.steps) // nullif(2 * step_sums.steps, 0) AS BIGINT) AS step_mean_ns,
    step_sums.min_ns AS step_min_ns,
    step_sums.percentiles[1] AS step_p50_ns,
    step_sums.percentiles[2] AS step_p90_ns,
    step_sums.percentiles[3] AS step_p99_ns,
    step_sums.max_ns AS step_max_ns,
    1e9 * nullif(coalesce(getvariable('per_step'), 0), 0) * step_sums.steps
    / nullif(step_sums.all_steps_ns, 0) AS throughput_per_s,
    slices.op_self_ns,
    slices.kernel_ns,
    try_cast(parts.span_ns AS BIGINT) AS device_span_ns,
    try_cast(parts.compute_ns AS BIGINT) AS compute_ns,
    try_cast(parts.exposed_communication_ns AS BIGINT) AS exposed_communication_ns,
    try_cast(parts.exposed_copy_ns AS BIGINT) AS exposed_copy_ns,
    try_cast(parts.unrecorded_ns AS BIGINT) AS unrecorded_ns,
    try_cast(parts.idle_ns AS BIGINT) AS idle_ns,
    try_cast(parts.busy_ns AS BIGINT) AS busy_ns,
    parts.busy_ns / nullif(parts.busy_ns + parts.idle_ns, 0) AS busy_share,
    parts.exposed_communication_ns / nullif(parts.span_ns, 0) AS exposed_communication_share,
    peaks.peak_device_bytes,
    peaks.peak_host_bytes
FROM whole
LEFT JOIN slices ON whole.run = slices.run
LEFT JOIN step_sums ON whole.run = step_sums.run
LEFT JOIN parts ON whole.run = parts.run
LEFT JOIN peaks ON whole.run = peaks.run
ORDER BY whole.run
