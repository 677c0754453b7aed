-- The contents of each trace as a whole.

-- trace_slices: one row per (run, rank) with events: counts, and the time span without the profiler's own span.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank  as in events
-- column events BIGINT  number of slices
-- column start_ns BIGINT  first start
-- column end_ns BIGINT  last end
-- column threads BIGINT  number of threads with host slices
-- column devices BIGINT  number of devices with work
-- column kernels BIGINT  number of kernels
-- column op_self_ns HUGEINT  self time of all ops
-- column kernel_ns HUGEINT  time of all kernels
-- example: FROM trace_slices(events)
CREATE OR REPLACE TEMP MACRO trace_slices(events) AS TABLE
SELECT
    run,
    rank,
    sum(events)::BIGINT AS events,
    min(start_ns) FILTER (WHERE kind <> 'profiler') AS start_ns,
    max(end_ns) FILTER (WHERE kind <> 'profiler') AS end_ns,
    count(DISTINCT thread) FILTER (
        WHERE kind IN ('host_op', 'annotation', 'python', 'runtime', 'driver', 'overhead', 'other')
    ) AS threads,
    count(DISTINCT device) FILTER (WHERE is_busy(kind)) AS devices,
    coalesce(sum(events) FILTER (WHERE kind = 'kernel'), 0)::BIGINT AS kernels,
    sum(self_ns) FILTER (WHERE kind = 'host_op') AS op_self_ns,
    sum(dur_ns) FILTER (WHERE kind = 'kernel') AS kernel_ns
FROM (
    SELECT
        run, rank, kind, thread, device,
        count(*) AS events, min(start_ns) AS start_ns, max(start_ns + coalesce(dur_ns, 0)) AS end_ns,
        sum(self_ns) AS self_ns, sum(dur_ns) AS dur_ns
    FROM query_table(events)
    WHERE replays IS NULL
    GROUP BY ALL
)
GROUP BY run, rank;
