-- collectives(per=size): how fast collectives are, by group, operation, data type and size.
-- One row per (run, process_group, collective, dtype, bytes), the most time first, then by run and these columns.
-- Definitions are as in collectives. If only one of several ranks is loaded, latency includes its wait.
-- In a bare shell read from `sql/lib` first: lanes, devices, collectives.
-- needs: events, traces, recorded_collectives
-- recorded: collective_calls
-- divides by: run
-- main columns: collective, bytes, calls, total_ns, bus_gb_per_s, p50_ns, dtype, mean_ns, skew_ns, mismatches
-- parameter corrected BOOLEAN = true  correct clocks by the offsets of clock_skew, if all are known
-- run                VARCHAR        run that the traces belong to
-- ranks              BIGINT         number of ranks in the group; NULL if not known
-- process_group      VARCHAR        process group; NULL if not known
-- collective         VARCHAR        the operation as the source names it; else from the name of its kernel
-- dtype              VARCHAR        data type of its elements; NULL if not known
-- bytes              BIGINT  bytes  size of one collective; NULL if not known
-- calls              BIGINT         number of collectives
-- mismatches         BIGINT         number of them with a mismatch other than not_loaded
-- total_ns           BIGINT  ns     sum of their latencies
-- mean_ns            BIGINT  ns     mean latency, rounded half up
-- min_ns             BIGINT  ns     shortest latency
-- p50_ns             BIGINT  ns     median latency
-- max_ns             BIGINT  ns     longest latency
-- skew_ns            BIGINT  ns     sum of their start skews; NULL if none is known
-- max_skew_ns        BIGINT  ns     largest start skew
-- algorithm_gb_per_s DOUBLE  GB/s   sum of bytes over total_ns
-- bus_gb_per_s       DOUBLE  GB/s   the same for the slowest link
-- is_corrected       BOOLEAN        whether the clocks of all of them were corrected
WITH matches AS MATERIALIZED (
    FROM all_matches(events, traces, recorded_collectives)
),
waits AS (
    FROM collective_waits(matches, traces, coalesce(getvariable('corrected'), true))
    QUALIFY row_number() OVER (PARTITION BY run, number ORDER BY rank) = 1
)
SELECT
    run,
    expected_ranks AS ranks,
    process_group,
    collective,
    element_type AS dtype,
    bytes,
    count(*) AS calls,
    count(*) FILTER (WHERE mismatch <> 'not_loaded') AS mismatches,
    try_cast(sum(latency_ns) AS BIGINT) AS total_ns,
    round(avg(latency_ns))::BIGINT AS mean_ns,
    min(latency_ns) AS min_ns,
    quantile_disc(latency_ns, 0.5) AS p50_ns,
    max(latency_ns) AS max_ns,
    try_cast(sum(start_skew_ns) AS BIGINT) AS skew_ns,
    max(start_skew_ns) AS max_skew_ns,
    bytes::DOUBLE * count(*) / nullif(sum(latency_ns), 0) AS algorithm_gb_per_s,
    bytes::DOUBLE * count(*) / nullif(sum(latency_ns), 0) * bus_factor(any_value(kind), expected_ranks) AS bus_gb_per_s,
    bool_and(is_corrected) AS is_corrected
FROM waits
GROUP BY run, process_group, collective, element_type, bytes, expected_ranks
ORDER BY total_ns DESC, run, process_group, collective, dtype, bytes, ranks
