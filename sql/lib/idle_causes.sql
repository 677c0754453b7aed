-- When a stream or a device had nothing to do, and why.

-- is_stream_wait: whether a slice makes a stream wait for another, not the host for a stream.
-- CASE keeps the pattern from being tried on every name.
-- parameter kind VARCHAR  kind of a slice
-- parameter name VARCHAR  its name
-- returns BOOLEAN  whether it is
-- example: SELECT is_stream_wait('sync', 'Stream Wait Event')
CREATE OR REPLACE TEMP MACRO is_stream_wait(kind, name) AS CASE WHEN kind = 'sync' THEN name ILIKE '%wait%' ELSE false END;

-- stream_waits: one row per piece of work that was held up by a wait of its stream, with the time at which the wait was over. The
-- work is the next on the stream, in the order of calls, or of starts if the call of the wait is not known. A wait is over when
-- what it waits for ends: the work of the other stream that was queued before the event was recorded. If the source does not name
-- the event, the wait's own row counts: on MTIA and Ascend it shows the wait; on CUDA it is the host's call.
-- parameter events TABLE  `events`, or a part of it
-- parameter work TABLE  rows of launched_work
-- column run, rank  as in events
-- column event_id BIGINT  event_id of the work that was held up
-- column over_ns BIGINT  end of the wait; NULL if not known
-- example: WITH work AS (FROM launched_work(events)) FROM stream_waits(events, work)
CREATE OR REPLACE TEMP MACRO stream_waits(events, work) AS TABLE
WITH waits AS MATERIALIZED (
    SELECT
        wait.run, wait.rank, coalesce(wait.device, -1) AS device, coalesce(wait.stream, -1) AS stream,
        wait.wait_on_stream, wait.wait_on_correlation,
        call.start_ns IS NOT NULL AS by_call, coalesce(call.start_ns, wait.start_ns) AS at_ns,
        CASE
            -- On CUDA this row is the host's call: it does not show when the stream went on.
            WHEN call.start_ns + call.dur_ns >= wait.start_ns + wait.dur_ns THEN NULL
            ELSE wait.start_ns + wait.dur_ns
        END AS end_ns
    FROM query_table(events) AS wait
    LEFT JOIN query_table(events) AS call
        ON wait.run = call.run AND wait.rank = call.rank AND wait.launch_id = call.event_id
    WHERE is_stream_wait(wait.kind, wait.name)
),
records AS (
    SELECT run, rank, correlation, max(start_ns) AS at_ns
    FROM query_table(events)
    WHERE is_call(kind) AND start_ns IS NOT NULL AND correlation IN (SELECT wait_on_correlation FROM waits)
    GROUP BY run, rank, correlation
),
recorded AS (
    SELECT DISTINCT waits.run, waits.rank, waits.device, waits.wait_on_stream, waits.wait_on_correlation, records.at_ns
    FROM waits
    JOIN records
        ON waits.run = records.run
        AND waits.rank = records.rank
        AND waits.wait_on_correlation = records.correlation
),
queues AS MATERIALIZED (
    SELECT
        run, rank, coalesce(device, -1) AS device, coalesce(stream, -1) AS stream,
        event_id, start_ns, end_ns, coalesce(queued_ns, start_ns) AS queued_ns
    FROM query_table(work)
    -- Few traces have such waits: without any, no work is sorted.
    WHERE end_ns IS NOT NULL AND (SELECT count(*) > 0 FROM waits)
),
awaited AS (
    SELECT run, rank, device, stream AS wait_on_stream, wait_on_correlation, end_ns
    FROM (
        SELECT
            run, rank, device, stream, wait_on_correlation, max(done_ns) OVER until_now AS end_ns
        FROM (
            SELECT run, rank, device, stream, queued_ns AS at_ns, end_ns AS done_ns FROM queues
            UNION ALL BY NAME
            SELECT run, rank, device, wait_on_stream AS stream, at_ns, wait_on_correlation FROM recorded
        )
        WINDOW until_now AS (PARTITION BY run, rank, device, stream ORDER BY at_ns)
    )
    WHERE wait_on_correlation IS NOT NULL
),
-- The first work from each wait on.
held_up AS (
    SELECT run, rank, device, wait_on_stream, wait_on_correlation, end_ns, event_id
    FROM (
        SELECT
            * EXCLUDE (event_id),
            first_value(event_id IGNORE NULLS) OVER (
                PARTITION BY run, rank, device, stream, by_call
                ORDER BY at_ns, is_wait DESC, start_ns, event_id
                ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
            ) AS event_id
        FROM (
            SELECT *, true AS is_wait FROM waits WHERE at_ns IS NOT NULL
            UNION ALL BY NAME
            SELECT
                run, rank, device, stream, false AS is_wait, start_ns, event_id,
                unnest([true, false]) AS by_call, unnest([queued_ns, start_ns]) AS at_ns
            FROM queues
        )
    )
    WHERE is_wait AND event_id IS NOT NULL
)
SELECT held_up.run, held_up.rank, held_up.event_id, max(greatest(held_up.end_ns, awaited.end_ns)) AS over_ns
FROM held_up
LEFT JOIN awaited
    ON held_up.run = awaited.run
    AND held_up.rank = awaited.rank
    AND held_up.device = awaited.device
    AND held_up.wait_on_stream = awaited.wait_on_stream
    AND held_up.wait_on_correlation = awaited.wait_on_correlation
