-- Profiler steps. How long one took is in the table `profiler_steps`: `step_ns` is the time from the completion before it, or
-- from its own start where that is later, to its own completion.

-- whole_steps: steps that count in means, limits and trends: those that lack nothing.
-- parameter steps TABLE  `profiler_steps`, or a part of it
-- column *  as in profiler_steps
-- example: FROM whole_steps(profiler_steps)
CREATE OR REPLACE TEMP MACRO whole_steps(steps) AS TABLE
FROM query_table(steps)
WHERE lack IS NULL AND step_ns IS NOT NULL;

-- host_windows: when each step ran on the host, for those that ended.
-- parameter steps TABLE  `profiler_steps`, or a part of it
-- column run, rank, event_id, step, start_ns  as in profiler_steps
-- column end_ns BIGINT  end on the host
-- example: FROM host_windows(profiler_steps)
CREATE OR REPLACE TEMP MACRO host_windows(steps) AS TABLE
SELECT run, rank, event_id, step, start_ns, start_ns + host_ns AS end_ns
FROM query_table(steps)
WHERE start_ns IS NOT NULL AND host_ns IS NOT NULL;

-- job_steps: the steps of each run. Of several ranks, a step is completed with its last rank. It took the time since the step
-- before it was completed, or since that rank began it where that is later; so constant offsets between clocks of ranks matter
-- little. A step counts if it is whole on all ranks that have it.
-- parameter steps TABLE  `profiler_steps`, or a part of it
-- column run, step  as in profiler_steps
-- column ranks BIGINT  number of ranks that have it
-- column completed_ns BIGINT  when its last rank had completed it
-- column step_ns BIGINT  how long it took
-- example: FROM job_steps(profiler_steps)
CREATE OR REPLACE TEMP MACRO job_steps(steps) AS TABLE
WITH of_ranks AS (
    -- A number that a process repeats is another step.
    SELECT *, row_number() OVER (PARTITION BY run, rank, pid, step ORDER BY start_ns, event_id) AS occurrence
    FROM query_table(steps)
),
together AS (
    SELECT
        run, step, occurrence, count(DISTINCT rank) AS ranks, bool_and(lack IS NULL AND step_ns IS NOT NULL) AS is_whole,
        arg_max(began_ns, {'ns': completed_ns, 'since': began_ns}) FILTER (completed_ns IS NOT NULL) AS began_ns,
        max(completed_ns) AS completed_ns
    FROM of_ranks
    GROUP BY run, step, occurrence
),
following AS (
    SELECT
        *,
        greatest(
            began_ns,
            max(completed_ns) OVER (
                PARTITION BY run ORDER BY completed_ns, step, occurrence ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
        ) AS since_ns
    FROM together
)
SELECT run, step, ranks, completed_ns, completed_ns - since_ns AS step_ns
FROM following
WHERE is_whole;

-- merged_step_name: one name for all of them.
-- parameter name VARCHAR  name of a slice
-- returns VARCHAR  the name
-- example: SELECT merged_step_name('ProfilerStep#3')
CREATE OR REPLACE TEMP MACRO merged_step_name(name) AS
CASE WHEN starts_with(name, 'ProfilerStep#') AND regexp_full_match(name, 'ProfilerStep#[0-9]+') THEN 'ProfilerStep*' ELSE name END;
