-- low_gpu_use: devices are idle for most of the time.
-- One row per (run, rank).
-- The limit, busy for less than half of the time, is that of the TensorBoard plugin. With steps, the time is that of the whole
-- steps, and a rank is busy while any of its devices is, as in `step_times`. Without steps, each device counts from its first
-- work to its last.
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
WITH idle AS (
    SELECT run, rank, event_id, idle_ns, span(began_ns, completed_ns) AS time
    FROM whole_steps(profiler_steps)
    WHERE step_ns > 0
    UNION ALL
    SELECT run, rank, after_id AS event_id, gap_ns / devices AS idle_ns, span(start_ns, start_ns + gap_ns) AS time
    FROM shared_gaps
    WHERE steps = 0
),
-- The line that covers most of the gaps, without one the annotation; less than a fifth is none.
owners AS (
    SELECT
        sums.run, sums.rank,
        arg_max(label, {'is_line': sort = 'line', 'ns': part_ns, 'label': label}) AS label,
        max({'is_line': sort = 'line', 'ns': part_ns}).ns / any_value(gaps.gap_ns) AS share
    FROM (
        SELECT run, rank, sort, label, sum(part_ns) AS part_ns
        FROM shared_owners
        GROUP BY run, rank, sort, label
    ) AS sums
    JOIN (SELECT run, rank, sum(gap_ns) AS gap_ns FROM shared_gaps GROUP BY run, rank) AS gaps
        ON sums.run = gaps.run AND sums.rank = gaps.rank
    WHERE part_ns >= 0.2 * gaps.gap_ns
    GROUP BY sums.run, sums.rank
)
SELECT
    idle.run,
    idle.rank,
    'idle' AS cause,
    CASE WHEN sum(idle.idle_ns) >= 0.8 * window_ns THEN 'high' ELSE 'medium' END AS severity,
    'Devices have nothing to do for ' || claimed_part()
    || coalesce(
        ', ' || percent_text(any_value(owners.share)) || ' of the gaps while the host is in '
        || shown(any_value(owners.label)),
        ''
    ) AS finding,
    strongest(event_id, idle.idle_ns) AS evidence_events,
    count(*) AS events,
    list(idle.time) AS claimed,
    sum(idle.idle_ns) AS claimed_ns,
    coalesce(getvariable('low_gpu_use_rest'), 0.2) * window_ns AS least_ns,
    NULL AS estimated_gain_ns,
    'not known: no rule knows the cause' AS gain_basis,
    shown(any_value(owners.label)) AS "where"
FROM idle
LEFT JOIN owners ON idle.run = owners.run AND idle.rank = owners.rank
JOIN shared_windows AS windows ON idle.run = windows.run AND idle.rank = windows.rank
WHERE windows.has_device AND idle.idle_ns > 0
GROUP BY idle.run, idle.rank, steps, window_ns
HAVING sum(idle.idle_ns) > (1 - coalesce(getvariable('low_gpu_use_share'), 0.5)) * window_ns
