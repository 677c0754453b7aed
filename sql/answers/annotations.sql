-- annotations: what ran on host and devices for each user annotation, step by step.
-- One row per (run, rank, step, name), by run, rank, step (rows outside steps first), first start, name.
-- An annotation is a range of record_function, NVTX or torch itself, on any thread. Its work is everything launched inside it on
-- its thread, whenever that runs; so backward work, which another thread launches, is not in the annotation of a forward pass.
-- Nested ranges with the same name count once, in time and work. Names with ranges only on a device have rows, too: their work is
-- whatever begins within them on their stream. All columns except calls and host times are NULL if the rows they depend on were
-- filtered out of the trace. In the median each range counts, nested ones too.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy, regions.
-- needs: events, profiler_steps
-- recorded: annotations
-- divides by: rank
-- main columns: name, step, host_ns, device_ns, idle_ns, calls, exposed_communication_ns
-- run                       VARCHAR      run that the trace belongs to
-- rank                      INTEGER      rank within the run
-- step                      BIGINT       profiler step of their start, or of the replay if captured; NULL outside steps
-- name                      VARCHAR      name of the annotation; NULL if the source has none
-- calls                     BIGINT       number of annotations; for captured ones, of replays
-- host_ns                   BIGINT   ns  host time in them, summed over threads; NULL if not known, or on devices only
-- kernels                   BIGINT       number of kernels launched inside
-- device_ns                 BIGINT   ns  sum of durations of the kernels, copies and fills launched inside
-- busy_ns                   BIGINT   ns  time in which at least one of these ran, on whichever device
-- p50_host_ns               BIGINT   ns  median duration of one of them on the host, one of the values; NULL as host_ns
-- device_start_ns           BIGINT   ns  start of the first of them; NULL if there are none
-- device_window_ns          BIGINT   ns  from there to the end of the last
-- exposed_communication_ns  BIGINT   ns  time in which one of them communicated and nothing on the rank's devices computed
-- idle_ns                   BIGINT   ns  part of device_window_ns in which no device of the rank was busy; NULL if there is none
-- step_ns                   BIGINT   ns  for `ProfilerStep#N`, how long the step took, as in `step_times`; else NULL
-- lag_ns                    BIGINT   ns  for `ProfilerStep#N`, how far the devices were behind when the host ended it; else NULL
WITH replayed AS (
    FROM replayed_steps(events)
),
marks AS MATERIALIZED (
    SELECT
        events.run, events.rank, coalesce(replayed.replay.step, events.step) AS step, events.name, kind, event_id, events.thread,
        device, stream, start_ns, dur_ns, preorder, last_descendant_id, replayed.replay,
        coalesce(replayed.replays, events.replays, 1) AS calls, 0 AS sub
    FROM events
    LEFT JOIN replayed
        ON events.run = replayed.run AND events.rank = replayed.rank AND events.thread = replayed.thread
        AND events.replays IS NOT NULL
    WHERE kind = 'annotation' OR kind = 'device_annotation'
),
numbered AS MATERIALIZED (
    SELECT *, dense_rank() OVER (ORDER BY run, rank, step, name) AS region
    FROM (
        FROM marks
        WHERE kind = 'annotation'
        UNION ALL
        SELECT marks.*
        FROM marks
        ANTI JOIN (FROM marks WHERE kind = 'annotation') AS of_host
            ON marks.run = of_host.run AND marks.rank = of_host.rank AND marks.name IS NOT DISTINCT FROM of_host.name
        WHERE marks.kind = 'device_annotation'
    )
),
host_slices AS (
    FROM numbered
    WHERE kind = 'annotation'
),
work AS MATERIALIZED (
    FROM region_work(events, numbered)
),
places AS MATERIALIZED (
    FROM region_places(events, numbered, work)
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
        quantile_disc(dur_ns, 0.5) FILTER (kind = 'annotation' AND start_ns IS NOT NULL) AS p50_host_ns
    FROM numbered
    GROUP BY region, run, rank, step, name
)
SELECT
    named.run,
    named.rank,
    named.step,
    named.name,
    named.calls,
    host.host_ns,
    device.kernels,
    device.device_ns,
    device.busy_ns,
    named.p50_host_ns,
    device.start_ns AS device_start_ns,
    device.span_ns AS device_window_ns,
    device.exposed_communication_ns,
    device.idle_ns,
    lengths.step_ns,
    lengths.lag_ns
FROM named
LEFT JOIN region_host(host_slices) AS host ON named.region = host.region
LEFT JOIN region_device(places, work) AS device ON named.region = device.region
LEFT JOIN lengths
    ON named.run = lengths.run AND named.rank = lengths.rank AND named.name = 'ProfilerStep#' || lengths.step
ORDER BY named.run, named.rank, named.step NULLS FIRST, named.first_ns NULLS LAST, named.name NULLS LAST
