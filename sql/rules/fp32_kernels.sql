-- fp32_kernels: matrix products and convolutions of unknown work run in fp32 on a device with faster units for them.
-- One row per (run, rank).
-- Judges kernels by their names, `ampere_sgemm_128x64_tn` or `sm80_xmma_gemm_f32f32_f32f32_f32_...`, if their FLOPs are not
-- known, because shapes were not recorded or nothing launched them. tensor_cores_unused has those with known work. Without FLOPs
-- it is not known whether the memory limits them, so neither is the gain. The limit is a tenth of the time. Of a device of NVIDIA
-- without known peaks, its compute capability tells whether it has tensor cores: for fp16 from 7.0 on, for tf32 from 8.0 on.
-- suggestion: Allow tf32, torch.set_float32_matmul_precision("high") (or torch.backends.cuda.matmul.allow_tf32 = True) and
-- torch.backends.cudnn.allow_tf32 = True, or use bf16 or fp16 with torch.autocast.
-- link: https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices
-- claims: all
-- only if: EXISTS (FROM devices AS d WHERE fp32_flop_per_s IS NOT NULL OR tensor_dtype(d) IS NOT NULL)
-- AND EXISTS (FROM shared_names WHERE is_fp32_product(kind, name))
-- needs: events, devices
-- parameter fp32_kernels_share DOUBLE = 0.1  least share of the time for a finding
WITH kernels AS (
    SELECT
        work.run, work.rank, work.event_id, work.dur_ns, work.name, windows.steps, windows.window_ns, windows.devices,
        coalesce(d.model, d.name) AS model, coalesce(faster_dtype(d), tensor_dtype(d)) AS dtype, d.compute_capability,
        peak_rate(faster_dtype(d), d) / peak_rate('fp32', d) AS factor,
        d.tf32_flop_per_s IS NOT NULL AS has_tf32, d.bf16_flop_per_s IS NOT NULL AS has_bf16
    FROM (
        SELECT run, rank, event_id, device, dur_ns, name, step
        FROM events
        WHERE
            kind = 'kernel' AND dur_ns > 0 AND flops IS NULL
            AND name IN (SELECT name FROM shared_names WHERE is_fp32_product(kind, name))
    ) AS work
    JOIN (SELECT run, rank, device, devices AS d FROM devices) AS models
        ON work.run = models.run AND work.rank = models.rank AND work.device = models.device
    JOIN shared_windows AS windows ON work.run = windows.run AND work.rank = windows.rank
    WHERE windows.steps = 0 OR work.step IS NOT NULL
)
SELECT
    run,
    rank,
    severity_of(sum(dur_ns) / devices, window_ns) AS severity,
    'Matrix products run in fp32 on ' || shown(any_value(model)) || ' for ' || claimed_part() || devices_text(devices)
    || ', by the names of kernels; ' || dtype
    || coalesce(
        format(' has {:.1f} times the peak', max(factor)),
        ' has tensor cores on devices of compute capability ' || any_value(compute_capability)
    ) AS finding,
    strongest(event_id, dur_ns) AS evidence_events,
    count(*) AS events,
    list(event_id) AS changed_events,
    sum(dur_ns) / devices AS claimed_ns,
    coalesce(getvariable('fp32_kernels_share'), 0.1) * window_ns AS least_ns,
    NULL AS estimated_gain_ns,
    coalesce(
        'nothing if the memory limits them, at most ' || percent_text(1 - 1 / max(factor))
        || ' of their time by the peaks; record shapes to know it',
        'nothing if the memory limits them; the peaks of the device are not known'
    ) AS gain_basis,
    shown(arg_max(name, dur_ns)) AS "where",
    CASE WHEN dtype <> 'tf32' THEN half_precision(dtype, bool_or(has_tf32), bool_or(has_bf16)) END AS suggestion
FROM kernels
WHERE dtype IS NOT NULL
GROUP BY run, rank, steps, window_ns, devices, dtype
HAVING sum(dur_ns) / devices >= coalesce(getvariable('fp32_kernels_share'), 0.1) * window_ns
