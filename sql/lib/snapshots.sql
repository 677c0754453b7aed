-- Memory snapshots.

-- held_memory: how much is allocated on the device after each record that makes or frees an allocation: until the program frees
-- it, although the memory may be used again only when other streams are done with it.
-- parameter allocations TABLE  `allocations`, or all of a device's
-- column run, rank, device_type, device  as in allocations
-- column event_id BIGINT  `allocator_event_id` of the record; -1 for memory from before the first record
-- column time_ns BIGINT  time; NULL if the source has no times
-- column held_bytes BIGINT  bytes allocated after it
-- example: FROM held_memory(allocations)
CREATE OR REPLACE TEMP MACRO held_memory(allocations) AS TABLE
WITH changes AS (
    SELECT run, rank, device_type, device, coalesce(alloc_event_id, -1) AS event_id, alloc_ns AS time_ns, bytes
    FROM query_table(allocations)
    UNION ALL
    SELECT
        run, rank, device_type, device, coalesce(free_requested_event_id, free_event_id),
        coalesce(free_requested_ns, free_ns), -bytes
    FROM query_table(allocations)
    WHERE coalesce(free_requested_event_id, free_event_id) IS NOT NULL
),
records AS (
    SELECT run, rank, device_type, device, event_id, max(time_ns) AS time_ns, sum(bytes) AS bytes
    FROM changes
    GROUP BY run, rank, device_type, device, event_id
)
SELECT
    run, rank, device_type, device, event_id, time_ns,
    try_cast(sum(bytes) OVER (
        PARTITION BY run, rank, device_type, device ORDER BY event_id ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS BIGINT) AS held_bytes
FROM records;

-- held_peaks: the first moment when the most was allocated on each device.
-- parameter allocations TABLE  `allocations`
-- column run, rank, device_type, device  as in allocations
-- column event_id BIGINT  `allocator_event_id` of the record before it; -1 before the first record
-- column peak_ns BIGINT  time; NULL if the source has no times, or before the first record
-- column held_bytes BIGINT  bytes allocated then
-- example: FROM held_peaks(allocations)
CREATE OR REPLACE TEMP MACRO held_peaks(allocations) AS TABLE
SELECT
    run, rank, device_type, device,
    arg_min(event_id, (-held_bytes, event_id)) AS event_id,
    arg_min({'ns': time_ns}, (-held_bytes, event_id)).ns AS peak_ns,
    max(held_bytes) AS held_bytes
FROM held_memory(allocations)
GROUP BY run, rank, device_type, device;

-- is_held_at: whether an allocation is held after a record of its device.
-- parameter alloc_event_id BIGINT  as in allocations
-- parameter free_event_id BIGINT  as in allocations, or `free_requested_event_id`
-- parameter event_id BIGINT  `allocator_event_id` of the record; -1 before the first one
-- returns BOOLEAN  whether it was made by then, and not freed
-- example: SELECT is_held_at(NULL, 7, 6)
CREATE OR REPLACE TEMP MACRO is_held_at(alloc_event_id, free_event_id, event_id) AS
coalesce(alloc_event_id, -1) <= event_id AND coalesce(free_event_id > event_id, true);

-- named_allocations: `allocations` with the name of the group that they are added up by.
-- parameter allocations TABLE  `allocations`
-- parameter stacks TABLE  `stacks`
-- parameter events TABLE  `events`
-- parameter by_what VARCHAR  stack, frame, module, category, pool, metadata, fx_node or annotation; any other text for no names
-- column *  as in allocations
-- column group_id BIGINT  `stack_id` by stack, else NULL
-- column group_name VARCHAR  frame, module, category or `unknown`, pool, text, FX node or annotation; NULL by stack, or for none
-- example: FROM named_allocations(allocations, stacks, events, 'module')
CREATE OR REPLACE TEMP MACRO named_allocations(allocations, stacks, events, by_what) AS TABLE
WITH places AS MATERIALIZED (
    SELECT run, rank, stack_id, CASE by_what WHEN 'module' THEN module WHEN 'fx_node' THEN fx_node ELSE frame END AS place
    FROM stack_places(stacks)
    WHERE by_what IN ('frame', 'module', 'fx_node')
),
moments AS (
    SELECT DISTINCT run, rank, -1 AS thread, alloc_ns AS time_ns
    FROM query_table(allocations)
    WHERE by_what = 'annotation' AND alloc_ns IS NOT NULL
),
modules AS MATERIALIZED (
    SELECT
        run, rank, event_id,
        coalesce(nullif(regexp_extract(python_stack, '(?:^|;)(nn\.Module: [^;]*)', 1), ''), module_hierarchy) AS module
    FROM query_table(events)
    WHERE by_what = 'module' AND coalesce(python_stack, module_hierarchy) IS NOT NULL
        AND (run, rank, event_id) IN (SELECT (run, rank, op_id) FROM query_table(allocations) WHERE op_id IS NOT NULL)
)
SELECT
    a.*,
    CASE WHEN by_what = 'stack' THEN a.stack_id END AS group_id,
    CASE by_what
        WHEN 'category' THEN coalesce(a.category, 'unknown')
        WHEN 'module' THEN coalesce(modules.module, places.place)
        WHEN 'pool' THEN a.pool
        WHEN 'metadata' THEN coalesce(a.metadata, a.annotation)
        WHEN 'annotation' THEN around.annotation_name
        WHEN 'frame' THEN places.place
        WHEN 'fx_node' THEN places.place
    END AS group_name
FROM query_table(allocations) AS a
LEFT JOIN places ON a.run = places.run AND a.rank = places.rank AND a.stack_id = places.stack_id
LEFT JOIN annotations_around('moments', events) AS around
    ON a.run = around.run AND a.rank = around.rank AND a.alloc_ns = around.time_ns
LEFT JOIN modules ON a.run = modules.run AND a.rank = modules.rank AND a.op_id = modules.event_id;
