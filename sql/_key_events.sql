-- key_events: the rows that torch's key_averages adds up, and what each adds.
-- One row per event that is no duplicate, with the self values of the events that torch removes inside it.
--
-- torch removes a duplicate (its time stays with the survivor around it) and, before it nests, a few internal ops by
-- their exact name (their time stays with the parent). An event moves its self values to `owner_id`; where that one is
-- removed too, the recursion moves them on.
CREATE OR REPLACE TEMP MACRO key_events(events, traces) AS TABLE
WITH RECURSIVE slices AS (
    SELECT
        *,
        coalesce(name IN (
            '[memory]', '[OutOfMemory]', 'aten::is_leaf', 'aten::output_nr', 'aten::_version',
            'profiler::_record_function_enter', 'profiler::_record_function_enter_new', 'profiler::_record_function_exit'
        ), false) AS is_internal,
        kind IN ('kernel', 'memcpy', 'memset', 'device_annotation', 'sync') AS on_device
    FROM query_table(events)
    WHERE kind <> 'profiler'
),
removed AS MATERIALIZED (
    SELECT
        run, rank, event_id, coalesce(merged_into, parent_id) AS owner_id,
        self_ns, self_device_ns, self_cpu_bytes, self_device_bytes
    FROM slices
    WHERE merged_into IS NOT NULL OR is_internal
),
moved AS (
    SELECT * FROM removed
    UNION ALL
    SELECT m.* REPLACE (r.owner_id AS owner_id)
    FROM moved AS m
    JOIN removed AS r ON m.run = r.run AND m.rank = r.rank AND m.owner_id = r.event_id
),
gained AS (
    SELECT
        run, rank, owner_id,
        sum(self_ns) AS self_ns, sum(self_device_ns) AS self_device_ns,
        sum(self_cpu_bytes) AS self_cpu_bytes, sum(self_device_bytes) AS self_device_bytes
    FROM moved
    GROUP BY run, rank, owner_id
)
SELECT
    s.run,
    s.rank,
    s.event_id,
    s.start_ns,
    s.dur_ns,
    CASE WHEN starts_with(s.name, 'ProfilerStep#') THEN 'ProfilerStep*' ELSE s.name END AS name,
    s.kind,
    CASE WHEN s.on_device THEN coalesce(t.device_type, 'CUDA') ELSE 'CPU' END AS device_type,
    s.input_dims,
    s.stack,
    s.overload_name,
    CASE WHEN s.on_device THEN 0 ELSE s.dur_ns END AS cpu_ns,
    CASE WHEN s.on_device THEN 0 ELSE s.self_ns + coalesce(g.self_ns, 0) END AS self_cpu_ns,
    coalesce(s.device_ns, 0) AS device_ns,
    coalesce(s.self_device_ns, 0) + coalesce(g.self_device_ns, 0) AS self_device_ns,
    s.cpu_bytes,
    s.self_cpu_bytes + coalesce(g.self_cpu_bytes, 0) AS self_cpu_bytes,
    s.device_bytes,
    s.self_device_bytes + coalesce(g.self_device_bytes, 0) AS self_device_bytes,
    s.torch_flops
FROM slices AS s
LEFT JOIN gained AS g ON s.run = g.run AND s.rank = g.rank AND s.event_id = g.owner_id
LEFT JOIN query_table(traces) AS t ON s.run = t.run AND s.rank = t.rank
WHERE s.merged_into IS NULL AND NOT s.is_internal;
