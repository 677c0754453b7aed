-- Backward work of host regions: that of backward ops whose forward op ran in the region.
-- In a bare shell read `devices.sql`, `lanes.sql`, `intervals.sql`, `steps.sql`, `busy.sql` and `regions.sql` of `sql/lib` first.

-- backward_times: one row per backward op whose forward op is known, with its place in the order of the host (`preorder`) and its
-- own time: without the time in calls of regions inside it, and in other such ops.
-- parameter events TABLE  `events`, or a part of it
-- parameter regions TABLE  slices of regions, as at the top of `regions.sql`
-- column run, rank, event_id  as in events
-- column line BIGINT  number of the host's line, as in region_lines; NULL if it has no region
-- column place BIGINT  place of the op
-- column last_place BIGINT  place of the last slice inside it
-- column forward_place BIGINT  place of its forward op
-- column own_ns HUGEINT  its time without that of regions and backward ops inside it
-- example: WITH regions AS (SELECT *, event_id AS region, 0 AS sub, NULL::STRUCT(step BIGINT) AS replay FROM events WHERE
-- kind IN ('annotation', 'host_op')) FROM
-- backward_times(events, regions)
CREATE OR REPLACE TEMP MACRO backward_times(events, regions) AS TABLE
WITH ops AS MATERIALIZED (
    SELECT run, rank, event_id, preorder, last_descendant_id, dur_ns, fwd_id
    FROM query_table(events)
    WHERE fwd_id IS NOT NULL AND preorder IS NOT NULL
),
wanted AS (
    SELECT run, rank, fwd_id AS event_id FROM ops
    UNION
    SELECT run, rank, last_descendant_id FROM ops
    UNION
    SELECT regions.run, regions.rank, regions.last_descendant_id
    FROM query_table(regions) AS regions
    SEMI JOIN ops ON regions.run = ops.run AND regions.rank = ops.rank
    WHERE regions.preorder IS NOT NULL
),
spots AS MATERIALIZED (
    SELECT host.run, host.rank, host.event_id, host.preorder AS place
    FROM query_table(events) AS host
    JOIN wanted ON host.run = wanted.run AND host.rank = wanted.rank AND host.event_id = wanted.event_id
    WHERE host.preorder IS NOT NULL
),
nested AS MATERIALIZED (
    SELECT
        row_number() OVER () AS slice, nested.run, nested.rank, nested.op_id, nested.preorder AS place, ends.place AS last_place,
        forwards.place AS forward_place, coalesce(nested.dur_ns, 0) AS dur_ns
    FROM (
        SELECT run, rank, event_id AS op_id, preorder, last_descendant_id, dur_ns, fwd_id
        FROM ops
        UNION ALL BY NAME
        SELECT DISTINCT regions.run, regions.rank, regions.preorder, regions.last_descendant_id, regions.dur_ns
        FROM query_table(regions) AS regions
        WHERE regions.preorder IS NOT NULL
    ) AS nested
    JOIN spots AS ends
        ON nested.run = ends.run AND nested.rank = ends.rank AND nested.last_descendant_id = ends.event_id
    LEFT JOIN spots AS forwards
        ON nested.run = forwards.run AND nested.rank = forwards.rank AND nested.fwd_id = forwards.event_id
    WHERE nested.op_id IS NULL OR forwards.place IS NOT NULL
),
-- At one place a region begins before the op and ends after it.
marks AS (
    SELECT
        run, rank, slice, dur_ns, unnest([place, place, last_place]) AS mark_place,
        unnest(CASE WHEN op_id IS NULL THEN [0, 1, 5] ELSE [2, 3, 4] END) AS turn,
        unnest(['inside', 'begin', 'end']) AS what
    FROM nested
),
levels AS (
    SELECT *, sum(CASE what WHEN 'begin' THEN 1 WHEN 'end' THEN -1 ELSE 0 END) OVER until_now AS level
    FROM marks
    WINDOW until_now AS (PARTITION BY run, rank ORDER BY mark_place, turn, slice ROWS UNBOUNDED PRECEDING)
),
around AS (
    SELECT slice, what, dur_ns, last_value(CASE WHEN what = 'begin' THEN slice END IGNORE NULLS) OVER until_now AS owner
    FROM levels
    WINDOW until_now AS (PARTITION BY run, rank, level ORDER BY mark_place, turn, slice ROWS UNBOUNDED PRECEDING)
),
inner_times AS (
    SELECT owner AS slice, sum(dur_ns) AS inner_ns
    FROM around
    WHERE what = 'inside' AND owner IS NOT NULL
    GROUP BY owner
)
SELECT
    nested.run, nested.rank, nested.op_id AS event_id, lines.line, nested.place, nested.last_place, nested.forward_place,
    greatest(nested.dur_ns - coalesce(inner_times.inner_ns, 0), 0) AS own_ns
