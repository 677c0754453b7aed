-- exposed_communication: a collective of a process group runs while no computation does.
-- One row per (run, rank, process group, collective).
-- The exposed part of its kernels, as `kernel_overlap` has it: all that could be gained if computation ran under them. A
-- twentieth of the time, so that those which matter are named one by one.
-- Waiting for a rank that comes late is none of it, as far as the traces of the others tell: starting earlier cannot shorten it,
-- and `straggler` says which rank is late.
-- What is sent to experts and back is exposed_expert_parallel's. Buckets are for DDP's reductions of gradients, prefetching for
-- what FSDP gathers and scatters.
-- suggestion: Start it earlier and wait for it later (async_op=True), or send less of it at a time.
-- link: https://docs.pytorch.org/docs/stable/distributed.html#synchronous-and-asynchronous-collective-operations
-- replay: works, these transfers hidden; waiting for other ranks stays, where they are loaded
-- claims: exposed
-- only if: EXISTS (FROM shared_names WHERE communicates)
-- needs: events, traces
-- parameter exposed_communication_share DOUBLE = 0.05  least part of the time that is a finding
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
    'time in which it runs and no computation does: at most that, if all of it were hidden' AS gain_basis,
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
