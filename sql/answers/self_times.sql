-- self_times: where the time went, by name and kind.
-- One row per (run, rank, name, kind), the largest self_ns first, then by run, rank, name, kind.
-- Every slice that has a self time counts, as the source recorded it: no duplicate is merged, no name rewritten.
-- needs: events
-- run         VARCHAR        run that the trace belongs to
-- rank        INTEGER        rank within the run
-- name        VARCHAR        name as the source has it; NULL where it has none
-- kind        VARCHAR        what the slices are: host_op, kernel, ...
-- calls       BIGINT         number of slices
-- self_ns     BIGINT   ns    time in the slices but in none of their children (negative where those overlap); on a device, all
-- total_ns    BIGINT   ns    sum of durations, overlaps counted twice; NULL where none is known, or beyond BIGINT
-- mean_ns     BIGINT   ns    mean duration, rounded half up
-- min_ns      BIGINT   ns    shortest duration
-- max_ns      BIGINT   ns    longest duration
-- self_share  DOUBLE   0..1  self_ns over all self time of the host (or of the devices) in the run and rank; NULL where that is 0
SELECT
    run,
    rank,
    name,
    kind,
    count(*) AS calls,
    try_cast(sum(self_ns) AS BIGINT) AS self_ns,
    try_cast(sum(dur_ns) AS BIGINT) AS total_ns,
    ((2 * sum(dur_ns) + count(dur_ns)) // nullif(2 * count(dur_ns), 0))::BIGINT AS mean_ns,
    min(dur_ns) AS min_ns,
    max(dur_ns) AS max_ns,
    sum(self_ns) / nullif(
        sum(sum(self_ns)) OVER (PARTITION BY run, rank, kind IN ('kernel', 'memcpy', 'memset')), 0
    ) AS self_share
FROM events
WHERE self_ns IS NOT NULL
GROUP BY run, rank, name, kind
ORDER BY sum(events.self_ns) DESC, run, rank, name NULLS LAST, kind
