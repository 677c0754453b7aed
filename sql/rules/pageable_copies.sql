-- pageable_copies: memory that is not pinned is copied to or from a device.
-- One row per (run, rank, direction).
-- The name of the copy in the trace says so. Such a copy goes through a driver buffer: it is slower, and the host waits for it.
-- The limit of a twentieth of the time leaves out the few bytes of an .item().
-- suggestion: Pin the memory, DataLoader(pin_memory=True) or tensor.pin_memory(), and copy with non_blocking=True.
-- link: https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
-- replay: works, these copies hidden: they take no time
-- claims: exposed
-- only if: EXISTS (SELECT run FROM events JOIN shared_windows USING (run, rank)
-- WHERE kind = 'memcpy' AND dur_ns > 0 AND contains(lower(name), 'pageable') GROUP BY run, rank, window_ns
-- HAVING sum(dur_ns) >= coalesce(getvariable('pageable_copies_share'), 0.05) * window_ns)
-- needs: events
-- parameter pageable_copies_share DOUBLE = 0.05  least share of the time for a finding
WITH copies AS (
    SELECT
        copies.run, copies.rank, copies.event_id, copies.dur_ns, copies.bytes, windows.steps, windows.window_ns,
        CASE
            WHEN is_of_pageable_memory(copies.name) THEN 'to the device'
            ELSE 'from the device'
        END AS direction
    FROM events AS copies
    JOIN shared_windows AS windows ON copies.run = windows.run AND copies.rank = windows.rank
    WHERE
        kind = 'memcpy'
        AND copies.dur_ns > 0
        AND name IN (
            SELECT name
            FROM shared_names
            WHERE kind = 'memcpy' AND (is_of_pageable_memory(name) OR regexp_matches(name, '(?i)device *-> *pageable'))
        )
        AND (windows.steps = 0 OR step IS NOT NULL)
)
SELECT
    run,
    rank,
    severity_of(sum(dur_ns), window_ns) AS severity,
    'Copies of pageable memory ' || direction || ' take ' || claimed_part()
    || coalesce(
        ', ' || bytes_text(sum(bytes)) || ' at ' || format('{:.1f} GB/s', sum(bytes) / sum(dur_ns) FILTER (bytes IS NOT NULL)), ''
    ) AS finding,
    strongest(event_id, dur_ns) AS evidence_events,
    count(*) AS events,
    list(event_id) AS changed_events,
    sum(dur_ns) AS claimed_ns,
    coalesce(getvariable('pageable_copies_share'), 0.05) * window_ns AS least_ns,
    NULL AS estimated_gain_ns,
    'depends on the bus, and on what else could run meanwhile' AS gain_basis,
    NULL AS "where",
    CASE
        WHEN direction = 'from the device'
            THEN 'Copy into pinned memory, torch.empty(..., pin_memory=True).copy_(tensor, non_blocking=True), and synchronize '
            || 'before it is read; or copy less often.'
        WHEN NOT coalesce(bool_or(traits.has_loader), false)
            THEN 'Pin the memory, tensor.pin_memory(), and copy with non_blocking=True.'
        WHEN coalesce(bool_or(traits.is_pinning), false)
            THEN 'Some memory is pinned already: pin what else is copied, tensor.pin_memory(), and copy with non_blocking=True.'
    END AS suggestion
FROM copies
LEFT JOIN (SELECT run, rank, has_loader, is_pinning FROM shared_traits) AS traits USING (run, rank)
GROUP BY run, rank, steps, window_ns, direction
HAVING sum(dur_ns) >= coalesce(getvariable('pageable_copies_share'), 0.05) * window_ns
