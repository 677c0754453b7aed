-- utilization: how much of the time each device worked, and how much of the device its kernels could fill.
-- One row per (run, rank, device, step), by run, rank, device, step, the row without a step first.
-- The row without a step covers all steps, from the beginning of the first to the completion of the last; for a rank without
-- steps, from the first start to the last end of anything. A step is its interval, as in `step_times`; with window=host it is its
-- slice on the host, as the TensorBoard plugin has it. kernel_share is what that plugin calls GPU utilization: kernels only.
-- busy_share also counts copies and fills. Estimated SM
-- efficiency is the blocks per multiprocessor of all running kernels, at most 1, averaged over the same time. Occupancy is the
-- source's estimate for each kernel, averaged over the time of the kernels that have one.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy.
-- needs: events, profiler_steps
-- recorded: device_work
-- no rows: no device work has a start and a duration
-- divides by: rank
-- main columns: step, busy_share, kernel_share, sm_efficiency, occupancy, span_ns, device, busy_ns, kernel_ns
-- parameter window VARCHAR(step|host) = step  what a step is: its interval, or its slice on the host
-- run              VARCHAR       run that the trace belongs to
-- rank             INTEGER       rank within the run
-- device           INTEGER       index of the device; NULL if the source does not say
-- step             BIGINT        N of the step; NULL for the whole time
-- span_ns          BIGINT   ns    length of the window
-- kernel_ns        BIGINT   ns    part of it in which at least one kernel ran
-- busy_ns          BIGINT   ns    part of it in which at least one kernel, copy or fill ran
-- unrecorded_ns    BIGINT   ns    part of it in which none did, and work that is not in the trace may have run
-- kernel_share     DOUBLE   0..1  kernel_ns over span_ns without unrecorded_ns; NULL if that is 0
-- busy_share       DOUBLE   0..1  busy_ns over span_ns without unrecorded_ns; NULL if that is 0
-- sm_efficiency    DOUBLE         estimated share of multiprocessors with a block, 0 to 1; NULL if no kernel has blocks
-- occupancy        DOUBLE         mean estimated occupancy of kernels weighted by time, 0 to 1; NULL if none has one
-- step_ns          BIGINT   ns    how long the step took, like the next four as in `step_times`; NULL for the whole time
-- host_ns          BIGINT   ns    duration of the step on the host
-- device_start_ns  BIGINT   ns    start of the first device work launched in it, on any device
-- device_window_ns BIGINT   ns    from there to the end of the last
-- lag_ns           BIGINT   ns    how far the devices were behind when the host ended it
WITH marks AS MATERIALIZED (
    FROM host_windows(profiler_steps)
    WHERE coalesce(getvariable('window'), 'step') = 'host'
    UNION ALL
    SELECT run, rank, event_id, step, began_ns, completed_ns
    FROM profiler_steps
    WHERE coalesce(getvariable('window'), 'step') = 'step' AND step_ns IS NOT NULL
),
windows AS MATERIALIZED (
    FROM marks
    UNION ALL
    SELECT run, rank, NULL AS event_id, NULL AS step, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM marks
    GROUP BY run, rank
    UNION ALL
    SELECT events.run, events.rank, NULL, NULL, min(start_ns), max(start_ns + coalesce(dur_ns, 0))
    FROM events
    ANTI JOIN marks ON events.run = marks.run AND events.rank = marks.rank
    WHERE kind <> 'profiler'
    GROUP BY events.run, events.rank
)
SELECT
    uses.run,
    uses.rank,
    uses.device,
    uses.step,
    end_ns - uses.start_ns AS span_ns,
    kernel_ns,
    busy_ns,
    uses.unrecorded_ns,
    kernel_ns / nullif(end_ns - uses.start_ns - uses.unrecorded_ns, 0) AS kernel_share,
    busy_ns / nullif(end_ns - uses.start_ns - uses.unrecorded_ns, 0) AS busy_share,
    filled_ns / nullif(end_ns - uses.start_ns - uses.unrecorded_ns, 0) AS sm_efficiency,
    occupied_ns / nullif(estimated_ns, 0) AS occupancy,
    given.step_ns,
    given.host_ns,
    given.device_start_ns,
    given.device_window_ns,
    given.lag_ns
FROM device_use(events, windows) AS uses
LEFT JOIN profiler_steps AS given ON uses.run = given.run AND uses.rank = given.rank AND uses.event_id = given.event_id
ORDER BY uses.run, uses.rank, uses.device NULLS LAST, uses.step NULLS FIRST, uses.start_ns, uses.event_id
