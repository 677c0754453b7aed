-- tensor_cores_unused: matrix products and convolutions run in fp32 on a device whose matrix units stay idle.
-- One row per (run, rank, op that owns the work).
-- Looks at kernels with known work done in fp32 (`work_dtype`; a kernel's name shows if it is tf32), on a known device with a
-- higher peak in tf32, or else in bf16 or fp16: types that the device lacks are not suggested. If memory is the limit
-- nothing can be gained, so memory-bound work is never a finding. The limit is a twentieth of the time, as in other rules.
-- suggestion: Allow tf32, torch.set_float32_matmul_precision("high") and torch.backends.cudnn.allow_tf32 = True, or use bf16 or
-- fp16 with torch.autocast.
-- link: https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices
-- replay: works, these kernels at the same share of the higher limit
-- claims: all
-- only if: (SELECT count(fp32_flop_per_s) > 0 FROM devices)
-- AND EXISTS (SELECT run FROM events JOIN shared_windows USING (run, rank)
-- WHERE kind = 'kernel' AND work_dtype = 'fp32' AND flops > 0 AND dur_ns > 0 GROUP BY run, rank, window_ns, devices
-- HAVING sum(dur_ns) / devices >= coalesce(getvariable('tensor_cores_unused_share'), 0.05) * window_ns)
-- needs: events, devices
-- parameter tensor_cores_unused_share DOUBLE = 0.05  least share of the time for a finding
WITH kernels AS (
    SELECT
        work.run, work.rank, work.event_id, work.work_id, work.dur_ns, windows.steps, windows.window_ns, windows.devices, d.model,
        faster_dtype(d) AS dtype,
        d.tf32_flop_per_s IS NOT NULL AS has_tf32,
        d.bf16_flop_per_s IS NOT NULL AS has_bf16,
        greatest(flops / peak_rate('fp32', d), coalesce(bytes / d.bandwidth_bytes_per_s, 0)) AS limit_s,
        greatest(
            flops / peak_rate(faster_dtype(d), d),
            coalesce(bytes / d.bandwidth_bytes_per_s, 0) / CASE WHEN faster_dtype(d) = 'tf32' THEN 1 ELSE 2 END
        ) AS best_s
    FROM (
        SELECT run, rank, event_id, work_id, device, dur_ns, flops, bytes, step
        FROM events
        WHERE kind = 'kernel' AND work_dtype = 'fp32' AND flops > 0 AND dur_ns > 0
    ) AS work
    JOIN (SELECT run, rank, device, devices AS d FROM devices) AS models
        ON work.run = models.run AND work.rank = models.rank AND work.device = models.device
    JOIN shared_windows AS windows ON work.run = windows.run AND work.rank = windows.rank
    WHERE faster_dtype(d) IS NOT NULL AND (windows.steps = 0 OR work.step IS NOT NULL)
),
gains AS (
    SELECT *, dur_ns * (1 - best_s / limit_s) AS gain_ns
    FROM kernels
    WHERE best_s < limit_s
),
-- What computes in half precision already is told so.
halves AS (
    SELECT run, rank, true AS has_half
    FROM events
    WHERE kind = 'kernel' AND work_dtype IN ('bf16', 'fp16') AND flops > 0
    GROUP BY run, rank
),
owners AS (
    SELECT run, rank, event_id, name
    FROM events
    WHERE event_id IN (SELECT work_id FROM gains) AND name IN (
        SELECT name
        FROM shared_names
        WHERE kind = 'host_op' AND regexp_matches(name, '(mm|matmul|(bi)?linear|conv\w*|einsum|attention\w*|backward\w*)$')
    )
)
SELECT
    gains.run,
    gains.rank,
    severity_of(sum(gain_ns) / devices, window_ns) AS severity,
    shown(owners.name) || ' computes in fp32 on ' || shown(any_value(model)) || ' for '
    || claimed_part() || devices_text(devices) || '; ' || dtype
    || format(' is up to {:.1f} times as fast', max(limit_s / best_s)) AS finding,
    strongest(gains.event_id, gain_ns) AS evidence_events,
    count(*) AS events,
    list(gains.event_id ORDER BY gains.event_id) AS changed_events,
    list(best_s / limit_s ORDER BY gains.event_id) AS changed_factors,
    sum(dur_ns) / devices AS claimed_ns,
    coalesce(getvariable('tensor_cores_unused_share'), 0.05) * window_ns * sum(dur_ns) / sum(gain_ns) AS least_ns,
    round(sum(gain_ns) / devices) AS estimated_gain_ns,
    'at the same share of the limit set by the peak of ' || dtype || ' and the memory (roofline)' AS gain_basis,
    shown(owners.name) AS "where",
    CASE
        WHEN bool_or(has_half) AND dtype = 'tf32'
            THEN 'Other products are done in half precision: run this one under torch.autocast, too, or allow tf32, '
            || 'torch.set_float32_matmul_precision("high") and torch.backends.cudnn.allow_tf32 = True.'
        WHEN bool_or(has_half)
            THEN 'Other products are done in half precision: run this one under torch.autocast, too.'
        WHEN dtype = 'tf32' AND any_value(has_bf16) THEN NULL
        WHEN dtype = 'tf32'
            THEN 'Allow tf32, torch.set_float32_matmul_precision("high") and torch.backends.cudnn.allow_tf32 = True, or use fp16 '
            || 'with torch.autocast.'
        ELSE half_precision(dtype, bool_or(has_tf32), any_value(has_bf16))
    END AS suggestion
FROM gains
LEFT JOIN halves ON gains.run = halves.run AND gains.rank = halves.rank
JOIN owners ON gains.run = owners.run AND gains.rank = owners.rank AND gains.work_id = owners.event_id
GROUP BY gains.run, gains.rank, steps, window_ns, devices, owners.name, dtype
HAVING sum(gain_ns) / devices >= coalesce(getvariable('tensor_cores_unused_share'), 0.05) * window_ns
