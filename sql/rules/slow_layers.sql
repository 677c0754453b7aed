-- slow_layers: a layer of a graph takes longer than other layers with the same kernels.
-- One row per (run, rank, graph).
-- Layers of one block run the same kernels in the same order, so they take the same time except for noise: in traces of servers
-- they differ by a few percent. A layer that takes a fifth more than the median of its block, over all replays of the graph, has
-- a reason of its own: experts with more tokens, a different key cache, a kernel that waits. The cost must be at least a
-- hundredth of the time of the replays: one layer of 50 that takes half as long again. The finding names the kernel behind most
-- of it.
-- suggestion: Compare this layer's kernels with those of the next layer in graph_layers and events; look at lengths of
-- sequences, load of experts and what other streams do then.
-- link: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
-- replay: works, these layers as long as similar layers
-- claims: all
-- only if: EXISTS (FROM events WHERE graph_layer IS NOT NULL)
-- needs: events
-- parameter slow_layers_ratio DOUBLE = 1.2   least time of a layer over the median of its block
-- parameter slow_layers_share DOUBLE = 0.01  least excess of such layers, as a share of the time of the replays
WITH launched AS MATERIALIZED (
    FROM graph_replays(events)
),
layers AS MATERIALIZED (
    SELECT
        *, quantile_disc(device_ns, 0.5) OVER (PARTITION BY run, rank, graph, block) AS usual_ns,
        count(*) OVER (PARTITION BY run, rank, graph, block) AS layers
    FROM graph_layer_times(events, launched)
),
slow AS MATERIALIZED (
    FROM layers
    WHERE device_ns >= coalesce(getvariable('slow_layers_ratio'), 1.2) * usual_ns AND usual_ns > 0
),
firsts AS (
    SELECT run, rank, launch_id, graph_layer, min(graph_position) AS position
    FROM events
    WHERE graph_layer IS NOT NULL AND launch_id IS NOT NULL
    GROUP BY run, rank, launch_id, graph_layer
),
members AS MATERIALIZED (
    SELECT
        launched.run, launched.rank, launched.graph, slices.graph_block AS block, slices.graph_layer AS layer,
        slices.event_id, slices.name, slices.start_ns, slices.dur_ns, slices.graph_position - firsts.position AS place
    FROM events AS slices
    JOIN launched ON slices.run = launched.run AND slices.rank = launched.rank AND slices.launch_id = launched.launch_id
    JOIN few('firsts') AS firsts
        ON slices.run = firsts.run AND slices.rank = firsts.rank AND slices.launch_id = firsts.launch_id
        AND slices.graph_layer = firsts.graph_layer
    WHERE slices.graph_layer IS NOT NULL
),
usual AS (
    SELECT run, rank, graph, block, place, quantile_disc(dur_ns, 0.5) AS usual_ns
    FROM members
    GROUP BY run, rank, graph, block, place
),
late AS MATERIALIZED (
    SELECT members.*, members.dur_ns - usual.usual_ns AS late_ns
    FROM members
    JOIN usual USING (run, rank, graph, block, place)
    SEMI JOIN slow
        ON members.run = slow.run AND members.rank = slow.rank AND members.graph = slow.graph AND members.layer = slow.layer
),
kernels AS (
    SELECT
        run, rank, graph,
        max({'ns': ns, 'name': name}) AS most,
        max_by(ids, ns) AS evidence,
        flatten(list(spans)) AS spans
    FROM (
        SELECT
            run, rank, graph, name, sum(late_ns) AS ns, strongest(event_id, late_ns) AS ids,
            list(span(start_ns + dur_ns - late_ns, start_ns + dur_ns)) FILTER (late_ns > 0) AS spans
        FROM late
        GROUP BY run, rank, graph, name
    )
    GROUP BY run, rank, graph
),
changed AS (
    SELECT
        members.run, members.rank, members.graph, list(members.event_id ORDER BY members.event_id) AS ids,
        list(slow.usual_ns / slow.device_ns ORDER BY members.event_id) AS factors
    FROM members
    JOIN slow
        ON members.run = slow.run AND members.rank = slow.rank AND members.graph = slow.graph AND members.layer = slow.layer
    GROUP BY members.run, members.rank, members.graph
),
wholes AS (
    SELECT
        launched.run, launched.rank, launched.graph,
        count(DISTINCT launched.launch_id) AS replays, sum(slices.dur_ns) AS device_ns
    FROM events AS slices
    JOIN launched ON slices.run = launched.run AND slices.rank = launched.rank AND slices.launch_id = launched.launch_id
    WHERE slices.graph_position IS NOT NULL
    GROUP BY launched.run, launched.rank, launched.graph
)
SELECT
    slow.run,
    slow.rank,
    severity_of(sum(slow.device_ns - slow.usual_ns), windows.window_ns) AS severity,
    format('{:,} of {:,}', count(*), any_value(all_layers.layers)) || ' layers of graph ' || slow.graph
    || ' take longer than similar layers: layer ' || arg_max(slow.layer, slow.device_ns / slow.usual_ns) || ' takes '
    || duration_text(arg_max(slow.device_ns / slow.replays, slow.device_ns / slow.usual_ns)) || ' against '
    || duration_text(arg_max(slow.usual_ns / slow.replays, slow.device_ns / slow.usual_ns)) || '; most of it is '
    || shown(short_name('kernel', any_value(kernels.most.name))) AS finding,
    any_value(kernels.evidence) AS evidence_events,
    count(*) AS events,
    any_value(changed.ids) AS changed_events,
    any_value(changed.factors) AS changed_factors,
    any_value(kernels.spans) AS claimed,
    sum(slow.device_ns - slow.usual_ns) AS estimated_gain_ns,
    'their time beyond the median of their block, in all replays' AS gain_basis,
    NULL AS "where"
FROM slow
JOIN (SELECT run, rank, graph, count(*) AS layers FROM layers GROUP BY run, rank, graph) AS all_layers
    ON slow.run = all_layers.run AND slow.rank = all_layers.rank AND slow.graph = all_layers.graph
JOIN wholes ON slow.run = wholes.run AND slow.rank = wholes.rank AND slow.graph = wholes.graph
JOIN kernels ON slow.run = kernels.run AND slow.rank = kernels.rank AND slow.graph = kernels.graph
LEFT JOIN changed ON slow.run = changed.run AND slow.rank = changed.rank AND slow.graph = changed.graph
JOIN shared_windows AS windows ON slow.run = windows.run AND slow.rank = windows.rank
GROUP BY slow.run, slow.rank, slow.graph, windows.window_ns, wholes.device_ns
HAVING sum(slow.device_ns - slow.usual_ns) >= coalesce(getvariable('slow_layers_share'), 0.01) * wholes.device_ns
