-- The marks of torch's profiler schedule.

-- step_marks: one row per host slice `ProfilerStep#N`.
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

-- merged_step_name: one name for all of them.
CREATE OR REPLACE TEMP MACRO merged_step_name(name) AS
CASE WHEN starts_with(name, 'ProfilerStep#') AND regexp_full_match(name, 'ProfilerStep#[0-9]+') THEN 'ProfilerStep*' ELSE name END;
