-- memory_peak: the moment when the most memory was allocated, and the op that asked for it.
-- One row per (run, rank, device_type, device), in this order; on a tie the earliest record.
-- Where the source gives no totals they are the sum of bytes since the trace began, records of one instant taken together.
-- needs: events, memory
-- run              VARCHAR         run that the trace belongs to
-- rank             INTEGER         rank within the run
-- device_type      VARCHAR         CPU, CUDA, ...; NULL where the source does not say
-- device           INTEGER         index of the device; NULL for host memory
-- allocated_bytes  BIGINT   bytes  allocated after the record
-- reserved_bytes   BIGINT   bytes  reserved by the allocator after the record; NULL where the source does not say
-- time_ns          BIGINT   ns     when, on the clock that traces.clock names
-- op_id            BIGINT          event_id of the innermost host op around the record; NULL where there is none
-- op_name          VARCHAR         name of that op
WITH records AS (
    SELECT
        *,
        sum(bytes) OVER (
            PARTITION BY run, rank, device_type, device
            ORDER BY time_ns NULLS LAST
            RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS since_start_bytes
    FROM memory
),
peaks AS (
    SELECT *
    FROM records
    QUALIFY row_number() OVER (
        PARTITION BY run, rank, device_type, device
        ORDER BY
            total_allocated_bytes DESC NULLS LAST,
            CASE WHEN total_allocated_bytes IS NULL THEN since_start_bytes END DESC NULLS LAST,
            time_ns NULLS LAST,
            op_id NULLS LAST,
            address NULLS LAST,
            bytes NULLS LAST,
            total_reserved_bytes NULLS LAST
    ) = 1
)
SELECT
    peaks.run,
    peaks.rank,
    peaks.device_type,
    peaks.device,
    coalesce(peaks.total_allocated_bytes, try_cast(peaks.since_start_bytes AS BIGINT)) AS allocated_bytes,
    peaks.total_reserved_bytes AS reserved_bytes,
    peaks.time_ns,
    peaks.op_id,
    op.name AS op_name
FROM peaks
LEFT JOIN events AS op
    ON peaks.run = op.run AND peaks.rank = op.rank AND peaks.op_id = op.event_id
ORDER BY peaks.run, peaks.rank, peaks.device_type NULLS LAST, peaks.device NULLS LAST
