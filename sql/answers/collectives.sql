-- collectives: collectives matched across the ranks of each run: waits, latency, bandwidth, mismatches.
-- One row per collective, or with per=rank one per collective and rank, by run, number and rank.
-- A collective is a set of kernels of a communication library that belong together, or its slice on the host (gloo, mpi). Ranks
-- are matched by process group and the source's sequence number (`seq`). Without one, the n-th collective of a kind in a group
-- matches the n-th on the other ranks (`order`), counted within each profiler step if ranks have the same steps: a missing
-- collective shifts those after it. Sends and receives are matched for each pair of ranks separately.
-- If the group is not known, it is assumed to be the whole run. All columns except waits describe only the ranks that are loaded.
-- mismatch lists words: collective, size, dtype, group: ranks disagree on it; missing_rank: a rank of the group is loaded but
-- lacks this collective; not_loaded: a rank of the group is not loaded, or has no record of it from NCCL's plugin, which does not
-- write all of them; unmatched: the other side of a send is not known.
-- Ranks are compared on one clock if clock_skew knows the offsets of all of them; otherwise times are as recorded, and
-- is_corrected says so. If traces.clock is then unknown or differs between ranks, waits are unknown; so are those of a single
-- rank. start_ns and dur_ns are on the rank's own clock.
-- bytes is the total size on one rank: output for all_gather, input for reduce_scatter; for all_to_all the mean over ranks.
-- bus_gb_per_s is algorithm_gb_per_s times 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter, all_to_all, gather,
-- scatter, 1 for broadcast, reduce, send and recv; n is expected_ranks. Both are over latency_ns; 1 GB is 10^9 bytes.
-- In a bare shell read from `sql/lib` first: lanes, devices, collectives.
-- needs: events, traces, recorded_collectives
-- recorded: collective_calls
-- divides by: run
-- main columns: collective, rank, bytes, latency_ns, bus_gb_per_s, dur_ns, wait_ns, last_rank, number, mismatch, dtype, step
-- main columns: start_ns
-- parameter per        VARCHAR(collective|rank|size) = collective  what each row is; size: a group, operation, data type and size
-- parameter mismatched BOOLEAN                       = false       only collectives with a mismatch other than not_loaded
-- parameter corrected  BOOLEAN                       = true        correct clocks by the offsets of clock_skew, if all are known
-- run                VARCHAR        run that the traces belong to
-- ranks              BIGINT         number of ranks that took part
-- number             BIGINT         number of the collective in its run, by start on its lowest rank
-- rank               INTEGER        rank; NULL with per=collective
-- process_group      VARCHAR        process group; NULL if not known
-- collective         VARCHAR        the operation as the source names it; else from the name of its kernel
-- collective_seq     BIGINT         sequence number in its group, from the source; NULL if it has none
-- matched_by         VARCHAR        seq or order; none if no other rank has it
-- expected_ranks     BIGINT         number of ranks in its group; NULL if not known
-- missing_ranks      VARCHAR        ranks of the group that are known to lack it: 2,5; NULL if none
-- mismatch           VARCHAR        what does not fit, see above; NULL if everything does
-- step               BIGINT         profiler step of its launch, the lowest of its ranks; NULL outside steps
-- dtype              VARCHAR        data type of its elements, as the source names it; NULL if not known
-- bytes              BIGINT  bytes  its size, see above; the largest if ranks differ; NULL if not known
-- imbalance          DOUBLE         largest over mean size of the ranks; NULL if not known
-- event_id           BIGINT         event_id of the rank's first kernel; NULL with per=collective
-- kernels            BIGINT         number of kernels
-- start_ns           BIGINT  ns     start on the rank, on its own clock; with per=collective the earliest
-- dur_ns             BIGINT  ns     duration on the rank, first start to last end of its kernels; with per=collective the longest
-- wait_ns            BIGINT  ns     time from the rank's start to the last rank's; with per=collective the mean, rounded half up
-- transfer_ns        BIGINT  ns     rest of dur_ns, after the last rank arrived; with per=collective the mean, rounded half up
-- start_skew_ns      BIGINT  ns     last start minus first: the longest wait
-- end_skew_ns        BIGINT  ns     last end minus first
-- last_rank          INTEGER        rank that arrived last, the lowest on a tie
-- latency_ns         BIGINT  ns     shortest duration of a rank: that of the last one, which did not wait
-- algorithm_gb_per_s DOUBLE  GB/s   bytes over latency_ns
-- bus_gb_per_s       DOUBLE  GB/s   the same for the slowest link, see above
-- is_corrected       BOOLEAN        clocks were corrected: requested by the parameter, and all offsets known
WITH matches AS MATERIALIZED (
    FROM all_matches(events, traces, recorded_collectives)
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
