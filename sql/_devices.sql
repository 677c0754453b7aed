-- What keeps a device busy.

-- is_busy: kernels, copies and fills; waiting is no work.
CREATE OR REPLACE TEMP MACRO is_busy(kind) AS kind IN ('kernel', 'memcpy', 'memset');

-- is_call: calls of the runtime or the driver; work on a device is launched by one.
CREATE OR REPLACE TEMP MACRO is_call(kind) AS kind IN ('runtime', 'driver');

-- is_collective: kernels of the libraries for communication between devices, by how they are called.
CREATE OR REPLACE TEMP MACRO is_collective(name) AS coalesce(regexp_matches(
    name, '(?i)[nrh]ccl|hcom_|^reduce_async|oneccl|nvshmem|deep_?ep|cross_device_reduce|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all'
), false);

-- device_class: a fill is computation, as a kernel that writes zeros is.
CREATE OR REPLACE TEMP MACRO device_class(kind, name) AS
CASE
    WHEN kind = 'memcpy' THEN 'copy'
    WHEN kind = 'kernel' AND is_collective(name) THEN 'communication'
    WHEN is_busy(kind) THEN 'compute'
END;

-- device_work: one row per slice that keeps a device busy, with its end and its class.
-- A class is found once per name, not once per row.
CREATE OR REPLACE TEMP MACRO device_work(events) AS TABLE
WITH work AS (
    SELECT
        run, rank, event_id, kind, name, device, stream, start_ns, dur_ns, start_ns + dur_ns AS end_ns,
        step, launch_id, op_id, correlation, bytes, collective, process_group
    FROM query_table(events)
    WHERE is_busy(kind) AND start_ns IS NOT NULL AND dur_ns IS NOT NULL
),
classes AS (
    SELECT kind, name, device_class(kind, name) AS class
    FROM (SELECT DISTINCT kind, name FROM work)
)
SELECT work.*, classes.class
FROM work
JOIN classes ON work.kind = classes.kind AND work.name IS NOT DISTINCT FROM classes.name;

-- device_intervals: what keeps the devices of each (run, rank) busy, for interval_masks: bit 1 compute, 2 communication, 4 copy.
CREATE OR REPLACE TEMP MACRO device_intervals(events) AS TABLE
SELECT
    {'run': run, 'rank': rank} AS key, start_ns, end_ns,
    CASE class WHEN 'compute' THEN 1 WHEN 'communication' THEN 2 ELSE 4 END AS bit
FROM device_work(events);
