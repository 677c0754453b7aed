-- steps: when each profiler step ran.
-- One row per host slice `ProfilerStep#N`, by run, rank and start.
-- In a bare shell read from `sql/lib` first: steps.
-- needs: events
-- run       VARCHAR      run that the trace belongs to
-- rank      INTEGER      rank within the run
-- step      BIGINT       N of the step
-- start_ns  BIGINT   ns  start, on the clock that traces.clock names
-- dur_ns    BIGINT   ns  duration; NULL where it never ended
SELECT run, rank, step, start_ns, dur_ns
FROM step_marks(events)
ORDER BY run, rank, start_ns NULLS LAST, event_id
