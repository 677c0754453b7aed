-- python_lines: host self time, device time and idle time by line of the user's code, or of libraries too.
-- One row per (run, rank, name), by run and rank, what only waits last, the longest self_ns, then self_device_ns first, by name.
-- A line is a frame of the user's own code, not of PyTorch, Python or another package; profilers record the line on which its
-- function begins. With `into` frames of libraries are lines too, so that time in a data loader or a dataset of a library is not
-- that of the line that called it; a built-in function or a module call is never a line, and is part of the one that it is in.
-- For a rank without Python frames, ops with a stack stand in: the innermost line of the stack, where lines are those of the
-- call; the number of calls is then unknown, as it is for frames from the stacks of graph kernels alone. Compiled kernels have a
-- stack from `load(provenance=)`: the first that torch lists; `fx_nodes` has all. Self time of a line is everything below it that
-- is in no other line. Device work belongs to the line of its launch, in a graph to that of the captured call; backward work to
-- the line of its forward op (`fwd_id`). The row without a name has the work outside all lines: self_device_ns and
-- self_backward_device_ns add up to that of the rank.
-- In a bare shell read from `sql/lib` first: devices, frames, lanes, intervals, steps, busy, regions, backward, gap_owners.
-- needs: events
-- recorded: frames
-- no rows: no frame is of your own code: all are of PyTorch, Python or other packages, which are lines with `into=all`
-- divides by: rank
-- over ranks: name
-- main columns: name, self_ns, self_share, self_device_ns, total_ns, device_share, calls, idle_ns, device_ns, kernels
-- parameter into VARCHAR = none  libraries whose frames are lines too: none, all, torch, or any folder or module such as PIL
-- run                       VARCHAR        run that the trace belongs to
-- rank                      INTEGER        rank within the run
-- name                      VARCHAR        file, line and function; NULL for work outside all lines
-- calls                     BIGINT         number of its frames, captured ones once per replay; NULL if ops or stacks stand in
-- total_ns                  BIGINT   ns    host time in it, summed over threads
-- self_ns                   BIGINT   ns    the same without other lines inside it
-- self_share                DOUBLE   0..1  self_ns over that of all lines of the run and rank
-- idle_ns                   BIGINT   ns    part of self_ns in which no device of the rank was busy; NULL without devices
-- kernels                   BIGINT         number of kernels launched inside
-- device_ns                 BIGINT   ns    sum of durations of the kernels, copies and fills launched inside
-- self_device_ns            BIGINT   ns    the same without those of other lines inside it
-- self_backward_device_ns   BIGINT   ns    the same for its backward ops; NULL if no backward op has a known forward op
-- device_share              DOUBLE   0..1  self_device_ns and self_backward_device_ns over all device time of the rank; NULL if 0
-- first_id                  BIGINT         event_id of its first frame, or of the op that stands in
-- only_waits                BOOLEAN        all its frames wait (`is_wait`), on threads that run no op and launch nothing
-- lines_from                VARCHAR        where it comes from: frames, stacks, provenance (files of `load(provenance=)`)
WITH own AS MATERIALIZED (
    SELECT run, rank, event_id, label AS name
    FROM host_slices(events, coalesce(getvariable('into'), 'none'))
    WHERE sort = 'line'
    UNION ALL
    SELECT run, rank, event_id, name
    FROM events
    WHERE kind = 'python' AND replays IS NOT NULL AND is_line(name, coalesce(getvariable('into'), 'none'))
),
slices AS MATERIALIZED (
    SELECT
        own.run, own.rank, own.name, own.event_id, frame.replays, frame.thread,
        frame.kind = 'python' AND frame.category IS DISTINCT FROM 'graph_stack' AS is_call,
        CASE WHEN is_call THEN 'frames' ELSE coalesce(frame.stack_from::VARCHAR, 'stacks') END AS lines_from,
        frame.start_ns, frame.dur_ns, frame.idle_ns, frame.preorder, frame.last_descendant_id,
        NULL::INTEGER AS device, NULL::INTEGER AS stream, 0 AS sub,
        NULL::STRUCT(step BIGINT) AS replay,
        dense_rank() OVER (ORDER BY own.run, own.rank, own.name) AS region
    FROM own
    JOIN events AS frame ON own.run = frame.run AND own.rank = frame.rank AND own.event_id = frame.event_id
),
-- Threads that do something besides Python.
active AS (
    SELECT DISTINCT run, rank, thread
    FROM events
    WHERE kind = 'host_op' OR is_call(kind)
),
idle_slices AS MATERIALIZED (
    SELECT * REPLACE (idle_ns AS dur_ns)
    FROM slices
),
named AS (
    SELECT
        region, run, rank, name,
        CASE WHEN bool_and(is_call) THEN sum(coalesce(replays, 1))::BIGINT END AS calls,
        arg_min(event_id, {'at': start_ns, 'id': event_id}) AS first_id,
        is_wait(name) AND bool_and(active.thread IS NULL) AS only_waits,
        string_agg(DISTINCT lines_from, ', ' ORDER BY lines_from DESC) AS lines_from
    FROM slices
    LEFT JOIN active USING (run, rank, thread)
    GROUP BY region, run, rank, name
),
work AS MATERIALIZED (
    FROM region_work(events, slices)
),
places AS MATERIALIZED (
    FROM region_places(events, slices, work)
),
idle_places AS MATERIALIZED (
    FROM region_places(events, idle_slices, work)
),
backward AS MATERIALIZED (
    FROM backward_times(events, slices)
),
backward_work AS MATERIALIZED (
    FROM backward_region_work(events, slices, work, backward)
),
backward_places AS MATERIALIZED (
    FROM region_places(events, slices, backward_work)
),
backward_own AS (
    FROM region_self(backward_places)
),
idle AS (
    FROM region_self(idle_places)
),
known AS (
    SELECT DISTINCT run, rank, true AS is_known
    FROM backward
),
devices_of AS (
    SELECT run, rank, sum(dur_ns) AS all_ns, count(*) FILTER (kind = 'kernel') AS kernels
    FROM device_work(events)
    GROUP BY run, rank
),
idle_known AS (
    SELECT run, rank
    FROM slices
    GROUP BY run, rank
    HAVING count(idle_ns) > 0
),
lines AS MATERIALIZED (
    SELECT
        named.run, named.rank, named.name, named.calls,
        host.host_ns AS total_ns,
        self.self_host_ns AS self_ns,
        CASE WHEN idle_known.run IS NOT NULL THEN idle.self_host_ns END AS idle_ns,
        device.kernels,
        device.device_ns,
        CASE WHEN device.device_ns IS NOT NULL THEN self.self_device_ns END AS self_device_ns,
        CASE WHEN known.is_known THEN backward_own.self_device_ns END AS self_backward_device_ns,
        named.first_id, named.only_waits, named.lines_from
    FROM named
    LEFT JOIN region_host(slices) AS host ON named.region = host.region
    LEFT JOIN region_device(places, work) AS device ON named.region = device.region
    LEFT JOIN region_self(places) AS self ON named.region = self.region
    LEFT JOIN idle ON named.region = idle.region
    LEFT JOIN idle_known ON named.run = idle_known.run AND named.rank = idle_known.rank
    LEFT JOIN backward_own ON named.region = backward_own.region
    LEFT JOIN known ON named.run = known.run AND named.rank = known.rank
),
sums AS (
    SELECT
        run, rank,
        sum(self_device_ns) AS self_device_ns,
        sum(self_backward_device_ns) AS backward_ns,
        count(*) = count(self_device_ns) AS is_whole
    FROM lines
    GROUP BY run, rank
),
rests AS (
    SELECT
        sums.run, sums.rank, NULL::VARCHAR AS name,
        try_cast(devices_of.all_ns - sums.self_device_ns - coalesce(sums.backward_ns, 0) AS BIGINT) AS rest_ns,
        CASE WHEN sums.backward_ns IS NOT NULL THEN 0 END AS backward_ns
    FROM sums
    JOIN devices_of ON sums.run = devices_of.run AND sums.rank = devices_of.rank
    WHERE sums.is_whole AND rest_ns > 0
),
rows AS (
    FROM lines
    UNION ALL BY NAME
    SELECT run, rank, name, rest_ns AS self_device_ns, backward_ns AS self_backward_device_ns, false AS only_waits
    FROM rests
)
SELECT
    rows.run,
    rows.rank,
    rows.name,
    rows.calls,
    rows.total_ns,
    rows.self_ns,
    rows.self_ns / nullif(sum(rows.self_ns) OVER of_rank, 0) AS self_share,
    rows.idle_ns,
    rows.kernels,
    rows.device_ns,
    rows.self_device_ns,
    try_cast(rows.self_backward_device_ns AS BIGINT) AS self_backward_device_ns,
    (rows.self_device_ns::HUGEINT + coalesce(rows.self_backward_device_ns, 0)) / nullif(devices_of.all_ns, 0) AS device_share,
    rows.first_id,
    rows.only_waits,
    rows.lines_from
FROM rows
LEFT JOIN devices_of ON rows.run = devices_of.run AND rows.rank = devices_of.rank
WINDOW of_rank AS (PARTITION BY rows.run, rows.rank)
ORDER BY rows.run, rows.rank, only_waits, rows.self_ns DESC NULLS LAST, rows.self_device_ns DESC NULLS LAST, rows.name NULLS LAST
