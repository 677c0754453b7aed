-- modules: what ran on the host and the devices for each nn.Module, step by step.
-- One row per (run, rank, step, name, module_id), by run, rank, step (none first), first start, name, module_id.
-- A module's calls are its Python frames. Of a rank without such frames, ops that say in which modules they are stand in: the
-- modules of their `module_hierarchy`, each by its path; how often those were called is not known.
-- What is launched inside a call on its thread is its work, whenever that runs; backward work, which another thread launches,
-- is not. Calls of one module that are inside each other count once. Self is without what other modules inside it take.
-- All but calls and host_ns are NULL where the rows that would tell were filtered out of the trace.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy, regions.
-- needs: events
-- run                       VARCHAR      run that the trace belongs to
-- rank                      INTEGER      rank within the run
-- step                      BIGINT       profiler step that the calls started in; NULL in none
-- name                      VARCHAR      name of the Python frame, or path of the module
-- module_id                 BIGINT       number of the nn.Module instance; NULL of a path
-- calls                     BIGINT       number of calls; NULL of a path
-- host_ns                   BIGINT   ns  time in it on the host, threads added; of a path, time in its ops
-- self_host_ns              BIGINT   ns  the same without time in other modules inside it
-- kernels                   BIGINT       number of kernels launched inside
-- device_ns                 BIGINT   ns  sum of durations of the kernels, copies and fills launched inside
-- self_device_ns            BIGINT   ns  the same without what was launched in other modules inside it
-- busy_ns                   BIGINT   ns  time in which at least one of these ran, on whichever device
-- span_ns                   BIGINT   ns  from the start of the first of them to the end of the last; NULL where there are none
-- exposed_communication_ns  BIGINT   ns  time in which one of them communicated, and nothing on the rank's devices computed
-- idle_ns                   BIGINT   ns  part of span_ns in which no device of the rank was busy; NULL where there is no span
WITH frames AS MATERIALIZED (
    SELECT
        run, rank, step, name, python_module_id AS module_id, event_id, thread, start_ns, dur_ns, preorder, last_descendant_id
    FROM events
    WHERE kind = 'python' AND python_module_id IS NOT NULL
),
ops AS MATERIALIZED (
    SELECT
        events.run, events.rank, events.step, events.module_hierarchy, events.event_id, events.parent_id, events.thread,
        events.start_ns, events.dur_ns, events.preorder, events.last_descendant_id
    FROM events
    ANTI JOIN frames ON events.run = frames.run AND events.rank = frames.rank
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
    LEFT JOIN ops AS parent ON ops.run = parent.run AND ops.rank = parent.rank AND ops.parent_id = parent.event_id
    LEFT JOIN paths AS around ON parent.module_hierarchy = around.module_hierarchy
    WHERE paths.paths IS DISTINCT FROM around.paths
),
slices AS MATERIALIZED (
    SELECT
        *, NULL::INTEGER AS device, NULL::INTEGER AS stream,
        dense_rank() OVER (ORDER BY run, rank, step, name, module_id) AS region
    FROM (
        SELECT *, 0 AS sub, true AS is_call
        FROM frames
        UNION ALL BY NAME
        SELECT
            run, rank, step, event_id, thread, start_ns, dur_ns, preorder, last_descendant_id,
            unnest(entered) AS name, generate_subscripts(entered, 1) AS sub
        FROM entered
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
        nullif(count(is_call), 0) AS calls,
        min(start_ns) AS first_ns
    FROM slices
    GROUP BY region, run, rank, step, name, module_id
),
work AS MATERIALIZED (
    FROM region_work(events, slices)
),
places AS MATERIALIZED (
    FROM region_places(events, slices, work)
)
SELECT
    named.run,
    named.rank,
    named.step,
    named.name,
    named.module_id,
    named.calls,
    host.host_ns,
    own.self_host_ns,
    device.kernels,
    device.device_ns,
    own.self_device_ns,
    device.busy_ns,
    device.span_ns,
    device.exposed_communication_ns,
    device.idle_ns
FROM named
LEFT JOIN region_host(slices) AS host ON named.region = host.region
LEFT JOIN region_device(places, work) AS device ON named.region = device.region
LEFT JOIN region_self(places) AS own ON named.region = own.region
ORDER BY named.run, named.rank, named.step NULLS FIRST, named.first_ns NULLS LAST, named.name NULLS LAST, named.module_id
