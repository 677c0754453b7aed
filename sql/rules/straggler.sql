-- straggler: the other ranks wait for one of them again and again.
-- One row per (run, rank that is late).
-- Collectives are matched across the ranks of the run, on one clock where the offsets of `clock_skew` are known. Counted are
-- those that the rank comes to last, with the time between the last but one and it. In a run without a straggler each rank is
-- last now and then, so it is a finding only where one rank has twice its even part of that time, or three fifths of it where
-- they are few, and it makes up a fiftieth of the time.
-- suggestion: See what it does before, with stragglers(per="op"), and compare its data, its input pipeline and its clock rates
-- with those of the others.
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
of_several AS (
    SELECT *
    FROM events
    WHERE run IN (SELECT run FROM several)
),
matches AS MATERIALIZED (
    FROM collective_matches('of_several', traces)
),
waits AS (
    SELECT run, number, rank, event_id, step, late_ns, last_rank = rank AND start_skew_ns > 0 AS is_last
    FROM collective_waits(matches, traces, true)
    WHERE wait_ns IS NOT NULL
),
seconds AS (
    SELECT run, number, max(late_ns) FILTER (NOT is_last) AS second_ns
    FROM waits
    GROUP BY run, number
),
held AS (
    SELECT
        waits.run, waits.rank, waits.event_id, waits.is_last, windows.steps, windows.window_ns, several.ranks,
        CASE WHEN is_last THEN late_ns - second_ns ELSE 0 END AS held_ns
    FROM waits
    JOIN seconds ON waits.run = seconds.run AND waits.number = seconds.number
    JOIN shared_windows AS windows ON waits.run = windows.run AND waits.rank = windows.rank
    JOIN several ON waits.run = several.run
    WHERE windows.steps = 0 OR waits.step IS NOT NULL
),
sums AS (
    SELECT
        run, rank, steps, window_ns, ranks,
        sum(held_ns) AS held_ns,
        sum(sum(held_ns)) OVER (PARTITION BY run) AS all_ns,
        count(*) AS collectives,
        count(*) FILTER (is_last) AS times_last,
        strongest(CASE WHEN held_ns > 0 THEN event_id END, held_ns) AS evidence_events,
        count(*) FILTER (held_ns > 0) AS events
    FROM held
    GROUP BY run, rank, steps, window_ns, ranks
)
SELECT
    run,
    rank,
    severity_of(held_ns, window_ns) AS severity,
    'Rank ' || rank || ' comes last to ' || format('{:,}', times_last) || ' of ' || format('{:,}', collectives)
    || ' collectives, and is waited for ' || part_text(held_ns, window_ns, steps) || ', ' || percent_text(held_ns / all_ns)
    || ' of all such time of the run' AS finding,
    evidence_events,
    events,
    held_ns AS estimated_gain_ns,
    'time from the last but one rank to this one: with it, the collective could begin' AS gain_basis,
    'rank ' || rank || ' of ' || ranks AS "where"
FROM sums
WHERE
    held_ns >= coalesce(getvariable('straggler_share'), 0.02) * window_ns
    AND held_ns >= least(coalesce(getvariable('straggler_part'), 0.6), 2 / ranks) * all_ns
