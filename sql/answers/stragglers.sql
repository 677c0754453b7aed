-- stragglers: which rank the others wait for, how often, for how long, and what took it longer before.
-- One row per (run, rank) that takes part in collectives with others; with per=op or per=kernel one for each op or kernel before.
-- Ordered by run, the time by which it held up others, the longest first, then by rank and names.
-- Counts the rows of `collectives` that at least two ranks take part in. A rank comes last if it starts a collective last, and
-- not at the same time as all others; on a tie it is the lowest. The time by which it holds up the job is what the job would gain
-- if it came with the others: the last rank holds it up from the arrival of the second-to-last. If several ranks are late, the
-- job would gain if all of them came with the median rank; each rank that comes later than that gets a share, from the arrival of
-- the rank before it. Shares relate to the collectives that the rank takes part in, not to all. What makes a rank late to several
-- collectives, because they overlap or the others go on meanwhile, counts once: see counted_delays of sql/lib/blame.sql. For each
-- rank, held_up_ns and shared_ns add up to what blame reports. Clocks are corrected if clock_skew knows all offsets; otherwise
-- times are as recorded, and is_corrected says so.
-- `excess` is what took longer than on the rank before it since both were last together, by the times of its devices, as in
-- late_parts: its host, input, compute, copy, communication, or wait, for another rank or where nothing was recorded. Why it is
-- late is another question: see `cause` of blame, which follows the critical path and gives op and module. The two differ if one
-- of these times hides another, such as a kernel that takes longer on a stream that nothing waits for. What it did before is the
-- longest host op or annotation on the calling thread, wholly between the call of the rank's previous collective on that thread
-- and this one; if the call is not known, on any thread of the rank and between the starts of the two. And the longest kernel,
-- copy or fill that started on its devices between these starts. Communication itself does not count.
-- In a bare shell read from `sql/lib` first: lanes, devices, collectives, intervals, steps, busy, inputs, blame.
-- needs: events, traces, recorded_collectives
-- recorded: collective_calls, several_ranks
-- no rows: no collective has two ranks or more here, with starts on clocks that can be compared
-- divides by: run
-- main columns: rank, held_up_ns, times_last, last_share, communication_ns, mean_wait_ns, before_op, excess, collectives
-- main columns: max_held_up_ns, wait_ns, late_ns, before_kernel
-- parameter per       VARCHAR(rank|op|kernel) = rank   what each row is
-- parameter corrected BOOLEAN                 = true   correct clocks by the offsets of clock_skew, if all are known
-- run              VARCHAR       run that the trace belongs to
-- rank             INTEGER       rank within the run
-- before_op        VARCHAR       host op before; per rank, that of the longest hold-ups; NULL if not known, or per kernel
-- before_kernel    VARCHAR       kernel, copy or fill before; per rank, likewise; NULL if not known, or per op
-- collectives      BIGINT        number of collectives that it took part in with others
-- times_last       BIGINT        number of them that it reached last
-- last_share       DOUBLE  0..1  times_last over collectives
-- times_first      BIGINT        number of them that it reached first, the lowest rank on a tie
-- held_up_ns       BIGINT  ns    sum of the times by which it held up the job, see above
-- max_held_up_ns   BIGINT  ns    the longest of these times; NULL if it never came last
-- shared_ns        BIGINT  ns    sum of its shares if it came late, but not last, see above
-- excess           VARCHAR       what took longer for most of held_up_ns and shared_ns, see above; NULL if never late
-- excess_ns        BIGINT  ns    how much longer it took
-- late_ns          BIGINT  ns    sum over its collectives of its start minus the first rank's
-- mean_late_ns     BIGINT  ns    mean of that, rounded half up
-- max_late_ns      BIGINT  ns    largest of that
-- wait_ns          BIGINT  ns    sum of its own waits; a straggler waits the least
-- mean_wait_ns     BIGINT  ns    mean of that, rounded half up
-- communication_ns BIGINT  ns    sum of the durations of its collectives, including waits
-- is_corrected     BOOLEAN       whether clocks were corrected in all of them
WITH matches AS MATERIALIZED (
    FROM all_matches(events, traces, recorded_collectives)
),
arrivals AS MATERIALIZED (
    FROM collective_waits(matches, traces, coalesce(getvariable('corrected'), true))
    WHERE came_ns IS NOT NULL
),
waits AS MATERIALIZED (
    SELECT *, last_rank = rank AND start_skew_ns > 0 AS is_last FROM counted_delays(events, arrivals)
),
calls AS MATERIALIZED (
    SELECT
        run, rank, number, line, at_ns, start_ns,
        CASE
            WHEN line = -1 THEN lag(start_ns) OVER (PARTITION BY run, rank ORDER BY start_ns, number)
            ELSE lag(at_ns) OVER (PARTITION BY run, rank, line ORDER BY at_ns, number)
        END AS since_ns,
        lag(start_ns) OVER (PARTITION BY run, rank ORDER BY start_ns, number) AS since_start_ns,
        behind_ns > 0 OR coalesce(getvariable('per'), 'rank') <> 'rank' AS needs_cause
    FROM (SELECT *, coalesce(call_thread, -1) AS line, coalesce(call_ns, start_ns) AS at_ns FROM waits)
),
own_names AS (
    SELECT name
    FROM events
    WHERE is_op(kind) AND name IS NOT NULL
    GROUP BY name
    HAVING
        regexp_matches(
            any_value(name),
            '(?i)[nrh]ccl|hcom_|oneccl|nvshmem|deep_?ep|cross_device_reduce|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all'
        )
        OR regexp_matches(any_value(name), '^(c10d|_c10d|gloo:|mpi:|ProfilerStep#|record_param_comms)')
),
-- One number for each thread of a rank, so that no texts are compared by time, and one for each call in the order of time.
lines AS MATERIALIZED (
    SELECT run, rank, line, row_number() OVER () AS lane
    FROM (SELECT DISTINCT run, rank, line FROM calls)
),
line_calls AS MATERIALIZED (
    SELECT calls.*, lane, row_number() OVER (ORDER BY lane, at_ns, number) AS place
    FROM calls
    JOIN lines USING (run, rank, line)
),
rank_calls AS MATERIALIZED (
    SELECT calls.*, lane, row_number() OVER (ORDER BY lane, start_ns, number) AS place
    FROM calls
    JOIN (SELECT run, rank, min(lane) AS lane FROM lines GROUP BY run, rank) AS ranks USING (run, rank)
),
ops AS (
    SELECT lines.lane, start_ns, dur_ns, start_ns + dur_ns AS end_ns, event_id, name
    FROM (
        SELECT
            run, rank, start_ns, dur_ns, event_id, name,
            unnest(CASE WHEN (SELECT bool_or(line = -1) FROM calls) THEN [thread, -1] ELSE [thread] END) AS line
        FROM events
        WHERE
            is_op(kind)
            AND start_ns IS NOT NULL
            AND dur_ns IS NOT NULL
            AND name NOT IN (FROM own_names)
            AND coalesce(getvariable('per'), 'rank') <> 'kernel'
    ) AS op
    JOIN lines ON op.run = lines.run AND op.rank = lines.rank AND op.line = lines.line
),
-- The next call is the one after those that were counted.
before_op AS (
    SELECT
        calls.run, calls.rank, calls.number,
        arg_max(ops.name, {'ns': ops.dur_ns, 'at': ops.start_ns, 'id': -ops.event_id}) AS name
    FROM (
        SELECT * EXCLUDE (is_call), (1 + sum(is_call) OVER (ROWS UNBOUNDED PRECEDING))::BIGINT AS place
        FROM (
            SELECT lane, start_ns, dur_ns, end_ns AS at_ns, event_id, name, 0 AS is_call FROM ops
            UNION ALL BY NAME
            SELECT lane, at_ns, 1 AS is_call FROM line_calls
            ORDER BY lane, at_ns, is_call
        )
    ) AS ops
    JOIN line_calls AS calls ON ops.place = calls.place AND ops.lane = calls.lane
    WHERE ops.event_id IS NOT NULL AND calls.needs_cause AND (calls.since_ns IS NULL OR ops.start_ns >= calls.since_ns)
    GROUP BY calls.run, calls.rank, calls.number
),
before_kernel AS (
    SELECT
        calls.run, calls.rank, calls.number,
        arg_max(work.name, {'ns': work.dur_ns, 'at': work.start_ns, 'id': -work.event_id}) AS name
    FROM (
        SELECT * EXCLUDE (is_call), (1 + sum(is_call) OVER (ROWS UNBOUNDED PRECEDING))::BIGINT AS place
        FROM (
            SELECT ranks.lane, start_ns, dur_ns, event_id, name, 0 AS is_call
            FROM device_work(events)
            JOIN (SELECT DISTINCT run, rank, lane FROM rank_calls) AS ranks USING (run, rank)
            WHERE class <> 'communication' AND coalesce(getvariable('per'), 'rank') <> 'op'
            UNION ALL BY NAME
            SELECT lane, start_ns, 1 AS is_call FROM rank_calls
            ORDER BY lane, start_ns, is_call DESC
        )
    ) AS work
    JOIN rank_calls AS calls ON work.place = calls.place AND work.lane = calls.lane
    WHERE
        work.event_id IS NOT NULL AND calls.needs_cause
        AND (calls.since_start_ns IS NULL OR work.start_ns >= calls.since_start_ns)
    GROUP BY calls.run, calls.rank, calls.number
),
calls_of_ranks AS MATERIALIZED (
    SELECT
        waits.run, waits.rank, waits.match, waits.number, before_op.name AS before_op, before_kernel.name AS before_kernel,
        wait_ns, late_ns, dur_ns, is_corrected, is_last,
        first_rank = waits.rank AND start_skew_ns > 0 AS is_first,
        held_up_ns, behind_ns,
        CASE WHEN coalesce(getvariable('per'), 'rank') <> 'rank' THEN coalesce(before_op.name, before_kernel.name) END AS what
    FROM waits
    LEFT JOIN before_op
        ON waits.run = before_op.run AND waits.rank = before_op.rank AND waits.number = before_op.number
    LEFT JOIN before_kernel
        ON waits.run = before_kernel.run AND waits.rank = before_kernel.rank AND waits.number = before_kernel.number
),
of_op AS (
    SELECT run, rank, what, before_op, sum(behind_ns) AS behind_ns
    FROM calls_of_ranks
    WHERE before_op IS NOT NULL
    GROUP BY ALL
),
of_kernel AS (
    SELECT run, rank, what, before_kernel, sum(behind_ns) AS behind_ns
    FROM calls_of_ranks
    WHERE before_kernel IS NOT NULL
    GROUP BY ALL
),
worst_op AS (
    SELECT run, rank, what, first(before_op ORDER BY behind_ns DESC, before_op) AS name
    FROM of_op
    GROUP BY ALL
),
worst_kernel AS (
    SELECT run, rank, what, first(before_kernel ORDER BY behind_ns DESC, before_kernel) AS name
    FROM of_kernel
    GROUP BY ALL
),
pairs AS MATERIALIZED (
    FROM late_pairs(waits)
),
-- MATERIALIZED: without it DuckDB 2.0.0 waits for ever where no collective has two ranks and ops are many.
excesses AS MATERIALIZED (
    SELECT run, rank, what, first(excess ORDER BY part_ns DESC, excess) AS excess, max(part_ns) AS excess_ns
    FROM (
        SELECT calls.run, calls.rank, calls.what, parts.excess, sum(parts.part_ns)::BIGINT AS part_ns
        FROM late_parts(events, waits, pairs) AS parts
        JOIN calls_of_ranks AS calls ON parts.run = calls.run AND parts.rank = calls.rank AND parts.match = calls.match
        GROUP BY ALL
    )
    GROUP BY ALL
),
sums AS (
    SELECT
        run, rank, what,
        count(*) AS collectives,
        count(*) FILTER (WHERE is_last) AS times_last,
        count(*) FILTER (WHERE is_first) AS times_first,
        try_cast(sum(held_up_ns) AS BIGINT) AS held_up_ns,
        max(held_up_ns) FILTER (WHERE is_last) AS max_held_up_ns,
        try_cast(sum(behind_ns) - sum(held_up_ns) AS BIGINT) AS shared_ns,
        try_cast(sum(late_ns) AS BIGINT) AS late_ns,
        max(late_ns) AS max_late_ns,
        try_cast(sum(wait_ns) AS BIGINT) AS wait_ns,
        try_cast(sum(dur_ns) AS BIGINT) AS communication_ns,
        bool_and(is_corrected) AS is_corrected
    FROM calls_of_ranks
    GROUP BY run, rank, what
)
SELECT
    sums.run,
    sums.rank,
    worst_op.name AS before_op,
    worst_kernel.name AS before_kernel,
    collectives,
    times_last,
    times_last / collectives AS last_share,
    times_first,
    held_up_ns,
    max_held_up_ns,
    shared_ns,
    excesses.excess,
    excesses.excess_ns,
    late_ns,
    (late_ns + collectives // 2) // collectives AS mean_late_ns,
    max_late_ns,
    wait_ns,
    (wait_ns + collectives // 2) // collectives AS mean_wait_ns,
    communication_ns,
    is_corrected
FROM sums
LEFT JOIN worst_op
    ON sums.run = worst_op.run AND sums.rank = worst_op.rank AND sums.what IS NOT DISTINCT FROM worst_op.what
LEFT JOIN worst_kernel
    ON sums.run = worst_kernel.run AND sums.rank = worst_kernel.rank AND sums.what IS NOT DISTINCT FROM worst_kernel.what
LEFT JOIN excesses
    ON sums.run = excesses.run AND sums.rank = excesses.rank AND sums.what IS NOT DISTINCT FROM excesses.what
ORDER BY sums.run, held_up_ns DESC, sums.rank, before_op, before_kernel
