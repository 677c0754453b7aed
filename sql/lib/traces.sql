-- What is in each trace as a whole.

-- trace_slices: one row per (run, rank) with events: how many of what, and from when to when without the profiler's own span.
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
    count(DISTINCT step) AS steps,
    sum(self_ns) FILTER (WHERE kind = 'host_op') AS op_self_ns,
    sum(dur_ns) FILTER (WHERE kind = 'kernel') AS kernel_ns
FROM (
    SELECT
        run, rank, kind, thread, device, step,
        count(*) AS events, min(start_ns) AS start_ns, max(start_ns + coalesce(dur_ns, 0)) AS end_ns,
        sum(self_ns) AS self_ns, sum(dur_ns) AS dur_ns
    FROM query_table(events)
    GROUP BY ALL
)
GROUP BY run, rank;
