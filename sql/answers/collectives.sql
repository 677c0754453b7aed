-- collectives: collectives matched across the ranks of each run: waits, latency, bandwidth, mismatches.
-- One row per collective, or with per=rank one per rank of each, by run, number and rank.
-- A collective is the kernels of a communication library that belong together, or its slice on the host (gloo, mpi). Ranks are
-- matched by process group and the number that the source gives (`seq`); where there is none, the n-th of a kind in a group is
-- that of the other ranks (`order`), counted in each profiler step where ranks have the same ones: one that is missing shifts
-- those after it. Of sends and receives each pair of ranks counts alone.
-- Where the group is not known, it is taken to be the whole run. All but waits is of the ranks that are there.
-- mismatch lists in words: collective, size, dtype, group: ranks say different things; missing_rank: a rank of the group has a
-- trace, but not this in it; not_loaded: of a rank of the group nothing is here; unmatched: the other side of a send is not
-- known.
-- Ranks are compared on one clock, where clock_skew knows the offsets of all of them; else as their clocks have it,
-- and is_corrected says so. Where traces.clock is then unknown, or not the same for all, nothing is known of waits; nor of a rank
-- alone. start_ns and dur_ns are by the rank's own clock.
-- bytes is what all of it comes to on one rank: out for all_gather, in for reduce_scatter; of all_to_all the mean over ranks.
-- bus_gb_per_s is that times 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter, all_to_all, gather, scatter, 1 for
-- broadcast, reduce, send and recv; n is expected_ranks. Both are over latency_ns; 1 GB is 10^9 bytes.
-- In a bare shell read from `sql/lib` first: lanes, devices, collectives.
-- needs: events, traces
-- recorded: collective_calls
-- parameter per        VARCHAR(collective|rank) = collective  what has a row of its own
-- parameter mismatched BOOLEAN                  = false       only those with a mismatch other than not_loaded
-- parameter corrected  BOOLEAN                  = true        take the offsets of clock_skew off the clocks, where all are known
-- run                VARCHAR        run that the traces belong to
-- ranks              BIGINT         number of ranks that have it
-- number             BIGINT         number of the collective in its run, by its start on its lowest rank
-- rank               INTEGER        rank; NULL with per=collective
-- process_group      VARCHAR        process group; NULL where not known
-- collective         VARCHAR        what it does, in the source's word; else by the name of its kernel
-- collective_seq     BIGINT         number of it in its group, as the source has it; NULL where it has none
-- matched_by         VARCHAR        seq or order; none where no other rank has it
-- expected_ranks     BIGINT         number of ranks in its group; NULL where not known
-- missing_ranks      VARCHAR        ranks of the group that have it not, as far as known: 2,5; NULL where none
-- mismatch           VARCHAR        what does not fit, see above; NULL where all does
-- step               BIGINT         profiler step that it was launched in, the lowest of its ranks; NULL in none
-- dtype              VARCHAR        data type of its elements, in the source's word; NULL where not known
-- bytes              BIGINT  bytes  size of it, see above; the largest where ranks differ; NULL where not known
-- imbalance          DOUBLE         largest over mean size of the ranks; NULL where not known
-- event_id           BIGINT         event_id of the rank's first kernel; NULL with per=collective
-- kernels            BIGINT         number of kernels
-- start_ns           BIGINT  ns     start on the rank, by its own clock; with per=collective the earliest
-- dur_ns             BIGINT  ns     duration on the rank, first start to last end of its kernels; with per=collective the longest
-- wait_ns            BIGINT  ns     time from the rank's start to the last rank's; with per=collective the mean, rounded half up
-- transfer_ns        BIGINT  ns     rest of dur_ns, after the last rank came; with per=collective the mean, rounded half up
-- start_skew_ns      BIGINT  ns     last start minus first: the longest wait
-- end_skew_ns        BIGINT  ns     last end minus first
-- last_rank          INTEGER        rank that came last, the lowest on a tie
-- latency_ns         BIGINT  ns     shortest duration of a rank: that of the last one, who did not wait
-- algorithm_gb_per_s DOUBLE  GB/s   bytes over latency_ns
-- bus_gb_per_s       DOUBLE  GB/s   the same for the slowest link, see above
-- is_corrected       BOOLEAN        clocks were corrected: the parameter asks for it, and all offsets are known
WITH matches AS MATERIALIZED (
    FROM collective_matches(events, traces)
),
waits AS (
    FROM collective_waits(matches, traces, coalesce(getvariable('corrected'), true))
)
SELECT
    run,
    any_value(ranks) AS ranks,
    number,
    CASE WHEN coalesce(getvariable('per'), 'collective') = 'rank' THEN rank END AS rank,
    any_value(process_group) AS process_group,
    any_value(collective) AS collective,
    any_value(collective_seq) AS collective_seq,
    any_value(matched_by) AS matched_by,
    any_value(expected_ranks) AS expected_ranks,
    any_value(missing_ranks) AS missing_ranks,
    any_value(mismatch) AS mismatch,
    any_value(step) AS step,
    any_value(element_type) AS dtype,
    any_value(bytes) AS bytes,
    any_value(imbalance) AS imbalance,
    CASE WHEN coalesce(getvariable('per'), 'collective') = 'rank' THEN any_value(event_id) END AS event_id,
    sum(kernels)::BIGINT AS kernels,
    min(start_ns) AS start_ns,
    max(dur_ns) AS dur_ns,
    round(avg(wait_ns))::BIGINT AS wait_ns,
    round(avg(transfer_ns))::BIGINT AS transfer_ns,
    any_value(start_skew_ns) AS start_skew_ns,
    any_value(end_skew_ns) AS end_skew_ns,
    any_value(last_rank) AS last_rank,
    any_value(latency_ns) AS latency_ns,
    any_value(algorithm_gb_per_s) AS algorithm_gb_per_s,
    any_value(bus_gb_per_s) AS bus_gb_per_s,
    any_value(is_corrected) AS is_corrected
FROM waits
WHERE NOT coalesce(getvariable('mismatched'), false) OR mismatch <> 'not_loaded'
GROUP BY ALL
ORDER BY run, number, rank
