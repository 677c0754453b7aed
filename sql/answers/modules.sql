-- modules: what ran on host and devices for each nn.Module, forward and backward.
-- One row per (run, rank, step, name, module_id), by run and rank, the longest total_device_ns first, then total_host_ns.
-- With per=class one row for all modules of a class, such as `Linear` for `nn.Module: Linear_0` and `nn.Module: Linear_1`; where
-- a path does not tell the class of its last module, for all paths that differ only in numbers: `layers.*.mlp`.
-- A module's calls are its Python frames. For a rank without such frames, ops that name their modules stand in: modules come from
-- `module_hierarchy`, each identified by its path; the number of calls is then unknown. So do graph kernels that name theirs, if
-- no module calls were recorded in their capture. A module's work is everything launched inside a call on its thread, whenever
-- that runs. Backward work, which another thread launches, is that of backward ops whose forward op (`fwd_id`) ran inside a call;
-- if modules are called again in backward, as with checkpoints, their work counts as forward work of those calls. Nested calls of
-- one module count once. Self columns leave out other modules inside. Columns without `backward` or `total` count only the calls.
-- A module that was captured into a graph has a call for each replay, in the step of its launch; its work is not self time of the
-- modules around that launch, so each piece of work is self time once. All columns except calls and host_ns are NULL if the rows
-- they depend on were filtered out of the trace.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy, regions, backward.
-- needs: events
-- recorded: modules
-- no rows: no slice of the host is in a module
-- divides by: rank
-- over ranks: step, name; module_id
-- main columns: name, step, total_self_device_ns, total_device_ns, total_host_ns, calls, device_ns, backward_device_ns, modules
-- main columns: host_ns, idle_ns, self_device_ns, exposed_communication_ns, self_backward_device_ns, self_host_ns
-- main columns: backward_host_ns
-- tables by: total_self_device_ns, total_host_ns
-- parameter per       VARCHAR(step|run|class) = step  what rows are split by: steps, nothing within a run, or classes of modules
-- parameter together  JSON = []  names or classes, or patterns with `*`: one row for all modules that one fits, and no others
-- run                       VARCHAR      run that the trace belongs to
-- rank                      INTEGER      rank within the run
-- step                      BIGINT       profiler step that the calls started in; NULL outside steps, and unless per=step
-- name                      VARCHAR      name of the Python frame, path of the module, or its class; NULL with `together`
-- module_id                 BIGINT       number of the nn.Module instance; NULL for a path or class, and with `together`
-- modules                   BIGINT       number of modules that it is about: nn.Module instances, or paths
-- calls                     BIGINT       number of calls; NULL for a path
-- host_ns                   BIGINT   ns  host time in it, summed over threads; for a path, time in its ops
-- self_host_ns              BIGINT   ns  the same without time in other modules inside it
-- backward_host_ns          BIGINT   ns  time of its backward ops on the host; NULL if no backward op has a known forward op
-- total_host_ns             BIGINT   ns  host_ns plus the known backward_host_ns
-- kernels                   BIGINT       number of kernels launched inside
-- device_ns                 BIGINT   ns  sum of durations of the kernels, copies and fills launched inside
-- self_device_ns            BIGINT   ns  the same without what was launched in other modules inside it
-- backward_kernels          BIGINT       number of kernels of its backward ops
-- backward_device_ns        BIGINT   ns  sum of durations of the kernels, copies and fills of its backward ops
-- self_backward_device_ns   BIGINT   ns  the same without those of other modules inside it
-- total_device_ns           BIGINT   ns  device_ns plus the known backward_device_ns
-- total_self_device_ns      BIGINT   ns  self_device_ns plus the known self_backward_device_ns
-- busy_ns                   BIGINT   ns  time in which at least one piece of work of its calls ran, on whichever device
-- span_ns                   BIGINT   ns  from the start of the first of them to the end of the last; NULL if there are none
-- exposed_communication_ns  BIGINT   ns  time in which one of them communicated and nothing on the rank's devices computed
-- idle_ns                   BIGINT   ns  part of span_ns in which no device of the rank was busy; NULL if there is no span
WITH replayed AS (
    FROM replayed_steps(events)
    WHERE coalesce(getvariable('per'), 'step') = 'step'
),
frames AS MATERIALIZED (
    SELECT
        events.run, events.rank,
        CASE WHEN coalesce(getvariable('per'), 'step') = 'step' THEN coalesce(replayed.replay.step, events.step) END AS step,
        events.name, python_module_id AS module_id, event_id, events.thread, start_ns, dur_ns, preorder, last_descendant_id,
        replayed.replay, coalesce(replayed.replays, events.replays, 1) AS calls
    FROM events
    LEFT JOIN replayed
        ON events.run = replayed.run AND events.rank = replayed.rank AND events.thread = replayed.thread
        AND events.replays IS NOT NULL
    WHERE kind = 'python' AND python_module_id IS NOT NULL
),
ops AS MATERIALIZED (
    SELECT
        events.run, events.rank,
        CASE WHEN coalesce(getvariable('per'), 'step') = 'step' THEN coalesce(replayed.replay.step, events.step) END AS step,
        events.module_hierarchy, events.event_id, events.parent_id, events.thread,
        events.start_ns, events.dur_ns, events.preorder, events.last_descendant_id, replayed.replay
    FROM events
    LEFT JOIN replayed
        ON events.run = replayed.run AND events.rank = replayed.rank AND events.thread = replayed.thread
        AND events.replays IS NOT NULL
    ANTI JOIN frames
        ON events.run = frames.run AND events.rank = frames.rank
        AND (events.replays IS NULL OR events.thread = frames.thread)
    WHERE events.module_hierarchy <> '' AND events.preorder IS NOT NULL
),
-- Modules around an op, the outermost first: what is a method of the module before it, or a function, is no module.
paths AS MATERIALIZED (
    SELECT
        module_hierarchy,
        list_transform(range(1, len(modules) + 1), lambda n: array_to_string(modules[1:n], '.')) AS paths
    FROM (
        SELECT
            module_hierarchy,
            list_filter(
                list_transform(
                    string_split(module_hierarchy, '.'), lambda word: regexp_replace(word, '^(SELF\(|TOP\(\)).*|::.*', '')
                ),
                lambda word: word <> ''
            ) AS modules
        FROM (SELECT DISTINCT module_hierarchy FROM ops)
    )
    WHERE len(modules) > 0
),
-- An op stands for the modules that its parent is not in, and for its own.
entered AS (
    SELECT
        ops.*,
        list_filter(
            paths.paths,
            lambda path: path = paths.paths[-1] OR NOT coalesce(list_contains(around.paths, path), false)
        ) AS entered
    FROM ops
    JOIN paths ON ops.module_hierarchy = paths.module_hierarchy
    LEFT JOIN ops AS parent
        ON ops.run = parent.run AND ops.rank = parent.rank AND ops.parent_id = parent.event_id
        AND ops.replay IS NOT DISTINCT FROM parent.replay
    LEFT JOIN paths AS around ON parent.module_hierarchy = around.module_hierarchy
    WHERE paths.paths IS DISTINCT FROM around.paths
),
modules AS (
    SELECT *, 0 AS sub
    FROM frames
    UNION ALL BY NAME
    SELECT
        run, rank, step, event_id, thread, start_ns, dur_ns, preorder, last_descendant_id, replay,
        unnest(entered) AS name, generate_subscripts(entered, 1) AS sub
    FROM entered
),
labels AS MATERIALIZED (
    SELECT
        own_name, is_path,
        CASE
            WHEN patterns IS NOT NULL THEN NULL
            WHEN coalesce(getvariable('per'), 'step') = 'class' THEN class
            ELSE own_name
        END AS name,
        patterns IS NULL AND coalesce(getvariable('per'), 'step') <> 'class' AS is_instance
    FROM (
        SELECT name AS own_name, is_path, module_class(name, is_path) AS class
        FROM (SELECT DISTINCT name, module_id IS NULL AS is_path FROM modules)
    )
    CROSS JOIN (
        SELECT nullif(from_json(coalesce(getvariable('together'), '[]')::JSON, '["VARCHAR"]'), []::VARCHAR[]) AS patterns
    )
    WHERE
        patterns IS NULL
        OR len(
            list_filter(
                patterns,
                lambda pattern: pattern IN (own_name, class)
                    OR own_name GLOB replace(replace(pattern, '[', '[[]'), '?', '[?]')
                    OR class GLOB replace(replace(pattern, '[', '[[]'), '?', '[?]')
            )
        ) > 0
),
slices AS MATERIALIZED (
    SELECT
        *, CASE WHEN is_instance THEN own_id END AS module_id, NULL::INTEGER AS device, NULL::INTEGER AS stream,
        dense_rank() OVER (ORDER BY run, rank, step, name, CASE WHEN is_instance THEN own_id END) AS region
    FROM (
        SELECT modules.* EXCLUDE (name, module_id), labels.*, modules.module_id AS own_id
        FROM modules
        JOIN few('labels') AS labels
            ON modules.name = labels.own_name AND (modules.module_id IS NULL) = labels.is_path
    )
),
named AS (
    SELECT
        region,
        run,
        rank,
        step,
        name,
        module_id,
        count(DISTINCT {name: own_name, id: own_id}) AS modules,
        sum(calls)::BIGINT AS calls
    FROM slices
    GROUP BY region, run, rank, step, name, module_id
),
work AS MATERIALIZED (
    FROM region_work(events, slices)
),
places AS MATERIALIZED (
    FROM region_places(events, slices, work)
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
backward_host AS MATERIALIZED (
    FROM backward_region_host(backward)
),
backward_host_places AS MATERIALIZED (
    FROM region_places(events, slices, backward_host)
),
backward_device AS (
    FROM region_device(backward_places, backward_work)
),
backward_own AS (
    FROM region_self(backward_places)
),
backward_on_host AS (
    FROM region_device(backward_host_places, backward_host)
),
known AS (
    SELECT DISTINCT run, rank, true AS is_known
    FROM backward
),
sums AS (
    SELECT
        named.*,
        host.host_ns,
        own.self_host_ns,
        CASE WHEN known.is_known THEN backward_on_host.device_ns END AS backward_host_ns,
        device.kernels,
        device.device_ns,
        own.self_device_ns,
        CASE WHEN known.is_known THEN backward_device.kernels END AS backward_kernels,
        CASE WHEN known.is_known THEN backward_device.device_ns END AS backward_device_ns,
        CASE WHEN known.is_known THEN backward_own.self_device_ns END AS self_backward_device_ns,
        device.busy_ns,
        device.span_ns,
        device.exposed_communication_ns,
        device.idle_ns
    FROM named
    LEFT JOIN region_host(slices) AS host ON named.region = host.region
    LEFT JOIN region_device(places, work) AS device ON named.region = device.region
    LEFT JOIN region_self(places) AS own ON named.region = own.region
    LEFT JOIN backward_device ON named.region = backward_device.region
    LEFT JOIN backward_own ON named.region = backward_own.region
    LEFT JOIN backward_on_host ON named.region = backward_on_host.region
    LEFT JOIN known ON named.run = known.run AND named.rank = known.rank
)
SELECT
    run,
    rank,
    step,
    name,
    module_id,
    modules,
    calls,
    host_ns,
    self_host_ns,
    backward_host_ns,
    try_cast(host_ns::HUGEINT + coalesce(backward_host_ns, 0) AS BIGINT) AS total_host_ns,
    kernels,
    device_ns,
    self_device_ns,
    backward_kernels,
    backward_device_ns,
    self_backward_device_ns,
    try_cast(device_ns::HUGEINT + coalesce(backward_device_ns, 0) AS BIGINT) AS total_device_ns,
    try_cast(self_device_ns::HUGEINT + coalesce(self_backward_device_ns, 0) AS BIGINT) AS total_self_device_ns,
    busy_ns,
    span_ns,
    exposed_communication_ns,
    idle_ns
FROM sums
ORDER BY run, rank, total_device_ns DESC NULLS LAST, total_host_ns DESC NULLS LAST, step NULLS FIRST, name NULLS LAST, module_id
