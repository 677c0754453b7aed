-- nccl_records: what records of NCCL's profiler plugins contain.
-- One row per run.
-- In a bare shell read from `sql/lib` first: collectives.
-- needs: recorded_collectives, traces
-- run           VARCHAR      run that the records belong to
-- ranks         VARCHAR      ranks with records: 0,1,3
-- collectives   BIGINT       records of collectives
-- p2p           BIGINT       records of sends and receives
-- communicators BIGINT       communicators
-- largest       INTEGER      number of ranks in the largest of them; NULL if not known
-- has_starts    BOOLEAN      whether they say when kernels started
-- first_ns      BIGINT   ns  earliest time in them; NULL if there is none
-- last_ns       BIGINT   ns  latest time in them; NULL if there is none
WITH records AS (
    SELECT *, coalesce(started_ns, created_ns, written_ns) AS begin_ns, coalesce(written_ns, completed_ns, started_ns) AS end_ns
    FROM recorded_collectives
    WHERE is_of_plugin(recorder)
),
ranks AS (
    SELECT run, string_agg(rank::VARCHAR, ',' ORDER BY rank) AS ranks
    FROM (
        SELECT run, rank FROM records
        UNION
        SELECT run, rank FROM traces WHERE format = 'nccl_inspector'
    )
    GROUP BY run
)
SELECT
    ranks.run,
    any_value(ranks.ranks) AS ranks,
    count(*) FILTER (NOT is_p2p) AS collectives,
    count(*) FILTER (is_p2p) AS p2p,
    count(DISTINCT communicator) AS communicators,
    max(group_size) AS largest,
    coalesce(count(started_ns) > 0, false) AS has_starts,
    min(begin_ns) AS first_ns,
    max(end_ns) AS last_ns
FROM ranks
LEFT JOIN records ON ranks.run = records.run
GROUP BY ranks.run
ORDER BY ranks.run
