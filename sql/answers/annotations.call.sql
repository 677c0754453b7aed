-- annotations(per=call): what ran on host and devices for each single user annotation.
-- One row per annotation, by run, rank, start_ns, event_id.
-- Work is that of `annotations`: everything launched inside it on its thread, whenever that runs, and what a thread of autograd
-- launched meanwhile for that thread. Each annotation counts for itself, so nested ones of one name both have the work of the
-- inner one. An annotation that was captured into a graph has a row for each step that replayed it. All columns of devices are
-- NULL if the rows they depend on were filtered out of the trace.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy, regions, backward.
-- needs: events
-- recorded: annotations
-- divides by: rank
-- main columns: name, step, start_ns, host_ns, device_ns, kernels, copies, idle_ns, exposed_communication_ns, event_id
-- run                       VARCHAR      run that the trace belongs to
-- rank                      INTEGER      rank within the run
-- step                      BIGINT       profiler step of its start, or of the replay if captured; NULL outside steps
-- name                      VARCHAR      name of the annotation; NULL if the source has none
-- event_id                  BIGINT       event_id of the annotation
-- start_ns                  BIGINT   ns  its start, on the clock that traces.clock names
-- host_ns                   BIGINT   ns  its duration on the host; NULL if not known, or on devices only
-- kernels                   BIGINT       number of kernels launched inside
-- copies                    BIGINT       number of copies and fills launched inside
-- device_ns                 BIGINT   ns  sum of durations of the kernels, copies and fills launched inside
-- busy_ns                   BIGINT   ns  time in which at least one of these ran, on whichever device
-- device_start_ns           BIGINT   ns  start of the first of them; NULL if there are none
-- device_window_ns          BIGINT   ns  from there to the end of the last
-- exposed_communication_ns  BIGINT   ns  time in which one of them communicated and nothing on the rank's devices computed
-- idle_ns                   BIGINT   ns  part of device_window_ns in which no device of the rank was busy; NULL if there is none
WITH numbered AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY run, rank, event_id, step) AS region
    FROM annotation_slices(events)
),
host_slices AS MATERIALIZED (
    FROM numbered
    WHERE kind = 'annotation'
),
slices AS MATERIALIZED (
    FROM numbered
    UNION ALL
    FROM autograd_slices(events, host_slices)
),
work AS MATERIALIZED (
    FROM region_work(events, slices)
),
places AS MATERIALIZED (
    FROM region_places(events, slices, work)
)
SELECT
    numbered.run,
    numbered.rank,
    numbered.step,
    numbered.name,
    numbered.event_id,
    numbered.start_ns,
    CASE WHEN numbered.kind = 'annotation' AND numbered.start_ns IS NOT NULL THEN numbered.dur_ns END AS host_ns,
    device.kernels,
    device.copies,
    device.device_ns,
    device.busy_ns,
    device.start_ns AS device_start_ns,
    device.span_ns AS device_window_ns,
    device.exposed_communication_ns,
    device.idle_ns
FROM numbered
LEFT JOIN region_device(places, work) AS device ON numbered.region = device.region
ORDER BY numbered.run, numbered.rank, numbered.start_ns NULLS LAST, numbered.event_id, numbered.step NULLS FIRST
