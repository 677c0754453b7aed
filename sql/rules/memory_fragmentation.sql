-- memory_fragmentation: torch holds device memory in pieces that are too small.
-- One row per (run, rank, device).
-- Evidence is torch reserving more although as much as is requested is already reserved and free: no free piece is large enough.
-- It is a finding if at the last such moment a fifth of the reserved memory is free, and at least 256 MiB: less is the usual
-- rounding.
-- suggestion: Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and keep shapes the same from step to step.
-- link: https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf
-- only if: EXISTS (SELECT run FROM memory WHERE total_reserved_bytes > 0 GROUP BY run, rank, device_type, device
-- HAVING max(total_reserved_bytes - total_allocated_bytes) >= coalesce(getvariable('memory_fragmentation_bytes'), 268435456)
-- AND min(total_reserved_bytes) < max(total_reserved_bytes))
-- needs: events, memory
-- parameter memory_fragmentation_share DOUBLE = 0.2        least free share of reserved memory for a finding
-- parameter memory_fragmentation_bytes BIGINT = 268435456  least free bytes for a finding
WITH devices AS (
    SELECT run, rank, device_type, device
    FROM memory
    WHERE total_reserved_bytes > 0
    GROUP BY ALL
    HAVING
        max(total_reserved_bytes - total_allocated_bytes) >= coalesce(getvariable('memory_fragmentation_bytes'), 268435456)
        AND min(total_reserved_bytes) < max(total_reserved_bytes)
),
records AS (
    SELECT
        memory.run, memory.rank, memory.device_type, memory.device, time_ns, bytes, op_id,
        total_reserved_bytes AS reserved_bytes,
        lag(total_reserved_bytes) OVER in_order AS reserved_before_bytes,
        lag(total_reserved_bytes - total_allocated_bytes) OVER in_order AS free_before_bytes
    FROM memory
    SEMI JOIN devices
        ON memory.run = devices.run
        AND memory.rank = devices.rank
        AND memory.device_type IS NOT DISTINCT FROM devices.device_type
        AND memory.device IS NOT DISTINCT FROM devices.device
    WHERE total_reserved_bytes IS NOT NULL AND total_allocated_bytes IS NOT NULL
    WINDOW in_order AS (
        PARTITION BY memory.run, memory.rank, memory.device_type, memory.device
        ORDER BY time_ns, total_reserved_bytes, total_allocated_bytes
    )
),
growths AS (
    SELECT
        *,
        arg_max(free_before_bytes, time_ns) OVER of_device AS last_free_bytes,
        arg_max(reserved_before_bytes, time_ns) OVER of_device AS last_reserved_bytes
    FROM records
    WHERE bytes > 0 AND reserved_bytes > reserved_before_bytes AND free_before_bytes >= bytes
    WINDOW of_device AS (PARTITION BY run, rank, device_type, device)
)
SELECT
    run,
    rank,
    CASE WHEN last_free_bytes >= 0.4 * last_reserved_bytes THEN 'medium' ELSE 'low' END AS severity,
    shown(device_type) || coalesce(' ' || device, '') || ' has ' || bytes_text(last_free_bytes) || ' of '
    || bytes_text(last_reserved_bytes) || ' reserved and free (' || percent_text(last_free_bytes / last_reserved_bytes)
    || ') when it reserves more for ' || bytes_text(arg_max(bytes, time_ns)) || ', and '
    || counted(count(*), 'time') || ' in all' AS finding,
    strongest(op_id, free_before_bytes - bytes) AS evidence_events,
    count(op_id) AS events,
    NULL AS estimated_gain_ns,
    'this is memory, not time' AS gain_basis,
    shown(device_type) || coalesce(' ' || device, '') AS "where",
    CASE
        WHEN device_type IS DISTINCT FROM 'CUDA' OR coalesce(bool_or(is_expandable OR is_rocm), false)
            THEN 'Keep shapes the same from step to step, and begin with the largest.'
    END AS suggestion
FROM growths
LEFT JOIN (SELECT run, rank, is_expandable, is_rocm FROM shared_traits) AS traits USING (run, rank)
GROUP BY run, rank, device_type, device, last_free_bytes, last_reserved_bytes
HAVING
    last_free_bytes >= coalesce(getvariable('memory_fragmentation_share'), 0.2) * last_reserved_bytes
    AND last_free_bytes >= coalesce(getvariable('memory_fragmentation_bytes'), 268435456)
