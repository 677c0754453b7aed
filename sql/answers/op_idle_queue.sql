-- op_idle_queue: self time of each host slice, and whether the devices had work meanwhile.
-- One row per host slice that nests, by run, rank, start and event_id.
-- These are ops, annotations, Python functions and runtime calls; `filter(kinds=...)` selects some of them.
-- needs: events
-- recorded: host_slices
-- no rows: no slice of the host has a start
-- divides by: rank
-- main columns: name, dur_ns, idle_ns, idle_share, queue_depth, start_ns, self_ns, event_id, step
-- run          VARCHAR        run that the trace belongs to
-- rank         INTEGER        rank within the run
-- event_id     BIGINT         event_id of the slice
-- parent_id    BIGINT         event_id of the slice around it on its thread; NULL for a root
-- name         VARCHAR        name in the source; NULL if it has none
-- kind         VARCHAR        what the slice is: host_op, python, runtime, ...
-- step         BIGINT         N of the profiler step that it started in; NULL outside steps
-- start_ns     BIGINT   ns    start, on the clock that traces.clock names
-- dur_ns       BIGINT   ns    duration
-- self_ns      BIGINT   ns    duration without direct children (negative where those overlap)
-- idle_ns      BIGINT   ns    part of the duration in which no device of the rank was busy; NULL if no device was used
-- idle_share   DOUBLE   0..1  idle_ns over dur_ns; NULL if that is 0
-- queue_depth  BIGINT         pieces of work launched but not begun when it started; NULL if none was launched
SELECT
    run,
    rank,
    event_id,
    parent_id,
    name,
    kind,
    step,
    start_ns,
    dur_ns,
    self_ns,
    idle_ns,
    idle_ns / nullif(dur_ns, 0) AS idle_share,
    queue_depth
FROM events
WHERE preorder IS NOT NULL AND start_ns IS NOT NULL
ORDER BY run, rank, start_ns, event_id
