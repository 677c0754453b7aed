-- The input of a critical path. The variable window_start_ns is the start of its window.

-- path_slices: host slices of non-zero duration.
-- parameter events TABLE  `events` of one (run, rank)
-- column event_id, kind, name, thread, depth, start_ns  as in events
-- column end_ns BIGINT  end of the slice
-- example: FROM path_slices(events)
CREATE OR REPLACE TEMP MACRO path_slices(events) AS TABLE
SELECT event_id, kind, name, thread, depth, start_ns, start_ns + dur_ns AS end_ns
FROM query_table(events)
WHERE
    kind IN ('host_op', 'annotation', 'python', 'runtime', 'driver', 'overhead', 'other')
    AND start_ns IS NOT NULL
    AND dur_ns > 0;

-- path_works: device work of non-zero duration.
-- parameter events TABLE  `events` of one (run, rank)
-- column event_id, kind, name, launch_id, step, device, stream, start_ns  as in events
-- column end_ns BIGINT  end of the work
-- example: FROM path_works(events)
CREATE OR REPLACE TEMP MACRO path_works(events) AS TABLE
SELECT event_id, kind, name, launch_id, step, device, stream, start_ns, start_ns + dur_ns AS end_ns
FROM query_table(events)
WHERE is_busy(kind) AND start_ns IS NOT NULL AND dur_ns > 0;

-- path_calls: calls, which may have zero duration.
-- parameter events TABLE  `events` of one (run, rank)
-- column event_id, name, correlation, thread, start_ns  as in events
-- column end_ns BIGINT  end of the call
-- example: FROM path_calls(events)
CREATE OR REPLACE TEMP MACRO path_calls(events) AS TABLE
SELECT event_id, name, correlation, thread, start_ns, start_ns + coalesce(dur_ns, 0) AS end_ns
FROM query_table(events)
WHERE kind IN ('runtime', 'driver') AND start_ns IS NOT NULL;

-- path_annotations: slices for which a path can be computed.
-- parameter events TABLE  `events` of one (run, rank)
-- column event_id, name, thread, start_ns  as in events
-- column end_ns BIGINT  its end
-- example: FROM path_annotations(events)
CREATE OR REPLACE TEMP MACRO path_annotations(events) AS TABLE
SELECT event_id, name, thread, start_ns, start_ns + dur_ns AS end_ns
FROM query_table(events)
WHERE kind IN ('annotation', 'host_op') AND start_ns IS NOT NULL AND dur_ns > 0;

-- is_synchronising: whether a call returns when a device is done; calls that free memory wait, too.
-- parameter name VARCHAR  name of a call
-- returns BOOLEAN  whether it does
-- example: SELECT is_synchronising('cudaStreamSynchronize')
CREATE OR REPLACE TEMP MACRO is_synchronising(name) AS
regexp_matches(
    name,
    '(?i)Synchronize|^(cuda|hip)(Free|FreeHost|HostFree)(_v[0-9]+)?$|^cuMem(Free|FreeHost)(_v[0-9]+)?$'
);

-- path_events: host slices, work and syncs with numbers in place of texts; only syncs may lack a start.
-- parameter events TABLE  `events` of one (run, rank)
-- column event_id, thread  as in events
-- column role BIGINT  0: host slice; 1: call; 2: work; 3: copy; 4: sync
-- column root BIGINT  1: no slice is around it
-- column device INTEGER  device; -1 where not known
-- column stream INTEGER  stream; -1 where not known
-- column launch_id BIGINT  event_id of the call that launched it; -1 where not known
-- column start_ns  as in events
-- column dur_ns BIGINT  duration; 0 where not known
-- example: FROM path_events(events)
CREATE OR REPLACE TEMP MACRO path_events(events) AS TABLE
SELECT
    event_id, thread,
    CASE
        WHEN is_call(kind) THEN 1
        WHEN kind = 'memcpy' THEN 3
        WHEN is_busy(kind) THEN 2
        WHEN kind = 'sync' THEN 4
        WHEN kind IN ('host_op', 'annotation', 'python', 'overhead', 'other') THEN 0
    END::BIGINT AS role,
    (coalesce(depth, 0) = 0)::BIGINT AS root,
    coalesce(device, -1) AS device,
    coalesce(stream, -1) AS stream,
    coalesce(launch_id, -1) AS launch_id,
    start_ns,
    coalesce(dur_ns, 0) AS dur_ns
FROM query_table(events)
WHERE role IS NOT NULL AND (start_ns IS NOT NULL OR kind = 'sync');

