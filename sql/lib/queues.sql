-- What waits for a device: launched but not begun.

-- queue_changes: one row per moment at which the number of waiting pieces of work of a stream changes, and the next such moment
-- of the stream, `until_ns`; NULL for the last. Work waits from the start of the call that launched it to its own start; work
-- without a known launch never waits.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, device, stream  as in events
-- column time_ns BIGINT  time of the change
-- column until_ns BIGINT  time of the next change; NULL for the last
-- column depth BIGINT  pieces of work that wait from then on
-- example: FROM queue_changes(events)
CREATE OR REPLACE TEMP MACRO queue_changes(events) AS TABLE
WITH waiting AS MATERIALIZED (
    SELECT run, rank, device, stream, queued_ns, start_ns
    FROM launched_work(events)
    WHERE queued_ns IS NOT NULL
),
lanes AS MATERIALIZED (
    FROM device_lanes('waiting')
),
changes AS (
    SELECT lane, time_ns, sum(change) AS change
    FROM (
        SELECT lane, unnest([queued_ns, start_ns]) AS time_ns, unnest([1, -1]) AS change
        FROM on_device_lanes('waiting', 'lanes')
    )
    GROUP BY lane, time_ns
    HAVING sum(change) <> 0
)
SELECT lanes.run, lanes.rank, lanes.device, lanes.stream, depths.time_ns, depths.until_ns, depths.depth
FROM (
    SELECT
        lane, time_ns,
        CASE WHEN lead(lane) OVER () = lane THEN lead(time_ns) OVER () END AS until_ns,
        (sum(change) OVER (ROWS UNBOUNDED PRECEDING))::BIGINT AS depth
    FROM (FROM changes ORDER BY lane, time_ns)
) AS depths
JOIN few('lanes') AS lanes ON depths.lane = lanes.lane;
