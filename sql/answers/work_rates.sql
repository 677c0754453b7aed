-- work_rates: how fast each device worked over time: FLOP and bytes per second.
-- One row per (run, rank, device, moment at which a rate changes), in this order.
-- Each kernel, copy or fill does its known work evenly from its start to its end; work that is not known does not count, nor does
-- work without a duration. A rate holds until the next row of the device; the last one of each is 0.
-- In a bare shell read from `sql/lib` first: devices.
-- needs: events
-- recorded: known_work
-- no rows: no work with a duration is of known FLOPs or bytes
-- divides by: rank
-- main columns: time_ns, flop_per_s, bytes_per_s, device
-- run          VARCHAR          run that the trace belongs to
-- rank         INTEGER          rank within the run
-- device       INTEGER          index of the device; NULL if the source does not say
-- time_ns      BIGINT   ns      time, on the clock that traces.clock names
-- flop_per_s   DOUBLE   FLOP/s  known floating-point operations per second from then on
-- bytes_per_s  DOUBLE   bytes/s  known bytes read and written per second from then on
WITH changes AS (
    SELECT run, rank, device, time_ns, sum(sign * flop_rate) AS flop_change, sum(sign * bytes_rate) AS bytes_change
    FROM (
        SELECT
            run, rank, device,
            unnest([start_ns, start_ns + dur_ns]) AS time_ns,
            unnest([1, -1]) AS sign,
            coalesce(flops, 0)::HUGEINT * 1000000000 // dur_ns AS flop_rate,
            coalesce(bytes, 0)::HUGEINT * 1000000000 // dur_ns AS bytes_rate
        FROM events
        WHERE is_busy(kind) AND dur_ns > 0 AND start_ns IS NOT NULL AND coalesce(flops, bytes) IS NOT NULL
    )
    GROUP BY run, rank, device, time_ns
    HAVING flop_change <> 0 OR bytes_change <> 0
)
SELECT
    run,
    rank,
    device,
    time_ns,
    (sum(flop_change) OVER until_now)::DOUBLE AS flop_per_s,
    (sum(bytes_change) OVER until_now)::DOUBLE AS bytes_per_s
FROM changes
WINDOW until_now AS (PARTITION BY run, rank, device ORDER BY time_ns)
ORDER BY run, rank, device NULLS LAST, time_ns
