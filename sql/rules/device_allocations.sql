-- device_allocations: the driver allocates or frees device memory in step after step.
-- One row per (run, rank).
-- torch keeps memory and reuses it, so cudaMalloc and cudaFree belong in the first step. Later ones come from retries when memory
-- is short or fragmented, from empty_cache(), or from growing sizes; each waits for the device. It takes two steps with such
-- calls, and a hundredth of the time, so that a single growth is not a finding. Counts only within profiler steps, because
-- otherwise the start of the program cannot be recognised.
-- suggestion: Do not call torch.cuda.empty_cache() in the loop; set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or begin
-- with the largest batch.
-- link: https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf
-- replay: calls, these calls taking no time and waiting for no device
-- claims: idle
-- only if: EXISTS (FROM shared_names WHERE is_call(kind)
-- AND regexp_matches(name, '^(cu|cuda|hip)(Malloc|Free|Mem(Alloc|Free|Create|Release|Map|Unmap))(_v\d+)?$'))
-- needs: events
-- parameter device_allocations_share DOUBLE = 0.01  least share of the time for a finding
-- parameter device_allocations_steps BIGINT = 2     least number of steps with such calls
SELECT
    calls.run,
    calls.rank,
    severity_of(sum(coalesce(calls.idle_ns, calls.dur_ns)), window_ns) AS severity,
    'The driver allocates and frees device memory for ' || claimed_part()
    || CASE WHEN count(calls.idle_ns) > 0 THEN ' in which no device is busy' ELSE '' END
    || ', in ' || counted(count(*), 'call') || ', most of it in ' || shown(arg_max(calls.name, calls.dur_ns)) AS finding,
    strongest(calls.event_id, calls.dur_ns) AS evidence_events,
    count(*) AS events,
    list(calls.event_id) AS changed_events,
    sum(coalesce(calls.idle_ns, calls.dur_ns)) AS claimed_ns,
    coalesce(getvariable('device_allocations_share'), 0.01) * window_ns AS least_ns,
    sum(calls.idle_ns) AS estimated_gain_ns,
    'time in these calls in which no device is busy' AS gain_basis,
    NULL AS "where",
    CASE
        WHEN bool_or(traits.is_expandable) OR bool_or(traits.is_rocm)
            THEN 'Do not call torch.cuda.empty_cache() in the loop, and begin with the largest batch.'
    END AS suggestion
FROM events AS calls
LEFT JOIN shared_traits AS traits ON calls.run = traits.run AND calls.rank = traits.rank
JOIN shared_windows AS windows ON calls.run = windows.run AND calls.rank = windows.rank
WHERE
    is_call(calls.kind)
    AND calls.dur_ns > 0
    AND calls.step IS NOT NULL
    AND calls.name IN (
        SELECT name
        FROM shared_names
        WHERE
            is_call(kind)
            AND regexp_matches(name, '^(cu|cuda|hip)(Malloc|Free|Mem(Alloc|Free|Create|Release|Map|Unmap))(_v\d+)?$')
    )
GROUP BY calls.run, calls.rank, steps, window_ns
HAVING
    claimed_ns >= 0.1 * least_ns
    AND count(DISTINCT calls.step) >= coalesce(getvariable('device_allocations_steps'), 2)
