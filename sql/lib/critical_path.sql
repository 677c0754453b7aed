-- The input of a critical path. The variable window_start_ns is the start of its window.

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

-- path_events: all slices with numbers in place of texts, read once for a path. Its hints are a sum of 1: a call that returns
-- when a device is done; 2: a call that makes a stream wait; 4: a copy that its host makes piece by piece, in the call: of
-- pageable memory to a device; 8: part of a backward pass; 16: an op.
-- parameter events TABLE  `events` of one (run, rank), or of several with numbers of their own
-- column event_id, thread, fwd_id  as in events
-- column role BIGINT  0: host slice; 1: call; 2: work; 3: copy; 4: sync; NULL: a path has no use for it
-- column root BIGINT  1: no slice is around it
-- column device INTEGER  device; -1 where not known
-- column stream INTEGER  stream; -1 where not known
-- column launch_id BIGINT  event_id of the call that launched it; -1 where not known
-- column start_ns  as in events
-- column dur_ns BIGINT  duration; 0 where not known
-- column hints BIGINT  sum of what names and links say
-- example: FROM path_events(events)
CREATE OR REPLACE TEMP MACRO path_events(events) AS TABLE
WITH names AS MATERIALIZED (
    SELECT
        name,
        is_synchronising(name)::BIGINT + 2 * contains(name, 'StreamWaitEvent')::BIGINT AS of_call,
        4 * is_of_pageable_memory(name)::BIGINT AS of_copy,
        8 * contains(name, 'Backward')::BIGINT AS of_op
    FROM (SELECT DISTINCT name FROM query_table(events) WHERE is_call(kind) OR kind IN ('memcpy', 'host_op'))
)
SELECT
    event_id, thread, fwd_id,
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
    coalesce(dur_ns, 0) AS dur_ns,
    CASE
        WHEN kind = 'host_op' THEN 16 + CASE WHEN fwd_thread > 0 OR fwd_id IS NOT NULL THEN 8 ELSE coalesce(of_op, 0) END
        WHEN fwd_thread > 0 OR fwd_id IS NOT NULL THEN 8
        ELSE 0
    END
    + CASE WHEN is_call(kind) THEN coalesce(of_call, 0) WHEN kind = 'memcpy' THEN coalesce(of_copy, 0) ELSE 0 END AS hints
FROM query_table(events) AS slice
LEFT JOIN few('names') AS names ON slice.name = names.name;

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
