-- queue_depth: how much work was waiting for each stream: launched but not begun.
-- One row per (run, rank, device, stream, moment in which the number changes), in this order.
-- Each kernel, copy or fill waits from the start of the call that launched it to its own start; a graph launch puts all of its
-- work into the queue at once. Work whose launch is not in the trace does not count. A depth below 0 means work that starts
-- before its call, on clocks that disagree. With `points`, the time of a stream with more changes is cut into half as many equal
-- parts. Each part with changes has two rows, for its greatest and its least depth, the earliest on a tie; or one row if the two
-- are the same.
-- In a bare shell read from `sql/lib` first: lanes, devices, queues.
-- needs: events
-- recorded: launches
-- no rows: no device work has both a start and the start of its launch
-- divides by: rank
-- main columns: time_ns, depth, device, stream
-- parameter points  BIGINT                 = 0       maximum rows per stream, from 2; 0 for every change
-- parameter per     VARCHAR(change|stream) = change  what each row is
-- run      VARCHAR      run that the trace belongs to
-- rank     INTEGER      rank within the run
-- device   INTEGER      index of the device; NULL if the source does not say
-- stream   INTEGER      stream of the device; NULL if the source does not say
-- time_ns  BIGINT   ns  time, on the clock that traces.clock names
-- depth    BIGINT       pieces of work that wait from then until the next row of the stream
WITH changes AS MATERIALIZED (
    SELECT run, rank, device, stream, time_ns, depth FROM queue_changes(events)
),
streams AS (
    SELECT
        run, rank, device, stream,
        min(time_ns) AS start_ns,
        max(time_ns)::HUGEINT - min(time_ns) + 1 AS span_ns,
        greatest(points // 2, 1) AS parts
    FROM changes, (SELECT coalesce(getvariable('points'), 0) AS points)
    GROUP BY run, rank, device, stream, points
    HAVING points > 0 AND count(*) > points
),
placed AS MATERIALIZED (
    SELECT changes.*, ((changes.time_ns::HUGEINT - streams.start_ns) * streams.parts // streams.span_ns)::BIGINT AS part
    FROM changes
    JOIN streams
        ON changes.run = streams.run
        AND changes.rank = streams.rank
        AND changes.device IS NOT DISTINCT FROM streams.device
        AND changes.stream IS NOT DISTINCT FROM streams.stream
),
parts AS (
    SELECT run, rank, device, stream, part, max(depth) AS greatest, min(depth) AS least
    FROM placed
    GROUP BY ALL
),
kept AS (
    SELECT changes.*
    FROM changes
    LEFT JOIN streams
        ON changes.run = streams.run
        AND changes.rank = streams.rank
        AND changes.device IS NOT DISTINCT FROM streams.device
        AND changes.stream IS NOT DISTINCT FROM streams.stream
    WHERE streams.run IS NULL
    UNION ALL
    SELECT placed.run, placed.rank, placed.device, placed.stream, min(placed.time_ns) AS time_ns, placed.depth
    FROM placed
    JOIN parts
        ON placed.run = parts.run
        AND placed.rank = parts.rank
        AND placed.device IS NOT DISTINCT FROM parts.device
        AND placed.stream IS NOT DISTINCT FROM parts.stream
        AND placed.part = parts.part
        AND placed.depth IN (parts.greatest, parts.least)
    GROUP BY placed.run, placed.rank, placed.device, placed.stream, placed.part, placed.depth
)
SELECT run, rank, device, stream, time_ns, depth
FROM kept
ORDER BY run, rank, device NULLS LAST, stream NULLS LAST, time_ns
