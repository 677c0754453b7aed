-- nccl_sizes: how fast the collectives in records of NCCL's profiler plugins are, by communicator, operation and size.
-- One row per (run, process_group, collective, bytes), the most time first, then by run and these columns.
-- Latencies, sizes and bandwidths are those of collectives.
-- In a bare shell read from `sql/lib` first: lanes, devices, collectives.
-- needs: events, traces, recorded_collectives
-- run            VARCHAR        run that the records belong to
-- process_group  VARCHAR        communicator, by its name or its hash
-- ranks          BIGINT         number of its ranks; NULL if not known
-- collective     VARCHAR        the operation
-- bytes          BIGINT  bytes  size of one collective; NULL if not known
-- calls          BIGINT         number of collectives
-- total_ns       BIGINT  ns     sum of their latencies
-- p50_ns         BIGINT  ns     median latency
-- max_ns         BIGINT  ns     longest latency
-- bus_gb_per_s   DOUBLE  GB/s   median of their bus bandwidths; NULL if not known
-- min_gb_per_s   DOUBLE  GB/s   the lowest of them
-- max_gb_per_s   DOUBLE  GB/s   the highest of them
WITH matches AS MATERIALIZED (
    FROM all_matches(events, traces, recorded_collectives)
),
waits AS (
    FROM collective_waits(matches, traces, true)
    QUALIFY row_number() OVER (PARTITION BY run, number ORDER BY rank) = 1
)
SELECT
    run,
    process_group,
    expected_ranks AS ranks,
    collective,
    bytes,
    count(*) AS calls,
    try_cast(sum(latency_ns) AS BIGINT) AS total_ns,
    quantile_disc(latency_ns, 0.5) AS p50_ns,
    max(latency_ns) AS max_ns,
    quantile_disc(bus_gb_per_s, 0.5) AS bus_gb_per_s,
    min(bus_gb_per_s) AS min_gb_per_s,
    max(bus_gb_per_s) AS max_gb_per_s
FROM waits
GROUP BY run, process_group, expected_ranks, collective, bytes
ORDER BY total_ns DESC, run, process_group, collective, bytes, ranks
