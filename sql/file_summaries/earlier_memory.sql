-- earlier_memory: what a memory snapshot holds at the peak that was allocated before its first record.
-- One row per (run, rank, device_type, device).
-- In a bare shell read from `sql/lib` first: snapshots.
-- needs: allocations
-- run         VARCHAR        run that the snapshot belongs to
-- rank        INTEGER        rank within the run
-- device_type VARCHAR        as in allocations
-- device      INTEGER        index of the device; NULL for pinned host memory, or if the source does not say
-- bytes       BIGINT  bytes  held at the peak, and allocated before the first record
SELECT
    a.run, a.rank, a.device_type, a.device,
    coalesce(
        sum(a.bytes) FILTER (
            a.alloc_event_id IS NULL
            AND is_held_at(a.alloc_event_id, coalesce(a.free_requested_event_id, a.free_event_id), peaks.event_id)
        ), 0
    )::BIGINT AS bytes
FROM allocations AS a
JOIN held_peaks(allocations) AS peaks
    ON a.run = peaks.run
    AND a.rank = peaks.rank
    AND a.device_type IS NOT DISTINCT FROM peaks.device_type
    AND a.device IS NOT DISTINCT FROM peaks.device
GROUP BY a.run, a.rank, a.device_type, a.device
ORDER BY a.run, a.rank, a.device_type NULLS LAST, a.device NULLS LAST
