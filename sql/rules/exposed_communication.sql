-- exposed_communication: a collective of a process group runs while nothing computes.
-- One row per (run, rank, process group, collective).
-- Counts the exposed part of its kernels, as in `kernel_overlap`: the most that could be gained if computation ran under them.
-- The limit is a twentieth of the time, so that each collective that matters is named. Waits for a late rank do not count, as far
-- as the traces of other ranks show them: starting earlier cannot shorten them, and `straggler` says which rank is late. Sending
-- tokens to experts and back is reported by exposed_expert_parallel. Bucket advice is for DDP's gradient reductions, prefetching
-- for what FSDP gathers and scatters.
-- suggestion: Start it earlier and wait for it later (async_op=True), or send less of it at a time.
-- link: https://docs.pytorch.org/docs/stable/distributed.html#synchronous-and-asynchronous-collective-operations
-- replay: works, these transfers hidden; waits for other loaded ranks stay
-- claims: exposed
-- only if: EXISTS (FROM shared_names WHERE communicates)
-- needs: events, traces
-- parameter exposed_communication_share DOUBLE = 0.05  least share of the time for a finding
SELECT
    run,
    rank,
    concat_ws(' ', 'exposed', process_group, collective) AS cause,
    severity_of(sum(own_ns), window_ns) AS severity,
    shown(coalesce(collective, 'communication')) || ' is exposed ' || claimed_part() || ', '
    || percent_text(sum(own_ns) / sum(dur_ns)) || ' of its own time, in ' || counted(count(*), 'kernel') AS finding,
    strongest(event_id, own_ns) AS evidence_events,
    count(*) AS events,
    list(event_id) AS changed_events,
    list(span(start_ns + waited_ns, end_ns)) AS claimed,
    sum(own_ns) AS claimed_ns,
    coalesce(getvariable('exposed_communication_share'), 0.05) * window_ns AS least_ns,
    sum(own_ns) AS estimated_gain_ns,
    'time in which it runs and nothing computes: the most that hiding it could gain' AS gain_basis,
    'process group ' || shown(process_group) AS "where",
    CASE
        WHEN bool_or(is_ddp) AND regexp_matches(lower(collective), '^all_?reduce')
            THEN 'Start it earlier and wait for it later (async_op=True, DDP buckets), or send less of it at a time.'
        WHEN bool_or(is_fsdp) AND regexp_matches(lower(collective), 'all_?gather|reduce_?scatter')
            THEN 'Start it earlier and wait for it later (async_op=True, FSDP prefetching), or send less of it at a time.'
    END AS suggestion
FROM (SELECT *, exposed_ns - waited_ns AS own_ns FROM shared_communication)
LEFT JOIN (SELECT run, rank, is_ddp, is_fsdp FROM shared_traits) AS traits USING (run, rank)
WHERE own_ns > 0 AND kernel_category <> 'expert_parallel'
GROUP BY run, rank, steps, window_ns, process_group, collective
HAVING sum(own_ns) >= coalesce(getvariable('exposed_communication_share'), 0.05) * window_ns
