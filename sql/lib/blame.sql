-- What makes ranks late: what each did before a collective, compared with the rank that came before it.
-- In a bare shell read `devices.sql`, `inputs.sql`, `lanes.sql`, `collectives.sql`, `intervals.sql`, `steps.sql`
-- and `busy.sql` of `sql/lib` first.

-- late_pairs: one row per rank that is late to a collective, with the rank before it and the last moment at which both were
-- together: when the last rank came to the previous collective that both take part in. Until then neither can be late.
-- parameter waits TABLE  rows of collective_waits
-- column run  as in events
-- column match, step  as in collective_waits
-- column held_up_ns, behind_ns  as in collective_waits
-- column rank INTEGER  rank that is late
-- column before_rank INTEGER  rank that came before it
-- column event_id BIGINT  event_id of the late rank's first kernel
-- column before_event_id BIGINT  event_id of the first kernel of the rank before
-- column start_ns BIGINT  start on the late rank, by its own clock
-- column before_start_ns BIGINT  start on the rank before, by its own clock
-- column since_ns BIGINT  start of the comparison on the clock of the late rank; NULL: since the other was recorded
-- column before_since_ns BIGINT  the same on the clock of the rank before
-- example: WITH matches AS (FROM collective_matches(events, traces)), waits AS (FROM collective_waits(matches, traces, true))
-- FROM late_pairs(waits)
CREATE OR REPLACE TEMP MACRO late_pairs(waits) AS TABLE
WITH wholes AS MATERIALIZED (
    SELECT run, match, is_corrected, list(rank ORDER BY rank) AS ranks, max(came_ns) AS last_ns
    FROM query_table(waits)
    WHERE came_ns IS NOT NULL
    GROUP BY run, match, is_corrected
),
groups AS (
    SELECT run, is_corrected, ranks, row_number() OVER () AS number
    FROM (SELECT DISTINCT run, is_corrected, ranks FROM wholes)
),
late AS MATERIALIZED (
    SELECT
        late.run, late.match, late.step, late.is_corrected, late.held_up_ns, late.behind_ns, late.rank, late.before_rank,
        late.event_id, other.event_id AS before_event_id, late.start_ns, other.start_ns AS before_start_ns, late.came_ns,
        other.came_ns AS before_came_ns
    FROM query_table(waits) AS late
    JOIN query_table(waits) AS other ON late.match = other.match AND late.before_rank = other.rank
    WHERE late.behind_ns > 0
),
shared_groups AS (
    SELECT pairs.rank, pairs.before_rank, groups.number
    FROM (SELECT DISTINCT run, is_corrected, rank, before_rank FROM late) AS pairs
    JOIN groups
        ON pairs.run = groups.run AND pairs.is_corrected = groups.is_corrected
        AND list_contains(groups.ranks, pairs.rank) AND list_contains(groups.ranks, pairs.before_rank)
),
moments AS (
    SELECT groups.number, wholes.last_ns
    FROM wholes
    JOIN groups ON wholes.run = groups.run AND wholes.is_corrected = groups.is_corrected AND wholes.ranks = groups.ranks
),
wanted AS (
    SELECT late.match, late.rank, shared_groups.number, late.before_came_ns
    FROM late
    JOIN groups ON late.run = groups.run AND late.is_corrected = groups.is_corrected
    JOIN shared_groups
        ON groups.number = shared_groups.number AND late.rank = shared_groups.rank
        AND late.before_rank = shared_groups.before_rank
),
together AS (
    SELECT match, rank, max(since_ns) AS since_ns
    FROM (
        SELECT
            match, rank,
            last_value(last_ns IGNORE NULLS) OVER (
                PARTITION BY number ORDER BY at_ns, match NULLS FIRST ROWS UNBOUNDED PRECEDING
            ) AS since_ns
        FROM (
            SELECT number, last_ns AS at_ns, last_ns FROM moments
            UNION ALL BY NAME
            SELECT number, before_came_ns AS at_ns, match, rank FROM wanted
        )
    )
    WHERE match IS NOT NULL AND since_ns IS NOT NULL
    GROUP BY match, rank
)
SELECT
    late.run, late.match, late.step, late.held_up_ns, late.behind_ns, late.rank, late.before_rank, late.event_id,
    late.before_event_id, late.start_ns, late.before_start_ns,
    together.since_ns + late.start_ns - late.came_ns AS since_ns,
    together.since_ns + late.before_start_ns - late.before_came_ns AS before_since_ns