-- path_names: calls and copies whose names say what waits for what.
-- parameter events TABLE  `events` of one (run, rank)
-- column event_id  as in events
-- column synchronises BIGINT  1: a call that returns when a device is done
-- column awaits BIGINT  1: a call that makes a stream wait
-- column by_host BIGINT  1: a copy that its host makes piece by piece, in the call: of pageable memory to a device
-- example: FROM path_names(events)
CREATE OR REPLACE TEMP MACRO path_names(events) AS TABLE
WITH names AS (
    SELECT
        name, is_synchronising(name) AS synchronises, contains(name, 'StreamWaitEvent') AS awaits,
        is_of_pageable_memory(name) AS pageable
    FROM (SELECT DISTINCT name FROM query_table(events) WHERE is_call(kind) OR kind = 'memcpy')
)
SELECT
    event_id,
    (is_call(kind) AND synchronises)::BIGINT AS synchronises,
    (is_call(kind) AND awaits)::BIGINT AS awaits,
    (kind = 'memcpy' AND pageable)::BIGINT AS by_host
FROM query_table(events) AS slice
JOIN names ON slice.name = names.name
WHERE (is_call(kind) AND (synchronises OR awaits)) OR (kind = 'memcpy' AND pageable);

-- path_waits: syncs, the call that made each, what it waits for (-1: not known), and when that was marked (NULL: not known).
-- of_stream: a stream waits; otherwise a host thread does.
-- parameter events TABLE  `events` of one (run, rank)
-- column event_id  as in events
-- column of_stream BIGINT  1: a stream waits; 0: a thread of the host
-- column device INTEGER  device; -1 where not known
-- column stream INTEGER  stream; -1 where not known
-- column on_stream INTEGER  stream that it waits for; -1 where not known
-- column call BIGINT  event_id of the call; -1 where it is not known
-- column issued_ns BIGINT  when the call was made, from the start of the window
-- column recorded_ns BIGINT  when what it waits for was marked; NULL if not known
-- example: FROM path_waits(events)
CREATE OR REPLACE TEMP MACRO path_waits(events) AS TABLE
WITH syncs AS (
    SELECT *, coalesce(contains(lower(name), 'wait'), false) AS of_stream
    FROM query_table(events)
    WHERE kind = 'sync' AND start_ns IS NOT NULL
),
records AS (
    SELECT correlation, max(start_ns) AS start_ns
    FROM path_calls(events)
    WHERE correlation > 0
    GROUP BY correlation
)
SELECT
    sync.event_id,
    sync.of_stream::BIGINT AS of_stream,
    coalesce(sync.device, -1) AS device,
    coalesce(sync.stream, -1) AS stream,
    coalesce(sync.wait_on_stream, CASE WHEN NOT sync.of_stream THEN sync.stream END, -1) AS on_stream,
    coalesce(call.event_id, -1) AS call,
    coalesce(call.start_ns, sync.start_ns) - getvariable('window_start_ns') AS issued_ns,
    records.start_ns - getvariable('window_start_ns') AS recorded_ns
FROM syncs AS sync
LEFT JOIN path_calls(events) AS call ON sync.launch_id = call.event_id
LEFT JOIN records ON sync.wait_on_correlation = records.correlation;

-- backward_threads: each thread that runs backward passes, with the thread of the forward ops (-1: not known, and no op says that
-- the thread runs any forward itself).
-- parameter events TABLE  `events` of one (run, rank)
-- column thread  as in events
-- column forward_thread INTEGER  thread of the forward ops; -1 where not known
-- column links BIGINT  number of links between the two
-- example: FROM backward_threads(events)
CREATE OR REPLACE TEMP MACRO backward_threads(events) AS TABLE
WITH backward AS (
    SELECT thread, fwd_id
    FROM query_table(events)
    WHERE
        fwd_thread > 0
        OR fwd_id IS NOT NULL
        OR (
            kind = 'host_op'
            AND name IN (SELECT name FROM (SELECT DISTINCT name FROM query_table(events)) WHERE contains(name, 'Backward'))
        )
),
links AS (
    SELECT backward.thread, coalesce(forward.thread, -1) AS forward_thread, count(*) AS links
    FROM backward
    LEFT JOIN (SELECT event_id, thread FROM query_table(events) WHERE kind = 'host_op') AS forward
        ON backward.fwd_id = forward.event_id
    GROUP BY backward.thread, forward.thread
)
SELECT *
FROM links
WHERE
    forward_thread <> thread
    AND (forward_thread >= 0 OR thread NOT IN (SELECT forward_thread FROM links));

-- flow_pairs: events that flows of a category join, from each start to each end with its number.
-- parameter flows TABLE  `flows` of one (run, rank)
-- parameter flow_category VARCHAR  category of the flows
-- column source BIGINT  event_id at the start
-- column target BIGINT  event_id at the end
-- example: FROM flow_pairs(flows, 'graph_dependency')
CREATE OR REPLACE TEMP MACRO flow_pairs(flows, flow_category) AS TABLE
SELECT before.event_id AS source, after.event_id AS target
FROM query_table(flows) AS before
JOIN query_table(flows) AS after ON before.flow_id = after.flow_id AND before.category = after.category
WHERE
    before.category = flow_category AND before.phase = 's' AND after.phase = 'f'
    AND before.event_id IS NOT NULL AND after.event_id IS NOT NULL;
