-- The input of torch's key_averages. Text is cut once per dictionary entry, and unused columns are never read.

-- is_internal: torch drops slices with these names before nesting; their time stays with what is around them.
-- parameter name VARCHAR  name of a slice
-- returns BOOLEAN  whether it is
-- example: SELECT is_internal('[memory]')
CREATE OR REPLACE TEMP MACRO is_internal(name) AS name IN (
    '[memory]', '[OutOfMemory]', 'aten::is_leaf', 'aten::output_nr', 'aten::_version',
    'profiler::_record_function_enter', 'profiler::_record_function_enter_new', 'profiler::_record_function_exit'
);

-- is_on_device: torch counts these kinds on the device, with their whole duration as device time and no host time.
-- parameter kind VARCHAR  kind of a slice
-- returns BOOLEAN  whether it is
-- example: SELECT is_on_device('kernel')
CREATE OR REPLACE TEMP MACRO is_on_device(kind) AS kind IN ('kernel', 'memcpy', 'memset', 'device_annotation', 'graph_node', 'sync');

-- is_collection: a garbage collection of Python, which torch shows among the functions of its thread.
-- parameter kind VARCHAR  kind of a slice
-- parameter name VARCHAR  its name
-- returns BOOLEAN  whether it is
-- example: SELECT is_collection('python', 'Python GC')
CREATE OR REPLACE TEMP MACRO is_collection(kind, name) AS kind = 'python' AND name IS NOT DISTINCT FROM 'Python GC';

-- is_frame: torch's key_averages leaves these slices out since 2.14. A garbage collection is not one of them.
-- parameter kind VARCHAR  kind of a slice
-- parameter name VARCHAR  its name
-- returns BOOLEAN  whether it is a Python function
-- example: SELECT is_frame('python', 'train.py(7): step')
CREATE OR REPLACE TEMP MACRO is_frame(kind, name) AS kind = 'python' AND NOT is_collection(kind, name);

-- torch_dims: input shapes as torch groups by them, which uses [] for a list of tensors, and for no inputs.
-- parameter input_dims VARCHAR  `input_dims` of `events`
-- returns VARCHAR  the same; NULL for no inputs
-- example: SELECT torch_dims('[[2,3]]')
CREATE OR REPLACE TEMP MACRO torch_dims(input_dims) AS
CASE
    WHEN input_dims = '[]' THEN NULL
    WHEN starts_with(input_dims, '[[[') OR contains(input_dims, ',[[')
    THEN '[' || regexp_replace(input_dims[2:-2], '\[\[.*?\]\]', '[]', 'g') || ']'
    ELSE input_dims
END;

-- with_own_times: events with the self times that torch has: durations without the whole time of each direct child, so that what
-- two children share is subtracted twice, and what a region shares with frames beside it is its own, too. Children that a part
-- does not have stay subtracted. Without as_torch they are as in events.
-- parameter events TABLE  `events`, or a part of it
-- parameter as_torch BOOLEAN  whether self times are torch's
-- column *  as in events
-- example: FROM with_own_times(events, true)
CREATE OR REPLACE TEMP MACRO with_own_times(events, as_torch) AS TABLE
SELECT given.* REPLACE (
    CASE
        WHEN as_torch AND given.depth IS NOT NULL
            THEN least(given.self_ns + coalesce(given.shared_ns, 0), given.dur_ns - children.dur_ns)
        ELSE given.self_ns
    END AS self_ns
)
FROM query_table(events) AS given
LEFT JOIN (
    SELECT run, rank, parent_id, sum(dur_ns)::BIGINT AS dur_ns
    FROM query_table(events)
    WHERE as_torch AND parent_id IS NOT NULL
    GROUP BY run, rank, parent_id
) AS children
    ON given.run = children.run AND given.rank = children.rank AND given.event_id = children.parent_id;

