-- steps: when each profiler step ran, and which are steady.
-- One row per host slice `ProfilerStep#N`, by run, rank and start.
-- Steady are the steps that are neither from the warm-up nor cut off. The warm-up are the first steps of a rank as long as they
-- take more than twice the median of its steps; of less than four steps that ended that cannot be told. A step that never ended,
-- where another one did, was cut off.
-- In a bare shell read from `sql/lib` first: steps.
-- needs: events
-- recorded: steps
-- run        VARCHAR      run that the trace belongs to
-- rank       INTEGER      rank within the run
-- step       BIGINT       N of the step
-- start_ns   BIGINT   ns  start, on the clock that traces.clock names
-- dur_ns     BIGINT   ns  duration; NULL where it never ended
-- is_steady  BOOLEAN      neither from the warm-up nor cut off; NULL where that cannot be told
SELECT run, rank, step, start_ns, dur_ns, is_steady
FROM steady_steps(events)
ORDER BY run, rank, start_ns NULLS LAST, event_id
