-- gaps: the longest gaps of the devices, why, and what the host did meanwhile.
-- One row per gap, the `top` longest of each (run, rank), by run and rank, the longest first, then by start.
-- Gaps and causes are those of idle. What the host did is what the thread that launched the work after the gap was in: the
-- op, annotation, Python frame and call of the runtime or driver that was the innermost of its sort for most of the gap, and
-- for how long; the first by event_id on a tie. Where that launch is not in the trace, it is the thread of the last launch
-- on the device before the end of the gap.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy, idle_causes.
-- needs: events
-- parameter top            BIGINT = 20  number of gaps of each run and rank; each takes time
-- parameter per            VARCHAR(device|stream) = device  gaps of each device as a whole, or of each stream
-- parameter kernel_wait_ns BIGINT = 30000  gaps of this and more, in ns, are no kernel_wait
-- run              VARCHAR        run that the trace belongs to
-- rank             INTEGER        rank within the run
-- device           INTEGER        index of the device; NULL where the source does not say
-- stream           INTEGER        stream of the device; NULL where the source does not say, and for a device as a whole
-- start_ns         BIGINT   ns    start of the gap, on the clock that traces.clock names
-- dur_ns           BIGINT   ns    its duration
-- share            DOUBLE   0..1  dur_ns over all gaps of the device, or of the stream
-- cause            VARCHAR        host_wait, sync, kernel_wait or other
-- before_id        BIGINT         event_id of the work whose end began the gap; the first of those that end together
-- before_name      VARCHAR        its name
-- after_id         BIGINT         event_id of the work whose start ended the gap; the first of those that start together
-- after_name       VARCHAR        its name
-- thread           INTEGER        thread of the host, as in threads; NULL where no launch is known
-- op_id            BIGINT         event_id of the op that the thread was in; NULL for none
-- op_name          VARCHAR        its name
-- op_ns            BIGINT   ns    part of the gap in which it was the innermost op
-- annotation_id    BIGINT         event_id of the annotation that the thread was in; NULL for none
-- annotation_name  VARCHAR        its name
-- annotation_ns    BIGINT   ns    part of the gap in which it was the innermost annotation
-- frame_id         BIGINT         event_id of the Python frame that the thread was in; NULL for none
-- frame_name       VARCHAR        its name
-- frame_ns         BIGINT   ns    part of the gap in which it was the innermost frame
-- call_id          BIGINT         event_id of the call of the runtime or driver that the thread was in; NULL for none
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
    SELECT run, rank, device, stream, sum(gap_ns) AS idle_ns
    FROM all_gaps
    GROUP BY run, rank, device, stream
),
least AS (
    SELECT
        run, rank,
        list_min(max(gap_ns, least(greatest(coalesce(getvariable('top'), 20), 1), 999999))) AS least_ns
    FROM all_gaps
    GROUP BY run, rank
),
top_gaps AS MATERIALIZED (
    SELECT
        gap.*,
        row_number() OVER (
            PARTITION BY gap.run, gap.rank
            ORDER BY gap.gap_ns DESC, gap.start_ns, gap.device NULLS LAST, gap.stream NULLS LAST
        ) AS place
    FROM all_gaps AS gap
    JOIN least ON gap.run = least.run AND gap.rank = least.rank AND gap.gap_ns >= least.least_ns
    QUALIFY place <= coalesce(getvariable('top'), 20)
),
slices AS (
    SELECT
        gap.run, gap.rank, gap.place, slice.event_id, slice.start_ns, -slice.dur_ns AS less_ns, slice.preorder,
        CASE
            WHEN slice.kind = 'host_op' THEN 'op'
            WHEN slice.kind = 'annotation' THEN 'annotation'
            WHEN slice.kind = 'python' THEN 'frame'
            WHEN is_call(slice.kind) THEN 'call'
        END AS sort,
        unnest([greatest(slice.start_ns, gap.start_ns), least(slice.start_ns + slice.dur_ns, gap.end_ns)]) AS at_ns,
        unnest([1, -1]) AS change
    FROM events AS slice
    JOIN top_gaps AS gap
        ON slice.run = gap.run
        AND slice.rank = gap.rank
        AND slice.thread = gap.thread
        AND slice.start_ns < gap.end_ns
        AND slice.start_ns + slice.dur_ns > gap.start_ns
    WHERE sort IS NOT NULL AND slice.dur_ns > 0 AND slice.is_async IS NOT TRUE
),
turns AS (
    SELECT *, sum(change) OVER in_order AS level, lead(at_ns) OVER in_order - at_ns AS lasts_ns
    FROM slices
    WINDOW in_order AS (
        PARTITION BY run, rank, place, sort
        ORDER BY at_ns, change, start_ns, less_ns, preorder, event_id
        ROWS UNBOUNDED PRECEDING
    )
),
innermost AS (
    SELECT
        run, rank, place, sort, lasts_ns,
        last_value(CASE WHEN change = 1 THEN event_id END IGNORE NULLS) OVER (
            PARTITION BY run, rank, place, sort, level
            ORDER BY at_ns, change, start_ns, less_ns, preorder, event_id
            ROWS UNBOUNDED PRECEDING
        ) AS event_id
    FROM turns
    WHERE level > 0
),
longest AS (
    SELECT run, rank, place, sort, event_id, sum(lasts_ns)::BIGINT AS part_ns
    FROM innermost
    GROUP BY run, rank, place, sort, event_id
    QUALIFY row_number() OVER (PARTITION BY run, rank, place, sort ORDER BY part_ns DESC, event_id) = 1
),
roles AS (
    FROM longest
    UNION ALL BY NAME
    SELECT run, rank, place, 'after' AS sort, after_id AS event_id
    FROM top_gaps
    UNION ALL BY NAME
    SELECT gap.run, gap.rank, gap.place, 'before' AS sort, min(work.event_id) AS event_id
    FROM top_gaps AS gap
    JOIN work ON gap.run = work.run AND gap.rank = work.rank AND gap.start_ns = work.end_ns
    WHERE
        gap.device IS NOT DISTINCT FROM work.device
        AND gap.stream IS NOT DISTINCT FROM lane_stream(coalesce(getvariable('per'), 'device'), work.stream)
    GROUP BY ALL
),
named AS (
    SELECT
        roles.run, roles.rank, roles.place,
        map(list(roles.sort), list({event_id: roles.event_id, name: slice.name, part_ns: roles.part_ns})) AS of_sort
    FROM roles
    JOIN events AS slice
        ON roles.run = slice.run AND roles.rank = slice.rank AND roles.event_id = slice.event_id
    GROUP BY roles.run, roles.rank, roles.place
)
SELECT
    gap.run,
    gap.rank,
    gap.device,
    gap.stream,
    gap.start_ns,
    gap.gap_ns AS dur_ns,
    gap.gap_ns / idle.idle_ns AS share,
    gap.cause,
    of_sort['before'].event_id AS before_id,
    of_sort['before'].name AS before_name,
    of_sort['after'].event_id AS after_id,
    of_sort['after'].name AS after_name,
    gap.thread,
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
JOIN named ON gap.run = named.run AND gap.rank = named.rank AND gap.place = named.place
JOIN idle
    ON gap.run = idle.run
    AND gap.rank = idle.rank
    AND gap.device IS NOT DISTINCT FROM idle.device
    AND gap.stream IS NOT DISTINCT FROM idle.stream
ORDER BY gap.run, gap.rank, gap.place
