-- communication_share: devices spend much of the time on exposed communication.
-- One row per (run, rank).
-- Counts the time in which a collective kernel runs and no kernel computes, including waits for late ranks, as `step_times` does.
-- Severity follows the rest without these waits, because late ranks belong to `straggler`. A tenth of the time is also the limit
-- of the TensorBoard plugin. Without backward and optimizers there are no gradients to send less of; buckets apply to DDP only.
-- suggestion: Communicate less often or less (gradient accumulation, larger batches, bf16 gradients), in larger buckets
-- (bucket_cap_mb), or under computation; `exposed_communication` shows which collectives, `straggler` whether a rank is late.
-- link: https://docs.pytorch.org/docs/stable/notes/ddp.html
-- replay: works, these transfers hidden; waits for other loaded ranks stay
-- claims: exposed
-- only if: EXISTS (FROM shared_names WHERE communicates)
-- needs: events, traces
-- parameter communication_share_least DOUBLE = 0.1  least share of the time for a finding
SELECT
    run,
    rank,
    severity_of(sum(exposed_ns) - sum(waited_ns), window_ns) AS severity,
    'Exposed communication takes ' || claimed_part()
    || CASE
        WHEN sum(waited_ns) >= 0.5 * sum(exposed_ns) THEN ', most of it waiting for late ranks'
        WHEN sum(waited_ns) >= 0.01 * sum(exposed_ns) THEN ', including waits for late ranks'
        ELSE ''
    END AS finding,
    strongest(event_id, exposed_ns) AS evidence_events,
    count(*) AS events,
    list(event_id) AS changed_events,
    list(span(start_ns, end_ns)) AS claimed,
    sum(exposed_ns) AS claimed_ns,
    coalesce(getvariable('communication_share_least'), 0.1) * window_ns AS least_ns,
    NULL AS estimated_gain_ns,
    'not known: many collectives of which each is small, or waiting' AS gain_basis,
    NULL AS "where",
    CASE
        WHEN NOT coalesce(bool_or(trains), false)
            THEN 'Send less at a time, or run it under computation; `exposed_communication` shows which collectives, '
            || '`straggler` whether a rank is late.'
        ELSE 'Communicate less often or less (gradient accumulation, larger batches'
            || CASE WHEN coalesce(bool_and(is_half), false) THEN ')' ELSE ', bf16 gradients)' END
            || CASE WHEN coalesce(bool_or(is_ddp), false) THEN ', in larger buckets (bucket_cap_mb)' ELSE '' END
            || ', or under computation; `exposed_communication` shows which collectives, `straggler` whether a rank is late.'
    END AS suggestion
FROM (SELECT *, regexp_matches(name, '(?i)bf16|f16|half|bfloat16|fp8|f8e') AS is_half FROM shared_communication)
LEFT JOIN (SELECT run, rank, trains, is_ddp FROM shared_traits) AS traits USING (run, rank)
WHERE exposed_ns > 0
GROUP BY run, rank, steps, window_ns
HAVING sum(exposed_ns) >= coalesce(getvariable('communication_share_least'), 0.1) * window_ns
