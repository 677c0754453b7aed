-- counters_by_op: what counters were in each op, from samples of devices, CUPTI's range profiler or rocprofv3.
-- One row per (run, rank, op or kernel, device, counter, series), by run, rank, its first slice, device, counter, series.
-- A value that a device was sampled with holds until the next one of its series. A kernel, copy or fill has the mean over the
-- samples whose whole interval lies within it, so nothing else that ran before or after is in it, if these samples cover at least
-- half of it; otherwise it has none, and only counts in `slices` and `total_ns`. Means are weighted by the time that samples
-- cover. Samples are of the device: what ran beside a slice is in its value, and beside_share is how much of its time that was.
-- A slice of the range profiler that is inside a host op belongs to that op (matched_by nesting). Others are on a clock of their
-- own, one per kernel: if there are as many as kernel launches, they belong to the ops of these launches, in order (matched_by
-- order). Kernels with counters of their own, as of rocprofv3, belong to the op around their launch (matched_by correlation). The
-- raw rows are in `counters`. Values that are not numbers (nan, inf) are in no sum.
-- In a bare shell read from `sql/lib` first: devices, lanes, counters.
-- needs: events, counters
-- recorded: counted_slices|device_samples
-- no rows: no device that has samples ran a kernel, copy or fill
-- divides by: rank
-- main columns: op, counter, mean_value, total, unit, total_ns, kernel, max_value, ranges
-- parameter per  VARCHAR(op|kernel) = op  what each row is
-- parameter name VARCHAR            = ''  only counters with this text in their name, taken literally
-- run           VARCHAR        run that the trace belongs to
-- rank          INTEGER        rank within the run
-- op            VARCHAR        name of the innermost op around the slice or its launch; NULL if none is known, and by kernel
-- kernel        VARCHAR        name of the kernel, copy or fill; NULL by op
-- device        INTEGER        device that was sampled; NULL for counters of slices
-- counter       VARCHAR        name of the counter that was sampled; NULL for counters of slices
-- series        VARCHAR        name of its value
-- unit          VARCHAR        unit of the values; NULL if the source does not say
-- mean_value    DOUBLE         mean over the slices; NULL if none has enough samples
-- total         DOUBLE         sum over ranges, in the source's unit; NULL for samples, and if no value is a number
-- min_value     DOUBLE         smallest value of a slice
-- max_value     DOUBLE         largest value of a slice
-- matched_by    VARCHAR        samples; else nesting, order, both, or correlation; NULL if no op is known
-- ops           BIGINT         number of ops with counters
-- ranges        BIGINT         number of slices with counters: for samples, of those with enough of them
-- slices        BIGINT         kernels, copies and fills of the op on the device, with enough samples or not; else NULL
-- total_ns      BIGINT   ns    sum of their durations; NULL without samples
-- covered_ns    BIGINT   ns    time that samples cover of those with enough of them; NULL without samples
-- samples       BIGINT         number of these samples; NULL without samples
-- beside_share  DOUBLE   0..1  part of the time of slices with enough samples in which other work ran too; NULL if none has
WITH counts AS (
    SELECT
        counters.run, counters.rank, counters.series, counters.unit, counters.event_id,
        CASE WHEN isfinite(counters.value) THEN counters.value END AS value,
        slice.start_ns, slice.op_id,
        CASE WHEN coalesce(getvariable('per'), 'op') = 'op' THEN op.name END AS op,
        CASE WHEN coalesce(getvariable('per'), 'op') = 'kernel' THEN slice.name END AS kernel,
        CASE
            WHEN slice.kind = 'kernel' THEN CASE WHEN slice.op_id IS NOT NULL THEN 'correlation' END
            WHEN slice.launch_id IS NOT NULL THEN 'order'
            WHEN slice.op_id IS NOT NULL THEN 'nesting'
        END AS matched_by
    FROM counters
    JOIN events AS slice
        ON counters.run = slice.run AND counters.rank = slice.rank AND counters.event_id = slice.event_id
    LEFT JOIN events AS op ON slice.run = op.run AND slice.rank = op.rank AND slice.op_id = op.event_id
    WHERE counters.event_id IS NOT NULL
        AND (coalesce(getvariable('name'), '') = '' OR contains(counters.series, coalesce(getvariable('name'), '')))
),
ranges AS (
    SELECT
        run, rank, op, kernel, series, any_value(unit) AS unit,
        CASE WHEN count(DISTINCT matched_by) > 1 THEN 'both' ELSE any_value(matched_by) END AS matched_by,
        count(DISTINCT op_id) AS ops,
        count(DISTINCT event_id) AS ranges,
        -- In order: the last digit of a sum of fractions depends on it.
        sum(value ORDER BY event_id) AS total,
        sum(value ORDER BY event_id) / count(value) AS mean_value,
        min(value) AS min_value,
        max(value) AS max_value,
        min(start_ns) AS start_ns
    FROM counts
    GROUP BY run, rank, op, kernel, series
),
lanes AS MATERIALIZED (
    SELECT *, 4503599627370496 AS parts
    FROM counter_lanes(counters)
    WHERE device IS NOT NULL
        AND (coalesce(getvariable('name'), '') = '' OR contains(name, coalesce(getvariable('name'), '')))
),
amounts AS (
    FROM held_amounts(counters, lanes)
),
work AS (
    FROM work_on_lanes(events, lanes)
),
held AS (
    SELECT
        lane, event_id, start_ns, end_ns - start_ns AS dur_ns, samples, own_ns, own_sum, beside_ns,
        has_enough_samples(own_ns, start_ns, end_ns) AS is_covered
    FROM held_during(amounts, work)
),
sampled AS (
    SELECT
        lanes.run, lanes.rank,
        CASE WHEN coalesce(getvariable('per'), 'op') = 'op' THEN op.name END AS op,
        CASE WHEN coalesce(getvariable('per'), 'op') = 'kernel' THEN slice.name END AS kernel,
        lanes.device, lanes.name AS counter, lanes.series, lanes.unit, lanes.lane,
        count(DISTINCT slice.op_id) FILTER (is_covered) AS ops,
        count(*) FILTER (is_covered) AS ranges,
        sum(own_sum) FILTER (is_covered) / sum(own_ns) FILTER (is_covered) / any_value(parts) * any_value(scale) AS mean_value,
        min(own_sum / own_ns) FILTER (is_covered) / any_value(parts) * any_value(scale) AS min_value,
        max(own_sum / own_ns) FILTER (is_covered) / any_value(parts) * any_value(scale) AS max_value,
        count(*) AS slices,
        sum(held.dur_ns) AS total_ns,
        coalesce(sum(own_ns) FILTER (is_covered), 0) AS covered_ns,
        coalesce(sum(samples) FILTER (is_covered), 0) AS samples,
        sum(beside_ns) FILTER (is_covered) / nullif(sum(held.dur_ns) FILTER (is_covered), 0) AS beside_share,
        min(held.start_ns) AS start_ns
    FROM held
    JOIN few(lanes) AS lanes ON held.lane = lanes.lane
    JOIN events AS slice
        ON lanes.run = slice.run AND lanes.rank = slice.rank AND held.event_id = slice.event_id AND is_busy(slice.kind)
    LEFT JOIN (
        SELECT run, rank, event_id, name FROM events WHERE kind <> 'python' AND NOT is_busy(kind)
    ) AS op
        ON slice.run = op.run AND slice.rank = op.rank AND slice.op_id = op.event_id
    GROUP BY ALL
),
every AS (
    FROM ranges
    UNION ALL BY NAME
    SELECT * EXCLUDE (lane), 'samples' AS matched_by
    FROM sampled
),
firsts AS (
    SELECT run, rank, op, kernel, min(start_ns) AS first_ns
    FROM every
    GROUP BY run, rank, op, kernel
)
SELECT
    every.run,
    every.rank,
    every.op,
    every.kernel,
    device,
    counter,
    series,
    unit,
    mean_value,
    total,
    min_value,
    max_value,
    matched_by,
    ops,
    ranges,
    slices,
    try_cast(total_ns AS BIGINT) AS total_ns,
    try_cast(covered_ns AS BIGINT) AS covered_ns,
    samples::BIGINT AS samples,
    beside_share
FROM every
JOIN firsts
    ON every.run = firsts.run AND every.rank = firsts.rank AND every.op IS NOT DISTINCT FROM firsts.op
    AND every.kernel IS NOT DISTINCT FROM firsts.kernel
ORDER BY every.run, every.rank, firsts.first_ns NULLS LAST, every.op NULLS LAST, every.kernel NULLS LAST, device NULLS LAST,
    counter NULLS LAST, series NULLS LAST, unit NULLS LAST, matched_by NULLS LAST, mean_value NULLS LAST
