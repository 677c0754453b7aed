-- memory_stacks(at=change): what a memory snapshot holds more of at one time than at another.
-- One row per name, per (run, rank, device), with memory allocated or freed for good in between, by device, largest change first.
-- Without parameters, it compares the moment before the first record with the last one: what was allocated and never freed, such
-- as a leak. A moment is a time, or an annotation of the snapshot or of the trace beside it, such as ProfilerStep#3: its first
-- start, its last end. Allocations and frees in the very instant of a moment count as before it. If records have no times, only
-- the default without parameters gives rows.
-- In a bare shell read from `sql/lib` first: stacks, memory, snapshots.
-- needs: allocations, stacks, events
-- recorded: allocations
-- no rows: no memory was made or freed for good in between
-- divides by: rank
-- main columns: name, change_bytes, from_bytes, to_bytes, made_bytes, freed_bytes
-- parameter per         VARCHAR(stack|frame|module|category|pool|metadata|fx_node|annotation) = stack  what each row is
-- parameter from_ns     BIGINT = 0     from this time, on the clock that traces.clock names; 0 for the beginning
-- parameter to_ns       BIGINT = 0     to this time; 0 for the end
-- parameter since       VARCHAR = ''   from the first start of an annotation of this name
-- parameter until       VARCHAR = ''   to the last end of an annotation of this name
-- parameter top         BIGINT = 100   maximum rows per (run, rank, device); 0 for all
-- run              VARCHAR         run that the snapshot belongs to
-- rank             INTEGER         rank within the run
-- device_type      VARCHAR         CUDA or XPU; PINNED_HOST for pinned memory of the host; NULL if the source does not say
-- device           INTEGER         index of the device; NULL for pinned host memory, or if the source does not say
-- stack_id         BIGINT          number of the stack in stacks, by stack; NULL if none was recorded, or not by stack
-- name             VARCHAR         by stack and frame, the frame, else the group; NULL if there is none
-- from_bytes       BIGINT   bytes  held at the first moment
-- to_bytes         BIGINT   bytes  held at the second moment
-- change_bytes     BIGINT   bytes  to_bytes minus from_bytes
-- made_bytes       BIGINT   bytes  part of to_bytes that was allocated in between
-- made_blocks      BIGINT          number of its allocations
-- freed_bytes      BIGINT   bytes  part of from_bytes that was freed in between
-- freed_blocks     BIGINT          number of its allocations
-- stack            VARCHAR         by stack: all frames, joined by `;`, innermost first; else NULL
WITH marks AS (
    SELECT
        run, rank,
        min(start_ns) FILTER (name = coalesce(getvariable('since'), '')) AS since_ns,
        max(start_ns + dur_ns) FILTER (name = coalesce(getvariable('until'), '')) AS until_ns
    FROM events
    WHERE kind = 'annotation' AND name IN (coalesce(getvariable('since'), ''), coalesce(getvariable('until'), ''))
    GROUP BY run, rank
),
asked AS (
    SELECT
        nullif(coalesce(getvariable('from_ns'), 0), 0) AS from_ns,
        nullif(coalesce(getvariable('to_ns'), 0), 0) AS to_ns,
        coalesce(getvariable('since'), '') <> '' AS has_since,
        coalesce(getvariable('until'), '') <> '' AS has_until
),
lives AS (
    SELECT
        *,
        coalesce(free_requested_event_id, free_event_id) AS freed_id,
        coalesce(free_requested_ns, free_ns) AS freed_ns
    FROM named_allocations(allocations, stacks, events, coalesce(getvariable('per'), 'stack'))
),
placed AS (
    SELECT
        a.run, a.rank, a.device_type, a.device, a.group_id, a.group_name, a.bytes,
        CASE
            WHEN asked.from_ns IS NULL AND NOT has_since THEN alloc_event_id IS NULL
            ELSE
                (alloc_event_id IS NULL OR alloc_ns <= coalesce(asked.from_ns, since_ns))
                AND (freed_id IS NULL OR freed_ns > coalesce(asked.from_ns, since_ns))
        END AS is_at_first,
        CASE
            WHEN asked.to_ns IS NULL AND NOT has_until THEN freed_id IS NULL
            ELSE
                (alloc_event_id IS NULL OR alloc_ns <= coalesce(asked.to_ns, until_ns))
                AND (freed_id IS NULL OR freed_ns > coalesce(asked.to_ns, until_ns))
        END AS is_at_second
    FROM lives AS a
    CROSS JOIN asked
    LEFT JOIN marks ON a.run = marks.run AND a.rank = marks.rank
    WHERE (asked.from_ns IS NOT NULL OR NOT has_since OR since_ns IS NOT NULL)
        AND (asked.to_ns IS NOT NULL OR NOT has_until OR until_ns IS NOT NULL)
),
sums AS (
    SELECT
        run, rank, device_type, device, group_id, group_name,
        coalesce(sum(bytes) FILTER (is_at_first), 0) AS from_bytes,
        coalesce(sum(bytes) FILTER (is_at_second), 0) AS to_bytes,
        coalesce(sum(bytes) FILTER (is_at_second AND NOT is_at_first), 0) AS made_bytes,
        count(*) FILTER (is_at_second AND NOT is_at_first) AS made_blocks,
        coalesce(sum(bytes) FILTER (is_at_first AND NOT is_at_second), 0) AS freed_bytes,
        count(*) FILTER (is_at_first AND NOT is_at_second) AS freed_blocks
    FROM placed
    WHERE is_at_first IS NOT NULL AND is_at_second IS NOT NULL
    GROUP BY ALL
    HAVING made_blocks > 0 OR freed_blocks > 0
),
rows AS MATERIALIZED (
    SELECT *
    FROM sums
    QUALIFY coalesce(getvariable('top'), 100) <= 0
        OR row_number() OVER (
            PARTITION BY run, rank, device_type, device
            ORDER BY to_bytes - from_bytes DESC, made_bytes DESC, group_id NULLS LAST, group_name NULLS LAST
        ) <= coalesce(getvariable('top'), 100)
),
wanted AS (
    SELECT stacks.*
    FROM stacks
    SEMI JOIN rows
        ON stacks.run = rows.run AND stacks.rank = rows.rank AND stacks.stack_id = rows.group_id
)
SELECT
    rows.run,
    rows.rank,
    rows.device_type,
    rows.device,
    rows.group_id AS stack_id,
    coalesce(rows.group_name, texts.frame) AS name,
    try_cast(rows.from_bytes AS BIGINT) AS from_bytes,
    try_cast(rows.to_bytes AS BIGINT) AS to_bytes,
    try_cast(rows.to_bytes - rows.from_bytes AS BIGINT) AS change_bytes,
    try_cast(rows.made_bytes AS BIGINT) AS made_bytes,
    rows.made_blocks,
    try_cast(rows.freed_bytes AS BIGINT) AS freed_bytes,
    rows.freed_blocks,
    texts.stack
FROM rows
LEFT JOIN stack_texts('wanted') AS texts
    ON rows.run = texts.run AND rows.rank = texts.rank AND rows.group_id = texts.stack_id
ORDER BY rows.run, rows.rank, rows.device NULLS LAST, rows.device_type NULLS LAST, rows.to_bytes - rows.from_bytes DESC,
    rows.made_bytes DESC, rows.group_id NULLS LAST, rows.group_name NULLS LAST
