-- Counters over time, and device work. A value holds from its time until the next one of its series, as PM samples of CUPTI do:
-- they are stamped with the start of the interval that they are the mean of. Samples are of a device, not of what runs on it. A
-- sample is a slice's own if its whole interval lies within the slice: nothing before or after it is in the value. A slice has
-- enough samples if its own cover at least half of it. So a kernel shorter than the time between two samples has none, nor does
-- one whose samples are missing. Sums are of integers, so they add up to the last digit: a value is so many 2^52nds of a power
-- of two near the largest of its series, or nanowatts.
-- In a bare shell read `devices.sql` and `lanes.sql` of `sql/lib` first.

-- counter_lanes: the series of counters over time, with what their values are multiplied by to become integers.
-- parameter counters TABLE  `counters`, or a part of it
-- column run, rank, name, series, pid, counter_id, device, unit  as in counters
-- column lane BIGINT  number of the series, from 1
-- column scale DOUBLE  largest power of two up to the largest absolute value; 1 if that is 0, or none is a number
-- example: FROM counter_lanes(counters)
CREATE OR REPLACE TEMP MACRO counter_lanes(counters) AS TABLE
SELECT
    run, rank, name, series, pid, counter_id, device, unit,
    row_number() OVER (ORDER BY run, rank, name, series, pid, counter_id, device, unit) AS lane,
    coalesce(pow(2, floor(log2(nullif(max(abs(value)) FILTER (isfinite(value)), 0)))), 1) AS scale
FROM query_table(counters)
-- The cycles of Cuspy are one value per kernel, at its start, and hold for no longer.
WHERE event_id IS NULL AND time_ns IS NOT NULL AND name IS DISTINCT FROM 'Cycles (Current Kernel)'
GROUP BY run, rank, name, series, pid, counter_id, device, unit;

-- watts_of: a unit of power in watts.
-- parameter unit VARCHAR  unit of a counter
-- returns DOUBLE  watts; NULL if it is no unit of power
-- example: SELECT watts_of('mW')
CREATE OR REPLACE TEMP MACRO watts_of(unit) AS
CASE lower(unit)
    WHEN 'uw' THEN 1e-6 WHEN 'microwatts' THEN 1e-6
    WHEN 'mw' THEN 1e-3 WHEN 'milliwatts' THEN 1e-3
    WHEN 'w' THEN 1e0 WHEN 'watt' THEN 1e0 WHEN 'watts' THEN 1e0
    WHEN 'kw' THEN 1e3 WHEN 'kilowatts' THEN 1e3
END;

-- is_power: whether a counter is power that was drawn, by its unit, or by its name if it has no unit; a limit of power is none.
-- parameter name VARCHAR  name of the counter
-- parameter series VARCHAR  name of its value
-- parameter unit VARCHAR  its unit
-- returns BOOLEAN  whether it is
-- example: SELECT is_power('GPU Power', NULL, NULL)
CREATE OR REPLACE TEMP MACRO is_power(name, series, unit) AS
(
    watts_of(unit) IS NOT NULL
    OR (unit IS NULL AND regexp_matches(concat_ws(' ', name, series), '(?i)(^|[^a-z])(power|watts?)([^a-z]|$)'))
)
AND NOT regexp_matches(concat_ws(' ', name, series), '(?i)limit|threshold|budget|(^|[^a-z])cap([^a-z]|$)');

-- power_lanes: counter_lanes of power, as held_amounts takes them: an amount is a nanowatt, and amount times time 1e-18 J.
-- parameter counters TABLE  `counters`, or a part of it
-- parameter given_unit VARCHAR  unit of those that have none; empty if it is not known
-- parameter wanted VARCHAR  text in the name of those that count; empty for all
-- column run, rank, name, series, pid, counter_id, device, unit, lane, scale  as in counter_lanes
-- column power_unit VARCHAR  unit, or the one given; NULL if it is not known
-- column parts DOUBLE  nanowatts of the unit; NULL if it is not known
-- example: FROM power_lanes(counters, '', '')
CREATE OR REPLACE TEMP MACRO power_lanes(counters, given_unit, wanted) AS TABLE
SELECT
    * REPLACE (1::DOUBLE AS scale), coalesce(unit, nullif(given_unit, '')) AS power_unit, watts_of(power_unit) * 1e9 AS parts
