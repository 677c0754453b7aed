-- fragmentation: memory that the allocator holds but nothing uses, by segment of a memory snapshot.
-- One row per segment with blocks, per (run, rank), by device, the most inactive bytes first, then by segment_id.
-- A request is served from one free block of a pool: it fails if no free block is large enough, even if inactive bytes suffice.
-- The request is the parameter, else the largest that failed on the device. `out_of_memory` has totals per device.
-- needs: segments, blocks, allocator_events
-- recorded: segments
-- no rows: no segment has blocks
-- divides by: rank
-- main columns: inactive_bytes, bytes, largest_free_bytes, inactive_share, active_bytes, is_releasable, free_blocks
-- main columns: segment_type, fits_segment, device
-- parameter request_bytes BIGINT                 = 0        a request to place; 0 for the largest that failed on the device
-- parameter per           VARCHAR(segment|piece) = segment  what each row is
-- run                  VARCHAR         run that the snapshot belongs to
-- rank                 INTEGER         rank within the run
-- device_type          VARCHAR         CUDA or XPU; PINNED_HOST for pinned memory of the host; NULL if the source does not say
-- device               INTEGER         index of the device; NULL for pinned host memory, or if the source does not say
-- segment_id           BIGINT          number of the segment in segments
-- segment_type         VARCHAR         large, small, ...
-- pool                 VARCHAR         memory pool; [0,0] is the default pool
-- stream               BIGINT          stream that it belongs to
-- bytes                BIGINT   bytes  its size
-- active_bytes         BIGINT   bytes  bytes of blocks that are allocated, or wait for a stream
-- inactive_bytes       BIGINT   bytes  bytes of free blocks
-- free_blocks          BIGINT          number of free blocks
-- largest_free_bytes   BIGINT   bytes  largest free block; NULL if there is none
-- unused_bytes         BIGINT   bytes  bytes of active blocks beyond what was requested; NULL if the source does not say
-- inactive_share       DOUBLE   0..1   inactive_bytes over all of the segment; NULL if that is 0
-- request_bytes        BIGINT   bytes  the request; NULL if there is none
-- fits_block           BOOLEAN         the largest free block can hold the request
-- fits_segment         BOOLEAN         all inactive bytes together could hold the request
-- is_releasable        BOOLEAN         nothing in it is active: emptying the cache returns it
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
    SELECT run, rank, device_type, device, max(bytes) AS bytes
    FROM allocator_events
    WHERE action = 'oom'
    GROUP BY run, rank, device_type, device
)
SELECT
    segments.run,
    segments.rank,
    segments.device_type,
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
    ON segments.run = failures.run
    AND segments.rank = failures.rank
    AND segments.device_type IS NOT DISTINCT FROM failures.device_type
    AND segments.device IS NOT DISTINCT FROM failures.device
ORDER BY segments.run, segments.rank, segments.device NULLS LAST, segments.device_type NULLS LAST,
    of_segment.inactive_bytes DESC, segments.segment_id
