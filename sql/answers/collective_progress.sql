-- collective_progress: how far each rank came in each process group: who is ahead, who behind.
-- One row per (run, rank, process_group, group_ranks), by run, group and rank.
-- By dumps of the flight recorder.
-- In a bare shell read from `sql/lib` first: collectives, recorded, stacks.
-- needs: recorded_collectives, process_groups, stacks, traces
-- recorded: dumps
-- run                       VARCHAR       run that the dumps belong to
-- rank                      INTEGER       rank within the run
-- process_group             VARCHAR       name of the process group
-- process_group_description VARCHAR       what the group is for: default_pg, or as it was given to new_group
-- group_ranks               VARCHAR       ranks in the group, as a JSON list; NULL where the dumps do not say
-- is_loaded                 BOOLEAN       its dump is there
-- first_seq                 BIGINT        lowest number of a collective that its recorder still had; NULL for none
-- last_seq                  BIGINT        highest number of a collective that it called; 0 for none; NULL where not known
-- completed_seq             BIGINT        highest number of one that ended there; NULL where not known
-- behind                    BIGINT        collectives that it is behind the rank that came farthest; NULL where not known
-- kind                      VARCHAR       what it called last in the group; NULL where no record is left
-- state                     VARCHAR       how far that came, as in recorded_collectives
-- created_ns                BIGINT  ns    when it called that
-- stack                     VARCHAR       where it called that: innermost first, joined by `;`; NULL where not recorded
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
    - members.last_seq AS behind,
    calls.kind,
    calls.state,
    calls.created_ns,
    texts.stack
FROM members
LEFT JOIN recorded_collectives AS calls
    ON members.run = calls.run AND members.rank = calls.rank AND members.last_record_id = calls.record_id
LEFT JOIN texts ON calls.run = texts.run AND calls.rank = texts.rank AND calls.stack_id = texts.stack_id
ORDER BY members.run, members.process_group NULLS LAST, members.group_ranks NULLS LAST, members.rank
