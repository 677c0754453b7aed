-- The marks of torch's profiler schedule.

-- step_marks: one row per host slice `ProfilerStep#N`.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, event_id, start_ns, idle_ns  as in events
-- column step BIGINT  N of the name
-- column dur_ns BIGINT  duration; NULL where it never ended
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

-- merged_step_name: one name for all of them.
-- parameter name VARCHAR  name of a slice
-- returns VARCHAR  the name
-- example: SELECT merged_step_name('ProfilerStep#3')
CREATE OR REPLACE TEMP MACRO merged_step_name(name) AS
CASE WHEN starts_with(name, 'ProfilerStep#') AND regexp_full_match(name, 'ProfilerStep#[0-9]+') THEN 'ProfilerStep*' ELSE name END;
