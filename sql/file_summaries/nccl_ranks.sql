-- nccl_ranks: which ranks hold up the others, by durations alone.
-- One row per (run, rank) that takes part in collectives with others, the rank that holds up the others the most first.
-- All ranks leave a collective that waits for all of them at the same time (all_reduce, all_gather, reduce_scatter, all_to_all,
-- barrier), so the rank with the shortest duration came last, and the others waited by the time that theirs is longer. It held
-- them up from the arrival of the second-to-last, as in stragglers. Only collectives with records of all their ranks count: the
-- last one may be missing in others. Traces do not count.
-- In a bare shell read from `sql/lib` first: lanes, devices, collectives.
-- needs: traces, recorded_collectives
-- run              VARCHAR       run that the records belong to
-- rank             INTEGER       rank within the run
-- collectives      BIGINT        number of such collectives that it took part in
-- times_last       BIGINT        number of them in which its duration is shorter than those of all others
-- held_up_ns       BIGINT  ns    sum of the times by which the second shortest duration is longer than its own
-- wait_ns          BIGINT  ns    sum of the times by which its own are longer than the shortest: what it waited
-- communication_ns BIGINT  ns    sum of its durations
WITH noted AS MATERIALIZED (
    FROM recorded_parts(recorded_collectives)
),
matches AS MATERIALIZED (
    FROM matched_parts('noted', traces)
),
waits AS (
    SELECT
        run, rank, dur_ns, latency_ns,
        CASE
            WHEN row_number() OVER by_duration = 1 THEN lead(dur_ns) OVER by_duration - dur_ns
            ELSE 0
        END AS held_up_ns
    FROM collective_waits(matches, traces, true)
    WHERE
        ranks > 1
        AND coalesce(ranks = expected_ranks, true)
        AND kind IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier')
    WINDOW by_duration AS (PARTITION BY match ORDER BY dur_ns, rank)
)
SELECT
    run,
    rank,
    count(*) AS collectives,
    count(*) FILTER (held_up_ns > 0) AS times_last,
    try_cast(sum(held_up_ns) AS BIGINT) AS held_up_ns,
    try_cast(sum(dur_ns - latency_ns) AS BIGINT) AS wait_ns,
    try_cast(sum(dur_ns) AS BIGINT) AS communication_ns
FROM waits
GROUP BY run, rank
ORDER BY run, held_up_ns DESC, rank
