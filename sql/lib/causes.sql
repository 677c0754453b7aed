-- What a step consists of, to find what changed in it.
-- In a bare shell read `devices.sql`, `kernel_names.sql`, `inputs.sql`, `steps.sql` and `critical_path.sql` of `sql/lib` first.

-- call_label: what makes two slices the same call, whatever number its name contains: of a step, of a module among those of its
-- class, of an annotation, of a line.
-- parameter kind VARCHAR  kind of a slice
-- parameter name VARCHAR  its name
-- returns VARCHAR  the label
-- example: SELECT call_label('python', 'train.py(12): step')
CREATE OR REPLACE TEMP MACRO call_label(kind, name) AS CASE
    WHEN starts_with(name, 'ProfilerStep#') THEN 'ProfilerStep#'
    WHEN contains(name, 'Compiled') THEN regexp_replace(name, '(Torch-Compiled Region|CompiledFxGraph|CompiledFunction).*', '\1')
    WHEN kind = 'annotation' THEN regexp_replace(name, '\d+', '#', 'g')
    WHEN kind = 'python' THEN regexp_replace(regexp_replace(name, '_\d+$', ''), '\(\d+\)', '')
    WHEN is_busy(kind) THEN kind
    WHEN is_data_load(name) THEN 'DataLoader'
    ELSE name
END;

-- call_sort: what the host does in a slice: 1 op, 2 annotation, 3 module, 4 Python frame, 5 call, 6 a call that waits for a
-- device, 7 loading data, 8 compiling, 9 continuing after a graph break; 0 anything else.
-- parameter kind VARCHAR  kind of a slice
-- parameter name VARCHAR  its name
-- parameter is_module BOOLEAN  whether it is the call of a module
-- returns INTEGER  the number
-- example: SELECT call_sort('host_op', 'aten::mm', false)
CREATE OR REPLACE TEMP MACRO call_sort(kind, name, is_module) AS CASE
    WHEN starts_with(name, 'ProfilerStep#') THEN 2
    WHEN is_data_load(name) THEN 7
    WHEN
        contains(name, 'ompile') AND regexp_matches(
            name, '^(entire_frame_compile|_compile\.|compile_fx|OutputGraph\.|.*\(dynamo_timed\))|torch/_dynamo/convert_frame\.py'
        ) THEN 8
    WHEN contains(name, 'torch_dynamo_resume_in_') THEN 9
    WHEN kind = 'host_op' THEN 1
    WHEN kind = 'annotation' THEN 2
    WHEN kind = 'python' AND is_module THEN 3
    WHEN kind = 'python' THEN 4
    WHEN is_call(kind) THEN CASE WHEN is_synchronising(name) THEN 6 ELSE 5 END
    ELSE 0
END;

-- call_nodes: one row per slice that is on a thread of the host or on a device.
-- parameter events TABLE  `events` of one (run, rank)
-- column event_id, start_ns, dur_ns  as in events
-- column step BIGINT  its step; -1 if there is none
-- column depth INTEGER  number of slices around it
-- column parent BIGINT  event_id of the slice around it; -1 if there is none, like the next three
-- column launch BIGINT  event_id of the call that launched it
-- column thread INTEGER  thread of the host
-- column device INTEGER  device
-- column work INTEGER  device work: 1 computation, 2 communication, 3 copy; 0: on the host
-- column sort INTEGER  as in call_sort
-- column label BIGINT  number of its call_label
-- column backward BIGINT  1: autograd runs it
-- column detail BIGINT  number of its details: the name of work, the shapes and types of an op
-- column category BIGINT  number of its category, if that is specific: products, attention, communication; else 0
-- column graph_position BIGINT  as in events; -1 if there is none
-- example: FROM call_nodes(events)
CREATE OR REPLACE TEMP MACRO call_nodes(events) AS TABLE
WITH slices AS NOT MATERIALIZED (
    FROM query_table(events)
    WHERE
        start_ns IS NOT NULL
        AND dur_ns >= 0
        AND is_async IS NOT TRUE
        AND (is_busy(kind) OR kind IN ('host_op', 'annotation', 'python', 'runtime', 'driver', 'overhead'))
),
names AS MATERIALIZED (
    SELECT
        hash(kind, name, is_module) AS key,
        (hash(call_label(kind, name)) >> 1)::BIGINT AS label,
        call_sort(kind, name, is_module) AS sort,
        starts_with(name, 'autograd::engine::')::BIGINT AS backward,
        CASE WHEN is_busy(kind) THEN (hash(name) >> 1)::BIGINT ELSE 0 END AS detail
    FROM (SELECT DISTINCT kind, name, python_module_id IS NOT NULL AS is_module FROM slices)
)
SELECT
    slices.event_id,
    coalesce(slices.parent_id, -1) AS parent,
    coalesce(slices.launch_id, -1) AS launch,
    coalesce(slices.thread, -1) AS thread,
    coalesce(slices.device, -1) AS device,
    coalesce(slices.step, -1) AS step,
    coalesce(slices.depth, 0) AS depth,
    slices.start_ns,
    slices.dur_ns,
    CASE device_class(slices.kind, slices.kernel_category)
        WHEN 'compute' THEN 1 WHEN 'communication' THEN 2 WHEN 'copy' THEN 3 ELSE 0
    END AS work,
    names.sort,
    names.label,
    names.backward,
    CASE
        WHEN names.sort = 1 THEN (hash(slices.input_dims, slices.input_types) >> 1)::BIGINT
        ELSE names.detail
    END AS detail,
    CASE
        WHEN
            slices.kernel_category IN ('gemm', 'attention', 'attention_backward', 'convolution')
            OR is_communication(slices.kernel_category)
            THEN (hash(slices.kernel_category) >> 1)::BIGINT
        ELSE 0
    END AS category,
    coalesce(slices.graph_position, -1) AS graph_position
FROM slices
JOIN names ON hash(slices.kind, slices.name, slices.python_module_id IS NOT NULL) = names.key;
