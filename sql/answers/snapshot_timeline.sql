-- snapshot_timeline: memory of a snapshot over time: allocated, active and reserved bytes, or what held them.
-- One row per moment, per (run, rank, device), by device and moment, and within it per name, the largest at the peak first.
-- A moment follows a record. If a device has more than `points` moments, its records are cut into equal parts by time (without
-- times, by number). Each part keeps the moments at which the most was allocated, active and reserved, the earliest on a tie, and
-- its first and last, so every peak is kept. By name: the `top` names that hold the most when the most is allocated on the
-- device, and the rest.
-- Allocated is what the program has not freed; active also includes what waits for a stream before it is free.
-- In a bare shell read from `sql/lib` first: stacks, memory, snapshots.
-- needs: allocations, allocator_events, segments, stacks, events
-- recorded: snapshots
-- divides by: rank
-- main columns: time_ns, allocated_bytes, name, active_bytes, reserved_bytes, device
-- parameter per     VARCHAR(device|stack|frame|module|category|pool|metadata|fx_node|annotation) = device  what each row is
-- parameter points  BIGINT = 1000  maximum moments per device, from 5; 0 for all
-- parameter top     BIGINT = 10    maximum names per device; 0 for all
-- run              VARCHAR         run that the snapshot belongs to
-- rank             INTEGER         rank within the run
-- device_type      VARCHAR         CUDA or XPU; PINNED_HOST for pinned memory of the host; NULL if the source does not say
-- device           INTEGER         index of the device; NULL for pinned host memory, or if the source does not say
-- event_id         BIGINT          `allocator_event_id` of the record; -1 before the first one
-- time_ns          BIGINT   ns     time, on the clock that traces.clock names; NULL without times, or before the first record
-- stack_id         BIGINT          number of the stack in stacks, by stack; NULL if none was recorded, or not by stack
-- name             VARCHAR         by stack and frame, the frame, else the group; NULL if there is none, and by device
-- is_rest          BOOLEAN         whether the row stands for all names without their own rows
-- allocated_bytes  BIGINT   bytes  bytes not freed by the program after the record
-- active_bytes     BIGINT   bytes  bytes of blocks in use after the record
-- reserved_bytes   BIGINT   bytes  bytes that the allocator holds from the driver, by device; NULL if the source does not say
WITH held AS MATERIALIZED (
    FROM named_allocations(allocations, stacks, events, coalesce(getvariable('per'), 'device'))
),
driver AS (
    SELECT
        run, rank, device_type, device, allocator_event_id AS event_id, time_ns,
        CASE WHEN action IN ('segment_alloc', 'segment_map') THEN bytes ELSE -bytes END AS bytes
    FROM allocator_events
    WHERE action IN ('segment_alloc', 'segment_map', 'segment_free', 'segment_unmap')
),
at_end AS (
    SELECT run, rank, device_type, device, sum(bytes) AS bytes
    FROM (
        SELECT run, rank, device_type, device, bytes FROM segments
        UNION ALL
        SELECT run, rank, device_type, device, -bytes FROM driver
    )
    GROUP BY run, rank, device_type, device
),
changes AS (
    SELECT
        run, rank, device_type, device, coalesce(alloc_event_id, -1) AS event_id, alloc_ns AS time_ns,
        bytes AS allocated, bytes AS active, NULL::BIGINT AS reserved
    FROM held
    UNION ALL
    SELECT run, rank, device_type, device, free_event_id, free_ns, 0, -bytes, NULL FROM held WHERE free_event_id IS NOT NULL
    UNION ALL
    SELECT
        run, rank, device_type, device,
        coalesce(free_requested_event_id, free_event_id), coalesce(free_requested_ns, free_ns), -bytes, 0, NULL
    FROM held
    WHERE coalesce(free_requested_event_id, free_event_id) IS NOT NULL
    UNION ALL
    SELECT run, rank, device_type, device, -1, NULL, 0, 0, bytes FROM at_end
    UNION ALL
    SELECT run, rank, device_type, device, event_id, time_ns, 0, 0, bytes FROM driver
),
records AS (
    SELECT
        run, rank, device_type, device, event_id,
        max(time_ns) AS time_ns,
        sum(allocated) AS allocated,
        sum(active) AS active,
        sum(reserved) AS reserved
    FROM changes
    GROUP BY run, rank, device_type, device, event_id
),
devices AS MATERIALIZED (
    SELECT
        run, rank, device_type, device,
        min(event_id) AS first_id,
        max(event_id) AS last_id,
        min(time_ns) AS start_ns,
        max(time_ns) AS end_ns,
        count(*) AS number_of_moments,
        coalesce(getvariable('points'), 1000) <= 0 OR number_of_moments <= coalesce(getvariable('points'), 1000) AS is_whole,
        greatest((coalesce(getvariable('points'), 1000) - 2) // 3, 1) AS number_of_parts
    FROM records
    GROUP BY run, rank, device_type, device
),
moments AS MATERIALIZED (
    SELECT
        run, rank, device_type, device, event_id, time_ns,
        sum(allocated) OVER so_far AS allocated,
        sum(active) OVER so_far AS active,
        sum(reserved) OVER so_far AS reserved
    FROM records
    WINDOW so_far AS (
        PARTITION BY run, rank, device_type, device
        ORDER BY event_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
),
parts AS MATERIALIZED (
    SELECT
        moments.*,
        CASE
            WHEN end_ns > start_ns THEN
                number_of_parts * (coalesce(time_ns, start_ns)::HUGEINT - start_ns) // (end_ns::HUGEINT - start_ns + 1)
            ELSE number_of_parts * (event_id::HUGEINT - first_id) // (last_id::HUGEINT - first_id + 1)
        END AS part
    FROM moments
    JOIN devices
        ON moments.run = devices.run
        AND moments.rank = devices.rank
        AND moments.device_type IS NOT DISTINCT FROM devices.device_type
        AND moments.device IS NOT DISTINCT FROM devices.device
    WHERE NOT is_whole
),
tops AS (
    SELECT run, rank, device_type, device, part, max(active) AS active, max(allocated) AS allocated, max(reserved) AS reserved
    FROM parts
    GROUP BY run, rank, device_type, device, part
),
firsts AS (
    SELECT
        parts.run, parts.rank, parts.device_type, parts.device,
        unnest([
            min(event_id) FILTER (parts.active = tops.active),
            min(event_id) FILTER (parts.allocated = tops.allocated),
            min(event_id) FILTER (parts.reserved = tops.reserved)
        ]) AS event_id
    FROM parts
    JOIN tops
        ON parts.run = tops.run
        AND parts.rank = tops.rank
        AND parts.device_type IS NOT DISTINCT FROM tops.device_type
        AND parts.device IS NOT DISTINCT FROM tops.device
        AND parts.part = tops.part
    GROUP BY parts.run, parts.rank, parts.device_type, parts.device, parts.part
),
wanted_moments AS (
    SELECT run, rank, device_type, device, event_id FROM firsts
    UNION ALL
    SELECT run, rank, device_type, device, unnest([first_id, last_id]) FROM devices WHERE NOT is_whole
    UNION ALL
    SELECT moments.run, moments.rank, moments.device_type, moments.device, event_id
    FROM moments
    JOIN devices
        ON moments.run = devices.run
        AND moments.rank = devices.rank
        AND moments.device_type IS NOT DISTINCT FROM devices.device_type
        AND moments.device IS NOT DISTINCT FROM devices.device
    WHERE is_whole
),
kept AS MATERIALIZED (
    SELECT
        moments.*,
        coalesce(
            lag(event_id) OVER (PARTITION BY run, rank, device_type, device ORDER BY event_id), event_id - 1
        ) AS before_id
    FROM moments
    SEMI JOIN wanted_moments AS ids
        ON moments.run = ids.run
        AND moments.rank = ids.rank
        AND moments.device_type IS NOT DISTINCT FROM ids.device_type
        AND moments.device IS NOT DISTINCT FROM ids.device
        AND moments.event_id = ids.event_id
),
moment_of AS (
    SELECT run, rank, device_type, device, event_id AS kept_id, unnest(range(before_id + 1, event_id + 1)) AS event_id
    FROM kept
    WHERE coalesce(getvariable('per'), 'device') <> 'device'
),
peaks AS (
    SELECT run, rank, device_type, device, arg_min(event_id, (-allocated, event_id)) AS event_id
    FROM moments
    GROUP BY run, rank, device_type, device
),
names AS MATERIALIZED (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY run, rank, device_type, device
            ORDER BY peak_bytes DESC, allocated_bytes DESC, group_id NULLS LAST, group_name NULLS LAST
        ) AS place,
        CASE
            WHEN coalesce(getvariable('top'), 10) <= 0 THEN place
            ELSE least(place, coalesce(getvariable('top'), 10) + 1)
        END AS shown_place
    FROM (
        SELECT
            held.run, held.rank, held.device_type, held.device, group_id, group_name,
            coalesce(sum(bytes) FILTER (
                is_held_at(alloc_event_id, coalesce(free_requested_event_id, free_event_id), peaks.event_id)
            ), 0) AS peak_bytes,
            sum(bytes) AS allocated_bytes
        FROM held
        JOIN peaks
            ON held.run = peaks.run
            AND held.rank = peaks.rank
            AND held.device_type IS NOT DISTINCT FROM peaks.device_type
            AND held.device IS NOT DISTINCT FROM peaks.device
        WHERE coalesce(getvariable('per'), 'device') <> 'device'
        GROUP BY ALL
    )
),
shown AS MATERIALIZED (
    SELECT
        run, rank, device_type, device,
        shown_place AS place,
        count(*) AS number_of_names,
        any_value(group_id) AS group_id,
        any_value(group_name) AS group_name
    FROM names
    GROUP BY ALL
),
steps AS (
    SELECT
        run, rank, device_type, device, group_id, group_name,
        coalesce(alloc_event_id, -1) AS event_id,
        bytes AS allocated,
        bytes AS active
    FROM held
    UNION ALL
    SELECT run, rank, device_type, device, group_id, group_name, free_event_id, 0, -bytes
    FROM held
    WHERE free_event_id IS NOT NULL
    UNION ALL
    SELECT run, rank, device_type, device, group_id, group_name, coalesce(free_requested_event_id, free_event_id), -bytes, 0
    FROM held
    WHERE coalesce(free_requested_event_id, free_event_id) IS NOT NULL
),
sums AS (
    SELECT
        steps.run, steps.rank, steps.device_type, steps.device,
        moment_of.kept_id AS event_id,
        names.shown_place AS place,
        sum(steps.allocated) AS allocated,
        sum(steps.active) AS active
    FROM steps
    JOIN moment_of
        ON steps.run = moment_of.run
        AND steps.rank = moment_of.rank
        AND steps.device_type IS NOT DISTINCT FROM moment_of.device_type
        AND steps.device IS NOT DISTINCT FROM moment_of.device
        AND steps.event_id = moment_of.event_id
    JOIN names
        ON steps.run = names.run
        AND steps.rank = names.rank
        AND steps.device_type IS NOT DISTINCT FROM names.device_type
        AND steps.device IS NOT DISTINCT FROM names.device
        AND steps.group_id IS NOT DISTINCT FROM names.group_id
        AND steps.group_name IS NOT DISTINCT FROM names.group_name
    GROUP BY ALL
),
series AS (
    SELECT
        kept.run, kept.rank, kept.device_type, kept.device, kept.event_id, kept.time_ns,
        shown.place, shown.group_id, shown.group_name,
        shown.number_of_names > 1 AS is_rest,
        sum(coalesce(sums.allocated, 0)) OVER so_far AS allocated,
        sum(coalesce(sums.active, 0)) OVER so_far AS active,
        NULL::HUGEINT AS reserved
    FROM kept
    JOIN shown
        ON kept.run = shown.run
        AND kept.rank = shown.rank
        AND kept.device_type IS NOT DISTINCT FROM shown.device_type
        AND kept.device IS NOT DISTINCT FROM shown.device
    LEFT JOIN sums
        ON kept.run = sums.run
        AND kept.rank = sums.rank
        AND kept.device_type IS NOT DISTINCT FROM sums.device_type
        AND kept.device IS NOT DISTINCT FROM sums.device
        AND kept.event_id = sums.event_id
        AND shown.place = sums.place
    WINDOW so_far AS (
        PARTITION BY kept.run, kept.rank, kept.device_type, kept.device, shown.place
        ORDER BY kept.event_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
    UNION ALL
    SELECT run, rank, device_type, device, event_id, time_ns, 0, NULL, NULL, false, allocated, active, reserved
    FROM kept
    WHERE coalesce(getvariable('per'), 'device') = 'device'
),
wanted AS (
    SELECT stacks.*
    FROM stacks
    SEMI JOIN shown
        ON stacks.run = shown.run AND stacks.rank = shown.rank AND stacks.stack_id = shown.group_id
)
SELECT
    series.run,
    series.rank,
    series.device_type,
    series.device,
    series.event_id,
    series.time_ns,
    CASE WHEN NOT series.is_rest THEN series.group_id END AS stack_id,
    CASE WHEN NOT series.is_rest THEN coalesce(series.group_name, places.frame) END AS name,
    series.is_rest,
    try_cast(series.allocated AS BIGINT) AS allocated_bytes,
    try_cast(series.active AS BIGINT) AS active_bytes,
    try_cast(series.reserved AS BIGINT) AS reserved_bytes
FROM series
LEFT JOIN stack_places('wanted') AS places
    ON series.run = places.run AND series.rank = places.rank AND series.group_id = places.stack_id
ORDER BY series.run, series.rank, series.device NULLS LAST, series.device_type NULLS LAST, series.event_id, series.place
