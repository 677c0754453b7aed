-- collective_traffic: how many bytes each rank sends to each other one by all_to_all and send.
-- One row per (run, rank, peer_rank, process_group), by run, rank, peer_rank and group.
-- The n-th part of an all_to_all goes to the n-th rank of the process group, which is rank n of the run only in the group of all
-- ranks. Parts are equal where the source has no split sizes, or an empty list; where all are 0 nothing is sent: 0 bytes. What a
-- rank keeps for itself is a row, too. Only what is known counts: groups with their ranks, data types, and lists of sizes that
-- are whole; of other collectives the way of the bytes depends on the algorithm.
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
        run, process_group, of_group, member.rank AS rank, member.in_bytes::HUGEINT AS in_bytes, member.kind AS kind,
        member.peer_rank AS peer_rank,
        CASE
            WHEN member.in_splits IS NULL OR translate(member.in_splits, ' ', '') IN ('', '[]')
                THEN list_transform(of_group, lambda r: 1::BIGINT)
            ELSE from_json(json_text(member.in_splits), '["BIGINT"]')
        END AS splits
    FROM (SELECT *, unnest(members) AS member FROM matches)
    WHERE group_ranks IS NOT NULL OR member.peer_rank IS NOT NULL
),
sized AS (
    SELECT * REPLACE (CASE WHEN list_sum(splits) = 0 THEN 0 ELSE in_bytes END AS in_bytes)
    FROM members
    WHERE
        kind = 'all_to_all' AND len(of_group) > 0 AND len(splits) = len(of_group)
        AND list_min(splits) >= 0 AND NOT list_contains(list_transform(splits, lambda size: size IS NULL), true)
),
parts AS (
    SELECT
        run, rank, process_group, in_bytes, unnest(of_group) AS peer_rank, unnest(splits)::HUGEINT AS split,
        coalesce(nullif(list_sum(splits), 0), 1) AS splits
    FROM sized
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
    try_cast(sum(in_bytes * split // splits) AS BIGINT) AS bytes
FROM parts
WHERE in_bytes IS NOT NULL
GROUP BY run, rank, peer_rank, process_group
ORDER BY run, rank, peer_rank, process_group
