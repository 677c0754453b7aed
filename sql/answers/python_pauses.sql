-- python_pauses: waits for Python's lock (GIL), who held it meanwhile, and garbage collections.
-- One row per (run, rank, thread) or (run, rank, step), by run, rank, step, the largest wait_ns first, then collection_ns.
-- Waits and holds are the ranges `Waiting for GIL` and `Holding GIL` of `nsys profile --trace=python-gil` (kind `gil`),
-- collections the slices `Python GC` of torch's profiler. What a rank has no record of at all is NULL, not 0. A wait counts in
-- the step that it starts in. Each process has its own GIL; a thread holds it, at most, until another of the process takes it.
-- In a bare shell read from `sql/lib` first: key_events.
-- needs: events, threads
-- recorded: gil|collections
-- divides by: rank
-- main columns: thread_name, wait_ns, max_wait_ns, waits, holder_name, collection_ns, collections, step, max_collection_ns
-- main columns: thread, holder_share, hold_ns
-- parameter per VARCHAR(thread|step) = thread  what each row is; threads of a step are added up
-- run                VARCHAR       run that the trace belongs to
-- rank               INTEGER       rank within the run
-- thread             INTEGER       thread that waited, held or collected; NULL per step
-- thread_name        VARCHAR       its name, or its id if it has none
-- step               BIGINT        profiler step; NULL per thread, and outside steps
-- waits              BIGINT        number of waits for the GIL; NULL if none is recorded on the rank
-- wait_ns            BIGINT  ns    sum of their durations; NULL as waits, or beyond BIGINT
-- max_wait_ns        BIGINT  ns    longest of them
-- holder_name        VARCHAR       name or id of the thread that held the GIL for most of wait_ns; NULL if no other thread did
-- holder_share       DOUBLE  0..1  part of wait_ns in which holder_name held the GIL
-- collections        BIGINT        number of garbage collections; NULL if none is recorded on the rank
-- collection_ns      BIGINT  ns    sum of their durations
-- max_collection_ns  BIGINT  ns    longest of them
-- holds              BIGINT        number of times that the thread held the GIL; NULL if none is recorded on the rank
-- hold_ns            BIGINT  ns    sum of their durations
-- max_hold_ns        BIGINT  ns    longest of them
-- p50_wait_ns        BIGINT  ns    median wait, one of the values
-- max_wait_start_ns  BIGINT  ns    start of the longest wait, the first on a tie
-- holder             INTEGER       thread of holder_name, the lowest on a tie
WITH slices AS MATERIALIZED (
    SELECT
        run, rank, thread, step, event_id, start_ns, dur_ns, try(start_ns + dur_ns) AS end_ns,
        dense_rank() OVER (ORDER BY run, rank, pid) AS process,
        CASE WHEN kind <> 'gil' THEN 'collection' WHEN name = 'Holding GIL' THEN 'hold' ELSE 'wait' END AS what,
        CASE WHEN coalesce(getvariable('per'), 'thread') = 'thread' THEN thread END AS line,
        CASE WHEN coalesce(getvariable('per'), 'thread') = 'step' THEN step END AS part
    FROM events
    WHERE kind = 'gil' OR is_collection(kind, name)
),
recorded AS (
    SELECT
        run, rank,
        bool_or(what <> 'collection') AS has_locks,
        bool_or(what = 'collection') AS has_collections
    FROM slices
    GROUP BY run, rank
),
-- Each ends where the next one of its process begins, at the latest, so the n-th to begin is the n-th to end.
holds AS MATERIALIZED (
    SELECT
        process, thread, start_ns,
        least(end_ns, lead(start_ns) OVER in_time) AS end_ns,
        row_number() OVER in_time AS place
    FROM slices
    WHERE what = 'hold' AND end_ns IS NOT NULL AND start_ns IS NOT NULL
    WINDOW in_time AS (PARTITION BY process ORDER BY start_ns, end_ns, event_id)
),
-- The same for the waits of a thread.
waits AS MATERIALIZED (
    SELECT
        run, rank, process, thread, line, part, start_ns,
        least(end_ns, lead(start_ns) OVER in_time) AS end_ns,
        row_number() OVER () AS wait
    FROM slices
    WHERE what = 'wait' AND end_ns IS NOT NULL AND start_ns IS NOT NULL
    WINDOW in_time AS (PARTITION BY process, thread ORDER BY start_ns, end_ns, event_id)
),
-- Sums, as a running count with FILTER takes the square of its rows.
passed AS (
    SELECT
        wait, turn,
        sum(CASE turn WHEN 0 THEN 1 ELSE 0 END) OVER in_time AS ended,
        sum(CASE turn WHEN 3 THEN 1 ELSE 0 END) OVER in_time AS begun
    FROM (
        SELECT process, NULL AS wait, unnest([0, 3]) AS turn, unnest([end_ns, start_ns]) AS at_ns
        FROM holds
        UNION ALL
        SELECT process, wait, unnest([1, 2]) AS turn, unnest([start_ns, end_ns]) AS at_ns
        FROM waits
    )
    WINDOW in_time AS (PARTITION BY process ORDER BY at_ns, turn ROWS UNBOUNDED PRECEDING)
),
places AS (
    SELECT wait, (min(ended) FILTER (turn = 1))::BIGINT AS ended, (max(begun) FILTER (turn = 2))::BIGINT AS begun
    FROM passed
    WHERE wait IS NOT NULL
    GROUP BY wait
),
met AS (
    SELECT waits.*, unnest(range(places.ended + 1, places.begun + 1)) AS place
    FROM waits
    JOIN places ON waits.wait = places.wait
),
held AS (
    SELECT
        met.run, met.rank, met.line, met.part, holds.thread AS holder,
        sum(least(met.end_ns, holds.end_ns) - greatest(met.start_ns, holds.start_ns)) AS held_ns
    FROM met
    JOIN holds ON met.process = holds.process AND met.place = holds.place
    WHERE met.thread <> holds.thread AND greatest(met.start_ns, holds.start_ns) < least(met.end_ns, holds.end_ns)
    GROUP BY ALL
),
holders AS (
    SELECT run, rank, line, part, min({less_ns: -held_ns, holder: holder}) AS top
    FROM held
    GROUP BY run, rank, line, part
),
names AS (
    SELECT run, rank, thread, any_value(coalesce(thread_name, tid)) AS name
    FROM threads
    GROUP BY run, rank, thread
),
sums AS (
    SELECT
        run, rank, line, part,
        count(*) FILTER (what = 'wait') AS waits,
        coalesce(sum(dur_ns) FILTER (what = 'wait'), 0) AS wait_ns,
        max(dur_ns) FILTER (what = 'wait') AS max_wait_ns,
        quantile_disc(dur_ns, 0.5) FILTER (what = 'wait') AS p50_wait_ns,
        min({less_ns: -dur_ns, start_ns: start_ns}) FILTER (what = 'wait' AND dur_ns IS NOT NULL) AS longest,
        count(*) FILTER (what = 'hold') AS holds,
        coalesce(sum(dur_ns) FILTER (what = 'hold'), 0) AS hold_ns,
        max(dur_ns) FILTER (what = 'hold') AS max_hold_ns,
        count(*) FILTER (what = 'collection') AS collections,
        coalesce(sum(dur_ns) FILTER (what = 'collection'), 0) AS collection_ns,
        max(dur_ns) FILTER (what = 'collection') AS max_collection_ns
    FROM slices
    GROUP BY run, rank, line, part
)
SELECT
    sums.run,
    sums.rank,
    sums.line AS thread,
    own.name AS thread_name,
    sums.part AS step,
    CASE WHEN has_locks THEN waits END AS waits,
    CASE WHEN has_locks THEN try_cast(wait_ns AS BIGINT) END AS wait_ns,
    max_wait_ns,
    holding.name AS holder_name,
    -top.less_ns / nullif(wait_ns, 0) AS holder_share,
    CASE WHEN has_collections THEN collections END AS collections,
    CASE WHEN has_collections THEN try_cast(collection_ns AS BIGINT) END AS collection_ns,
    max_collection_ns,
    CASE WHEN has_locks THEN holds END AS holds,
    CASE WHEN has_locks THEN try_cast(hold_ns AS BIGINT) END AS hold_ns,
    max_hold_ns,
    p50_wait_ns,
    longest.start_ns AS max_wait_start_ns,
    top.holder AS holder
FROM sums
JOIN recorded ON sums.run = recorded.run AND sums.rank = recorded.rank
LEFT JOIN holders
    ON sums.run = holders.run AND sums.rank = holders.rank AND sums.line IS NOT DISTINCT FROM holders.line
    AND sums.part IS NOT DISTINCT FROM holders.part
LEFT JOIN names AS own ON sums.run = own.run AND sums.rank = own.rank AND sums.line = own.thread
LEFT JOIN names AS holding ON sums.run = holding.run AND sums.rank = holding.rank AND top.holder = holding.thread
ORDER BY sums.run, sums.rank, step NULLS FIRST, sums.wait_ns DESC, sums.collection_ns DESC, thread NULLS LAST