FROM late
LEFT JOIN together ON late.match = together.match AND late.rank = together.rank;

-- slice_places: what is around slices: for device work, what is around its launch; for a backward op, also what was around its
-- forward op.
-- parameter events TABLE  `events`, or a part of it
-- parameter slices TABLE  slices: `run`, `rank` and `event_id`
-- column run, rank, event_id  as in slices
-- column op VARCHAR  innermost op, including the slice itself; NULL if there is none
-- column module VARCHAR  innermost nn.Module, named as in `modules`; NULL if there is none
-- column is_input BOOLEAN  whether it is inside a data loader call
-- example: WITH slices AS (SELECT run, rank, event_id FROM events) FROM slice_places(events, slices)
CREATE OR REPLACE TEMP MACRO slice_places(events, slices) AS TABLE
WITH RECURSIVE bases AS MATERIALIZED (
    SELECT run, rank, row_number() OVER () << 40 AS base
    FROM (SELECT DISTINCT run, rank FROM query_table(slices))
),
loads AS (
    SELECT name
    FROM (SELECT DISTINCT name FROM query_table(events))
    WHERE is_data_load(name)
),
-- One number per slice, so that going outwards does not compare texts.
nodes AS MATERIALIZED (
    SELECT
        base + event_id AS node,
        base + CASE WHEN is_busy(kind) THEN coalesce(op_id, launch_id) ELSE parent_id END AS outer_node,
        base + fwd_id AS forward_node,
        kind = 'host_op' AS is_op, python_module_id IS NOT NULL AS is_module, module_hierarchy <> '' AS has_hierarchy,
        name IN (FROM loads) AS is_load
    FROM query_table(events) AS slice
    JOIN bases ON slice.run = bases.run AND slice.rank = bases.rank
),
around AS (
    SELECT base + event_id AS node, base + event_id AS around_node, NULL::BIGINT AS forward_node, 0 AS level
    FROM (SELECT DISTINCT run, rank, event_id FROM query_table(slices)) AS slice
    JOIN bases ON slice.run = bases.run AND slice.rank = bases.rank
    UNION ALL
    SELECT
        node,
        coalesce(outer_node, forward_node) AS around_node,
        CASE WHEN outer_node IS NOT NULL THEN forward_node END AS forward_node,
        level + 1 AS level
    FROM (
        SELECT
            around.node, around.level, nodes.outer_node, coalesce(around.forward_node, nodes.forward_node) AS forward_node
        FROM around
        JOIN nodes ON around.around_node = nodes.node
        WHERE around.level < 10000
    )
    WHERE coalesce(outer_node, forward_node) IS NOT NULL
),
innermost AS MATERIALIZED (
    SELECT
        around.node,
        arg_min(around_node, level) FILTER (is_op) AS op_node,
        arg_min(around_node, level) FILTER (is_module) AS module_node,
        arg_min(around_node, level) FILTER (has_hierarchy) AS hierarchy_node,
        bool_or(coalesce(is_load, false)) AS is_input
    FROM around
    JOIN nodes ON around.around_node = nodes.node
    GROUP BY around.node
),
names AS (
    SELECT base + event_id AS node, name, module_hierarchy
    FROM query_table(events) AS slice
    JOIN bases ON slice.run = bases.run AND slice.rank = bases.rank
    WHERE kind = 'host_op' OR python_module_id IS NOT NULL OR module_hierarchy <> ''
)
SELECT
    bases.run, bases.rank, innermost.node - bases.base AS event_id, ops.name AS op,
    coalesce(modules.name, hierarchies.module_hierarchy) AS module, innermost.is_input
FROM innermost
JOIN bases ON innermost.node >> 40 = bases.base >> 40
LEFT JOIN names AS ops ON innermost.op_node = ops.node
LEFT JOIN names AS modules ON innermost.module_node = modules.node
LEFT JOIN names AS hierarchies ON innermost.hierarchy_node = hierarchies.node;

