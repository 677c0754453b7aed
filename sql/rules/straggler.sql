-- straggler: the other ranks wait for one of them, or for several with the same cause, again and again.
-- One row per (run, cause).
-- Collectives are matched across the ranks of the run, on one clock where the offsets of `clock_skew` are known. Counted is by
-- how much a rank holds up the job, as `stragglers` has it, with the cause that most of that has: what it did longer than the
-- rank before it. A rank that is late because it waited itself, for another rank or before anything was recorded, is not to
-- blame, and counts for nothing. In a run without a straggler each rank is late now and then, so it is a finding only where one
-- rank, or up to half of them together, have twice their even part of that time, or three fifths of it where they are few (and a
-- fifth more for each further rank), and they make up a fiftieth of the time. Ranks that come at least half as late for the same
-- cause belong to it.
-- suggestion: See what they do before, with blame(), and compare their data, their input pipeline and their clock rates with
-- those of the others.
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
    SELECT
        shared_waits.*,
        came_ns - list_sort(list(came_ns) OVER of_match)[(count(*) OVER of_match + 1) // 2] AS behind_ns
    FROM shared_waits
    JOIN shared_windows AS windows ON shared_waits.run = windows.run AND shared_waits.rank = windows.rank
    WHERE windows.steps = 0 OR shared_waits.step IS NOT NULL
    WINDOW of_match AS (PARTITION BY shared_waits.run, match)
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
    SELECT waits.run, waits.rank, causes.cause, waits.event_id, waits.held_up_ns, waits.behind_ns
    FROM waits
    JOIN causes ON waits.run = causes.run AND waits.rank = causes.rank AND waits.match = causes.match
    WHERE causes.cause <> 'wait' AND waits.held_up_ns > 0
),
counts AS (
    SELECT
        run, rank, count(*) AS collectives, count(*) FILTER (last_rank = rank AND start_skew_ns > 0) AS times_last
    FROM waits
    GROUP BY run, rank
),
sums AS (
    SELECT
        held.run, held.rank, cause, several.ranks AS of_ranks, sum(held_up_ns) AS held_ns, sum(behind_ns) AS behind_ns,
        sum(sum(held_up_ns)) OVER (PARTITION BY held.run) AS all_ns,
        strongest(event_id, held_up_ns) AS evidence_events,
        count(*) AS events
    FROM held
    JOIN several ON held.run = several.run
    GROUP BY held.run, held.rank, cause, several.ranks
),
placed AS (
    SELECT
        *,
        row_number() OVER most AS place,
        sum(held_ns) OVER most >= all_ns * least(
            coalesce(getvariable('straggler_part'), 0.6) + 0.2 * (row_number() OVER most - 1),
            2 * row_number() OVER most / of_ranks
        ) AS are_late
    FROM sums
    WINDOW most AS (PARTITION BY run, cause ORDER BY held_ns DESC, rank)
),
grouped AS (
    SELECT
        *,
        min(place) FILTER (are_late AND (place = 1 OR 2 * place <= of_ranks)) OVER of_cause AS late_ranks,
        max(CASE WHEN place = 1 THEN behind_ns END) OVER of_cause AS most_behind_ns
    FROM placed
    WINDOW of_cause AS (PARTITION BY run, cause)
),
late AS (
    SELECT
        grouped.*, windows.steps, windows.window_ns, counts.collectives, counts.times_last,
        sum(held_ns) OVER of_cause AS cause_ns,
        list(grouped.rank) OVER of_cause AS ranks,
        CASE
            cause
            WHEN 'input' THEN 'data loading'
            WHEN 'compute' THEN 'computation'
            WHEN 'copy' THEN 'copies'
            ELSE cause
        END AS word
    FROM grouped
    JOIN counts ON grouped.run = counts.run AND grouped.rank = counts.rank
    JOIN shared_windows AS windows ON grouped.run = windows.run AND grouped.rank = windows.rank
    WHERE
        place <= late_ranks
        OR late_ranks IS NOT NULL
        AND (
            held_ns >= all_ns * least(coalesce(getvariable('straggler_part'), 0.6), 2 / of_ranks)
            OR 2 * behind_ns >= most_behind_ns
        )
    WINDOW of_cause AS (PARTITION BY grouped.run, cause)
)
SELECT
    run,
    rank,
    list_sort(ranks) AS ranks,
    'late by ' || cause AS cause,
    severity_of(cause_ns, window_ns) AS severity,
    CASE
        WHEN len(ranks) = 1
            THEN 'Rank ' || rank || ' comes last to ' || format('{:,}', times_last) || ' of ' || format('{:,}', collectives)
            || ' collectives, and is waited for '
        ELSE 'Ranks ' || array_to_string(list_sort(ranks), ', ') || ' come late to collectives, and are waited for '
    END || part_text(cause_ns, window_ns, steps) || ', ' || percent_text(cause_ns / all_ns)
    || ' of all such time of the run, because of ' || CASE WHEN len(ranks) = 1 THEN 'its ' ELSE 'their ' END || word AS finding,
    evidence_events,
    events,
    cause_ns AS estimated_gain_ns,
    'time from the rank before to a late one: without it, collectives could begin' AS gain_basis,
    CASE WHEN len(ranks) = 1 THEN 'rank ' || rank ELSE 'ranks ' || array_to_string(list_sort(ranks), ', ') END
    || ' of ' || of_ranks AS "where",
    CASE cause
        WHEN 'input'
            THEN 'Compare the data with that of the others, and give the DataLoader more workers (num_workers); '
            || '`input_balance` has the waits of all ranks.'
        WHEN 'host'
            THEN 'See what the host does before, with blame(), and compare the processor, and what else runs there, with those '
            || 'of the others.'
        WHEN 'compute'
            THEN 'See which kernels take longer, with blame(), and compare the share of the work and the clock rates with '
            || 'those of the others.'
        WHEN 'communication'
            THEN 'See which link takes longer, with blame(), and compare the network with that of the others.'
    END AS suggestion
FROM late
WHERE place = 1 AND cause_ns >= coalesce(getvariable('straggler_share'), 0.02) * window_ns
