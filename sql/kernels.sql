-- kernels: device time by kernel name, and the op that each kernel works for most.
-- One row per (run, rank, name), the largest total_ns first, then by run, rank, name.
-- Kernels only: copies and fills of memory are the kinds memcpy and memset in self_times.
-- needs: events
-- run           VARCHAR        run that the trace belongs to
-- rank          INTEGER        rank within the run
-- name          VARCHAR        name of the kernel; NULL where the source has none
-- calls         BIGINT         number of executions
-- total_ns      BIGINT   ns    sum of durations, overlaps counted twice; NULL where none is known, or beyond BIGINT
-- mean_ns       BIGINT   ns    mean duration, rounded half up
-- std_ns        BIGINT   ns    sample standard deviation of the durations, rounded half up; NULL for one execution
-- min_ns        BIGINT   ns    shortest duration
-- max_ns        BIGINT   ns    longest duration
-- share         DOUBLE   0..1  total_ns over all kernels of the run and rank; NULL where that is 0
-- top_op        VARCHAR        op that launched most of total_ns, the first by name on a tie; NULL where no op is known
-- top_op_share  DOUBLE   0..1  part of total_ns that top_op launched; NULL where total_ns is 0 or no op is known
WITH launched AS (
    SELECT
        kernel.run,
        kernel.rank,
        kernel.name,
        kernel.dur_ns,
        op.name AS op,
        sum(kernel.dur_ns) OVER (PARTITION BY kernel.run, kernel.rank, kernel.name, op.name) AS op_ns
    FROM events AS kernel
    LEFT JOIN events AS op
        ON kernel.run = op.run AND kernel.rank = op.rank AND kernel.op_id = op.event_id
    WHERE kernel.kind = 'kernel'
),
named AS (
    SELECT
        run,
        rank,
        name,
        count(*) AS calls,
        sum(dur_ns) AS total_ns,
        ((2 * sum(dur_ns) + count(dur_ns)) // nullif(2 * count(dur_ns), 0))::BIGINT AS mean_ns,
        round(stddev_samp(dur_ns))::BIGINT AS std_ns,
        min(dur_ns) AS min_ns,
        max(dur_ns) AS max_ns,
        min({less_ns: -op_ns, op: op}) FILTER (WHERE op IS NOT NULL) AS top
    FROM launched
    GROUP BY run, rank, name
)
SELECT
    run,
    rank,
    name,
    calls,
    try_cast(total_ns AS BIGINT) AS total_ns,
    mean_ns,
    std_ns,
    min_ns,
    max_ns,
    total_ns / nullif(sum(total_ns) OVER (PARTITION BY run, rank), 0) AS share,
    top.op AS top_op,
    -top.less_ns / nullif(total_ns, 0) AS top_op_share
FROM named
ORDER BY named.total_ns DESC NULLS LAST, run, rank, name NULLS LAST
