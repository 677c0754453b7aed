-- steps: when each profiler step ran.
-- One row per host slice `ProfilerStep#N`, by run, rank and start.
-- needs: events
-- run       VARCHAR      run that the trace belongs to
-- rank      INTEGER      rank within the run
-- step      BIGINT       N of the step
-- start_ns  BIGINT   ns  start, on the clock that traces.clock names
-- dur_ns    BIGINT   ns  duration; NULL where it never ended
SELECT
    run,
    rank,
    try_cast(substr(name, length('ProfilerStep#') + 1) AS BIGINT) AS step,
    start_ns,
    dur_ns
FROM events
WHERE
    kind IN ('host_op', 'annotation', 'python', 'runtime', 'driver', 'overhead', 'other')
    AND regexp_full_match(name, 'ProfilerStep#[0-9]+')
ORDER BY run, rank, start_ns NULLS LAST, event_id
