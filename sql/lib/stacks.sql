-- Stacks of records.

-- is_allocator_frame: whether a frame is of what recorded a stack or of an allocator, not of what called that.
-- parameter name VARCHAR  name of a frame
-- returns BOOLEAN  whether it is
-- example: SELECT is_allocator_frame('torch::unwind::unwind()')
CREATE OR REPLACE TEMP MACRO is_allocator_frame(name) AS regexp_matches(
    replace(coalesce(name, ''), '(anonymous namespace)', ''),
    '^[^(]*(\bunwind::|\bCapturedTraceback::|::gather(_with_cpp)?$|::gather(_with_cpp)?\(|Allocator(Impl)?(::|<))'
);

-- stack_texts: one row per stack, as text. Wrappers of torch.distributed around a call, and frames of what
-- recorded the stack and of allocators, are left out if there are other frames.
-- parameter stacks TABLE  `stacks`, or a part of it
-- column run, rank, stack_id  as in stacks
-- column stack VARCHAR  frames as `file(line): name`, joined by `;`, innermost first
-- column frame VARCHAR  the innermost frame in a Python file outside torch, else the innermost one that is no allocator's
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
        arg_min(frame, depth) FILTER (NOT is_allocator_frame(name)),
        arg_min(frame, depth)
    ) AS frame
FROM (
    SELECT
        *,
        coalesce(nullif(file, '??') || coalesce('(' || line || ')', '') || ': ', '') || coalesce(name, '?') AS frame,
        regexp_matches(coalesce(file, ''), 'torch[/\\]distributed[/\\](distributed_c10d|c10d_logger)\.py$')
            OR is_allocator_frame(name) AS is_wrapper
    FROM query_table(stacks)
)
GROUP BY run, rank, stack_id;

-- stack_places: one row per stack, with the frame and module that memory is added up by.
-- The module is the innermost frame that is the call of an nn.Module: `forward`, or what torch's `_call_impl` called; not
-- `forward` of an autograd function. Modules in torch are named after their file: torch.nn.modules.linear.
-- parameter stacks TABLE  `stacks`, or a part of it
-- column run, rank, stack_id  as in stacks
-- column frame VARCHAR  the innermost frame in a Python file outside torch, else the innermost one that is no allocator's
-- column module VARCHAR  the module, as `file: name`; NULL if no frame is the call of one
-- column fx_node VARCHAR  the FX node that the innermost frame with one was generated for, as `file: node`; NULL if none
-- example: FROM stack_places(stacks)
CREATE OR REPLACE TEMP MACRO stack_places(stacks) AS TABLE
SELECT
    run, rank, stack_id,
    coalesce(
        arg_min(frame, depth) FILTER (file LIKE '%.py' AND NOT regexp_matches(file, '(^|[/\\])torch[/\\]')),
        arg_min(frame, depth) FILTER (NOT is_allocator_frame(name)),
        arg_min(frame, depth)
    ) AS frame,
    arg_min(module, depth) FILTER (is_module) AS module,
    arg_min(
        coalesce(nullif(regexp_extract(file, '[^/\\]*$'), '') || ': ', '') || fx_node, depth
    ) FILTER (fx_node IS NOT NULL) AS fx_node
FROM (
    SELECT
        frames.run, frames.rank, frames.stack_id, frames.depth, frames.file, frames.name, frames.fx_node,
        coalesce(nullif(frames.file, '??') || coalesce('(' || frames.line || ')', '') || ': ', '')
            || coalesce(frames.name, '?') AS frame,
        coalesce(
            nullif(translate(regexp_extract(frames.file, '(?:^|.*[/\\])(torch[/\\].*)\.py$', 1), '/\', '..'), ''),
            coalesce(frames.file || ': ', '') || frames.name
        ) AS module,
        coalesce(
            CASE
                WHEN regexp_matches(frames.file, 'torch[/\\]nn[/\\]modules[/\\]module\.py$') THEN false
                WHEN regexp_matches(caller.file, 'torch[/\\]autograd[/\\]function\.py$') THEN false
                WHEN frames.name = 'forward' THEN true
                ELSE
                    caller.name IN ('_call_impl', 'inner')
                    AND regexp_matches(caller.file, 'torch[/\\]nn[/\\]modules[/\\]module\.py$')
            END,
            false
        ) AS is_module
    FROM query_table(stacks) AS frames
    LEFT JOIN query_table(stacks) AS caller
        ON frames.run = caller.run
        AND frames.rank = caller.rank
        AND frames.stack_id = caller.stack_id
        AND frames.depth + 1 = caller.depth
)
GROUP BY run, rank, stack_id;
