-- optimizable_events: the host slices most worth optimizing where the devices ran out of work.
-- One row per host slice, the best `n` per (run, rank), by run, rank, the highest score first, then start and event_id.
-- This is the ranking of torch.profiler._utils. It looks at drops of the queue: from the last call at which the most work was
-- waiting (at least four pieces) to the last time that the queue became empty before as much was waiting again. It scores the
-- slices that run during a drop: high if the devices are idle in them, and if they have much self time. Work waits as in
-- `queue_depth` of events. Slices that nest are scored: ops, annotations, Python functions, calls.
-- In a bare shell read from `sql/lib` first: devices.
-- needs: events
-- recorded: launches
-- no rows: no slice of the host ran while a device's queue fell from four waiting pieces of work or more to none
-- divides by: rank
-- main columns: name, score, idle_ns, dur_ns, idle_share, source_location, self_ns, start_ns, event_id
-- parameter n BIGINT = 1  rows per (run, rank)
-- run              VARCHAR        run that the trace belongs to
-- rank             INTEGER        rank within the run
-- event_id         BIGINT         event_id of the slice
-- name             VARCHAR        name in the source; NULL if it has none
-- kind             VARCHAR        what the slice is: host_op, python, runtime, ...
-- start_ns         BIGINT   ns    start, on the clock that traces.clock names
-- dur_ns           BIGINT   ns    duration
-- self_ns          BIGINT   ns    duration without direct children (negative where those overlap)
-- idle_ns          BIGINT   ns    part of the duration in which no device of the rank was busy
-- idle_share       DOUBLE   0..1  idle_ns over dur_ns
-- score            DOUBLE         z-score of idle_share plus 0.6 times that of self_ns, over all slices scored, to 9 decimals
-- source_location  VARCHAR        nearest Python frame, `file.py(line): function`: the slice itself or around it; NULL if none
WITH RECURSIVE points AS (
    SELECT run, rank, start_ns, queue_depth
    FROM events
    WHERE queue_depth = 0 AND is_busy(kind)
    UNION ALL
    SELECT run, rank, start_ns, queue_depth
    FROM events
    WHERE queue_depth >= 4 AND (run, rank, event_id) IN (SELECT (run, rank, launch_id) FROM events WHERE is_busy(kind))
),
numbered AS (
    SELECT *, sum((queue_depth = 0)::INTEGER) OVER (PARTITION BY run, rank ORDER BY start_ns) AS number
    FROM points
),
stretches AS (
    SELECT
        run, rank, number,
        min(start_ns) AS emptied_ns,
        max(queue_depth) AS depth,
        max_by(start_ns, {'queue_depth': queue_depth, 'start_ns': start_ns}) AS peak_ns
    FROM numbered
    GROUP BY run, rank, number
),
falls AS (
    SELECT
        run, rank,
        peak_ns AS start_ns,
        coalesce(lead(emptied_ns) OVER (PARTITION BY run, rank ORDER BY number), last_emptied_ns) AS end_ns
    FROM (SELECT *, max(emptied_ns) OVER (PARTITION BY run, rank) AS last_emptied_ns FROM stretches)
    WHERE depth > 0
),
-- A number for each (run, rank): the join below is twice as fast on it.
parts AS MATERIALIZED (
    SELECT run, rank, row_number() OVER () AS part
    FROM (SELECT DISTINCT run, rank FROM falls WHERE start_ns < end_ns)
),
falls_of_parts AS (
    SELECT part, start_ns, end_ns FROM falls JOIN parts USING (run, rank) WHERE start_ns < end_ns
),
hosts AS (
    SELECT part, event_id, start_ns, start_ns + dur_ns AS end_ns, self_ns, idle_ns / dur_ns AS idle_share
    FROM events
    JOIN parts USING (run, rank)
    WHERE preorder IS NOT NULL AND dur_ns > 0 AND idle_ns IS NOT NULL
),
falling AS MATERIALIZED (
    SELECT hosts.part, hosts.event_id, hosts.start_ns, hosts.self_ns, hosts.idle_share
    FROM hosts
    ASOF JOIN falls_of_parts AS falls ON hosts.part = falls.part AND hosts.end_ns > falls.start_ns
    WHERE hosts.start_ns < falls.end_ns
),
spread AS (
    SELECT
        part,
        avg(idle_share) AS mean_share,
        avg(self_ns) AS mean_self,
        CASE WHEN min(idle_share) < max(idle_share) THEN stddev_samp(idle_share) END AS std_share,
        CASE WHEN min(self_ns) < max(self_ns) THEN stddev_samp(self_ns) END AS std_self
    FROM falling
    GROUP BY part
),
scored AS MATERIALIZED (
    SELECT
        part, event_id, start_ns, idle_share,
        round(
            coalesce((idle_share - mean_share) / std_share, 0) + 0.6 * coalesce((self_ns - mean_self) / std_self, 0), 9
        ) AS score
    FROM falling
    JOIN spread USING (part)
),
least AS (
    SELECT part, min(score) AS score
    FROM (FROM scored QUALIFY row_number() OVER (PARTITION BY part ORDER BY score DESC) <= coalesce(getvariable('n'), 1))
    GROUP BY part
),
-- What is picked goes through a list, or the planner expects many and hashes all events instead.
best AS MATERIALIZED (
    SELECT run, rank, unnest(slices, recursive := true)
    FROM (
        SELECT
            run, rank,
            list(
                {'event_id': event_id, 'idle_share': idle_share, 'score': scored.score}
                ORDER BY scored.score DESC, start_ns, event_id
            )[:coalesce(getvariable('n'), 1)] AS slices
        FROM scored
        JOIN least ON scored.part = least.part AND scored.score >= least.score
        JOIN parts ON scored.part = parts.part
        GROUP BY run, rank
    )
),
details AS (
    SELECT run, rank, event_id, name, kind, start_ns, dur_ns, self_ns, idle_ns
    FROM events
    WHERE event_id IN (SELECT unnest(list(event_id)) FROM best)
),
around AS (
    SELECT run, rank, event_id, event_id AS around_id, NULL::VARCHAR AS name
    FROM best
    UNION ALL
    SELECT around.run, around.rank, around.event_id, slices.parent_id, slices.name
    FROM around
    JOIN (
        SELECT run, rank, event_id, parent_id, name
        FROM events
        WHERE event_id IN (SELECT unnest(list(around_id)) FROM around)
    ) AS slices
        ON around.run = slices.run AND around.rank = slices.rank AND around.around_id = slices.event_id
    WHERE NOT coalesce(regexp_matches(around.name, '\.py\(.*\)'), false)
)
SELECT
    run,
    rank,
    event_id,
    details.name,
    details.kind,
    details.start_ns,
    details.dur_ns,
    details.self_ns,
    details.idle_ns,
    best.idle_share,
    best.score,
    located.name AS source_location
FROM best
JOIN details USING (run, rank, event_id)
LEFT JOIN (FROM around WHERE regexp_matches(name, '\.py\(.*\)')) AS located USING (run, rank, event_id)
ORDER BY run, rank, best.score DESC, details.start_ns, event_id
