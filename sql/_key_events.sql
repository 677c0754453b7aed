-- key_events: what torch's key_averages adds up, with the stack cut to its first `stack_n` frames.
-- One row per event that torch keeps (calls 1), and one per event that it removes (calls 0), with the self values of
-- that event under the keys of the event that takes them over.
--
-- torch removes a duplicate (its time stays with the survivor around it) and, before it nests, a few internal ops by
-- their exact name (their time stays with the parent). Where the owner is removed too, the recursion goes on to its owner.
-- Not materialized, so that text is cut once per dictionary entry and unused columns are never read.
CREATE OR REPLACE TEMP MACRO key_events(events, stack_n) AS TABLE
WITH RECURSIVE slices AS NOT MATERIALIZED (
    SELECT
        * REPLACE (
            CASE WHEN starts_with(name, 'ProfilerStep#') THEN 'ProfilerStep*' ELSE name END AS name,
            CASE WHEN stack_n > 0 THEN array_to_string(string_split(stack, ';')[1:stack_n], ';') END AS stack
        ),
        kind IN ('kernel', 'memcpy', 'memset', 'device_annotation', 'sync') AS on_device,
        merged_into IS NOT NULL OR coalesce(name IN (
            '[memory]', '[OutOfMemory]', 'aten::is_leaf', 'aten::output_nr', 'aten::_version',
            'profiler::_record_function_enter', 'profiler::_record_function_enter_new', 'profiler::_record_function_exit'
        ), false) AS is_removed
    FROM query_table(events)
    WHERE kind <> 'profiler'
),
removed AS MATERIALIZED (
    SELECT
        run, rank, event_id, coalesce(merged_into, parent_id) AS owner_id,
        self_ns, self_device_ns, self_cpu_bytes, self_device_bytes
    FROM slices
    WHERE is_removed
),
moved AS (
    SELECT * FROM removed
    UNION ALL
    SELECT m.* REPLACE (r.owner_id AS owner_id)
    FROM moved AS m
    JOIN removed AS r ON m.run = r.run AND m.rank = r.rank AND m.owner_id = r.event_id
)
SELECT
    run, rank, event_id, start_ns, dur_ns,
    name, kind, on_device, input_dims, stack, overload_name,
    1 AS calls,
    CASE WHEN on_device THEN 0 ELSE dur_ns END AS cpu_ns,
    CASE WHEN on_device THEN 0 ELSE self_ns END AS self_cpu_ns,
    device_ns, self_device_ns,
    cpu_bytes, self_cpu_bytes, device_bytes, self_device_bytes,
    torch_flops
FROM slices
WHERE NOT is_removed
UNION ALL
SELECT
    o.run, o.rank, o.event_id, o.start_ns, o.dur_ns,
    o.name, o.kind, o.on_device, o.input_dims, o.stack, o.overload_name,
    0 AS calls,
    NULL AS cpu_ns,
    m.self_ns AS self_cpu_ns,
    NULL AS device_ns, m.self_device_ns,
    NULL AS cpu_bytes, m.self_cpu_bytes, NULL AS device_bytes, m.self_device_bytes,
    NULL AS torch_flops
FROM moved AS m
JOIN slices AS o ON m.run = o.run AND m.rank = o.rank AND m.owner_id = o.event_id
WHERE NOT o.is_removed;
