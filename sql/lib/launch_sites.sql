-- Where work without a known op was launched: annotations and Python frames around its launch.
-- In a bare shell read `devices.sql`, `frames.sql` and `phase_names.sql` of `sql/lib` first.

-- launch_site_name: the name for a launch site: the innermost of the user's own frames and the annotations around it; without
-- any, the innermost frame. A profiler step does not count as an annotation, and a marker with numbers of requests becomes its
-- phase, so that equal work in different steps is added up.
-- parameter stack VARCHAR  `python_stack` of the launch
-- parameter annotation STRUCT  `name`, `python_stack` and `inference_phase` of the innermost annotation around it, or NULL
-- returns VARCHAR  the name; NULL if there is none
-- example: SELECT launch_site_name('a.py(3): f;b.py(1): main',
-- {'name': 'x', 'python_stack': 'b.py(1): main', 'inference_phase': NULL})
CREATE OR REPLACE TEMP MACRO launch_site_name(stack, annotation) AS coalesce(
    frame_of(
        CASE
            WHEN annotation.name IS NULL OR annotation.python_stack IS NULL THEN stack
            WHEN suffix(stack, annotation.python_stack)
                THEN left(stack, (length(stack) - length(annotation.python_stack))::BIGINT)
        END
    ),
    CASE
        WHEN regexp_full_match(annotation.name, 'ProfilerStep#\d+') THEN NULL
        WHEN
            annotation.inference_phase IS NOT NULL
            AND phase_counts(annotation.name, annotation.inference_phase).batch IS NOT NULL
            THEN annotation.inference_phase || ' phase'
        ELSE annotation.name
    END,
    frame_of(stack),
    nullif(string_split(stack, ';')[1], '')
);

-- annotation_around: the annotation around a launch, as launch_site_name takes it.
-- parameter event_id BIGINT  its event_id; NULL if there is none
-- parameter name VARCHAR  its name
-- parameter python_stack VARCHAR  frames around it
-- parameter inference_phase VARCHAR  phase that it is of
-- returns STRUCT  the last three, or NULL without an annotation
-- example: SELECT annotation_around(1, 'x', 'b.py(1): main', NULL)
CREATE OR REPLACE TEMP MACRO annotation_around(event_id, name, python_stack, inference_phase) AS
    CASE
        WHEN event_id IS NOT NULL
            THEN {'name': name, 'python_stack': python_stack, 'inference_phase': inference_phase}
    END;

-- launch_sites: one row per launch of work without a known op, with its site.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, launch_id  as in events
-- column launch_site VARCHAR  result of launch_site_name
-- example: FROM launch_sites(events)
CREATE OR REPLACE TEMP MACRO launch_sites(events) AS TABLE
WITH launches AS MATERIALIZED (
    SELECT run, rank, launch_id, any_value(annotation_id) AS annotation_id
    FROM query_table(events)
    WHERE op_id IS NULL AND launch_id IS NOT NULL AND is_busy(kind)
    GROUP BY run, rank, launch_id
),
around AS MATERIALIZED (
    SELECT
        launches.run, launches.rank, launches.launch_id, call.python_stack AS stack,
        annotation_around(
            annotation.event_id, annotation.name, annotation.python_stack, annotation.inference_phase
        ) AS annotation
    FROM launches
    LEFT JOIN query_table(events) AS call
        ON launches.run = call.run AND launches.rank = call.rank AND launches.launch_id = call.event_id
    LEFT JOIN query_table(events) AS annotation
        ON launches.run = annotation.run AND launches.rank = annotation.rank AND launches.annotation_id = annotation.event_id
),
named AS (
    SELECT stack, annotation, launch_site_name(stack, annotation) AS launch_site
    FROM (SELECT DISTINCT stack, annotation FROM around)
)
SELECT around.run, around.rank, around.launch_id, named.launch_site
FROM around
JOIN named ON around.stack IS NOT DISTINCT FROM named.stack AND around.annotation IS NOT DISTINCT FROM named.annotation;

-- captured_sites: the launch site of captured Python frames that stand for a call, as no op or annotation is known.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, event_id  as in events
-- column launch_site VARCHAR  result of launch_site_name
-- example: FROM captured_sites(events)
CREATE OR REPLACE TEMP MACRO captured_sites(events) AS TABLE
SELECT run, rank, event_id, launch_site_name(stack, NULL) AS launch_site
FROM captured_calls(events)
WHERE kind = 'python' AND stack IS NOT NULL;

-- work_by_launch_site: time of work without a known op, by name, category and launch site; for work in a graph of which only the
-- Python stack of the captured call is known, that is the line of the call.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, kind, name, kernel_category  as in events
-- column launch_site VARCHAR  as in launch_sites
-- column site_ns HUGEINT  sum of the durations
-- example: FROM work_by_launch_site(events)
CREATE OR REPLACE TEMP MACRO work_by_launch_site(events) AS TABLE
SELECT
    work.run, work.rank, work.kind, work.name, work.kernel_category, sites.launch_site, coalesce(sum(work.dur_ns), 0) AS site_ns
FROM query_table(events) AS work
JOIN launch_sites(events) AS sites
    ON work.run = sites.run AND work.rank = sites.rank AND work.launch_id = sites.launch_id
WHERE work.op_id IS NULL AND is_busy(work.kind) AND sites.launch_site IS NOT NULL
GROUP BY ALL
UNION ALL
SELECT
    work.run, work.rank, work.kind, work.name, work.kernel_category, sites.launch_site, coalesce(sum(work.dur_ns), 0) AS site_ns
FROM query_table(events) AS work
JOIN captured_sites(events) AS sites
    ON work.run = sites.run AND work.rank = sites.rank AND work.op_id = sites.event_id
WHERE is_busy(work.kind)
GROUP BY ALL;
