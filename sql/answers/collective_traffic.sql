-- collective_traffic: how many bytes each rank sends to each other one by all_to_all and send.
-- One row per (run, rank, peer_rank, process_group), by run, rank, peer_rank and group.
-- The n-th part of an all_to_all goes to the n-th rank of the process group, which is rank n of the run only in the group of all
-- ranks. Parts are equal where the source has no split sizes. What a rank keeps for itself is a row, too. Only what is known
-- counts: groups with their ranks, and data types; of other collectives the way of the bytes depends on the algorithm.
-- In a bare shell read from `sql/lib` first: lanes, devices, collectives.
-- needs: events, traces
-- run           VARCHAR        run that the trace belongs to
-- rank          INTEGER        rank that sends
-- peer_rank     INTEGER        rank that it sends to
-- process_group VARCHAR        process group; NULL where not known
-- calls         BIGINT         number of collectives
-- bytes         BIGINT  bytes  sum of what it sends to that rank, each rounded down; NULL beyond BIGINT
WITH matches AS MATERIALIZED (
    FROM collective_matches(events, traces)
),
members AS (
    SELECT
        run, process_group, of_group, member.rank AS rank, member.in_bytes AS in_bytes, member.kind AS kind,
        member.peer_rank AS peer_rank,
        from_json(json_text(member.in_splits), '["BIGINT"]') AS splits
    FROM (SELECT *, unnest(members) AS member FROM matches)
    WHERE member.in_bytes IS NOT NULL AND (group_ranks IS NOT NULL OR member.peer_rank IS NOT NULL)
),
parts AS (
    SELECT
        run, rank, process_group, in_bytes::HUGEINT AS in_bytes, unnest(of_group) AS peer_rank,
        unnest(coalesce(splits, list_transform(of_group, lambda r: 1::BIGINT)))::HUGEINT AS split,
        coalesce(list_sum(splits), len(of_group)) AS splits
    FROM members
    WHERE kind = 'all_to_all' AND len(of_group) > 0 AND coalesce(len(splits), len(of_group)) = len(of_group)
    UNION ALL
    SELECT run, rank, process_group, in_bytes, peer_rank, 1, 1
    FROM members
    WHERE kind = 'send' AND peer_rank IS NOT NULL
)
SELECT
    run,
    rank,
    peer_rank,
    process_group,
    count(*) AS calls,
    try_cast(sum(in_bytes * split // nullif(splits, 0)) AS BIGINT) AS bytes
FROM parts
GROUP BY run, rank, peer_rank, process_group
ORDER BY run, rank, peer_rank, process_group
