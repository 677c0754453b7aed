-- time_breakdown: how the devices of each trace spent their time: compute, communicate, copy, idle.
-- One row per (run, rank) that used a device, with a NULL step, over the whole time of its devices, and one per profiler step.
-- Ordered by run, rank, the row without a step first, then by the start of the step. The devices of a rank are taken together. If
-- they do several things at once, the first of compute, communication, copy counts; the rest is hidden. So compute, exposed
-- communication, exposed copies and idle add up to the span, to the nanosecond. A step is the host's window of its
-- `ProfilerStep#N`, and counts what ran on the devices in it, whichever step launched it; a step that never ended has no row.
-- Memory fills count as computation. Waits for an event or a stream do not count as work. Communication is what
-- events.kernel_category says: collective, expert_parallel, point_to_point.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy.
-- needs: events
-- recorded: device_work
-- no rows: no device work has a start and a duration
-- run                      VARCHAR      run that the trace belongs to
-- rank                     INTEGER      rank within the run
-- step                     BIGINT       N of the step; NULL for the whole trace
-- span_ns                  BIGINT   ns  first start to last end on the devices; for a step, its duration on the host
-- compute_ns               BIGINT   ns  time in which computation (or a fill) was running
-- exposed_communication_ns BIGINT   ns  time in which communication was running, but no computation
-- exposed_copy_ns          BIGINT   ns  time in which a copy was running, but neither of these
-- idle_ns                  BIGINT   ns  time in which no device of the rank was busy
-- hidden_communication_ns  BIGINT   ns  time in which communication was running under computation
-- hidden_copy_ns           BIGINT   ns  time in which a copy was running under either of these
SELECT
    run,
    rank,
    step,
    span_ns,
    compute_ns,
    exposed_communication_ns,
    exposed_copy_ns,
    idle_ns,
    hidden_communication_ns,
    hidden_copy_ns
FROM device_breakdown(events)
ORDER BY run, rank, event_id IS NOT NULL, start_ns, event_id
