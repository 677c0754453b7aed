-- Steadiness of profiler steps: which are neither warm-up nor cut off.

-- steady_steps: steps, and which of them are steady: neither warm-up nor lacking anything. Warm-up is the first steps of a rank
-- while they take more than twice the median of all, or are not known. With fewer than four whole steps this is unknown.
-- parameter steps TABLE  `profiler_steps`, or a part of it
-- column *  as in profiler_steps
-- column is_steady BOOLEAN  whether it is; NULL if unknown
-- example: FROM steady_steps(profiler_steps)
CREATE OR REPLACE TEMP MACRO steady_steps(steps) AS TABLE
WITH sizes AS (
    SELECT
        *,
        CASE WHEN lack IS NULL THEN step_ns END AS whole_ns,
        quantile_disc(whole_ns, 0.5) OVER ranks AS usual_ns,
        count(whole_ns) OVER ranks AS whole
    FROM query_table(steps)
    WINDOW ranks AS (PARTITION BY run, rank)
)
SELECT
    * EXCLUDE (whole_ns, usual_ns, whole),
    CASE
        WHEN whole_ns IS NULL AND whole > 0 THEN false
        WHEN whole < 4 THEN NULL
        ELSE NOT bool_and(coalesce(whole_ns > 2 * usual_ns::HUGEINT, true)) OVER (
            PARTITION BY run, rank ORDER BY start_ns NULLS LAST, event_id ROWS UNBOUNDED PRECEDING
        )
    END AS is_steady
FROM sizes;
