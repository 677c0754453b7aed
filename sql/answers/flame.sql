-- flame: the host's call tree, merged by path, for a flame graph.
-- One row per (run, rank, node), by run, rank and node_id: an outer node comes before those inside it.
-- A node stands for all slices, on any thread, with the same name and kind and the same names and kinds around them; every slice
-- `ProfilerStep#N` is called ProfilerStep*. Widths add up: total_ns of a node is its self_ns plus the total_ns of the nodes
-- directly inside it, and self_ns of all nodes adds up to that of all slices that nest. The same holds for device_ns and
-- self_device_ns.
-- backward is whatever is, or is inside, an evaluation of the autograd engine, a backward function (scope 1), or an op that names
-- the thread of its forward op. Everything else is forward, also what belongs to neither pass.
-- The `top` nodes with the largest share of host or device time are kept; whatever else is directly inside a node, or outermost,
-- is one row `others` there, with the direction of what is around it. Device time of no op or call in the tree is a row
-- `outside`. For a filtered trace, nodes are made of the remaining slices. If these overlap without nesting, `others` may be
-- negative.
-- In a bare shell read from `sql/lib` first: lanes, devices, steps.
-- needs: events
-- recorded: slices
-- divides by: rank
-- main columns: name, self_ns, total_ns, depth, calls, device_ns, self_device_ns, kind
-- parameter top        BIGINT = 5000  maximum nodes of a run and rank, without others and outside; 0 for all
-- parameter min_share  DOUBLE = 0.0  drop nodes with a smaller share of both host and device time
-- run             VARCHAR      run that the trace belongs to
-- rank            INTEGER      rank within the run
-- node_id         BIGINT       number of the node within the run and rank, from 0
-- parent_id       BIGINT       node_id of the node that it is directly inside; NULL for an outermost one
-- depth           INTEGER      number of nodes around the node
-- name            VARCHAR      name of its slices; NULL if they have none; or others; or outside
-- kind            VARCHAR      kind of its slices; others: slices that were not kept; outside: work of no op or call in the tree
-- direction       VARCHAR      forward or backward; NULL for outside
-- calls           BIGINT       number of slices; for outside, pieces of work
-- self_ns         BIGINT   ns  time in the slices but not in slices inside them (negative if those overlap); for others, in all
-- total_ns        BIGINT   ns  time in the slices
-- self_device_ns  BIGINT   ns  time of the kernels, copies and fills that the slices launched themselves; for others, of all
-- device_ns       BIGINT   ns  the same, plus that of the nodes inside
-- event_id        BIGINT       event_id of the first of the slices; NULL for others and outside
WITH RECURSIVE lanes AS MATERIALIZED (
    FROM lanes(events)
),
slices AS MATERIALIZED (
    SELECT
        lanes.lane, event_id, preorder, thread, depth, last_descendant_id, last_descendant_id <> event_id AS is_inner,
        start_ns, start_ns + dur_ns AS end_ns, coalesce(self_ns, 0) AS self_ns, coalesce(replays, 1) AS calls,
        coalesce(self_device_ns, 0) AS self_device_ns,
        hash(merged_step_name(name), kind) AS called,
        coalesce(fwd_thread > 0, false) OR coalesce(scope = 1, false)
        OR coalesce(starts_with(name, 'autograd::engine::evaluate_function: '), false) AS is_backward
    FROM events
    JOIN few(lanes) AS lanes ON events.run = lanes.run AND events.rank = lanes.rank
    WHERE preorder IS NOT NULL
),
wholes AS MATERIALIZED (
    SELECT
        lane, sum(self_ns) AS total_ns, sum(self_device_ns) AS device_ns, sum(calls) AS calls,
        count(*) <= max(preorder) AS is_filtered
    FROM slices
    GROUP BY lane
),
-- Where slices with others inside them end: behind the last of those.
known_ends AS MATERIALIZED (
    SELECT slice.lane, slice.preorder, slice.thread, slice.end_ns, final.preorder AS until
    FROM (FROM slices WHERE is_inner) AS slice
    LEFT JOIN slices AS final ON slice.lane = final.lane AND slice.last_descendant_id = final.event_id
),
-- Where that one was filtered out: behind all that starts on the thread until the slice ends.
starts AS (
    SELECT lane, thread, start_ns, max(preorder) AS until
    FROM slices
    WHERE (SELECT count(*) > 0 FROM known_ends WHERE until IS NULL)
    GROUP BY lane, thread, start_ns
),
ends AS MATERIALIZED (
    SELECT lane, preorder, until
    FROM known_ends
    WHERE until IS NOT NULL
    UNION ALL
    SELECT lane, preorder, last_until
    FROM (
        SELECT
            lane, preorder,
            last_value(until IGNORE NULLS) OVER (
                PARTITION BY lane, thread ORDER BY at_ns, preorder NULLS LAST ROWS UNBOUNDED PRECEDING
            ) AS last_until
        FROM (
            SELECT lane, thread, start_ns AS at_ns, until FROM starts
            UNION ALL BY NAME
            SELECT lane, thread, end_ns AS at_ns, preorder
            FROM known_ends
            WHERE until IS NULL AND end_ns IS NOT NULL AND thread IS NOT NULL
        )
    )
    WHERE preorder IS NOT NULL AND last_until IS NOT NULL
),
-- How many slices are around each, where some were filtered out. Here and below rows are added up in the order of the SELECT
-- inside: that is several times as fast as a window with an order, and all that a lane opens it closes. A slice opens at its
-- preorder and closes behind all that opens until its end, an inner one before an outer one.
depths AS (
    SELECT lane, preorder, depth
    FROM (
        SELECT lane, preorder, opens, sum(step) OVER (ROWS UNBOUNDED PRECEDING) - step AS depth
        FROM (
            SELECT
                slices.lane, slices.preorder, slices.preorder << 31 AS place, true AS opens,
                CASE WHEN ends.lane IS NULL THEN 0 ELSE 1 END AS step
            FROM slices
            LEFT JOIN ends ON slices.lane = ends.lane AND slices.preorder = ends.preorder
            WHERE (SELECT bool_or(is_filtered) FROM wholes)
            UNION ALL
            SELECT lane, preorder, ((until + 1) << 31) - 1 - preorder, false, -1
            FROM ends
            WHERE (SELECT bool_or(is_filtered) FROM wholes)
            ORDER BY lane, place
        )
    )
    WHERE opens
),
-- A path is the sum of a number of each slice on it, which is of its depth, too, and of 2 to the 100 if any of them is backward.
numbers AS MATERIALIZED (
    SELECT
        slices.lane, slices.preorder, event_id, self_ns, self_device_ns, slices.calls, until,
        coalesce(depths.depth, slices.depth)::BIGINT AS depth,
        hash(called, coalesce(depths.depth, slices.depth)::BIGINT)::HUGEINT AS step,
        is_backward::INTEGER AS is_backward
    FROM slices
    LEFT JOIN ends ON slices.lane = ends.lane AND slices.preorder = ends.preorder
    LEFT JOIN depths ON slices.lane = depths.lane AND slices.preorder = depths.preorder
),
paths AS (
    SELECT
        lane, depth, event_id, self_ns, self_device_ns, calls,
        around + CASE WHEN backwards > 0 THEN 1::HUGEINT << 100 ELSE 0 END AS parent_path,
        around + step + CASE WHEN backwards + is_backward > 0 THEN 1::HUGEINT << 100 ELSE 0 END AS path
    FROM (
        SELECT
            *,
            (sum(CASE WHEN is_inner THEN step ELSE 0 END) OVER until_now) - CASE WHEN is_inner THEN step ELSE 0 END AS around,
            (sum(CASE WHEN is_inner THEN is_backward ELSE 0 END) OVER until_now)
            - CASE WHEN is_inner THEN is_backward ELSE 0 END AS backwards
        FROM (
            SELECT
                lane, preorder << 31 AS place, until IS NOT NULL AS is_inner, step, is_backward, depth, event_id, self_ns,
                self_device_ns, calls
            FROM numbers
            UNION ALL BY NAME
            SELECT lane, ((until + 1) << 31) - 1 - preorder AS place, true AS is_inner, -step AS step, -is_backward AS is_backward
            FROM numbers
            WHERE until IS NOT NULL
            ORDER BY lane, place
        )
        WINDOW until_now AS (ROWS UNBOUNDED PRECEDING)
    )
    WHERE event_id IS NOT NULL
),
own AS MATERIALIZED (
    SELECT
        lane, path, any_value(parent_path) AS parent_path, any_value(depth) AS depth,
        min(event_id) AS event_id, sum(calls)::BIGINT AS own_calls, sum(self_ns) AS self_ns, sum(self_device_ns) AS self_device_ns
    FROM paths
    GROUP BY lane, path
),
-- What is in a node, and then in the node around it, and so on to the outermost.
passed_on AS (
    SELECT lane, path, own_calls AS calls, self_ns AS total_ns, self_device_ns AS device_ns
    FROM own
    UNION ALL
    SELECT inner_nodes.lane, inner_nodes.parent_path, sum(calls)::BIGINT, sum(total_ns), sum(device_ns)
    FROM passed_on
    JOIN own AS inner_nodes ON passed_on.lane = inner_nodes.lane AND passed_on.path = inner_nodes.path
    WHERE inner_nodes.parent_path <> 0
    GROUP BY inner_nodes.lane, inner_nodes.parent_path
),
nodes AS MATERIALIZED (
    SELECT own.*, totals.calls, totals.total_ns, totals.device_ns
    FROM own
    JOIN (
        SELECT lane, path, sum(calls) AS calls, sum(total_ns) AS total_ns, sum(device_ns) AS device_ns
        FROM passed_on
        GROUP BY lane, path
    ) AS totals
        ON own.lane = totals.lane AND own.path = totals.path
),
ranked AS (
    SELECT
        nodes.*,
        coalesce(
            greatest(nodes.total_ns / nullif(wholes.total_ns, 0), nodes.device_ns / nullif(wholes.device_ns, 0)), 0
        ) AS share
    FROM nodes
    JOIN wholes USING (lane)
),
-- With all that is around them, which may be shorter where slices overlap.
kept_paths AS (
    SELECT lane, path, parent_path
    FROM ranked
    WHERE share >= coalesce(getvariable('min_share'), 0.0)
    QUALIFY
        coalesce(getvariable('top'), 5000) <= 0
        OR row_number() OVER (PARTITION BY lane ORDER BY share DESC, depth, event_id) <= coalesce(getvariable('top'), 5000)
    UNION
    SELECT nodes.lane, nodes.path, nodes.parent_path
    FROM kept_paths
    JOIN nodes ON kept_paths.lane = nodes.lane AND kept_paths.parent_path = nodes.path
),
kept AS MATERIALIZED (
    FROM nodes SEMI JOIN kept_paths USING (lane, path)
),
-- How they are called.
first_slices AS (
    SELECT lanes.lane, event_id, merged_step_name(name) AS name, kind
    FROM events
    JOIN few('lanes') AS lanes ON events.run = lanes.run AND events.rank = lanes.rank
    WHERE event_id IN (SELECT event_id FROM kept)
),
-- What is around nodes: a node, or all.
around AS (
    SELECT
        lane, path, event_id, depth,
        calls - own_calls AS calls, total_ns - self_ns AS total_ns, device_ns - self_device_ns AS device_ns
    FROM kept
    UNION ALL
    SELECT lane, 0, NULL, -1, calls, total_ns, device_ns
    FROM wholes
),
inside AS (
    SELECT lane, parent_path AS path, sum(calls) AS calls, sum(total_ns) AS total_ns, sum(device_ns) AS device_ns
    FROM kept
    GROUP BY lane, parent_path
),
others AS (
    SELECT
        lane, path, around.event_id AS around_id, around.depth + 1 AS depth,
        around.calls - coalesce(inside.calls, 0) AS calls,
        around.total_ns - coalesce(inside.total_ns, 0) AS total_ns,
        around.device_ns - coalesce(inside.device_ns, 0) AS device_ns
    FROM around
    LEFT JOIN inside USING (lane, path)
),
outside AS (
    SELECT lanes.lane, count(*) AS calls, sum(device_ns) AS device_ns
    FROM (
        SELECT run, rank, dur_ns AS device_ns
        FROM events
        WHERE is_busy(kind) AND op_id IS NULL AND launch_id IS NULL AND dur_ns IS NOT NULL
        UNION ALL
        SELECT run, rank, self_device_ns
        FROM events
        WHERE preorder IS NULL AND NOT is_busy(kind) AND kind <> 'device_annotation' AND self_device_ns > 0
    ) AS work
    JOIN few(lanes) AS lanes ON work.run = lanes.run AND work.rank = lanes.rank
    GROUP BY lanes.lane
),
numbered AS MATERIALIZED (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY lane ORDER BY depth, rest, total_ns DESC, device_ns DESC, event_id, around_id
        ) - 1 AS node_id
    FROM (
        SELECT
            lane, path, parent_path, depth, 0 AS rest, event_id, own_calls AS calls,
            self_ns, total_ns, self_device_ns, device_ns
        FROM kept
        UNION ALL BY NAME
        SELECT
            lane, path AS parent_path, around_id, depth, 1 AS rest, calls,
            total_ns AS self_ns, total_ns, device_ns AS self_device_ns, device_ns
        FROM others
        WHERE calls <> 0 OR total_ns <> 0 OR device_ns <> 0
        UNION ALL BY NAME
        SELECT
            lane, 0 AS parent_path, 0 AS depth, 2 AS rest, calls,
            0 AS self_ns, 0 AS total_ns, device_ns AS self_device_ns, device_ns
        FROM outside
    )
)
SELECT
    lanes.run,
    lanes.rank,
    node.node_id,
    parent.node_id AS parent_id,
    node.depth::INTEGER AS depth,
    CASE node.rest WHEN 0 THEN first_slices.name WHEN 1 THEN 'others' ELSE 'outside' END AS name,
    CASE node.rest WHEN 0 THEN first_slices.kind WHEN 1 THEN 'others' ELSE 'outside' END AS kind,
    CASE
        WHEN node.rest = 2 THEN NULL
        WHEN coalesce(node.path, node.parent_path) >= 1::HUGEINT << 100 THEN 'backward'
        ELSE 'forward'
    END AS direction,
    node.calls::BIGINT AS calls,
    node.self_ns::BIGINT AS self_ns,
    node.total_ns::BIGINT AS total_ns,
    node.self_device_ns::BIGINT AS self_device_ns,
    node.device_ns::BIGINT AS device_ns,
    node.event_id
FROM numbered AS node
JOIN lanes ON node.lane = lanes.lane
LEFT JOIN numbered AS parent ON node.lane = parent.lane AND node.parent_path = parent.path
LEFT JOIN first_slices ON node.lane = first_slices.lane AND node.event_id = first_slices.event_id
ORDER BY lanes.run, lanes.rank, node.node_id
