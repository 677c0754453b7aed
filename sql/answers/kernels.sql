-- kernels: device time by kernel name, and the op that launched most of it.
-- One row per (run, rank, name, class), the largest total_ns first, then by run, rank, name, class; `others` last.
-- Only kernels count, unless `copies` adds copies and fills, also to the shares. All names have a row. Fills count as
-- computation. Communication is what events.kernel_category says. Kernels without an op, such as most of a graph, have a launch
-- site: the innermost annotation or frame of the user's own code around the launch; a marker of an inference phase is shown as
-- its phase, such as `decode phase`. The precision of matrix products is what the names of their kernels tell.
-- In a bare shell read from `sql/lib` first: devices, kernel_names, frames, phase_names, launch_sites.
-- needs: events
-- recorded: kernels
-- divides by: rank
-- over ranks: name, class
-- main columns: name, total_ns, calls, share, top_op, top_op_share, p50_ns, precision, mean_ns, max_ns, launch_site
-- main columns: launch_site_share, category, tiny_calls, tiny_total_ns, min_ns, std_ns, tiny_share
-- parameter per     VARCHAR(name|short_name|category|class|launch) = name  what each row is; launch: grid, block, registers
-- parameter top     BIGINT = 0                                    N: the N largest per rank, and one row `others`; 0: all
-- parameter copies  BOOLEAN = false                               include memory copies and fills
-- parameter tiny_ns BIGINT = 5000                                 executions that are shorter, in ns, are tiny
-- run               VARCHAR        run that the trace belongs to
-- rank              INTEGER        rank within the run
-- name              VARCHAR        name, short name, category or class of the kernels; NULL if the source has none
-- calls             BIGINT         number of executions
-- total_ns          BIGINT   ns    sum of durations, overlaps counted twice; NULL if none is known, or beyond BIGINT
-- mean_ns           BIGINT   ns    mean duration, rounded half up
-- p50_ns            BIGINT   ns    median duration, one of the values
-- std_ns            BIGINT   ns    sample standard deviation of the durations, rounded half up; NULL for one execution
-- min_ns            BIGINT   ns    shortest duration
-- max_ns            BIGINT   ns    longest duration
-- share             DOUBLE   0..1  total_ns over the time of all kernels of the run and rank; NULL if that is 0
-- top_op            VARCHAR        op that launched most of total_ns, the first by name on a tie; NULL if no op is known
-- top_op_share      DOUBLE   0..1  part of total_ns that top_op launched; NULL if total_ns is 0 or no op is known
-- launch_site       VARCHAR        annotation or Python frame that launched most of the total_ns without an op; NULL if none
-- launch_site_share DOUBLE   0..1  part of total_ns that launch_site launched; NULL if total_ns is 0, or no site is known
-- class             VARCHAR        compute, communication or copy; NULL in `others`
-- class_share       DOUBLE   0..1  total_ns over all rows of the run, rank and class; NULL if that is 0, and in `others`
-- short_name        VARCHAR        name without return type, template arguments, parameters; NULL in `others` and for groups
-- category          VARCHAR        kernel_category of most of total_ns, the first by name on a tie; NULL in `others`
-- fused_ops         VARCHAR        what an Inductor kernel fuses, from its name or that of top_op; NULL for other kernels
-- precision         VARCHAR        of most time in gemm and convolution: fp32, bf16 tensor, ...; tensor: on tensor cores
-- tiny_calls        BIGINT         number of executions shorter than the parameter tiny_ns
-- tiny_share        DOUBLE   0..1  part of the executions with a duration that are tiny; NULL if there are none
-- tiny_total_ns     BIGINT   ns    sum of the durations of the tiny ones; NULL if no execution has a duration
-- is_mixed          BOOLEAN        whether some of the kernels compute and communicate at once; class says what they count as
WITH kernels AS MATERIALIZED (
    FROM work_by_name(events)
    WHERE kind = 'kernel' OR coalesce(getvariable('copies'), false)
),
names AS MATERIALIZED (
    SELECT *, dense_rank() OVER (ORDER BY label, class) AS label_id
    FROM (
        SELECT
            *,
            CASE coalesce(getvariable('per'), 'name')
                WHEN 'name' THEN name
                WHEN 'short_name' THEN short_label
                WHEN 'category' THEN kernel_category
                ELSE class
            END AS label
        FROM (
            SELECT
                kind,
                name,
                kernel_category,
                device_class(kind, kernel_category) AS class,
                CASE WHEN kind = 'kernel' AND kernel_category IN ('gemm', 'convolution') THEN product_precision(name) END
                    AS precision,
                CASE WHEN coalesce(getvariable('per'), 'name') IN ('name', 'short_name') THEN short_name(kind, name) END
                    AS short_label
            FROM (SELECT DISTINCT kind, name, kernel_category FROM kernels)
        )
    )
),
labelled AS MATERIALIZED (
    SELECT kernels.*, names.label_id, names.precision
    FROM kernels
    JOIN names
        ON kernels.kind = names.kind
        AND kernels.name IS NOT DISTINCT FROM names.name
        AND kernels.kernel_category IS NOT DISTINCT FROM names.kernel_category
),
labels AS (
    SELECT sums.*, names.label, names.class, names.short_label
    FROM (SELECT run, rank, label_id, sum(total_ns) AS total_ns FROM labelled GROUP BY run, rank, label_id) AS sums
    JOIN (
        SELECT label_id, any_value(label) AS label, any_value(class) AS class, any_value(short_label) AS short_label
        FROM names
        GROUP BY label_id
    ) AS names
        ON sums.label_id = names.label_id
),
ranked AS (
    SELECT
        *,
        sum(total_ns) OVER (PARTITION BY run, rank) AS all_ns,
        sum(total_ns) OVER (PARTITION BY run, rank, class) AS class_ns,
        row_number() OVER (PARTITION BY run, rank ORDER BY total_ns DESC NULLS LAST, label NULLS LAST, class) AS place
    FROM labels
),
placed AS MATERIALIZED (
    SELECT
        * REPLACE (
            CASE WHEN place > coalesce(getvariable('top'), 0) AND coalesce(getvariable('top'), 0) > 0 THEN 0 ELSE place END
                AS place
        )
    FROM ranked
),
members AS MATERIALIZED (
    SELECT
        labelled.*, placed.place,
        sum(labelled.total_ns) OVER of_row / nullif(sum(labelled.timed) OVER of_row, 0) AS row_mean_ns
    FROM labelled
    JOIN placed ON labelled.run = placed.run AND labelled.rank = placed.rank AND labelled.label_id = placed.label_id
    WINDOW of_row AS (PARTITION BY labelled.run, labelled.rank, placed.place)
),
tops AS (
    SELECT run, rank, place, min({less_ns: -op_ns, op: op}) FILTER (op IS NOT NULL) AS top
    FROM (
        SELECT members.run, members.rank, members.place, ops.op, coalesce(sum(ops.op_ns), 0) AS op_ns
        FROM work_by_op(events) AS ops
        JOIN members
            ON ops.run = members.run
            AND ops.rank = members.rank
            AND ops.kind = members.kind
            AND ops.name IS NOT DISTINCT FROM members.name
            AND ops.kernel_category IS NOT DISTINCT FROM members.kernel_category
        GROUP BY ALL
    )
    GROUP BY ALL
),
categories AS (
    SELECT run, rank, place, arg_min(kernel_category, {less_ns: -coalesce(total_ns, 0), category: kernel_category}) AS category
    FROM (
        SELECT run, rank, place, kernel_category, sum(total_ns) AS total_ns
        FROM members
        WHERE place > 0 AND kernel_category IS NOT NULL
        GROUP BY ALL
    )
    GROUP BY ALL
),
precisions AS (
    SELECT run, rank, place, arg_min(precision, {less_ns: -coalesce(total_ns, 0), precision: precision}) AS precision
    FROM (
        SELECT run, rank, place, precision, sum(total_ns) AS total_ns
        FROM members
        WHERE place > 0 AND precision IS NOT NULL
        GROUP BY ALL
    )
    GROUP BY ALL
),
sites AS (
    SELECT run, rank, place, min({less_ns: -site_ns, launch_site: launch_site}) AS top
    FROM (
        SELECT members.run, members.rank, members.place, sites.launch_site, sum(sites.site_ns) AS site_ns
        FROM work_by_launch_site(events) AS sites
        JOIN members
            ON sites.run = members.run
            AND sites.rank = members.rank
            AND sites.kind = members.kind
            AND sites.name IS NOT DISTINCT FROM members.name
            AND sites.kernel_category IS NOT DISTINCT FROM members.kernel_category
        GROUP BY ALL
    )
    GROUP BY ALL
),
-- The spread of a row is that within its names and that between them.
times AS (
    SELECT
        run,
        rank,
        place,
        sum(calls)::BIGINT AS calls,
        sum(total_ns) AS total_ns,
        ((2 * sum(total_ns) + sum(timed)) // nullif(2 * sum(timed), 0))::BIGINT AS mean_ns,
        round(sqrt(sum(spread + timed * (mean_ns - row_mean_ns) ** 2) / nullif(sum(timed) - 1, 0)))::BIGINT AS std_ns,
        min(min_ns) AS min_ns,
        max(max_ns) AS max_ns,
        bool_or(is_mixed) AS is_mixed
    FROM members
    GROUP BY run, rank, place
),
medians AS (
    SELECT
        run, rank, place, quantile_disc(dur_ns, 0.5) AS p50_ns, count(*) AS timed,
        count(*) FILTER (dur_ns < coalesce(getvariable('tiny_ns'), 5000)) AS tiny_calls,
        coalesce(sum(dur_ns) FILTER (dur_ns < coalesce(getvariable('tiny_ns'), 5000)), 0)::BIGINT AS tiny_total_ns
    FROM (SELECT run, rank, place, unnest(durations) AS dur_ns FROM members)
    GROUP BY run, rank, place
),
rows AS (
    SELECT
        run,
        rank,
        place,
        CASE WHEN place = 0 THEN 'others' ELSE any_value(label) END AS name,
        CASE
            WHEN place > 0 AND coalesce(getvariable('per'), 'name') = 'name' THEN any_value(short_label)
            WHEN place > 0 AND coalesce(getvariable('per'), 'name') = 'short_name' THEN any_value(label)
        END AS short_name,
        CASE WHEN place > 0 THEN any_value(class) END AS class,
        CASE WHEN place > 0 THEN any_value(class_ns) END AS class_ns,
        any_value(all_ns) AS all_ns
    FROM placed
    GROUP BY run, rank, place
)
SELECT
    rows.run,
    rows.rank,
    rows.name,
    times.calls,
    try_cast(times.total_ns AS BIGINT) AS total_ns,
    times.mean_ns,
    medians.p50_ns,
    times.std_ns,
    times.min_ns,
    times.max_ns,
    times.total_ns / nullif(rows.all_ns, 0) AS share,
    tops.top.op AS top_op,
    -tops.top.less_ns / nullif(times.total_ns, 0) AS top_op_share,
    sites.top.launch_site AS launch_site,
    -sites.top.less_ns / nullif(times.total_ns, 0) AS launch_site_share,
    rows.class,
    times.total_ns / nullif(rows.class_ns, 0) AS class_share,
    rows.short_name,
    categories.category,
    CASE
        WHEN categories.category = 'triton_fused' THEN coalesce(fused_ops(rows.name), fused_ops(tops.top.op))
    END AS fused_ops,
    precisions.precision,
    coalesce(medians.tiny_calls, 0) AS tiny_calls,
    medians.tiny_calls / medians.timed AS tiny_share,
    medians.tiny_total_ns,
    times.is_mixed
FROM rows
JOIN times ON rows.run = times.run AND rows.rank = times.rank AND rows.place = times.place
LEFT JOIN medians ON rows.run = medians.run AND rows.rank = medians.rank AND rows.place = medians.place
LEFT JOIN tops ON rows.run = tops.run AND rows.rank = tops.rank AND rows.place = tops.place
LEFT JOIN categories ON rows.run = categories.run AND rows.rank = categories.rank AND rows.place = categories.place
LEFT JOIN precisions
    ON rows.run = precisions.run AND rows.rank = precisions.rank AND rows.place = precisions.place
LEFT JOIN sites ON rows.run = sites.run AND rows.rank = sites.rank AND rows.place = sites.place
ORDER BY rows.place = 0, times.total_ns DESC NULLS LAST, rows.run, rows.rank, rows.name NULLS LAST, rows.class
