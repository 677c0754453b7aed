-- recorded: what the traces have anything of, and so what questions they can answer.
-- One row per page: all runs and ranks together.
-- needs: events, memory, counters, traces
-- device_work   BOOLEAN  kernels, copies or fills of devices
-- host_ops      BOOLEAN  operators of the host
-- steps         BOOLEAN  profiler steps
-- memory        BOOLEAN  records of allocations by the profiler
-- input_shapes  BOOLEAN  shapes of operators' inputs
-- stacks        BOOLEAN  source lines or Python frames
-- modules       BOOLEAN  calls of nn.Module
-- launches      BOOLEAN  work of devices whose launch is known
-- collectives   BOOLEAN  collectives by name
-- phases        BOOLEAN  phases of inference
-- counters      BOOLEAN  values of counters
-- several_ranks BOOLEAN  a run of several ranks
WITH slices AS (
    SELECT
        count(*) FILTER (WHERE kind IN ('kernel', 'memcpy', 'memset')) > 0 AS device_work,
        count(*) FILTER (WHERE kind = 'host_op') > 0 AS host_ops,
        count(step) > 0 AS steps,
        count(input_dims) > 0 AS input_shapes,
        count(stack) > 0 OR count(python_stack) > 0 AS stacks,
        count(python_module_id) > 0 OR count(module_hierarchy) > 0 AS modules,
        count(launch_id) > 0 AS launches,
        count(collective) > 0 AS collectives,
        count(phase_id) > 0 AS phases
    FROM events
)
SELECT
    slices.device_work,
    slices.host_ops,
    slices.steps,
    (SELECT count(*) FROM memory) > 0 AS memory,
    slices.input_shapes,
    slices.stacks,
    slices.modules,
    slices.launches,
    slices.collectives,
    slices.phases,
    (SELECT count(*) FROM counters) > 0 AS counters,
    (SELECT count(*) FROM (SELECT run FROM traces GROUP BY run HAVING count(*) > 1)) > 0 AS several_ranks
FROM slices
