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
stretches AS (
    SELECT key.run AS run, key.rank AS rank, start_ns, end_ns, mask
    FROM interval_masks('busy')
),
parts AS (
    SELECT
        windows.*,
        stretches.mask,
        least(windows.end_ns, stretches.end_ns) - greatest(windows.start_ns, stretches.start_ns) AS part_ns
    FROM windows
    LEFT JOIN stretches
        ON windows.run = stretches.run
        AND windows.rank = stretches.rank
        AND stretches.start_ns < windows.end_ns
        AND windows.start_ns < stretches.end_ns
        AND stretches.mask > 0
)
SELECT
    run,
    rank,
    step,
    end_ns - start_ns AS span_ns,
    coalesce(sum(part_ns) FILTER (mask & 1 > 0), 0)::BIGINT AS compute_ns,
    coalesce(sum(part_ns) FILTER (mask & 3 = 2), 0)::BIGINT AS exposed_communication_ns,
    coalesce(sum(part_ns) FILTER (mask = 4), 0)::BIGINT AS exposed_copy_ns,
    (end_ns - start_ns - coalesce(sum(part_ns) FILTER (mask > 0), 0))::BIGINT AS idle_ns,
    coalesce(sum(part_ns) FILTER (mask & 3 = 3), 0)::BIGINT AS hidden_communication_ns,
    coalesce(sum(part_ns) FILTER (mask > 4), 0)::BIGINT AS hidden_copy_ns
FROM parts
GROUP BY run, rank, event_id, step, start_ns, end_ns
ORDER BY run, rank, event_id IS NOT NULL, start_ns, event_id
