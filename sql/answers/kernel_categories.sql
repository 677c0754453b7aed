-- kernel_categories: where device time went: matrix products, attention, collectives, ...
-- One row per (run, rank, step, device, stream, category, class), the largest total_ns first within a rank, step or stream.
-- Categories are those of events.kernel_category, which `load(kernel_categories=)` extends. Kernels, copies and fills without a
-- start or a duration are left out. A step has what was launched in it. Exposed time is what time_breakdown counts: all
-- computation; communication while nothing on the rank's devices computed; a copy while they did neither. A kernel that only
-- copies counts as computation, and so does a fill. Kernels that compute and communicate at once count as what their category
-- says.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, busy.
-- needs: events
-- recorded: device_work
-- no rows: no device work has a start and a duration
-- divides by: rank
-- over ranks: category, class; step, device, stream
-- main columns: category, step, stream, total_ns, share, exposed_ns, calls, class, device, busy_ns
-- parameter per  VARCHAR(rank|step|stream) = rank  what rows are split by
-- run         VARCHAR        run that the trace belongs to
-- rank        INTEGER        rank within the run
-- step        BIGINT         N of the step; NULL outside steps, and unless per=step
-- device      INTEGER        device; NULL if the source does not say, and unless per=stream
-- stream      INTEGER        stream of the device; NULL if the source does not say, and unless per=stream
-- category    VARCHAR        gemm, attention, ...; other where no pattern matches
-- class       VARCHAR        compute, communication or copy: what it counts as in time_breakdown
-- calls       BIGINT         number of kernels, copies and fills
-- total_ns    BIGINT   ns    sum of their durations, overlaps counted twice; NULL beyond BIGINT
-- share       DOUBLE   0..1  total_ns over the time of all kernels, copies and fills of the rank, step or stream; NULL if 0
-- busy_ns     BIGINT   ns    time in which at least one of them ran
-- exposed_ns  BIGINT   ns    part of busy_ns that time_breakdown counts for their class
-- both_ns     BIGINT   ns    part of total_ns in kernels that compute and communicate at once; NULL beyond BIGINT
WITH work AS MATERIALIZED (
    SELECT
        run, rank, event_id, start_ns, end_ns, class, kernel_category AS category,
        coalesce(computes_and_communicates, false) AS is_mixed,
        CASE WHEN coalesce(getvariable('per'), 'rank') = 'step' THEN step END AS step,
        CASE WHEN coalesce(getvariable('per'), 'rank') = 'stream' THEN device END AS device,
        CASE WHEN coalesce(getvariable('per'), 'rank') = 'stream' THEN stream END AS stream
    FROM device_work(events)
),
groups AS MATERIALIZED (
    SELECT *, row_number() OVER () AS lane, dense_rank() OVER (ORDER BY run, rank) AS rank_lane
    FROM (
        SELECT
            run, rank, step, device, stream, category, class,
            count(*) AS calls,
            sum((end_ns - start_ns)::HUGEINT) AS total_ns,
            sum((end_ns - start_ns)::HUGEINT) FILTER (is_mixed) AS both_ns
        FROM work
        GROUP BY run, rank, step, device, stream, category, class
    )
),
parts AS MATERIALIZED (
    SELECT groups.lane, groups.rank_lane, work.event_id, work.start_ns, work.end_ns, work.class
    FROM work
    JOIN few('groups') AS groups
        ON work.run = groups.run
        AND work.rank = groups.rank
        AND work.step IS NOT DISTINCT FROM groups.step
        AND work.device IS NOT DISTINCT FROM groups.device
        AND work.stream IS NOT DISTINCT FROM groups.stream
        AND work.category IS NOT DISTINCT FROM groups.category
        AND work.class = groups.class
),
-- What is first of compute, communication, copy counts: a clock for each of the others that stands still meanwhile.
sent AS (
    SELECT
        rank_lane AS lane, event_id, class = 'compute' AS computes, class = 'communication' AS communicates, start_ns, end_ns
    FROM parts
    WHERE class <> 'copy'
),
copied AS (
    SELECT rank_lane AS lane, event_id, class <> 'copy' AS computes, class = 'copy' AS communicates, start_ns, end_ns
    FROM parts
),
clocks AS (
    FROM communication_clock('sent')
    UNION ALL
    FROM communication_clock('copied')
),
alone AS MATERIALIZED (
    SELECT parts.lane, clocks.alone_ns AS start_ns, clocks.alone_end_ns AS end_ns
    FROM parts
    JOIN clocks ON parts.rank_lane = clocks.lane AND parts.event_id = clocks.event_id
    WHERE parts.class <> 'compute'
),
exposed AS (
    FROM covered_time('alone')
),
busy AS (
    FROM covered_time('parts')
)
SELECT
    groups.run,
    groups.rank,
    groups.step,
    groups.device,
    groups.stream,
    groups.category,
    groups.class,
    groups.calls,
    try_cast(groups.total_ns AS BIGINT) AS total_ns,
    groups.total_ns
    / nullif(sum(groups.total_ns) OVER (PARTITION BY groups.run, groups.rank, groups.step, groups.device, groups.stream), 0)
        AS share,
    busy.covered_ns::BIGINT AS busy_ns,
    CASE WHEN groups.class = 'compute' THEN busy.covered_ns ELSE coalesce(exposed.covered_ns, 0) END::BIGINT AS exposed_ns,
    try_cast(coalesce(groups.both_ns, 0) AS BIGINT) AS both_ns
FROM groups
JOIN busy ON groups.lane = busy.lane
LEFT JOIN exposed ON groups.lane = exposed.lane
ORDER BY groups.run, groups.rank, step NULLS LAST, device NULLS LAST, stream NULLS LAST, groups.total_ns DESC, category, class
