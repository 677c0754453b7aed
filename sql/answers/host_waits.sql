-- host_waits: calls that made the host wait for a device, by op and line, and whether one had work.
-- One row per (run, rank, name, op, call_site, process), the largest total_ns first, then by these.
-- All calls that synchronise count (`is_synchronising`); others that can block (`is_blocking`), above all copies, count if they
-- did: the copy had ended when its call returned. For a copy of pageable memory to a device, which the host makes itself, and for
-- calls whose copy is not in the trace, the call has to have held up the host (`holds_up`). A call inside one that waits is part
-- of that one, and a call without a duration does not count. In device_idle_ns no device had work. What a call costs afterwards,
-- when devices wait for the next launch, is idle_after_ns; rule `blocking_calls` of `advice` judges both. Cause `host_wait` of
-- `idle` is the reverse: all time in which a device waited for the host, whatever that did.
-- In a bare shell read from `sql/lib` first: devices, lanes, busy, frames, phase_names, launch_sites, critical_path.
-- needs: events
-- recorded: calls
-- no rows: no call waited: none synchronises, and no copy held up the host
-- divides by: rank
-- over ranks: name, op, call_site; process
-- main columns: name, op, total_ns, calls, device_idle_ns, idle_after_ns, process, call_site, top_caller, host_share, max_ns
-- run            VARCHAR        run that the trace belongs to
-- rank           INTEGER        rank within the run
-- name           VARCHAR        name of the call
-- op             VARCHAR        op that made the call: the one directly around it; NULL if there is none
-- call_site      VARCHAR        innermost of your own lines and annotations around it, as launch_site of kernels; NULL if none
-- process        VARCHAR        pid of its process, if calls of several processes of the rank waited; else NULL
-- top_caller     VARCHAR        ops around op in most of total_ns, two at most: aten::is_nonzero > aten::item; NULL if none
-- calls          BIGINT         number of calls that waited
-- total_ns       BIGINT   ns    time of the host in them, summed over threads; NULL beyond BIGINT
-- max_ns         BIGINT   ns    longest of them
-- device_idle_ns BIGINT   ns    part of total_ns in which no device of the rank was busy; NULL without devices
-- idle_after_ns  BIGINT   ns    time without device work after calls, up to the next work or wait; NULL without devices
-- host_share     DOUBLE   0..1  total_ns over the span of the threads of the rank that made such calls: first start to last end
WITH names AS MATERIALIZED (
    SELECT name, is_synchronising(name) AS synchronises
    FROM (SELECT DISTINCT name FROM events WHERE is_call(kind))
    WHERE is_synchronising(name) OR is_blocking(name)
),
calls AS MATERIALIZED (
    SELECT
        call.run, call.rank, call.event_id, call.parent_id, call.annotation_id, call.thread, call.pid, call.name,
        call.python_stack, call.start_ns, call.dur_ns, call.start_ns + call.dur_ns AS end_ns, call.idle_ns, names.synchronises
    FROM events AS call
    JOIN few('names') AS names ON call.name = names.name
    WHERE is_call(call.kind) AND call.dur_ns IS NOT NULL
),
copies AS (
    SELECT run, rank, launch_id, max(start_ns + dur_ns) AS end_ns, bool_or(is_of_pageable_memory(name)) AS is_of_pageable
    FROM events
    WHERE kind = 'memcpy'
    GROUP BY run, rank, launch_id
),
blocks AS MATERIALIZED (
    SELECT calls.*
    FROM calls
    LEFT JOIN copies ON calls.run = copies.run AND calls.rank = copies.rank AND calls.event_id = copies.launch_id
    WHERE
        calls.synchronises
        OR copies.end_ns <= calls.end_ns
        OR holds_up(calls.dur_ns) AND (copies.end_ns IS NULL OR copies.is_of_pageable)
),
waits AS MATERIALIZED (
    SELECT blocks.*
    FROM blocks
    ANTI JOIN blocks AS around
        ON blocks.run = around.run AND blocks.rank = around.rank AND blocks.parent_id = around.event_id
),
work AS (
    SELECT lane, event_id, start_ns, end_ns
    FROM device_work(events) AS work
    JOIN lanes(events) AS lanes ON work.run = lanes.run AND work.rank = lanes.rank
),
gaps AS (
    SELECT run, rank, start_ns - gap_ns AS start_ns, start_ns AS end_ns
    FROM busy_order('work') AS work
    JOIN lanes(events) AS lanes ON work.lane = lanes.lane
    WHERE gap_ns > 0
),
-- The last of several waits that overlap, on whatever threads: after it the host can go on.
last_waits AS (
    SELECT run, rank, last_id AS event_id, until_ns, next_ns
    FROM (
        SELECT
            run, rank, max(end_ns) OVER so_far AS until_ns, arg_max(event_id, end_ns) OVER so_far AS last_id,
            lead(start_ns) OVER (PARTITION BY run, rank ORDER BY start_ns, event_id) AS next_ns
        FROM waits
        WINDOW so_far AS (PARTITION BY run, rank ORDER BY start_ns, event_id ROWS UNBOUNDED PRECEDING)
    )
    WHERE next_ns IS NULL OR next_ns > until_ns
),
idle_after AS (
    SELECT last.run, last.rank, last.event_id, least(gaps.end_ns, last.next_ns) - last.until_ns AS idle_after_ns
    FROM last_waits AS last
    ASOF JOIN gaps ON last.run = gaps.run AND last.rank = gaps.rank AND last.until_ns >= gaps.start_ns
    WHERE last.until_ns < gaps.end_ns
),
ops AS (
    SELECT run, rank, event_id, parent_id, name, stack
    FROM events
    WHERE kind = 'host_op'
),
places AS MATERIALIZED (
    SELECT
        waits.*, idle_after.idle_after_ns, op.name AS op, nullif(concat_ws(' > ', grandparent.name, parent.name), '') AS caller,
        CASE WHEN processes.is_several THEN waits.pid END AS process, coalesce(waits.python_stack, op.stack) AS stack,
        annotation_around(
            annotation.event_id, annotation.name, annotation.python_stack, annotation.inference_phase
        ) AS annotation
    FROM waits
    LEFT JOIN idle_after
        ON waits.run = idle_after.run AND waits.rank = idle_after.rank AND waits.event_id = idle_after.event_id
    LEFT JOIN ops AS op ON waits.run = op.run AND waits.rank = op.rank AND waits.parent_id = op.event_id
    LEFT JOIN ops AS parent ON op.run = parent.run AND op.rank = parent.rank AND op.parent_id = parent.event_id
    LEFT JOIN ops AS grandparent
        ON parent.run = grandparent.run AND parent.rank = grandparent.rank AND parent.parent_id = grandparent.event_id
    JOIN (SELECT run, rank, count(DISTINCT pid) > 1 AS is_several FROM waits GROUP BY run, rank) AS processes
        ON waits.run = processes.run AND waits.rank = processes.rank
    LEFT JOIN (
        SELECT run, rank, event_id, name, python_stack, inference_phase
        FROM events
        WHERE kind = 'annotation'
    ) AS annotation
        ON waits.run = annotation.run AND waits.rank = annotation.rank AND waits.annotation_id = annotation.event_id
),
named AS MATERIALIZED (
    SELECT *, launch_site_name(stack, annotation) AS call_site
    FROM (SELECT DISTINCT stack, annotation FROM places)
),
spans AS (
    SELECT run, rank, sum(span_ns) AS span_ns
    FROM (
        SELECT run, rank, max(start_ns + dur_ns) - min(start_ns) AS span_ns
        FROM events
        SEMI JOIN waits USING (run, rank, thread)
        WHERE preorder IS NOT NULL
        GROUP BY run, rank, thread
    )
    GROUP BY run, rank
),
groups AS MATERIALIZED (
    SELECT
        places.run, places.rank, places.name, places.op, named.call_site, places.process, places.caller,
        count(*) AS calls, sum(places.dur_ns) AS total_ns, max(places.dur_ns) AS max_ns, sum(places.idle_ns) AS idle_ns,
        coalesce(sum(places.idle_after_ns), 0) AS idle_after_ns
    FROM places
    JOIN named
        ON places.stack IS NOT DISTINCT FROM named.stack AND places.annotation IS NOT DISTINCT FROM named.annotation
    GROUP BY ALL
),
sums AS (
    SELECT
        run, rank, name, op, call_site, process,
        arg_min(caller, {less_ns: -total_ns, caller: caller}) FILTER (caller IS NOT NULL) AS top_caller,
        sum(calls)::BIGINT AS calls, sum(total_ns) AS total_ns, max(max_ns) AS max_ns, sum(idle_ns) AS idle_ns,
        sum(idle_after_ns) AS idle_after_ns
    FROM groups
    GROUP BY run, rank, name, op, call_site, process
)
SELECT
    sums.run,
    sums.rank,
    sums.name,
    sums.op,
    sums.call_site,
    sums.process,
    sums.top_caller,
    sums.calls,
    try_cast(sums.total_ns AS BIGINT) AS total_ns,
    sums.max_ns,
    try_cast(sums.idle_ns AS BIGINT) AS device_idle_ns,
    CASE WHEN sums.idle_ns IS NOT NULL THEN sums.idle_after_ns::BIGINT END AS idle_after_ns,
    sums.total_ns / nullif(spans.span_ns, 0) AS host_share
FROM sums
LEFT JOIN spans ON sums.run = spans.run AND sums.rank = spans.rank
ORDER BY sums.total_ns DESC, run, rank, name, op NULLS LAST, call_site NULLS LAST, process NULLS LAST
