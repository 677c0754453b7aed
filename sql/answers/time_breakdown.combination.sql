-- time_breakdown(per=combination): how long the devices of each trace computed, communicated and copied, alone and together.
-- One row per (run, rank, what was running together), the longest first, then by run, rank and classes.
-- The devices of a rank are taken together. The rows do not overlap: they add up to the time in which any device was busy.
-- Memory fills count as computation. Communication is what events.kernel_category says.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy.
-- needs: events
-- recorded: device_work
-- no rows: no device work has a start and a duration
-- divides by: rank
-- main columns: classes, total_ns, share
-- run       VARCHAR        run that the trace belongs to
-- rank      INTEGER        rank within the run
-- classes   VARCHAR        what was running: compute, communication, copy, or several of them in this order, joined by +
-- total_ns  BIGINT   ns    time in which exactly these were running
-- share     DOUBLE   0..1  total_ns over the time in which any device of the rank was busy
WITH busy AS (
    SELECT * FROM device_intervals(events)
),
times AS (
    SELECT key.run AS run, key.rank AS rank, mask, sum(end_ns - start_ns) AS total_ns
    FROM interval_moments('busy')
    WHERE mask > 0
    GROUP BY key, mask
)
SELECT
    run,
    rank,
    concat_ws(
        '+',
        CASE WHEN mask & 1 > 0 THEN 'compute' END,
        CASE WHEN mask & 2 > 0 THEN 'communication' END,
        CASE WHEN mask & 4 > 0 THEN 'copy' END
    ) AS classes,
    total_ns::BIGINT AS total_ns,
    total_ns / sum(total_ns) OVER (PARTITION BY run, rank) AS share
FROM times
ORDER BY times.total_ns DESC, run, rank, classes
