-- memory_stacks: what a memory snapshot holds at the peak and at the end, by stack, module, pool, ...
-- One row per name, per (run, rank, device), by device, the most held at the peak first, then at the end, then by name.
-- The peak is the first moment at which the most was allocated, found by replaying all records. Memory is held until the program
-- frees it; where memory ran out, until it can be used again, which may be later. What is held at the end was never
-- freed; if it was allocated after the first record, it may be a leak. Memory allocated earlier has the stack that the segments
-- give.
-- frame: the innermost frame in a Python file outside torch. module: that of the trace beside the snapshot, else the innermost
-- frame that is the call of an nn.Module. category: as in `allocations`. pool: memory pool. metadata: the text that the program
-- had set, else the one that it gave the tensor last. fx_node: the node of an FX graph. annotation: the innermost user annotation
-- around it, on any thread.
-- Pinned memory of the host is a device of its own.
-- In a bare shell read from `sql/lib` first: stacks, memory, snapshots.
-- needs: allocations, allocator_events, stacks, events
-- recorded: allocations
-- divides by: rank
-- main columns: name, peak_bytes, peak_share, end_bytes, unfreed_bytes, allocations, allocated_bytes, peak_blocks
-- parameter per  VARCHAR(stack|frame|module|category|pool|metadata|fx_node|annotation) = stack  what each row is
-- parameter at   VARCHAR(peak|oom|change) = peak  peak, or the last time that memory ran out; change: from one moment to another
-- parameter top  BIGINT = 100  maximum rows per (run, rank, device); 0 for all
-- run              VARCHAR         run that the snapshot belongs to
-- rank             INTEGER         rank within the run
-- device_type      VARCHAR         CUDA or XPU; PINNED_HOST for pinned memory of the host; NULL if the source does not say
-- device           INTEGER         index of the device; NULL for pinned host memory, or if the source does not say
-- stack_id         BIGINT          number of the stack in stacks, by stack; NULL if none was recorded, or not by stack
-- name             VARCHAR         by stack and frame, the frame, else the group; NULL if there is none
-- peak_ns          BIGINT   ns     time of the peak; NULL if before the first record, or without times
-- peak_bytes       BIGINT   bytes  held at the peak
-- peak_blocks      BIGINT          number of allocations held at the peak
-- peak_share       DOUBLE   0..1   peak_bytes over all bytes allocated at the peak; NULL if that is 0
-- end_bytes        BIGINT   bytes  held at the end: never freed
-- end_blocks       BIGINT          number of allocations held at the end
-- unfreed_bytes    BIGINT   bytes  part of end_bytes that was allocated after the first record
-- unfreed_blocks   BIGINT          number of their allocations
-- allocations      BIGINT          number of all allocations
-- allocated_bytes  BIGINT   bytes  their bytes
-- stack            VARCHAR         by stack: its frames but for those of allocators, joined by `;`, innermost first; else NULL
WITH failures AS (
    SELECT
        run, rank, device_type, device,
        max(allocator_event_id) AS event_id,
        arg_max({'ns': time_ns}, allocator_event_id).ns AS peak_ns
    FROM allocator_events
    WHERE action = 'oom' AND coalesce(getvariable('at'), 'peak') = 'oom'
    GROUP BY run, rank, device_type, device
),
peaks AS MATERIALIZED (
    SELECT run, rank, device_type, device, event_id, peak_ns, held_bytes
    FROM held_peaks(allocations)
    WHERE coalesce(getvariable('at'), 'peak') = 'peak'
    UNION ALL
    SELECT
        a.run, a.rank, a.device_type, a.device,
        any_value(failures.event_id),
        any_value(failures.peak_ns),
        coalesce(sum(a.bytes) FILTER (is_held_at(alloc_event_id, free_event_id, failures.event_id)), 0)
    FROM allocations AS a
    JOIN failures
        ON a.run = failures.run
        AND a.rank = failures.rank
        AND a.device_type IS NOT DISTINCT FROM failures.device_type
        AND a.device IS NOT DISTINCT FROM failures.device
    GROUP BY a.run, a.rank, a.device_type, a.device
),
held AS (
    SELECT
        *,
        CASE coalesce(getvariable('at'), 'peak')
            WHEN 'oom' THEN free_event_id
            ELSE coalesce(free_requested_event_id, free_event_id)
        END AS freed_id,
        coalesce(free_requested_event_id, free_event_id) IS NULL AS is_kept
    FROM named_allocations(allocations, stacks, events, coalesce(getvariable('per'), 'stack'))
),
sums AS (
    SELECT
        a.run, a.rank, a.device_type, a.device, a.group_id, a.group_name,
        any_value(peaks.peak_ns) AS peak_ns,
        any_value(peaks.held_bytes) AS held_bytes,
        coalesce(sum(a.bytes) FILTER (is_held_at(alloc_event_id, freed_id, peaks.event_id)), 0) AS peak_bytes,
        count(*) FILTER (is_held_at(alloc_event_id, freed_id, peaks.event_id)) AS peak_blocks,
        coalesce(sum(a.bytes) FILTER (is_kept), 0) AS end_bytes,
        count(*) FILTER (is_kept) AS end_blocks,
        coalesce(sum(a.bytes) FILTER (is_kept AND alloc_event_id IS NOT NULL), 0) AS unfreed_bytes,
        count(*) FILTER (is_kept AND alloc_event_id IS NOT NULL) AS unfreed_blocks,
        count(*) AS allocations,
        sum(a.bytes) AS allocated_bytes
    FROM held AS a
    JOIN peaks
        ON a.run = peaks.run
        AND a.rank = peaks.rank
        AND a.device_type IS NOT DISTINCT FROM peaks.device_type
        AND a.device IS NOT DISTINCT FROM peaks.device
    GROUP BY a.run, a.rank, a.device_type, a.device, a.group_id, a.group_name
),
rows AS MATERIALIZED (
    SELECT *
    FROM sums
    QUALIFY coalesce(getvariable('top'), 100) <= 0
        OR row_number() OVER (
            PARTITION BY run, rank, device_type, device
            ORDER BY peak_bytes DESC, end_bytes DESC, group_id NULLS LAST, group_name NULLS LAST
        ) <= coalesce(getvariable('top'), 100)
),
wanted AS (
    SELECT stacks.*
    FROM stacks
    SEMI JOIN rows
        ON stacks.run = rows.run AND stacks.rank = rows.rank AND stacks.stack_id = rows.group_id
)
SELECT
    rows.run,
    rows.rank,
    rows.device_type,
    rows.device,
    rows.group_id AS stack_id,
    coalesce(rows.group_name, texts.frame) AS name,
    rows.peak_ns,
    try_cast(rows.peak_bytes AS BIGINT) AS peak_bytes,
    rows.peak_blocks,
    rows.peak_bytes / nullif(rows.held_bytes, 0)::DOUBLE AS peak_share,
    try_cast(rows.end_bytes AS BIGINT) AS end_bytes,
    rows.end_blocks,
    try_cast(rows.unfreed_bytes AS BIGINT) AS unfreed_bytes,
    rows.unfreed_blocks,
    rows.allocations,
    try_cast(rows.allocated_bytes AS BIGINT) AS allocated_bytes,
    texts.stack
FROM rows
LEFT JOIN stack_texts('wanted') AS texts
    ON rows.run = texts.run AND rows.rank = texts.rank AND rows.group_id = texts.stack_id
ORDER BY rows.run, rows.rank, rows.device NULLS LAST, rows.device_type NULLS LAST, rows.peak_bytes DESC, rows.end_bytes DESC,
    rows.group_id NULLS LAST, rows.group_name NULLS LAST