FROM counter_lanes(counters)
WHERE is_power(name, series, unit) AND (wanted = '' OR contains(name, wanted) OR contains(series, wanted));

-- work_on_lanes: windows of held_during: what kept the device of each series busy.
-- parameter events TABLE  `events`, or a part of it
-- parameter lanes TABLE  counter_lanes
-- column lane BIGINT  number of the series
-- column event_id, start_ns  as in events
-- column end_ns BIGINT  end of the work
-- column is_work BOOLEAN  true
-- example: WITH lanes AS (FROM counter_lanes(counters)) FROM work_on_lanes(events, lanes)
CREATE OR REPLACE TEMP MACRO work_on_lanes(events, lanes) AS TABLE
SELECT lanes.lane, work.event_id, work.start_ns, work.end_ns, true AS is_work
FROM device_work(events) AS work
JOIN few(lanes) AS lanes ON work.run = lanes.run AND work.rank = lanes.rank AND work.device = lanes.device;

-- held_amounts: values of some series as integers, in the order of lane and time: each is `value / scale * parts`, rounded. A
-- value that is not a number, or far larger than `scale`, is not known.
-- parameter counters TABLE  `counters`, or a part of it
-- parameter lanes TABLE  some of counter_lanes, with `parts`
-- column lane BIGINT  number of the series
-- column time_ns BIGINT  time from which it holds
-- column length_ns BIGINT  how long it holds; 0 for the last, and if it is not known
-- column amount BIGINT  the value; 0 if it is not known, or holds for no time
-- column value DOUBLE  the value in its own unit; NULL if it is not a number
-- column ended_ns BIGINT  length_ns of the value before it
-- column ended_amount BIGINT  amount of the value before it
-- column is_held BOOLEAN  whether it is known and holds for some time
-- example: WITH lanes AS (SELECT *, 1000 AS parts FROM counter_lanes(counters)) FROM held_amounts(counters, lanes)
CREATE OR REPLACE TEMP MACRO held_amounts(counters, lanes) AS TABLE
SELECT
    lane, time_ns, length_ns, amount, value, length_ns > 0 AS is_held,
    CASE WHEN lag(lane) OVER () = lane THEN lag(length_ns) OVER () ELSE 0 END AS ended_ns,
    CASE WHEN lag(lane) OVER () = lane THEN lag(amount) OVER () ELSE 0 END AS ended_amount
FROM (
    SELECT
        lane, time_ns, value,
        CASE WHEN scaled IS NOT NULL AND lead(lane) OVER () = lane THEN lead(time_ns) OVER () - time_ns ELSE 0 END AS length_ns,
        CASE WHEN length_ns > 0 THEN round(scaled)::BIGINT ELSE 0 END AS amount
    FROM (
        SELECT
            lanes.lane, samples.time_ns, CASE WHEN isfinite(samples.value) THEN samples.value END AS value,
            CASE
                WHEN isfinite(samples.value) AND abs(samples.value / lanes.scale) * lanes.parts <= 1e16 THEN
                    samples.value / lanes.scale * lanes.parts
            END AS scaled
        FROM query_table(counters) AS samples
        JOIN few(lanes) AS lanes
            ON samples.run = lanes.run
            AND samples.rank = lanes.rank
            AND samples.name IS NOT DISTINCT FROM lanes.name
            AND samples.series IS NOT DISTINCT FROM lanes.series
            AND samples.pid IS NOT DISTINCT FROM lanes.pid
            AND samples.counter_id IS NOT DISTINCT FROM lanes.counter_id
            AND samples.device IS NOT DISTINCT FROM lanes.device
            AND samples.unit IS NOT DISTINCT FROM lanes.unit
        WHERE samples.event_id IS NULL AND samples.time_ns IS NOT NULL
        ORDER BY lanes.lane, samples.time_ns, samples.value NULLS FIRST
    )
);