-- late_cause: the cause that a stretch of a critical path stands for: host, input, launch, compute, communication, copy, or wait,
-- for another rank or where nothing was recorded.
-- parameter bound VARCHAR  `bound` of a stretch of a critical path
-- parameter edge VARCHAR  its `edge`
-- parameter is_wait BOOLEAN  whether it waits for the last rank of a collective
-- parameter is_input BOOLEAN  whether it is inside a data loader call
-- returns VARCHAR  the cause
-- example: SELECT late_cause('host', 'slice', false, true)
CREATE OR REPLACE TEMP MACRO late_cause(bound, edge, is_wait, is_input) AS
CASE
    WHEN is_wait OR edge = 'unknown' THEN 'wait'
    WHEN bound IN ('host', 'sync') THEN CASE WHEN is_input THEN 'input' ELSE 'host' END
    WHEN bound = 'idle' THEN 'launch'
    ELSE bound
END;

-- blamed: what each late rank did that the rank before it did not, and what collectives took once all ranks were there, per
-- collective. For a rank, `entry` adds up to its behind_ns, and to its held_up_ns. A rank that is late to a collective of one
-- group is often late to the next one of another group for the same reason: that counts once, at the last of them, and before
-- that as a wait for itself.
-- parameter events TABLE  `events`, or a part of it
-- parameter waits TABLE  rows of collective_waits
-- parameter pairs TABLE  rows of late_pairs, with `walk` and `before_walk`, numbers of what the two did, and `counts_later`
-- parameter stretches TABLE  stretches of critical paths, with `walk`, `run`, `waits_for_rank` and `is_wait`
-- column run  as in events
-- column rank INTEGER  rank that is late; NULL for a transfer
-- column match  as in collective_waits
-- column part VARCHAR  entry or transfer
-- column cause VARCHAR  the cause, from late_cause
-- column name VARCHAR  name of the slice; NULL if nothing was recorded
-- column op VARCHAR  innermost op around it
-- column module VARCHAR  innermost module around it
-- column waits_for_rank INTEGER  rank that it waited for
-- column cost_ns BIGINT  time that it costs the job; negative if the late rank did less
-- column held_up_ns BIGINT  the same if the rank comes last, and so alone holds up the job; else 0
-- example: WITH matches AS (FROM collective_matches(events, traces)), waits AS (FROM collective_waits(matches, traces, true)),
-- pairs AS (SELECT *, 1 AS walk, 2 AS before_walk, false AS counts_later FROM late_pairs(waits)), stretches AS (SELECT 1 AS walk,
-- run, rank, event_id, 'slice' AS edge, 'host' AS bound, NULL::INTEGER AS waits_for_rank, false AS is_wait, dur_ns FROM events)
-- FROM blamed(events, waits, pairs, stretches)
CREATE OR REPLACE TEMP MACRO blamed(events, waits, pairs, stretches) AS TABLE
WITH works AS MATERIALIZED (
    SELECT run, rank, event_id
    FROM query_table(stretches)
    WHERE event_id IS NOT NULL
    UNION
    SELECT run, rank, event_id
    FROM query_table(waits)
    WHERE rank = last_rank OR behind_ns > 0
),
named AS MATERIALIZED (
    SELECT slice.run, slice.rank, slice.event_id, slice.name, device_class(slice.kind, slice.kernel_category) AS class
    FROM query_table(events) AS slice
    SEMI JOIN works ON slice.run = works.run AND slice.rank = works.rank AND slice.event_id = works.event_id
),
places AS MATERIALIZED (
    FROM slice_places(events, 'works')
),
done AS (
    SELECT
        stretches.walk, named.name, places.op, places.module, stretches.waits_for_rank,
        late_cause(
            CASE WHEN stretches.edge = 'work' THEN named.class ELSE stretches.bound END, stretches.edge, stretches.is_wait,
            places.is_input
        ) AS cause,
        sum(stretches.dur_ns) AS done_ns
    FROM query_table(stretches) AS stretches
    LEFT JOIN named
        ON stretches.run = named.run AND stretches.rank = named.rank AND stretches.event_id = named.event_id
    LEFT JOIN places
        ON stretches.run = places.run AND stretches.rank = places.rank AND stretches.event_id = places.event_id
    GROUP BY ALL
),
compared AS (
    SELECT pairs.run, pairs.rank, pairs.match, pairs.held_up_ns > 0 AS is_last, done.* EXCLUDE (walk)
    FROM query_table(pairs) AS pairs
    JOIN done ON pairs.walk = done.walk
    WHERE NOT pairs.counts_later
    UNION ALL
    SELECT
        pairs.run, pairs.rank, pairs.match, pairs.held_up_ns > 0 AS is_last,
        done.* EXCLUDE (walk) REPLACE (-done_ns AS done_ns)
    FROM query_table(pairs) AS pairs
    JOIN done ON pairs.before_walk = done.walk
    WHERE NOT pairs.counts_later
    UNION ALL
    SELECT
        pairs.run, pairs.rank, pairs.match, pairs.held_up_ns > 0, named.name, places.op, places.module, pairs.rank, 'wait',
        pairs.behind_ns
    FROM query_table(pairs) AS pairs
    LEFT JOIN named ON pairs.run = named.run AND pairs.rank = named.rank AND pairs.event_id = named.event_id
    LEFT JOIN places ON pairs.run = places.run AND pairs.rank = places.rank AND pairs.event_id = places.event_id
    WHERE pairs.counts_later
),
differences AS (
    SELECT run, rank, match, is_last, cause, name, op, module, waits_for_rank, sum(done_ns) AS cost_ns
    FROM compared
    GROUP BY ALL
    HAVING cost_ns <> 0
)
SELECT
    run, rank, match, 'entry' AS part, cause, name, op, module, waits_for_rank, cost_ns::BIGINT AS cost_ns,
    CASE WHEN is_last THEN cost_ns ELSE 0 END::BIGINT AS held_up_ns
