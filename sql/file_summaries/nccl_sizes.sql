-- nccl_sizes: how fast the collectives in records of NCCL's profiler plugins are, by communicator, operation and size.
-- One row per (run, process_group, collective, bytes), the most time first, then by run and these columns.
-- Latencies, sizes and bandwidths are as in collectives, but of records even if there are traces, which are of fewer steps. If
-- ranks of a collective have no record, its latency may be a wait for them: times and bandwidths are those of complete ones, where
-- there are any.
-- In a bare shell read from `sql/lib` first: lanes, devices, collectives.
-- needs: traces, recorded_collectives
-- run            VARCHAR        run that the records belong to
-- process_group  VARCHAR        communicator, by its name or its hash
-- ranks          BIGINT         number of its ranks; NULL if not known
-- collective     VARCHAR        the operation
-- bytes          BIGINT  bytes  size of one collective; NULL if not known
-- calls          BIGINT         number of collectives
-- complete       BIGINT         number of them with records of all their ranks; if it is 0, all count in what follows
-- total_ns       BIGINT  ns     sum of their latencies
-- bus_gb_per_s   DOUBLE  GB/s   median of their bus bandwidths, that of p50_ns; NULL if not known
-- min_gb_per_s   DOUBLE  GB/s   the lowest of them
-- max_gb_per_s   DOUBLE  GB/s   the highest of them
-- p50_ns         BIGINT  ns     median latency
-- max_ns         BIGINT  ns     longest latency
WITH noted AS MATERIALIZED (
    FROM recorded_parts(recorded_collectives)
),
matches AS MATERIALIZED (
    FROM matched_parts('noted', traces)
),
waits AS (
    SELECT *, coalesce(ranks < expected_ranks, false) AS is_incomplete
    FROM collective_waits(matches, traces, true)
    QUALIFY row_number() OVER (PARTITION BY run, number ORDER BY rank) = 1
),
counted AS (
    SELECT
        *,
        NOT is_incomplete OR bool_and(is_incomplete) OVER (PARTITION BY run, process_group, expected_ranks, collective, bytes)
            AS counts
    FROM waits
)
SELECT
    run,
    process_group,
    expected_ranks AS ranks,
    collective,
    bytes,
    count(*) AS calls,
    count(*) FILTER (NOT is_incomplete) AS complete,
    try_cast(sum(latency_ns) FILTER (counts) AS BIGINT) AS total_ns,
    -quantile_disc(-bus_gb_per_s, 0.5) FILTER (counts) AS bus_gb_per_s,
    min(bus_gb_per_s) FILTER (counts) AS min_gb_per_s,
    max(bus_gb_per_s) FILTER (counts) AS max_gb_per_s,
    quantile_disc(latency_ns, 0.5) FILTER (counts) AS p50_ns,
    max(latency_ns) FILTER (counts) AS max_ns
FROM counted
GROUP BY run, process_group, expected_ranks, collective, bytes
ORDER BY total_ns DESC, run, process_group, collective, bytes, ranks
