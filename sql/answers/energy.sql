-- energy: the energy that each device took, by samples of power, and how much of it while it worked.
-- One row per (run, rank, device, counter, series), in this order.
-- Power holds from its sample until the next one; energy is its integral from the first sample to the last. Limits of power do
-- not count. work_j is the part in which a kernel, copy or fill ran on the device, idle_j the rest. A counter of the host, or of
-- an unknown device, has neither. Counters of one device may contain one another: they are rows, and never added up.
-- measured_share says how far energy can be told apart: it is the part of work_j in slices that samples within them cover by at
-- least half, and beside which other work ran for at most a tenth of their time. What a sample is depends on the driver: NVML's
-- power of most GPUs since 2020 is a mean over the second before it.
-- note: no_unit (name it with unit), no_device, no_work (none is in the trace), lost_work (some is not, and may be in idle_j),
-- one_sample.
-- In a bare shell read from `sql/lib` first: devices, lanes, busy, counters.
-- needs: events, counters
-- recorded: power
-- no rows: no counter is power
-- divides by: rank
-- main columns: device, energy_j, mean_w, idle_j, work_j, measured_share, max_w, counter, note
-- parameter per  VARCHAR(device|step|op|kernel) = device  what each row is
-- parameter unit VARCHAR(W|mW|uW|kW)            = ''      unit of counters of power that say none
-- parameter name VARCHAR                        = ''      only counters with this text in their name, taken literally
-- run             VARCHAR        run that the trace belongs to
-- rank            INTEGER        rank within the run
-- device          INTEGER        device whose power it is; NULL if the source does not say
-- counter         VARCHAR        name of the counter; NULL if the source has none
-- series          VARCHAR        name of its value
-- unit            VARCHAR        unit of the samples; NULL if it is not known
-- note            VARCHAR        what is not known, separated by spaces; see above
-- energy_j        DOUBLE   J     energy in sampled_ns; NULL if the unit is not known, or no time passes
-- work_j          DOUBLE   J     part of it while work ran on the device; NULL without a device
-- idle_j          DOUBLE   J     the rest; NULL without a device
-- measured_share  DOUBLE   0..1  part of work_j in slices that can be told apart; NULL if work_j is 0
-- mean_w          DOUBLE   W     energy_j over sampled_ns
-- min_w           DOUBLE   W     least power
-- max_w           DOUBLE   W     greatest power
-- samples         BIGINT         number of samples
-- start_ns        BIGINT   ns    time of the first, on the clock that traces.clock names
-- span_ns         BIGINT   ns    from there to the last
-- sampled_ns      BIGINT   ns    part of it in which the power is known
-- longest_ns      BIGINT   ns    longest time that a sample holds; NULL if none is known
WITH lanes AS MATERIALIZED (
    FROM power_lanes(counters, coalesce(getvariable('unit'), ''), coalesce(getvariable('name'), ''))
),
amounts AS MATERIALIZED (
    FROM held_amounts(counters, lanes)
),
sampled AS MATERIALIZED (
    SELECT
        lane, count(*) AS samples, min(time_ns) AS start_ns, max(time_ns) AS end_ns,
        max(length_ns) FILTER (is_held) AS longest_ns, min(value) AS min_value, max(value) AS max_value
    FROM amounts
    GROUP BY lane
),
windows AS (
    FROM work_on_lanes(events, lanes)
    UNION ALL
    SELECT lane, NULL, start_ns, end_ns, false
    FROM sampled
),
sums AS MATERIALIZED (
    SELECT
        lane,
        any_value(held_ns) FILTER (event_id IS NULL) AS held_ns,
        any_value(held_sum) FILTER (event_id IS NULL) AS held_sum,
        any_value(work_sum) FILTER (event_id IS NULL) AS work_sum,
        sum(share_sum) FILTER (event_id IS NOT NULL AND is_apart(own_ns, held_ns, beside_ns, start_ns, end_ns)) AS measured_sum,
        count(event_id) > 0 AS has_work
    FROM held_during(amounts, windows)
    GROUP BY lane
),
losses AS (
    SELECT DISTINCT run, rank, device
    FROM lost_work(events)
)
SELECT
    lanes.run,
    lanes.rank,
    lanes.device,
    lanes.name AS counter,
    lanes.series,
    lanes.power_unit AS unit,
    nullif(concat_ws(
        ' ',
        CASE WHEN parts IS NULL THEN 'no_unit' END,
        CASE
            WHEN lanes.device IS NULL THEN 'no_device'
            WHEN NOT has_work THEN 'no_work'
        END,
        CASE
            WHEN EXISTS (
                FROM losses
                WHERE losses.run = lanes.run AND losses.rank = lanes.rank AND coalesce(losses.device = lanes.device, true)
            ) AND lanes.device IS NOT NULL THEN 'lost_work'
        END,
        CASE WHEN sampled.samples = 1 THEN 'one_sample' END
    ), '') AS note,
    CASE WHEN held_ns > 0 THEN held_sum / 1e18 END AS energy_j,
    CASE WHEN held_ns > 0 AND lanes.device IS NOT NULL THEN work_sum / 1e18 END AS work_j,
    CASE WHEN held_ns > 0 AND lanes.device IS NOT NULL THEN (held_sum - work_sum) / 1e18 END AS idle_j,
    CASE WHEN work_sum > 0 THEN coalesce(measured_sum, 0) / work_sum END AS measured_share,
    held_sum / nullif(held_ns, 0) / 1e9 AS mean_w,
    min_value * parts / 1e9 AS min_w,
    max_value * parts / 1e9 AS max_w,
    sampled.samples,
    sampled.start_ns,
    sampled.end_ns - sampled.start_ns AS span_ns,
    held_ns AS sampled_ns,
    longest_ns
FROM lanes
JOIN sampled ON lanes.lane = sampled.lane
JOIN sums ON lanes.lane = sums.lane
ORDER BY lanes.run, lanes.rank, lanes.device NULLS LAST, counter NULLS LAST, lanes.series NULLS LAST, lanes.lane
