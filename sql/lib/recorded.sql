-- Collectives, sends and receives in the flight recorders of all ranks, and those that do not fit together.

-- recorded_calls: one row per record of a flight recorder, with the group, number and place by which ranks share it, and whether
-- it has ended. For coalesced calls, only the record of all of them says how far they came. gloo only says that nothing waits
-- for a call any more, which is also true after a timeout. If a dump does not say which ranks are in a group, the other ranks'
-- dumps count if they agree.
-- parameter recorded TABLE  `recorded_collectives`, or a part of it
-- parameter groups TABLE  `process_groups` of the same runs
-- column run, rank, record_id, process_group, process_group_description, group_ranks, kind  as in recorded_collectives
-- column group_size, backend, peer_rank, input_sizes, input_dtypes, output_sizes, output_dtypes  as in recorded_collectives
-- column state, is_retired, created_ns, timeout_ns, stack_id  as in recorded_collectives
-- column is_p2p BOOLEAN  whether it is a send or receive; false if not known
-- column seq BIGINT  collective_seq, or p2p_seq for sends and receives
-- column turn BIGINT  place among the rank's records of that number
-- column is_open BOOLEAN  whether it has not ended
-- column signature VARCHAR  kind, sizes and types that must be the same on all ranks
-- column sizes VARCHAR  sizes that must be the same
-- column dtypes VARCHAR  types that must be the same
-- column is_all_to_all BOOLEAN  whether the total sent must equal the total received
-- column in_elements BIGINT  number of elements that it sends
-- column out_elements BIGINT  number of elements that it receives
-- example: FROM recorded_calls(recorded_collectives, process_groups)
CREATE OR REPLACE TEMP MACRO recorded_calls(recorded, groups) AS TABLE
WITH plain AS (
    SELECT
        calls.* EXCLUDE (is_p2p, group_ranks),
        coalesce(calls.group_ranks, agreed.group_ranks) AS group_ranks,
        coalesce(is_p2p, false) AS is_p2p,
        CASE WHEN is_p2p THEN p2p_seq ELSE collective_seq END AS seq,
        CASE
            WHEN backend = 'gloo' OR state IS NULL THEN NOT coalesce(is_retired, false)
            ELSE state <> 'completed'
        END AS own_open,
        regexp_matches(kind, '(?i)all_?to_?all') AS is_all_to_all,
        regexp_matches(kind, '_v(_|$)') AS is_uneven
    FROM query_table(recorded) AS calls
    LEFT JOIN agreed_ranks(groups) AS agreed ON calls.run = agreed.run AND calls.process_group = agreed.process_group
    WHERE NOT is_of_plugin(calls.recorder)
),
placed AS (
    SELECT
        *,
        row_number() OVER (of_number ORDER BY record_id) AS turn,
        coalesce(bool_or(own_open) FILTER (kind = 'coalesced') OVER of_number, own_open) AS is_open,
        CASE WHEN NOT (is_all_to_all OR is_uneven OR kind = 'scatter') THEN input_sizes END AS compared_inputs,
        CASE WHEN NOT (is_all_to_all OR is_uneven OR kind = 'gather') THEN output_sizes END AS compared_outputs,
        CASE WHEN kind NOT IN ('scatter', 'broadcast') THEN input_dtypes END AS compared_input_dtypes,
        CASE WHEN kind <> 'gather' THEN output_dtypes END AS compared_output_dtypes
    FROM plain
    WINDOW of_number AS (PARTITION BY run, rank, process_group, group_ranks, is_p2p, seq)
)
SELECT
    run, rank, record_id, process_group, process_group_description, group_ranks, group_size, is_p2p, seq, turn, kind, backend,
    peer_rank, input_sizes, input_dtypes, output_sizes, output_dtypes, state, is_retired, created_ns, timeout_ns, stack_id,
    is_open,
    concat_ws(' ', compared_inputs, '->', compared_outputs) AS sizes,
    concat_ws(' ', compared_input_dtypes, '->', compared_output_dtypes) AS dtypes,
    concat_ws(' ', kind, compared_inputs, '->', compared_outputs, compared_input_dtypes, '->',
    compared_output_dtypes) AS signature,
    is_all_to_all,
    shape_elements(input_sizes) AS in_elements,
    shape_elements(output_sizes) AS out_elements
