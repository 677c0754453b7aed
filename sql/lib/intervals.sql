-- Interval arithmetic. Each macro takes the name of a relation with the columns `key` (what it is partitioned by: any type, a
-- struct for several columns), `start_ns` and `end_ns`. An interval includes its start, but not its end; an empty interval, or
-- one without a start or an end, does not count. Results have these columns too; their intervals do not overlap.
-- In a bare shell read `sql/lib/lanes.sql` first.

-- unit_of: what an interval adds to a sum that counts the intervals of each bit separately, in 24 binary digits each, with bit 0
-- in the highest 31. One such sum takes half the time of five.
-- parameter one_bit INTEGER  1, 2, 4, 8 or 0
-- returns HUGEINT  a number for a sum
-- example: SELECT unit_of(1)
CREATE OR REPLACE TEMP MACRO unit_of(one_bit) AS
CASE one_bit
    WHEN 1 THEN 1::HUGEINT
    WHEN 2 THEN 1::HUGEINT << 24
    WHEN 4 THEN 1::HUGEINT << 48
    WHEN 8 THEN 1::HUGEINT << 72
    ELSE 1::HUGEINT << 96
END;

-- count_of: how many intervals of a bit such a sum contains.
-- parameter one_bit INTEGER  1, 2, 4, 8 or 0
-- parameter counts HUGEINT  a sum of results of unit_of
-- returns HUGEINT  how many there are
-- example: SELECT count_of(1, unit_of(1))
CREATE OR REPLACE TEMP MACRO count_of(one_bit, counts) AS
CASE one_bit
    WHEN 1 THEN counts & 16777215
    WHEN 2 THEN (counts >> 24) & 16777215
    WHEN 4 THEN (counts >> 48) & 16777215
    WHEN 8 THEN (counts >> 72) & 16777215
    ELSE counts >> 96
END;

-- interval_points: points at which the kinds of open intervals may change, ordered by `lane`, a number for each key, and `at_ns`.
-- The relation has a column `bit` (1, 2, 4 or 8), the kind of each interval; `mask` is the sum of the open bits from there on.
-- An interval of bit 0 only cuts: `marks` is how many starts and ends of such intervals have been passed. At the last point none
-- is open. What opens is closed in the same lane, so rows are added up in the order of the inner SELECT, without a window for
-- each lane.
-- parameter intervals TABLE  intervals, and `bit`: 1, 2, 4 or 8, the kind of each, or 0 for one that only cuts
-- column key  as in intervals
-- column lane BIGINT  number of the key
-- column at_ns BIGINT  time of the point
-- column mask INTEGER  sum of the bits that are open
-- column marks BIGINT  how many starts and ends of intervals of bit 0 have been passed
-- column is_last BOOLEAN  whether it is the last point of the key
-- example: WITH busy AS (FROM device_intervals(events)) FROM interval_points(busy)
CREATE OR REPLACE TEMP MACRO interval_points(intervals) AS TABLE
WITH lanes AS MATERIALIZED (
    SELECT key, row_number() OVER () AS lane, 2 * (sum(cuts) OVER (ROWS UNBOUNDED PRECEDING) - cuts) AS marks_before
    FROM (
        SELECT key, count(*) FILTER (bit = 0) AS cuts
        FROM query_table(intervals)
        WHERE start_ns < end_ns
        GROUP BY key
    )
)
SELECT
    key, lane, at_ns,
    CASE WHEN count_of(1, counts) > 0 THEN 1 ELSE 0 END
    + CASE WHEN count_of(2, counts) > 0 THEN 2 ELSE 0 END
    + CASE WHEN count_of(4, counts) > 0 THEN 4 ELSE 0 END
    + CASE WHEN count_of(8, counts) > 0 THEN 8 ELSE 0 END AS mask,
    (count_of(0, counts) - marks_before)::BIGINT AS marks,
    next_lane IS DISTINCT FROM lane AS is_last
FROM (
    SELECT
        key, lane, marks_before, at_ns,
        lead(lane) OVER () AS next_lane,
        lead(at_ns) OVER () AS next_ns,
        sum(CASE WHEN bit = 0 THEN 1 ELSE change END * unit_of(bit)) OVER (ROWS UNBOUNDED PRECEDING) AS counts
    FROM (
        SELECT
            lanes.key, lanes.lane, lanes.marks_before, bit,
            unnest([start_ns, end_ns]) AS at_ns, unnest([1, -1]) AS change
        FROM query_table(intervals) AS given
        JOIN few(lanes) AS lanes ON given.key IS NOT DISTINCT FROM lanes.key
        WHERE start_ns < end_ns
        ORDER BY lane, at_ns
    )
)
WHERE next_lane IS DISTINCT FROM lane OR at_ns < next_ns;

-- interval_moments: rows from each start or end of a key to the next, with mask and marks; adjacent rows may have the same.
-- parameter intervals TABLE  intervals, and `bit`: 1, 2, 4 or 8, the kind of each, or 0 for one that only cuts
-- column key  as in intervals
-- column mask, marks  as in interval_points
-- column start_ns BIGINT  start of the stretch
-- column end_ns BIGINT  end of the stretch
-- example: WITH busy AS (FROM device_intervals(events)) FROM interval_moments(busy)
CREATE OR REPLACE TEMP MACRO interval_moments(intervals) AS TABLE
SELECT key, start_ns, end_ns, mask, marks
FROM (
    SELECT key, at_ns AS start_ns, lead(at_ns) OVER () AS end_ns, mask, marks, is_last
    FROM interval_points(intervals)
)
WHERE NOT is_last;

