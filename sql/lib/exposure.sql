-- What exposed communication consists of: waiting for the last rank, or transfer.
-- In a bare shell read `devices.sql`, `lanes.sql`, `collectives.sql`, `intervals.sql`, `steps.sql` and `busy.sql` of `sql/lib`
-- first.

-- exposed_stretches: the exposed communication of each (run, rank), in stretches of a single class. While several collectives
-- run, it is transfer if one of them has all its ranks, else waiting if one of them is known to wait.
-- parameter events TABLE  `events`, or a part of it
-- parameter waits TABLE  rows of collective_waits
-- column run, rank  as in events
-- column start_ns BIGINT  start of the stretch
-- column end_ns BIGINT  its end
-- column is_transfer BOOLEAN  whether all ranks had come; false while it waited for one; NULL if not known
-- example: WITH matches AS (FROM collective_matches(events, traces)), waits AS (FROM collective_waits(matches, traces, false))
-- FROM exposed_stretches(events, waits)
CREATE OR REPLACE TEMP MACRO exposed_stretches(events, waits) AS TABLE
WITH busy AS MATERIALIZED (
    FROM device_intervals(events)
    WHERE bit < 4
),
marked AS (
    SELECT key, start_ns, end_ns, 1 AS bit
    FROM interval_masks('busy')
    WHERE mask = 2
    UNION ALL
    SELECT {'run': run, 'rank': rank}, start_ns, start_ns + least(wait_ns, dur_ns), 4
    FROM query_table(waits)
    WHERE wait_ns IS NOT NULL
    UNION ALL
    SELECT {'run': run, 'rank': rank}, start_ns + least(wait_ns, dur_ns), start_ns + dur_ns, 2
    FROM query_table(waits)
    WHERE wait_ns IS NOT NULL
)
SELECT
    key.run AS run, key.rank AS rank, start_ns, end_ns,
    CASE WHEN mask & 2 > 0 THEN true WHEN mask & 4 > 0 THEN false END AS is_transfer
FROM interval_masks('marked')
WHERE mask & 1 > 0;

-- exposed_waits: how much of the exposed communication in windows was waiting, and how much transfer. The rest is not known.
-- parameter events TABLE  `events`, or a part of it
-- parameter waits TABLE  rows of collective_waits
-- parameter windows TABLE  windows: `run`, `rank`, `event_id`, `start_ns` and `end_ns`
-- column run, rank, event_id  as in windows
-- column wait_ns BIGINT  time waiting for the last rank
-- column transfer_ns BIGINT  time of transfer
-- example: WITH matches AS (FROM collective_matches(events, traces)), waits AS (FROM collective_waits(matches, traces, false)),
-- windows AS (FROM device_breakdown(events)) FROM exposed_waits(events, waits, windows)
CREATE OR REPLACE TEMP MACRO exposed_waits(events, waits, windows) AS TABLE
WITH stretches AS (
    FROM exposed_stretches(events, waits)
    WHERE is_transfer IS NOT NULL
),
clocks AS MATERIALIZED (
    SELECT
        *,
        coalesce(sum(end_ns - start_ns) FILTER (NOT is_transfer) OVER before, 0) AS waited_ns,
        coalesce(sum(end_ns - start_ns) FILTER (is_transfer) OVER before, 0) AS transferred_ns
    FROM stretches
    WINDOW before AS (PARTITION BY run, rank ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
edges AS (
    SELECT run, rank, event_id, unnest([start_ns, end_ns]) AS at_ns, unnest([-1, 1]) AS sign
    FROM query_table(windows)
),
shown AS (
    SELECT
        edges.run, edges.rank, edges.event_id, edges.sign,
        waited_ns + CASE WHEN is_transfer THEN 0 ELSE least(at_ns, end_ns) - start_ns END AS waited_ns,
        transferred_ns + CASE WHEN is_transfer THEN least(at_ns, end_ns) - start_ns ELSE 0 END AS transferred_ns
    FROM edges
    ASOF LEFT JOIN clocks ON edges.run = clocks.run AND edges.rank = clocks.rank AND edges.at_ns >= clocks.start_ns
)
SELECT
    run, rank, event_id,
    coalesce(sum(sign * waited_ns), 0)::BIGINT AS wait_ns,
    coalesce(sum(sign * transferred_ns), 0)::BIGINT AS transfer_ns
FROM shown
GROUP BY run, rank, event_id;