FROM placed;

-- agreed_ranks: the ranks of each process group, if all dumps that list them agree.
-- parameter groups TABLE  `process_groups`, or a part of it
-- column run, process_group, group_ranks  as in process_groups
-- example: FROM agreed_ranks(process_groups)
CREATE OR REPLACE TEMP MACRO agreed_ranks(groups) AS TABLE
SELECT run, process_group, min(group_ranks) AS group_ranks
FROM query_table(groups)
GROUP BY run, process_group
HAVING min(group_ranks) = max(group_ranks);

-- shape_elements: number of elements of tensors.
-- parameter sizes VARCHAR  JSON list of shapes
-- returns BIGINT  elements of all of them; NULL if the list is invalid
-- example: SELECT shape_elements('[[2,3],[4]]')
CREATE OR REPLACE TEMP MACRO shape_elements(sizes) AS try_cast(list_sum(list_transform(
    from_json(json_text(sizes), '["BIGINT[]"]'),
    lambda shape: CASE WHEN len(shape) = 0 THEN 1 ELSE list_product(shape) END
)) AS BIGINT);

-- recorded_members: one row per process group and rank in it, with how far the rank came. If the ranks of a group are not known,
-- all ranks with a dump are in the default group, and in other groups those with a record or a status of it. `last_seq` comes
-- from the last record, or, if all were overwritten and the group has no sends, from the status.
-- parameter recorded TABLE  `recorded_collectives`
-- parameter groups TABLE  `process_groups` of the same runs
-- parameter traces TABLE  `traces` of the same runs
-- column run, process_group, process_group_description, group_ranks, rank  as in process_groups
-- column is_loaded BOOLEAN  whether the rank's dump is loaded
-- column first_seq BIGINT  lowest number of a collective that its dump still has
-- column last_seq BIGINT  highest collective number that it has called; 0 if it called none; NULL if not known
-- column completed_seq BIGINT  highest number of a collective that ended there
-- column last_record_id BIGINT  record_id of its last collective in the group
-- example: FROM recorded_members(recorded_collectives, process_groups, traces)
CREATE OR REPLACE TEMP MACRO recorded_members(recorded, groups, traces) AS TABLE
WITH calls AS MATERIALIZED (
    FROM recorded_calls(recorded, groups)
),
configured AS MATERIALIZED (
    SELECT configs.* EXCLUDE (group_ranks), coalesce(configs.group_ranks, agreed.group_ranks) AS group_ranks
    FROM query_table(groups) AS configs
    LEFT JOIN agreed_ranks(groups) AS agreed ON configs.run = agreed.run AND configs.process_group = agreed.process_group
),
dumps AS MATERIALIZED (
    SELECT run, rank FROM query_table(traces) WHERE format = 'flight_recorder'
    UNION
    SELECT run, rank FROM calls
    UNION
    SELECT run, rank FROM configured
),
rings AS (
    SELECT run, rank, min(record_id) AS first_record_id
    FROM calls
    GROUP BY run, rank
),
seen AS (
    SELECT run, process_group, process_group_description, group_ranks, rank FROM calls
    UNION
    SELECT run, process_group, process_group_description, group_ranks, rank FROM configured
),
groups_of_runs AS (
    SELECT run, process_group, max(process_group_description) AS process_group_description, group_ranks, list(rank) AS ranks
    FROM seen
    GROUP BY run, process_group, group_ranks
),
wide AS (
    SELECT
        groups_of_runs.run, process_group, process_group_description, group_ranks,
        unnest(CASE
            WHEN group_ranks IS NOT NULL THEN from_json(json_text(group_ranks), '["INTEGER"]')
            WHEN process_group_description = 'default_pg' THEN of_run.ranks
            ELSE list_distinct(groups_of_runs.ranks)
        END) AS rank
    FROM groups_of_runs
    JOIN (SELECT run, list(rank) AS ranks FROM dumps GROUP BY run) AS of_run ON groups_of_runs.run = of_run.run
),
reached AS (
    SELECT
        run, process_group, group_ranks, rank,
        min(seq) FILTER (NOT is_p2p) AS first_seq,
        max(seq) FILTER (NOT is_p2p) AS last_seq,
        max(seq) FILTER (NOT is_p2p AND NOT is_open) AS completed_seq,
        max(record_id) FILTER (NOT is_p2p) AS last_record_id
    FROM calls
    GROUP BY run, process_group, group_ranks, rank
),
mixed AS (
    SELECT run, process_group, group_ranks, bool_or(is_p2p) AS has_p2p
    FROM calls
    GROUP BY run, process_group, group_ranks
),
statuses AS (
    SELECT
        run, process_group, group_ranks, rank, max(last_enqueued_seq) AS last_enqueued_seq,
        max(last_completed_seq) AS last_completed_seq
    FROM configured
    GROUP BY run, process_group, group_ranks, rank
)
SELECT
    wide.run, wide.process_group, wide.process_group_description, wide.group_ranks, wide.rank,
    dumps.rank IS NOT NULL AS is_loaded,
    reached.first_seq,
    CASE
        WHEN reached.last_seq IS NOT NULL THEN reached.last_seq
        WHEN dumps.rank IS NULL THEN NULL
        WHEN NOT coalesce(mixed.has_p2p, false) AND statuses.last_enqueued_seq IS NOT NULL THEN statuses.last_enqueued_seq
        WHEN coalesce(rings.first_record_id, 0) = 0 THEN 0
    END AS last_seq,
    coalesce(
        reached.completed_seq, CASE WHEN NOT coalesce(mixed.has_p2p, false) THEN statuses.last_completed_seq END
    ) AS completed_seq,
    reached.last_record_id
