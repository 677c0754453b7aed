-- launch_bound: devices wait for the host to launch their next work.
-- One row per (run, rank).
-- Counts the device gaps whose cause in `idle` is host_wait, unless a call that waits for the device held up the host (those gaps
-- are in blocking_calls), and only gaps up to launch_bound_longest_ns: in a longer gap the host did something other than run ops.
-- A launch takes about 5 us and an op about 20 us, so a millisecond is far above both. An eager program commonly loses up to a
-- tenth of the time.
-- The suggestion leaves out what the program already does: graphs, compiling, fused optimizers. `where` is where the host was for
-- most of the time.
-- suggestion: Give each launch more work: larger batches, torch.compile(mode="reduce-overhead") or CUDA graphs, fewer small ops.
-- Look at the host's self times, too.
-- link: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
-- replay: launches, all launches and the ops around them free, as in a graph
-- claims: all
-- only if: EXISTS (FROM shared_names WHERE is_busy(kind))
-- needs: events
-- parameter launch_bound_share      DOUBLE = 0.1      least share of the time for a finding
-- parameter launch_bound_longest_ns BIGINT = 1000000  longer gaps, in ns, are not counted
WITH gaps AS MATERIALIZED (
    FROM shared_gaps
    WHERE
        cause = 'host_wait'
        AND blocked_id IS NULL
        AND gap_ns <= coalesce(getvariable('launch_bound_longest_ns'), 1000000)
),
of_gaps AS MATERIALIZED (
    FROM shared_owners
    WHERE gap IN (SELECT gap FROM gaps)
),
owners AS (
    SELECT run, rank, label
    FROM shared_hosts('gaps', 'of_gaps')
)
SELECT
    run,
    rank,
    'launches' AS cause,
    severity_of(sum(host_ns) / devices, window_ns) AS severity,
    'Devices wait for the next launch ' || claimed_part() || devices_text(devices) || ', in '
    || counted(count(*), 'gap') || ', ' || duration_text(avg(host_ns)) || ' in each on average' AS finding,
    strongest(after_id, host_ns) AS evidence_events,
    count(*) AS events,
    list(span(start_ns, start_ns + gap_ns)) AS claimed,
    sum(host_ns) / devices AS claimed_ns,
    coalesce(getvariable('launch_bound_share'), 0.1) * window_ns AS least_ns,
    sum(host_ns) / devices AS estimated_gain_ns,
    'from the end of the work before a gap to the call that launched the next' AS gain_basis,
    shown(any_value(owners.label)) AS "where",
    concat_ws(
        ', ',
        'Give each launch more work, with larger batches',
        CASE
            WHEN coalesce(bool_or(has_graphs), false) THEN NULL
            WHEN coalesce(bool_or(is_compiled), false) THEN 'CUDA graphs (torch.compile(mode="reduce-overhead"))'
            ELSE 'torch.compile(mode="reduce-overhead") or CUDA graphs'
        END,
        CASE
            WHEN coalesce(bool_or(can_fuse), false) THEN 'fused optimizers (fused=True)'
        END,
        'fewer small ops; and look at the host''s self times.'
    ) AS suggestion
FROM gaps
LEFT JOIN owners USING (run, rank)
LEFT JOIN (SELECT run, rank, has_graphs, is_compiled, can_fuse FROM shared_traits) AS traits USING (run, rank)
GROUP BY run, rank, steps, window_ns, devices
HAVING claimed_ns >= 0.1 * least_ns
