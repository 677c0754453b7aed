-- collective_traffic: how many bytes each rank sends to each other rank by all_to_all and send.
-- One row per (run, rank, peer_rank, process_group), by run, rank, peer_rank and group.
-- The n-th part of an all_to_all goes to the n-th rank of the process group, which is rank n of the run only in the group of all
-- ranks. Parts are equal if the source has no split sizes, or an empty list; if all sizes are 0, nothing is sent: 0 bytes. What a
-- rank keeps for itself is a row, too. Only complete records count: groups with known ranks, data types, and whole lists of
-- sizes. For other collectives, the route of the bytes depends on the algorithm.
-- In a bare shell read from `sql/lib` first: lanes, devices, collectives.
-- needs: events, traces, recorded_collectives
-- recorded: collective_calls
-- no rows: there is no all_to_all and no send of which group, type and sizes are known
-- divides by: run
-- main columns: rank, peer_rank, bytes, calls, process_group
-- run           VARCHAR        run that the trace belongs to
-- rank          INTEGER        rank that sends
-- peer_rank     INTEGER        rank that it sends to
-- process_group VARCHAR        process group; NULL if not known
-- calls         BIGINT         number of collectives
-- bytes         BIGINT  bytes  sum of bytes sent to that rank, each rounded down; NULL beyond BIGINT
WITH matches AS MATERIALIZED (
    FROM all_matches(events, traces, recorded_collectives)
)
SELECT
    run,
    rank,
    peer_rank,
    process_group,
    count(*) AS calls,
    try_cast(sum(bytes) AS BIGINT) AS bytes
FROM collective_transfers(matches)
GROUP BY run, rank, peer_rank, process_group
ORDER BY run, rank, peer_rank, process_group
