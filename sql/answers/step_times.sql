-- step_times: how long each profiler step took, and what the devices did in it.
-- One row per host slice `ProfilerStep#N`, by run, rank and start.
-- Device columns are defined as in `time_breakdown`: what ran on the devices between the start and end of the step on the host,
-- whichever step launched it. They are NULL if the rank used no device, or the step never ended.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy.
-- needs: events
-- recorded: steps
-- run                      VARCHAR       run that the trace belongs to
-- rank                     INTEGER       rank within the run
-- step                     BIGINT        N of the step
-- start_ns                 BIGINT   ns    start, on the clock that traces.clock names
-- dur_ns                   BIGINT   ns    duration on the host; NULL if it never ended
-- busy_ns                  BIGINT   ns    time in which at least one device of the rank was busy
-- compute_ns               BIGINT   ns    time in which computation (or a fill) was running
-- exposed_communication_ns BIGINT   ns    time in which communication was running, but no computation
-- exposed_copy_ns          BIGINT   ns    time in which a copy was running, but neither of these
-- idle_ns                  BIGINT   ns    time in which no device of the rank was busy
-- busy_share               DOUBLE   0..1  busy_ns over dur_ns; NULL if that is 0
WITH marks AS MATERIALIZED (
    FROM step_marks(events)
),
parts AS (
    FROM device_breakdown(events)
    WHERE event_id IS NOT NULL
)
SELECT
    marks.run,
    marks.rank,
    marks.step,
    marks.start_ns,
    marks.dur_ns,
    parts.busy_ns,
    parts.compute_ns,
    parts.exposed_communication_ns,
    parts.exposed_copy_ns,
    parts.idle_ns,
    parts.busy_ns / nullif(parts.span_ns, 0) AS busy_share
FROM marks
LEFT JOIN parts ON marks.run = parts.run AND marks.rank = parts.rank AND marks.event_id = parts.event_id
ORDER BY marks.run, marks.rank, marks.start_ns NULLS LAST, marks.event_id
