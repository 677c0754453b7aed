-- low_flop_rate: kernels compute at less than a fifth of the rate of their device.
-- One row per (run, rank).
-- Looks at kernels with known work, on a device with a known peak in their type. Many are limited by the memory and not by what
-- they compute (elementwise, normalisation): these are faster only if they read and write less, which fusing them does. The
-- others are far from both limits: their shapes are small or do not fit, or there are few of their blocks for the device. The
-- finding says how much is which. Kernels that other rules explain are left to these. The limit is a tenth of the time.
-- suggestion: Fuse what the memory limits, with torch.compile; give matrix products larger and aligned shapes; `roofline` has the
-- limit of each kernel.
-- link: https://docs.pytorch.org/docs/stable/generated/torch.compile.html
-- claims: all
-- only if: EXISTS (SELECT run FROM events JOIN shared_windows USING (run, rank)
-- WHERE kind = 'kernel' AND flops > 0 AND dur_ns > 0 GROUP BY run, rank, window_ns, devices
-- HAVING sum(dur_ns) / devices >= coalesce(getvariable('low_flop_rate_share'), 0.1) * window_ns)
-- needs: events, devices
-- parameter low_flop_rate_share DOUBLE = 0.1  least share of the time for a finding
-- parameter low_flop_rate_peak  DOUBLE = 0.2  part of the peak of the type that is not a low rate
WITH kernels AS (
    SELECT
        work.run, work.rank, work.event_id, work.work_id, work.dur_ns, windows.steps, windows.window_ns, windows.devices, d.model,
        work.flops / peak_rate(work.work_dtype, d) AS compute_s,
        coalesce(work.bytes / d.bandwidth_bytes_per_s, 0) AS memory_s
    FROM (
        SELECT run, rank, event_id, work_id, device, dur_ns, flops, bytes, work_dtype, step
        FROM events
        WHERE kind = 'kernel' AND flops > 0 AND dur_ns > 0
    ) AS work
    JOIN (SELECT run, rank, device, devices AS d FROM devices) AS models
        ON work.run = models.run AND work.rank = models.rank AND work.device = models.device
    JOIN shared_windows AS windows ON work.run = windows.run AND work.rank = windows.rank
    WHERE windows.steps = 0 OR work.step IS NOT NULL
),
slow AS MATERIALIZED (
    SELECT *, memory_s >= compute_s AS is_of_memory
    FROM kernels
    WHERE compute_s * 1e9 < coalesce(getvariable('low_flop_rate_peak'), 0.2) * dur_ns
),
owners AS (
    SELECT run, rank, event_id, name
    FROM events
    WHERE event_id IN (SELECT work_id FROM slow)
),
named AS (
    SELECT slow.*, owners.name AS owner, sum(dur_ns) OVER (PARTITION BY slow.run, slow.rank, owners.name) AS owner_ns
    FROM slow
    LEFT JOIN owners ON slow.run = owners.run AND slow.rank = owners.rank AND slow.work_id = owners.event_id
)
SELECT
    run,
    rank,
    'low' AS severity,
    'Kernels compute at less than '
    || percent_text(coalesce(getvariable('low_flop_rate_peak'), 0.2)) || ' of the rate of ' || shown(any_value(model)) || ' for '
    || claimed_part() || devices_text(devices)
    || coalesce(
        '; memory is the limit of ' || percent_text(sum(dur_ns) FILTER (is_of_memory) / sum(dur_ns))
        || ' of that, and they reach '
        || percent_text(1e9 * sum(memory_s) FILTER (is_of_memory) / sum(dur_ns) FILTER (is_of_memory)) || ' of its bandwidth', ''
    )
    || coalesce('; most is ' || shown(arg_max(owner, {'ns': owner_ns, 'owner': owner})), '') AS finding,
    strongest(event_id, dur_ns) AS evidence_events,
    count(*) AS events,
    list(event_id) AS changed_events,
    sum(dur_ns) / devices AS claimed_ns,
    coalesce(getvariable('low_flop_rate_share'), 0.1) * window_ns AS least_ns,
    NULL AS estimated_gain_ns,
    'at the limits of the device (roofline) they would take '
    || percent_text(1e9 * sum(greatest(compute_s, memory_s)) / sum(dur_ns)) || ' of that; fused, less' AS gain_basis,
    shown(arg_max(owner, {'ns': owner_ns, 'owner': owner})) AS "where"
FROM named
GROUP BY run, rank, steps, window_ns, devices
HAVING sum(dur_ns) / devices >= coalesce(getvariable('low_flop_rate_share'), 0.1) * window_ns
