-- What makes ranks late: what each did before a collective, compared with the rank that came before it.
-- In a bare shell read `devices.sql`, `inputs.sql`, `lanes.sql`, `collectives.sql`, `intervals.sql`, `steps.sql`
-- and `busy.sql` of `sql/lib` first.

-- counted_delays: rows of collective_waits, in which each delay of a rank counts once. A rank that is late to a collective is
-- late to the next ones, too, as long as the others go on meanwhile: collectives overlap each other and computation, and hosts
-- run ahead. So its excess is added up along its program: from each launch of a collective or start of a step to the next, how
-- much longer than on the median rank its host took, without blocking calls, or its ops did if that is more (not all that blocks
-- is recorded), plus how much longer its device work and transfers took. A delay is due to the latest of this excess, from the
-- part of the program in which it began: what of that made the rank late to collectives before counts there. Where ranks
-- launched different numbers of other collectives since the last one of the group, it is the excess since then, less what was
-- added in between. `held_up_ns` and `behind_ns` are without what counts at another collective, and `late_since_ns` is of the
-- first collective that the rank was late to for what counts here.
-- parameter events TABLE  `events`, or a part of it
-- parameter waits TABLE  rows of collective_waits whose came_ns is known
-- column *  as in waits
-- example: WITH matches AS (FROM collective_matches(events, traces)), waits AS (FROM collective_waits(matches, traces, true))
-- FROM counted_delays(events, waits)
CREATE OR REPLACE TEMP MACRO counted_delays(events, waits) AS TABLE
WITH ranks AS MATERIALIZED (
    SELECT run, rank, row_number() OVER () AS lane
    FROM (SELECT DISTINCT run, rank FROM query_table(waits))
),
blocking AS (
    SELECT name
    FROM query_table(events)
    WHERE is_call(kind)
    GROUP BY name
    HAVING is_blocking(any_value(name))  -- a pattern, tried on distinct names
),
-- Texts are compared here, and not carried along.
of_ranks AS MATERIALIZED (
    SELECT
        lane, event_id, start_ns, dur_ns, launch_id, is_call(kind) AS is_host,
        is_call(kind) AND name IN (FROM blocking) AS blocks,
        coalesce(device_class(kind, kernel_category) <> 'communication', false) AS computes
    FROM query_table(events) AS slice
    JOIN ranks ON slice.run = ranks.run AND slice.rank = ranks.rank
    WHERE start_ns IS NOT NULL AND dur_ns IS NOT NULL AND (is_busy(kind) OR is_call(kind))
),
of_hosts AS (
    FROM of_ranks
    WHERE is_host
),
members AS (
    SELECT
        ranks.lane, waits.match, waits.process_group, coalesce(launch.start_ns, waits.call_ns, waits.start_ns) AS at_ns,
        waits.start_ns, waits.dur_ns, least(waits.wait_ns, waits.dur_ns) AS wait_ns, waits.behind_ns, waits.late_since_ns,
        work.lane IS NULL OR launch.lane IS NULL AND call_ns IS NULL AS is_blocking
    FROM query_table(waits) AS waits
    JOIN ranks ON waits.run = ranks.run AND waits.rank = ranks.rank
    LEFT JOIN of_ranks AS work ON ranks.lane = work.lane AND waits.event_id = work.event_id
    LEFT JOIN of_hosts AS launch ON ranks.lane = launch.lane AND work.launch_id = launch.event_id
    UNION ALL BY NAME
    -- Steps divide a program that has few collectives: their numbers are negative, so that they equal no match.
    SELECT ranks.lane, -dense_rank() OVER (ORDER BY mark.run, mark.name) AS match, mark.start_ns AS at_ns, false AS is_blocking
    FROM query_table(events) AS mark
    JOIN ranks ON mark.run = ranks.run AND mark.rank = ranks.rank
    WHERE mark.kind = 'annotation' AND mark.name LIKE 'ProfilerStep#%' AND mark.start_ns IS NOT NULL
),
calls AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY lane, at_ns, match) AS place
    FROM members
),
-- A clock for each rank that runs while its host is not blocked.
moments AS (
    SELECT lane, start_ns, start_ns + dur_ns AS end_ns, 0 AS event_id, NULL::BIGINT AS place
    FROM of_hosts
    WHERE blocks
    UNION ALL
    SELECT lane, start_ns, start_ns + wait_ns, 0, NULL
    FROM calls
    WHERE is_blocking
    UNION ALL
    SELECT lane, at_ns, at_ns, 1, place
    FROM calls
),
host AS (
    SELECT place, start_ns - (run_ns - greatest(free_ns - start_ns, 0)) AS host_ns
    FROM (SELECT *, sum(added_ns) OVER (ROWS UNBOUNDED PRECEDING) AS run_ns FROM busy_order('moments'))
    WHERE place IS NOT NULL
),
-- Another one that runs as long as the work of its devices that was launched takes.
works AS (
    SELECT work.lane, coalesce(launch.start_ns, work.start_ns) AS at_ns, work.dur_ns, 0::BIGINT AS self_ns
    FROM of_ranks AS work
    LEFT JOIN of_hosts AS launch ON work.lane = launch.lane AND work.launch_id = launch.event_id
    WHERE work.computes
    UNION ALL
    SELECT lane, at_ns, dur_ns - wait_ns, 0
    FROM calls
    WHERE behind_ns IS NOT NULL
    UNION ALL
    SELECT ranks.lane, op.start_ns, 0, op.self_ns
    FROM query_table(events) AS op
    JOIN ranks ON op.run = ranks.run AND op.rank = ranks.rank
    WHERE op.kind = 'host_op' AND op.self_ns > 0 AND op.collective IS NULL
),
-- Sorted once: what began before each call.
device AS (
    SELECT place, work_ns, self_ns
    FROM (
        SELECT place, sum(dur_ns) OVER so_far AS work_ns, sum(self_ns) OVER so_far AS self_ns
        FROM (
            SELECT lane, at_ns, coalesce(dur_ns, 0) AS dur_ns, self_ns, NULL::BIGINT AS place FROM works
            UNION ALL
            SELECT lane, at_ns, 0, 0, place FROM calls
            ORDER BY lane, at_ns, place IS NULL
        )
        WINDOW so_far AS (ROWS UNBOUNDED PRECEDING)
    )
    WHERE place IS NOT NULL
),
clocks AS (
    SELECT
        calls.*, host_ns, work_ns, self_ns,
        calls.place - coalesce(
            lag(calls.place) OVER (PARTITION BY calls.lane, calls.process_group ORDER BY calls.place),
            first(calls.place) OVER (PARTITION BY calls.lane ORDER BY calls.place)
        ) AS since
    FROM calls
    JOIN host ON calls.place = host.place
    JOIN device ON calls.place = device.place
),
-- What was done since the call before, or where ranks differ in their calls, since the last one of the group.
spans AS (
    SELECT *, CASE WHEN is_alike THEN 1 ELSE since END AS back
    FROM (
        SELECT *, min(since) OVER of_match = max(since) OVER of_match AS is_alike
        FROM clocks
        WINDOW of_match AS (PARTITION BY match)
    )
),
own AS (
    SELECT
        * REPLACE (
            host_ns - lag(host_ns, back) OVER of_rank AS host_ns,
            work_ns - lag(work_ns, back) OVER of_rank AS work_ns,
            self_ns - lag(self_ns, back) OVER of_rank AS self_ns
        )
    FROM spans
    WINDOW of_rank AS (PARTITION BY lane ORDER BY place)
),
beyond AS (
    SELECT
        lane, match, place, behind_ns, late_since_ns, since, is_alike,
        -- The greater of the two, not their sum: an op that takes longer makes its host take longer, too. Where other ranks were
        -- blocked meanwhile without a record, only the ops show it.
        greatest(
            host_ns - lower_median(list(host_ns) OVER of_match), self_ns - lower_median(list(self_ns) OVER of_match), 0
        )
        + greatest(work_ns - lower_median(list(work_ns) OVER of_match), 0) AS beyond_ns
    FROM own
    WINDOW of_match AS (PARTITION BY match)
),
excesses AS (
    SELECT
        lane, match, place, behind_ns, late_since_ns,
        CASE
            WHEN is_alike THEN beyond_ns
            ELSE greatest(
                beyond_ns - coalesce(
                    sum(beyond_ns) FILTER (is_alike) OVER (
                        PARTITION BY lane ORDER BY place ROWS BETWEEN greatest(since - 1, 0) PRECEDING AND 1 PRECEDING
                    ),
                    0
                ),
                0
            )
        END::BIGINT AS excess_ns
    FROM beyond
),
summed AS MATERIALIZED (
    SELECT * REPLACE ((sum(excess_ns) OVER (PARTITION BY lane ORDER BY place))::BIGINT AS excess_ns), excess_ns AS own_ns
    FROM excesses
),
-- The reason begins with the part of the program in which the rank had so much of its excess.
late AS (
    SELECT late.*, coalesce(parts.begun_ns, late.since_ns) AS begun_ns
    FROM (SELECT *, excess_ns - behind_ns AS since_ns FROM summed WHERE behind_ns > 0) AS late
    ASOF LEFT JOIN (SELECT lane, (excess_ns - own_ns)::BIGINT AS begun_ns FROM summed WHERE own_ns > 0) AS parts
        ON late.lane = parts.lane AND late.since_ns >= parts.begun_ns
),
delays AS (
    SELECT
        lane, match, end_ns - behind_ns AS start_ns, end_ns, late_since_ns,
        row_number() OVER (ORDER BY end_ns DESC, place) AS event_id
    FROM (
        SELECT *, least(begun_ns + (sum(behind_ns) OVER of_part)::BIGINT, excess_ns) AS end_ns
        FROM late
        WINDOW of_part AS (PARTITION BY lane, begun_ns ORDER BY place)
    )
),
counted AS (
    SELECT
        lane, match, added_ns::BIGINT AS added_ns,
        min(late_since_ns) OVER (
            PARTITION BY lane ORDER BY end_ns
            RANGE BETWEEN greatest(added_ns::BIGINT - 1, 0) PRECEDING AND CURRENT ROW
        ) AS late_since_ns
    FROM busy_order('delays')
)
SELECT
    waits.* REPLACE (
        CASE WHEN waits.held_up_ns > 0 THEN counted.added_ns ELSE waits.held_up_ns END AS held_up_ns,
        coalesce(counted.added_ns, waits.behind_ns) AS behind_ns,
        coalesce(counted.late_since_ns, waits.late_since_ns) AS late_since_ns
    )