FROM wide
LEFT JOIN dumps ON wide.run = dumps.run AND wide.rank = dumps.rank
LEFT JOIN rings ON wide.run = rings.run AND wide.rank = rings.rank
LEFT JOIN reached
    ON wide.run = reached.run
    AND wide.rank = reached.rank
    AND wide.process_group IS NOT DISTINCT FROM reached.process_group
    AND wide.group_ranks IS NOT DISTINCT FROM reached.group_ranks
LEFT JOIN mixed
    ON wide.run = mixed.run
    AND wide.process_group IS NOT DISTINCT FROM mixed.process_group
    AND wide.group_ranks IS NOT DISTINCT FROM mixed.group_ranks
LEFT JOIN statuses
    ON wide.run = statuses.run
    AND wide.rank = statuses.rank
    AND wide.process_group IS NOT DISTINCT FROM statuses.process_group
    AND wide.group_ranks IS NOT DISTINCT FROM statuses.group_ranks;

-- hang_ranks: one row per rank of the group, for each collective that a rank did not reach, whose ranks do not fit together, or
-- which did not end. For each rank and group the first collective that it did not reach counts. Sends and receives are matched in
-- order: all from the first on, or, if a recorder has lost some, those that have not ended. gloo notes the end of a call a moment
-- after it: a call that all ranks of the group made, and that fits, is never not_ended.
-- parameter recorded TABLE  `recorded_collectives`
-- parameter groups TABLE  `process_groups` of the same runs
-- parameter traces TABLE  `traces` of the same runs
-- column run, process_group, process_group_description, group_ranks, rank, record_id, created_ns  as in recorded_collectives
-- column seq, turn, is_p2p, is_open  as in recorded_calls
-- column kind VARCHAR  the operation that the rank called; for sends and receives: send and recv
-- column line VARCHAR  `0>1` for a send and receive; empty for others
-- column role VARCHAR  late, waits, other (it differs from most), arrived, not_loaded or overwritten
-- column finding VARCHAR  missing_rank kind order size dtype not_ended, separated by blanks
-- example: FROM hang_ranks(recorded_collectives, process_groups, traces)
CREATE OR REPLACE TEMP MACRO hang_ranks(recorded, groups, traces) AS TABLE
WITH calls AS MATERIALIZED (
    FROM recorded_calls(recorded, groups)
),
members AS MATERIALIZED (
    FROM recorded_members(recorded, groups, traces)
),
rings AS (
    SELECT run, rank, min(record_id) > 0 AS has_lost
    FROM calls
    GROUP BY run, rank
),
one_to_one AS (
    SELECT
        calls.*,
        CASE WHEN kind = 'send' THEN calls.rank || '>' || peer_rank ELSE peer_rank || '>' || calls.rank END AS line,
        row_number() OVER (
            PARTITION BY calls.run, process_group, group_ranks, kind = 'send', calls.rank, peer_rank ORDER BY record_id
        ) AS place
    FROM calls
    LEFT JOIN rings AS own ON calls.run = own.run AND calls.rank = own.rank
    LEFT JOIN rings AS peer ON calls.run = peer.run AND calls.peer_rank = peer.rank
    WHERE
        is_p2p AND kind IN ('send', 'recv') AND peer_rank IS NOT NULL
        AND (is_open OR NOT coalesce(own.has_lost OR peer.has_lost, false))
),
keyed AS MATERIALIZED (
    SELECT
        run, process_group, process_group_description, group_ranks, rank, record_id, false AS is_p2p, seq, turn, '' AS line, kind,
        signature, sizes, dtypes, is_open, backend, state, is_all_to_all, in_elements, out_elements, created_ns
    FROM calls
    WHERE NOT is_p2p AND seq IS NOT NULL
    UNION ALL
    SELECT
        run, process_group, process_group_description, group_ranks, rank, record_id, true, NULL, place, line, 'send and recv',
        CASE WHEN kind = 'send' THEN input_sizes ELSE output_sizes END,
        CASE WHEN kind = 'send' THEN input_sizes ELSE output_sizes END,
        CASE WHEN kind = 'send' THEN input_dtypes ELSE output_dtypes END,
        is_open, backend, state, false, NULL, NULL, created_ns
    FROM one_to_one
),
counted AS (
    SELECT *, count(*) OVER (
        PARTITION BY run, process_group, group_ranks, is_p2p, seq, turn, line, signature
    ) AS alike,
    min(rank) OVER (PARTITION BY run, process_group, group_ranks, is_p2p, seq, turn, line, signature) AS lowest
    FROM keyed
),
meetings AS MATERIALIZED (
    SELECT
        run, process_group, group_ranks, is_p2p, seq, turn, line,
        max(process_group_description) AS process_group_description,
        first(signature ORDER BY alike DESC, lowest) AS most_signature,
        coalesce(min(kind) < max(kind), false) AS has_kinds,
        coalesce(min(sizes) < max(sizes), false) AS has_sizes,
        coalesce(min(dtypes) < max(dtypes), false) AS has_dtypes,
        coalesce(bool_and(backend = 'gloo'), false) AS is_gloo,
        bool_or(is_all_to_all) AND sum(in_elements) <> sum(out_elements) AS has_sums,
        bool_or(is_open) AS has_open,
        bool_or(is_open OR backend = 'gloo') AS may_wait,
        count(DISTINCT rank) AS ranks
    FROM counted
    GROUP BY run, process_group, group_ranks, is_p2p, seq, turn, line
    HAVING NOT is_p2p OR bool_or(is_open)
),
expected AS (
    SELECT
        meetings.*, members.rank, members.is_loaded,
        CASE
            WHEN NOT members.is_loaded THEN 'not_loaded'
            WHEN keyed.rank IS NOT NULL THEN 'arrived'
            WHEN meetings.is_p2p THEN 'late'
            WHEN members.last_seq < meetings.seq THEN 'late'
            WHEN members.last_seq IS NULL OR meetings.seq < members.first_seq OR members.first_seq IS NULL THEN 'overwritten'
            ELSE 'late'
        END AS presence,
        keyed.record_id, keyed.is_open, keyed.signature, keyed.created_ns, keyed.kind
    FROM meetings
    JOIN members
        ON meetings.run = members.run
        AND meetings.process_group IS NOT DISTINCT FROM members.process_group
        AND meetings.group_ranks IS NOT DISTINCT FROM members.group_ranks
        AND (meetings.line = '' OR list_contains(string_split(meetings.line, '>'), members.rank::VARCHAR))
    LEFT JOIN keyed
        ON meetings.run = keyed.run
        AND members.rank = keyed.rank
        AND meetings.process_group IS NOT DISTINCT FROM keyed.process_group
        AND meetings.group_ranks IS NOT DISTINCT FROM keyed.group_ranks
        AND meetings.is_p2p = keyed.is_p2p
        AND meetings.seq IS NOT DISTINCT FROM keyed.seq
        AND meetings.turn = keyed.turn
        AND meetings.line = keyed.line
),
firsts AS MATERIALIZED (
    SELECT
        *,
        presence = 'late' AND may_wait
        AND row_number() OVER (
            PARTITION BY run, process_group, group_ranks, line, rank, presence = 'late' AND may_wait ORDER BY seq, turn
        ) = 1 AS is_first_late,
        presence = 'arrived' AND signature IS DISTINCT FROM most_signature AS is_other
    FROM expected
),
swapped AS (
    SELECT DISTINCT one.run, one.process_group, one.group_ranks, one.seq, one.turn
    FROM firsts AS one
    JOIN firsts AS two
        ON one.run = two.run
        AND one.rank = two.rank
        AND one.process_group IS NOT DISTINCT FROM two.process_group
        AND one.group_ranks IS NOT DISTINCT FROM two.group_ranks
        AND (one.seq, one.turn) <> (two.seq, two.turn)
    WHERE
        one.line = '' AND two.line = '' AND one.is_other AND two.is_other AND one.signature = two.most_signature
        AND two.signature = one.most_signature
),
words AS (
    SELECT
        firsts.run, firsts.process_group, firsts.group_ranks, firsts.is_p2p, firsts.seq, firsts.turn, firsts.line,
        bool_or(is_first_late) AS lacks,
        concat_ws(
            ' ',
            CASE WHEN bool_or(is_first_late) THEN 'missing_rank' END,
            CASE WHEN bool_or(has_kinds) THEN 'kind' END,
            CASE WHEN any_value(swapped.seq) IS NOT NULL THEN 'order' END,
            CASE
                WHEN bool_or(has_kinds) THEN NULL
                WHEN bool_or(has_sizes) OR bool_or(has_sums) AND bool_and(presence = 'arrived') THEN 'size'
            END,
            CASE WHEN bool_or(has_dtypes) AND NOT bool_or(has_kinds) THEN 'dtype' END,
            CASE
                WHEN bool_or(has_open) AND NOT bool_or(presence = 'late') AND NOT bool_or(has_kinds OR has_sizes OR has_dtypes)
                    AND NOT (
                        bool_or(is_gloo) AND bool_and(presence <> 'not_loaded') AND (
                            bool_or(firsts.group_ranks IS NOT NULL OR firsts.process_group_description = 'default_pg')
                            OR NOT bool_and(is_open)
                        )
                    )
                THEN 'not_ended'
            END
        ) AS finding
    FROM firsts
    LEFT JOIN swapped
        ON firsts.run = swapped.run
        AND firsts.process_group IS NOT DISTINCT FROM swapped.process_group
        AND firsts.group_ranks IS NOT DISTINCT FROM swapped.group_ranks
        AND firsts.seq = swapped.seq
        AND firsts.turn = swapped.turn
    GROUP BY ALL
    HAVING finding <> ''
)
SELECT
    firsts.run, firsts.process_group, firsts.process_group_description, firsts.group_ranks, firsts.is_p2p, firsts.seq,
    firsts.turn,
    firsts.line, firsts.rank, firsts.record_id, firsts.is_open, firsts.kind, firsts.created_ns, words.finding,
    CASE
        WHEN presence <> 'arrived' THEN presence
        WHEN is_other THEN 'other'
        WHEN firsts.is_open OR words.lacks THEN 'waits'
        ELSE 'arrived'
    END AS role
