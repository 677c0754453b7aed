-- exposed_expert_parallel: tokens are sent to experts and back while nothing computes.
-- One row per (run, rank, process group, collective).
-- Counts the exposed part of kernels with category expert_parallel (DeepEP and similar, see events.kernel_category), as in
-- `kernel_overlap`, including waits for late or busy ranks. The limit is a twentieth of the time, as for other collectives: all
-- of it could be gained if computation of another batch or chunk ran under it.
-- suggestion: Overlap it with computation of another chunk or micro-batch (two batches in flight, shared experts meanwhile), give
-- its kernels fewer multiprocessors, send fp8, and look at the load of the experts' ranks.
-- link: https://github.com/deepseek-ai/DeepEP
-- replay: works, these transfers hidden; waits for other loaded ranks stay
-- claims: exposed
-- only if: EXISTS (FROM shared_names WHERE communicates)
-- needs: events, traces
-- parameter exposed_expert_parallel_share DOUBLE = 0.05  least share of the time for a finding
SELECT
    run,
    rank,
    severity_of(sum(own_ns), window_ns) AS severity,
    CASE
        WHEN collective IN ('dispatch', 'combine') THEN 'Expert-parallel ' || collective
        ELSE 'Expert-parallel communication'
    END
    || ' is exposed ' || claimed_part() || ', '
    || percent_text(sum(own_ns) / sum(dur_ns)) || ' of its own time, in ' || counted(count(*), 'kernel') AS finding,
    strongest(event_id, own_ns) AS evidence_events,
    count(*) AS events,
    list(event_id) AS changed_events,
    list(span(start_ns + waited_ns, end_ns)) AS claimed,
    sum(own_ns) AS claimed_ns,
    coalesce(getvariable('exposed_expert_parallel_share'), 0.05) * window_ns AS least_ns,
    sum(own_ns) AS estimated_gain_ns,
    'time in which it runs and nothing computes: the most that hiding it could gain' AS gain_basis,
    coalesce('process group ' || shown(process_group), shown(arg_max(short_name('kernel', name), own_ns))) AS "where"
FROM (SELECT *, exposed_ns - waited_ns AS own_ns FROM shared_communication)
WHERE own_ns > 0 AND kernel_category = 'expert_parallel'
GROUP BY run, rank, steps, window_ns, process_group, collective
HAVING sum(own_ns) >= coalesce(getvariable('exposed_expert_parallel_share'), 0.05) * window_ns