FROM nested
LEFT JOIN inner_times ON nested.slice = inner_times.slice
LEFT JOIN (FROM region_lines(regions) WHERE device IS NULL AND replay IS NULL) AS lines ON nested.run = lines.run AND nested.rank = lines.rank
WHERE nested.op_id IS NOT NULL;

-- backward_region_work: rows of region_work that backward ops launched, at the places of their forward ops; if several of these
-- ops are around the work, the innermost counts, and none if a call of a region is inside it.
-- parameter events TABLE  `events`, or a part of it
-- parameter regions TABLE  slices of regions, as at the top of `regions.sql`
-- parameter work TABLE  rows of region_work
-- parameter backward TABLE  rows of backward_times
-- column *  as in work
-- example: WITH regions AS (SELECT *, event_id AS region, 0 AS sub, NULL::STRUCT(step BIGINT) AS replay FROM events WHERE
-- kind IN ('annotation', 'host_op')), work AS
-- (FROM region_work(events, regions)), backward AS (FROM backward_times(events, regions)) FROM backward_region_work(events,
-- regions, work, backward)
CREATE OR REPLACE TEMP MACRO backward_region_work(events, regions, work, backward) AS TABLE
WITH host_lines AS (
    SELECT DISTINCT line, run, rank
    FROM query_table(backward)
    WHERE line IS NOT NULL
),
spans AS (
    SELECT line, place, last_place, forward_place, true AS is_op
    FROM query_table(backward)
    WHERE line IS NOT NULL
    UNION ALL
    SELECT DISTINCT host_lines.line, regions.preorder, host.preorder, NULL::BIGINT, false
    FROM query_table(regions) AS regions
    JOIN host_lines ON regions.run = host_lines.run AND regions.rank = host_lines.rank
    JOIN query_table(events) AS host
        ON regions.run = host.run AND regions.rank = host.rank AND regions.last_descendant_id = host.event_id
    WHERE regions.preorder IS NOT NULL
),
marks AS (
    SELECT
        line, forward_place, unnest([place, last_place]) AS mark_place, unnest([1, -1]) AS change,
        unnest(CASE WHEN is_op THEN [1, 3] ELSE [0, 4] END) AS turn
    FROM spans
    UNION ALL
    SELECT DISTINCT work.line, NULL::BIGINT, work.place, 0 AS change, 2 AS turn
    FROM query_table(work) AS work
    SEMI JOIN host_lines ON work.line = host_lines.line
    WHERE work.place IS NOT NULL
),
levels AS (
    SELECT *, sum(change) OVER (PARTITION BY line ORDER BY mark_place, turn ROWS UNBOUNDED PRECEDING) AS level
    FROM marks
),
owned AS (
    SELECT
        line, mark_place, change,
        last_value(CASE WHEN change = 1 THEN {'place': forward_place} END IGNORE NULLS) OVER (
            PARTITION BY line, level ORDER BY mark_place, turn ROWS UNBOUNDED PRECEDING
        ).place AS forward_place,
        level
    FROM levels
)
SELECT work.* REPLACE (owned.forward_place AS place)
FROM query_table(work) AS work
JOIN owned ON work.line = owned.line AND work.place = owned.mark_place
WHERE owned.change = 0 AND owned.level > 0 AND owned.forward_place IS NOT NULL;

