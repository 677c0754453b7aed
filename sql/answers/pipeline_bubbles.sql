-- pipeline_bubbles: how long each pipeline rank waited for others: before, between and after its work.
-- One row per (run, rank, step, pass), by run, step, pass and rank.
-- Actions are those of pipeline_actions; busy is the time in which at least one action with a working stage was open. The
-- pipeline lasts from the first start to the last end of such actions on any rank of the run: busy_ns, warmup_ns, steady_ns and
-- cooldown_ns add up to it. If the ranks' clocks may not be comparable, it is known only for single ranks. ideal_share is (p - 1)
-- / (v m + p - 1), the bubble of 1F1B or GPipe (v = 1) or interleaved stages if stages are equal and transfers free, with p
-- ranks, v stages per rank and m microbatches; a zero-bubble schedule can have less.
-- In a bare shell read from `sql/lib` first: lanes, devices, collectives, intervals, steps, busy, pipelines.
-- needs: events, traces
-- recorded: slices
-- no rows: no annotation, Python frame or message is one of a pipeline schedule
-- divides by: run
-- main columns: rank, bubble_ns, bubble_share, ideal_share, window_ns, busy_ns, warmup_ns, cooldown_ns, stages, microbatches
-- main columns: step, pass
-- parameter corrected BOOLEAN = true  correct clocks by the offsets of clock_skew, if all are known
-- run             VARCHAR        run that the trace belongs to
-- rank            INTEGER        rank within the run
-- step            BIGINT         profiler step; NULL outside steps
-- pass            BIGINT         n-th time that the step goes through the pipeline, from 1
-- stages          VARCHAR        stages of the rank: 0,4; NULL if not known
-- microbatches    BIGINT         number of microbatches, the most of any stage
-- actions         BIGINT         number of the rank's actions with a working stage
-- start_ns        BIGINT   ns    start of the first action, on the clock that traces.clock names
-- window_ns       BIGINT   ns    first start to last end of the pipeline; NULL if clocks cannot be compared
-- busy_ns         BIGINT   ns    time in which at least one action of the rank was open
-- bubble_ns       BIGINT   ns    the rest of window_ns
-- bubble_share    DOUBLE   0..1  bubble_ns over window_ns; NULL if that is 0
-- warmup_ns       BIGINT   ns    part of bubble_ns before the rank's first action
-- steady_ns       BIGINT   ns    part between its actions: the sum of idle_ns in pipeline_actions
-- cooldown_ns     BIGINT   ns    part after its last action
-- pipeline_ranks  BIGINT         ranks in the pipeline, from stages or messages, loaded or not; NULL if not known
-- ideal_share     DOUBLE   0..1  bubble_share of equal stages, see above; NULL if pipeline_ranks is
-- is_corrected    BOOLEAN        whether clocks were corrected
WITH actions AS MATERIALIZED (
    FROM pipeline_actions(events)
),
sums AS MATERIALIZED (
    SELECT
        run, rank, step, pass,
        array_to_string(list_sort(list(DISTINCT stage)), ',') AS stages,
        count(DISTINCT stage) AS own_stages,
        max(stage) AS last_stage,
        max(places) AS places,
        count(*) AS actions,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns,
        sum(added_ns)::BIGINT AS busy_ns,
        sum(gap_ns)::BIGINT AS steady_ns
    FROM pipeline_order(actions)
    GROUP BY run, rank, step, pass
),
counts AS (
    SELECT run, step, pass, max(microbatches) AS microbatches
    FROM (
        SELECT run, step, pass, count(*) AS microbatches
        FROM pipeline_order(actions)
        WHERE starts_with(phase, 'forward')
        GROUP BY run, rank, step, pass, stage
    )
    GROUP BY ALL
),
matches AS MATERIALIZED (
    FROM collective_matches(events, traces)
),
offsets AS (
    FROM clock_offsets(matches)
    WHERE coalesce(getvariable('corrected'), true)
),
clocks AS (
    SELECT
        run, step, pass,
        count(DISTINCT rank) AS ranks,
        bool_and(offset_ns IS NOT NULL) AS is_corrected,
        count(DISTINCT rank) = 1
        OR bool_and(offset_ns IS NOT NULL)
        OR min(clock) IS NOT DISTINCT FROM max(clock) AND count(clock) IN (0, count(*)) AND min(clock) IS DISTINCT FROM 'unknown'
            AS is_comparable,
        max(places) AS places,
        max(own_stages) AS own_stages,
        max(last_stage) + 1 AS all_stages
    FROM sums
    LEFT JOIN offsets USING (run, rank)
    LEFT JOIN (SELECT run, rank, clock FROM traces) AS clocks USING (run, rank)
    GROUP BY run, step, pass
),
placed AS (
    SELECT
        sums.* EXCLUDE (places, own_stages), clocks.is_comparable, clocks.is_corrected,
        start_ns - CASE WHEN clocks.is_corrected THEN offsets.offset_ns ELSE 0 END AS came_ns,
        end_ns - CASE WHEN clocks.is_corrected THEN offsets.offset_ns ELSE 0 END AS left_ns,
        clocks.own_stages,
        greatest(clocks.places, -(-clocks.all_stages // clocks.own_stages)) AS pipeline_ranks
    FROM sums
    JOIN clocks
        ON sums.run = clocks.run AND sums.step IS NOT DISTINCT FROM clocks.step AND sums.pass = clocks.pass
    LEFT JOIN offsets ON sums.run = offsets.run AND sums.rank = offsets.rank
),
windows AS (
    SELECT
        *,
        CASE WHEN is_comparable THEN came_ns - min(came_ns) OVER pipeline END AS warmup_ns,
        CASE WHEN is_comparable THEN max(left_ns) OVER pipeline - left_ns END AS cooldown_ns
    FROM placed
    WINDOW pipeline AS (PARTITION BY run, step, pass)
)
SELECT
    windows.run,
    windows.rank,
    windows.step,
    windows.pass,
    nullif(stages, '') AS stages,
    coalesce(microbatches, 0) AS microbatches,
    actions,
    start_ns,
    warmup_ns + busy_ns + steady_ns + cooldown_ns AS window_ns,
    busy_ns,
    warmup_ns + steady_ns + cooldown_ns AS bubble_ns,
    (warmup_ns + steady_ns + cooldown_ns) / nullif(warmup_ns + busy_ns + steady_ns + cooldown_ns, 0) AS bubble_share,
    warmup_ns,
    steady_ns,
    cooldown_ns,
    pipeline_ranks,
    (pipeline_ranks - 1) / nullif(own_stages * microbatches + pipeline_ranks - 1, 0) AS ideal_share,
    coalesce(is_corrected, false) AS is_corrected
FROM windows
LEFT JOIN counts
    ON windows.run = counts.run AND windows.step IS NOT DISTINCT FROM counts.step AND windows.pass = counts.pass
ORDER BY windows.run, windows.step NULLS FIRST, windows.pass, windows.rank
