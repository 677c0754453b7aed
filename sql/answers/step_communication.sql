-- step_communication: what ranks compute and communicate in each step, and how much of it is waiting.
-- One row per (run, step, rank) that used devices, by run, the rows without a step first, then by step and rank.
-- Computation, hidden and exposed communication are defined as in time_breakdown; rows without a step cover whole traces. Exposed
-- time is transfer while a collective runs that all its ranks have reached; otherwise waiting while a collective runs whose last
-- rank has not arrived, as collectives has it; otherwise unknown: the other ranks of the communication are not loaded, or clocks
-- cannot be compared. The three add up to exposed_ns. Means are over the ranks of the run that have the step.
-- In a bare shell read from `sql/lib` first: devices, lanes, collectives, intervals, steps, busy, exposure.
-- needs: events, profiler_steps, traces
-- recorded: device_time
-- no rows: no device work has a start and a duration
-- divides by: run
-- main columns: step, span_ns, exposed_ns, exposed_share, communication_ns, wait_ns, rank, hidden_ns, compute_ns, transfer_ns
-- main columns: wait_share, hidden_share, ranks
-- parameter window    VARCHAR(step|host) = step  what a step is: its interval, as in `step_times`, or its slice on the host
-- parameter corrected BOOLEAN = true  correct clocks by the offsets of clock_skew, if all are known
-- run                VARCHAR        run that the trace belongs to
-- rank               INTEGER        rank within the run
-- step               BIGINT         N of the step; NULL for the whole trace
-- ranks              BIGINT         number of ranks with the step
-- start_ns           BIGINT   ns    start, on the clock that traces.clock names
-- span_ns            BIGINT   ns    length of the step's window; for a whole trace, first start to last end on devices
-- compute_ns         BIGINT   ns    time in which computation ran
-- communication_ns   BIGINT   ns    time in which communication ran
-- hidden_ns          BIGINT   ns    part of communication_ns in which computation also ran
-- exposed_ns         BIGINT   ns    part of communication_ns in which no computation ran
-- wait_ns            BIGINT   ns    part of exposed_ns that was waiting for the last rank
-- transfer_ns        BIGINT   ns    part of exposed_ns that was transfer
-- unknown_ns         BIGINT   ns    the rest of exposed_ns, not known to be either
-- hidden_share       DOUBLE   0..1  hidden_ns over communication_ns; NULL if that is 0
-- exposed_share      DOUBLE   0..1  exposed_ns over span_ns; NULL if that is 0
-- wait_share         DOUBLE   0..1  wait_ns over exposed_ns; NULL if that is 0
-- compute_over_mean  DOUBLE         compute_ns over the mean of the ranks; NULL if that is 0
-- exposed_over_mean  DOUBLE         exposed_ns over the mean of the ranks; NULL if that is 0
-- wait_over_mean     DOUBLE         wait_ns over the mean of the ranks: far below 1 for a rank that others wait for
-- step_ns            BIGINT   ns    how long the step took, like the next four as in `step_times`; NULL for the whole trace
-- host_ns            BIGINT   ns    duration of the step on the host
-- device_start_ns    BIGINT   ns    start of the first device work launched in it
-- device_window_ns   BIGINT   ns    from there to the end of the last
-- lag_ns             BIGINT   ns    how far the devices were behind when the host ended it
WITH matches AS MATERIALIZED (
    FROM collective_matches(events, traces)
),
waits AS MATERIALIZED (
    FROM collective_waits(matches, traces, coalesce(getvariable('corrected'), true))
),
windows AS MATERIALIZED (
    FROM step_breakdown(events, profiler_steps, coalesce(getvariable('window'), 'step'))
),
parts AS (
    FROM exposed_waits(events, waits, windows)
)
SELECT
    windows.run,
    windows.rank,
    windows.step,
    count(*) OVER of_step AS ranks,
    windows.start_ns,
    windows.span_ns,
    windows.compute_ns,
    windows.hidden_communication_ns + windows.exposed_communication_ns AS communication_ns,
    windows.hidden_communication_ns AS hidden_ns,
    windows.exposed_communication_ns AS exposed_ns,
    wait_ns,
    transfer_ns,
    exposed_ns - wait_ns - transfer_ns AS unknown_ns,
    hidden_ns / nullif(communication_ns, 0) AS hidden_share,
    exposed_ns / nullif(windows.span_ns, 0) AS exposed_share,
    wait_ns / nullif(exposed_ns, 0) AS wait_share,
    windows.compute_ns * count(*) OVER of_step / nullif(sum(windows.compute_ns) OVER of_step, 0) AS compute_over_mean,
    exposed_ns * count(*) OVER of_step / nullif(sum(exposed_ns) OVER of_step, 0) AS exposed_over_mean,
    wait_ns * count(*) OVER of_step / nullif(sum(wait_ns) OVER of_step, 0) AS wait_over_mean,
    given.step_ns,
    given.host_ns,
    given.device_start_ns,
    given.device_window_ns,
    given.lag_ns
FROM windows
JOIN parts
    ON windows.run = parts.run
    AND windows.rank = parts.rank
    AND windows.event_id IS NOT DISTINCT FROM parts.event_id
LEFT JOIN profiler_steps AS given
    ON windows.run = given.run AND windows.rank = given.rank AND windows.event_id = given.event_id
WINDOW of_step AS (PARTITION BY windows.run, windows.event_id IS NULL, windows.step)
ORDER BY windows.run, windows.step NULLS FIRST, windows.rank, windows.start_ns
