-- time_breakdown: how the devices of each trace spent their time: compute, communicate, copy, idle.
-- One row per (run, rank) that used a device, with a NULL step, over the whole time of its devices, and one per profiler step.
-- Ordered by run, rank, the row without a step first, then by the start of the step. The devices of a rank are taken together.
-- If they do several things at once, the first of compute, communication, copy counts; the rest is hidden. So compute, exposed
-- communication, exposed copies, unrecorded and idle add up to the span, to the nanosecond. A step is its interval, from the
-- completion before it to its own, as in `step_times`; if that is not known, it has no row. With window=host a step is its slice
-- on the host and counts what ran in it, whichever step launched it, as HTA and the TensorBoard plugin have it; a step that
-- never ended has no row. Memory fills count as computation. Waits for an event or a stream do not count as work. Communication
-- is what events.kernel_category says: collective, expert_parallel, point_to_point.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy.
-- needs: events, profiler_steps
-- recorded: device_time
-- no rows: no device work has a start and a duration
-- divides by: rank
-- main columns: step, span_ns, idle_ns, compute_ns, host_ns, exposed_communication_ns, exposed_copy_ns, rank
-- main columns: hidden_communication_ns, unrecorded_ns, lack
-- parameter window VARCHAR(step|host)        = step  what a step is: its interval, or its slice on the host
-- parameter per    VARCHAR(step|combination) = step  what each row is; combination: of classes that ran at once
-- run                      VARCHAR       run that the trace belongs to
-- rank                     INTEGER       rank within the run
-- step                     BIGINT        N of the step; NULL for the whole trace
-- span_ns                  BIGINT   ns    first start to last end on the devices; for a step, the length of its window
-- compute_ns               BIGINT   ns    time in which computation (or a fill) was running
-- exposed_communication_ns BIGINT   ns    time in which communication was running, but no computation
-- exposed_copy_ns          BIGINT   ns    time in which a copy was running, but neither of these
-- unrecorded_ns            BIGINT   ns    time in which none was, and work that is not in the trace may have run
-- idle_ns                  BIGINT   ns    the rest: no device of the rank was busy
-- hidden_communication_ns  BIGINT   ns    time in which communication was running under computation
-- hidden_copy_ns           BIGINT   ns    time in which a copy was running under either of these
-- other_steps_ns           BIGINT   ns    part of a step in which only work of other steps or of none ran; NULL with window=host
-- step_ns                  BIGINT   ns    how long the step took, like the next four as in `step_times`; NULL for the whole trace
-- host_ns                  BIGINT   ns    duration of the step on the host
-- device_start_ns          BIGINT   ns    start of the first device work launched in it
-- device_window_ns         BIGINT   ns    from there to the end of the last
-- lag_ns                   BIGINT   ns    how far the devices were behind when the host ended it
-- lack                     VARCHAR        why the step is left out of means, as in `step_times`; NULL if it is not
SELECT
    parts.run,
    parts.rank,
    parts.step,
    parts.span_ns,
    parts.compute_ns,
    parts.exposed_communication_ns,
    parts.exposed_copy_ns,
    parts.unrecorded_ns,
    parts.idle_ns,
    parts.hidden_communication_ns,
    parts.hidden_copy_ns,
    CASE WHEN coalesce(getvariable('window'), 'step') = 'step' THEN given.other_steps_ns END AS other_steps_ns,
    given.step_ns,
    given.host_ns,
    given.device_start_ns,
    given.device_window_ns,
    given.lag_ns,
    given.lack
FROM step_breakdown(events, profiler_steps, coalesce(getvariable('window'), 'step')) AS parts
LEFT JOIN profiler_steps AS given ON parts.run = given.run AND parts.rank = given.rank AND parts.event_id = given.event_id
ORDER BY parts.run, parts.rank, parts.event_id IS NOT NULL, parts.start_ns, parts.event_id
