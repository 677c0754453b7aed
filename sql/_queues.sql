-- What waits for a device: launched, and not begun.

-- queue_changes: one row per moment in which the number of waiting pieces of work of a stream changes. A piece of work waits
-- from the start of the call that launched it to its own start; one without a known launch never waits.
CREATE OR REPLACE TEMP MACRO queue_changes(events) AS TABLE
SELECT
    run, rank, device, stream, time_ns,
    (sum(sum(change)) OVER (PARTITION BY run, rank, device, stream ORDER BY time_ns))::BIGINT AS depth
FROM (
    SELECT
        work.run, work.rank, work.device, work.stream,
        unnest([call.start_ns, work.start_ns]) AS time_ns,
        unnest([1, -1]) AS change
    FROM query_table(events) AS work
    JOIN query_table(events) AS call
        ON work.run = call.run AND work.rank = call.rank AND work.launch_id = call.event_id
    WHERE is_busy(work.kind) AND is_call(call.kind) AND work.start_ns IS NOT NULL AND call.start_ns IS NOT NULL
)
GROUP BY run, rank, device, stream, time_ns
HAVING sum(change) <> 0;
