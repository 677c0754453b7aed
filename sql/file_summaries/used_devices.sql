-- used_devices: devices that did something, and what they are.
-- One row per (run, rank, device), in this order.
-- In a bare shell read from `sql/lib` first: devices.
-- needs: events, devices
-- run       VARCHAR    run that the trace belongs to
-- rank      INTEGER    rank within the run
-- device    INTEGER    index of the device
-- model     VARCHAR    name that the driver gives it, or else the model that it was matched with; NULL where neither is known
-- has_peak  BOOLEAN    the peak rate of its memory is known
WITH used AS (
    SELECT DISTINCT run, rank, device
    FROM events
    WHERE is_busy(kind) AND device IS NOT NULL AND replays IS NULL
)
SELECT
    used.run,
    used.rank,
    used.device,
    coalesce(nullif(trim(devices.name), ''), devices.model) AS model,
    devices.bandwidth_bytes_per_s IS NOT NULL AS has_peak
FROM used
LEFT JOIN devices ON used.run = devices.run AND used.rank = devices.rank AND used.device = devices.device
ORDER BY used.run, used.rank, used.device
