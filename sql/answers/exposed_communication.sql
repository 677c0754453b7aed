-- exposed_communication: when the devices communicated while none of them computed.
-- One row per (run, rank, time span), by run, rank, start_ns.
-- Communication and computation are defined as in time_breakdown: the spans of a rank add up to its exposed_communication_ns.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy.
-- needs: events
-- recorded: communication
-- no rows: all communication is hidden under computation
-- divides by: rank
-- main columns: start_ns, dur_ns
-- run       VARCHAR      run that the trace belongs to
-- rank      INTEGER      rank within the run
-- start_ns  BIGINT   ns  start of the span, on the clock that traces.clock names
-- dur_ns    BIGINT   ns  its duration
WITH busy AS MATERIALIZED (
    FROM device_intervals(events)
    WHERE bit < 4
)
SELECT key.run AS run, key.rank AS rank, start_ns, end_ns - start_ns AS dur_ns
FROM interval_masks('busy')
WHERE mask = 2
ORDER BY run, rank, start_ns
