-- expert_balance: how evenly expert tokens are spread over ranks: bytes and time.
-- One row per (run, step, collective, process_group, rank), or with per=collective one per collective and rank, in this order.
-- Counts every all_to_all in `collectives`, and the kernels of expert-parallel libraries (DeepEP and others) that dispatch tokens
-- to experts or combine their results. Bytes are what the source gives for the rank's own input and output or, if it gives no
-- output, what all ranks of the group send to it; kernels of such libraries have none. A rank's transfer is its time without its
-- wait for the last rank; if waits are not known, transfer is not known either. Means are over ranks with the same other columns.
-- Unknown values come last.
-- In a bare shell read from `sql/lib` first: lanes, devices, collectives.
-- needs: events, traces
-- recorded: collective_calls
-- no rows: there is no all_to_all, dispatch or combine among the collectives
-- divides by: run
-- main columns: collective, received_over_mean, most_received_rank, transfer_over_mean, slowest_rank, step, rank
-- main columns: received_max_over_mean, received_bytes, sent_bytes, dur_ns, wait_ns, number
-- parameter per       VARCHAR(step|collective) = step  what each row is
-- parameter corrected BOOLEAN                  = true  correct clocks by the offsets of clock_skew, if all are known
-- run                    VARCHAR         run that the traces belong to
-- rank                   INTEGER         rank within the run
-- step                   BIGINT          profiler step; NULL outside steps
-- collective             VARCHAR         all_to_all, dispatch or combine
-- process_group          VARCHAR         process group; NULL if not known
-- number                 BIGINT          number of the collective in its run, as in collectives; NULL with per=step
-- ranks                  BIGINT          number of ranks in these rows
-- calls                  BIGINT          number of collectives
-- sent_bytes             BIGINT  bytes   bytes the rank sends, including to itself; NULL if one is not known
-- received_bytes         BIGINT  bytes   bytes it receives, including from itself; NULL if one is not known
-- received_over_mean     DOUBLE          received_bytes over the mean of the ranks; NULL if one is not known, or all are 0
-- received_max_over_mean DOUBLE          the largest of these
-- most_received_rank     INTEGER         rank that receives most, the lowest on a tie; NULL if one is not known
-- dur_ns                 BIGINT  ns      time of the collectives on the rank, including waits
-- wait_ns                BIGINT  ns      part of it before the last rank arrived; NULL if one is not known
-- transfer_ns            BIGINT  ns      the rest of it
-- transfer_over_mean     DOUBLE          transfer_ns over the mean of the ranks; NULL if one is not known, or all are 0
-- transfer_max_over_mean DOUBLE          the largest of these
-- slowest_rank           INTEGER         rank with the largest transfer_ns, the lowest on a tie; NULL if one is not known
-- is_corrected           BOOLEAN         whether clocks were corrected in all of them
WITH matches AS MATERIALIZED (
    FROM collective_matches(events, traces)
),
waits AS (
    FROM collective_waits(matches, traces, coalesce(getvariable('corrected'), true))
    WHERE is_exchange(kind)
),
-- What all the others say that they send to the rank.
arrived AS (
    SELECT match, peer_rank AS rank, try_cast(sum(bytes) AS BIGINT) AS bytes, count(*) AS senders
    FROM collective_transfers(matches)
    WHERE kind = 'all_to_all'
    GROUP BY match, peer_rank
),
sizes AS (
    SELECT
        sizes.match, member.rank AS rank, member.in_bytes AS in_bytes,
        coalesce(member.out_bytes, CASE WHEN senders = group_size THEN arrived.bytes END) AS out_bytes
    FROM (SELECT match, len(of_group) AS group_size, unnest(members) AS member FROM matches) AS sizes
    LEFT JOIN arrived ON sizes.match = arrived.match AND sizes.member.rank = arrived.rank
),
sums AS (
    SELECT
        waits.run, waits.rank, waits.step, waits.kind AS collective, waits.process_group,
        CASE WHEN coalesce(getvariable('per'), 'step') = 'collective' THEN waits.number END AS number,
        count(*) AS calls,
        CASE WHEN count(in_bytes) = count(*) THEN try_cast(sum(in_bytes) AS BIGINT) END AS sent_bytes,
        CASE WHEN count(out_bytes) = count(*) THEN try_cast(sum(out_bytes) AS BIGINT) END AS received_bytes,
        try_cast(sum(dur_ns) AS BIGINT) AS dur_ns,
        CASE WHEN count(wait_ns) = count(*) THEN try_cast(sum(least(wait_ns, dur_ns)) AS BIGINT) END AS wait_ns,
        bool_and(is_corrected) AS is_corrected
    FROM waits
    JOIN sizes ON waits.match = sizes.match AND waits.rank = sizes.rank
    GROUP BY ALL
),
compared AS (
    SELECT
        *,
        dur_ns - wait_ns AS transfer_ns,
        count(*) OVER beside AS ranks,
        CASE WHEN count(received_bytes) OVER beside = count(*) OVER beside THEN received_bytes END AS known_bytes,
        CASE WHEN count(wait_ns) OVER beside = count(*) OVER beside THEN dur_ns - wait_ns END AS known_ns
    FROM sums
    WINDOW beside AS (PARTITION BY run, step, collective, process_group, number)
)
SELECT
    run,
    rank,
    step,
    collective,
    process_group,
    number,
    ranks,
    calls,
    sent_bytes,
    received_bytes,
    known_bytes * ranks / nullif(sum(known_bytes) OVER beside, 0) AS received_over_mean,
    max(known_bytes) OVER beside * ranks / nullif(sum(known_bytes) OVER beside, 0) AS received_max_over_mean,
    CASE WHEN known_bytes IS NOT NULL THEN arg_min(rank, {'most': -known_bytes, 'rank': rank}) OVER beside END
        AS most_received_rank,
    dur_ns,
    wait_ns,
    transfer_ns,
    known_ns * ranks / nullif(sum(known_ns) OVER beside, 0) AS transfer_over_mean,
    max(known_ns) OVER beside * ranks / nullif(sum(known_ns) OVER beside, 0) AS transfer_max_over_mean,
    CASE WHEN known_ns IS NOT NULL THEN arg_min(rank, {'most': -known_ns, 'rank': rank}) OVER beside END AS slowest_rank,
    is_corrected
FROM compared
WINDOW beside AS (PARTITION BY run, step, collective, process_group, number)
ORDER BY run, step NULLS LAST, collective, process_group NULLS LAST, number, rank
