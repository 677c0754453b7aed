-- time_breakdown: what the devices of each trace did with their time: compute, communicate, copy, nothing.
-- One row per (run, rank) that used a device, with a NULL step, over the whole time of its devices, and one per profiler step.
-- Ordered by run, rank, the row without a step first, then by the start of the step.
-- The devices of a rank are taken together. Where they do several things at once, what is first of compute, communication, copy
-- counts; the rest is hidden. So compute, exposed communication, exposed copies and idle add up to the span, to the nanosecond.
-- A step is the host's window of its `ProfilerStep#N`, and counts what ran on the devices in it, whichever step launched it; one
-- that never ended has no row. Fills of memory are computation. Waiting for an event or a stream is no work.
-- Communication is known by the names of its kernels.
-- In a bare shell read `sql/_intervals.sql`, `sql/_devices.sql` and `sql/_steps.sql` first.
-- needs: events
-- run                      VARCHAR      run that the trace belongs to
-- rank                     INTEGER      rank within the run
-- step                     BIGINT       N of the step; NULL for the whole trace
-- span_ns                  BIGINT   ns  first start to last end on the devices; of a step, its duration on the host
-- compute_ns               BIGINT   ns  a kernel that computes, or a fill, was running
-- exposed_communication_ns BIGINT   ns  communication was running, and no computation
-- exposed_copy_ns          BIGINT   ns  a copy was running, and neither computation nor communication
-- idle_ns                  BIGINT   ns  nothing was running
-- hidden_communication_ns  BIGINT   ns  communication was running under computation
-- hidden_copy_ns           BIGINT   ns  a copy was running under computation or communication
WITH busy AS MATERIALIZED (
    SELECT * FROM device_intervals(events)
),
whole AS (
    SELECT key.run AS run, key.rank AS rank, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM busy
    GROUP BY key
),
windows AS (
    SELECT run, rank, NULL AS event_id, NULL AS step, start_ns, end_ns
    FROM whole
    UNION ALL
    SELECT marks.run, marks.rank, marks.event_id, marks.step, marks.start_ns, marks.start_ns + marks.dur_ns
    FROM step_marks(events) AS marks
    SEMI JOIN whole ON marks.run = whole.run AND marks.rank = whole.rank
    WHERE marks.start_ns IS NOT NULL AND marks.dur_ns IS NOT NULL
),
edges AS (
    SELECT *, count(*) OVER (PARTITION BY run, rank ORDER BY at_ns) AS marks
    FROM (
        SELECT *, unnest([start_ns, end_ns]) AS at_ns, unnest([-1, 1]) AS sign
        FROM windows
        WHERE start_ns < end_ns
    )
),
marked AS (
    FROM busy
    UNION ALL
    SELECT {'run': run, 'rank': rank} AS key, start_ns, end_ns, 0 AS bit
    FROM windows
),
-- From one edge of a window to the next.
sections AS (
    SELECT
        key.run AS run, key.rank AS rank, marks,
        sum(end_ns - start_ns) FILTER (mask & 1 > 0) AS compute_ns,
        sum(end_ns - start_ns) FILTER (mask & 3 = 2) AS exposed_communication_ns,
        sum(end_ns - start_ns) FILTER (mask = 4) AS exposed_copy_ns,
        sum(end_ns - start_ns) FILTER (mask & 3 = 3) AS hidden_communication_ns,
        sum(end_ns - start_ns) FILTER (mask > 4) AS hidden_copy_ns
    FROM interval_moments('marked')
    WHERE mask > 0
    GROUP BY key, marks
),
-- Until each edge, so that what is in a window is a difference.
until_edge AS (
    SELECT
        run, rank, marks,
        sum(compute_ns) OVER before AS compute_ns,
        sum(exposed_communication_ns) OVER before AS exposed_communication_ns,
        sum(exposed_copy_ns) OVER before AS exposed_copy_ns,
        sum(hidden_communication_ns) OVER before AS hidden_communication_ns,
        sum(hidden_copy_ns) OVER before AS hidden_copy_ns
    FROM (SELECT DISTINCT run, rank, marks FROM edges)
    LEFT JOIN sections USING (run, rank, marks)
    WINDOW before AS (PARTITION BY run, rank ORDER BY marks ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
added AS (
    SELECT
        windows.*,
        windows.end_ns - windows.start_ns AS span_ns,
        coalesce(sum(sign * compute_ns), 0)::BIGINT AS compute_ns,
        coalesce(sum(sign * exposed_communication_ns), 0)::BIGINT AS exposed_communication_ns,
        coalesce(sum(sign * exposed_copy_ns), 0)::BIGINT AS exposed_copy_ns,
        coalesce(sum(sign * hidden_communication_ns), 0)::BIGINT AS hidden_communication_ns,
        coalesce(sum(sign * hidden_copy_ns), 0)::BIGINT AS hidden_copy_ns
    FROM windows
    LEFT JOIN edges
        ON windows.run = edges.run
        AND windows.rank = edges.rank
        AND windows.event_id IS NOT DISTINCT FROM edges.event_id
    LEFT JOIN until_edge
        ON edges.run = until_edge.run AND edges.rank = until_edge.rank AND edges.marks = until_edge.marks
    GROUP BY ALL
)
SELECT
    run,
    rank,
    step,
    span_ns,
    compute_ns,
    exposed_communication_ns,
    exposed_copy_ns,
    span_ns - compute_ns - exposed_communication_ns - exposed_copy_ns AS idle_ns,
    hidden_communication_ns,
    hidden_copy_ns
FROM added
ORDER BY run, rank, event_id IS NOT NULL, start_ns, event_id