FROM query_table(waits) AS waits
LEFT JOIN ranks ON waits.run = ranks.run AND waits.rank = ranks.rank
LEFT JOIN counted ON ranks.lane = counted.lane AND waits.match = counted.match;

-- late_pairs: one row per rank that is late to a collective, with the rank before it and the last moment at which both were
-- together: when the last rank came to the previous collective that both take part in. Until then neither can be late. If waits
-- are of counted_delays, it is the collective before the first one that the rank was late to for the same excess.
-- parameter waits TABLE  rows of collective_waits, or of counted_delays
-- column run  as in events
-- column match, step  as in collective_waits
-- column held_up_ns, behind_ns, came_ns  as in waits
-- column rank INTEGER  rank that is late
-- column before_rank INTEGER  rank that came before it
-- column event_id BIGINT  event_id of the late rank's first kernel
-- column before_event_id BIGINT  event_id of the first kernel of the rank before
-- column start_ns BIGINT  start on the late rank, by its own clock
-- column before_start_ns BIGINT  start on the rank before, by its own clock
-- column before_came_ns BIGINT  came_ns of the rank before
-- column since_ns BIGINT  start of the comparison on the clock of the late rank; NULL: since the other was recorded
-- column before_since_ns BIGINT  the same on the clock of the rank before
-- example: WITH matches AS (FROM collective_matches(events, traces)), waits AS (FROM collective_waits(matches, traces, true))
-- FROM late_pairs(waits)
CREATE OR REPLACE TEMP MACRO late_pairs(waits) AS TABLE
WITH wholes AS MATERIALIZED (
    SELECT run, match, is_corrected, list(rank ORDER BY rank) AS ranks, max(came_ns) AS last_ns
    FROM query_table(waits)
    WHERE came_ns IS NOT NULL
    GROUP BY run, match, is_corrected
),
groups AS (
    SELECT run, is_corrected, ranks, row_number() OVER () AS number
    FROM (SELECT DISTINCT run, is_corrected, ranks FROM wholes)
),
late AS MATERIALIZED (
    SELECT
        late.run, late.match, late.step, late.is_corrected, late.held_up_ns, late.behind_ns, late.rank, late.before_rank,
        late.event_id, other.event_id AS before_event_id, late.start_ns, other.start_ns AS before_start_ns, late.came_ns,
        other.came_ns AS before_came_ns, late.late_since_ns
    FROM query_table(waits) AS late
    JOIN query_table(waits) AS other ON late.match = other.match AND late.before_rank = other.rank
    WHERE late.behind_ns > 0
),
shared_groups AS (
    SELECT pairs.rank, pairs.before_rank, groups.number
    FROM (SELECT DISTINCT run, is_corrected, rank, before_rank FROM late) AS pairs
    JOIN groups
        ON pairs.run = groups.run AND pairs.is_corrected = groups.is_corrected
        AND list_contains(groups.ranks, pairs.rank) AND list_contains(groups.ranks, pairs.before_rank)
),
moments AS (
    SELECT groups.number, wholes.last_ns
    FROM wholes
    JOIN groups ON wholes.run = groups.run AND wholes.is_corrected = groups.is_corrected AND wholes.ranks = groups.ranks
),
wanted AS (
    SELECT late.match, late.rank, shared_groups.number, late.late_since_ns, late.before_came_ns
    FROM late
    JOIN groups ON late.run = groups.run AND late.is_corrected = groups.is_corrected
    JOIN shared_groups
        ON groups.number = shared_groups.number AND late.rank = shared_groups.rank
        AND late.before_rank = shared_groups.before_rank
),
together AS (
    SELECT match, rank, coalesce(max(since_ns) FILTER (is_first), max(since_ns)) AS since_ns
    FROM (
        SELECT
            match, rank, is_first,
            last_value(last_ns IGNORE NULLS) OVER (
                PARTITION BY number ORDER BY at_ns, match NULLS FIRST ROWS UNBOUNDED PRECEDING
            ) AS since_ns
        FROM (
            SELECT number, last_ns AS at_ns, last_ns FROM moments
            UNION ALL BY NAME
            SELECT number, late_since_ns AS at_ns, match, rank, true AS is_first FROM wanted
            UNION ALL BY NAME
            SELECT number, before_came_ns AS at_ns, match, rank, false AS is_first FROM wanted
        )
    )
    WHERE match IS NOT NULL AND since_ns IS NOT NULL
    GROUP BY match, rank
)
SELECT
    late.run, late.match, late.step, late.held_up_ns, late.behind_ns, late.rank, late.before_rank, late.event_id,
    late.before_event_id, late.start_ns, late.before_start_ns, late.came_ns, late.before_came_ns,
    together.since_ns + late.start_ns - late.came_ns AS since_ns,
    together.since_ns + late.before_start_ns - late.before_came_ns AS before_since_ns
