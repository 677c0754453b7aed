-- Allocator records.

-- memory_records: each record with `allocated_bytes`, what is allocated on its device after it: the source's total, or where it
-- gives none the sum of bytes since the trace began, records of one instant taken together.
-- parameter memory TABLE  `memory`, or a part of it
-- column *  as in memory
-- column allocated_bytes BIGINT  allocated on the device after it
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

-- memory_peaks: one row per (run, rank, device_type, device): the most that was allocated, and what is known of it.
-- parameter records TABLE  rows of memory_records
-- column run, rank, device_type, device  as in records
-- column peak_bytes BIGINT  the most that was allocated
-- column has_totals BOOLEAN  the source gives totals
-- column has_addresses BOOLEAN  the source gives addresses
-- example: WITH records AS (FROM memory_records(memory)) FROM memory_peaks(records)
CREATE OR REPLACE TEMP MACRO memory_peaks(records) AS TABLE
SELECT
    run, rank, device_type, device,
    coalesce(max(total_allocated_bytes), max(allocated_bytes)) AS peak_bytes,
    count(total_allocated_bytes) > 0 AS has_totals,
    count(address) > 0 AS has_addresses
FROM query_table(records)
GROUP BY ALL;

-- peak_records: the record after which the most was allocated on each device, of memory_records; the earliest on a tie.
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

-- unfreed_blocks: the last allocation of each address that no free follows. An earlier one of that address has been freed,
-- whether or not there is a record of it. Within one instant frees come first where the address was allocated before, else last.
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

-- annotations_around: the innermost user annotation around each moment (run, rank, thread, time_ns) of a relation: on the thread,
-- else the one on any thread that started last. An annotation holds its start and its end. Moments in none have no row.
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
