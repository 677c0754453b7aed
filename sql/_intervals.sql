-- Arithmetic of intervals. Each macro takes the name of a relation with the columns `key` (what it is partitioned by: any
-- type, a struct for several columns), `start_ns` and `end_ns`. An interval holds its start, not its end; an empty one,
-- or one without a start or an end, counts for nothing. What a macro gives has these columns too; its intervals do not overlap.

-- interval_moments: which kinds of intervals are open. The relation has a column `bit` (1, 2 or 4), the kind of each interval.
-- Rows from each start or end of a key to the next one, with the sum of the open bits; two rows in a row may have the same.
-- An interval of bit 0 only cuts: `marks` is how many starts and ends of such have been passed.
CREATE OR REPLACE TEMP MACRO interval_moments(intervals) AS TABLE
SELECT
    key, at_ns AS start_ns, end_ns,
    CASE WHEN of_one > 0 THEN 1 ELSE 0 END
    + CASE WHEN of_two > 0 THEN 2 ELSE 0 END
    + CASE WHEN of_four > 0 THEN 4 ELSE 0 END AS mask,
    coalesce(marks, 0)::BIGINT AS marks
FROM (
    SELECT
        key, at_ns,
        lead(at_ns) OVER until_now AS end_ns,
        sum(change) FILTER (bit = 1) OVER until_now AS of_one,
        sum(change) FILTER (bit = 2) OVER until_now AS of_two,
        sum(change) FILTER (bit = 4) OVER until_now AS of_four,
        sum(1) FILTER (bit = 0) OVER until_now AS marks
    FROM (
        SELECT key, bit, unnest([start_ns, end_ns]) AS at_ns, unnest([1, -1]) AS change
        FROM query_table(intervals)
        WHERE start_ns < end_ns
    )
    WINDOW until_now AS (PARTITION BY key ORDER BY at_ns ROWS UNBOUNDED PRECEDING)
    QUALIFY at_ns < end_ns
);

-- interval_masks: the same in as few rows as can be: one per stretch without a change, from a key's first start to its last end.
CREATE OR REPLACE TEMP MACRO interval_masks(intervals) AS TABLE
WITH turns AS (
    SELECT key, start_ns, mask, max(end_ns) OVER (PARTITION BY key) AS last_ns
    FROM interval_moments(intervals)
    QUALIFY mask IS DISTINCT FROM lag(mask) OVER (PARTITION BY key ORDER BY start_ns)
)
SELECT key, start_ns, lead(start_ns, 1, last_ns) OVER (PARTITION BY key ORDER BY start_ns) AS end_ns, mask
FROM turns;

-- interval_union: where at least one is open.
CREATE OR REPLACE TEMP MACRO interval_union(intervals) AS TABLE
WITH marked AS (SELECT key, start_ns, end_ns, 1 AS bit FROM query_table(intervals))
SELECT key, start_ns, end_ns
FROM interval_masks('marked')
WHERE mask = 1;

-- interval_pairs: interval_masks of two relations, the left one's bit is 1, the right one's 2.
CREATE OR REPLACE TEMP MACRO interval_pairs(left_intervals, right_intervals) AS TABLE
WITH marked AS (
    SELECT key, start_ns, end_ns, 1 AS bit FROM query_table(left_intervals)
    UNION ALL
    SELECT key, start_ns, end_ns, 2 AS bit FROM query_table(right_intervals)
)
SELECT key, start_ns, end_ns, mask
FROM interval_masks('marked');

-- interval_intersection: where one of each relation is open.
CREATE OR REPLACE TEMP MACRO interval_intersection(left_intervals, right_intervals) AS TABLE
SELECT key, start_ns, end_ns
FROM interval_pairs(left_intervals, right_intervals)
WHERE mask = 3;

-- interval_subtraction: where one of the left relation is open and none of the right.
CREATE OR REPLACE TEMP MACRO interval_subtraction(left_intervals, right_intervals) AS TABLE
SELECT key, start_ns, end_ns
FROM interval_pairs(left_intervals, right_intervals)
WHERE mask = 1;

-- interval_concurrency: how many are open, as `open`; where it is 0, there is no row.
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