FROM differences
UNION ALL
SELECT
    waits.run, NULL::INTEGER, waits.match, 'transfer', 'communication', named.name, places.op, places.module, NULL::INTEGER,
    waits.latency_ns::BIGINT, NULL::BIGINT
FROM query_table(waits) AS waits
LEFT JOIN named ON waits.run = named.run AND waits.rank = named.rank AND waits.event_id = named.event_id
LEFT JOIN places ON waits.run = places.run AND waits.rank = places.rank AND waits.event_id = places.event_id
WHERE waits.rank = waits.last_rank;

-- late_parts: what took longer on a late rank than on the rank before it, by what its devices did: one row per rank that is late
-- to a collective and `excess`; the parts add up to behind_ns. Computation counts first, then communication, copies, and of the
-- rest the input; what remains is the host's. These are times, not reasons: a kernel that nothing waits for counts as much as one
-- that everything waits for. The reason is on the critical path of the rank, which `blame` follows. Ranks that were never
-- together are compared from when the one before was recorded. A rank without devices has no wait except where nothing was
-- recorded.
-- parameter events TABLE  `events`, or a part of it
-- parameter waits TABLE  rows of collective_waits
-- parameter pairs TABLE  rows of late_pairs
-- column run, rank  as in events
-- column match  as in collective_waits
-- column excess VARCHAR  host, input, compute, copy, communication or wait
-- column part_ns BIGINT  how much longer it took; negative if it took less
-- example: WITH matches AS (FROM collective_matches(events, traces)), waits AS (FROM collective_waits(matches, traces, true)),
-- pairs AS (FROM late_pairs(waits)) FROM late_parts(events, waits, pairs)
CREATE OR REPLACE TEMP MACRO late_parts(events, waits, pairs) AS TABLE
WITH ranks AS MATERIALIZED (
    SELECT run, rank, 8 * row_number() OVER () AS lane
    FROM (
        SELECT run, rank
        FROM query_table(pairs)
        UNION
        SELECT run, before_rank
        FROM query_table(pairs)
    )
),
of_pairs AS (
    FROM query_table(events)
    SEMI JOIN ranks USING (run, rank)
),
firsts AS MATERIALIZED (
    SELECT run, rank, min(start_ns) AS first_ns
    FROM of_pairs
    WHERE kind <> 'profiler'
    GROUP BY run, rank
),
-- Starts differ by how far the clock of the rank before is ahead, minus the delay of the late rank.
compared AS MATERIALIZED (
    SELECT
        pairs.*, other.first_ns AS before_first_ns,
        greatest(late.first_ns, other.first_ns - (pairs.before_start_ns - pairs.start_ns + pairs.behind_ns)) AS first_ns
    FROM query_table(pairs) AS pairs
    JOIN firsts AS late ON pairs.run = late.run AND pairs.rank = late.rank
    JOIN firsts AS other ON pairs.run = other.run AND pairs.before_rank = other.rank
),
sides AS MATERIALIZED (
    SELECT
        run, match, rank AS late_rank, behind_ns, rank, coalesce(since_ns, least(first_ns, start_ns)) AS since_ns, start_ns,
        1 AS sign
    FROM compared
    UNION ALL
    SELECT
        run, match, rank, behind_ns, before_rank, coalesce(before_since_ns, least(before_first_ns, before_start_ns)),
        before_start_ns, -1
    FROM compared
),
work AS MATERIALIZED (
    SELECT run, rank, start_ns, end_ns, CASE class WHEN 'compute' THEN 1 WHEN 'communication' THEN 3 ELSE 4 END AS level
    FROM device_work('of_pairs')
),
parts AS (
    FROM work
    UNION ALL
    SELECT run, rank, start_ns, start_ns + least(wait_ns, dur_ns), 2
    FROM query_table(waits)
    SEMI JOIN (SELECT DISTINCT run, rank FROM work) AS with_devices USING (run, rank)
    UNION ALL
    SELECT run, rank, start_ns, start_ns + dur_ns, 5
    FROM of_pairs
    WHERE is_data_load(name) AND start_ns IS NOT NULL AND dur_ns IS NOT NULL
),
-- Each level includes the levels before it: the difference of two levels belongs to the higher one alone.
levels AS (
    SELECT ranks.lane + levels.level AS lane, parts.start_ns, parts.end_ns
    FROM parts
    JOIN ranks ON parts.run = ranks.run AND parts.rank = ranks.rank
    JOIN range(1, 6) AS levels(level) ON parts.level <= levels.level
),
bounds AS MATERIALIZED (
    SELECT sides.*, ranks.lane
    FROM sides
    JOIN ranks ON sides.run = ranks.run AND sides.rank = ranks.rank
),
edges AS (
    SELECT
        run, match, late_rank, levels.level, lane + levels.level AS lane,
        unnest([since_ns, start_ns]) AS at_ns, unnest([-sign, sign]) AS sign
    FROM bounds, range(1, 6) AS levels(level)
),
-- Edges are intervals of zero length, at which a clock is read that runs while a lane is busy. Its readings go on from lane to
-- lane: only the difference of two edges counts.
moments AS (
    SELECT *, 0 AS event_id FROM levels
    UNION ALL BY NAME
    SELECT run, match, late_rank, level, sign, lane, at_ns AS start_ns, at_ns AS end_ns, 1 AS event_id FROM edges
),
covered AS (
    SELECT run, match, late_rank, level, sum(sign * (run_ns - greatest(free_ns - start_ns, 0))) AS ns
    FROM (SELECT *, sum(added_ns) OVER (ROWS UNBOUNDED PRECEDING) AS run_ns FROM busy_order('moments'))
    WHERE sign IS NOT NULL
    GROUP BY run, match, late_rank, level
),
sums AS (
    SELECT
        bounds.run, bounds.match, bounds.late_rank, any_value(behind_ns) AS behind_ns,
        sum(sign * (start_ns - since_ns)) AS recorded_ns
    FROM bounds
    GROUP BY bounds.run, bounds.match, bounds.late_rank
),
known AS (
    SELECT run, match, late_rank, level, ns
    FROM covered
    UNION ALL
    SELECT run, match, late_rank, 6, recorded_ns
    FROM sums
    UNION ALL
    SELECT run, match, late_rank, unnest([0, 7]), unnest([0, behind_ns])
    FROM sums
),
differences AS (
    SELECT run, match, late_rank, level, coalesce(ns, 0) - coalesce(lag(ns) OVER of_pair, 0) AS part_ns
    FROM (
        SELECT sums.run, sums.match, sums.late_rank, levels.level, max(known.ns) AS ns
        FROM sums
        CROSS JOIN range(0, 8) AS levels(level)
        LEFT JOIN known
            ON sums.run = known.run AND sums.match = known.match AND sums.late_rank = known.late_rank
            AND levels.level = known.level
        GROUP BY ALL
    )
    WINDOW of_pair AS (PARTITION BY run, match, late_rank ORDER BY level)
)
SELECT
    run, late_rank AS rank, match,
    ['compute', 'wait', 'communication', 'copy', 'input', 'host', 'wait'][level] AS excess,
    sum(part_ns)::BIGINT AS part_ns
FROM differences
WHERE level > 0
GROUP BY ALL
HAVING sum(part_ns) <> 0;
