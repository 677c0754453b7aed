-- gaps: the longest gaps of the devices, their cause, and what the host did during most of each.
-- One row per gap, the `top` longest per (run, rank), by run and rank, the longest first, then by start.
-- Gaps and causes are defined as in idle. What the host did refers to the thread that launched the work after the gap: for each
-- of op, annotation, Python frame and runtime or driver call, the slice that was innermost for most of the gap, and for how long;
-- the lowest event_id on a tie. If that launch is not in the trace, the thread is that of the last launch on the device before
-- the end of the gap. A line is a frame of the user's own code, with everything below it that is in no other such frame; all
-- calls of a line or a module count together. If the thread has no lines, as in backward, line and module are those of the thread
-- with the most; without Python frames, they come from the stacks of ops. The owner of a gap is the innermost call, op or
-- annotation that covers half of it with everything inside; else the innermost frame that does, also on the thread of the lines;
-- else `ProfilerStep#N`; else the longest slice.
-- In a bare shell read from `sql/lib` first: devices, frames, lanes, intervals, steps, busy, idle_causes, gap_owners.
-- needs: events
-- recorded: device_work
-- no rows: there is no gap between two pieces of work of a device
-- divides by: rank
-- main columns: cause, device, stream, dur_ns, owner_name, owner_ns, start_ns, line_name, op_name, call_name, share
-- main columns: after_name, module_name, annotation_name
-- parameter top            BIGINT = 20  maximum gaps per run and rank, each of which takes time; 0 for all
-- parameter per            VARCHAR(device|stream) = device  gaps of each device as a whole, or of each stream
-- parameter kernel_wait_ns BIGINT = 30000  gaps of at least this, in ns, are not kernel_wait
-- run              VARCHAR        run that the trace belongs to
-- rank             INTEGER        rank within the run
-- device           INTEGER        index of the device; NULL if the source does not say
-- stream           INTEGER        stream of the device; NULL if the source does not say, and for a device as a whole
-- start_ns         BIGINT   ns    start of the gap, on the clock that traces.clock names
-- dur_ns           BIGINT   ns    duration of the gap
-- share            DOUBLE   0..1  dur_ns over all idle time of the device (or stream) but unrecorded gaps; NULL for these
-- cause            VARCHAR        host_wait, sync, kernel_wait, other or unrecorded, as in `idle`
-- before_id        BIGINT         event_id of the work whose end began the gap; the first of several that end together
-- before_name      VARCHAR        its name
-- after_id         BIGINT         event_id of the work whose start ended the gap; the first of several that start together
-- after_name       VARCHAR        its name
-- thread           INTEGER        host thread, as in table threads; NULL if no launch is known
-- owner_id         BIGINT         event_id of the slice that covers most of the gap; NULL if there is none
-- owner_sort       VARCHAR        what the owner is: call, op, annotation, frame or module
-- owner_name       VARCHAR        its name
-- owner_ns         BIGINT   ns    part of the gap that it covers, with everything inside
-- line_id          BIGINT         event_id of the longest frame of the user's line with the most time; NULL if there is none
-- line_name        VARCHAR        its name: file, line, function
-- line_ns          BIGINT   ns    part of the gap in which it was the innermost user line
-- module_id        BIGINT         event_id of the longest call of the module with the most time; NULL if there is none
-- module_name      VARCHAR        its name, or the path of the module
-- module_ns        BIGINT   ns    part of the gap in which it was the innermost module
-- op_id            BIGINT         event_id of the op that the thread was in; NULL if there is none
-- op_name          VARCHAR        its name
-- op_ns            BIGINT   ns    part of the gap in which it was the innermost op
-- annotation_id    BIGINT         event_id of the annotation that the thread was in; NULL if there is none
-- annotation_name  VARCHAR        its name
-- annotation_ns    BIGINT   ns    part of the gap in which it was the innermost annotation
-- frame_id         BIGINT         event_id of the Python frame that the thread was in; NULL if there is none
-- frame_name       VARCHAR        its name
-- frame_ns         BIGINT   ns    part of the gap in which it was the innermost frame
-- call_id          BIGINT         event_id of the runtime or driver call that the thread was in; NULL if there is none
-- call_name        VARCHAR        its name
-- call_ns          BIGINT   ns    part of the gap in which it was the innermost call
WITH work AS MATERIALIZED (
    FROM launched_work(events)
),
all_gaps AS MATERIALIZED (
    SELECT run, rank, device, stream, start_ns, end_ns, gap_ns, after_id, thread, cause
    FROM work_gaps(events, work, coalesce(getvariable('per'), 'device'), coalesce(getvariable('kernel_wait_ns'), 30000))
),
idle AS (
    SELECT run, rank, device, stream, sum(gap_ns) FILTER (cause <> 'unrecorded') AS idle_ns
    FROM all_gaps
    GROUP BY run, rank, device, stream
),
least AS (
    SELECT
        run, rank,
        CASE
            WHEN coalesce(getvariable('top'), 20) <= 0 THEN min(gap_ns)
            ELSE list_min(max(gap_ns, least(greatest(coalesce(getvariable('top'), 20), 1), 999999)))
        END AS least_ns
    FROM all_gaps
    GROUP BY run, rank
),
top_gaps AS MATERIALIZED (
    SELECT
        gap.*,
        row_number() OVER (
            PARTITION BY gap.run, gap.rank
            ORDER BY gap.gap_ns DESC, gap.start_ns, gap.device NULLS LAST, gap.stream NULLS LAST
        ) AS place,
        row_number() OVER () AS gap
    FROM all_gaps AS gap
    JOIN least ON gap.run = least.run AND gap.rank = least.rank AND gap.gap_ns >= least.least_ns
    QUALIFY place <= coalesce(getvariable('top'), 20) OR coalesce(getvariable('top'), 20) <= 0
),
slices AS MATERIALIZED (
    FROM host_slices(events)
),
waits AS (
    FROM gap_threads('top_gaps', 'slices')
),
inside AS MATERIALIZED (
    SELECT
        gap.gap AS part, gap.gap_ns, gap.sort, slice.event_id, slice.preorder, slice.label,
        greatest(slice.start_ns, gap.start_ns) AS start_ns, least(slice.end_ns, gap.end_ns) AS end_ns
    FROM slices AS slice
    JOIN waits AS gap
        ON slice.run = gap.run
        AND slice.rank = gap.rank
        AND slice.thread = gap.thread
        AND slice.sort = gap.sort
        AND slice.start_ns < gap.end_ns
        AND slice.end_ns > gap.start_ns
),
parts AS (
    SELECT part AS gap, sort, event_id, label, sum(end_ns - start_ns)::BIGINT AS slice_ns
    FROM innermost_stretches('inside')
    GROUP BY part, sort, event_id, label
),
-- A line or a module is all calls of it, anything else is one slice.
longest AS (
    SELECT
        gap, sort,
        arg_max(event_id, {'ns': slice_ns, 'id': -event_id}) AS event_id,
        sum(slice_ns)::BIGINT AS part_ns
    FROM parts
    GROUP BY gap, sort, CASE WHEN sort IN ('line', 'module') THEN label ELSE event_id::VARCHAR END
    QUALIFY row_number() OVER (PARTITION BY gap, sort ORDER BY part_ns DESC, min(event_id)) = 1
),
halves AS (
    SELECT
        part AS gap, event_id, sort, preorder, end_ns - start_ns AS slice_ns,
        CASE
            WHEN slice_ns < gap_ns - slice_ns THEN 0
            WHEN regexp_full_match(label, 'ProfilerStep#\d+') THEN 1
            WHEN sort = 'line' OR sort = 'module' THEN 2
            WHEN sort = 'frame' THEN 3
            ELSE 4
        END AS half
    FROM inside
),
-- The innermost that covers half: not the profiler's step, nor a frame where there is something else. Without any, the longest.
owners AS (
    SELECT gap, most.event_id, most.owner_sort, most.part_ns
    FROM (
        SELECT
            gap,
            max({
                'half': half, 'ns': CASE WHEN half = 0 THEN slice_ns ELSE 0 END, 'place': preorder, 'event_id': event_id,
                'owner_sort': CASE WHEN sort = 'line' THEN 'frame' ELSE sort END, 'part_ns': slice_ns
            }) AS most
        FROM halves
        GROUP BY gap
    )
),
roles AS (
    SELECT top_gaps.run, top_gaps.rank, longest.*
    FROM longest
    JOIN top_gaps ON longest.gap = top_gaps.gap
    UNION ALL BY NAME
    SELECT top_gaps.run, top_gaps.rank, 'owner' AS sort, owners.*
    FROM owners
    JOIN top_gaps ON owners.gap = top_gaps.gap
    UNION ALL BY NAME
    SELECT run, rank, gap, 'after' AS sort, after_id AS event_id
    FROM top_gaps
    UNION ALL BY NAME
    SELECT gap.run, gap.rank, gap.gap, 'before' AS sort, min(work.event_id) AS event_id
    FROM top_gaps AS gap
    JOIN work ON gap.run = work.run AND gap.rank = work.rank AND gap.start_ns = work.end_ns
    WHERE
        gap.device IS NOT DISTINCT FROM work.device
        AND gap.stream IS NOT DISTINCT FROM lane_stream(coalesce(getvariable('per'), 'device'), work.stream)
    GROUP BY ALL
),
named AS (
    SELECT
        roles.gap,
        map(
            list(roles.sort),
            list({
                event_id: roles.event_id,
                name: CASE
                    WHEN roles.sort = 'line' AND slice.kind = 'host_op' THEN frame_of(slice.stack)
                    WHEN roles.sort = 'module' AND slice.kind = 'host_op' THEN slice.module_hierarchy
                    ELSE slice.name
                END,
                part_ns: roles.part_ns,
                owner_sort: roles.owner_sort
            })
        ) AS of_sort
    FROM roles
    JOIN events AS slice
        ON roles.run = slice.run AND roles.rank = slice.rank AND roles.event_id = slice.event_id
    GROUP BY roles.gap
)
SELECT
    gap.run,
    gap.rank,
    gap.device,
    gap.stream,
    gap.start_ns,
    gap.gap_ns AS dur_ns,
    CASE WHEN gap.cause <> 'unrecorded' THEN gap.gap_ns / idle.idle_ns END AS share,
    gap.cause,
    of_sort['before'].event_id AS before_id,
    of_sort['before'].name AS before_name,
    of_sort['after'].event_id AS after_id,
    of_sort['after'].name AS after_name,
    gap.thread,
    of_sort['owner'].event_id AS owner_id,
    of_sort['owner'].owner_sort AS owner_sort,
    of_sort['owner'].name AS owner_name,
    of_sort['owner'].part_ns AS owner_ns,
    of_sort['line'].event_id AS line_id,
    of_sort['line'].name AS line_name,
    of_sort['line'].part_ns AS line_ns,
    of_sort['module'].event_id AS module_id,
    of_sort['module'].name AS module_name,
    of_sort['module'].part_ns AS module_ns,
    of_sort['op'].event_id AS op_id,
    of_sort['op'].name AS op_name,
    of_sort['op'].part_ns AS op_ns,
    of_sort['annotation'].event_id AS annotation_id,
    of_sort['annotation'].name AS annotation_name,
    of_sort['annotation'].part_ns AS annotation_ns,
    of_sort['frame'].event_id AS frame_id,
    of_sort['frame'].name AS frame_name,
    of_sort['frame'].part_ns AS frame_ns,
    of_sort['call'].event_id AS call_id,
    of_sort['call'].name AS call_name,
    of_sort['call'].part_ns AS call_ns
FROM top_gaps AS gap
JOIN named ON gap.gap = named.gap
JOIN idle
    ON gap.run = idle.run
    AND gap.rank = idle.rank
    AND gap.device IS NOT DISTINCT FROM idle.device
    AND gap.stream IS NOT DISTINCT FROM idle.stream
ORDER BY gap.run, gap.rank, gap.place
