-- What the host did while a device had nothing to do: what covers most of a gap, not what came last in it. At each moment, the
-- innermost slice of each sort counts on a host thread: `op`, `annotation`, `call` (runtime or driver), `frame` (any Python
-- frame), `module` (an nn.Module) and `line` (a frame of the user's own code). So a line has all time below it that is in no
-- other user line, including time in PyTorch.
-- In a bare shell read `devices.sql`, `frames.sql`, `lanes.sql`, `intervals.sql`, `busy.sql` and `idle_causes.sql` of `sql/lib`
-- first.

-- host_slices: one row per slice of a host thread and sort. For a rank without Python frames, ops stand in for lines and modules,
-- by their stack and their `module_hierarchy`.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, thread, event_id, start_ns, preorder  as in events
-- column end_ns BIGINT  end of the slice
-- column sort VARCHAR  op, annotation, call, frame, module or line
-- column label VARCHAR  name of the slice, or of what it stands in for
-- example: FROM host_slices(events)
CREATE OR REPLACE TEMP MACRO host_slices(events) AS TABLE
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
own_names AS (
    SELECT name
    FROM (SELECT DISTINCT name FROM slices WHERE sort = 'frame')
    WHERE is_own_frame(name)
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
own_stacks AS (
    SELECT stack, frame_of(stack) AS line
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
SEMI JOIN own_names ON slices.name = own_names.name
WHERE sort = 'frame'
UNION ALL
SELECT run, rank, thread, event_id, start_ns, end_ns, preorder, 'module' AS sort, module_hierarchy AS label
FROM stand_ins
WHERE module_hierarchy IS NOT NULL
UNION ALL
SELECT run, rank, thread, event_id, start_ns, end_ns, preorder, 'line' AS sort, own_stacks.line AS label
FROM stand_ins
JOIN own_stacks ON stand_ins.stack = own_stacks.stack
WHERE own_stacks.line IS NOT NULL;

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
-- example: WITH slices AS (SELECT thread AS part, * FROM host_slices(events)) FROM innermost_stretches(slices)
CREATE OR REPLACE TEMP MACRO innermost_stretches(slices) AS TABLE
WITH turns AS (
    SELECT
        part, sort, event_id, label, start_ns AS begun_ns, start_ns - end_ns AS less_ns, preorder,
        unnest([start_ns, end_ns]) AS at_ns, unnest([1, -1]) AS change
    FROM query_table(slices)
),
leveled AS (
    SELECT *, sum(change) OVER in_order AS level, lead(at_ns) OVER in_order AS until_ns
    FROM turns
    WINDOW in_order AS (
        PARTITION BY part, sort ORDER BY at_ns, change, begun_ns, less_ns, preorder, event_id ROWS UNBOUNDED PRECEDING
    )
)
SELECT part, sort, start_ns, end_ns, owner.event_id AS event_id, owner.label AS label
FROM (
    SELECT
        part, sort, at_ns AS start_ns, until_ns AS end_ns, level,
        last_value(CASE WHEN change = 1 THEN {'event_id': event_id, 'label': label} END IGNORE NULLS) OVER (
            PARTITION BY part, sort, level
            ORDER BY at_ns, change, begun_ns, less_ns, preorder, event_id
            ROWS UNBOUNDED PRECEDING
        ) AS owner
    FROM leveled
)
WHERE level > 0 AND end_ns > start_ns;

-- idle_label: which labels are added up together: all profiler steps are one.
-- parameter label VARCHAR  label of host_slices
-- returns VARCHAR  the label
-- example: SELECT idle_label('ProfilerStep#7')
CREATE OR REPLACE TEMP MACRO idle_label(label) AS
CASE WHEN regexp_full_match(label, 'ProfilerStep#\d+') THEN 'ProfilerStep*' ELSE label END;

-- gap_owners: the part of each gap for which each host slice was the innermost of its sort.
-- parameter events TABLE  `events`, or a part of it
-- parameter gaps TABLE  rows of work_gaps, with a number `gap`
-- column gap BIGINT  number of the gap
-- column sort VARCHAR  as in host_slices
-- column event_id BIGINT  event_id of the slice
-- column label VARCHAR  as in host_slices
-- column part_ns BIGINT  part of the gap
-- example: WITH work AS (FROM launched_work(events)), gaps AS (SELECT *, row_number() OVER () AS gap FROM work_gaps(events,
-- work, 'device', 30000)) FROM gap_owners(events, gaps)
CREATE OR REPLACE TEMP MACRO gap_owners(events, gaps) AS TABLE
WITH slices AS MATERIALIZED (
    FROM host_slices(events)
),
waits AS MATERIALIZED (
    SELECT run, rank, thread, sort, gap, start_ns, end_ns, coalesce(device, -1) AS device, coalesce(stream, -1) AS stream
    FROM gap_threads(gaps, 'slices')
    WHERE thread IS NOT NULL
),
-- Gaps of one lane of a device do not overlap, so each moment is in at most one.
lines AS MATERIALIZED (
    SELECT *, row_number() OVER () AS line
    FROM (SELECT DISTINCT run, rank, thread, device, stream FROM waits)
),
parts AS MATERIALIZED (
    SELECT *, row_number() OVER () AS part
    FROM (SELECT DISTINCT run, rank, thread FROM lines)
),
-- A number for each label: numbers are carried along faster than texts.
labels AS MATERIALIZED (
    SELECT label, row_number() OVER () AS code
    FROM (SELECT DISTINCT label FROM slices WHERE label IS NOT NULL)
),
of_parts AS (
    SELECT
        parts.part, slices.sort, slices.event_id, slices.start_ns, slices.end_ns, slices.preorder, labels.code AS label
    FROM slices
    JOIN few('parts') AS parts ON slices.run = parts.run AND slices.rank = parts.rank AND slices.thread = parts.thread
    LEFT JOIN few('labels') AS labels ON slices.label = labels.label
),
stretches AS (
    SELECT lines.line, stretches.*
    FROM innermost_stretches('of_parts') AS stretches
    JOIN few('parts') AS parts ON stretches.part = parts.part
    JOIN few('lines') AS lines ON parts.run = lines.run AND parts.rank = lines.rank AND parts.thread = lines.thread
),
on_lines AS (
    SELECT lines.line, waits.sort, waits.gap, waits.start_ns, waits.end_ns
    FROM waits
    JOIN few('lines') AS lines
        ON waits.run = lines.run AND waits.rank = lines.rank AND waits.thread = lines.thread
        AND waits.device = lines.device AND waits.stream = lines.stream
),
-- Neither gaps nor stretches of one line and sort overlap one another. Of a gap and a stretch that overlap, one begins within the
-- other, and is met when the other is the last of its side that began.
met AS (
    SELECT
        sort, start_ns,
        last_value(gap IGNORE NULLS) OVER in_order AS gap,
        last_value(gap_end_ns IGNORE NULLS) OVER in_order AS gap_end_ns,
        last_value(event_id IGNORE NULLS) OVER in_order AS event_id,
        last_value(CASE WHEN event_id IS NOT NULL THEN coalesce(label, 0) END IGNORE NULLS) OVER in_order AS label,
        last_value(end_ns IGNORE NULLS) OVER in_order AS end_ns
    FROM (
        SELECT line, sort, start_ns, event_id, label, end_ns, NULL AS gap, NULL AS gap_end_ns FROM stretches
        UNION ALL BY NAME
        SELECT line, sort, start_ns, gap, end_ns AS gap_end_ns FROM on_lines
    )
    WINDOW in_order AS (PARTITION BY line, sort ORDER BY start_ns, gap NULLS FIRST ROWS UNBOUNDED PRECEDING)
)
SELECT owned.gap, owned.sort, owned.event_id, labels.label, owned.part_ns
FROM (
    SELECT
        gap, sort, event_id, any_value(label) AS code, sum(least(gap_end_ns, end_ns) - start_ns)::BIGINT AS part_ns
    FROM met
    WHERE start_ns < gap_end_ns AND start_ns < end_ns
    GROUP BY gap, sort, event_id
) AS owned
LEFT JOIN few('labels') AS labels ON owned.code = labels.code;
