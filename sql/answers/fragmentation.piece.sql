-- fragmentation(per=piece): how the segments of a memory snapshot are divided into blocks.
-- One row per piece, per (run, rank, device), by device, the largest segments first, then by segment_id and place in the segment.
-- A piece is a set of adjacent blocks in the same state.
-- needs: segments, blocks
-- recorded: segments
-- no rows: no segment has blocks
-- divides by: rank
-- main columns: segment_id, offset_bytes, bytes, state, blocks, segment_bytes
-- parameter segments  BIGINT = 32    maximum segments per (run, rank, device), the largest; 0 for all
-- parameter pieces    BIGINT = 2000  maximum pieces per (run, rank, device), the largest; 0 for all
-- run              VARCHAR         run that the snapshot belongs to
-- rank             INTEGER         rank within the run
-- device_type      VARCHAR         CUDA or XPU; PINNED_HOST for pinned memory of the host; NULL if the source does not say
-- device           INTEGER         index of the device; NULL for pinned host memory, or if the source does not say
-- segment_id       BIGINT          number of the segment in segments
-- segment_type     VARCHAR         large, small, ...
-- segment_bytes    BIGINT   bytes  size of the segment
-- offset_bytes     BIGINT   bytes  where the piece begins in the segment
-- bytes            BIGINT   bytes  size of the piece
-- state            VARCHAR         state of its blocks, as in blocks
-- blocks           BIGINT          number of blocks
-- segments         BIGINT          number of all segments with blocks on the device
-- pieces           BIGINT          number of all pieces in these segments
WITH sizes AS (
    SELECT
        segments.run, segments.rank, segments.device_type, segments.device,
        segments.segment_id, segments.segment_type, segments.address,
        segments.bytes,
        row_number() OVER (
            PARTITION BY segments.run, segments.rank, segments.device_type, segments.device
            ORDER BY segments.bytes DESC NULLS LAST, segments.segment_id
        ) AS place,
        count(*) OVER (PARTITION BY segments.run, segments.rank, segments.device_type, segments.device) AS number_of_segments
    FROM segments
    SEMI JOIN blocks
        ON segments.run = blocks.run AND segments.rank = blocks.rank AND segments.segment_id = blocks.segment_id
    QUALIFY coalesce(getvariable('segments'), 32) <= 0 OR place <= coalesce(getvariable('segments'), 32)
),
starts AS (
    SELECT
        sizes.*, blocks.block_id, blocks.address AS block_address, blocks.bytes AS block_bytes, blocks.state,
        blocks.state IS DISTINCT FROM lag(blocks.state) OVER in_order
        OR blocks.address IS DISTINCT FROM lag(blocks.address + blocks.bytes) OVER in_order AS is_start
    FROM sizes
    JOIN blocks
        ON sizes.run = blocks.run AND sizes.rank = blocks.rank AND sizes.segment_id = blocks.segment_id
    WINDOW in_order AS (PARTITION BY sizes.run, sizes.rank, sizes.segment_id ORDER BY blocks.address NULLS LAST, blocks.block_id)
),
numbered AS (
    SELECT
        *,
        -- DuckDB takes quadratic time for a running count(*) with a FILTER.
        count(CASE WHEN is_start THEN 1 END) OVER (
            PARTITION BY run, rank, segment_id
            ORDER BY block_address NULLS LAST, block_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS piece
    FROM starts
),
pieces AS (
    SELECT
        run, rank, device_type, device, segment_id, piece, place, number_of_segments,
        any_value(segment_type) AS segment_type,
        any_value(bytes) AS segment_bytes,
        min(block_address) - any_value(address) AS offset_bytes,
        sum(block_bytes) AS bytes,
        any_value(state) AS state,
        count(*) AS blocks
    FROM numbered
    GROUP BY run, rank, device_type, device, segment_id, piece, place, number_of_segments
),
counted AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY run, rank, device_type, device ORDER BY bytes DESC NULLS LAST, segment_id, piece
        ) AS size_place,
        count(*) OVER (PARTITION BY run, rank, device_type, device) AS number_of_pieces
    FROM pieces
    QUALIFY coalesce(getvariable('pieces'), 2000) <= 0 OR size_place <= coalesce(getvariable('pieces'), 2000)
)
SELECT
    run,
    rank,
    device_type,
    device,
    segment_id,
    segment_type,
    segment_bytes,
    offset_bytes,
    try_cast(bytes AS BIGINT) AS bytes,
    state,
    blocks,
    number_of_segments AS segments,
    number_of_pieces AS pieces
FROM counted
ORDER BY run, rank, device NULLS LAST, device_type NULLS LAST, place, segment_id, piece
