-- memory_timeline: allocated and reserved memory of each device over time.
-- One row per allocation or free, by run, rank, device_type, device and time; allocations first within an instant.
-- If a device has more than `points` records, its time is cut into that many equal parts, with one row for each part that has
-- records: the one after which the most was allocated, the earliest on a tie. So the peak of `memory_peak` is always included. If
-- the source gives no totals, they are the sum of bytes since the trace began, with records of one instant taken together.
-- Records without a time are left out.
-- In a bare shell read from `sql/lib` first: memory.
-- needs: events, memory
-- recorded: memory
-- no rows: no record of memory has a time
-- divides by: rank
-- main columns: time_ns, allocated_bytes, bytes, op_name, reserved_bytes, device_type, device
-- parameter points  BIGINT = 1000  maximum rows per device; 0 for every record
-- run              VARCHAR         run that the trace belongs to
-- rank             INTEGER         rank within the run
-- device_type      VARCHAR         CPU, CUDA, ...; NULL if the source does not say
-- device           INTEGER         index of the device; NULL for host memory
-- time_ns          BIGINT   ns     time, on the clock that traces.clock names
-- bytes            BIGINT   bytes  bytes allocated by the record; negative for a free
-- allocated_bytes  BIGINT   bytes  allocated on the device after the record
-- reserved_bytes   BIGINT   bytes  reserved by the allocator after the record; NULL if the source does not say
-- op_id            BIGINT          event_id of the innermost host op around the record; NULL if there is none
-- op_name          VARCHAR         name of that op
WITH records AS MATERIALIZED (
    SELECT * FROM memory_records(memory) WHERE time_ns IS NOT NULL
),
devices AS (
    SELECT
        run, rank, device_type, device,
        count(*) AS records,
        min(time_ns) AS start_ns,
        max(time_ns)::HUGEINT - min(time_ns) + 1 AS span_ns,
        coalesce(getvariable('points'), 1000) AS points
    FROM records
    GROUP BY ALL
    HAVING points > 0 AND records > points
),
placed AS MATERIALIZED (
    SELECT records.*, ((records.time_ns::HUGEINT - devices.start_ns) * devices.points // devices.span_ns)::BIGINT AS part
    FROM records
    LEFT JOIN devices
        ON records.run = devices.run
        AND records.rank = devices.rank
        AND records.device_type IS NOT DISTINCT FROM devices.device_type
        AND records.device IS NOT DISTINCT FROM devices.device
),
parts AS (
    SELECT run, rank, device_type, device, part, max(allocated_bytes) AS peak_bytes
    FROM placed
    WHERE part IS NOT NULL
    GROUP BY ALL
),
kept AS (
    SELECT placed.* FROM placed WHERE part IS NULL
    UNION ALL
    SELECT placed.*
    FROM placed
    JOIN parts
        ON placed.run = parts.run
        AND placed.rank = parts.rank
        AND placed.device_type IS NOT DISTINCT FROM parts.device_type
        AND placed.device IS NOT DISTINCT FROM parts.device
        AND placed.part = parts.part
        AND placed.allocated_bytes IS NOT DISTINCT FROM parts.peak_bytes
    QUALIFY row_number() OVER (
        PARTITION BY placed.run, placed.rank, placed.device_type, placed.device, placed.part
        ORDER BY time_ns, op_id NULLS LAST, address NULLS LAST, bytes NULLS LAST, total_reserved_bytes NULLS LAST
    ) = 1
)
SELECT
    kept.run,
    kept.rank,
    kept.device_type,
    kept.device,
    kept.time_ns,
    kept.bytes,
    kept.allocated_bytes,
    kept.total_reserved_bytes AS reserved_bytes,
    kept.op_id,
    op.name AS op_name
FROM kept
LEFT JOIN events AS op
    ON kept.run = op.run AND kept.rank = op.rank AND kept.op_id = op.event_id
ORDER BY kept.run, kept.rank, kept.device_type NULLS LAST, kept.device NULLS LAST, kept.time_ns, kept.bytes < 0 NULLS LAST,
    sign(kept.bytes)::HUGEINT * kept.allocated_bytes NULLS LAST, kept.bytes, reserved_bytes NULLS LAST, kept.op_id NULLS LAST
