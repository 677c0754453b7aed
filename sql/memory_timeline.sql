-- memory_timeline: allocated and reserved memory of each device over time.
-- One row per allocation or free, by run, rank, device_type, device and time; of one instant the allocations first.
-- A device with more than `points` records has its time cut into that many equal parts, and one row for each part with records:
-- that after which the most was allocated, the earliest on a tie. So the peak of `memory_peak` is always there.
-- Where the source gives no totals they are the sum of bytes since the trace began, records of one instant taken together.
-- Records without a time are left out.
-- In a bare shell read `sql/_memory.sql` first.
-- needs: events, memory
-- parameter points  BIGINT = 1000  most rows of a device; 0 for every record
-- run              VARCHAR         run that the trace belongs to
-- rank             INTEGER         rank within the run
-- device_type      VARCHAR         CPU, CUDA, ...; NULL where the source does not say
-- device           INTEGER         index of the device; NULL for host memory
-- time_ns          BIGINT   ns     when, on the clock that traces.clock names
-- bytes            BIGINT   bytes  allocated by the record; negative for a free
-- allocated_bytes  BIGINT   bytes  allocated on the device after the record
-- reserved_bytes   BIGINT   bytes  reserved by the allocator after the record; NULL where the source does not say
-- op_id            BIGINT          event_id of the innermost host op around the record; NULL where there is none
-- op_name          VARCHAR         name of that op
WITH placed AS (
    SELECT
        *,
        coalesce(getvariable('points'), 1000)::HUGEINT AS points,
        count(*) OVER of_device AS records,
        (time_ns::HUGEINT - min(time_ns) OVER of_device) * points
        // (max(time_ns) OVER of_device - min(time_ns) OVER of_device + 1) AS part
    FROM memory_records(memory)
    WHERE time_ns IS NOT NULL
    WINDOW of_device AS (PARTITION BY run, rank, device_type, device)
),
ranked AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY run, rank, device_type, device, part
            ORDER BY
                allocated_bytes DESC NULLS LAST,
                time_ns,
                op_id NULLS LAST,
                address NULLS LAST,
                bytes NULLS LAST,
                total_reserved_bytes NULLS LAST
        ) AS place
    FROM placed
),
kept AS (
    SELECT * FROM ranked WHERE points <= 0 OR records <= points OR place = 1
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
    sign(kept.bytes) * kept.allocated_bytes NULLS LAST, kept.bytes, reserved_bytes NULLS LAST, kept.op_id NULLS LAST