-- backward_region_host: own times of backward ops as rows of region_work, at the places of their forward ops.
-- parameter backward TABLE  rows of backward_times
-- column line BIGINT  number of the host's line
-- column place BIGINT  place of the forward op
-- column is_launched BOOLEAN  true
-- column is_found BOOLEAN  true
-- column is_kernel BOOLEAN  false
-- column start_ns BIGINT  0
-- column end_ns BIGINT  own time of the backward op
-- column idle_ns HUGEINT  0
-- column alone_ns BIGINT  NULL
-- column alone_end_ns BIGINT  NULL
-- column is_in_capture BOOLEAN  false
-- example: WITH regions AS (SELECT *, event_id AS region, 0 AS sub, NULL::STRUCT(step BIGINT) AS replay FROM events WHERE
-- kind IN ('annotation', 'host_op')), backward
-- AS (FROM backward_times(events, regions)) FROM backward_region_host(backward)
CREATE OR REPLACE TEMP MACRO backward_region_host(backward) AS TABLE
SELECT
    line, forward_place AS place, true AS is_launched, true AS is_found, false AS is_kernel, 0::BIGINT AS start_ns,
    own_ns::BIGINT AS end_ns, 0::HUGEINT AS idle_ns, NULL::BIGINT AS alone_ns, NULL::BIGINT AS alone_end_ns,
    false AS is_in_capture
FROM query_table(backward)
WHERE line IS NOT NULL;

-- autograd_slices: what threads of autograd did during slices of regions on the thread that waits for them: one row per slice and
-- such a thread, with `preorder` and `last_descendant_id` of what began there in that time and has nothing around it. A thread of
-- autograd has backward ops with nothing around them, and all of their forward ops that ran elsewhere ran on the waiting thread.
-- parameter events TABLE  `events`, or a part of it
-- parameter regions TABLE  slices of regions, as at the top of `regions.sql`, with `thread` and `start_ns`
-- column *  as in regions
-- example: WITH regions AS (SELECT *, event_id AS region, 0 AS sub, NULL::STRUCT(step BIGINT) AS replay FROM events WHERE
-- kind IN ('annotation', 'host_op')) FROM
-- autograd_slices(events, regions)
CREATE OR REPLACE TEMP MACRO autograd_slices(events, regions) AS TABLE
WITH tops AS MATERIALIZED (
    SELECT run, rank, event_id, thread, start_ns, preorder, last_descendant_id, fwd_id
    FROM query_table(events)
    WHERE parent_id IS NULL AND preorder IS NOT NULL AND start_ns IS NOT NULL
),
engines AS MATERIALIZED (
    SELECT backward.run, backward.rank, backward.thread AS engine, min(forward.thread) AS thread
    FROM (FROM tops WHERE fwd_id IS NOT NULL) AS backward
    JOIN query_table(events) AS forward
        ON backward.run = forward.run AND backward.rank = forward.rank AND backward.fwd_id = forward.event_id
    WHERE backward.thread <> forward.thread
    GROUP BY ALL
    HAVING min(forward.thread) = max(forward.thread)
),
calls AS MATERIALIZED (
    SELECT
        engines.*, tops.start_ns, tops.preorder, tops.last_descendant_id,
        row_number() OVER (ORDER BY engines.run, engines.rank, engine, tops.start_ns, tops.preorder) AS number
    FROM tops
    JOIN engines ON tops.run = engines.run AND tops.rank = engines.rank AND tops.thread = engines.engine
),
waiting AS MATERIALIZED (
    SELECT row_number() OVER () AS slice, regions.*, engines.engine
    FROM query_table(regions) AS regions
    JOIN engines USING (run, rank, thread)
    WHERE regions.preorder IS NOT NULL AND regions.start_ns IS NOT NULL AND regions.dur_ns IS NOT NULL
),
moments AS (
    SELECT run, rank, engine, start_ns AS at_ns, true AS is_call, NULL::BIGINT AS slice
    FROM calls
    UNION ALL
    SELECT run, rank, engine, unnest([start_ns, start_ns + dur_ns]), false, slice
    FROM waiting
),
bounds AS (
    SELECT slice, min(begun) + 1 AS first_number, max(begun) AS last_number
    FROM (
        -- Sorted once, so that the window streams.
        SELECT slice, is_call, count(CASE WHEN is_call THEN 1 END) OVER (ROWS UNBOUNDED PRECEDING) AS begun
        FROM (FROM moments ORDER BY run, rank, engine, at_ns, is_call)
    )
    WHERE NOT is_call
    GROUP BY slice
    HAVING min(begun) < max(begun)
)
SELECT
    waiting.* EXCLUDE (slice, engine)
    REPLACE (first_call.preorder AS preorder, last_call.last_descendant_id AS last_descendant_id)
FROM waiting
JOIN bounds USING (slice)
JOIN calls AS first_call ON bounds.first_number = first_call.number
JOIN calls AS last_call ON bounds.last_number = last_call.number;
