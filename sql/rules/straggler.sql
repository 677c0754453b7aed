-- straggler: other ranks wait again and again for one rank, or for several with the same cause.
-- One row per run, for the cause that costs most; slow transfers have one of their own.
-- Collectives are matched across the ranks of the run, on one clock if the offsets of `clock_skew` are known. It counts how far a
-- rank is behind the one before it, as in `stragglers`, by what took longer than on that rank for most of the delay: its
-- `excess`. Whether that is why the rank is late is up to the replay. A rank that is late because it waited itself, for another
-- rank or before anything was recorded, is not to blame and does not count. In a run without a straggler each rank is late now
-- and then. So it is a finding only if one rank, or up to half of the ranks together, have twice their even share of that time,
-- or three fifths of it if ranks are few (and a fifth more for each further rank). Ranks that come at least half as late for the
-- same cause belong to it. The job must gain at least a fiftieth of the time if they arrived with the others: counted from the
-- last of the others to the last of them.
-- suggestion: See with blame() what they do before, and compare their data, their input pipeline and their clock rates with those
-- of the other ranks.
-- link: https://docs.pytorch.org/docs/stable/distributed.html#debugging-torch-distributed-applications
-- replay: stragglers, the late ranks doing this as the median rank does, and all else, as what_if(stragglers=False)
-- claims: exposed
-- only if: (SELECT count(DISTINCT rank) > 1 FROM traces)
-- needs: events, traces
-- parameter straggler_share DOUBLE = 0.02  least share of the time for a finding
-- parameter straggler_part  DOUBLE = 0.6   share of all waiting time that is enough in any run
WITH several AS MATERIALIZED (
    SELECT run, count(*) AS ranks
    FROM shared_windows
    GROUP BY run
    HAVING count(*) > 1
),
waits AS MATERIALIZED (
    SELECT
        shared_waits.*,
        came_ns - lower_median(list(came_ns) OVER of_match) AS beyond_ns
    FROM shared_waits
    JOIN shared_windows AS windows ON shared_waits.run = windows.run AND shared_waits.rank = windows.rank
    WHERE windows.steps = 0 OR shared_waits.step IS NOT NULL
    WINDOW of_match AS (PARTITION BY shared_waits.run, match)
),
pairs AS MATERIALIZED (
    FROM late_pairs('waits')
),
causes AS (
    SELECT run, rank, match, first(excess ORDER BY part_ns DESC, excess) AS cause
    FROM late_parts(events, 'waits', 'pairs')
    GROUP BY run, rank, match
),
held AS (
    SELECT waits.run, waits.rank, waits.match, causes.cause, waits.event_id, waits.behind_ns, waits.beyond_ns
    FROM waits
    JOIN causes ON waits.run = causes.run AND waits.rank = causes.rank AND waits.match = causes.match
    WHERE causes.cause <> 'wait' AND waits.behind_ns > 0
),
counts AS (
    SELECT
        run, rank, count(*) AS collectives, count(*) FILTER (last_rank = rank AND start_skew_ns > 0) AS times_last
    FROM waits
    GROUP BY run, rank
),
sums AS (
    SELECT
        held.run, held.rank, cause, several.ranks AS of_ranks, sum(behind_ns) AS own_ns, sum(beyond_ns) AS beyond_ns,
        sum(sum(behind_ns)) OVER (PARTITION BY held.run) AS all_ns,
        strongest(event_id, behind_ns) AS evidence_events,
        count(*) AS events
    FROM held
    JOIN several ON held.run = several.run
    GROUP BY held.run, held.rank, cause, several.ranks
),
placed AS (
    SELECT
        *,
        row_number() OVER most AS place,
        sum(own_ns) OVER most >= all_ns * least(
            coalesce(getvariable('straggler_part'), 0.6) + 0.2 * (row_number() OVER most - 1),
            2 * row_number() OVER most / of_ranks
        ) AS are_late
    FROM sums
    WINDOW most AS (PARTITION BY run, cause ORDER BY own_ns DESC, rank)
),
grouped AS (
    SELECT
        *,
        min(place) FILTER (are_late AND (place = 1 OR 2 * place <= of_ranks)) OVER of_cause AS late_ranks,
        max(CASE WHEN place = 1 THEN beyond_ns END) OVER of_cause AS most_beyond_ns
    FROM placed
    WINDOW of_cause AS (PARTITION BY run, cause)
),
late AS (
    SELECT *
    FROM grouped
    WHERE
        place <= late_ranks
        OR late_ranks IS NOT NULL
        AND (
            own_ns >= all_ns * least(coalesce(getvariable('straggler_part'), 0.6), 2 / of_ranks)
            OR 2 * beyond_ns >= most_beyond_ns
        )
),
-- Without the late ones a collective begins when the last of the others comes.
gains AS (
    SELECT
        run, cause, sum(held_up(last_ns, others_ns)) AS gain_ns,
        flatten(list(list_transform(
            waiting,
            lambda w: {'rank': w.rank, 'start_ns': others_ns + w.offset_ns, 'end_ns': last_ns + w.offset_ns}
        ))) AS spans
    FROM (
        SELECT
            causes.run, causes.cause, max(waits.came_ns) AS last_ns,
            max(waits.came_ns) FILTER (held.rank IS NULL) AS others_ns,
            list({'rank': waits.rank, 'offset_ns': waits.start_ns - waits.came_ns}) FILTER (held.rank IS NULL) AS waiting
        FROM (SELECT DISTINCT run, cause FROM late) AS causes
        JOIN waits ON causes.run = waits.run
        LEFT JOIN (FROM held SEMI JOIN late USING (run, rank, cause)) AS held
            ON waits.run = held.run AND waits.rank = held.rank AND waits.match = held.match AND causes.cause = held.cause
        GROUP BY causes.run, causes.cause, waits.match
    )
    GROUP BY run, cause
),
shown_late AS (
    SELECT
        late.*, gains.gain_ns, gains.spans, windows.steps, windows.window_ns, counts.collectives, counts.times_last,
        list(late.rank) OVER of_cause AS ranks,
        CASE
            late.cause
            WHEN 'input' THEN 'data loading'
            WHEN 'compute' THEN 'computation'
            WHEN 'copy' THEN 'copies'
            ELSE late.cause
        END AS word
    FROM late
    JOIN gains ON late.run = gains.run AND late.cause = gains.cause
    JOIN counts ON late.run = counts.run AND late.rank = counts.rank
    JOIN shared_windows AS windows ON late.run = windows.run AND late.rank = windows.rank
    WINDOW of_cause AS (PARTITION BY late.run, late.cause)
)
SELECT
    run,
    rank,
    list_sort(ranks) AS ranks,
    'late by ' || cause AS cause,
    severity_of(gain_ns, window_ns) AS severity,
    CASE
        WHEN len(ranks) = 1
            THEN 'Rank ' || rank || ' comes last to ' || format('{:,}', times_last) || ' of ' || format('{:,}', collectives)
            || ' collectives, and others wait for it '
        ELSE 'Ranks ' || array_to_string(list_sort(ranks), ', ') || ' come late to collectives, and others wait for them '
    END || claimed_part() || ', ' || percent_text(gain_ns / all_ns)
    || ' of all such waits in the run; before them, '
    || CASE WHEN len(ranks) = 1 THEN 'its ' ELSE 'their ' END || word || ' takes longer' AS finding,
    evidence_events,
    events,
    spans AS claimed,
    gain_ns AS claimed_ns,
    coalesce(getvariable('straggler_share'), 0.02) * window_ns AS least_ns,
    gain_ns AS estimated_gain_ns,
    CASE
        WHEN len(ranks) = 1 THEN 'time from the second-to-last rank to this one: until then the collective cannot begin'
        ELSE 'time from the last of the other ranks to these: until then the collective cannot begin'
    END AS gain_basis,
    CASE WHEN len(ranks) = 1 THEN 'rank ' || rank ELSE 'ranks ' || array_to_string(list_sort(ranks), ', ') END
    || ' of ' || of_ranks AS "where",
    CASE cause
        WHEN 'input'
            THEN 'Compare the data with that of the others, and give the DataLoader more workers (num_workers); '
            || '`input_balance` has the waits of all ranks.'
        WHEN 'host'
            THEN 'See with blame() what the host does before, and compare the processor, and what else runs there, with those '
            || 'of the others.'
        WHEN 'compute'
            THEN 'See with blame() which kernels take longer, and compare the share of the work and the clock rates with '
            || 'those of the others.'
        WHEN 'communication'
            THEN 'See with blame() which link takes longer, and compare the network with that of the others.'
    END AS suggestion
FROM shown_late
WHERE place = 1 AND gain_ns >= coalesce(getvariable('straggler_share'), 0.02) * window_ns
QUALIFY row_number() OVER (PARTITION BY run, cause = 'communication' ORDER BY gain_ns DESC, cause) = 1
