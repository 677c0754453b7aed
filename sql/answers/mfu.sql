-- mfu: how much of the devices' peak went into the model (MFU), and with what ran again (HFU).
-- One row per (run, step, name), steps and names in the order of their first work.
-- MFU is the FLOPs of products of matrices, convolutions and attention, over the device time and the dense peak of the data
-- type that has most of them. What ran again in backward counts for HFU alone. Device time is that of steps, from one completion
-- to the next, times the devices of the rank: waiting and communication are in it. Of a run these are the steady steps, or all
-- whole ones if it is not known which are steady; without steps, from the first to the last device work. Of a phase or an
-- annotation it is the time from the first to the last work launched in each occurrence, where occurrences overlap once. A rank
-- without device work has the FLOPs of its ops, and no MFU. Below 0.8 of known_flops_share, too few FLOPs are counted: MFU and
-- HFU are NULL.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, steady_steps, busy, roofline.
-- needs: events, profiler_steps, devices
-- recorded: slices
-- no rows: no work of known FLOPs is in what was asked for
-- parameter per                  VARCHAR(run|step|phase|annotation) = run  what each row is
-- parameter model_flops_per_step DOUBLE = 0.0  FLOPs of the model in a step of all loaded ranks, such as 6ND; 0 for those counted
-- parameter dtype                VARCHAR(fp64|fp32|tf32|fp16|bf16|fp8|fp6|fp4|int8) = ''  not the peak of the type with most
-- run                VARCHAR              run that the traces belong to, all of its ranks together
-- ranks              BIGINT               ranks with such work
-- step               BIGINT               profiler step, by step; else NULL
-- name               VARCHAR              phase or annotation, by these; else NULL
-- mfu                DOUBLE   0..1        model_flops over device time and peak; NULL for a reason in note
-- hfu                DOUBLE   0..1        the same with recomputed_flops
-- dtype              VARCHAR              data type whose peak it is; `_tensor`: of matrix units; NULL if no type is known
-- peak_flop_per_s    DOUBLE   FLOP/s      dense peak of a device, the mean over device time; NULL if not known
-- known_flops_share  DOUBLE   0..1        kernel time of known FLOPs, or without products, over that of all but communication
-- model_flops        DOUBLE   FLOP        FLOPs of products, without what ran again; as given by model_flops_per_step, if it is
-- recomputed_flops   DOUBLE   FLOP        FLOPs of products that ran again in backward; NULL if no rank tells what ran again
-- devices            BIGINT               devices of these ranks that ran kernels
-- steps              BIGINT               steps of all ranks that count; NULL without, and by phase or annotation
-- device_ns          BIGINT   ns          device time: of each rank, times its devices; NULL if it is not known for one
-- note               VARCHAR              no_device unknown_device no_peak (of the type) no_products unknown_work unknown_step
WITH used AS MATERIALIZED (
    SELECT DISTINCT run, rank, device
    FROM events
    WHERE kind = 'kernel'
),
steps AS MATERIALIZED (
    SELECT
        run, rank, step,
        CASE WHEN lack IS NULL THEN step_ns END AS window_ns,
        is_steady IS DISTINCT FROM false AND lack IS NULL AND step_ns IS NOT NULL AS is_counted
    FROM steady_steps(profiler_steps)
),
work AS MATERIALIZED (
    SELECT
        run, rank, event_id, kind, step, inference_phase, phase_id, annotation_id, start_ns, start_ns + dur_ns AS end_ns,
        CASE WHEN kind = 'kernel' AND NOT (is_communication(kernel_category) AND flops IS NULL) THEN dur_ns END AS kernel_ns,
        flops IS NOT NULL OR (bytes IS NOT NULL AND NOT needs_flops(kernel_category)) AS is_known,
        CASE WHEN is_product THEN flops END AS flops,
        CASE WHEN is_product THEN work_dtype END AS work_dtype,
        is_recompute
    FROM events
    WHERE kind = 'kernel'
        OR (kind = 'host_op' AND work_id = event_id AND flops > 0 AND (run, rank) NOT IN (SELECT (run, rank) FROM used))
),
marks AS MATERIALIZED (
    SELECT run, rank, event_id, name, annotation_id
    FROM events
    WHERE kind = 'annotation' AND coalesce(getvariable('per'), 'run') = 'annotation'
),
outward AS (
    WITH RECURSIVE around AS (
        SELECT run, rank, event_id AS inner_id, event_id AS occurrence, name, annotation_id
        FROM marks
        UNION ALL
        SELECT marks.run, marks.rank, around.inner_id, marks.event_id, marks.name, marks.annotation_id
        FROM around
        JOIN marks ON around.run = marks.run AND around.rank = marks.rank AND around.annotation_id = marks.event_id
    )
    -- Nested annotations with one name are one.
    SELECT run, rank, inner_id, name, min(occurrence) AS occurrence
    FROM around
    WHERE name NOT IN (SELECT 'ProfilerStep#' || step FROM profiler_steps WHERE step IS NOT NULL)
    GROUP BY run, rank, inner_id, name
),
placed AS MATERIALIZED (
    SELECT * EXCLUDE (step), NULL::BIGINT AS step, NULL::VARCHAR AS name, NULL::BIGINT AS occurrence
    FROM work
    WHERE coalesce(getvariable('per'), 'run') = 'run'
        AND (
            (run, rank, step) IN (SELECT (run, rank, step) FROM steps WHERE is_counted)
            OR (run, rank) NOT IN (SELECT (run, rank) FROM steps WHERE is_counted)
        )
    UNION ALL BY NAME
    FROM work
    WHERE coalesce(getvariable('per'), 'run') = 'step' AND step IS NOT NULL
    UNION ALL BY NAME
    SELECT * EXCLUDE (step), inference_phase AS name, phase_id AS occurrence
    FROM work
    WHERE coalesce(getvariable('per'), 'run') = 'phase' AND inference_phase IS NOT NULL
    UNION ALL BY NAME
    SELECT work.* EXCLUDE (step), outward.name, outward.occurrence
    FROM work
    JOIN outward ON work.run = outward.run AND work.rank = outward.rank AND work.annotation_id = outward.inner_id
),
occurrences AS (
    SELECT
        run, rank, name, min(start_ns) AS start_ns, max(end_ns) AS end_ns,
        dense_rank() OVER (ORDER BY run, rank, name) AS lane
    FROM placed
    WHERE step IS NULL AND kind = 'kernel' AND end_ns IS NOT NULL
        AND (name IS NOT NULL OR (run, rank) NOT IN (SELECT (run, rank) FROM steps WHERE is_counted))
    GROUP BY run, rank, name, occurrence
),
windows AS (
    SELECT run, rank, NULL::BIGINT AS step, NULL::VARCHAR AS name, sum(window_ns) AS window_ns, count(*) AS steps
    FROM steps
    WHERE coalesce(getvariable('per'), 'run') = 'run' AND is_counted
    GROUP BY run, rank
    UNION ALL BY NAME
    SELECT run, rank, step, window_ns, 1 AS steps
    FROM steps
    WHERE coalesce(getvariable('per'), 'run') = 'step'
    UNION ALL BY NAME
    SELECT named.run, named.rank, named.name, covered_ns AS window_ns
    FROM covered_time('occurrences')
    JOIN (SELECT DISTINCT run, rank, name, lane FROM occurrences) AS named USING (lane)
),
sums AS (
    SELECT
        run, step, name,
        count(DISTINCT rank) AS ranks,
        coalesce(sum(flops) FILTER (is_recompute IS DISTINCT FROM true), 0) AS flops,
        CASE WHEN count(is_recompute) > 0 THEN coalesce(sum(flops) FILTER (is_recompute), 0) END AS recomputed_flops,
        sum(kernel_ns) FILTER (is_known) AS known_ns,
        sum(kernel_ns) AS kernel_ns,
        min(start_ns) AS first_ns
    FROM placed
    GROUP BY run, step, name
),
types AS (
    SELECT run, step, name, arg_max(work_dtype, (flops, work_dtype)) AS work_dtype
    FROM (
        SELECT run, step, name, work_dtype, sum(flops) AS flops
        FROM placed
        WHERE work_dtype IS NOT NULL AND flops > 0
        GROUP BY run, step, name, work_dtype
    )
    GROUP BY run, step, name
),
typed AS (
    SELECT sums.*, coalesce(nullif(coalesce(getvariable('dtype'), ''), ''), types.work_dtype) AS work_dtype
    FROM sums
    LEFT JOIN types
        ON sums.run = types.run AND sums.step IS NOT DISTINCT FROM types.step AND sums.name IS NOT DISTINCT FROM types.name
),
of_ranks AS (
    SELECT placed.run, placed.rank, placed.step, placed.name, windows.window_ns, windows.steps
    FROM (SELECT DISTINCT run, rank, step, name FROM placed) AS placed
    LEFT JOIN windows
        ON placed.run = windows.run AND placed.rank = windows.rank
        AND placed.step IS NOT DISTINCT FROM windows.step AND placed.name IS NOT DISTINCT FROM windows.name
),
steps_of_runs AS (
    SELECT run, step, name, max(steps) AS steps_of_run, sum(steps) AS steps
    FROM of_ranks
    GROUP BY run, step, name
),
capacities AS (
    SELECT
        typed.run, typed.step, typed.name,
        count(*) AS devices,
        CASE WHEN bool_and(window_ns IS NOT NULL) THEN sum(window_ns) END AS device_ns,
        CASE WHEN bool_and(window_ns IS NOT NULL AND peak_rate(work_dtype, d) IS NOT NULL) THEN
            sum(window_ns * (peak_rate(work_dtype, d) / 1e9))
        END AS capacity,
        bool_and(peak_rate(work_dtype, d) IS NOT NULL) AS has_peak,
        bool_and(coalesce(peak_rate(work_dtype, d), d.bandwidth_bytes_per_s) IS NOT NULL) AS has_model,
        max(peak_dtype(work_dtype, d)) AS dtype
    FROM typed
    JOIN of_ranks
        ON typed.run = of_ranks.run AND typed.step IS NOT DISTINCT FROM of_ranks.step
        AND typed.name IS NOT DISTINCT FROM of_ranks.name
    JOIN used ON of_ranks.run = used.run AND of_ranks.rank = used.rank
    LEFT JOIN devices AS d ON used.run = d.run AND used.rank = d.rank AND used.device = d.device
    GROUP BY typed.run, typed.step, typed.name
),
shares AS (
    SELECT
        typed.*,
        coalesce(capacities.dtype, typed.work_dtype) AS dtype,
        coalesce(capacities.devices, 0) AS devices,
        capacities.device_ns, capacities.capacity, capacities.has_peak, capacities.has_model,
        steps_of_runs.steps,
        known_ns / nullif(kernel_ns, 0) AS known_flops_share,
        coalesce(getvariable('per'), 'run') IN ('run', 'step')
            AND coalesce(getvariable('model_flops_per_step'), 0.0) > 0 AS is_given,
        CASE
            WHEN is_given THEN coalesce(getvariable('model_flops_per_step'), 0.0) * steps_of_runs.steps_of_run
            ELSE flops::DOUBLE
        END AS model_flops
    FROM typed
    LEFT JOIN capacities
        ON typed.run = capacities.run AND typed.step IS NOT DISTINCT FROM capacities.step
        AND typed.name IS NOT DISTINCT FROM capacities.name
    LEFT JOIN steps_of_runs
        ON typed.run = steps_of_runs.run AND typed.step IS NOT DISTINCT FROM steps_of_runs.step
        AND typed.name IS NOT DISTINCT FROM steps_of_runs.name
)
SELECT
    run,
    ranks,
    step,
    name,
    CASE WHEN is_given OR known_flops_share >= 0.8 THEN model_flops / nullif(capacity, 0) END AS mfu,
    CASE WHEN known_flops_share >= 0.8 THEN (flops + coalesce(recomputed_flops, 0)) / nullif(capacity, 0) END AS hfu,
    dtype,
    capacity * 1e9 / nullif(device_ns, 0) AS peak_flop_per_s,
    known_flops_share,
    model_flops,
    recomputed_flops::DOUBLE AS recomputed_flops,
    devices,
    steps::BIGINT AS steps,
    try_cast(device_ns AS BIGINT) AS device_ns,
    nullif(concat_ws(
        ' ',
        CASE
            WHEN devices = 0 THEN 'no_device'
            WHEN work_dtype IS NULL THEN 'no_products'
            WHEN NOT has_model THEN 'unknown_device'
            WHEN NOT has_peak THEN 'no_peak'
        END,
        CASE WHEN devices > 0 AND NOT coalesce(known_flops_share >= 0.8, false) THEN 'unknown_work' END,
        CASE WHEN (devices > 0 AND device_ns IS NULL) OR model_flops IS NULL THEN 'unknown_step' END
    ), '') AS note
FROM shares
WHERE name IS NULL OR kernel_ns IS NOT NULL OR flops > 0
ORDER BY run, first_ns NULLS LAST, step, name
