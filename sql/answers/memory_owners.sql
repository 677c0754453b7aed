-- memory_owners: what was allocated at the memory peak, or is never freed, by op, module, line or step.
-- One row per (run, rank, device_type, device, origin, name), by device, the most bytes first, then by origin and name.
-- The peak is that of memory_peak. Counts what was allocated until then and not freed; blocks are told apart as in memory_peak.
-- With at=end, what is left after the last record: what the trace never frees. If its `steps` are all steps, it may pile up.
-- origin: op: allocated inside an op; no_op: in the trace, but outside ops; before_trace: the rest of the allocated memory, which
-- has no record in the trace, if the source gives totals: usually weights and optimizer state, allocated before recording began,
-- so that its owner cannot be known; records without an address or a time are part of that rest.
-- Module, line, annotation and step are those around the op, of a backward op the module around its forward op; a line is the
-- innermost one of the user's own code, and a `ProfilerStep#N` counts as an annotation.
-- Records come from the profile or, for a rank whose profile has none for a device, from the memory snapshot beside it. The
-- profile takes precedence because its records have a thread, and so an op, and finer times; a snapshot's stacks are in
-- `memory_stacks`.
-- In a bare shell read from `sql/lib` first: frames, memory.
-- needs: events, memory, allocations
-- recorded: memory|allocations
-- no rows: no record of memory has an address
-- divides by: rank
-- main columns: name, bytes, share, origin, blocks, device, steps, max_bytes
-- tables by: bytes
-- parameter per  VARCHAR(op|module|line|annotation|step) = op  what each row is
-- parameter at   VARCHAR(peak|end) = peak  the moment: the peak, or the end of the trace, for what is never freed
-- run              VARCHAR         run that the trace belongs to
-- rank             INTEGER         rank within the run
-- device_type      VARCHAR         CPU, CUDA, ...; NULL if the source does not say
-- device           INTEGER         index of the device; NULL for host memory
-- origin           VARCHAR         op, no_op or before_trace
-- name             VARCHAR         op, module, line, annotation or step around the allocations; NULL if there is none
-- blocks           BIGINT          number of blocks; NULL for before_trace
-- bytes            BIGINT   bytes  their bytes
-- share            DOUBLE   0..1   bytes over all bytes allocated on the device at that moment; NULL if that is 0
-- max_bytes        BIGINT   bytes  the largest block; NULL for before_trace
-- steps            BIGINT          profiler steps in which they were allocated; NULL if none is known
-- op_id            BIGINT          event_id of the largest block's op, the first on a tie; NULL if there is none
-- source           VARCHAR         profile or snapshot: where the records come from
WITH records AS MATERIALIZED (
    SELECT * FROM records_of_either(memory, allocations, events)
),
moments AS MATERIALIZED (
    SELECT run, rank, device_type, device, time_ns, allocated_bytes, has_addresses, has_totals, source
    FROM peak_records('records')
    WHERE has_addresses AND coalesce(getvariable('at'), 'peak') = 'peak'
    UNION ALL
    SELECT run, rank, device_type, device, time_ns, allocated_bytes, has_addresses, has_totals, source
    FROM end_records('records')
    WHERE has_addresses AND coalesce(getvariable('at'), 'peak') = 'end'
),
held AS MATERIALIZED (
    FROM blocks_until('records', 'moments')
),
modules AS (
    FROM modules_around('held', 'events')
    WHERE coalesce(getvariable('per'), 'op') = 'module'
),
moments_of_annotations AS (
    FROM held
    WHERE coalesce(getvariable('per'), 'op') = 'annotation'
),
blocks AS (
    SELECT
        held.*, op.step,
        CASE WHEN held.op_id IS NULL THEN 'no_op' ELSE 'op' END AS origin,
        CASE coalesce(getvariable('per'), 'op')
            WHEN 'op' THEN op.name
            WHEN 'module' THEN modules.module_name
            WHEN 'line' THEN line_of(op.python_stack, 'none')
            WHEN 'annotation' THEN around.annotation_name
            ELSE op.step::VARCHAR
        END AS name
    FROM held
    LEFT JOIN events AS op
        ON held.run = op.run AND held.rank = op.rank AND held.op_id = op.event_id
    LEFT JOIN modules
        ON held.run = modules.run AND held.rank = modules.rank AND held.op_id = modules.op_id
    LEFT JOIN annotations_around('moments_of_annotations', 'events') AS around
        ON held.run = around.run AND held.rank = around.rank AND held.thread = around.thread AND held.time_ns = around.time_ns
),
owners AS MATERIALIZED (
    SELECT
        run, rank, device_type, device, origin, name,
        count(*) AS blocks,
        sum(bytes) AS bytes,
        max(bytes) AS max_bytes,
        count(DISTINCT step) AS steps,
        arg_min(op_id, (-bytes, op_id)) AS op_id
    FROM blocks
    GROUP BY ALL
),
together AS (
    FROM owners
    UNION ALL BY NAME
    SELECT run, rank, device_type, device, 'before_trace' AS origin, before_trace_bytes AS bytes
    FROM before_trace_bytes('moments', 'held')
    WHERE before_trace_bytes > 0
)
SELECT
    together.run,
    together.rank,
    together.device_type,
    together.device,
    origin,
    name,
    blocks::BIGINT AS blocks,
    try_cast(bytes AS BIGINT) AS bytes,
    bytes / nullif(moments.allocated_bytes, 0)::DOUBLE AS share,
    max_bytes::BIGINT AS max_bytes,
    nullif(steps, 0)::BIGINT AS steps,
    op_id::BIGINT AS op_id,
    moments.source
FROM together
JOIN moments
    ON together.run = moments.run
    AND together.rank = moments.rank
    AND together.device_type IS NOT DISTINCT FROM moments.device_type
    AND together.device IS NOT DISTINCT FROM moments.device
ORDER BY together.run, together.rank, together.device_type NULLS LAST, together.device NULLS LAST,
    bytes DESC, origin, name NULLS LAST