-- has_enough_samples: whether the samples within a window cover at least half of it.
-- parameter own_ns BIGINT  time that they cover
-- parameter start_ns BIGINT  start of the window
-- parameter end_ns BIGINT  its end
-- returns BOOLEAN  whether they do; false for a window of no length
-- example: SELECT has_enough_samples(5, 0, 10)
CREATE OR REPLACE TEMP MACRO has_enough_samples(own_ns, start_ns, end_ns) AS
own_ns > 0 AND own_ns >= (end_ns - start_ns) - own_ns;

-- is_measured: whether a window has enough samples, and a value holds at each moment of it.
-- parameter own_ns BIGINT  time that the samples within it cover
-- parameter held_ns BIGINT  part of it in which a value holds
-- parameter start_ns BIGINT  start of the window
-- parameter end_ns BIGINT  its end
-- returns BOOLEAN  whether it is
-- example: SELECT is_measured(5, 10, 0, 10)
CREATE OR REPLACE TEMP MACRO is_measured(own_ns, held_ns, start_ns, end_ns) AS
has_enough_samples(own_ns, start_ns, end_ns) AND held_ns = end_ns - start_ns;

-- is_apart: whether the samples of a slice tell what it took itself: it is measured, and other work ran beside it for at most a
-- tenth of its time. How devices divide power between what runs at once is not in the samples.
-- parameter own_ns BIGINT  time that the samples within it cover
-- parameter held_ns BIGINT  part of it in which a value holds
-- parameter beside_ns BIGINT  part of it in which other work ran
-- parameter start_ns BIGINT  start of the slice
-- parameter end_ns BIGINT  its end
-- returns BOOLEAN  whether they do
-- example: SELECT is_apart(5, 10, 1, 0, 10)
CREATE OR REPLACE TEMP MACRO is_apart(own_ns, held_ns, beside_ns, start_ns, end_ns) AS
is_measured(own_ns, held_ns, start_ns, end_ns) AND 10 * beside_ns <= end_ns - start_ns;

-- packed_sum: a count of at most 2^31 and a length of at most 2^63 in one number, so that one running sum adds up both.
-- parameter counted BIGINT  the count
-- parameter length_ns BIGINT  the length
-- returns HUGEINT  both
-- example: SELECT packed_sum(3, 500)
CREATE OR REPLACE TEMP MACRO packed_sum(counted, length_ns) AS (counted::HUGEINT << 64) + length_ns;

