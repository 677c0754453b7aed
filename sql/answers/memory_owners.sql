-- memory_owners: what was allocated at the memory peak, by the op that requested it.
-- One row per (run, rank, device_type, device, origin, op_name), by device, the most bytes first, then by name.
-- The moment is that of memory_peak. Counts what was allocated until then and not freed; blocks are told apart as in memory_peak.
-- origin: op: allocated inside op_name; no_op: in the trace, but outside ops; before_trace: the rest of the allocated memory,
-- which has no record in the trace, if the source gives totals; records without an address or a time are part of that rest.
-- Records come from the profile or, for a rank whose profile has none for a device, from the memory snapshot beside it. The
-- profile takes precedence because its records have a thread, and so an op, and finer times; a snapshot's stacks are in
-- `memory_stacks`.
-- In a bare shell read from `sql/lib` first: memory.
-- needs: events, memory, allocations
-- recorded: memory|allocations
-- no rows: no record of memory has an address
-- divides by: rank
-- main columns: op_name, bytes, share, origin, blocks, device, max_bytes
-- run              VARCHAR         run that the trace belongs to
-- rank             INTEGER         rank within the run
-- device_type      VARCHAR         CPU, CUDA, ...; NULL if the source does not say
-- device           INTEGER         index of the device; NULL for host memory
-- origin           VARCHAR         op, no_op or before_trace
-- op_name          VARCHAR         name of the innermost op around the allocations; NULL if there is none
-- blocks           BIGINT          number of blocks; NULL for before_trace
-- bytes            BIGINT   bytes  their bytes
-- share            DOUBLE   0..1   bytes over all bytes allocated on the device at the peak; NULL if that is 0
-- max_bytes        BIGINT   bytes  the largest block; NULL for before_trace
-- op_id            BIGINT          event_id of the largest block's op, the first on a tie; NULL if there is none
-- source           VARCHAR         profile or snapshot: where the records come from
WITH records AS MATERIALIZED (
    SELECT * FROM records_of_either(memory, allocations, events)
),
peaks AS MATERIALIZED (
    SELECT run, rank, device_type, device, time_ns, allocated_bytes, has_totals, source
    FROM peak_records('records')
    WHERE has_addresses
),
until_peak AS (
    SELECT records.*
    FROM records
    JOIN peaks
        ON records.run = peaks.run
        AND records.rank = peaks.rank
        AND records.device_type IS NOT DISTINCT FROM peaks.device_type
        AND records.device IS NOT DISTINCT FROM peaks.device
        AND records.time_ns <= peaks.time_ns
),
blocks AS (
    SELECT blocks.*, op.name AS op_name, CASE WHEN blocks.op_id IS NULL THEN 'no_op' ELSE 'op' END AS origin
    FROM unfreed_blocks('until_peak') AS blocks
    LEFT JOIN events AS op
        ON blocks.run = op.run AND blocks.rank = op.rank AND blocks.op_id = op.event_id
),
owners AS MATERIALIZED (
    SELECT
        run, rank, device_type, device, origin, op_name,
        count(*) AS blocks,
        sum(bytes) AS bytes,
        max(bytes) AS max_bytes,
        arg_min(op_id, (-bytes, op_id)) AS op_id
    FROM blocks
    GROUP BY ALL
),
owned AS (
    SELECT run, rank, device_type, device, sum(bytes) AS bytes
    FROM owners
    GROUP BY ALL
),
rests AS (
    SELECT
        peaks.run, peaks.rank, peaks.device_type, peaks.device, 'before_trace' AS origin, NULL AS op_name,
        NULL AS blocks,
        peaks.allocated_bytes - coalesce(owned.bytes, 0) AS bytes,
        NULL AS max_bytes,
        NULL AS op_id
    FROM peaks
    LEFT JOIN owned
        ON peaks.run = owned.run
        AND peaks.rank = owned.rank
        AND peaks.device_type IS NOT DISTINCT FROM owned.device_type
        AND peaks.device IS NOT DISTINCT FROM owned.device
    WHERE peaks.has_totals AND peaks.allocated_bytes > coalesce(owned.bytes, 0)
),
together AS (
    FROM owners
    UNION ALL
    FROM rests
)
SELECT
    together.run,
    together.rank,
    together.device_type,
    together.device,
    origin,
    op_name,
    blocks::BIGINT AS blocks,
    try_cast(bytes AS BIGINT) AS bytes,
    bytes / nullif(peaks.allocated_bytes, 0)::DOUBLE AS share,
    max_bytes::BIGINT AS max_bytes,
    op_id::BIGINT AS op_id,
    peaks.source
FROM together
JOIN peaks
    ON together.run = peaks.run
    AND together.rank = peaks.rank
    AND together.device_type IS NOT DISTINCT FROM peaks.device_type
    AND together.device IS NOT DISTINCT FROM peaks.device
ORDER BY together.run, together.rank, together.device_type NULLS LAST, together.device NULLS LAST,
    bytes DESC, origin, op_name NULLS LAST
