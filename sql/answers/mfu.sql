-- mfu: how much of the devices' peak went into the model (MFU), and with what ran again (HFU).
-- One row per (run, step, name), steps and names in the order of their first work.
-- MFU is the FLOPs of products of matrices, convolutions and attention, over the device time and the dense peak of the data type
-- that has most of them. What ran again in backward counts for HFU alone. Device time is that of steps, from one completion to
-- the next, times the devices of the rank: waiting and communication are in it. Of a run these are the steady steps, or all whole
-- ones if it is not known which are steady; of a run without steps, from the first to the last device work of each rank. Of a
-- phase or an annotation with products it is the time from the first to the last work launched in each occurrence, where
-- occurrences overlap once; of an annotation on its own thread (`annotation_id`), so without what a thread of autograd launches
-- for it, which `annotations` counts. A run without device work has the FLOPs of its ops, and no MFU. Where too few FLOPs are
-- counted (below 0.8 of one of the known shares), or records of kernels are missing, MFU and HFU are NULL. note: no_device,
-- unknown_device, no_products, no_peak (of the type), no_type (of the given FLOPs: name it with dtype), unknown_work (too few are
-- counted), lost_work (calls whose kernels are missing), unknown_step (of no known length, or cut by a filter); some_ranks: only
-- these count, others have no step that does; mixed_types: a tenth or more of the FLOPs is of other types; over_peak: more than
-- possible.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, steady_steps, busy, roofline.
-- needs: events, profiler_steps, devices
-- recorded: slices
-- no rows: no work of known FLOPs is in what was asked for
-- divides by: run
-- main columns: mfu, step, name, hfu, known_flops_share, peak_flop_per_s, dtype, model_flops, known_product_share, note
-- main columns: recomputed_flops
-- parameter per                  VARCHAR(run|step|phase|annotation) = run  what each row is
-- parameter model_flops_per_step DOUBLE = 0.0  by run and step: FLOPs of a step of all ranks, such as 6ND
-- parameter dtype                VARCHAR(fp64|fp32|tf32|fp16|bf16|fp8|fp6|fp4|int8) = ''  not the peak of the type with most
-- run                  VARCHAR             run that the traces belong to, all of its ranks together
-- ranks                BIGINT              ranks with such work
-- step                 BIGINT              profiler step, by step; else NULL
-- name                 VARCHAR             phase or annotation (the launches of its own thread), by these; else NULL
-- mfu                  DOUBLE     0..1     model_flops over device time and peak; NULL for a reason in note
-- hfu                  DOUBLE     0..1     FLOPs, with what ran again, over device time and peak; NULL for a reason in note
-- dtype                VARCHAR             data type whose peak it is; `_tensor`: of matrix units; NULL if no type is known
-- peak_flop_per_s      DOUBLE     FLOP/s   dense peak of a device, the mean over device time; NULL if not known
-- known_flops_share    DOUBLE     0..1     kernel time of known FLOPs, or without products, over that of all but communication
-- known_product_share  DOUBLE     0..1     of kernels that may be products: time of known FLOPs over all; NULL if there are none
-- model_flops          DOUBLE     FLOP     FLOPs of products, without what ran again; as given by model_flops_per_step, if it is
-- recomputed_flops     DOUBLE     FLOP     FLOPs of products that ran again in backward; NULL if no rank tells what ran again
-- devices              BIGINT              devices of these ranks that ran kernels
-- steps                BIGINT              steps of all ranks that count; NULL without, and by phase or annotation
-- device_ns            BIGINT     ns       device time: of each rank, times its devices; NULL if it is not known for one
-- note                 VARCHAR             reasons why a share is NULL or doubtful, separated by spaces; see above
WITH used AS MATERIALIZED (
    SELECT run, rank, device
    FROM events
    WHERE kind = 'kernel'
    GROUP BY run, rank, device
    -- A device with less than a hundredth of the kernel time of its rank takes no part, such as one with a stray fill.
    QUALIFY sum(dur_ns) IS NULL OR sum(dur_ns) * 100 >= sum(sum(dur_ns)) OVER (PARTITION BY run, rank)
),
step_work AS (
    SELECT run, rank, step, min(start_ns) AS start_ns, max(start_ns + dur_ns) AS end_ns
    FROM events
    WHERE is_busy(kind) AND step IS NOT NULL
    GROUP BY run, rank, step
),
numbered_steps AS (
    SELECT
        run, rank, step,
        bool_and(lack IS NULL AND step_ns IS NOT NULL) AS is_known,
        bool_and(is_steady IS DISTINCT FROM false) AS is_steady,
        sum(step_ns) AS step_ns,
        min(device_start_ns) AS start_ns,
        max(device_start_ns + device_window_ns) AS end_ns
    FROM steady_steps(profiler_steps)
    WHERE (run, rank) IN (SELECT (run, rank) FROM used) OR run NOT IN (SELECT run FROM used)
    GROUP BY run, rank, step
),
-- Work of a step may have been filtered out, which its length does not tell.
steps AS MATERIALIZED (
    SELECT
        numbered_steps.run, numbered_steps.rank, numbered_steps.step,
        is_known AND numbered_steps.start_ns IS NOT DISTINCT FROM step_work.start_ns
            AND numbered_steps.end_ns IS NOT DISTINCT FROM step_work.end_ns AS is_whole,
        CASE WHEN is_whole THEN step_ns END AS window_ns,
        is_whole AND is_steady AS is_counted
    FROM numbered_steps
    LEFT JOIN step_work
        ON numbered_steps.run = step_work.run AND numbered_steps.rank = step_work.rank AND numbered_steps.step = step_work.step
),
runs AS (
    SELECT used.run, count(DISTINCT used.rank) AS ranks, count(DISTINCT steps.rank) AS ranks_with_steps
    FROM used
    LEFT JOIN steps ON used.run = steps.run AND used.rank = steps.rank
    GROUP BY used.run
),
work AS MATERIALIZED (
    SELECT
        run, rank, event_id, kind, device, step, inference_phase, phase_id, annotation_id, start_ns, start_ns + dur_ns AS end_ns,
        CASE WHEN kind = 'kernel' AND NOT (is_communication(kernel_category) AND flops IS NULL) THEN dur_ns END AS kernel_ns,
        CASE
            WHEN coalesce(is_product, false) OR (flops IS NULL AND needs_flops(kernel_category)) THEN kernel_ns
        END AS product_ns,
        flops IS NOT NULL OR (bytes IS NOT NULL AND NOT needs_flops(kernel_category)) AS is_known,
        CASE WHEN is_product THEN flops END AS flops,
        CASE WHEN is_product THEN work_dtype END AS work_dtype,
        is_recompute,
        kind <> 'kernel' AND lost_start_ns IS NOT NULL AS is_lost
    FROM events
    WHERE kind = 'kernel' OR lost_start_ns IS NOT NULL
        OR (kind = 'host_op' AND work_id = event_id AND flops > 0 AND run NOT IN (SELECT run FROM used))
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
    SELECT work.* EXCLUDE (step), NULL::BIGINT AS step, NULL::VARCHAR AS name, NULL::BIGINT AS occurrence
    FROM work
    LEFT JOIN steps ON work.run = steps.run AND work.rank = steps.rank AND work.step = steps.step
    WHERE coalesce(getvariable('per'), 'run') = 'run'
        AND (coalesce(is_counted, false) OR work.run NOT IN (SELECT run FROM steps WHERE is_counted))
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
    WHERE kind = 'kernel' AND end_ns IS NOT NULL AND (name IS NOT NULL OR run NOT IN (SELECT run FROM steps))
    GROUP BY run, rank, name, occurrence
),
-- One row per group and rank: the time of each of its devices.
windows AS (
    SELECT run, rank, NULL::BIGINT AS step, NULL::VARCHAR AS name, sum(window_ns) AS window_ns, count(*) AS steps
    FROM steps
    WHERE coalesce(getvariable('per'), 'run') = 'run' AND is_counted
    GROUP BY run, rank
    UNION ALL BY NAME
    SELECT run, rank, step, window_ns, 1 AS steps
    FROM steps
    WHERE coalesce(getvariable('per'), 'run') = 'step' AND step IS NOT NULL
    UNION ALL BY NAME
    SELECT named.run, named.rank, named.name, covered_ns AS window_ns
    FROM covered_time('occurrences')
    JOIN (SELECT DISTINCT run, rank, name, lane FROM occurrences) AS named USING (lane)
    WHERE coalesce(getvariable('per'), 'run') <> 'step'
),
parts AS (
    SELECT windows.run, windows.rank, windows.step, windows.name, used.device, window_ns
    FROM windows
    JOIN used ON windows.run = used.run AND windows.rank = used.rank
    WHERE windows.name IS NULL OR EXISTS (
        FROM placed
        WHERE placed.run = used.run AND placed.rank = used.rank AND placed.device IS NOT DISTINCT FROM used.device
            AND placed.kind = 'kernel' AND placed.name = windows.name
    )
),
ranks_of AS (
    SELECT run, step, name, count(*) AS ranks, sum(steps) AS steps
    FROM windows
    GROUP BY run, step, name
),
sums AS (
    SELECT
        run, step, name,
        count(DISTINCT rank) AS ranks,
        coalesce(sum(flops) FILTER (is_recompute IS DISTINCT FROM true), 0) AS flops,
        CASE WHEN count(is_recompute) > 0 THEN coalesce(sum(flops) FILTER (is_recompute), 0) END AS recomputed_flops,
        sum(kernel_ns) FILTER (is_known) AS known_ns,
        sum(kernel_ns) AS kernel_ns,
        sum(product_ns) FILTER (is_known) AS known_product_ns,
        sum(product_ns) AS product_ns,
        min(start_ns) AS first_ns,
        bool_or(is_lost) AS is_lossy,
        bool_or(kind = 'kernel') AS has_kernels
    FROM placed
    GROUP BY run, step, name
),
type_sums AS (
    SELECT run, step, name, work_dtype, sum(flops) AS flops
    FROM placed
    WHERE work_dtype IS NOT NULL AND flops > 0
    GROUP BY run, step, name, work_dtype
),
types AS (
    SELECT
        run, step, name, arg_max(work_dtype, (flops, work_dtype)) AS work_dtype, max(flops) * 10 < sum(flops) * 9 AS is_mixed
    FROM type_sums
    GROUP BY run, step, name
),
typed AS (
    SELECT
        sums.*,
        runs.ranks AS ranks_of_run,
        ranks_of.steps, coalesce(ranks_of.ranks, sums.ranks) AS counted_ranks,
        coalesce(known_ns, 0) / nullif(kernel_ns, 0) AS known_flops_share,
        coalesce(known_product_ns, 0) / nullif(product_ns, 0) AS known_product_share,
        coalesce(nullif(coalesce(getvariable('dtype'), ''), ''), types.work_dtype) AS work_dtype,
        coalesce(getvariable('dtype'), '') <> '' AS is_type_given,
        coalesce(types.is_mixed, false) AS is_mixed,
        coalesce(getvariable('per'), 'run') IN ('run', 'step')
            AND coalesce(getvariable('model_flops_per_step'), 0.0) > 0 AS is_given,
        CASE
            WHEN NOT is_given THEN sums.flops::DOUBLE
            WHEN coalesce(getvariable('per'), 'run') = 'run' OR coalesce(ranks_of.ranks = runs.ranks_with_steps, false) THEN
                coalesce(getvariable('model_flops_per_step'), 0.0) * ranks_of.steps / ranks_of.ranks
        END AS model_flops
    FROM sums
    LEFT JOIN types
        ON sums.run = types.run AND sums.step IS NOT DISTINCT FROM types.step AND sums.name IS NOT DISTINCT FROM types.name
    LEFT JOIN ranks_of
        ON sums.run = ranks_of.run AND sums.step IS NOT DISTINCT FROM ranks_of.step
        AND sums.name IS NOT DISTINCT FROM ranks_of.name
    LEFT JOIN runs ON sums.run = runs.run
),
rated AS (
    SELECT
        typed.run, typed.step, typed.name, parts.window_ns, devices.bandwidth_bytes_per_s,
        peak_rate(work_dtype, devices) AS rate,
        peak_dtype(work_dtype, devices) AS dtype
    FROM typed
    JOIN parts
        ON typed.run = parts.run AND typed.step IS NOT DISTINCT FROM parts.step AND typed.name IS NOT DISTINCT FROM parts.name
    LEFT JOIN devices ON parts.run = devices.run AND parts.rank = devices.rank AND parts.device = devices.device
),
capacities AS (
    SELECT
        run, step, name,
        count(*) AS devices,
        CASE WHEN bool_and(window_ns IS NOT NULL) THEN sum(window_ns) END AS device_ns,
        CASE WHEN bool_and(window_ns IS NOT NULL AND rate IS NOT NULL) THEN sum(window_ns * (rate / 1e9)) END AS capacity,
        bool_and(rate IS NOT NULL) AS has_peak,
        bool_and(coalesce(rate, bandwidth_bytes_per_s) IS NOT NULL) AS has_model,
        max(dtype) AS dtype
    FROM rated
    GROUP BY run, step, name
),
shares AS (
    SELECT
        typed.*,
        coalesce(capacities.dtype, typed.work_dtype) AS dtype,
        coalesce(capacities.devices, 0) AS devices,
        capacities.device_ns, capacities.capacity, capacities.has_peak, capacities.has_model,
        coalesce(least(known_flops_share, known_product_share) >= 0.8, false) AS is_known,
        is_given AND (is_known OR is_type_given) AS has_type,
        is_known AND NOT is_lossy AS is_counted
    FROM typed
    LEFT JOIN capacities
        ON typed.run = capacities.run AND typed.step IS NOT DISTINCT FROM capacities.step
        AND typed.name IS NOT DISTINCT FROM capacities.name
)
SELECT
    run,
    counted_ranks AS ranks,
    step,
    name,
    CASE WHEN is_counted OR has_type THEN model_flops / nullif(capacity, 0) END AS mfu,
    CASE WHEN is_counted THEN (flops + coalesce(recomputed_flops, 0)) / nullif(capacity, 0) END AS hfu,
    dtype,
    capacity * 1e9 / nullif(device_ns, 0) AS peak_flop_per_s,
    known_flops_share,
    known_product_share,
    model_flops,
    recomputed_flops::DOUBLE AS recomputed_flops,
    devices,
    steps::BIGINT AS steps,
    try_cast(device_ns AS BIGINT) AS device_ns,
    nullif(concat_ws(
        ' ',
        CASE
            WHEN NOT has_kernels THEN 'no_device'
            WHEN is_given AND NOT has_type THEN 'no_type'
            WHEN work_dtype IS NULL THEN 'no_products'
            WHEN NOT has_model THEN 'unknown_device'
            WHEN NOT has_peak THEN 'no_peak'
        END,
        CASE WHEN has_kernels AND NOT is_known AND (work_dtype IS NOT NULL OR product_ns > 0) THEN 'unknown_work' END,
        CASE WHEN is_lossy THEN 'lost_work' END,
        CASE WHEN has_kernels AND (device_ns IS NULL OR model_flops IS NULL) THEN 'unknown_step' END,
        CASE WHEN step IS NULL AND name IS NULL AND counted_ranks < ranks_of_run THEN 'some_ranks' END,
        CASE WHEN is_mixed THEN 'mixed_types' END,
        CASE WHEN coalesce(mfu, hfu) > 1 THEN 'over_peak' END
    ), '') AS note
FROM shares
WHERE name IS NULL OR product_ns IS NOT NULL OR flops > 0
ORDER BY run, first_ns NULLS LAST, step, name
