-- kernels(per=launch): device time of kernels by how they were launched: grid, block, registers and shared memory.
-- One row per (run, rank, name, grid, block, registers, shared_memory_bytes, op), the largest total_ns first, then in this order.
-- Kernels without launch details in the source are rows, too, with NULL.
-- Means of blocks_per_sm and occupancy are weighted by kernel time; kernels without a value or a duration do not count.
-- needs: events
-- recorded: kernels
-- divides by: rank
-- over ranks: name, grid, block, registers, shared_memory_bytes, op
-- main columns: name, grid, block, total_ns, occupancy, calls, blocks_per_sm, registers, shared_memory_bytes, share, p50_ns, op
-- parameter per_op BOOLEAN = false  also split rows by the op that launched the kernel
-- run                  VARCHAR         run that the trace belongs to
-- rank                 INTEGER         rank within the run
-- name                 VARCHAR         name of the kernel; NULL if the source has none
-- grid                 VARCHAR         blocks in each dimension, a JSON list
-- block                VARCHAR         threads of a block in each dimension, a JSON list
-- registers            INTEGER         registers of each thread
-- shared_memory_bytes  BIGINT   bytes  shared memory of each block
-- op                   VARCHAR         op that launched it; NULL if none is known, and without per_op
-- calls                BIGINT          number of executions
-- total_ns             BIGINT   ns     sum of durations, overlaps counted twice; NULL if none is known, or beyond BIGINT
-- mean_ns              BIGINT   ns     mean duration, rounded half up
-- p50_ns               BIGINT   ns     median duration, one of the values
-- min_ns               BIGINT   ns     shortest duration
-- max_ns               BIGINT   ns     longest duration
-- share                DOUBLE   0..1   total_ns over that of all kernels of the run and rank; NULL if that is 0
-- blocks_per_sm        DOUBLE          mean number of blocks over multiprocessors; NULL if none is known
-- occupancy            DOUBLE          mean estimated occupancy, 0 to 1; NULL if none is known
WITH kernels AS (
    SELECT
        kernel.run, kernel.rank, kernel.name, kernel.grid, kernel.block, kernel.registers, kernel.shared_memory_bytes,
        op.name AS op, kernel.event_id, kernel.dur_ns, kernel.occupancy,
        CASE WHEN kernel.blocks_per_sm > 0 THEN kernel.blocks_per_sm END AS blocks_per_sm
    FROM events AS kernel
    LEFT JOIN (
        SELECT run, rank, event_id, name FROM events WHERE coalesce(getvariable('per_op'), false) AND kind <> 'python'
    ) AS op
        ON kernel.run = op.run AND kernel.rank = op.rank AND kernel.op_id = op.event_id
    WHERE kernel.kind = 'kernel'
),
shapes AS (
    SELECT
        run, rank, name, grid, block, registers, shared_memory_bytes, op,
        count(*) AS calls,
        sum(dur_ns) AS total_ns,
        ((2 * sum(dur_ns) + count(dur_ns)) // nullif(2 * count(dur_ns), 0))::BIGINT AS mean_ns,
        quantile_disc(dur_ns, 0.5) AS p50_ns,
        min(dur_ns) AS min_ns,
        max(dur_ns) AS max_ns,
        -- In order: the last digit of a sum of fractions depends on it.
        sum(blocks_per_sm * dur_ns ORDER BY event_id)
            / nullif(sum(dur_ns) FILTER (blocks_per_sm IS NOT NULL), 0) AS blocks_per_sm,
        sum(occupancy * dur_ns ORDER BY event_id) / nullif(sum(dur_ns) FILTER (occupancy IS NOT NULL), 0) AS occupancy
    FROM kernels
    GROUP BY ALL
)
SELECT
    run,
    rank,
    name,
    grid,
    block,
    registers,
    shared_memory_bytes,
    op,
    calls,
    try_cast(total_ns AS BIGINT) AS total_ns,
    mean_ns,
    p50_ns,
    min_ns,
    max_ns,
    total_ns / nullif(sum(total_ns) OVER (PARTITION BY run, rank), 0) AS share,
    blocks_per_sm,
    occupancy
FROM shapes
ORDER BY shapes.total_ns DESC NULLS LAST, run, rank, name NULLS LAST, grid NULLS LAST, block NULLS LAST, registers NULLS LAST,
    shared_memory_bytes NULLS LAST, op NULLS LAST
