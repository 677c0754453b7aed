-- energy(per=step): the energy that each device took in each step, by its samples of power.
-- One row per (run, rank, device, counter, series, step), in this order, steps by start.
-- A step is its interval, as in `step_times`: from the completion of the step before it to its own, on the devices, however far
-- the host runs ahead. Its energy is known if a sample holds at each moment of it, and samples whose whole interval lies in it
-- cover at least half of it. work_j is the part in which a kernel, copy or fill of any step ran on the device, idle_j the rest.
-- In a bare shell read from `sql/lib` first: devices, lanes, counters.
-- needs: events, counters, profiler_steps
-- recorded: power, steps
-- no rows: no step of a known length is in a rank whose power was sampled
-- divides by: rank
-- main columns: step, energy_j, mean_w, step_ns, work_j, idle_j, device
-- parameter unit VARCHAR(W|mW|uW|kW) = ''  unit of counters of power that say none
-- parameter name VARCHAR             = ''  only counters with this text in their name, taken literally
-- run         VARCHAR      run that the trace belongs to
-- rank        INTEGER      rank within the run
-- device      INTEGER      device whose power it is; NULL if the source does not say
-- counter     VARCHAR      name of the counter; NULL if the source has none
-- series      VARCHAR      name of its value
-- step        BIGINT       N of the step
-- energy_j    DOUBLE   J   energy of the step; NULL if samples are too few, or do not hold throughout it
-- work_j      DOUBLE   J   part of it while work ran on the device; NULL without a device
-- idle_j      DOUBLE   J   the rest; NULL without a device
-- mean_w      DOUBLE   W   energy_j over step_ns
-- start_ns    BIGINT   ns  start of its interval, on the clock that traces.clock names
-- step_ns     BIGINT   ns  how long it took
-- sampled_ns  BIGINT   ns  part of it in which the power is known
-- samples     BIGINT       number of samples whose whole interval lies in it
WITH lanes AS MATERIALIZED (
    FROM power_lanes(counters, coalesce(getvariable('unit'), ''), coalesce(getvariable('name'), ''))
),
amounts AS (
    FROM held_amounts(counters, lanes)
),
windows AS (
    SELECT lane, NULL::BIGINT AS event_id, NULL::BIGINT AS step, start_ns, end_ns, is_work
    FROM work_on_lanes(events, lanes)
    UNION ALL
    SELECT lanes.lane, steps.event_id, steps.step, steps.began_ns, steps.completed_ns, false
    FROM profiler_steps AS steps
    JOIN few(lanes) AS lanes ON steps.run = lanes.run AND steps.rank = lanes.rank
    WHERE steps.step_ns IS NOT NULL
),
steps AS (
    SELECT *, is_measured(own_ns, held_ns, start_ns, end_ns) AS is_known
    FROM held_during(amounts, windows)
    WHERE NOT is_work
)
SELECT
    lanes.run,
    lanes.rank,
    lanes.device,
    lanes.name AS counter,
    lanes.series,
    steps.step,
    CASE WHEN is_known THEN held_sum / 1e18 END AS energy_j,
    CASE WHEN is_known AND lanes.device IS NOT NULL THEN work_sum / 1e18 END AS work_j,
    CASE WHEN is_known AND lanes.device IS NOT NULL THEN (held_sum - work_sum) / 1e18 END AS idle_j,
    CASE WHEN is_known THEN held_sum / (steps.end_ns - steps.start_ns) / 1e9 END AS mean_w,
    steps.start_ns,
    steps.end_ns - steps.start_ns AS step_ns,
    held_ns AS sampled_ns,
    samples
FROM steps
JOIN few(lanes) AS lanes ON steps.lane = lanes.lane
ORDER BY lanes.run, lanes.rank, lanes.device NULLS LAST, counter NULLS LAST, lanes.series NULLS LAST, lanes.lane,
    steps.start_ns, steps.step NULLS LAST, steps.event_id
