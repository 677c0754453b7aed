-- fragmentation: memory that the allocator holds and nothing uses, by segment of a memory snapshot.
-- One row per segment with blocks of (run, rank), by device, the most inactive bytes first, then by segment_id.
-- A request is served from one free block of a pool: it fails where inactive bytes are enough and the largest free block is not.
-- The request is that of the parameter, else the largest that failed on the device. `out_of_memory` has the sums of a device.
-- needs: segments, blocks, allocator_events
-- recorded: segments
-- no rows: no segment has blocks
-- parameter request_bytes BIGINT = 0  a request to place, in bytes; 0 for the largest that failed on the device
-- run                  VARCHAR         run that the snapshot belongs to
-- rank                 INTEGER         rank within the run
-- device               INTEGER         index of the device; NULL where the source does not say
-- segment_id           BIGINT          number of the segment in segments
-- segment_type         VARCHAR         large, small, ...
-- pool                 VARCHAR         memory pool; [0,0] is the usual one
-- stream               BIGINT          stream that it belongs to
-- bytes                BIGINT   bytes  its size
-- active_bytes         BIGINT   bytes  of blocks that are allocated, or wait for a stream
-- inactive_bytes       BIGINT   bytes  of blocks that are free
-- free_blocks          BIGINT          number of blocks that are free
-- largest_free_bytes   BIGINT   bytes  the largest of them; NULL for none
-- unused_bytes         BIGINT   bytes  of active blocks beyond what was asked for; NULL where the source does not say
-- inactive_share       DOUBLE   0..1   inactive_bytes over all of the segment; NULL where that is 0
-- request_bytes        BIGINT   bytes  the request; NULL for none
-- fits_block           BOOLEAN         the largest free block is as large as the request
-- fits_segment         BOOLEAN         the inactive bytes are: it would fit if they were in one piece
-- is_releasable        BOOLEAN         nothing in it is active: emptying the cache gives it back
WITH of_segment AS (
    SELECT
        run, rank, segment_id,
        coalesce(sum(bytes) FILTER (state <> 'inactive'), 0) AS active_bytes,
        coalesce(sum(bytes) FILTER (state = 'inactive'), 0) AS inactive_bytes,
        count(*) FILTER (state = 'inactive') AS free_blocks,
        max(bytes) FILTER (state = 'inactive') AS largest_free_bytes,
        sum(bytes - requested_bytes) FILTER (state <> 'inactive') AS unused_bytes
    FROM blocks
    WHERE segment_id IS NOT NULL
    GROUP BY run, rank, segment_id
),
failures AS (
    SELECT run, rank, device, max(bytes) AS bytes
    FROM allocator_events
    WHERE action = 'oom'
    GROUP BY run, rank, device
)
SELECT
    segments.run,
    segments.rank,
    segments.device,
    segments.segment_id,
    segments.segment_type,
    segments.pool,
    segments.stream,
    segments.bytes,
    try_cast(of_segment.active_bytes AS BIGINT) AS active_bytes,
    try_cast(of_segment.inactive_bytes AS BIGINT) AS inactive_bytes,
    of_segment.free_blocks,
    of_segment.largest_free_bytes,
    try_cast(of_segment.unused_bytes AS BIGINT) AS unused_bytes,
    of_segment.inactive_bytes / nullif(segments.bytes, 0)::DOUBLE AS inactive_share,
    coalesce(nullif(coalesce(getvariable('request_bytes'), 0), 0), failures.bytes) AS request_bytes,
    coalesce(of_segment.largest_free_bytes, 0)
    >= coalesce(nullif(coalesce(getvariable('request_bytes'), 0), 0), failures.bytes) AS fits_block,
    of_segment.inactive_bytes
    >= coalesce(nullif(coalesce(getvariable('request_bytes'), 0), 0), failures.bytes) AS fits_segment,
    of_segment.active_bytes = 0 AS is_releasable
FROM segments
JOIN of_segment
    ON segments.run = of_segment.run AND segments.rank = of_segment.rank AND segments.segment_id = of_segment.segment_id
LEFT JOIN failures
    ON segments.run = failures.run AND segments.rank = failures.rank AND segments.device = failures.device
ORDER BY segments.run, segments.rank, segments.device NULLS LAST, of_segment.inactive_bytes DESC, segments.segment_id
