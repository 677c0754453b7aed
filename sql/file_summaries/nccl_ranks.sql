-- nccl_ranks: which ranks the others wait for, by durations alone.
-- One row per (run, rank) that takes part in collectives with others, the rank that waits least first.
-- All ranks leave a collective that waits for all of them at the same time (all_reduce, all_gather, reduce_scatter, all_to_all,
-- barrier), so the rank with the shortest one came last, and the others waited by the time that theirs is longer.
-- In a bare shell read from `sql/lib` first: lanes, devices, collectives.
-- needs: events, traces, recorded_collectives
-- run              VARCHAR       run that the records belong to
-- rank             INTEGER       rank within the run
-- collectives      BIGINT        number of collectives of that kind that it took part in with others
-- times_shortest   BIGINT        number of them in which it had the shortest duration, and not all; the lowest rank on a tie
-- shortest_share   DOUBLE  0..1  times_shortest over collectives
-- longer_ns        BIGINT  ns    sum of the times by which its own were longer than the shortest: what it waited
-- communication_ns BIGINT  ns    sum of its durations
WITH matches AS MATERIALIZED (
    FROM all_matches(events, traces, recorded_collectives)
),
waits AS (
    SELECT
        run, rank, dur_ns, latency_ns,
        rank = first_value(rank) OVER (PARTITION BY match ORDER BY dur_ns, rank) AND latency_ns < max(dur_ns) OVER of_match
            AS is_shortest
    FROM collective_waits(matches, traces, true)
    WHERE ranks > 1 AND kind IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier')
    WINDOW of_match AS (PARTITION BY match)
)
SELECT
    run,
    rank,
    count(*) AS collectives,
    count(*) FILTER (is_shortest) AS times_shortest,
    count(*) FILTER (is_shortest) / count(*) AS shortest_share,
    try_cast(sum(dur_ns - latency_ns) AS BIGINT) AS longer_ns,
    try_cast(sum(dur_ns) AS BIGINT) AS communication_ns
FROM waits
GROUP BY run, rank
ORDER BY run, longer_ns, rank
