-- What is in each trace as a whole.

-- trace_slices: one row per (run, rank) with events: how many of what, and from when to when without the profiler's own span.
CREATE OR REPLACE TEMP MACRO trace_slices(events) AS TABLE
SELECT
    run,
    rank,
    sum(events)::BIGINT AS events,
    min(start_ns) FILTER (WHERE kind <> 'profiler') AS start_ns,
    max(end_ns) FILTER (WHERE kind <> 'profiler') AS end_ns,
    count(DISTINCT thread) FILTER (
        WHERE kind IN ('host_op', 'annotation', 'python', 'runtime', 'driver', 'overhead', 'other')
    ) AS threads,
    count(DISTINCT device) FILTER (WHERE is_busy(kind)) AS devices,
    coalesce(sum(events) FILTER (WHERE kind = 'kernel'), 0)::BIGINT AS kernels,
    count(DISTINCT step) AS steps,
    sum(self_ns) FILTER (WHERE kind = 'host_op') AS op_self_ns,
    sum(dur_ns) FILTER (WHERE kind = 'kernel') AS kernel_ns
FROM (
    SELECT
        run, rank, kind, thread, device, step,
        count(*) AS events, min(start_ns) AS start_ns, max(start_ns + coalesce(dur_ns, 0)) AS end_ns,
        sum(self_ns) AS self_ns, sum(dur_ns) AS dur_ns
    FROM query_table(events)
    GROUP BY ALL
)
GROUP BY run, rank;

-- device_breakdown: what the devices did, in parts that add up to span_ns. One row per (run, rank) that used a device, over the
-- whole time of its devices, its event_id and step NULL; and one per slice `ProfilerStep#N` that ended, over its window.
CREATE OR REPLACE TEMP MACRO device_breakdown(events) AS TABLE
WITH busy AS MATERIALIZED (
    SELECT * FROM device_intervals(events)
),
whole AS (
    SELECT key.run AS run, key.rank AS rank, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM busy
    GROUP BY key
),
windows AS (
    SELECT run, rank, NULL AS event_id, NULL AS step, start_ns, end_ns
    FROM whole
    UNION ALL
    SELECT marks.run, marks.rank, marks.event_id, marks.step, marks.start_ns, marks.start_ns + marks.dur_ns
    FROM step_marks(events) AS marks
    SEMI JOIN whole ON marks.run = whole.run AND marks.rank = whole.rank
    WHERE marks.start_ns IS NOT NULL AND marks.dur_ns IS NOT NULL
),
edges AS (
    SELECT *, count(*) OVER (PARTITION BY run, rank ORDER BY at_ns) AS marks
    FROM (
        SELECT *, unnest([start_ns, end_ns]) AS at_ns, unnest([-1, 1]) AS sign
        FROM windows
        WHERE start_ns < end_ns
    )
),
marked AS (
    FROM busy
    UNION ALL
    SELECT {'run': run, 'rank': rank} AS key, start_ns, end_ns, 0 AS bit
    FROM windows
),
-- From one edge of a window to the next.
sections AS (
    SELECT
        key.run AS run, key.rank AS rank, marks,
        sum(end_ns - start_ns) FILTER (mask & 1 > 0) AS compute_ns,
        sum(end_ns - start_ns) FILTER (mask & 3 = 2) AS exposed_communication_ns,
        sum(end_ns - start_ns) FILTER (mask = 4) AS exposed_copy_ns,
        sum(end_ns - start_ns) FILTER (mask & 3 = 3) AS hidden_communication_ns,
        sum(end_ns - start_ns) FILTER (mask > 4) AS hidden_copy_ns
    FROM interval_moments('marked')
    WHERE mask > 0
    GROUP BY key, marks
),
-- Until each edge, so that what is in a window is a difference.
until_edge AS (
    SELECT
        run, rank, marks,
        sum(compute_ns) OVER before AS compute_ns,
        sum(exposed_communication_ns) OVER before AS exposed_communication_ns,
        sum(exposed_copy_ns) OVER before AS exposed_copy_ns,
        sum(hidden_communication_ns) OVER before AS hidden_communication_ns,
        sum(hidden_copy_ns) OVER before AS hidden_copy_ns
    FROM (SELECT DISTINCT run, rank, marks FROM edges)
    LEFT JOIN sections USING (run, rank, marks)
    WINDOW before AS (PARTITION BY run, rank ORDER BY marks ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
added AS (
    SELECT
        windows.*,
        windows.end_ns - windows.start_ns AS span_ns,
        coalesce(sum(sign * compute_ns), 0)::BIGINT AS compute_ns,
        coalesce(sum(sign * exposed_communication_ns), 0)::BIGINT AS exposed_communication_ns,
        coalesce(sum(sign * exposed_copy_ns), 0)::BIGINT AS exposed_copy_ns,
        coalesce(sum(sign * hidden_communication_ns), 0)::BIGINT AS hidden_communication_ns,
        coalesce(sum(sign * hidden_copy_ns), 0)::BIGINT AS hidden_copy_ns
    FROM windows
    LEFT JOIN edges
        ON windows.run = edges.run
        AND windows.rank = edges.rank
        AND windows.event_id IS NOT DISTINCT FROM edges.event_id
    LEFT JOIN until_edge
        ON edges.run = until_edge.run AND edges.rank = until_edge.rank AND edges.marks = until_edge.marks
    GROUP BY ALL
)
SELECT
    *,
    span_ns - compute_ns - exposed_communication_ns - exposed_copy_ns AS idle_ns
FROM added;

-- memory_peaks: one row per (run, rank, device_type, device): the most that was allocated, and what is known of it.
CREATE OR REPLACE TEMP MACRO memory_peaks(records) AS TABLE
SELECT
    run, rank, device_type, device,
    coalesce(max(total_allocated_bytes), max(allocated_bytes)) AS peak_bytes,
    count(total_allocated_bytes) > 0 AS has_totals,
    count(address) > 0 AS has_addresses
FROM query_table(records)
GROUP BY ALL;
