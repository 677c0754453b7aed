-- The step markers of torch's profiler schedule.

-- step_marks: one row per host slice `ProfilerStep#N`.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, event_id, start_ns, idle_ns  as in events
-- column step BIGINT  N of the name
-- column dur_ns BIGINT  duration; NULL if it never ended
-- example: FROM step_marks(events)
CREATE OR REPLACE TEMP MACRO step_marks(events) AS TABLE
SELECT
    run, rank, event_id,
    try_cast(substr(name, length('ProfilerStep#') + 1) AS BIGINT) AS step,
    start_ns, dur_ns, idle_ns
FROM query_table(events)
WHERE
    kind IN ('host_op', 'annotation', 'python', 'runtime', 'driver', 'overhead', 'other')
    AND starts_with(name, 'ProfilerStep#')
    AND regexp_full_match(name, 'ProfilerStep#[0-9]+');

-- steady_steps: step_marks, and which of them are steady: neither warm-up nor cut off. Warm-up is the first steps of a rank while
-- they take more than twice the median of all. With fewer than four steps that ended this is unknown. A step that never ended
-- although another one did was cut off.
-- parameter events TABLE  `events`, or a part of it
-- column *  as in step_marks
-- column is_steady BOOLEAN  whether it is neither warm-up nor cut off; NULL if unknown
-- example: FROM steady_steps(events)
CREATE OR REPLACE TEMP MACRO steady_steps(events) AS TABLE
WITH sizes AS (
    SELECT
        *,
        quantile_disc(dur_ns, 0.5) OVER ranks AS usual_ns,
        count(dur_ns) OVER ranks AS ended
    FROM step_marks(events)
    WINDOW ranks AS (PARTITION BY run, rank)
)
SELECT
    * EXCLUDE (usual_ns, ended),
    CASE
        WHEN dur_ns IS NULL AND ended > 0 THEN false
        WHEN ended < 4 THEN NULL
        ELSE NOT bool_and(coalesce(dur_ns > 2 * usual_ns::HUGEINT, true)) OVER (
            PARTITION BY run, rank ORDER BY start_ns NULLS LAST, event_id ROWS UNBOUNDED PRECEDING
        )
    END AS is_steady
FROM sizes;

-- merged_step_name: one name for all of them.
-- parameter name VARCHAR  name of a slice
-- returns VARCHAR  the name
-- example: SELECT merged_step_name('ProfilerStep#3')
CREATE OR REPLACE TEMP MACRO merged_step_name(name) AS
CASE WHEN starts_with(name, 'ProfilerStep#') AND regexp_full_match(name, 'ProfilerStep#[0-9]+') THEN 'ProfilerStep*' ELSE name END;
