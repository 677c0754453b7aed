-- job_steps: how long each whole step of a run took, until its last rank had completed it.
-- One row per run and step, by run and completion.
-- In a bare shell read from `sql/lib` first: steps.
-- needs: profiler_steps
-- run          VARCHAR      run that the step belongs to
-- step         BIGINT       N of the step
-- ranks        BIGINT       number of ranks that have it
-- completed_ns BIGINT   ns  when its last rank had completed it
-- step_ns      BIGINT   ns  how long it took
SELECT run, step, ranks, completed_ns, step_ns
FROM job_steps(profiler_steps)
ORDER BY run, completed_ns, step