FROM late
LEFT JOIN together ON late.match = together.match AND late.rank = together.rank;

-- late_parts: what took longer on a late rank than on the rank before it, by what its devices did: one row per rank that is late
-- to a collective and `excess`; the parts add up to behind_ns. Computation counts first, then communication, copies, and of the
-- rest the input; what remains is the host's. These are times, not reasons: a kernel that nothing waits for counts as much as one
-- that everything waits for. The reason is on the critical path of the rank, which `blame` follows. Ranks that were never
-- together are compared from when the one before was recorded. A rank without devices has no wait except where nothing was
-- recorded.
-- parameter events TABLE  `events`, or a part of it
-- parameter waits TABLE  rows of collective_waits
-- parameter pairs TABLE  rows of late_pairs
-- column run, rank  as in events
-- column match  as in collective_waits
-- column excess VARCHAR  host, input, compute, copy, communication or wait
-- column part_ns BIGINT  how much longer it took; negative if it took less
-- example: WITH matches AS (FROM collective_matches(events, traces)), waits AS (FROM collective_waits(matches, traces, true)),
-- pairs AS (FROM late_pairs(waits)) FROM late_parts(events, waits, pairs)
CREATE OR REPLACE TEMP MACRO late_parts(events, waits, pairs) AS TABLE
WITH ranks AS MATERIALIZED (
    SELECT run, rank, 8 * row_number() OVER () AS lane
    FROM (
        SELECT run, rank
        FROM query_table(pairs)
        UNION
        SELECT run, before_rank
        FROM query_table(pairs)
    )
),
of_pairs AS (
    FROM query_table(events)
    SEMI JOIN ranks USING (run, rank)
),
firsts AS MATERIALIZED (
    SELECT run, rank, min(start_ns) AS first_ns
    FROM of_pairs
    WHERE kind <> 'profiler'
    GROUP BY run, rank
),
-- Each clock is ahead of that of came_ns by the difference of the two.
compared AS MATERIALIZED (
    SELECT
        pairs.*, other.first_ns AS before_first_ns,
        greatest(
            late.first_ns, other.first_ns - pairs.before_start_ns + pairs.before_came_ns + pairs.start_ns - pairs.came_ns
        ) AS first_ns
    FROM query_table(pairs) AS pairs
    JOIN firsts AS late ON pairs.run = late.run AND pairs.rank = late.rank
    JOIN firsts AS other ON pairs.run = other.run AND pairs.before_rank = other.rank
),
sides AS MATERIALIZED (
    SELECT
        run, match, rank AS late_rank, behind_ns, rank, coalesce(since_ns, least(first_ns, start_ns)) AS since_ns, start_ns,
        1 AS sign
    FROM compared
    UNION ALL
    SELECT
        run, match, rank, behind_ns, before_rank, coalesce(before_since_ns, least(before_first_ns, before_start_ns)),
        before_start_ns, -1
    FROM compared
),
work AS MATERIALIZED (
    SELECT run, rank, start_ns, end_ns, CASE class WHEN 'compute' THEN 1 WHEN 'communication' THEN 3 ELSE 4 END AS level
    FROM device_work('of_pairs')
),
parts AS (
    FROM work
    UNION ALL
    SELECT run, rank, start_ns, start_ns + least(wait_ns, dur_ns), 2
    FROM query_table(waits)
    SEMI JOIN (SELECT DISTINCT run, rank FROM work) AS with_devices USING (run, rank)
    UNION ALL
    SELECT run, rank, start_ns, start_ns + dur_ns, 5
    FROM of_pairs
    WHERE is_data_load(name) AND start_ns IS NOT NULL AND dur_ns IS NOT NULL
),
-- Each level includes the levels before it: the difference of two levels belongs to the higher one alone.
levels AS (
    SELECT ranks.lane + levels.level AS lane, parts.start_ns, parts.end_ns
    FROM parts
    JOIN ranks ON parts.run = ranks.run AND parts.rank = ranks.rank
    JOIN range(1, 6) AS levels(level) ON parts.level <= levels.level
),
bounds AS MATERIALIZED (
    SELECT sides.*, ranks.lane
    FROM sides
    JOIN ranks ON sides.run = ranks.run AND sides.rank = ranks.rank
),
edges AS (
    SELECT
        run, match, late_rank, levels.level, lane + levels.level AS lane,
        unnest([since_ns, start_ns]) AS at_ns, unnest([-sign, sign]) AS sign
    FROM bounds, range(1, 6) AS levels(level)
),
-- Edges are intervals of zero length, at which a clock is read that runs while a lane is busy. Its readings go on from lane to
-- lane: only the difference of two edges counts.
moments AS (
    SELECT *, 0 AS event_id FROM levels
    UNION ALL BY NAME
    SELECT run, match, late_rank, level, sign, lane, at_ns AS start_ns, at_ns AS end_ns, 1 AS event_id FROM edges
),
covered AS (
    SELECT run, match, late_rank, level, sum(sign * (run_ns - greatest(free_ns - start_ns, 0))) AS ns
    FROM (SELECT *, sum(added_ns) OVER (ROWS UNBOUNDED PRECEDING) AS run_ns FROM busy_order('moments'))
    WHERE sign IS NOT NULL
    GROUP BY run, match, late_rank, level
),
sums AS (
    SELECT
        bounds.run, bounds.match, bounds.late_rank, any_value(behind_ns) AS behind_ns,
        sum(sign * (start_ns - since_ns)) AS recorded_ns
    FROM bounds
    GROUP BY bounds.run, bounds.match, bounds.late_rank
),
known AS (
    SELECT run, match, late_rank, level, ns
    FROM covered
    UNION ALL
    SELECT run, match, late_rank, 6, recorded_ns
    FROM sums
    UNION ALL
    SELECT run, match, late_rank, unnest([0, 7]), unnest([0, behind_ns])
    FROM sums
),
differences AS (
    SELECT run, match, late_rank, level, coalesce(ns, 0) - coalesce(lag(ns) OVER of_pair, 0) AS part_ns
    FROM (
        SELECT sums.run, sums.match, sums.late_rank, levels.level, max(known.ns) AS ns
        FROM sums
        CROSS JOIN range(0, 8) AS levels(level)
        LEFT JOIN known
            ON sums.run = known.run AND sums.match = known.match AND sums.late_rank = known.late_rank
            AND levels.level = known.level
        GROUP BY ALL
    )
    WINDOW of_pair AS (PARTITION BY run, match, late_rank ORDER BY level)
)
SELECT
    run, late_rank AS rank, match,
    ['compute', 'wait', 'communication', 'copy', 'input', 'host', 'wait'][level] AS excess,
    sum(part_ns)::BIGINT AS part_ns
FROM differences
WHERE level > 0
GROUP BY ALL
HAVING sum(part_ns) <> 0;
