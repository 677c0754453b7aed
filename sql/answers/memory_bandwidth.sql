-- memory_bandwidth: how fast memory was copied and filled.
-- One row per (run, rank, device, kind, name), the largest total_ns first, then by these.
-- A rate is total bytes over total time, so long copies count more than short ones; it is not the mean of the copies' rates.
-- Copies with unknown bytes or duration are in no rate.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy.
-- needs: events
-- recorded: copies
-- divides by: rank
-- over ranks: kind, name; device
-- main columns: name, bytes, bytes_per_s, total_ns, calls, busy_share, device, kind, max_bytes_per_s, min_bytes_per_s
-- parameter per VARCHAR(direction|name) = direction  name: separate rows for pinned and pageable memory
-- run               VARCHAR           run that the trace belongs to
-- rank              INTEGER           rank within the run
-- device            INTEGER           index of the device that the copies ran on; NULL if the source does not say
-- kind              VARCHAR           memcpy or memset
-- name              VARCHAR           name of the copies, without text in parentheses unless per=name; NULL if there is none
-- calls             BIGINT            number of copies or fills
-- unsized_calls     BIGINT            number of them with unknown bytes
-- bytes             BIGINT   bytes    bytes moved by the others; NULL if no bytes are known
-- total_ns          BIGINT   ns       sum of durations, overlaps counted twice; NULL if none is known
-- busy_ns           BIGINT   ns       time in which at least one of them was running
-- bytes_per_s       DOUBLE   bytes/s  per copy: bytes over the sum of durations; NULL if no time passes
-- busy_bytes_per_s  DOUBLE   bytes/s  all copies together: bytes over the time in which at least one of them ran
-- min_bytes_per_s   DOUBLE   bytes/s  slowest copy; copies without a duration have no rate
-- max_bytes_per_s   DOUBLE   bytes/s  fastest copy
-- busy_share        DOUBLE   0..1     busy_ns over the span of the devices of the rank, as in time_breakdown
WITH copies AS MATERIALIZED (
    SELECT *, dense_rank() OVER (ORDER BY run, rank, device, kind, name) AS lane
    FROM (
        SELECT
            run, rank, device, kind, start_ns, dur_ns, start_ns + dur_ns AS end_ns, bytes,
            CASE
                WHEN coalesce(getvariable('per'), 'direction') = 'name' THEN name
                ELSE coalesce(nullif(rtrim(split_part(name, '(', 1)), ''), name)
            END AS name
        FROM events
        WHERE is_busy(kind) AND kind <> 'kernel'
    )
),
sized AS (
    FROM copies WHERE bytes IS NOT NULL
),
sums AS (
    SELECT
        lane, run, rank, device, kind, name,
        count(*) AS calls,
        count(*) - count(bytes) AS unsized_calls,
        sum(bytes) AS bytes,
        sum(dur_ns) AS total_ns,
        sum(bytes) FILTER (dur_ns IS NOT NULL) AS timed_bytes,
        sum(dur_ns) FILTER (bytes IS NOT NULL) AS sized_ns,
        min(bytes::HUGEINT * 1000000000 / dur_ns) FILTER (dur_ns > 0) AS min_bytes_per_s,
        max(bytes::HUGEINT * 1000000000 / dur_ns) FILTER (dur_ns > 0) AS max_bytes_per_s
    FROM copies
    GROUP BY ALL
),
spans AS (
    SELECT key.run AS run, key.rank AS rank, max(end_ns) - min(start_ns) AS span_ns
    FROM device_intervals(events)
    GROUP BY ALL
)
SELECT
    sums.run,
    sums.rank,
    sums.device,
    sums.kind,
    sums.name,
    sums.calls,
    sums.unsized_calls,
    try_cast(sums.bytes AS BIGINT) AS bytes,
    try_cast(sums.total_ns AS BIGINT) AS total_ns,
    coalesce(try_cast(busy.covered_ns AS BIGINT), 0) AS busy_ns,
    sums.timed_bytes * 1000000000 / nullif(sums.sized_ns, 0) AS bytes_per_s,
    sums.timed_bytes * 1000000000 / nullif(sized.covered_ns, 0) AS busy_bytes_per_s,
    sums.min_bytes_per_s,
    sums.max_bytes_per_s,
    coalesce(busy.covered_ns, 0) / nullif(spans.span_ns, 0) AS busy_share
FROM sums
LEFT JOIN covered_time('copies') AS busy ON sums.lane = busy.lane
LEFT JOIN covered_time('sized') AS sized ON sums.lane = sized.lane
LEFT JOIN spans ON sums.run = spans.run AND sums.rank = spans.rank
ORDER BY sums.total_ns DESC NULLS LAST, sums.run, sums.rank, device NULLS LAST, kind, name NULLS LAST
