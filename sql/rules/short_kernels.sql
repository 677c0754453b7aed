-- short_kernels: most kernels are shorter than their launch calls.
-- One row per (run, rank).
-- A kernel that is shorter than the call that launched it leaves its device empty: the host cannot keep up. Kernels of a graph do
-- not count, because one call launches many. Nor do kernels whose call took long for another reason: longer than
-- short_kernels_longest_ns, for example to load code first, or because the device's queue was full, so that the kernel waited for
-- others. It is a finding if half of the kernels are this short and launching them takes a tenth of the time.
-- suggestion: Fuse them, with torch.compile, or launch many at once with CUDA graphs.
-- link: https://docs.pytorch.org/docs/stable/torch.compiler_faq.html
-- claims: all
-- only if: EXISTS (FROM shared_names WHERE is_busy(kind))
-- needs: events
-- parameter short_kernels_longest_ns BIGINT = 100000  longer calls, in ns, do more than launch
-- parameter short_kernels_wait_ns    BIGINT = 50000   a kernel that starts later after its call, in ns, waited for others
-- parameter short_kernels_share      DOUBLE = 0.5  least share of the kernels for a finding
-- parameter short_kernels_call_share DOUBLE = 0.1  least share of the time that launching them takes
WITH graphs AS (
    SELECT run, rank, event_id AS launch_id
    FROM events
    WHERE is_call(kind) AND name IN (SELECT name FROM shared_names WHERE is_call(kind) AND contains(lower(name), 'graphlaunch'))
),
kernels AS (
    SELECT
        work.run, work.rank, work.event_id, queued_ns, call_ns, work.end_ns - work.start_ns AS dur_ns,
        call_ns > work.end_ns - work.start_ns
        AND call_ns <= coalesce(getvariable('short_kernels_longest_ns'), 100000)
        AND work.start_ns - queued_ns - call_ns <= coalesce(getvariable('short_kernels_wait_ns'), 50000)
        AND graphs.launch_id IS NULL AS is_short,
        windows.steps, windows.window_ns
    FROM shared_work AS work
    JOIN shared_windows AS windows ON work.run = windows.run AND work.rank = windows.rank
    LEFT JOIN few('graphs') AS graphs
        ON work.run = graphs.run AND work.rank = graphs.rank AND work.launch_id = graphs.launch_id
    WHERE kind = 'kernel' AND call_ns IS NOT NULL AND (windows.steps = 0 OR step IS NOT NULL)
)
SELECT
    run,
    rank,
    'low' AS severity,
    format('{:,} of {:,}', count(*) FILTER (is_short), count(*)) || ' kernels take less time than launching them, '
    || duration_text(avg(dur_ns) FILTER (is_short)) || ' against ' || duration_text(avg(call_ns) FILTER (is_short))
    || ' on average; the host launches them for ' || claimed_part() AS finding,
    strongest(CASE WHEN is_short THEN event_id END, call_ns - dur_ns) AS evidence_events,
    count(*) FILTER (is_short) AS events,
    list(span(queued_ns, queued_ns + call_ns)) FILTER (is_short) AS claimed,
    sum(call_ns) FILTER (is_short) AS claimed_ns,
    coalesce(getvariable('short_kernels_call_share'), 0.1) * window_ns AS least_ns,
    NULL AS estimated_gain_ns,
    'not known: how long devices wait for these launches is less' AS gain_basis,
    NULL AS "where",
    concat_ws(
        ', ',
        CASE WHEN coalesce(bool_or(is_compiled), false) THEN 'Fuse them' ELSE 'Fuse them, with torch.compile' END,
        CASE
            WHEN coalesce(bool_or(can_fuse), false) THEN 'fused optimizers (fused=True)'
            WHEN coalesce(bool_or(can_foreach), false) THEN 'optimizers on lists of tensors (foreach=True)'
        END,
        CASE
            WHEN coalesce(bool_or(has_graphs), false) THEN 'or launch more of them by the CUDA graphs that are there'
            ELSE 'or launch many at once with CUDA graphs'
        END
    ) || '.' AS suggestion
FROM kernels
LEFT JOIN (SELECT run, rank, has_graphs, is_compiled, can_foreach, can_fuse FROM shared_traits) AS traits USING (run, rank)
GROUP BY run, rank, steps, window_ns
HAVING
    count(*) FILTER (is_short) >= coalesce(getvariable('short_kernels_share'), 0.5) * count(*)
    AND claimed_ns >= 0.1 * least_ns
