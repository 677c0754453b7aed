-- low_gpu_use: devices are idle for most of the time.
-- One row per (run, rank).
-- The limit, busy for less than half of the time, is that of the TensorBoard plugin. With steps, the time is that of the whole
-- steps, and a rank is busy while any of its devices is, as in `step_times`. Without steps, it is from the first work of the rank
-- to its last, and the mean of its devices counts.
-- Idle time that other findings of the rank explain is subtracted; the rest is a finding if it is a fifth of the time or more.
-- suggestion: Look in `gaps` at what the host does in the longest ones; if it only launches, give the devices more work per step,
-- with a larger batch.
-- link: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
-- claims: idle
-- only if: EXISTS (FROM shared_windows WHERE has_device AND steps = 0)
-- OR EXISTS (SELECT run FROM whole_steps(profiler_steps) WHERE step_ns > 0 GROUP BY run, rank
-- HAVING sum(idle_ns) FILTER (idle_ns > 0) > (1 - coalesce(getvariable('low_gpu_use_share'), 0.5)) * sum(step_ns)::DOUBLE)
-- needs: events, profiler_steps
-- parameter low_gpu_use_share DOUBLE = 0.5  busy for less than this share of the time is a finding
-- parameter low_gpu_use_rest  DOUBLE = 0.2  least share of the time that no other finding explains
SELECT
    * EXCLUDE (window_ns),
    CASE WHEN claimed_ns >= 0.8 * window_ns THEN 'high' ELSE 'medium' END AS severity,
    coalesce(getvariable('low_gpu_use_rest'), 0.2) * window_ns AS least_ns
FROM shared_idle
WHERE claimed_ns > (1 - coalesce(getvariable('low_gpu_use_share'), 0.5)) * window_ns