-- held_during: what a counter was in each window. All are integrals over time, read at both ends of a window.
-- parameter samples TABLE  held_amounts
-- parameter windows TABLE  windows: `lane`, `event_id`, `start_ns`, `end_ns`, and `is_work`: a slice that keeps the device busy
-- column *  as in windows
-- column samples BIGINT  number of samples whose whole interval lies in the window
-- column own_ns BIGINT  length of these intervals
-- column own_sum HUGEINT  amounts times length of these
-- column held_ns BIGINT  part of the window in which a value holds
-- column held_sum HUGEINT  amount times length of it
-- column work_sum HUGEINT  the part of held_sum in which work ran
-- column share_sum HUGEINT  the same divided by the number of pieces of work that ran at once
-- column busy_ns BIGINT  part of held_ns in which work ran
-- column beside_ns BIGINT  part of the window in which at least two pieces of work ran at once
-- example: WITH samples AS (SELECT 1 AS lane, 0 AS time_ns, 10 AS length_ns, 7 AS amount, true AS is_held, 0 AS ended_ns, 0 AS
-- ended_amount), windows AS (SELECT 1 AS lane, 5 AS event_id, 2 AS start_ns, 8 AS end_ns, true AS is_work)
-- FROM held_during(samples, windows)
CREATE OR REPLACE TEMP MACRO held_during(samples, windows) AS TABLE
WITH numbered AS MATERIALIZED (
    SELECT *, row_number() OVER () AS window_number
    FROM query_table(windows)
    WHERE start_ns <= end_ns
),
-- At one time the start of a window comes first, and an end last: what began before a window, taken from what ended by its end,
-- leaves what lies within it. An interval around the whole window is taken away once: the window has none of its own then.
moments AS (
    SELECT
        lane, time_ns AS at_ns, 1 AS place, 0 AS pieces, NULL::BIGINT AS window_number, length_ns, amount, ended_ns, ended_amount,
        is_held::INTEGER AS begins, (ended_ns > 0)::INTEGER AS ends
    FROM query_table(samples)
    UNION ALL
    SELECT lane, start_ns, 0, is_work::INTEGER, window_number, 0, 0, 0, 0, 0, 0
    FROM numbered
    UNION ALL
    SELECT lane, end_ns, 2, -(is_work::INTEGER), window_number, 0, 0, 0, 0, 0, 0
    FROM numbered
),
-- Sorted once, so that the windows stream: in each lane pieces and amounts are 0 after its last moment.
states AS (
    SELECT
        lane, at_ns, place, window_number,
        sum(pieces) OVER until_now AS pieces,
        sum(amount - ended_amount) OVER until_now AS amount,
        sum(packed_sum(begins, length_ns)) OVER until_now AS begun,
        sum(packed_sum(ends, ended_ns)) OVER until_now AS ended,
        sum(amount::HUGEINT * length_ns) OVER until_now AS begun_sum,
        sum(ended_amount::HUGEINT * ended_ns) OVER until_now AS ended_sum,
        CASE WHEN lead(lane) OVER () = lane THEN lead(at_ns) OVER () - at_ns ELSE 0 END AS next_ns
    FROM (FROM moments ORDER BY lane, at_ns, place)
    WINDOW until_now AS (ROWS UNBOUNDED PRECEDING)
),
-- Of all lanes together: a window takes the difference of two moments of one lane.
clocks AS (
    SELECT
        window_number, place, begun, ended, begun_sum, ended_sum,
        sum(held_ns) OVER until_now - held_ns AS held_ns,
        sum(held_sum) OVER until_now - held_sum AS held_sum,
        sum(work_sum) OVER until_now - work_sum AS work_sum,
        sum(share_sum) OVER until_now - share_sum AS share_sum,
        sum(busy_ns) OVER until_now - busy_ns AS busy_ns,
        sum(beside_ns) OVER until_now - beside_ns AS beside_ns
    FROM (
        SELECT
            *,
            CASE WHEN begun > ended THEN next_ns ELSE 0 END AS held_ns,
            amount * next_ns AS held_sum,
            CASE WHEN pieces > 0 THEN held_sum ELSE 0 END AS work_sum,
            CASE WHEN pieces > 0 THEN held_sum // pieces ELSE 0 END AS share_sum,
            CASE WHEN pieces > 0 THEN held_ns ELSE 0 END AS busy_ns,
            CASE WHEN pieces > 1 THEN next_ns ELSE 0 END AS beside_ns
        FROM states
    )
    WINDOW until_now AS (ROWS UNBOUNDED PRECEDING)
)
SELECT
    numbered.* EXCLUDE (window_number),
    (greatest(until.ended - since.begun, 0) >> 64)::BIGINT AS samples,
    (greatest(until.ended - since.begun, 0) & 18446744073709551615)::BIGINT AS own_ns,
    CASE WHEN until.ended > since.begun THEN until.ended_sum - since.begun_sum ELSE 0 END AS own_sum,
    (until.held_ns - since.held_ns)::BIGINT AS held_ns,
    until.held_sum - since.held_sum AS held_sum,
    until.work_sum - since.work_sum AS work_sum,
    until.share_sum - since.share_sum AS share_sum,
    (until.busy_ns - since.busy_ns)::BIGINT AS busy_ns,
    (until.beside_ns - since.beside_ns)::BIGINT AS beside_ns
FROM numbered
JOIN clocks AS since ON numbered.window_number = since.window_number AND since.place = 0
JOIN clocks AS until ON numbered.window_number = until.window_number AND until.place = 2;
