-- Arithmetic of intervals. Each macro takes the name of a relation with the columns `key` (what it is partitioned by: any
-- type, a struct for several columns), `start_ns` and `end_ns`. An interval holds its start, not its end; an empty one,
-- or one without a start or an end, counts for nothing. What a macro gives has these columns too; its intervals do not overlap.

-- interval_masks: which kinds of intervals are open. The relation has a column `bit` (1, 2 or 4), the kind of each interval.
-- One row per stretch of a key without a change, from its first start to its last end, with the sum of the open bits.
CREATE OR REPLACE TEMP MACRO interval_masks(intervals) AS TABLE
WITH changes AS (
    SELECT
        key, at_ns,
        sum(change) FILTER (bit = 1) AS of_one, sum(change) FILTER (bit = 2) AS of_two, sum(change) FILTER (bit = 4) AS of_four
    FROM (
        SELECT key, bit, unnest([start_ns, end_ns]) AS at_ns, unnest([1, -1]) AS change
        FROM query_table(intervals)
        WHERE start_ns < end_ns
    )
    GROUP BY key, at_ns
),
moments AS (
    SELECT
        key, at_ns,
        CASE WHEN sum(of_one) OVER until_now > 0 THEN 1 ELSE 0 END
        + CASE WHEN sum(of_two) OVER until_now > 0 THEN 2 ELSE 0 END
        + CASE WHEN sum(of_four) OVER until_now > 0 THEN 4 ELSE 0 END AS mask
    FROM changes
    WINDOW until_now AS (PARTITION BY key ORDER BY at_ns)
),
turns AS (
    SELECT key, at_ns, mask
    FROM moments
    QUALIFY mask IS DISTINCT FROM lag(mask) OVER (PARTITION BY key ORDER BY at_ns)
)
SELECT key, at_ns AS start_ns, lead(at_ns) OVER (PARTITION BY key ORDER BY at_ns) AS end_ns, mask
FROM turns
QUALIFY end_ns IS NOT NULL;

-- interval_union: where at least one is open.
CREATE OR REPLACE TEMP MACRO interval_union(intervals) AS TABLE
WITH marked AS (SELECT key, start_ns, end_ns, 1 AS bit FROM query_table(intervals))
SELECT key, start_ns, end_ns
FROM interval_masks('marked')
WHERE mask = 1;

-- interval_intersection: where one of each relation is open.
CREATE OR REPLACE TEMP MACRO interval_intersection(left_intervals, right_intervals) AS TABLE
WITH marked AS (
    SELECT key, start_ns, end_ns, 1 AS bit FROM query_table(left_intervals)
    UNION ALL
    SELECT key, start_ns, end_ns, 2 AS bit FROM query_table(right_intervals)
)
SELECT key, start_ns, end_ns
FROM interval_masks('marked')
WHERE mask = 3;

-- interval_subtraction: where one of the left relation is open and none of the right.
CREATE OR REPLACE TEMP MACRO interval_subtraction(left_intervals, right_intervals) AS TABLE
WITH marked AS (
    SELECT key, start_ns, end_ns, 1 AS bit FROM query_table(left_intervals)
    UNION ALL
    SELECT key, start_ns, end_ns, 2 AS bit FROM query_table(right_intervals)
)
SELECT key, start_ns, end_ns
FROM interval_masks('marked')
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
