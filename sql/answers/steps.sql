-- steps: when each profiler step ran, and which are steady.
-- One row per host slice `ProfilerStep#N`, by run, rank and start.
-- Steady steps are those that are neither warm-up nor cut off. Warm-up is the first steps of a rank while they take more than
-- twice the median of its steps; with fewer than four steps that ended, this is unknown. A step that never ended although another
-- one did was cut off.
-- In a bare shell read from `sql/lib` first: steps.
-- needs: events
-- recorded: steps
-- run        VARCHAR      run that the trace belongs to
-- rank       INTEGER      rank within the run
-- step       BIGINT       N of the step
-- start_ns   BIGINT   ns  start, on the clock that traces.clock names
-- dur_ns     BIGINT   ns  duration; NULL if it never ended
-- is_steady  BOOLEAN      neither warm-up nor cut off; NULL if unknown
SELECT run, rank, step, start_ns, dur_ns, is_steady
FROM steady_steps(events)
ORDER BY run, rank, start_ns NULLS LAST, event_id
