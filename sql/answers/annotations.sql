-- annotations: what ran on the host and the devices for each user annotation, step by step.
-- One row per (run, rank, step, name), by run, rank, step (none first), first start, name.
-- A range of record_function, NVTX or torch itself, whatever thread it is on. What is launched inside it on its thread is its
-- work, whenever that runs; so backward work, which another thread launches, is not in the annotation of a forward pass.
-- Ranges of one name that are inside each other count once, their time as their work.
-- Names that only a device has ranges of are rows, too: their work is what begins within them on their stream.
-- All but calls and host_ns are NULL where the rows that would tell were filtered out of the trace.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy, regions.
-- needs: events
-- recorded: annotations
-- run                       VARCHAR      run that the trace belongs to
-- rank                      INTEGER      rank within the run
-- step                      BIGINT       profiler step that they started in, or captured ones were replayed in; NULL in none
-- name                      VARCHAR      name of the annotation; NULL where the source has none
-- calls                     BIGINT       number of annotations; of a captured one, of its replays
-- host_ns                   BIGINT   ns  time in them on the host, threads added; NULL where it is not known, or on devices only
-- kernels                   BIGINT       number of kernels launched inside
-- device_ns                 BIGINT   ns  sum of durations of the kernels, copies and fills launched inside
-- busy_ns                   BIGINT   ns  time in which at least one of these ran, on whichever device
-- span_ns                   BIGINT   ns  from the start of the first of them to the end of the last; NULL where there are none
-- exposed_communication_ns  BIGINT   ns  time in which one of them communicated, and nothing on the rank's devices computed
-- idle_ns                   BIGINT   ns  part of span_ns in which no device of the rank was busy; NULL where there is no span
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
named AS (
    SELECT
        region,
        run,
        rank,
        step,
        name,
        sum(calls)::BIGINT AS calls,
        min(start_ns) AS first_ns
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
    device.span_ns,
    device.exposed_communication_ns,
    device.idle_ns
FROM named
LEFT JOIN region_host(host_slices) AS host ON named.region = host.region
LEFT JOIN region_device(places, work) AS device ON named.region = device.region
ORDER BY named.run, named.rank, named.step NULLS FIRST, named.first_ns NULLS LAST, named.name NULLS LAST
