-- snapshots: what memory snapshots and memory timelines contain.
-- One row per (run, rank).
-- needs: allocations, allocator_events, segments, blocks
-- run         VARCHAR     run that the snapshot belongs to
-- rank        INTEGER     rank within the run
-- devices     BIGINT      devices with memory in it; pinned host memory is one
-- records     BIGINT      records of the allocator
-- allocations BIGINT      allocations, including those before the first record
-- segments    BIGINT      segments
-- blocks      BIGINT      blocks
-- first_ns    BIGINT  ns  time of the first record
-- last_ns     BIGINT  ns  time of the last record
WITH parts AS (
    SELECT run, rank, device_type, device, time_ns, 1 AS records, 0 AS allocations, 0 AS segments, 0 AS blocks FROM allocator_events
    UNION ALL
    SELECT run, rank, device_type, device, NULL, 0, 1, 0, 0 FROM allocations
    UNION ALL
    SELECT run, rank, device_type, device, NULL, 0, 0, 1, 0 FROM segments
    UNION ALL
    SELECT run, rank, device_type, device, NULL, 0, 0, 0, 1 FROM blocks
)
SELECT
    run,
    rank,
    count(DISTINCT device) + count(DISTINCT CASE WHEN device_type = 'PINNED_HOST' THEN device_type END) AS devices,
    count(*) FILTER (records > 0) AS records,
    count(*) FILTER (allocations > 0) AS allocations,
    count(*) FILTER (segments > 0) AS segments,
    count(*) FILTER (blocks > 0) AS blocks,
    min(time_ns) AS first_ns,
    max(time_ns) AS last_ns
FROM parts
GROUP BY run, rank
ORDER BY run, rank
