-- hangs(per=rank): each rank's side of a hang: its call, sizes, types, time and stack.
-- One row per (run, rank, process_group, collective_seq, line) of `hangs`, by run, group, number and rank.
-- role: late: did not arrive, and the row describes its last call; waits: called it, and waits; other: called something that does
-- not fit what most ranks called; arrived: called it; not_loaded: its dump is not loaded; overwritten: its recorder was full, and
-- has lost the records of that time.
-- In a bare shell read from `sql/lib` first: collectives, recorded, stacks.
-- needs: recorded_collectives, process_groups, stacks, traces
-- recorded: dumps
-- no rows: no collective hangs in what ranks recorded
-- divides by: run
-- main columns: role, rank, kind, state, process_group, collective_seq, finding, created_ns, line
-- run                       VARCHAR       run that the dumps belong to
-- rank                      INTEGER       rank within the run
-- process_group             VARCHAR       name of the process group
-- process_group_description VARCHAR       purpose of the group
-- collective_seq            BIGINT        number of the collective in its group; NULL for a send or receive
-- line                      VARCHAR       sender and receiver: 0>1; NULL for a collective
-- finding                   VARCHAR       what is wrong, as in `hangs`
-- role                      VARCHAR       see above
-- record_id                 BIGINT        its record in recorded_collectives; NULL if there is none
-- kind                      VARCHAR       the operation it called
-- called_group              VARCHAR       group of that call; may differ for a late rank
-- called_seq                BIGINT        number of that call
-- input_sizes               VARCHAR       shapes of the inputs, as a JSON list
-- input_dtypes              VARCHAR       data types of the inputs
-- output_sizes              VARCHAR       shapes of the outputs
-- output_dtypes             VARCHAR       data types of the outputs
-- state                     VARCHAR       how far that call got, as in recorded_collectives
-- created_ns                BIGINT  ns    when it was called
-- stack                     VARCHAR       where it was called: innermost frame first, joined by `;`; NULL if not recorded
WITH roles AS MATERIALIZED (
    FROM hang_ranks(recorded_collectives, process_groups, traces)
),
calls AS MATERIALIZED (
    FROM recorded_calls(recorded_collectives, process_groups)
),
texts AS MATERIALIZED (
    FROM stack_texts(stacks)
),
lasts AS (
    SELECT run, rank, max(record_id) AS record_id
    FROM calls
    GROUP BY run, rank
)
SELECT
    roles.run,
    roles.rank,
    roles.process_group,
    roles.process_group_description,
    roles.seq AS collective_seq,
    nullif(roles.line, '') AS line,
    roles.finding,
    roles.role,
    calls.record_id,
    calls.kind,
    calls.process_group AS called_group,
    calls.seq AS called_seq,
    calls.input_sizes,
    calls.input_dtypes,
    calls.output_sizes,
    calls.output_dtypes,
    calls.state,
    calls.created_ns,
    texts.stack
FROM roles
LEFT JOIN lasts ON roles.run = lasts.run AND roles.rank = lasts.rank AND roles.role = 'late'
LEFT JOIN calls
    ON roles.run = calls.run AND roles.rank = calls.rank AND coalesce(roles.record_id, lasts.record_id) = calls.record_id
LEFT JOIN texts ON calls.run = texts.run AND calls.rank = texts.rank AND calls.stack_id = texts.stack_id
ORDER BY roles.run, roles.process_group NULLS LAST, roles.group_ranks NULLS LAST, collective_seq NULLS LAST, line NULLS FIRST,
    roles.turn, roles.rank