-- interval_masks: the same in the fewest rows: one per stretch without a change, from a key's first start to its last end.
-- parameter intervals TABLE  intervals, and `bit`: 1, 2, 4 or 8, the kind of each, or 0 for one that only cuts
-- column key  as in intervals
-- column mask  as in interval_points
-- column start_ns BIGINT  start of the stretch
-- column end_ns BIGINT  end of the stretch
-- example: WITH busy AS (FROM device_intervals(events)) FROM interval_masks(busy)
CREATE OR REPLACE TEMP MACRO interval_masks(intervals) AS TABLE
SELECT key, start_ns, end_ns, mask
FROM (
    SELECT key, at_ns AS start_ns, lead(at_ns) OVER () AS end_ns, mask, is_last
    FROM (
        SELECT *, lag(lane) OVER () AS lane_before, lag(mask) OVER () AS mask_before
        FROM interval_points(intervals)
    )
    WHERE is_last OR lane_before IS DISTINCT FROM lane OR mask_before <> mask
)
WHERE NOT is_last;

-- interval_union: where at least one is open.
-- parameter intervals TABLE  intervals
-- column key  as in intervals
-- column start_ns BIGINT  start of the stretch
-- column end_ns BIGINT  end of the stretch
-- example: WITH busy AS (FROM device_intervals(events)) FROM interval_union(busy)
CREATE OR REPLACE TEMP MACRO interval_union(intervals) AS TABLE
WITH marked AS (SELECT key, start_ns, end_ns, 1 AS bit FROM query_table(intervals))
SELECT key, start_ns, end_ns
FROM interval_masks('marked')
WHERE mask = 1;

-- interval_pairs: interval_masks of two relations: the left one's bit is 1, the right one's 2.
-- parameter left_intervals TABLE  intervals
-- parameter right_intervals TABLE  intervals
-- column key  as in left_intervals
-- column mask  as in interval_masks
-- column start_ns BIGINT  start of the stretch
-- column end_ns BIGINT  end of the stretch
-- example: WITH busy AS (FROM device_intervals(events)) FROM interval_pairs(busy, busy)
CREATE OR REPLACE TEMP MACRO interval_pairs(left_intervals, right_intervals) AS TABLE
WITH marked AS (
    SELECT key, start_ns, end_ns, 1 AS bit FROM query_table(left_intervals)
    UNION ALL
    SELECT key, start_ns, end_ns, 2 AS bit FROM query_table(right_intervals)
)
SELECT key, start_ns, end_ns, mask
FROM interval_masks('marked');

-- interval_intersection: where one of each relation is open.
-- parameter left_intervals TABLE  intervals
-- parameter right_intervals TABLE  intervals
-- column key  as in left_intervals
-- column start_ns BIGINT  start of the stretch
-- column end_ns BIGINT  end of the stretch
-- example: WITH busy AS (FROM device_intervals(events)) FROM interval_intersection(busy, busy)
CREATE OR REPLACE TEMP MACRO interval_intersection(left_intervals, right_intervals) AS TABLE
SELECT key, start_ns, end_ns
FROM interval_pairs(left_intervals, right_intervals)
WHERE mask = 3;

-- interval_subtraction: where one of the left relation is open and none of the right.
-- parameter left_intervals TABLE  intervals
-- parameter right_intervals TABLE  intervals
-- column key  as in left_intervals
-- column start_ns BIGINT  start of the stretch
-- column end_ns BIGINT  end of the stretch
-- example: WITH busy AS (FROM device_intervals(events)) FROM interval_subtraction(busy, busy)
CREATE OR REPLACE TEMP MACRO interval_subtraction(left_intervals, right_intervals) AS TABLE
SELECT key, start_ns, end_ns
FROM interval_pairs(left_intervals, right_intervals)
WHERE mask = 1;

-- interval_concurrency: how many are open, as `open`; there is no row if none are.
-- parameter intervals TABLE  intervals
-- column key  as in intervals
-- column start_ns BIGINT  start of the stretch
-- column end_ns BIGINT  end of the stretch
-- column open BIGINT  how many are open
-- example: WITH busy AS (FROM device_intervals(events)) FROM interval_concurrency(busy)
CREATE OR REPLACE TEMP MACRO interval_concurrency(intervals) AS TABLE
WITH changes AS (
    SELECT key, at_ns, sum(change) AS change
    FROM (
        SELECT key, unnest([start_ns, end_ns]) AS at_ns, unnest([1, -1]) AS change
        FROM query_table(intervals)
        WHERE start_ns < end_ns
    )
    GROUP BY key, at_ns
    HAVING sum(change) <> 0
)
SELECT
    key, at_ns AS start_ns,
    lead(at_ns) OVER until_now AS end_ns,
    (sum(change) OVER until_now)::BIGINT AS open
FROM changes
WINDOW until_now AS (PARTITION BY key ORDER BY at_ns)
QUALIFY open > 0;
