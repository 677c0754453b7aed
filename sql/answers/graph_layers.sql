-- graph_layers: the layers that repeat within graph replays, and the slowest of them.
-- One row per (run, rank, graph, block), by run, rank, graph and block; with per=layer one for each layer.
-- A graph is all replays with the same names in the same order; a replay is what one graph launch ran. Its layers are the blocks
-- of names that repeat at least three times in a row; if there are several kinds, such as dense layers and layers with experts,
-- each is a block. A graph without repetition has one row without a block, and none with per=layer. Times are sums of the
-- durations of kernels, copies and fills, except those named span. Work outside all layers is before the first layer of a block,
-- after its last one, or between blocks.
-- In a bare shell read from `sql/lib` first: sequences, graphs.
-- needs: events
-- recorded: graphs
-- divides by: rank
-- main columns: layer, device_ns, share, p50_ns, replays, kernels, slowest_layer, slowest_ratio, phase, block, graph
-- main columns: sequence, max_ns
-- parameter per  VARCHAR(graph|layer) = graph  what each row is: a block of a graph, or one of its layers
-- run              VARCHAR        run that the trace belongs to
-- rank             INTEGER        rank within the run
-- graph            BIGINT         number of the graph, from 0, by first replay
-- block            BIGINT         number of the block, from 0, by first occurrence; NULL if nothing repeats
-- layer            BIGINT         with per=layer its number, from 0, over all blocks of the graph; else NULL
-- phase            VARCHAR        inference phase of the replays; NULL if there is none, or several
-- replays          BIGINT         number of replays
-- kernels          BIGINT         kernels, copies and fills of one replay
-- layers           BIGINT         number of layers of the block; 0 if nothing repeats
-- layer_kernels    BIGINT         kernels, copies and fills of one layer; NULL if nothing repeats
-- before           BIGINT         kernels, copies and fills before the first layer of the block
-- after            BIGINT         kernels, copies and fills after its last layer
-- device_ns        BIGINT   ns    time of all replays
-- layers_ns        BIGINT   ns    time of the layers in the block, or of this layer, in all replays
-- share            DOUBLE   0..1  layers_ns over device_ns; NULL if that is 0
-- mean_ns          BIGINT   ns    mean time of a layer, rounded half up
-- p50_ns           BIGINT   ns    median over layers of their mean time, one of the values; with per=layer, of its block
-- max_ns           BIGINT   ns    longest time of a layer in one replay
-- mean_span_ns     BIGINT   ns    mean time from the start of a layer's first slice to the end of its last, rounded half up
-- before_ns        BIGINT   ns    mean time of the work before the first layer in a replay, rounded half up
-- after_ns         BIGINT   ns    mean time of the work after the last layer in a replay, rounded half up
-- slowest_layer    BIGINT         layer with the longest mean time, the first on a tie
-- slowest_ns       BIGINT   ns    its mean time, rounded half up; with per=layer, that of this layer
-- slowest_ratio    DOUBLE         slowest_ns over p50_ns; NULL if that is 0
-- sequence         VARCHAR        names of a layer's work joined by ->; only the first 64
-- first_launch_id  BIGINT         event_id of the launch of the first replay
-- first_id         BIGINT         event_id of the first slice of the first layer, or of this layer, in the first replay
WITH launched AS MATERIALIZED (
    FROM graph_replays(events)
),
members AS MATERIALIZED (
    SELECT
        launched.run, launched.rank, launched.graph, launched.replay, slices.graph_position AS position,
        slices.dur_ns, coalesce(slices.name, '?') AS name
    FROM events AS slices
    JOIN launched ON slices.run = launched.run AND slices.rank = launched.rank AND slices.launch_id = launched.launch_id
    WHERE slices.graph_position IS NOT NULL
),
graphs AS (
    SELECT
        run, rank, graph,
        count(*) AS replays,
        CASE WHEN min(phase) = max(phase) AND count(phase) = count(*) THEN min(phase) END AS phase,
        arg_min(launch_id, replay) AS first_launch_id
    FROM launched
    GROUP BY run, rank, graph
),
positions AS MATERIALIZED (
    SELECT run, rank, graph, position, sum(dur_ns) AS device_ns, any_value(name) AS name
    FROM members
    GROUP BY run, rank, graph, position
),
wholes AS (
    SELECT run, rank, graph, count(*) AS kernels, sum(device_ns) AS device_ns
    FROM positions
    GROUP BY run, rank, graph
),
layers AS MATERIALIZED (
    FROM graph_layer_times(events, launched)
),
blocks AS MATERIALIZED (
    SELECT
        run, rank, graph, block,
        count(*) AS layers,
        max(kernels) AS layer_kernels,
        sum(device_ns) AS layers_ns,
        sum(replays) AS times,
        quantile_disc(device_ns, 0.5) AS p50_all_ns,
        max(slowest_replay_ns) AS max_ns,
        sum(span_ns) AS span_ns,
        min(first_position) AS first_position,
        max(last_position) AS last_position,
        max({'ns': device_ns, 'less': -layer}) AS slowest,
        arg_min({'id': first_id, 'from': first_position, 'to': last_position}, layer) AS first
    FROM layers
    GROUP BY run, rank, graph, block
),
edges AS (
    SELECT
        blocks.run, blocks.rank, blocks.graph, blocks.block,
        count(*) FILTER (position < first_position) AS before,
        count(*) FILTER (position > last_position) AS after,
        sum(device_ns) FILTER (position < first_position) AS before_ns,
        sum(device_ns) FILTER (position > last_position) AS after_ns
    FROM blocks
    JOIN positions USING (run, rank, graph)
    GROUP BY blocks.run, blocks.rank, blocks.graph, blocks.block
),
sequences AS (
    SELECT
        blocks.run, blocks.rank, blocks.graph, blocks.block,
        array_to_string(list(positions.name ORDER BY position)[:64], ' -> ')
        || CASE WHEN count(*) > 64 THEN ' -> ... ' || (count(*) - 64) || ' more' ELSE '' END AS sequence
    FROM blocks
    JOIN positions USING (run, rank, graph)
    WHERE positions.position BETWEEN blocks.first.from AND blocks.first.to
    GROUP BY blocks.run, blocks.rank, blocks.graph, blocks.block
)
SELECT
    graphs.run,
    graphs.rank,
    graphs.graph,
    blocks.block,
    layers.layer,
    graphs.phase,
    graphs.replays,
    wholes.kernels,
    coalesce(blocks.layers, 0) AS layers,
    coalesce(layers.kernels, blocks.layer_kernels) AS layer_kernels,
    edges.before,
    edges.after,
    try_cast(wholes.device_ns AS BIGINT) AS device_ns,
    try_cast(coalesce(layers.device_ns, blocks.layers_ns) AS BIGINT) AS layers_ns,
    coalesce(layers.device_ns, blocks.layers_ns) / nullif(wholes.device_ns, 0) AS share,
    mean_delay(coalesce(layers.device_ns, blocks.layers_ns)::HUGEINT, coalesce(layers.replays, blocks.times)::BIGINT) AS mean_ns,
    mean_delay(blocks.p50_all_ns::HUGEINT, graphs.replays) AS p50_ns,
    coalesce(layers.slowest_replay_ns, blocks.max_ns) AS max_ns,
    mean_delay(coalesce(layers.span_ns, blocks.span_ns)::HUGEINT, coalesce(layers.replays, blocks.times)::BIGINT) AS mean_span_ns,
    mean_delay(coalesce(edges.before_ns, 0)::HUGEINT, CASE WHEN blocks.layers > 0 THEN graphs.replays END) AS before_ns,
    mean_delay(coalesce(edges.after_ns, 0)::HUGEINT, CASE WHEN blocks.layers > 0 THEN graphs.replays END) AS after_ns,
    -blocks.slowest.less AS slowest_layer,
    mean_delay(coalesce(layers.device_ns, blocks.slowest.ns)::HUGEINT, graphs.replays) AS slowest_ns,
    coalesce(layers.device_ns, blocks.slowest.ns) / nullif(blocks.p50_all_ns, 0) AS slowest_ratio,
    sequences.sequence,
    graphs.first_launch_id,
    coalesce(layers.first_id, blocks.first.id) AS first_id
FROM graphs
JOIN wholes ON graphs.run = wholes.run AND graphs.rank = wholes.rank AND graphs.graph = wholes.graph
LEFT JOIN blocks ON graphs.run = blocks.run AND graphs.rank = blocks.rank AND graphs.graph = blocks.graph
LEFT JOIN edges
    ON blocks.run = edges.run AND blocks.rank = edges.rank AND blocks.graph = edges.graph AND blocks.block = edges.block
LEFT JOIN sequences
    ON blocks.run = sequences.run AND blocks.rank = sequences.rank AND blocks.graph = sequences.graph
    AND blocks.block = sequences.block
LEFT JOIN layers
    ON coalesce(getvariable('per'), 'graph') = 'layer'
    AND blocks.run = layers.run AND blocks.rank = layers.rank AND blocks.graph = layers.graph AND blocks.block = layers.block
WHERE coalesce(getvariable('per'), 'graph') = 'graph' OR blocks.block IS NOT NULL
ORDER BY graphs.run, graphs.rank, graphs.graph, blocks.block, layers.layer
