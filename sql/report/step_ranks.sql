-- step_ranks: how long each step took on each rank, and how long the rank computed and waited for other ranks.
-- One row per run, rank and range of consecutive steps, by run, rank and first step: one step each, or as many as needed so that no
-- rank has more than `most` ranges; times are then those of the longest step.
-- Time is step_ns of step_times and computation that of time_breakdown; waits are those of collectives, which were launched in the
-- step, on one clock if that is known. If a step occurs several times on a rank, its times are added up.
-- needs: events, profiler_steps, traces
-- parameter most BIGINT = 200  maximum ranges per rank
-- run        VARCHAR      run that the trace belongs to
-- rank       INTEGER      rank within the run
-- first_step BIGINT       N of the first step
-- last_step  BIGINT       N of the last step
-- step_ns    BIGINT   ns  how long it took; NULL if that is known of none of these steps
-- wait_ns    BIGINT   ns  waits for the last rank of collectives; NULL if they are not known
-- compute_ns BIGINT   ns  time in which computation (or a fill) was running; NULL if the rank used no device
WITH matches AS MATERIALIZED (
    FROM collective_matches(events, traces)
),
waits AS (
    SELECT run, rank, step, sum(wait_ns) AS wait_ns
    FROM collective_waits(matches, traces, true)
    WHERE step IS NOT NULL
    GROUP BY ALL
),
marks AS (
    SELECT run, rank, step, sum(step_ns) AS step_ns, sum(compute_ns) AS compute_ns
    FROM profiler_steps
    GROUP BY ALL
),
spans AS (
    SELECT
        run, step,
        (row_number() OVER (PARTITION BY run ORDER BY step) - 1)
        // ceil(count(*) OVER (PARTITION BY run) / coalesce(getvariable('most'), 200))::BIGINT AS number
    FROM marks
    GROUP BY run, step
),
bounds AS (
    SELECT run, number, min(step) AS first_step, max(step) AS last_step
    FROM spans
    GROUP BY run, number
)
SELECT
    marks.run,
    marks.rank,
    bounds.first_step,
    bounds.last_step,
    max(step_ns)::BIGINT AS step_ns,
    max(wait_ns)::BIGINT AS wait_ns,
    max(compute_ns)::BIGINT AS compute_ns
FROM marks
JOIN spans ON marks.run = spans.run AND marks.step = spans.step
JOIN bounds ON spans.run = bounds.run AND spans.number = bounds.number
LEFT JOIN waits ON marks.run = waits.run AND marks.rank = waits.rank AND marks.step = waits.step
GROUP BY marks.run, marks.rank, bounds.first_step, bounds.last_step
ORDER BY marks.run, marks.rank, bounds.first_step
