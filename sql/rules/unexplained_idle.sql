-- unexplained_idle: devices are idle for a tenth of the time, and no other rule says why.
-- One row per (run, rank).
-- It is the rest of the idle time, after what other findings of the rank explain. The limit is a tenth of the time, because so
-- much is worth a question even if the cause is not known. `gain_basis` says which rule comes closest, what it counts, and from
-- what share on it would be a finding. Time is counted as in low_gpu_use, which has the time of ranks that are idle for most of
-- it.
-- suggestion: Look in `gaps` at what the host does in the longest ones, and move it out of the loop or into another thread; if it
-- only launches, give each launch more work.
-- link: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
-- claims: idle
-- closest: blocking_calls, data_loading, device_allocations, eager_decode, host_bound_decode, launch_bound, recompiles,
-- short_kernels, synchronous_data_loader
-- only if: EXISTS (FROM shared_windows WHERE has_device AND steps = 0)
-- OR EXISTS (SELECT run FROM whole_steps(profiler_steps) WHERE step_ns > 0 GROUP BY run, rank
-- HAVING sum(idle_ns) FILTER (idle_ns > 0) >= coalesce(getvariable('unexplained_idle_share'), 0.1) * sum(step_ns)::DOUBLE)
-- needs: events, profiler_steps
-- parameter unexplained_idle_share DOUBLE = 0.1  least share of the time for a finding
SELECT
    * EXCLUDE (window_ns),
    CASE WHEN claimed_ns >= 0.2 * window_ns THEN 'medium' ELSE 'low' END AS severity,
    coalesce(getvariable('unexplained_idle_share'), 0.1) * window_ns AS least_ns
FROM shared_idle
WHERE claimed_ns >= least_ns
