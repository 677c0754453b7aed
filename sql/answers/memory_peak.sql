-- memory_peak: when the most memory was allocated on each device, by which op, and what was never freed.
-- One row per (run, rank, device_type, device), in this order; on a tie the earliest record.
-- If the source gives no totals, they are the sum of bytes since the trace began, with records of one instant taken together.
-- With per=block, the blocks that were never freed. A `ProfilerStep#N` counts as an annotation. Records come from the profile or,
-- for a rank whose profile has none for a device, from the memory snapshot beside it, in which an allocation counts until its
-- memory can be used again.
-- In a bare shell read from `sql/lib` first: frames, memory.
-- needs: events, memory, allocations
-- recorded: memory|allocations
-- no rows: no record of memory has a time
-- divides by: rank
-- main columns: allocated_bytes, before_trace_bytes, reserved_bytes, op_name, module_name, time_ns, unfreed_bytes, device_type
-- main columns: device, line_name, annotation_name, unfreed_blocks, source
-- parameter per  VARCHAR(device|block) = device  what each row is; block: one that was never freed
-- run              VARCHAR         run that the trace belongs to
-- rank             INTEGER         rank within the run
-- device_type      VARCHAR         CPU, CUDA, ...; NULL if the source does not say
-- device           INTEGER         index of the device; NULL for host memory
-- allocated_bytes  BIGINT   bytes  allocated after the record
-- before_trace_bytes  BIGINT  bytes  part of it from before the trace, as in `memory_owners`; NULL if not known
-- reserved_bytes   BIGINT   bytes  reserved by the allocator after the record; NULL if the source does not say
-- time_ns          BIGINT   ns     time of the peak, on the clock that traces.clock names
-- op_id            BIGINT          event_id of the innermost host op around the record; NULL if there is none
-- op_name          VARCHAR         name of that op
-- module_name      VARCHAR         nn.Module around that op or its forward op, or the path of it; NULL if none is known
-- line_name        VARCHAR         innermost line of code around that op, also of a library; NULL if none is recorded
-- annotation_id    BIGINT          event_id of the innermost user annotation around it, on its thread or else any; NULL if none
-- annotation_name  VARCHAR         name of that annotation
-- unfreed_blocks   BIGINT          blocks allocated and never freed in the trace; NULL if no address is known
-- unfreed_bytes    BIGINT   bytes  their bytes
-- has_totals       BOOLEAN         whether the source gives totals; if not, they are counted from the start of the trace
-- source           VARCHAR         profile or snapshot: where the records come from
WITH records AS MATERIALIZED (
    SELECT * FROM records_of_either(memory, allocations, events)
),
unfreed AS (
    SELECT run, rank, device_type, device, count(*) AS blocks, sum(bytes) AS bytes
    FROM unfreed_blocks('records')
    GROUP BY ALL
),
peaks AS MATERIALIZED (
    FROM peak_records('records')
),
held AS (
    FROM blocks_until('records', 'peaks')
)
SELECT
    peaks.run,
    peaks.rank,
    peaks.device_type,
    peaks.device,
    peaks.allocated_bytes,
    earlier.before_trace_bytes,
    peaks.total_reserved_bytes AS reserved_bytes,
    CASE WHEN source = 'snapshot' THEN peaks.time_ns - peaks.time_ns % 1000 ELSE peaks.time_ns END AS time_ns,
    peaks.op_id,
    op.name AS op_name,
    modules.module_name,
    line_of(op.python_stack, 'all') AS line_name,
    around.annotation_id,
    around.annotation_name,
    CASE WHEN peaks.has_addresses THEN coalesce(unfreed.blocks, 0) END AS unfreed_blocks,
    CASE WHEN peaks.has_addresses THEN try_cast(coalesce(unfreed.bytes, 0) AS BIGINT) END AS unfreed_bytes,
    peaks.has_totals,
    peaks.source
FROM peaks
LEFT JOIN events AS op
    ON peaks.run = op.run AND peaks.rank = op.rank AND peaks.op_id = op.event_id
LEFT JOIN modules_around('peaks', 'events') AS modules
    ON peaks.run = modules.run AND peaks.rank = modules.rank AND peaks.op_id = modules.op_id
LEFT JOIN annotations_around('peaks', 'events') AS around
    ON peaks.run = around.run AND peaks.rank = around.rank AND peaks.thread = around.thread AND peaks.time_ns = around.time_ns
LEFT JOIN before_trace_bytes('peaks', 'held') AS earlier
    ON peaks.run = earlier.run
    AND peaks.rank = earlier.rank
    AND peaks.device_type IS NOT DISTINCT FROM earlier.device_type
    AND peaks.device IS NOT DISTINCT FROM earlier.device
LEFT JOIN unfreed
    ON peaks.run = unfreed.run
    AND peaks.rank = unfreed.rank
    AND peaks.device_type IS NOT DISTINCT FROM unfreed.device_type
    AND peaks.device IS NOT DISTINCT FROM unfreed.device
ORDER BY peaks.run, peaks.rank, peaks.device_type NULLS LAST, peaks.device NULLS LAST
