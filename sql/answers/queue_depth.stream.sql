-- queue_depth(per=stream): how full the queue of each stream was, every depth weighted by its time.
-- One row per (run, rank, device, stream) for which work was waiting, in this order.
-- The queue of a stream, from its first change to its last: from the first launch to the last start of its
-- work. Shares are parts of that span. A percentile is the least depth that the queue did not exceed for that part of the span.
-- In a bare shell read from `sql/lib` first: lanes, devices, queues.
-- needs: events
-- recorded: launches
-- no rows: no device work has both a start and the start of its launch
-- divides by: rank
-- main columns: stream, mean_depth, max_depth, empty_share, blocked_share, empty_ns, blocked_ns, p50_depth, p90_depth
-- main columns: span_ns, device
-- parameter full_depth BIGINT = 1024  depth from which a queue counts as full, so that a launch blocks
-- run            VARCHAR         run that the trace belongs to
-- rank           INTEGER         rank within the run
-- device         INTEGER         index of the device; NULL if the source does not say
-- stream         INTEGER         stream of the device; NULL if the source does not say
-- span_ns        BIGINT   ns    first launch to last start
-- mean_depth     DOUBLE          mean depth over the span
-- min_depth      BIGINT          least depth
-- max_depth      BIGINT          greatest depth
-- p50_depth      BIGINT          median depth
-- p90_depth      BIGINT          90th percentile of the depth
-- p99_depth      BIGINT          99th percentile of the depth
-- empty_ns       BIGINT   ns    time in which nothing was waiting
-- empty_share    DOUBLE   0..1  empty_ns over span_ns
-- blocked_ns     BIGINT   ns    time in which at least full_depth pieces of work were waiting
-- blocked_share  DOUBLE   0..1  blocked_ns over span_ns
WITH depths AS (
    SELECT
        run, rank, device, stream, depth,
        sum(until_ns - time_ns) AS depth_ns,
        sum(depth_ns) OVER (PARTITION BY run, rank, device, stream ORDER BY depth) AS within_ns,
        sum(depth_ns) OVER (PARTITION BY run, rank, device, stream) AS span_ns
    FROM queue_changes(events)
    WHERE until_ns IS NOT NULL
    GROUP BY run, rank, device, stream, depth
)
SELECT
    run,
    rank,
    device,
    stream,
    sum(depth_ns)::BIGINT AS span_ns,
    sum(depth * depth_ns) / sum(depth_ns) AS mean_depth,
    min(depth) AS min_depth,
    max(depth) AS max_depth,
    min(depth) FILTER (WHERE within_ns * 2 >= span_ns) AS p50_depth,
    min(depth) FILTER (WHERE within_ns * 10 >= span_ns * 9) AS p90_depth,
    min(depth) FILTER (WHERE within_ns * 100 >= span_ns * 99) AS p99_depth,
    coalesce(sum(depth_ns) FILTER (WHERE depth <= 0), 0)::BIGINT AS empty_ns,
    empty_ns / sum(depth_ns) AS empty_share,
    coalesce(sum(depth_ns) FILTER (WHERE depth >= coalesce(getvariable('full_depth'), 1024)), 0)::BIGINT AS blocked_ns,
    blocked_ns / sum(depth_ns) AS blocked_share
FROM depths
GROUP BY run, rank, device, stream
ORDER BY run, rank, device NULLS LAST, stream NULLS LAST
