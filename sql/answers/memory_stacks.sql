-- memory_stacks: what a memory snapshot holds at the peak and at the end, by stack.
-- One row per stack of (run, rank, device), by device, what held the most at the peak first, then at the end, then by stack_id.
-- The peak is the first moment when the most was allocated, by a replay of all records. What is held at the end was never freed.
-- What was there before the first record has the stack that the segments know of it.
-- In a bare shell read from `sql/lib` first: snapshots, stacks.
-- needs: allocations, stacks
-- parameter top  BIGINT = 100  most rows of each (run, rank, device); 0 for all
-- run              VARCHAR         run that the snapshot belongs to
-- rank             INTEGER         rank within the run
-- device           INTEGER         index of the device
-- stack_id         BIGINT          number of the stack in stacks; NULL where none was recorded
-- frame            VARCHAR         innermost frame in a Python file that is not torch's own, else the innermost one
-- peak_ns          BIGINT   ns     when the most was allocated on the device; NULL before the first record, or without times
-- peak_bytes       BIGINT   bytes  held at the peak
-- peak_blocks      BIGINT          allocations of it
-- peak_share       DOUBLE   0..1   peak_bytes over all that was allocated at the peak; NULL where that is 0
-- end_bytes        BIGINT   bytes  held at the end: never freed
-- end_blocks       BIGINT          allocations of it
-- allocations      BIGINT          allocations of all times
-- allocated_bytes  BIGINT   bytes  their bytes
-- stack            VARCHAR         all frames, joined by `;`, innermost first
WITH peaks AS MATERIALIZED (
    SELECT
        run, rank, device,
        arg_min(event_id, (-held_bytes, event_id)) AS event_id,
        arg_min({'ns': time_ns}, (-held_bytes, event_id)).ns AS peak_ns,
        max(held_bytes) AS held_bytes
    FROM held_memory(allocations)
    GROUP BY run, rank, device
),
sums AS (
    SELECT
        a.run, a.rank, a.device, a.stack_id, peaks.peak_ns, peaks.held_bytes,
        coalesce(sum(a.bytes) FILTER (is_at_peak), 0) AS peak_bytes,
        count(*) FILTER (is_at_peak) AS peak_blocks,
        coalesce(sum(a.bytes) FILTER (a.free_event_id IS NULL), 0) AS end_bytes,
        count(*) FILTER (a.free_event_id IS NULL) AS end_blocks,
        count(*) AS allocations,
        sum(a.bytes) AS allocated_bytes
    FROM (
        SELECT
            allocations.*,
            coalesce(alloc_event_id, -1) <= peaks.event_id AND coalesce(free_event_id > peaks.event_id, true) AS is_at_peak
        FROM allocations
        JOIN peaks
            ON allocations.run = peaks.run AND allocations.rank = peaks.rank AND allocations.device = peaks.device
    ) AS a
    JOIN peaks
        ON a.run = peaks.run AND a.rank = peaks.rank AND a.device = peaks.device
    GROUP BY ALL
),
rows AS MATERIALIZED (
    SELECT *
    FROM sums
    QUALIFY coalesce(getvariable('top'), 100) <= 0
        OR row_number() OVER (
            PARTITION BY run, rank, device
            ORDER BY peak_bytes DESC, end_bytes DESC, stack_id NULLS LAST
        ) <= coalesce(getvariable('top'), 100)
),
wanted AS (
    SELECT stacks.*
    FROM stacks
    SEMI JOIN rows
        ON stacks.run = rows.run AND stacks.rank = rows.rank AND stacks.stack_id = rows.stack_id
)
SELECT
    rows.run,
    rows.rank,
    rows.device,
    rows.stack_id,
    texts.frame,
    rows.peak_ns,
    try_cast(rows.peak_bytes AS BIGINT) AS peak_bytes,
    rows.peak_blocks,
    rows.peak_bytes / nullif(rows.held_bytes, 0)::DOUBLE AS peak_share,
    try_cast(rows.end_bytes AS BIGINT) AS end_bytes,
    rows.end_blocks,
    rows.allocations,
    try_cast(rows.allocated_bytes AS BIGINT) AS allocated_bytes,
    texts.stack
FROM rows
LEFT JOIN stack_texts('wanted') AS texts
    ON rows.run = texts.run AND rows.rank = texts.rank AND rows.stack_id = texts.stack_id
ORDER BY rows.run, rows.rank, rows.device, rows.peak_bytes DESC, rows.end_bytes DESC, rows.stack_id NULLS LAST