-- kept_events: one row per event that torch keeps. Its name, kind_key, on_device, legacy_key, node_id, input_dims, stack and
-- overload_name form its key under these options: columns that are not grouped by are NULL.
-- parameter events TABLE  `events`, or a part of it
-- parameter by_shape BOOLEAN  group by input shapes
-- parameter stack_n BIGINT  group by this many stack frames; 0 for none
-- parameter by_overload BOOLEAN  group by overload
-- parameter as_torch BOOLEAN  group as torch does
-- column run, rank, event_id, kind, preorder, start_ns, dur_ns, self_ns, device_ns, self_device_ns, cpu_bytes  as in events
-- column self_cpu_bytes, device_bytes, self_device_bytes  as in events
-- column torch_flops BIGINT  as in events, of all replays
-- column calls BIGINT  1, or the number of replays
-- column total_ns BIGINT  duration; 0 if it was replayed
-- column name VARCHAR  its name, the same for all profiler steps
-- column node_id BIGINT  node; NULL if there is none
-- column input_dims VARCHAR  input shapes; NULL if they are not part of the key
-- column stack VARCHAR  innermost frames; NULL if they are not part of the key
-- column overload_name VARCHAR  overload; NULL if it is not part of the key
-- column kind_key VARCHAR  kind as part of the key
-- column on_device BOOLEAN  whether it is on a device
-- column legacy_key BOOLEAN  whether it is from the legacy profiler; NULL unless as_torch
-- example: FROM kept_events(events, false, 0, false, true)
CREATE OR REPLACE TEMP MACRO kept_events(events, by_shape, stack_n, by_overload, as_torch) AS TABLE
SELECT
    run, rank, event_id, kind, preorder, start_ns, dur_ns, self_ns, device_ns, self_device_ns,
    cpu_bytes, self_cpu_bytes, device_bytes, self_device_bytes,
    torch_flops * coalesce(replays, 1) AS torch_flops,
    coalesce(replays, 1) AS calls,
    CASE WHEN replays IS NULL THEN dur_ns ELSE 0 END AS total_ns,
    CASE WHEN starts_with(name, 'ProfilerStep#') THEN 'ProfilerStep*' ELSE name END AS name,
    nullif(node_id, -1) AS node_id,
    CASE WHEN by_shape THEN CASE WHEN as_torch THEN torch_dims(input_dims) ELSE input_dims END END AS input_dims,
    CASE WHEN stack_n > 0 THEN nullif(array_to_string(string_split(stack, ';')[1:stack_n], ';'), '') END AS stack,
    CASE WHEN by_overload THEN nullif(overload_name, '') END AS overload_name,
    CASE WHEN NOT as_torch THEN kind WHEN kind IN ('annotation', 'device_annotation') THEN 'user annotation' END AS kind_key,
    is_on_device(kind) AS on_device,
    CASE WHEN as_torch THEN coalesce(is_legacy, false) END AS legacy_key
FROM query_table(events)
WHERE kind <> 'profiler' AND merged_into IS NULL AND NOT coalesce(is_internal(name), false);

-- taken_over: one row per removed event and event that takes over its self values, which is the survivor of a duplicate. For an
-- internal op it is the nearest op around it that is not internal (and each internal one in between, which counts in no sum).
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, self_ns, self_device_ns, self_cpu_bytes, self_device_bytes  as in events
-- column owner_id BIGINT  event_id of the event that takes over
-- example: FROM taken_over(events)
CREATE OR REPLACE TEMP MACRO taken_over(events) AS TABLE
WITH RECURSIVE removed AS MATERIALIZED (
    SELECT
        run, rank, event_id, merged_into, parent_id, coalesce(is_internal(name), false) AS is_internal,
        self_ns, self_device_ns, self_cpu_bytes, self_device_bytes
    FROM query_table(events)
    WHERE merged_into IS NOT NULL OR is_internal(name)
),
climbed AS (
    SELECT run, rank, parent_id AS owner_id, self_ns, self_device_ns, self_cpu_bytes, self_device_bytes
    FROM removed
    WHERE is_internal
    UNION ALL
    SELECT c.* REPLACE (r.parent_id AS owner_id)
    FROM climbed AS c
    JOIN removed AS r ON c.run = r.run AND c.rank = r.rank AND c.owner_id = r.event_id AND r.is_internal
)
SELECT run, rank, merged_into AS owner_id, self_ns, self_device_ns, self_cpu_bytes, self_device_bytes
FROM removed
WHERE NOT is_internal
UNION ALL
SELECT c.* REPLACE (coalesce(r.merged_into, c.owner_id) AS owner_id)
FROM climbed AS c
LEFT JOIN removed AS r ON c.run = r.run AND c.rank = r.rank AND c.owner_id = r.event_id AND NOT r.is_internal;

