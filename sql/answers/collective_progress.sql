-- collective_progress: how far each rank got in each process group: which ranks are ahead, which behind.
-- One row per (run, rank, process_group, group_ranks), by run, group and rank.
-- Based on flight recorder dumps.
-- In a bare shell read from `sql/lib` first: collectives, recorded, stacks.
-- needs: recorded_collectives, process_groups, stacks, traces
-- recorded: dumps
-- divides by: run
-- main columns: process_group, rank, last_seq, completed_seq, missing_calls, state, kind
-- run                       VARCHAR       run that the dumps belong to
-- rank                      INTEGER       rank within the run
-- process_group             VARCHAR       name of the process group
-- process_group_description VARCHAR       purpose of the group: default_pg, or the text passed to new_group
-- group_ranks               VARCHAR       ranks in the group, as a JSON list; NULL if the dumps do not say
-- is_loaded                 BOOLEAN       whether its dump is loaded
-- first_seq                 BIGINT        lowest collective number that its recorder still had; NULL if there is none
-- last_seq                  BIGINT        highest collective number that it called; 0 if it called none; NULL if not known
-- completed_seq             BIGINT        highest number of a collective that ended there; NULL if not known
-- missing_calls             BIGINT        number of collectives by which it is behind the leading rank; NULL if not known
-- kind                      VARCHAR       its last call in the group; NULL if no record is left
-- state                     VARCHAR       how far that call came, as in recorded_collectives
-- created_ns                BIGINT  ns    when it made that call
-- stack                     VARCHAR       where it made that call: innermost frame first, joined by `;`; NULL if not recorded
WITH members AS (
    FROM recorded_members(recorded_collectives, process_groups, traces)
),
texts AS (
    FROM stack_texts(stacks)
)
SELECT
    members.run,
    members.rank,
    members.process_group,
    members.process_group_description,
    members.group_ranks,
    members.is_loaded,
    members.first_seq,
    members.last_seq,
    members.completed_seq,
    max(members.last_seq) OVER (PARTITION BY members.run, members.process_group, members.group_ranks)
    - members.last_seq AS missing_calls,
    calls.kind,
    calls.state,
    calls.created_ns,
    texts.stack
FROM members
LEFT JOIN recorded_collectives AS calls
    ON members.run = calls.run AND members.rank = calls.rank AND members.last_record_id = calls.record_id
LEFT JOIN texts ON calls.run = texts.run AND calls.rank = texts.rank AND calls.stack_id = texts.stack_id
ORDER BY members.run, members.process_group NULLS LAST, members.group_ranks NULLS LAST, members.rank
