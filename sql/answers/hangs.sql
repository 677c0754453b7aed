-- hangs: collectives that a rank did not reach, that ranks disagree about, or that did not end.
-- One row per (run, process_group, group_ranks, collective_seq, line) that hangs; the causes first, then by time.
-- Based on flight recorder dumps. A rank is late at the first collective of its group that others called and it did not. gloo
-- records no starts and ends, so with gloo a rank waits if it called what another rank did not. Ranks without a dump are never
-- late, nor are ranks whose recorder was full and has lost the records of that time.
-- finding: missing_rank: ranks did not arrive; kind, size, dtype: not the same on all ranks; order: the same calls in a different
-- order; not_ended: all loaded ranks arrived, but it has not ended.
-- In a bare shell read from `sql/lib` first: collectives, recorded, stacks.
-- needs: recorded_collectives, process_groups, stacks, traces
-- recorded: dumps
-- no rows: no collective hangs in what ranks recorded
-- divides by: run
-- main columns: finding, kind, late_ranks, waiting_ranks, late_at, since_ns, is_cause, process_group, collective_seq, line
-- parameter per  VARCHAR(collective|rank) = collective  what each row is; rank: a rank's side of a collective
-- run                       VARCHAR       run that the dumps belong to
-- ranks                     BIGINT        number of ranks that called it
-- process_group             VARCHAR       name of the process group
-- process_group_description VARCHAR       purpose of the group: default_pg, or the text passed to new_group
-- group_ranks               VARCHAR       ranks in the group, as a JSON list; NULL if the dumps do not say
-- kind                      VARCHAR       what most ranks called: all_reduce, ...; or send and recv
-- collective_seq            BIGINT        number of the collective in its group; NULL for a send or receive
-- line                      VARCHAR       sender and receiver: 0>1; NULL for a collective
-- finding                   VARCHAR       words separated by blanks, see above
-- late_ranks                VARCHAR       ranks that did not arrive: 2,5; NULL if there is none
-- waiting_ranks             VARCHAR       ranks that wait for it
-- other_ranks               VARCHAR       ranks whose call, size or type differs from that of most ranks
-- not_loaded_ranks          VARCHAR       ranks of the group without a dump
-- since_ns                  BIGINT  ns    when the first rank that waits, or does not fit, called it
-- all_waiting_ns            BIGINT  ns    when the last of these ranks called it
-- is_cause                  BOOLEAN       its late or differing ranks do not wait in another row
-- late_at                   VARCHAR       where each late rank is: 2: after all_gather 3 of default_pg; NULL if there is none
-- waiting_stack             VARCHAR       where the lowest rank that waits, or fits, called it; innermost first, joined by `;`
-- late_stack                VARCHAR       where the lowest rank that is late, or does not fit, made its last call, or this one
WITH roles AS MATERIALIZED (
    FROM hang_ranks(recorded_collectives, process_groups, traces)
),
calls AS MATERIALIZED (
    FROM recorded_calls(recorded_collectives, process_groups)
),
texts AS MATERIALIZED (
    FROM stack_texts(stacks)
),
lasts AS MATERIALIZED (
    SELECT
        calls.run, calls.rank, record_id, texts.stack,
        coalesce(kind, '?')
        || coalesce(' ' || CASE WHEN is_p2p THEN coalesce(peer_rank::VARCHAR, seq::VARCHAR) ELSE seq::VARCHAR END, '')
        || coalesce(' of ' || coalesce(nullif(process_group_description, 'undefined'), process_group), '') AS call,
        is_open
    FROM calls
    LEFT JOIN texts ON calls.run = texts.run AND calls.rank = texts.rank AND calls.stack_id = texts.stack_id
    QUALIFY record_id = max(record_id) OVER (PARTITION BY calls.run, calls.rank)
),
stuck AS (
    SELECT run, rank, max(record_id) AS record_id
    FROM roles
    WHERE role IN ('waits', 'other')
    GROUP BY run, rank
),
sides AS (
    SELECT
        roles.*,
        role = 'late' AND stuck.rank IS NULL OR role = 'other' OR finding = 'not_ended' AND role = 'waits' AS is_free,
        own.stack_id,
        texts.stack AS own_stack,
        lasts.stack AS last_stack,
        CASE
            WHEN role <> 'late' THEN NULL
            WHEN lasts.call IS NULL THEN 'no record'
            WHEN lasts.is_open OR lasts.record_id = stuck.record_id THEN 'in ' || lasts.call
            ELSE 'after ' || lasts.call
        END AS at_call
    FROM roles
    LEFT JOIN lasts ON roles.run = lasts.run AND roles.rank = lasts.rank
    LEFT JOIN stuck ON roles.run = stuck.run AND roles.rank = stuck.rank
    LEFT JOIN calls AS own ON roles.run = own.run AND roles.rank = own.rank AND roles.record_id = own.record_id
    LEFT JOIN texts ON own.run = texts.run AND own.rank = texts.rank AND own.stack_id = texts.stack_id
)
SELECT
    run,
    count(*) FILTER (role IN ('waits', 'other', 'arrived')) AS ranks,
    process_group,
    any_value(process_group_description) AS process_group_description,
    group_ranks,
    mode(kind ORDER BY rank) FILTER (role IN ('waits', 'arrived')) AS kind,
    seq AS collective_seq,
    nullif(line, '') AS line,
    any_value(finding) AS finding,
    string_agg(rank, ',' ORDER BY rank) FILTER (role = 'late') AS late_ranks,
    string_agg(rank, ',' ORDER BY rank) FILTER (role = 'waits') AS waiting_ranks,
    string_agg(rank, ',' ORDER BY rank) FILTER (role = 'other') AS other_ranks,
    string_agg(rank, ',' ORDER BY rank) FILTER (role = 'not_loaded') AS not_loaded_ranks,
    coalesce(min(created_ns) FILTER (role = 'waits'), min(created_ns)) AS since_ns,
    coalesce(max(created_ns) FILTER (role = 'waits'), max(created_ns)) AS all_waiting_ns,
    bool_or(is_free) AS is_cause,
    string_agg(rank || ': ' || at_call, '; ' ORDER BY rank) AS late_at,
    arg_min(own_stack, rank) FILTER (role IN ('waits', 'arrived') AND own_stack IS NOT NULL) AS waiting_stack,
    arg_min(
        CASE WHEN role = 'late' THEN last_stack ELSE own_stack END, rank
    ) FILTER (role IN ('late', 'other')) AS late_stack
FROM sides
GROUP BY run, process_group, group_ranks, is_p2p, seq, turn, line
ORDER BY run, bool_and(finding = 'not_ended'), is_cause DESC, since_ns NULLS LAST, process_group NULLS LAST,
    group_ranks NULLS LAST, collective_seq NULLS LAST, line NULLS FIRST, turn
