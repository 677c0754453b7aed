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
-- windows AS (FROM step_breakdown(events, profiler_steps, 'step')) FROM exposed_waits(events, waits, windows)
CREATE OR REPLACE TEMP MACRO exposed_waits(events, waits, windows) AS TABLE
WITH stretches AS (
    FROM exposed_stretches(events, waits)
    WHERE is_transfer IS NOT NULL
),
edges AS (
    SELECT run, rank, event_id, unnest([start_ns, end_ns]) AS at_ns, unnest([-1, 1]) AS sign
    FROM query_table(windows)
),
-- Until each edge, all stretches that began, without what is left of the last of them: they do not overlap.
shown AS (
    SELECT
        run, rank, event_id, sign, at_ns,
        sum(CASE WHEN is_transfer THEN 0 ELSE end_ns - at_ns END) OVER in_order AS waited_ns,
        sum(CASE WHEN is_transfer THEN end_ns - at_ns ELSE 0 END) OVER in_order AS transferred_ns,
        last_value(end_ns IGNORE NULLS) OVER in_order AS last_end_ns,
        last_value(is_transfer IGNORE NULLS) OVER in_order AS last_is_transfer
    FROM (
        SELECT run, rank, start_ns AS at_ns, end_ns, is_transfer FROM stretches
        UNION ALL BY NAME
        FROM edges
    )
    WINDOW in_order AS (PARTITION BY run, rank ORDER BY at_ns, sign NULLS FIRST ROWS UNBOUNDED PRECEDING)
)
SELECT
    run, rank, event_id,
    coalesce(
        sum(sign * (waited_ns - CASE WHEN NOT last_is_transfer AND last_end_ns > at_ns THEN last_end_ns - at_ns ELSE 0 END)), 0
    )::BIGINT AS wait_ns,
    coalesce(
        sum(sign * (transferred_ns - CASE WHEN last_is_transfer AND last_end_ns > at_ns THEN last_end_ns - at_ns ELSE 0 END)), 0
    )::BIGINT AS transfer_ns
FROM shown
WHERE sign IS NOT NULL
GROUP BY run, rank, event_id;