GROUP BY held_up.run, held_up.rank, held_up.event_id;

-- lane_stream: the stream to compare work on; NULL if a device is taken as a whole.
-- parameter per VARCHAR  `stream` or `device`
-- parameter stream INTEGER  stream of a piece of work
-- returns INTEGER  the stream, or NULL
-- example: SELECT lane_stream('stream', 7)
CREATE OR REPLACE TEMP MACRO lane_stream(per, stream) AS CASE WHEN per = 'stream' THEN stream END;

-- work_gaps: one row per gap between the end of all earlier work on a device, or stream, and the start of the next work of
-- launched_work, with its cause. `host_ns` is the part before the call that launched the next work, `sync_ns` the part after
-- that during which a wait went on. The thread is that of the call, or of the call of the last work before it that has one.
-- Where work of lost_work may have run, from the earliest on to the end of the gap, is a row of its own: it may not have been a
-- gap.
-- parameter events TABLE  `events`, or a part of it
-- parameter work TABLE  rows of launched_work
-- parameter per VARCHAR  `stream` or `device`
-- parameter kernel_wait_ns BIGINT  gaps of at least this, in ns, are not kernel_wait
-- column run, rank, device  as in events
-- column stream INTEGER  stream; NULL for a device as a whole
-- column start_ns BIGINT  start of the gap
-- column end_ns BIGINT  end of the gap
-- column gap_ns BIGINT  length of the gap
-- column after_id BIGINT  event_id of the work that ended it
-- column step BIGINT  step of that work
-- column thread INTEGER  thread of its launch, or of the last launch before it; NULL if there is none
-- column host_ns BIGINT  part of the gap before the launch; NULL if that is not known
-- column sync_ns BIGINT  part after the launch in which a wait went on; NULL without a wait
-- column cause VARCHAR  host_wait, sync, kernel_wait, other or unrecorded
-- example: WITH work AS (FROM launched_work(events)) FROM work_gaps(events, work, 'device', 30000)
CREATE OR REPLACE TEMP MACRO work_gaps(events, work, per, kernel_wait_ns) AS TABLE
WITH streams AS (
    SELECT run, rank, device, lane_stream(per, stream) AS stream, event_id, start_ns, end_ns, queued_ns, thread, step
    FROM query_table(work)
    WHERE end_ns IS NOT NULL
),
lanes AS MATERIALIZED (
    FROM device_lanes('streams')
),
on_lanes AS (
    FROM on_device_lanes('streams', 'lanes')
),
lost_calls AS (
    SELECT
        lanes.lane, lost.event_id, lost.start_ns, lost.end_ns, lost.thread, lost.step,
        coalesce(lost.start_ns > max(lost.end_ns) OVER before, true) AS is_apart
    FROM lost_work(events) AS lost
    JOIN few('lanes') AS lanes
        ON lost.run = lanes.run
        AND lost.rank = lanes.rank
        AND coalesce(lost.device = lanes.device, true)
        AND coalesce(lost.stream = lanes.stream, true)
    WINDOW before AS (
        PARTITION BY lanes.lane ORDER BY lost.start_ns, lost.event_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),
-- The first of several whose times overlap.
lost AS MATERIALIZED (
    SELECT lane, event_id, start_ns, max(end_ns) OVER (PARTITION BY lane, part) AS lost_ns, thread, step
    FROM (
        SELECT *, count_if(is_apart) OVER (PARTITION BY lane ORDER BY start_ns, event_id ROWS UNBOUNDED PRECEDING) AS part
        FROM lost_calls
    )
    QUALIFY is_apart
),
ends AS (
    SELECT lane, min(start_ns) AS first_ns, max(end_ns) AS last_ns
    FROM on_lanes
    WHERE (SELECT count(*) > 0 FROM lost)
    GROUP BY lane
),
-- Lost work is a mark of no length where it may have begun, which parts a gap in two.
marked AS (
    SELECT *, NULL::BIGINT AS lost_ns
    FROM on_lanes
    UNION ALL BY NAME
    SELECT
        lane, event_id, greatest(start_ns, first_ns) AS start_ns, greatest(start_ns, first_ns) AS end_ns,
        start_ns AS queued_ns, thread, step, lost_ns
    FROM lost
    JOIN ends USING (lane)
    WHERE start_ns < last_ns
),
ordered AS (
    SELECT
        *,
        row_number() OVER () AS place,
        (max((lane::HUGEINT << 64) + lost_ns) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        - (lane::HUGEINT << 64)) > free_ns AS is_lost
    FROM busy_order('marked')
),
gaps AS (
    SELECT lanes.run, lanes.rank, lanes.device, lanes.stream, gaps.* EXCLUDE (lane)
    FROM (
        SELECT
            * EXCLUDE (last_thread, threads_lane),
            CASE WHEN lag(threads_lane) OVER () = lane THEN lag(last_thread) OVER () END AS thread_before
        FROM (
            SELECT
                *,
                arg_max(thread, place) OVER until_now AS last_thread,
                max(CASE WHEN thread IS NOT NULL THEN lane END) OVER until_now AS threads_lane
            FROM ordered
            WINDOW until_now AS (ROWS UNBOUNDED PRECEDING)
        )
        QUALIFY gap_ns > 0
    ) AS gaps
    JOIN few('lanes') AS lanes ON gaps.lane = lanes.lane
),
waits AS (
    FROM stream_waits(events, work)
)
SELECT
    gaps.run, gaps.rank, gaps.device, gaps.stream, gaps.free_ns AS start_ns, gaps.start_ns AS end_ns,
    gaps.gap_ns, gaps.event_id AS after_id, gaps.step,
    coalesce(gaps.thread, gaps.thread_before) AS thread,
    CASE WHEN coalesce(is_lost, false) THEN 0 ELSE greatest(gaps.queued_ns - gaps.free_ns, 0) END AS host_ns,
    CASE
        WHEN waits.over_ns > gaps.free_ns THEN least(waits.over_ns, gaps.start_ns) - greatest(gaps.free_ns, gaps.queued_ns)
    END AS sync_ns,
    CASE
        WHEN is_lost THEN 'unrecorded'
        WHEN sync_ns > host_ns THEN 'sync'
        WHEN host_ns > 0 THEN 'host_wait'
        WHEN gap_ns < kernel_wait_ns THEN 'kernel_wait'
        ELSE 'other'
    END AS cause
FROM gaps
LEFT JOIN few('waits') AS waits
    ON gaps.run = waits.run AND gaps.rank = waits.rank AND gaps.event_id = waits.event_id;