FROM firsts
JOIN words
    ON firsts.run = words.run
    AND firsts.process_group IS NOT DISTINCT FROM words.process_group
    AND firsts.group_ranks IS NOT DISTINCT FROM words.group_ranks
    AND firsts.is_p2p = words.is_p2p
    AND firsts.seq IS NOT DISTINCT FROM words.seq
    AND firsts.turn = words.turn
    AND firsts.line = words.line;

-- recorded_slices: one row per record and slice of the same run, rank, group and collective number: the op that recorded it, and
-- its kernels. A group is recognised by its name or its description. A record of a profiler plugin of NCCL has the row of its
-- first kernel, if that is certain. If no slice has that number, as with gloo, with sends and in
-- old traces, one row with the process group op (c10d::) in which the record was made: of several, the one that started last.
-- parameter recorded TABLE  `recorded_collectives`, or a part of it
-- parameter events TABLE  `events` of the same runs, or a part of it
-- column run, rank, record_id, process_group, collective_seq  as in recorded_collectives
-- column event_id, step, parent_id  as in events
-- column event_kind VARCHAR  kind of the slice
-- column op_id BIGINT  op of the slice: the slice itself if it is a host op
-- example: FROM recorded_slices(recorded_collectives, events)
CREATE OR REPLACE TEMP MACRO recorded_slices(recorded, events) AS TABLE
WITH numbered AS MATERIALIZED (
    SELECT
        records.run, records.rank, records.record_id, records.process_group, records.collective_seq, slices.event_id,
        slices.kind AS event_kind,
        CASE WHEN is_op(slices.kind) THEN slices.event_id ELSE slices.op_id END AS op_id,
        slices.step, slices.parent_id
    FROM query_table(recorded) AS records
    JOIN query_table(events) AS slices
        ON records.run = slices.run AND records.rank = slices.rank AND records.collective_seq = slices.collective_seq
    WHERE
        NOT coalesce(records.is_p2p, false)
        AND NOT is_of_plugin(records.recorder)
        AND slices.process_group IN (records.process_group, records.process_group_description)
),
others AS (
    SELECT run, rank, record_id, process_group, collective_seq, created_ns
    FROM query_table(recorded) AS records
    ANTI JOIN numbered USING (run, rank, record_id)
    WHERE NOT is_of_plugin(records.recorder)
)
FROM numbered
UNION ALL
SELECT
    records.run, records.rank, records.record_id, records.process_group, records.collective_seq, kernels.event_id,
    kernels.kind, kernels.op_id, kernels.step, kernels.parent_id
FROM query_table(recorded) AS records
JOIN query_table(events) AS kernels
    ON records.run = kernels.run AND records.rank = kernels.rank AND records.event_id = kernels.event_id
WHERE is_of_plugin(records.recorder)
UNION ALL
SELECT
    others.run, others.rank, others.record_id, others.process_group, others.collective_seq, op.event_id, op.kind AS event_kind,
    op.event_id AS op_id, op.step, op.parent_id
FROM others
JOIN query_table(events) AS op
    ON others.run = op.run
    AND others.rank = op.rank
    AND op.start_ns <= others.created_ns
    AND others.created_ns <= op.start_ns + op.dur_ns
WHERE is_op(op.kind) AND starts_with(op.name, 'c10d::')
QUALIFY row_number() OVER (
    PARTITION BY others.run, others.rank, others.record_id
    ORDER BY op.start_ns DESC, op.preorder DESC
) = 1;
