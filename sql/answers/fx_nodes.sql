-- fx_nodes: time of kernels that Inductor compiled, by the FX node or line of the model they come from.
-- One row per (run, rank, graph, name), by run and rank, the largest split_ns first, then by graph, name.
-- Files of `load(provenance=)` say what a kernel was made from; a kernel that was fused from several nodes or lines has a row for
-- each. total_ns and device_ns are those of whole kernels, so a kernel counts for each of its rows; split_ns divides its
-- time among them equally, so it adds up. It is device time where a rank's compiled kernels ran on devices, else host time.
-- The row without a name has kernels of which the files name no node, as in graphs of backward, or no line. Names of nodes are
-- those of their graph; lines are of all graphs together: the innermost frame of the user's own code of each stack.
-- In a bare shell read from `sql/lib` first: devices, frames.
-- needs: events, compiled_kernels
-- recorded: compiled_kernels
-- no rows: no slice is a call of a kernel that the files name
-- divides by: rank
-- main columns: name, split_ns, share, kernels, main_kernel, calls, device_ns, main_share, graph
-- parameter per VARCHAR(post_grad|pre_grad|line) = post_grad  what each row is: a node of the compiled or the model's graph
-- run         VARCHAR        run that the trace belongs to
-- rank        INTEGER        rank within the run
-- graph       VARCHAR        what the files call the graph of the node; NULL for a line
-- name        VARCHAR        node, or file, line and function; NULL for kernels without any
-- kernels     BIGINT         number of kernels of the code that were made from it and ran
-- calls       BIGINT         number of their calls
-- total_ns    BIGINT   ns    time of the calls on the host; NULL if none was recorded
-- device_ns   BIGINT   ns    time of their work on devices; NULL if there is none
-- split_ns    BIGINT   ns    its part of the time of its kernels, on devices if the rank's compiled kernels ran there
-- share       DOUBLE   0..1  split_ns over that of all compiled kernels of the run and rank; NULL if that is 0
-- main_kernel VARCHAR        its kernel with the largest part
-- main_share  DOUBLE   0..1  part of split_ns in main_kernel; NULL if split_ns is 0
WITH used AS (
    SELECT
        run, rank, compiled_kernel_id,
        CASE
            WHEN bool_or(NOT is_busy(kind)) THEN count(*) FILTER (NOT is_busy(kind))
            ELSE count(*)
        END AS calls,
        sum(dur_ns) FILTER (NOT is_busy(kind)) AS total_ns,
        sum(dur_ns) FILTER (is_busy(kind)) AS device_ns
    FROM events
    WHERE compiled_kernel_id IS NOT NULL
    GROUP BY run, rank, compiled_kernel_id
),
timed AS MATERIALIZED (
    SELECT
        used.*,
        CASE
            WHEN count(device_ns) OVER (PARTITION BY used.run, used.rank) > 0 THEN coalesce(device_ns, 0)
            ELSE coalesce(total_ns, 0)
        END AS time_ns,
        kernel.name AS kernel,
        CASE WHEN coalesce(getvariable('per'), 'post_grad') <> 'line' THEN kernel.graph::VARCHAR END AS graph,
        CASE coalesce(getvariable('per'), 'post_grad')
            WHEN 'post_grad' THEN from_json(kernel.post_grad_nodes, '["VARCHAR"]')
            WHEN 'pre_grad' THEN from_json(kernel.pre_grad_nodes, '["VARCHAR"]')
            ELSE list_transform(
                from_json(kernel.stacks, '["VARCHAR"]'),
                lambda stack: coalesce(frame_of(stack), string_split(stack, ';')[1])
            )
        END AS given
    FROM used
    JOIN compiled_kernels AS kernel
        ON used.run = kernel.run AND used.rank = kernel.rank AND used.compiled_kernel_id = kernel.compiled_kernel_id
),
listed AS (
    SELECT
        *,
        CASE WHEN coalesce(len(given), 0) = 0 THEN [NULL::VARCHAR] ELSE list_sort(list_distinct(given)) END AS names
    FROM timed
),
parts AS (
    SELECT
        run, rank, graph, kernel, calls, total_ns, device_ns,
        unnest(names) AS name,
        time_ns::HUGEINT // len(names)
            + CASE WHEN unnest(range(len(names))) < time_ns::HUGEINT % len(names) THEN 1 ELSE 0 END AS split_ns
    FROM listed
),
by_kernel AS (
    SELECT
        run, rank, graph, name, kernel,
        count(*) AS kernels,
        sum(calls) AS calls,
        sum(total_ns) AS total_ns,
        sum(device_ns) AS device_ns,
        sum(split_ns) AS split_ns
    FROM parts
    GROUP BY run, rank, graph, name, kernel
),
rows AS (
    SELECT
        run, rank, graph, name,
        sum(kernels) AS kernels,
        sum(calls) AS calls,
        sum(total_ns) AS total_ns,
        sum(device_ns) AS device_ns,
        sum(split_ns) AS split_ns,
        first(kernel ORDER BY split_ns DESC, kernel) AS main_kernel,
        max(split_ns) AS main_ns
    FROM by_kernel
    GROUP BY run, rank, graph, name
)
SELECT
    run,
    rank,
    graph,
    name,
    try_cast(kernels AS BIGINT) AS kernels,
    try_cast(calls AS BIGINT) AS calls,
    try_cast(total_ns AS BIGINT) AS total_ns,
    try_cast(device_ns AS BIGINT) AS device_ns,
    try_cast(split_ns AS BIGINT) AS split_ns,
    split_ns / nullif(sum(split_ns) OVER (PARTITION BY run, rank), 0) AS share,
    main_kernel::VARCHAR AS main_kernel,
    main_ns / nullif(split_ns, 0) AS main_share
FROM rows
ORDER BY run, rank, split_ns DESC NULLS LAST, graph NULLS LAST, name NULLS LAST
