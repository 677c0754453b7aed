-- What keeps a device busy.

-- is_busy: kernels, copies and fills; waiting is no work.
CREATE OR REPLACE TEMP MACRO is_busy(kind) AS kind IN ('kernel', 'memcpy', 'memset');

-- is_collective: kernels of the libraries for communication between devices, by how they are called.
CREATE OR REPLACE TEMP MACRO is_collective(name) AS coalesce(regexp_matches(
    name, '(?i)[nrh]ccl|hcom_|oneccl|nvshmem|deep_?ep|cross_device_reduce|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all'
), false);

-- device_class: a fill is computation, as a kernel that writes zeros is.
CREATE OR REPLACE TEMP MACRO device_class(kind, name) AS
CASE
    WHEN kind = 'memcpy' THEN 'copy'
    WHEN kind = 'kernel' AND is_collective(name) THEN 'communication'
    WHEN is_busy(kind) THEN 'compute'
END;

-- device_intervals: what keeps the devices of each (run, rank) busy, for interval_masks: bit 1 compute, 2 communication, 4 copy.
CREATE OR REPLACE TEMP MACRO device_intervals(events) AS TABLE
SELECT
    {'run': run, 'rank': rank} AS key, start_ns, start_ns + dur_ns AS end_ns,
    CASE device_class(kind, name) WHEN 'compute' THEN 1 WHEN 'communication' THEN 2 ELSE 4 END AS bit
FROM query_table(events)
WHERE is_busy(kind) AND start_ns IS NOT NULL AND dur_ns IS NOT NULL;