-- key_events: one row per event that torch keeps (calls 1, or its replays), one per event that it removes (calls 0), with the
-- self values of that event under the key of the event that takes them over, and one per allocation outside all events. The ids
-- of those that take over go through a list; otherwise the planner expects many and hashes all events instead.
-- parameter events TABLE  `events`, or a part of it
-- parameter memory TABLE  `memory` of the same traces
-- parameter instants TABLE  `instants` of the same traces
-- parameter by_shape BOOLEAN  group by input shapes
-- parameter stack_n BIGINT  group by this many stack frames; 0 for none
-- parameter by_overload BOOLEAN  group by overload
-- parameter as_torch BOOLEAN  group as torch does
-- column run, rank, event_id, kind, preorder, start_ns, dur_ns, self_ns, device_ns, self_device_ns, cpu_bytes  as in events
-- column self_cpu_bytes, device_bytes, self_device_bytes, torch_flops  as in events
-- column name, kind_key, on_device, legacy_key, node_id, input_dims, stack, overload_name  as in kept_events
-- column calls BIGINT  1, or the number of replays; 0 if only self values are taken over
-- column total_ns BIGINT  duration, 0 if it was replayed; NULL if only self values are taken over
-- example: FROM key_events(events, memory, instants, false, 0, false, true)
CREATE OR REPLACE TEMP MACRO key_events(events, memory, instants, by_shape, stack_n, by_overload, as_torch) AS TABLE
WITH taken AS MATERIALIZED (
    FROM taken_over(events)
),
owners AS (
    SELECT * FROM query_table(events) WHERE event_id IN (SELECT unnest(list(owner_id)) FROM taken)
)
SELECT
    run, rank, event_id, kind, preorder, start_ns, dur_ns,
    name, kind_key, on_device, legacy_key, node_id, input_dims, stack, overload_name,
    calls, total_ns, self_ns, device_ns, self_device_ns,
    cpu_bytes, self_cpu_bytes, device_bytes, self_device_bytes, torch_flops
FROM kept_events(events, by_shape, stack_n, by_overload, as_torch)
UNION ALL BY NAME
SELECT
    o.run, o.rank, o.event_id, o.kind, o.preorder, o.start_ns, o.dur_ns,
    o.name, o.kind_key, o.on_device, o.legacy_key, o.node_id, o.input_dims, o.stack, o.overload_name,
    0 AS calls, t.self_ns, t.self_device_ns, t.self_cpu_bytes, t.self_device_bytes
FROM kept_events(owners, by_shape, stack_n, by_overload, as_torch) AS o
JOIN taken AS t ON o.run = t.run AND o.rank = t.rank AND o.event_id = t.owner_id
UNION ALL BY NAME
SELECT
    run, rank, 'other' AS kind, time_ns AS start_ns, 0 AS dur_ns,
    '[memory]' AS name,
    CASE WHEN NOT as_torch THEN 'other' END AS kind_key,
    false AS on_device,
    CASE WHEN as_torch THEN false END AS legacy_key,
    1 AS calls, 0 AS total_ns,
    CASE WHEN device_type IN ('CPU', 'MKLDNN', 'IDEEP') THEN bytes ELSE 0 END AS cpu_bytes,
    cpu_bytes AS self_cpu_bytes,
    CASE WHEN device_type NOT IN (
        'CPU', 'MKLDNN', 'IDEEP', 'OPENGL', 'OPENCL', 'FPGA', 'MAIA', 'XLA', 'VULKAN', 'METAL', 'MPS', 'META', 'HPU', 'VE', 'LAZY', 'IPU', 'MTIA'
    ) THEN bytes ELSE 0 END AS device_bytes,
    device_bytes AS self_device_bytes
FROM query_table(memory)
WHERE op_id IS NULL
UNION ALL BY NAME
SELECT
    run, rank, 'other' AS kind, start_ns, 0 AS dur_ns,
    '[OutOfMemory]' AS name,
    CASE WHEN NOT as_torch THEN 'other' END AS kind_key,
    false AS on_device,
    CASE WHEN as_torch THEN false END AS legacy_key,
    1 AS calls, 0 AS total_ns,
    0 AS cpu_bytes, 0 AS self_cpu_bytes, 0 AS device_bytes, 0 AS self_device_bytes
FROM (
    SELECT run, rank, time_ns AS start_ns FROM query_table(instants) WHERE name = '[OutOfMemory]'
    UNION ALL
    SELECT run, rank, start_ns FROM query_table(events) WHERE name = '[OutOfMemory]'
);
