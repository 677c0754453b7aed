-- What the host did while a device had nothing to do: what covers most of a gap, not what came last in it. At each moment, the
-- innermost slice of each sort counts on a host thread: `op`, `annotation`, `call` (runtime or driver), `frame` (any Python
-- frame), `module` (an nn.Module) and `line` (a frame of the user's own code). So a line has all time below it that is in no
-- other user line, including time in PyTorch.
-- In a bare shell read `devices.sql`, `frames.sql`, `lanes.sql`, `intervals.sql`, `busy.sql` and `idle_causes.sql` of `sql/lib`
-- first.

-- host_slices: one row per slice of a host thread and sort. For a rank without Python frames, ops stand in for lines and modules,
-- by their stack and their `module_hierarchy`.
-- parameter events TABLE  `events`, or a part of it
-- parameter library VARCHAR  libraries whose frames are lines too, as for is_line; none by default
-- column run, rank, thread, event_id, start_ns, preorder  as in events
-- column end_ns BIGINT  end of the slice
-- column sort VARCHAR  op, annotation, call, frame, module or line
-- column label VARCHAR  name of the slice, or of what it stands in for
-- example: FROM host_slices(events)
CREATE OR REPLACE TEMP MACRO host_slices(events, library := 'none') AS TABLE
WITH slices AS MATERIALIZED (
    SELECT
        run, rank, thread, event_id, start_ns, start_ns + dur_ns AS end_ns, preorder, name,
        CASE
            WHEN kind = 'host_op' THEN 'op'
            WHEN kind = 'annotation' THEN 'annotation'
            WHEN kind = 'python' THEN 'frame'
            WHEN is_call(kind) THEN 'call'
        END AS sort,
        python_module_id,
        CASE WHEN kind = 'host_op' THEN stack END AS stack,
        CASE WHEN kind = 'host_op' THEN nullif(module_hierarchy, '') END AS module_hierarchy
    FROM query_table(events)
    WHERE sort IS NOT NULL AND start_ns IS NOT NULL AND dur_ns > 0 AND is_async IS NOT TRUE
),
frame_names AS (
    SELECT DISTINCT name FROM slices WHERE sort = 'frame'
),
-- A list keeps the pattern from being tried on every frame.
line_names AS (
    SELECT name FROM few('frame_names') WHERE is_line(name, library)
),
framed AS (
    SELECT DISTINCT run, rank
    FROM slices
    WHERE sort = 'frame'
),
stand_ins AS (
    FROM slices
    ANTI JOIN framed ON slices.run = framed.run AND slices.rank = framed.rank
    WHERE sort = 'op' AND (stack IS NOT NULL OR module_hierarchy IS NOT NULL)
),
line_stacks AS (
    SELECT stack, line_of(stack, library) AS line
    FROM (SELECT DISTINCT stack FROM stand_ins WHERE stack IS NOT NULL)
)
SELECT run, rank, thread, event_id, start_ns, end_ns, preorder, sort, name AS label
FROM slices
UNION ALL
SELECT run, rank, thread, event_id, start_ns, end_ns, preorder, 'module' AS sort, name AS label
FROM slices
WHERE sort = 'frame' AND python_module_id IS NOT NULL
UNION ALL
SELECT run, rank, thread, event_id, start_ns, end_ns, preorder, 'line' AS sort, name AS label
FROM slices
SEMI JOIN line_names ON slices.name = line_names.name
WHERE sort = 'frame'
UNION ALL
SELECT run, rank, thread, event_id, start_ns, end_ns, preorder, 'module' AS sort, module_hierarchy AS label
FROM stand_ins
WHERE module_hierarchy IS NOT NULL
UNION ALL
SELECT run, rank, thread, event_id, start_ns, end_ns, preorder, 'line' AS sort, line_stacks.line AS label
FROM stand_ins
JOIN line_stacks ON stand_ins.stack = line_stacks.stack
WHERE line_stacks.line IS NOT NULL;

-- line_threads: the thread of each (run, rank) with the most lines of the user's own code: what drove the program if a thread
-- without any, such as backward, launched the work.
-- parameter slices TABLE  rows of host_slices
-- column run, rank, thread  as in events
-- column has_most BOOLEAN  whether it is that thread
-- example: WITH slices AS (FROM host_slices(events)) FROM line_threads(slices)
CREATE OR REPLACE TEMP MACRO line_threads(slices) AS TABLE
SELECT
    run, rank, thread,
    row_number() OVER (PARTITION BY run, rank ORDER BY count(*) DESC, thread) = 1 AS has_most
FROM query_table(slices)
WHERE sort = 'line'
GROUP BY run, rank, thread;

-- gap_threads: one row per gap and sort, with the host thread that counts for it: that of the launch; for lines and modules, the
-- thread with the most lines if the launch's thread has none.
-- parameter gaps TABLE  rows of work_gaps, or some columns of them: `run`, `rank`, `thread` and any others
-- parameter slices TABLE  rows of host_slices
-- column *  as in gaps
-- column sort VARCHAR  as in host_slices
-- column thread INTEGER  thread that counts; NULL if there is none
-- example: WITH gaps AS (FROM events), slices AS (FROM host_slices(events)) FROM gap_threads(gaps, slices)
CREATE OR REPLACE TEMP MACRO gap_threads(gaps, slices) AS TABLE
WITH with_lines AS MATERIALIZED (
    FROM line_threads(slices)
)
SELECT
    gaps.* REPLACE (
        CASE
            WHEN sorts.sort IN ('line', 'module') AND launching.thread IS NULL THEN coalesce(main.thread, gaps.thread)
            ELSE gaps.thread
        END AS thread
    ),
    sorts.sort
FROM query_table(gaps) AS gaps
CROSS JOIN (SELECT unnest(['op', 'annotation', 'call', 'frame', 'module', 'line']) AS sort) AS sorts
LEFT JOIN few('with_lines') AS launching
    ON gaps.run = launching.run AND gaps.rank = launching.rank AND gaps.thread = launching.thread
LEFT JOIN (FROM few('with_lines') WHERE has_most) AS main ON gaps.run = main.run AND gaps.rank = main.rank;

-- innermost_stretches: for each of several groups of slices, which is the innermost at each moment.
-- parameter slices TABLE  `part` (a number), `sort`, `event_id`, `start_ns`, `end_ns`, `preorder`, `label`
-- column part, sort, event_id, label  as in slices
-- column start_ns BIGINT  start of a stretch of time in which this slice is the innermost of its part and sort
-- column end_ns BIGINT  its end
-- column place BIGINT  its number in the order of part, sort and start, from 1
-- example: WITH slices AS (SELECT thread AS part, * FROM host_slices(events)) FROM innermost_stretches(slices)
CREATE OR REPLACE TEMP MACRO innermost_stretches(slices) AS TABLE
WITH groups AS MATERIALIZED (
    SELECT part, sort, (row_number() OVER (ORDER BY part, sort))::INTEGER AS lane
    FROM (SELECT DISTINCT part, sort FROM query_table(slices))
),
turns AS (
    SELECT
        groups.lane, {'event_id': event_id, 'label': label} AS slice, start_ns - end_ns AS less_ns, preorder,
        unnest([start_ns, end_ns]) AS at_ns, unnest([1::TINYINT, -1::TINYINT]) AS change
    FROM query_table(slices) AS slices
    JOIN few(groups) AS groups ON slices.part = groups.part AND slices.sort = groups.sort
),
-- Sorted once, so that all but the last of these windows stream: each group ends at level 0, where the next one begins.
leveled AS (
    SELECT
        lane, at_ns, CASE WHEN change = 1 THEN slice END AS begun,
        sum(change) OVER (ROWS UNBOUNDED PRECEDING) AS level, lead(at_ns) OVER () AS until_ns, row_number() OVER () AS turn
    FROM (FROM turns ORDER BY lane, at_ns, change, less_ns, preorder, slice.event_id)
)
SELECT
    groups.part, groups.sort, owned.at_ns AS start_ns, owned.until_ns AS end_ns, owned.place,
    owner.event_id AS event_id, owner.label AS label
FROM (
    SELECT
        lane, at_ns, until_ns, place,
        last_value(begun IGNORE NULLS) OVER (PARTITION BY lane, level ORDER BY turn ROWS UNBOUNDED PRECEDING) AS owner
    FROM (
        SELECT
            * REPLACE (level::INTEGER AS level),
            count(CASE WHEN level > 0 AND until_ns > at_ns THEN 1 END) OVER (ROWS UNBOUNDED PRECEDING) AS place
        FROM leveled
    )
    WHERE level > 0
) AS owned
JOIN few(groups) AS groups ON owned.lane = groups.lane
WHERE owned.until_ns > owned.at_ns;

-- idle_label: which labels are added up together: all profiler steps are one.
-- parameter label VARCHAR  label of host_slices
-- returns VARCHAR  the label
-- example: SELECT idle_label('ProfilerStep#7')
CREATE OR REPLACE TEMP MACRO idle_label(label) AS
CASE WHEN regexp_full_match(label, 'ProfilerStep#\d+') THEN 'ProfilerStep*' ELSE label END;

-- gap_stretches: the parts of gaps in which one host slice was the innermost of its sort. A slice has several in a gap if others
-- that are in it come between them.
-- parameter events TABLE  `events`, or a part of it
-- parameter gaps TABLE  rows of work_gaps, with a number `gap`, which several may share
-- parameter sorts VARCHAR[]  sorts of host_slices that are wanted
-- parameter library VARCHAR  as for host_slices
-- column gap BIGINT  number of the gap
-- column sort VARCHAR  as in host_slices
-- column event_id BIGINT  event_id of the slice
-- column label VARCHAR  as in host_slices
-- column part_ns BIGINT  part of the gap
-- example: WITH work AS (FROM launched_work(events)), gaps AS (SELECT *, row_number() OVER () AS gap FROM work_gaps(events,
-- work, 'device', 30000)) FROM gap_stretches(events, gaps, ['op', 'line'])
CREATE OR REPLACE TEMP MACRO gap_stretches(events, gaps, sorts, library := 'none') AS TABLE
WITH slices AS MATERIALIZED (
    FROM host_slices(events, library)
    -- Lines say which thread counts.
    WHERE sort = 'line' OR list_contains(sorts, sort)
),
-- A thread counts as one of the user's by the user's own lines, whichever libraries are looked into.
of_user AS (
    FROM slices WHERE sort <> 'line' OR library = 'none' OR is_own_frame(label)
),
-- Few threads in place of many gaps; numbers are compared faster than texts.
hosts AS MATERIALIZED (
    SELECT DISTINCT run, rank, thread, thread AS gap_thread FROM query_table(gaps)
),
gap_parts AS MATERIALIZED (
    SELECT
        run, rank, gap_thread, thread, sort, (dense_rank() OVER (ORDER BY run, rank, thread, sort))::INTEGER AS part
    FROM gap_threads('hosts', 'of_user')
    WHERE thread IS NOT NULL AND list_contains(sorts, sort)
),
parts AS MATERIALIZED (
    SELECT DISTINCT run, rank, thread, sort, part FROM gap_parts
),
labels AS MATERIALIZED (
    SELECT label, (row_number() OVER ())::INTEGER AS code
    FROM (SELECT DISTINCT label FROM slices WHERE label IS NOT NULL)
),
of_parts AS (
    SELECT
        parts.part, slices.sort, slices.event_id, slices.start_ns, slices.end_ns, slices.preorder, labels.code AS label
    FROM slices
    JOIN few('parts') AS parts
        ON slices.run = parts.run AND slices.rank = parts.rank AND slices.thread = parts.thread AND slices.sort = parts.sort
    LEFT JOIN few('labels') AS labels ON slices.label = labels.label
),
stretches AS MATERIALIZED (
    SELECT part, place, start_ns, end_ns, event_id, label FROM innermost_stretches('of_parts')
),
firsts AS (
    SELECT part, min(place) AS place FROM stretches GROUP BY part
),
on_parts AS (
    SELECT parts.part, gaps.start_ns, gaps.end_ns, gaps.gap, row_number() OVER () AS row
    FROM query_table(gaps) AS gaps
    JOIN few('gap_parts') AS parts
        ON gaps.run = parts.run AND gaps.rank = parts.rank AND gaps.thread IS NOT DISTINCT FROM parts.gap_thread
),
-- Stretches of a part do not overlap, so those in a gap follow each other: from the last one that began before its start on, to
-- the last one that began before its end. One that begins at the end may count: it has no part of the gap.
spans AS (
    SELECT
        any_value(part) AS part, any_value(gap) AS gap, min(at_ns) AS start_ns, max(at_ns) AS end_ns,
        min(place) AS begun_place, max(place) AS last_place
    FROM (
        SELECT part, at_ns, gap, row, count(is_stretch) OVER (ROWS UNBOUNDED PRECEDING) AS place
        FROM (
            SELECT part, start_ns AS at_ns, NULL::BIGINT AS gap, NULL::BIGINT AS row, true AS is_stretch FROM stretches
            UNION ALL
            SELECT part, unnest([start_ns, end_ns]), gap, row, NULL FROM on_parts
            ORDER BY part, at_ns
        )
    )
    WHERE row IS NOT NULL
    GROUP BY row
)
SELECT
    gaps.gap, parts.sort, stretches.event_id, labels.label,
    least(stretches.end_ns, gaps.end_ns) - greatest(stretches.start_ns, gaps.start_ns) AS part_ns
FROM (
    SELECT
        spans.gap, spans.start_ns, spans.end_ns,
        unnest(range(greatest(spans.begun_place, firsts.place), spans.last_place + 1)) AS place
    FROM spans
    JOIN firsts ON spans.part = firsts.part
) AS gaps
JOIN stretches ON gaps.place = stretches.place
JOIN few('parts') AS parts ON stretches.part = parts.part
LEFT JOIN few('labels') AS labels ON stretches.label = labels.code
WHERE least(stretches.end_ns, gaps.end_ns) > greatest(stretches.start_ns, gaps.start_ns);

-- gap_owners: the part of each gap for which each host slice was the innermost of its sort.
-- parameter events TABLE  `events`, or a part of it
-- parameter gaps TABLE  rows of work_gaps, with a number `gap`
-- column gap, sort, event_id, label  as in gap_stretches
-- column part_ns BIGINT  part of the gap
-- example: WITH work AS (FROM launched_work(events)), gaps AS (SELECT *, row_number() OVER () AS gap FROM work_gaps(events,
-- work, 'device', 30000)) FROM gap_owners(events, gaps)
CREATE OR REPLACE TEMP MACRO gap_owners(events, gaps) AS TABLE
SELECT gap, sort, event_id, any_value(label) AS label, sum(part_ns)::BIGINT AS part_ns
FROM gap_stretches(events, gaps, ['op', 'annotation', 'call', 'frame', 'module', 'line'])
GROUP BY gap, sort, event_id;

-- captured_owners: what captured calls of graphs were in.
-- parameter events TABLE  `events`, or a part of it
-- parameter sort VARCHAR  as in host_slices
-- parameter library VARCHAR  as for host_slices
-- column run, rank, event_id  as in captured_calls
-- column label VARCHAR  name of the innermost of this sort around the call; calls with none have no row
-- example: FROM captured_owners(events, 'line')
CREATE OR REPLACE TEMP MACRO captured_owners(events, sort, library := 'none') AS TABLE
SELECT
    run, rank, event_id,
    CASE sort
        WHEN 'line' THEN line_of(stack, library)
        WHEN 'frame' THEN nullif(string_split(stack, ';')[1], '')
        WHEN 'module' THEN coalesce(
            nullif(regexp_extract(stack, '(?:^|;)(nn\.Module: [^;]*)', 1), ''), nullif(module_hierarchy, '')
        )
        WHEN 'op' THEN CASE WHEN kind = 'host_op' THEN name END
        WHEN 'annotation' THEN CASE WHEN kind = 'annotation' THEN name END
    END AS label
FROM captured_calls(events)
WHERE label IS NOT NULL;

-- replay_gaps: the gaps inside replays of graphs, after the first work of the replay had begun, that work of these captured calls
-- ended.
-- parameter events TABLE  `events`, or a part of it
-- parameter gaps TABLE  rows of work_gaps, with a number `gap`
-- parameter owners TABLE  rows of captured_owners
-- column gap, gap_ns  as in gaps
-- column event_id, label  as in owners
-- example: WITH work AS (FROM launched_work(events)), gaps AS (SELECT *, row_number() OVER () AS gap FROM work_gaps(events,
-- work, 'device', 30000)), owners AS (FROM captured_owners(events, 'line')) FROM replay_gaps(events, gaps, owners)
CREATE OR REPLACE TEMP MACRO replay_gaps(events, gaps, owners) AS TABLE
WITH work AS MATERIALIZED (
    SELECT run, rank, event_id, op_id, launch_id, start_ns
    FROM query_table(events)
    WHERE is_busy(kind) AND launch_id IS NOT NULL AND (SELECT count(*) > 0 FROM query_table(owners))
),
begun AS (
    SELECT run, rank, launch_id, min(start_ns) AS first_ns
    FROM work
    GROUP BY run, rank, launch_id
)
SELECT gaps.gap, gaps.gap_ns, owners.event_id, owners.label
FROM query_table(gaps) AS gaps
JOIN work ON gaps.run = work.run AND gaps.rank = work.rank AND gaps.after_id = work.event_id
JOIN query_table(owners) AS owners ON work.run = owners.run AND work.rank = owners.rank AND work.op_id = owners.event_id
JOIN begun
    ON work.run = begun.run AND work.rank = begun.rank AND work.launch_id = begun.launch_id
    AND gaps.start_ns > begun.first_ns;
