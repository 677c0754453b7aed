-- Memory snapshots.

-- held_memory: after each record that makes or frees an allocation, how much is allocated on its device.
-- parameter allocations TABLE  `allocations`, or all of a device's
-- column run, rank, device  as in allocations
-- column event_id BIGINT  `allocator_event_id` of the record; -1 for what was there before the first one
-- column time_ns BIGINT  when; NULL where the source has no times
-- column held_bytes BIGINT  allocated after it
-- example: FROM held_memory(allocations)
CREATE OR REPLACE TEMP MACRO held_memory(allocations) AS TABLE
WITH changes AS (
    SELECT run, rank, device, coalesce(alloc_event_id, -1) AS event_id, alloc_ns AS time_ns, bytes
    FROM query_table(allocations)
    UNION ALL
    SELECT run, rank, device, free_event_id, free_ns, -bytes
    FROM query_table(allocations)
    WHERE free_event_id IS NOT NULL
),
records AS (
    SELECT run, rank, device, event_id, max(time_ns) AS time_ns, sum(bytes) AS bytes
    FROM changes
    GROUP BY run, rank, device, event_id
)
SELECT
    run, rank, device, event_id, time_ns,
    try_cast(sum(bytes) OVER (
        PARTITION BY run, rank, device ORDER BY event_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS BIGINT) AS held_bytes
FROM records;
