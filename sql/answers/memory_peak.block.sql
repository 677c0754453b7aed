-- memory_peak(per=block): the largest blocks that were allocated in the trace and never freed, and the op of each.
-- One row per block, per (run, rank, device_type, device), the largest first, then by run, rank, time, device and address.
-- A block is what was allocated last at its address. Frees of memory allocated before the trace began do not count; a free in the
-- instant of an allocation belongs to that block, unless the address was allocated already. Records without an address are left
-- out. What is alive at the end of a trace need not be a leak: it includes parameters, optimizer states and caches. A
-- `ProfilerStep#N` counts as an annotation. Records come from the profile or, for a rank whose profile has none for a device,
-- from the memory snapshot beside it; by op or module they are in `memory_owners` with at=end.
-- In a bare shell read from `sql/lib` first: memory.
-- needs: events, memory, allocations
-- recorded: memory|allocations
-- no rows: all memory that was allocated in the trace was freed
-- divides by: rank
-- main columns: op_name, bytes, time_ns, step, annotation_name, device_type, device
-- parameter top  BIGINT = 100  maximum rows per (run, rank); 0 for all
-- run              VARCHAR         run that the trace belongs to
-- rank             INTEGER         rank within the run
-- device_type      VARCHAR         CPU, CUDA, ...; NULL if the source does not say
-- device           INTEGER         index of the device; NULL for host memory
-- address          BIGINT          address of the block
-- bytes            BIGINT   bytes  size of the block
-- time_ns          BIGINT   ns     time of the allocation, on the clock that traces.clock names
-- op_id            BIGINT          event_id of the innermost host op around the allocation; NULL if there is none
-- op_name          VARCHAR         name of that op
-- step             BIGINT          profiler step of that op; NULL outside steps
-- annotation_id    BIGINT          event_id of the innermost user annotation around it, on its thread or else any; NULL if none
-- annotation_name  VARCHAR         name of that annotation
WITH records AS MATERIALIZED (
    SELECT * FROM records_of_either(memory, allocations, events)
),
blocks AS MATERIALIZED (
    SELECT *
    FROM unfreed_blocks('records')
    QUALIFY coalesce(getvariable('top'), 100) <= 0
        OR row_number() OVER (
            PARTITION BY run, rank
            ORDER BY bytes DESC, time_ns, device_type NULLS LAST, device NULLS LAST, address
        ) <= coalesce(getvariable('top'), 100)
)
SELECT
    blocks.run,
    blocks.rank,
    blocks.device_type,
    blocks.device,
    blocks.address,
    blocks.bytes,
    blocks.time_ns,
    blocks.op_id,
    op.name AS op_name,
    op.step,
    around.annotation_id,
    around.annotation_name
FROM blocks
LEFT JOIN events AS op
    ON blocks.run = op.run AND blocks.rank = op.rank AND blocks.op_id = op.event_id
LEFT JOIN annotations_around('blocks', 'events') AS around
    ON blocks.run = around.run AND blocks.rank = around.rank AND blocks.thread = around.thread AND blocks.time_ns = around.time_ns
ORDER BY blocks.bytes DESC, blocks.run, blocks.rank, blocks.time_ns,
    blocks.device_type NULLS LAST, blocks.device NULLS LAST, blocks.address
