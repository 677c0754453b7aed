-- step_times: how long each profiler step took, and what the devices did in it.
-- One row per host slice `ProfilerStep#N`, by run, rank and start.
-- Work of a device belongs to the step of its launch. A step is completed when its slice on the host and the device work of all
-- steps up to it have ended. step_ns is the time since the completion before it, or since its own start where that is later: the
-- host's time where the devices keep up, else theirs. The parts are of that interval, and add up to it. With window=host they are
-- of the slice on the host, whichever step launched the work, as HTA and the TensorBoard plugin have it. Device columns are NULL
-- if the rank used no device. Steady steps are whole, and no warm-up: that is the first steps of a rank while they take more than
-- twice the median of its steps; with fewer than four whole steps it is unknown.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, steady_steps, busy.
-- needs: events, profiler_steps
-- recorded: steps
-- divides by: rank
-- main columns: step, step_ns, busy_share, idle_ns, compute_ns, exposed_communication_ns, rank, busy_ns, host_ns, is_steady
-- main columns: exposed_copy_ns, device_window_ns, lag_ns, lack
-- parameter window VARCHAR(step|host) = step  what the parts are of: the interval of a step, or its slice on the host
-- run                      VARCHAR       run that the trace belongs to
-- rank                     INTEGER       rank within the run
-- step                     BIGINT        N of the step
-- start_ns                 BIGINT   ns    start on the host, on the clock that traces.clock names
-- step_ns                  BIGINT   ns    how long it took, from the completion before it to its own; NULL if not known, see lack
-- host_ns                  BIGINT   ns    duration on the host; NULL if it never ended
-- device_start_ns          BIGINT   ns    start of the first device work launched in it; NULL if there is none
-- device_window_ns         BIGINT   ns    from there to the end of the last
-- lag_ns                   BIGINT   ns    how far the devices were behind when the host ended it
-- busy_ns                  BIGINT   ns    time in which at least one device of the rank was busy
-- compute_ns               BIGINT   ns    time in which computation (or a fill) was running
-- exposed_communication_ns BIGINT   ns    time in which communication was running, but no computation
-- exposed_copy_ns          BIGINT   ns    time in which a copy was running, but neither of these
-- unrecorded_ns            BIGINT   ns    time in which none was, and work that is not in the trace may have run
-- idle_ns                  BIGINT   ns    the rest: no device of the rank was busy
-- other_steps_ns           BIGINT   ns    part of busy_ns in which only work of other steps or of none ran; NULL with window=host
-- busy_share               DOUBLE   0..1  busy_ns over the sum of busy_ns and idle_ns; NULL if that is 0
-- is_steady                BOOLEAN        neither warm-up nor lacking anything; NULL if unknown
-- lack                     VARCHAR        why it is in no mean: open, cut, records or before, see `profiler_steps`; else NULL
WITH windows AS (
    FROM host_windows(profiler_steps)
    WHERE coalesce(getvariable('window'), 'step') = 'host'
),
parts AS (
    FROM interval_breakdown(profiler_steps)
    WHERE coalesce(getvariable('window'), 'step') = 'step'
    UNION ALL BY NAME
    FROM device_breakdown(events, windows)
    WHERE coalesce(getvariable('window'), 'step') = 'host' AND event_id IS NOT NULL
)
SELECT
    given.run,
    given.rank,
    given.step,
    given.start_ns,
    given.step_ns,
    given.host_ns,
    given.device_start_ns,
    given.device_window_ns,
    given.lag_ns,
    parts.busy_ns,
    parts.compute_ns,
    parts.exposed_communication_ns,
    parts.exposed_copy_ns,
    parts.unrecorded_ns,
    parts.idle_ns,
    CASE WHEN coalesce(getvariable('window'), 'step') = 'step' THEN given.other_steps_ns END AS other_steps_ns,
    parts.busy_ns / nullif(parts.busy_ns + parts.idle_ns, 0) AS busy_share,
    given.is_steady,
    given.lack
FROM steady_steps(profiler_steps) AS given
LEFT JOIN parts ON given.run = parts.run AND given.rank = parts.rank AND given.event_id = parts.event_id
ORDER BY given.run, given.rank, given.start_ns NULLS LAST, given.event_id
