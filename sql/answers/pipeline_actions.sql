-- pipeline_actions: what each pipeline rank did when: which stage, which microbatch, forward or backward.
-- One row per action of a pipeline, by run, rank, start, event_id, stage and microbatch.
-- Actions are what annotations, NVTX ranges or Python frames name: schedules of torch.distributed.pipelining, Megatron-LM and
-- DeepSpeed, `forward_mb_0`. Without these, they are what a rank with one stage computes between sends and receives: after data
-- from a lower rank or for a higher one it is a forward, after data from a higher or for a lower one a backward. Between two
-- messages, autograd's ops show what is backward; without them, work that could be either is forward_backward. If no peer is
-- named, as by gloo without record_shapes, only autograd decides, and stages are unknown.
-- An action lasts from the first start to the last end of what was launched in it on the devices (on a rank without devices, of
-- its ops): communication before and after it does not count, because that is what the stage waits for. Transfers and optimizers
-- are rows if a slice names them. A combined action, OVERLAP_F_B, is two rows at the same time.
-- In a bare shell read from `sql/lib` first: lanes, devices, collectives, intervals, steps, busy, pipelines.
-- needs: events
-- recorded: slices
-- no rows: no annotation, Python frame or message is one of a pipeline schedule
-- divides by: run
-- main columns: name, start_ns, dur_ns, idle_ns, phase, stage, microbatch, rank, pass, step
-- run         VARCHAR      run that the trace belongs to
-- rank        INTEGER      rank within the run
-- step        BIGINT       profiler step; NULL outside steps
-- pass        BIGINT       n-th time that the step does this, from 1
-- stage       BIGINT       stage; if no name gives it, the rank's place in its pipeline; NULL if neither is known
-- microbatch  BIGINT       microbatch, from 0; if no name gives it, the n-th of its phase; NULL if not known, or several
-- phase       VARCHAR      forward, backward, weight_gradient, forward_backward, communication or optimizer
-- event_id    BIGINT       event_id of the slice that names it; NULL if none does
-- name        VARCHAR      its name
-- start_ns    BIGINT   ns  start, on the clock that traces.clock names; NULL if nothing ran on the devices for it
-- dur_ns      BIGINT   ns  first start to last end of what ran for it
-- idle_ns     BIGINT   ns  time before it in which no stage of the rank worked; NULL for the first, and if no stage works
-- source      VARCHAR      where it comes from: annotations, or messages between ranks
WITH actions AS MATERIALIZED (
    FROM pipeline_actions(events)
)
SELECT
    run, rank, step, pass, stage, microbatch, phase, event_id, name, start_ns, end_ns - start_ns AS dur_ns, idle_ns, source
FROM (
    SELECT
        * EXCLUDE (slice_id, free_ns, added_ns, gap_ns) REPLACE (slice_id AS event_id),
        CASE WHEN free_ns IS NOT NULL THEN gap_ns END AS idle_ns
    FROM pipeline_order(actions)
    UNION ALL BY NAME
    FROM actions
    WHERE NOT is_computing(phase) OR start_ns IS NULL OR end_ns IS NULL
)
ORDER BY run, rank, start_ns NULLS LAST, event_id, stage, microbatch
