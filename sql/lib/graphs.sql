-- Graph replays: what one call launched, and the layers that repeat in it (`graph_position`, `graph_block`, `graph_layer`).

-- graph_replays: one row per replay, with a number for its graph: replays with the same names in the same order are one graph.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, launch_id  as in events
-- column graph BIGINT  number of the graph within the run and rank, by its first replay: from 0
-- column replay BIGINT  number of the replay of this graph, by start: from 0
-- column start_ns BIGINT  start of its first slice
-- column phase VARCHAR  inference phase of the call; NULL if there is none
-- example: FROM graph_replays(events)
CREATE OR REPLACE TEMP MACRO graph_replays(events) AS TABLE
WITH members AS (
    SELECT run, rank, launch_id, graph_position, start_ns, inference_phase, name
    FROM query_table(events)
    WHERE graph_position IS NOT NULL
),
names AS MATERIALIZED (
    SELECT name, row_number() OVER () AS code
    FROM (SELECT DISTINCT name FROM members)
),
launched AS MATERIALIZED (
    SELECT
        members.run, members.rank, members.launch_id,
        list(names.code ORDER BY members.graph_position) AS codes,
        min(members.start_ns) AS start_ns,
        any_value(members.inference_phase) AS phase
    FROM members
    JOIN names ON members.name IS NOT DISTINCT FROM names.name
    GROUP BY members.run, members.rank, members.launch_id
),
graphs AS (
    SELECT
        run, rank, codes,
        row_number() OVER (PARTITION BY run, rank ORDER BY min({'at': start_ns, 'id': launch_id})) - 1 AS graph
    FROM launched
    GROUP BY run, rank, codes
)
SELECT
    launched.run, launched.rank, launched.launch_id, graphs.graph,
    row_number() OVER (PARTITION BY launched.run, launched.rank, graphs.graph ORDER BY launched.start_ns, launched.launch_id) - 1
        AS replay,
    launched.start_ns, launched.phase
FROM launched
JOIN graphs ON launched.run = graphs.run AND launched.rank = graphs.rank AND launched.codes = graphs.codes;

-- graph_layer_times: one row per layer of each graph, over all its replays.
-- parameter events TABLE  `events`, or a part of it
-- parameter launched TABLE  rows of graph_replays
-- column run, rank  as in events
-- column graph BIGINT  number of the graph
-- column block BIGINT  number of the block of names
-- column layer BIGINT  number of the layer
-- column replays BIGINT  number of replays
-- column kernels BIGINT  kernels, copies and fills of the layer in one replay
-- column device_ns HUGEINT  sum of their durations over all replays
-- column span_ns HUGEINT  from the start of the first to the end of the last, added up over all replays
-- column first_position BIGINT  least graph_position
-- column last_position BIGINT  greatest graph_position
-- column slowest_replay_ns BIGINT  longest time of the layer in one replay
-- column first_id BIGINT  event_id of its first slice in the first replay
-- example: WITH launched AS (FROM graph_replays(events)) FROM graph_layer_times(events, launched)
CREATE OR REPLACE TEMP MACRO graph_layer_times(events, launched) AS TABLE
WITH members AS (
    SELECT
        launched.run, launched.rank, launched.graph, launched.replay,
        slices.graph_block AS block, slices.graph_layer AS layer, slices.graph_position AS position,
        slices.start_ns, slices.dur_ns, slices.event_id
    FROM query_table(events) AS slices
    JOIN query_table(launched) AS launched
        ON slices.run = launched.run AND slices.rank = launched.rank AND slices.launch_id = launched.launch_id
    WHERE slices.graph_layer IS NOT NULL
),
single AS (
    SELECT
        run, rank, graph, replay, block, layer,
        count(*) AS kernels,
        sum(dur_ns) AS device_ns,
        max(start_ns + dur_ns)::HUGEINT - min(start_ns) AS span_ns,
        min(position) AS first_position,
        max(position) AS last_position,
        arg_min(event_id, position) AS first_id
    FROM members
    GROUP BY run, rank, graph, replay, block, layer
)
SELECT
    run, rank, graph, block, layer,
    count(*) AS replays,
    max(kernels) AS kernels,
    sum(device_ns) AS device_ns,
    sum(span_ns) AS span_ns,
    min(first_position) AS first_position,
    max(last_position) AS last_position,
    try_cast(max(device_ns) AS BIGINT) AS slowest_replay_ns,
    arg_min(first_id, replay) AS first_id
FROM single
GROUP BY run, rank, graph, block, layer;
