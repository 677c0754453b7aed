-- Stacks that something was recorded in.

-- stack_texts: one row per stack, as text. Wrappers of torch.distributed around a call are left out where there are other frames.
-- parameter stacks TABLE  `stacks`, or a part of it
-- column run, rank, stack_id  as in stacks
-- column stack VARCHAR  frames as `file(line): name`, joined by `;`, innermost first
-- column frame VARCHAR  the innermost frame in a Python file that is not torch's own, else the innermost one
-- example: FROM stack_texts(stacks)
CREATE OR REPLACE TEMP MACRO stack_texts(stacks) AS TABLE
SELECT
    run, rank, stack_id,
    coalesce(
        string_agg(frame, ';' ORDER BY depth) FILTER (NOT is_wrapper),
        string_agg(frame, ';' ORDER BY depth)
    ) AS stack,
    coalesce(
        arg_min(frame, depth) FILTER (file LIKE '%.py' AND NOT regexp_matches(file, '(^|[/\\])torch[/\\]')),
        arg_min(frame, depth)
    ) AS frame
FROM (
    SELECT
        *,
        coalesce(file || coalesce('(' || line || ')', '') || ': ', '') || coalesce(name, '?') AS frame,
        regexp_matches(coalesce(file, ''), 'torch[/\\]distributed[/\\](distributed_c10d|c10d_logger)\.py$') AS is_wrapper
    FROM query_table(stacks)
)
GROUP BY run, rank, stack_id;
