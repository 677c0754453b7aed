-- Allocator records.

-- memory_records: each record with `allocated_bytes`, what is allocated on its device after it: the source's total, or if it has
-- none the sum of bytes since the trace began, with records of one instant taken together.
-- parameter memory TABLE  `memory`, or a part of it
-- column *  as in memory
-- column allocated_bytes BIGINT  bytes allocated on the device after it
-- example: FROM memory_records(memory)
CREATE OR REPLACE TEMP MACRO memory_records(memory) AS TABLE
WITH without_totals AS MATERIALIZED (
    SELECT DISTINCT run, rank, device_type, device FROM query_table(memory) WHERE total_allocated_bytes IS NULL
),
summed AS (
    SELECT
        records.*,
        sum(bytes) OVER (
            PARTITION BY records.run, records.rank, records.device_type, records.device
            ORDER BY time_ns NULLS LAST
            RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS since_start_bytes
    FROM query_table(memory) AS records
    SEMI JOIN without_totals AS lacking
        ON records.run = lacking.run
        AND records.rank = lacking.rank
        AND records.device_type IS NOT DISTINCT FROM lacking.device_type
        AND records.device IS NOT DISTINCT FROM lacking.device
)
SELECT *, total_allocated_bytes AS allocated_bytes FROM query_table(memory) WHERE total_allocated_bytes IS NOT NULL
UNION ALL
SELECT * EXCLUDE (since_start_bytes), try_cast(since_start_bytes AS BIGINT) FROM summed WHERE total_allocated_bytes IS NULL;

-- snapshot_records: records of memory in memory snapshots, like those of memory_records, for each (run, rank) whose profile has
-- none for a device: the profile's own records have exact times and threads. Profiles have none of pinned host memory, a
-- device of its own: those are always here. An allocation counts until the program frees it. Totals cover all allocated memory,
-- also from before the first record. Snapshots have times in microseconds; records within one are spaced by nanoseconds, in
-- their order. Without times there are no rows.
-- parameter memory TABLE  `memory` of the same traces
-- parameter allocations TABLE  `allocations`
-- parameter events TABLE  `events` of the same traces
-- column run, rank, time_ns, address, bytes, device_type, device, total_allocated_bytes, op_id  as in memory
-- column total_reserved_bytes BIGINT  NULL
-- column thread INTEGER  thread of the op; -1 if not known
-- column allocated_bytes BIGINT  bytes allocated on the device after it
-- example: FROM snapshot_records(memory, allocations, events)
CREATE OR REPLACE TEMP MACRO snapshot_records(memory, allocations, events) AS TABLE
WITH profiled AS MATERIALIZED (
    SELECT DISTINCT run, rank FROM query_table(memory) WHERE device IS NOT NULL
),
lives AS MATERIALIZED (
    SELECT allocations.*
    FROM query_table(allocations) AS allocations
    ANTI JOIN profiled
        ON allocations.run = profiled.run
        AND allocations.rank = profiled.rank
        AND allocations.device_type IS DISTINCT FROM 'PINNED_HOST'
),
changes AS (
    SELECT run, rank, device_type, device, alloc_event_id AS record_id, alloc_ns AS time_ns, address, bytes, op_id
    FROM lives
    WHERE alloc_event_id IS NOT NULL
    UNION ALL
    SELECT
        run, rank, device_type, device, coalesce(free_requested_event_id, free_event_id),
        coalesce(free_requested_ns, free_ns), address, -bytes, NULL
    FROM lives
    WHERE coalesce(free_requested_event_id, free_event_id) IS NOT NULL
),
earlier AS (
    SELECT run, rank, device_type, device, sum(bytes) AS bytes
    FROM lives
    WHERE alloc_event_id IS NULL
    GROUP BY ALL
),
totals AS (
    SELECT
        changes.*,
        coalesce(earlier.bytes, 0) + sum(changes.bytes) OVER (
            PARTITION BY changes.run, changes.rank, changes.device_type, changes.device ORDER BY record_id, changes.bytes
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS total_bytes,
        row_number() OVER (
            PARTITION BY changes.run, changes.rank, changes.device_type, changes.device, time_ns
            ORDER BY record_id, changes.bytes
        ) - 1 AS place
    FROM changes
    LEFT JOIN earlier
        ON changes.run = earlier.run
        AND changes.rank = earlier.rank
        AND changes.device_type IS NOT DISTINCT FROM earlier.device_type
        AND changes.device IS NOT DISTINCT FROM earlier.device
)
SELECT
    totals.run, totals.rank,
    totals.time_ns + least(place, 999) AS time_ns,
    totals.address, totals.bytes,
    coalesce(totals.device_type, 'CUDA') AS device_type,
    totals.device,
    try_cast(total_bytes AS BIGINT) AS total_allocated_bytes,
    NULL::BIGINT AS total_reserved_bytes,
    coalesce(op.thread, -1) AS thread,
    totals.op_id,
    try_cast(total_bytes AS BIGINT) AS allocated_bytes
FROM totals
LEFT JOIN query_table(events) AS op
    ON totals.run = op.run AND totals.rank = op.rank AND totals.op_id = op.event_id
WHERE totals.time_ns IS NOT NULL;

-- records_of_either: memory_records of profiles, and snapshot_records for what they lack.
-- parameter memory TABLE  `memory` of the same traces
-- parameter allocations TABLE  `allocations`
-- parameter events TABLE  `events` of the same traces
-- column *  as in snapshot_records
-- column source VARCHAR  profile or snapshot
-- example: FROM records_of_either(memory, allocations, events)
CREATE OR REPLACE TEMP MACRO records_of_either(memory, allocations, events) AS TABLE
SELECT
    run, rank, time_ns, address, bytes, device_type, device, total_allocated_bytes, total_reserved_bytes, thread, op_id,
    allocated_bytes, 'profile' AS source
FROM memory_records(memory)
UNION ALL BY NAME
SELECT *, 'snapshot' AS source
FROM snapshot_records(memory, allocations, events);

-- memory_peaks: one row per (run, rank, device_type, device): the most that was allocated, and what the source gives.
-- parameter records TABLE  rows of memory_records
-- column run, rank, device_type, device  as in records
-- column peak_bytes BIGINT  most bytes allocated
-- column has_totals BOOLEAN  whether the source gives totals
-- column has_addresses BOOLEAN  whether the source gives addresses
-- example: WITH records AS (FROM memory_records(memory)) FROM memory_peaks(records)
CREATE OR REPLACE TEMP MACRO memory_peaks(records) AS TABLE
SELECT
    run, rank, device_type, device,
    coalesce(max(total_allocated_bytes), max(allocated_bytes)) AS peak_bytes,
    count(total_allocated_bytes) > 0 AS has_totals,
    count(address) > 0 AS has_addresses
FROM query_table(records)
GROUP BY ALL;

-- peak_records: the record of memory_records after which the most was allocated on each device; the earliest on a tie.
-- parameter records TABLE  rows of memory_records
-- column *  as in records
-- column has_addresses, has_totals  as in memory_peaks
-- example: WITH records AS (FROM memory_records(memory)) FROM peak_records('records')
CREATE OR REPLACE TEMP MACRO peak_records(records) AS TABLE
SELECT records.*, devices.has_addresses, devices.has_totals
FROM query_table(records) AS records
JOIN memory_peaks(records) AS devices
    ON records.run = devices.run
    AND records.rank = devices.rank
    AND records.device_type IS NOT DISTINCT FROM devices.device_type
    AND records.device IS NOT DISTINCT FROM devices.device
    AND records.allocated_bytes IS NOT DISTINCT FROM devices.peak_bytes
    AND (records.total_allocated_bytes IS NOT NULL OR NOT devices.has_totals)
QUALIFY row_number() OVER (
    PARTITION BY records.run, records.rank, records.device_type, records.device
    ORDER BY
        time_ns NULLS LAST,
        op_id NULLS LAST,
        address NULLS LAST,
        bytes NULLS LAST,
        total_reserved_bytes NULLS LAST,
        thread
) = 1;

-- end_records: the last record of memory_records of each device; within an instant frees come last, as in memory_timeline.
-- parameter records TABLE  rows of memory_records
-- column *  as in records
-- column has_addresses, has_totals  as in memory_peaks
-- example: WITH records AS (FROM memory_records(memory)) FROM end_records('records')
CREATE OR REPLACE TEMP MACRO end_records(records) AS TABLE
SELECT records.*, devices.has_addresses, devices.has_totals
FROM query_table(records) AS records
JOIN memory_peaks(records) AS devices
    ON records.run = devices.run
    AND records.rank = devices.rank
    AND records.device_type IS NOT DISTINCT FROM devices.device_type
    AND records.device IS NOT DISTINCT FROM devices.device
WHERE time_ns IS NOT NULL AND (records.total_allocated_bytes IS NOT NULL OR NOT devices.has_totals)
QUALIFY row_number() OVER (
    PARTITION BY records.run, records.rank, records.device_type, records.device
    ORDER BY time_ns DESC, bytes < 0 DESC NULLS LAST, sign(bytes)::HUGEINT * allocated_bytes DESC NULLS LAST
) = 1;

-- unfreed_blocks: the last allocation at each address that no free follows. An earlier one at that address has been freed,
-- whether or not there is a record of it. Within one instant frees come first if the address was allocated before, else last.
-- parameter memory TABLE  `memory`, or a part of it
-- column run, rank, device_type, device, address, time_ns, bytes, op_id, thread  as in memory
-- example: FROM unfreed_blocks(memory)
CREATE OR REPLACE TEMP MACRO unfreed_blocks(memory) AS TABLE
WITH records AS (
    SELECT run, rank, device_type, device, address, time_ns, bytes, op_id, thread
    FROM query_table(memory)
    WHERE address IS NOT NULL AND time_ns IS NOT NULL AND bytes <> 0
),
addresses AS MATERIALIZED (
    SELECT
        run, rank, device_type, device, address,
        max(time_ns) FILTER (bytes > 0) AS allocated_ns,
        max(time_ns) FILTER (bytes < 0) AS freed_ns
    FROM records
    GROUP BY ALL
    HAVING allocated_ns >= coalesce(freed_ns, allocated_ns)
),
edges AS (
    SELECT records.*
    FROM records
    JOIN addresses
        ON records.run = addresses.run
        AND records.rank = addresses.rank
        AND records.device_type IS NOT DISTINCT FROM addresses.device_type
        AND records.device IS NOT DISTINCT FROM addresses.device
        AND records.address = addresses.address
        AND (records.time_ns = addresses.allocated_ns OR addresses.allocated_ns = addresses.freed_ns)
),
instants AS (
    SELECT
        run, rank, device_type, device, address, time_ns,
        sum(sign(bytes)) AS change,
        max({bytes: bytes, op_id: op_id, thread: thread}) FILTER (bytes > 0) AS block
    FROM edges
    GROUP BY ALL
),
blocks AS (
    SELECT
        run, rank, device_type, device, address,
        max(time_ns) FILTER (block IS NOT NULL) AS time_ns,
        arg_max(block, time_ns) FILTER (block IS NOT NULL) AS block
    FROM instants
    GROUP BY ALL
    HAVING arg_max(change, time_ns) FILTER (change <> 0) > 0
)
SELECT run, rank, device_type, device, address, time_ns, block.bytes AS bytes, block.op_id AS op_id, block.thread AS thread
FROM blocks;

-- blocks_until: unfreed_blocks at a moment of each device: what was allocated until then and not freed.
-- parameter records TABLE  rows of memory_records
-- parameter moments TABLE  rows with `run`, `rank`, `device_type`, `device` and `time_ns`, one for each device
-- column *  as in unfreed_blocks
-- example: WITH records AS (FROM memory_records(memory)), moments AS (FROM peak_records('records')) FROM
-- blocks_until('records', 'moments')
CREATE OR REPLACE TEMP MACRO blocks_until(records, moments) AS TABLE
WITH until_moment AS (
    SELECT records.*
    FROM query_table(records) AS records
    JOIN query_table(moments) AS moments
        ON records.run = moments.run
        AND records.rank = moments.rank
        AND records.device_type IS NOT DISTINCT FROM moments.device_type
        AND records.device IS NOT DISTINCT FROM moments.device
        AND records.time_ns <= moments.time_ns
)
FROM unfreed_blocks('until_moment');

-- before_trace_bytes: what is allocated at a moment of each device and has no record: from before the trace, or no address known.
-- parameter moments TABLE  rows of peak_records or end_records
-- parameter blocks TABLE  rows of blocks_until at these moments
-- column run, rank, device_type, device  as in moments
-- column before_trace_bytes BIGINT  its bytes; NULL if the source gives no totals or no addresses
-- example: WITH records AS (FROM memory_records(memory)), moments AS (FROM peak_records('records')), blocks AS
-- (FROM blocks_until('records', 'moments')) FROM
-- before_trace_bytes('moments', 'blocks')
CREATE OR REPLACE TEMP MACRO before_trace_bytes(moments, blocks) AS TABLE
WITH owned AS (
    SELECT run, rank, device_type, device, sum(bytes) AS bytes
    FROM query_table(blocks)
    GROUP BY ALL
)
SELECT
    moments.run, moments.rank, moments.device_type, moments.device,
    CASE
        WHEN has_totals AND has_addresses
            THEN try_cast(greatest(moments.allocated_bytes - coalesce(owned.bytes, 0), 0) AS BIGINT)
    END AS before_trace_bytes
FROM query_table(moments) AS moments
LEFT JOIN owned
    ON moments.run = owned.run
    AND moments.rank = owned.rank
    AND moments.device_type IS NOT DISTINCT FROM owned.device_type
    AND moments.device IS NOT DISTINCT FROM owned.device;

-- annotations_around: the innermost user annotation around each moment (run, rank, thread, time_ns) of a relation: on the thread,
-- else the one on any thread that started last. An annotation includes its start and its end. Moments outside all annotations
-- have no row.
-- parameter moments TABLE  rows with `run`, `rank`, `thread` and `time_ns`
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, thread, time_ns  as in moments
-- column annotation_id BIGINT  event_id of the annotation
-- column annotation_name VARCHAR  its name
-- example: FROM annotations_around(memory, events)
CREATE OR REPLACE TEMP MACRO annotations_around(moments, events) AS TABLE
WITH distinct_moments AS (
    SELECT DISTINCT run, rank, thread, time_ns FROM query_table(moments)
),
annotations AS (
    SELECT run, rank, thread, event_id, name, depth, start_ns, start_ns + dur_ns AS end_ns
    FROM query_table(events)
    WHERE kind = 'annotation'
),
innermost AS (
    SELECT
        distinct_moments.*,
        max({
            is_own: annotations.thread = distinct_moments.thread,
            start_ns: annotations.start_ns,
            depth: coalesce(annotations.depth, -1),
            event_id: annotations.event_id,
            name: annotations.name
        }) AS innermost_annotation
    FROM distinct_moments
    JOIN annotations
        ON distinct_moments.run = annotations.run
        AND distinct_moments.rank = annotations.rank
        AND annotations.start_ns <= distinct_moments.time_ns
        AND distinct_moments.time_ns <= annotations.end_ns
    GROUP BY ALL
)
SELECT run, rank, thread, time_ns, innermost_annotation.event_id AS annotation_id, innermost_annotation.name AS annotation_name
FROM innermost;

-- modules_around: the nn.Module whose call was innermost around each op, from Python frames, else from its `module_hierarchy`;
-- for a backward op, the one around its forward op. Ops outside all modules have no row.
-- parameter ops TABLE  rows with `run`, `rank` and `op_id`, such as `allocations` and `allocator_events`
-- parameter events TABLE  `events` of the same traces
-- column run, rank, op_id  as in ops
-- column module_id BIGINT  event_id of the call; NULL for a `module_hierarchy`
-- column module_name VARCHAR  its name, or the path of the module
-- example: FROM modules_around(memory, events)
CREATE OR REPLACE TEMP MACRO modules_around(ops, events) AS TABLE
WITH anchors AS MATERIALIZED (
    SELECT DISTINCT ops.run, ops.rank, ops.op_id, coalesce(op.fwd_id, op.event_id) AS anchor_id
    FROM query_table(ops) AS ops
    JOIN query_table(events) AS op
        ON ops.run = op.run AND ops.rank = op.rank AND ops.op_id = op.event_id
),
placed AS MATERIALIZED (
    SELECT anchors.*, anchor.preorder, anchor.module_hierarchy
    FROM anchors
    JOIN query_table(events) AS anchor
        ON anchors.run = anchor.run AND anchors.rank = anchor.rank AND anchors.anchor_id = anchor.event_id
),
calls AS (
    SELECT run, rank, event_id, name, preorder, last_preorder
    FROM (
        SELECT calls.*, last.preorder AS last_preorder
        FROM query_table(events) AS calls
        JOIN query_table(events) AS last
            ON calls.run = last.run AND calls.rank = last.rank AND calls.last_descendant_id = last.event_id
        WHERE calls.python_module_id IS NOT NULL
    )
),
innermost AS (
    SELECT placed.run, placed.rank, placed.op_id, max({preorder: calls.preorder, event_id: calls.event_id, name: calls.name}) AS call
    FROM placed
    JOIN calls
        ON placed.run = calls.run
        AND placed.rank = calls.rank
        AND calls.preorder <= placed.preorder
        AND placed.preorder <= calls.last_preorder
    GROUP BY ALL
)
SELECT
    placed.run, placed.rank, placed.op_id,
    innermost.call.event_id AS module_id,
    coalesce(innermost.call.name, placed.module_hierarchy) AS module_name
FROM placed
LEFT JOIN innermost
    ON placed.run = innermost.run AND placed.rank = innermost.rank AND placed.op_id = innermost.op_id
WHERE coalesce(innermost.call.name, placed.module_hierarchy) IS NOT NULL;
