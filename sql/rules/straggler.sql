-- straggler: the other ranks wait for one of them, or for several with the same cause, again and again.
-- One row per (run, cause).
-- Collectives are matched across the ranks of the run, on one clock where the offsets of `clock_skew` are known. Counted is by how
-- much a rank holds up the job, as `stragglers` has it, with the cause that most of that has: what it did longer than the rank
-- before it. A rank that is late because it waited itself, for another rank or before anything was recorded, is not to blame, and
-- counts for nothing. In a run without a straggler each rank is late now and then, so it is a finding only where one rank has twice
-- its even part of that time, or three fifths of it where they are few, and they make up a fiftieth of the time.
-- suggestion: See what they do before, with blame(), and compare their data, their input pipeline and their clock rates with those of
-- the others.
-- link: https://docs.pytorch.org/docs/stable/distributed.html#debugging-torch-distributed-applications
-- only if: (SELECT count(DISTINCT rank) > 1 FROM traces)
-- needs: events, traces
-- parameter straggler_share DOUBLE = 0.02  least part of the time that is a finding
-- parameter straggler_part  DOUBLE = 0.6   enough of the time that ranks are waited for, in any run
WITH several AS MATERIALIZED (
    SELECT run, count(*) AS ranks
    FROM shared_windows
    GROUP BY run
    HAVING count(*) > 1
),
waits AS MATERIALIZED (
    SELECT shared_waits.*
    FROM shared_waits
    JOIN shared_windows AS windows ON shared_waits.run = windows.run AND shared_waits.rank = windows.rank
    WHERE windows.steps = 0 OR shared_waits.step IS NOT NULL
),
pairs AS MATERIALIZED (
    FROM late_pairs('waits')
),
causes AS (
    SELECT run, rank, match, first(cause ORDER BY part_ns DESC, cause) AS cause
    FROM late_parts(events, 'waits', 'pairs')
    GROUP BY run, rank, match
),
held AS (
    SELECT waits.run, waits.rank, causes.cause, waits.event_id, waits.held_up_ns, waits.last_rank = waits.rank AS is_last
    FROM waits
    JOIN causes ON waits.run = causes.run AND waits.rank = causes.rank AND waits.match = causes.match
    WHERE causes.cause <> 'wait' AND waits.held_up_ns > 0
),
sums AS (
    SELECT
        run, rank, cause, sum(held_up_ns) AS held_ns, sum(sum(held_up_ns)) OVER (PARTITION BY run) AS all_ns,
        count(*) FILTER (is_last) AS times_last, strongest(event_id, held_up_ns) AS evidence_events, count(*) AS events
    FROM held
    GROUP BY run, rank, cause
),
counts AS (
    SELECT run, rank, count(*) AS collectives
    FROM waits
    GROUP BY run, rank
),
late AS (
    SELECT
        sums.*, several.ranks AS of_ranks, windows.steps, windows.window_ns, counts.collectives,
        sum(held_ns) OVER of_cause AS cause_ns,
        list(sums.rank) OVER of_cause AS ranks,
        row_number() OVER (of_cause ORDER BY held_ns DESC, sums.rank) AS place,
        CASE
            cause WHEN 'host' THEN 'host' WHEN 'input' THEN 'data loading' WHEN 'compute' THEN 'computation' WHEN 'copy' THEN 'copies'
            ELSE 'communication'
        END AS word
    FROM sums
    JOIN several ON sums.run = several.run
    JOIN counts ON sums.run = counts.run AND sums.rank = counts.rank
    JOIN shared_windows AS windows ON sums.run = windows.run AND sums.rank = windows.rank
    WHERE held_ns >= least(coalesce(getvariable('straggler_part'), 0.6), 2 / several.ranks) * all_ns
    WINDOW of_cause AS (PARTITION BY sums.run, cause)
)
SELECT
    run,
    rank,
    list_sort(ranks) AS ranks,
    cause,
    severity_of(cause_ns, window_ns) AS severity,
    CASE
        WHEN len(ranks) = 1
            THEN 'Rank ' || rank || ' comes last to ' || format('{:,}', times_last) || ' of ' || format('{:,}', collectives)
            || ' collectives because of its ' || word || ', and is waited for '
        ELSE 'Ranks ' || array_to_string(list_sort(ranks), ', ') || ' come late to collectives because of their ' || word
        || ', and are waited for '
    END || part_text(cause_ns, window_ns, steps) || ', ' || percent_text(cause_ns / all_ns)
    || ' of all such time of the run' AS finding,
    evidence_events,
    events,
    cause_ns AS estimated_gain_ns,
    'time from the rank before to a late one: without it, collectives could begin' AS gain_basis,
    CASE WHEN len(ranks) = 1 THEN 'rank ' || rank ELSE 'ranks ' || array_to_string(list_sort(ranks), ', ') END
    || ' of ' || of_ranks AS "where",
    CASE cause
        WHEN 'input'
            THEN 'Compare its data with that of the others, and give its DataLoader more workers (num_workers); `input_balance` has '
            || 'the waits of all ranks.'
        WHEN 'host'
            THEN 'See what its host does before, with blame(), and compare its processor, and what else runs there, with the others.'
        WHEN 'compute'
            THEN 'See which kernels take longer, with blame(), and compare its share of the work and its clock rates with those of the '
            || 'others.'
        WHEN 'communication'
            THEN 'See which link takes longer, with blame(), and compare its network with that of the others.'
    END AS suggestion
FROM late
WHERE place = 1 AND cause_ns >= coalesce(getvariable('straggler_share'), 0.02) * window_ns
