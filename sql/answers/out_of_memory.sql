-- out_of_memory: each time that memory ran out: the request, and what held the rest.
-- One row per record `oom`, per (run, rank), in their order.
-- Held memory is computed by replaying all records until then. Free memory in segments is as in the snapshot, so at the moment of
-- the request only if the snapshot was taken when memory ran out. An allocation needs one free block: `fits_sum` without
-- `fits_block` means fragmentation.
-- In a bare shell read from `sql/lib` first: stacks.
-- needs: allocations, allocator_events, segments, blocks, stacks
-- recorded: snapshots, history
-- no rows: memory never ran out in what the snapshot recorded
-- divides by: rank
-- main columns: requested_bytes, device_free_bytes, missing_bytes, frame, held_bytes, largest_free_bytes, holder_bytes
-- main columns: holder_frame, fits_sum, inactive_bytes, time_ns, device
-- run                 VARCHAR         run that the snapshot belongs to
-- rank                INTEGER         rank within the run
-- device_type         VARCHAR         CUDA or XPU; PINNED_HOST for pinned memory of the host; NULL if the source does not say
-- device              INTEGER         index of the device; NULL for pinned host memory
-- allocator_event_id  BIGINT          number of the record in allocator_events
-- time_ns             BIGINT   ns     time; NULL if the source has no times
-- requested_bytes     BIGINT   bytes  bytes requested
-- device_free_bytes   BIGINT   bytes  bytes free on the device
-- missing_bytes       BIGINT   bytes  requested bytes beyond that; NULL if there are none
-- held_bytes          BIGINT   bytes  bytes allocated
-- held_blocks         BIGINT          number of allocations
-- reserved_bytes      BIGINT   bytes  bytes that the allocator then held from the driver; NULL if the source does not say
-- inactive_bytes      BIGINT   bytes  bytes of all free blocks in the snapshot on the device; NULL if it has no blocks
-- largest_free_bytes  BIGINT   bytes  largest free block
-- segment_free_bytes  BIGINT   bytes  largest sum of free blocks in one segment
-- fits_block          BOOLEAN         one free block can hold the request
-- fits_segment        BOOLEAN         the free blocks of one segment together can hold the request
-- fits_sum            BOOLEAN         all free blocks together can hold the request
-- frame               VARCHAR         innermost frame of the request outside torch, else the innermost
-- holder_bytes        BIGINT   bytes  bytes held by the stack that held the most
-- holder_frame        VARCHAR         innermost frame of that stack outside torch, else the innermost
-- holder_stack_id     BIGINT          number of that stack; NULL if not known
-- stack               VARCHAR         all frames of the request, joined by `;`, innermost first
WITH failures AS MATERIALIZED (
    SELECT * FROM allocator_events WHERE action = 'oom'
),
holders AS (
    SELECT
        failures.run, failures.rank, failures.allocator_event_id, held.stack_id,
        sum(held.bytes) AS bytes,
        count(*) AS blocks
    FROM failures
    JOIN allocations AS held
        ON failures.run = held.run
        AND failures.rank = held.rank
        AND failures.device_type IS NOT DISTINCT FROM held.device_type
        AND failures.device IS NOT DISTINCT FROM held.device
        AND coalesce(held.alloc_event_id, -1) < failures.allocator_event_id
        AND coalesce(held.free_event_id > failures.allocator_event_id, true)
    GROUP BY ALL
),
sums AS MATERIALIZED (
    SELECT
        run, rank, allocator_event_id,
        sum(bytes) AS held_bytes,
        sum(blocks) AS held_blocks,
        arg_min({'stack_id': stack_id, 'bytes': bytes}, (-bytes, coalesce(stack_id, 1::BIGINT << 62))) AS holder
    FROM holders
    GROUP BY run, rank, allocator_event_id
),
driver AS (
    SELECT
        failures.run, failures.rank, failures.allocator_event_id,
        -sum(CASE WHEN later.action IN ('segment_alloc', 'segment_map') THEN later.bytes ELSE -later.bytes END) AS bytes
    FROM failures
    JOIN allocator_events AS later
        ON failures.run = later.run
        AND failures.rank = later.rank
        AND failures.device_type IS NOT DISTINCT FROM later.device_type
        AND failures.device IS NOT DISTINCT FROM later.device
        AND failures.allocator_event_id < later.allocator_event_id
        AND later.action IN ('segment_alloc', 'segment_map', 'segment_free', 'segment_unmap')
    GROUP BY ALL
),
reserved AS (
    SELECT run, rank, device_type, device, sum(bytes) AS bytes
    FROM segments
    GROUP BY run, rank, device_type, device
),
free AS (
    SELECT
        run, rank, device_type, device,
        coalesce(sum(bytes), 0) AS bytes,
        coalesce(max(largest_bytes), 0) AS largest_bytes,
        coalesce(max(bytes), 0) AS largest_segment_bytes
    FROM (
        SELECT
            run, rank, device_type, device, segment_id,
            sum(bytes) FILTER (state = 'inactive') AS bytes,
            max(bytes) FILTER (state = 'inactive') AS largest_bytes
        FROM blocks
        GROUP BY run, rank, device_type, device, segment_id
    )
    GROUP BY run, rank, device_type, device
),
wanted AS (
    SELECT stacks.*
    FROM stacks
    SEMI JOIN (
        SELECT run, rank, stack_id FROM failures
        UNION ALL
        SELECT run, rank, holder.stack_id FROM sums
    ) AS ids
        ON stacks.run = ids.run AND stacks.rank = ids.rank AND stacks.stack_id = ids.stack_id
),
texts AS MATERIALIZED (
    FROM stack_texts('wanted')
)
SELECT
    failures.run,
    failures.rank,
    failures.device_type,
    failures.device,
    failures.allocator_event_id,
    failures.time_ns,
    failures.bytes AS requested_bytes,
    failures.device_free_bytes,
    CASE WHEN failures.bytes > failures.device_free_bytes THEN failures.bytes - failures.device_free_bytes END AS missing_bytes,
    try_cast(coalesce(sums.held_bytes, 0) AS BIGINT) AS held_bytes,
    try_cast(coalesce(sums.held_blocks, 0) AS BIGINT) AS held_blocks,
    try_cast(reserved.bytes + coalesce(driver.bytes, 0) AS BIGINT) AS reserved_bytes,
    try_cast(free.bytes AS BIGINT) AS inactive_bytes,
    free.largest_bytes AS largest_free_bytes,
    try_cast(free.largest_segment_bytes AS BIGINT) AS segment_free_bytes,
    free.largest_bytes >= failures.bytes AS fits_block,
    free.largest_segment_bytes >= failures.bytes AS fits_segment,
    free.bytes >= failures.bytes AS fits_sum,
    asked.frame,
    try_cast(sums.holder.bytes AS BIGINT) AS holder_bytes,
    holding.frame AS holder_frame,
    sums.holder.stack_id AS holder_stack_id,
    asked.stack
FROM failures
LEFT JOIN sums
    ON failures.run = sums.run AND failures.rank = sums.rank AND failures.allocator_event_id = sums.allocator_event_id
LEFT JOIN reserved
    ON failures.run = reserved.run
    AND failures.rank = reserved.rank
    AND failures.device_type IS NOT DISTINCT FROM reserved.device_type
    AND failures.device IS NOT DISTINCT FROM reserved.device
LEFT JOIN driver
    ON failures.run = driver.run AND failures.rank = driver.rank AND failures.allocator_event_id = driver.allocator_event_id
LEFT JOIN free
    ON failures.run = free.run
    AND failures.rank = free.rank
    AND failures.device_type IS NOT DISTINCT FROM free.device_type
    AND failures.device IS NOT DISTINCT FROM free.device
LEFT JOIN texts AS asked
    ON failures.run = asked.run AND failures.rank = asked.rank AND failures.stack_id = asked.stack_id
LEFT JOIN texts AS holding
    ON failures.run = holding.run AND failures.rank = holding.rank AND sums.holder.stack_id = holding.stack_id
ORDER BY failures.run, failures.rank, failures.allocator_event_id
