-- self_times: where the time went, by name and kind.
-- One row per (run, rank, name, kind), the largest self_ns first, then by run, rank, name, kind.
-- Every slice with a self time counts, as the source recorded it: duplicates are not merged, names are not rewritten.
-- needs: events
-- recorded: slices
-- no rows: no slice has a self time
-- divides by: rank
-- over ranks: name, kind
-- main columns: name, self_ns, self_share, calls, total_ns, kind, mean_ns, max_ns
-- run         VARCHAR        run that the trace belongs to
-- rank        INTEGER        rank within the run
-- name        VARCHAR        name in the source; NULL if it has none
-- kind        VARCHAR        what the slices are: host_op, kernel, ...
-- calls       BIGINT         number of slices
-- self_ns     BIGINT   ns    time in the slices but not in their children (negative if those overlap); on a device, all time
-- total_ns    BIGINT   ns    sum of durations, overlaps counted twice; NULL if none is known, or beyond BIGINT
-- mean_ns     BIGINT   ns    mean duration, rounded half up
-- min_ns      BIGINT   ns    shortest duration
-- max_ns      BIGINT   ns    longest duration
-- self_share  DOUBLE   0..1  self_ns over all self time of the host, or of the devices for work of devices; NULL if that is 0
WITH sums AS MATERIALIZED ( -- else DuckDB makes a join of the window below, and adds up twice
    SELECT
        run,
        rank,
        name,
        kind,
        count(*) AS calls,
        sum(self_ns) AS self_ns,
        sum(dur_ns) AS total_ns,
        count(dur_ns) AS timed,
        min(dur_ns) AS min_ns,
        max(dur_ns) AS max_ns
    FROM events
    WHERE self_ns IS NOT NULL
    GROUP BY run, rank, name, kind
)
SELECT
    run,
    rank,
    name,
    kind,
    calls,
    try_cast(sums.self_ns AS BIGINT) AS self_ns,
    try_cast(sums.total_ns AS BIGINT) AS total_ns,
    ((2 * sums.total_ns + timed) // nullif(2 * timed, 0))::BIGINT AS mean_ns,
    min_ns,
    max_ns,
    sums.self_ns / nullif(
        sum(sums.self_ns) OVER (PARTITION BY run, rank, kind IN ('kernel', 'memcpy', 'memset')), 0
    ) AS self_share
FROM sums
ORDER BY sums.self_ns DESC, run, rank, name NULLS LAST, kind
