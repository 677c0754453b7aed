-- annotations: what ran on host and devices for each user annotation, step by step.
-- One row per (run, rank, step, name), by run, rank, step (rows outside steps first), first start, name.
-- An annotation is a range of record_function, NVTX or torch itself, on any thread. Its work is everything launched inside it on
-- its thread, whenever that runs, and what a thread of autograd launched meanwhile for that thread, which waits for it in
-- backward(). So backward work is in the annotation around backward(), not in that of the forward pass. Work that no annotation
-- has is in a row without a name and calls, for each step: what other threads launched, or what ran outside all annotations.
-- Nested ranges with the same name count once, in time and work. Names with ranges only on a device have rows, too: their work is
-- whatever begins within them on their stream. All columns except calls and host times are NULL if the rows they depend on were
-- filtered out of the trace. In the median and the maximum each range counts, nested ones too.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy, regions, backward.
-- needs: events, profiler_steps
-- recorded: annotations
-- divides by: rank
-- main columns: name, step, device_ns, host_ns, max_host_ns, kernels, copies, calls, idle_ns, exposed_communication_ns
-- main columns: first_host_ns
-- tables by: device_ns
-- parameter per VARCHAR(name|call) = name  what each row is; call: one annotation
-- run                       VARCHAR      run that the trace belongs to
-- rank                      INTEGER      rank within the run
-- step                      BIGINT       profiler step of their start, or of the replay if captured; NULL outside steps
-- name                      VARCHAR      name of the annotation; NULL if the source has none, or the work is in none
-- calls                     BIGINT       number of annotations; for captured ones, of replays; NULL: work in none
-- host_ns                   BIGINT   ns  host time in them, summed over threads; NULL if not known, or on devices only
-- kernels                   BIGINT       number of kernels launched inside
-- copies                    BIGINT       number of copies and fills launched inside
-- device_ns                 BIGINT   ns  sum of durations of the kernels, copies and fills launched inside
-- busy_ns                   BIGINT   ns  time in which at least one of these ran, on whichever device
-- p50_host_ns               BIGINT   ns  median duration of one of them on the host, one of the values; NULL as host_ns
-- max_host_ns               BIGINT   ns  longest duration of one of them on the host; NULL as host_ns
-- first_host_ns             BIGINT   ns  duration of the first of them on the host, which may be a warm-up; NULL as host_ns
-- device_start_ns           BIGINT   ns  start of the first of them; NULL if there are none
-- device_window_ns          BIGINT   ns  from there to the end of the last
-- exposed_communication_ns  BIGINT   ns  time in which one of them communicated and nothing on the rank's devices computed
-- idle_ns                   BIGINT   ns  part of device_window_ns in which no device of the rank was busy; NULL if there is none
-- step_ns                   BIGINT   ns  for `ProfilerStep#N`, how long the step took, as in `step_times`; else NULL
-- lag_ns                    BIGINT   ns  for `ProfilerStep#N`, how far the devices were behind when the host ended it; else NULL
WITH numbered AS MATERIALIZED (
    SELECT *, dense_rank() OVER (ORDER BY run, rank, step, name) AS region
    FROM annotation_slices(events)
),
host_slices AS MATERIALIZED (
    FROM numbered
    WHERE kind = 'annotation'
),
slices AS MATERIALIZED (
    FROM numbered
    UNION ALL
    FROM autograd_slices(events, host_slices)
),
work AS MATERIALIZED (
    FROM region_work(events, slices)
),
places AS MATERIALIZED (
    FROM region_places(events, slices, work)
),
outside AS MATERIALIZED (
    SELECT lanes.run, lanes.rank, dense_rank() OVER (ORDER BY lane, step) AS lane, work.* EXCLUDE (lane)
    FROM region_outside(places, work, slices) AS work
    JOIN lanes(events) AS lanes USING (lane)
),
lengths AS (
    SELECT run, rank, step, sum(step_ns)::BIGINT AS step_ns, max(lag_ns) AS lag_ns
    FROM profiler_steps
    GROUP BY run, rank, step
),
named AS (
    SELECT
        region,
        run,
        rank,
        step,
        name,
        sum(calls)::BIGINT AS calls,
        min(start_ns) AS first_ns,
        quantile_disc(dur_ns, 0.5) FILTER (kind = 'annotation' AND start_ns IS NOT NULL) AS p50_host_ns,
        max(dur_ns) FILTER (kind = 'annotation' AND start_ns IS NOT NULL) AS max_host_ns,
        arg_min(dur_ns, (start_ns, event_id)) FILTER (kind = 'annotation' AND start_ns IS NOT NULL) AS first_host_ns
    FROM numbered
    GROUP BY region, run, rank, step, name
),
named_work AS (
    SELECT
        named.*, host.host_ns, device.kernels, device.copies, device.device_ns, device.busy_ns, device.start_ns, device.span_ns,
        device.exposed_communication_ns, device.idle_ns
    FROM named
    LEFT JOIN region_host(host_slices) AS host ON named.region = host.region
    LEFT JOIN region_device(places, work) AS device ON named.region = device.region
    UNION ALL BY NAME
    SELECT
        groups.run, groups.rank, groups.step, sums.* EXCLUDE (lane)
    FROM region_sums(outside) AS sums
    JOIN (SELECT DISTINCT lane, run, rank, step FROM outside) AS groups USING (lane)
)
SELECT
    named.run,
    named.rank,
    named.step,
    named.name,
    named.calls,
    named.host_ns,
    named.kernels,
    named.copies,
    named.device_ns,
    named.busy_ns,
    named.p50_host_ns,
    named.max_host_ns,
    named.first_host_ns,
    named.start_ns AS device_start_ns,
    named.span_ns AS device_window_ns,
    named.exposed_communication_ns,
    named.idle_ns,
    lengths.step_ns,
    lengths.lag_ns
FROM named_work AS named
LEFT JOIN lengths
    ON named.run = lengths.run AND named.rank = lengths.rank AND named.name = 'ProfilerStep#' || lengths.step
ORDER BY named.run, named.rank, named.step NULLS FIRST, named.first_ns NULLS LAST, named.name NULLS LAST, named.calls
