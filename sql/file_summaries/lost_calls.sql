-- lost_calls: launches whose work is not in the trace.
-- One row per (run, step), in this order.
-- needs: events
-- run    VARCHAR  run that the trace belongs to
-- step   BIGINT   profiler step; NULL outside
-- calls  BIGINT   number of launches
SELECT
    run,
    step,
    count(*) AS calls
FROM events
WHERE lost_start_ns IS NOT NULL
GROUP BY run, step
ORDER BY run, step NULLS FIRST
