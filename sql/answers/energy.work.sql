-- energy(per=op|kernel): the energy of ops or kernels, and of idle time, by samples of the device's power.
-- One row per (run, rank, device, counter, series, part, name), by run to series, the largest share first, then by part, name.
-- Work is kernels, copies and fills. Power holds from its sample until the next one; where several pieces of work run at once,
-- each has an equal part of it, so rows add up to the energy of the device, from the first sample to the last. energy_j is of
-- slices that can be told apart: samples whose whole interval lies within the slice cover at least half of it, one holds at each
-- moment of it, and other work ran beside it for at most a tenth of its time. All other energy is in estimated_j: the power was
-- sampled over time that the slice shares with others, so it only says how long the slice ran.
-- In a bare shell read from `sql/lib` first: devices, lanes, counters.
-- needs: events, counters
-- recorded: power, device_samples
-- no rows: the unit or the device of power is not known
-- divides by: rank
-- main columns: name, energy_j, estimated_j, share, slices, measured, device, part
-- parameter per  VARCHAR(op|kernel)  = op  what each row is
-- parameter unit VARCHAR(W|mW|uW|kW) = ''  unit of counters of power that say none
-- parameter name VARCHAR             = ''  only counters with this text in their name, taken literally
-- run           VARCHAR        run that the trace belongs to
-- rank          INTEGER        rank within the run
-- device        INTEGER        device whose power it is
-- counter       VARCHAR        name of the counter; NULL if the source has none
-- series        VARCHAR        name of its value
-- part          VARCHAR        work, or idle
-- name          VARCHAR        name of the op that launched it, or of the kernel, copy or fill; NULL if not known, and for idle
-- energy_j      DOUBLE   J     energy of slices that can be told apart; NULL if there are none
-- estimated_j   DOUBLE   J     energy of all others, by time alone; NULL if there are none
-- share         DOUBLE   0..1  energy_j and estimated_j over the energy of the device
-- slices        BIGINT         number of kernels, copies and fills; NULL for idle
-- measured      BIGINT         number of those that can be told apart; NULL for idle
-- samples       BIGINT         number of their samples; NULL for idle
-- sampled_ns    BIGINT   ns    time of the work, or idle time, in which the power is known; overlaps counted twice
WITH lanes AS MATERIALIZED (
    SELECT *
    FROM power_lanes(counters, coalesce(getvariable('unit'), ''), coalesce(getvariable('name'), ''))
    WHERE device IS NOT NULL AND parts IS NOT NULL
),
amounts AS MATERIALIZED (
    FROM held_amounts(counters, lanes)
),
windows AS (
    FROM work_on_lanes(events, lanes)
    UNION ALL
    SELECT lane, NULL, min(time_ns), max(time_ns), false
    FROM amounts
    GROUP BY lane
),
held AS MATERIALIZED (
    SELECT
        lane, event_id, samples, held_ns, held_sum, work_sum, share_sum, busy_ns,
        is_apart(own_ns, held_ns, beside_ns, start_ns, end_ns) AS is_known
    FROM held_during(amounts, windows)
    WHERE held_ns > 0
),
named AS (
    SELECT
        held.*,
        CASE WHEN coalesce(getvariable('per'), 'op') = 'kernel' THEN slice.name ELSE op.name END AS name
    FROM held
    JOIN few(lanes) AS lanes ON held.lane = lanes.lane
    JOIN events AS slice
        ON lanes.run = slice.run AND lanes.rank = slice.rank AND held.event_id = slice.event_id AND is_busy(slice.kind)
    LEFT JOIN (
        SELECT run, rank, event_id, name
        FROM events
        WHERE kind <> 'python' AND NOT is_busy(kind) AND coalesce(getvariable('per'), 'op') <> 'kernel'
    ) AS op
        ON slice.run = op.run AND slice.rank = op.rank AND slice.op_id = op.event_id
),
rows_of AS (
    SELECT
        lane, 'work' AS part, name,
        count(*) AS slices,
        count(*) FILTER (is_known) AS measured,
        coalesce(sum(samples) FILTER (is_known), 0) AS samples,
        sum(held_ns) AS held_ns,
        sum(share_sum) FILTER (is_known) AS measured_sum,
        sum(share_sum) FILTER (NOT is_known) AS other_sum
    FROM named
    GROUP BY lane, name
    UNION ALL BY NAME
    SELECT lane, 'idle' AS part, held_ns - busy_ns AS held_ns, held_sum - work_sum AS other_sum
    FROM held
    WHERE event_id IS NULL AND held_ns > busy_ns
),
totals AS (
    SELECT lane, held_sum
    FROM held
    WHERE event_id IS NULL
)
SELECT
    lanes.run,
    lanes.rank,
    lanes.device,
    lanes.name AS counter,
    lanes.series,
    part,
    rows_of.name,
    measured_sum / 1e18 AS energy_j,
    other_sum / 1e18 AS estimated_j,
    (coalesce(measured_sum, 0) + coalesce(other_sum, 0)) / nullif(totals.held_sum, 0) AS share,
    slices,
    measured,
    samples::BIGINT AS samples,
    try_cast(rows_of.held_ns AS BIGINT) AS sampled_ns
FROM rows_of
JOIN few(lanes) AS lanes ON rows_of.lane = lanes.lane
JOIN few(totals) AS totals ON rows_of.lane = totals.lane
ORDER BY lanes.run, lanes.rank, lanes.device, counter NULLS LAST, lanes.series NULLS LAST, lanes.lane,
    share DESC NULLS LAST, part, rows_of.name NULLS LAST
