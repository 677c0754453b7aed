-- What devices did for regions of the host: work that was launched inside them.

-- device_clock: one row per slice that keeps a device busy, with what two clocks show, in nanoseconds: `idle_ns` at its start
-- (and its end), a clock that runs while no device of the rank is busy; `alone_ns` and `alone_end_ns` at the start and the end
-- of communication, on one that runs while none computes. What it gains in a communication is the exposed part of that.
-- `is_alone`: nothing else ran on the devices of the rank at the same time, so its time is no other's.
CREATE OR REPLACE TEMP MACRO device_clock(events) AS TABLE
WITH work AS MATERIALIZED (
    SELECT
        run, rank, event_id, kind = 'kernel' AS is_kernel, class = 'compute' AS computes,
        class = 'communication' AS communicates, device, stream, start_ns, end_ns, launch_id, op_id
    FROM device_work(events)
),
moments AS (
    SELECT *, start_ns AS at_ns
    FROM work
    UNION ALL BY NAME
    SELECT run, rank, event_id, end_ns AS at_ns
    FROM work
    WHERE communicates
),
gaps AS (
    SELECT
        *,
        at_ns - max(end_ns) OVER before AS gap_ns,
        greatest(
            at_ns - coalesce(max(CASE WHEN computes THEN end_ns END) OVER before, first_value(at_ns) OVER before), 0
        ) AS alone_gap_ns
    FROM moments
    WINDOW before AS (PARTITION BY run, rank ORDER BY at_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
clocks AS (
    SELECT
        *,
        coalesce(gap_ns, 0) >= 0 AND lead(gap_ns, 1, 0) OVER until_now >= 0 AS is_alone,
        sum(CASE WHEN is_kernel IS NOT NULL THEN greatest(gap_ns, 0) END) OVER until_now AS idle_ns,
        sum(CASE WHEN computes THEN alone_gap_ns ELSE 0 END) OVER until_now
        + CASE WHEN computes THEN 0 ELSE alone_gap_ns END AS alone_ns
    FROM gaps
    WINDOW until_now AS (PARTITION BY run, rank ORDER BY at_ns ROWS UNBOUNDED PRECEDING)
)
SELECT clocks.*, ends.alone_ns AS alone_end_ns
FROM clocks
LEFT JOIN (SELECT run, rank, event_id, alone_ns FROM clocks WHERE is_kernel IS NULL) AS ends
    ON clocks.run = ends.run AND clocks.rank = ends.rank AND clocks.event_id = ends.event_id AND clocks.communicates
WHERE clocks.is_kernel IS NOT NULL;

-- region_places: work, and where the slices of regions begin and end, in the order of each `line`; `position` counts the work,
-- and `until_now_ns` adds it up.
-- The relation has a row for every slice that a region is made of: `region` (a number), `run`, `rank`, `sub` (where one slice is
-- in several regions, those of the greater are inside), `dur_ns`, and of the host `preorder` and `last_descendant_id`, of a
-- device `device`, `stream` and `start_ns`. A slice is a `begin`, an `end`, and as something inside of others an `inside`;
-- one of the host whose last descendant is not in the trace has no end.
CREATE OR REPLACE TEMP MACRO region_places(events, regions) AS TABLE
WITH slices AS MATERIALIZED (
    SELECT
        row_number() OVER () AS slice, region, run, rank, sub, dur_ns, preorder, last_descendant_id,
        CASE WHEN preorder IS NULL THEN device END AS device, CASE WHEN preorder IS NULL THEN stream END AS stream, start_ns
    FROM query_table(regions)
    WHERE preorder IS NOT NULL OR (device IS NOT NULL AND start_ns IS NOT NULL AND dur_ns IS NOT NULL)
),
lines AS MATERIALIZED (
    SELECT *, row_number() OVER () AS line
    FROM (SELECT DISTINCT run, rank, device, stream FROM slices)
),
work AS MATERIALIZED (
    FROM device_clock(events)
),
wanted AS (
    SELECT run, rank, launch_id AS event_id FROM work
    UNION
    SELECT run, rank, op_id FROM work
    UNION
    SELECT run, rank, last_descendant_id FROM slices
),
hosts AS MATERIALIZED (
    SELECT host.run, host.rank, host.event_id, host.preorder
    FROM wanted
    JOIN query_table(events) AS host
        ON wanted.run = host.run AND wanted.rank = host.rank AND wanted.event_id = host.event_id
),
-- By its launch; by its op only where no launch is in the trace.
launched AS MATERIALIZED (
    SELECT
        work.*,
        launch.event_id IS NOT NULL OR op.event_id IS NOT NULL AS is_found,
        CASE WHEN launch.event_id IS NOT NULL THEN launch.preorder ELSE op.preorder END AS place
    FROM work
    LEFT JOIN hosts AS launch
        ON work.run = launch.run AND work.rank = launch.rank AND work.launch_id = launch.event_id
    LEFT JOIN hosts AS op
        ON work.run = op.run AND work.rank = op.rank AND work.op_id = op.event_id
),
-- Where all launches were filtered out, what is inside a slice is not known.
lost AS (
    SELECT run, rank
    FROM launched
    GROUP BY run, rank
    HAVING count(coalesce(launch_id, op_id)) > 0 AND NOT bool_or(is_found)
)
SELECT
    *,
    count(is_kernel) OVER until_now AS position,
    coalesce(sum(end_ns - start_ns) OVER until_now, 0) AS until_now_ns
FROM (
    SELECT
        lines.line, work.place, 'work' AS what, 1000000 AS turn, work.is_kernel, work.is_alone, work.start_ns, work.end_ns,
        work.idle_ns, work.alone_ns, work.alone_end_ns
    FROM launched AS work
    JOIN lines ON work.run = lines.run AND work.rank = lines.rank AND lines.device IS NULL
    WHERE work.place IS NOT NULL
    UNION ALL BY NAME
    SELECT lines.line, hosts.preorder AS place, 'end' AS what, 1000001 AS turn, slices.slice, slices.region
    FROM slices
    JOIN lines ON slices.run = lines.run AND slices.rank = lines.rank AND lines.device IS NULL
    JOIN hosts
        ON slices.run = hosts.run AND slices.rank = hosts.rank AND slices.last_descendant_id = hosts.event_id
    ANTI JOIN lost ON slices.run = lost.run AND slices.rank = lost.rank
    WHERE slices.preorder IS NOT NULL AND hosts.preorder IS NOT NULL
    UNION ALL BY NAME
    SELECT
        lines.line, slices.preorder AS place, slices.slice, slices.region, slices.dur_ns,
        unnest(['inside', 'begin']) AS what, 2 * slices.sub + unnest([0, 1]) AS turn
    FROM slices
    JOIN lines ON slices.run = lines.run AND slices.rank = lines.rank AND lines.device IS NULL
    WHERE slices.preorder IS NOT NULL
    UNION ALL BY NAME
    SELECT
        lines.line, work.start_ns AS place, 'work' AS what, 1000000 AS turn, work.is_kernel, work.is_alone, work.start_ns,
        work.end_ns, work.idle_ns, work.alone_ns, work.alone_end_ns
    FROM (FROM work WHERE (SELECT count(device) > 0 FROM lines)) AS work
    JOIN lines
        ON work.run = lines.run
        AND work.rank = lines.rank
        AND work.device = lines.device
        AND work.stream IS NOT DISTINCT FROM lines.stream
    UNION ALL BY NAME
    SELECT
        lines.line, slices.slice, slices.region,
        unnest([slices.start_ns, slices.start_ns + slices.dur_ns]) AS place,
        unnest(['begin', 'end']) AS what, unnest([0, 1]) AS turn
    FROM slices
    JOIN lines
        ON slices.run = lines.run
        AND slices.rank = lines.rank
        AND slices.device = lines.device
        AND slices.stream IS NOT DISTINCT FROM lines.stream
)
WINDOW until_now AS (PARTITION BY line ORDER BY place, turn ROWS UNBOUNDED PRECEDING);

-- region_device: what was launched inside the slices of each region; of a region of a device, what began in them on their stream.
-- What is inside several slices of a region counts once. NULL where a slice has no end.
CREATE OR REPLACE TEMP MACRO region_device(places) AS TABLE
WITH slices AS MATERIALIZED (
    SELECT
        line, region, min(position) AS first_position, max(position) AS last_position, count(*) = 2 AS is_whole
    FROM query_table(places)
    WHERE what = 'begin' OR what = 'end'
    GROUP BY line, region, slice
),
pairs AS (
    SELECT line, region, unnest(range(from_position + 1, last_position + 1)) AS position
    FROM (
        SELECT *, greatest(first_position, max(last_position) OVER before) AS from_position
        FROM slices
        WINDOW before AS (
            PARTITION BY line, region ORDER BY first_position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        )
    )
),
inside AS MATERIALIZED (
    SELECT
        pairs.region, work.is_kernel, work.is_alone, work.start_ns, work.end_ns, work.idle_ns, work.alone_ns, work.alone_end_ns
    FROM pairs
    JOIN (FROM query_table(places) WHERE what = 'work') AS work
        ON pairs.line = work.line AND pairs.position = work.position
),
pieces AS (
    SELECT
        region,
        end_ns - greatest(start_ns, max(end_ns) OVER before) AS piece_ns,
        alone_end_ns - greatest(alone_ns, max(alone_end_ns) OVER before) AS alone_piece_ns
    FROM inside
    WHERE NOT is_alone
    WINDOW before AS (PARTITION BY region ORDER BY start_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
sums AS (
    SELECT
        region,
        count(*) FILTER (is_kernel) AS kernels,
        try_cast(sum(end_ns - start_ns) AS BIGINT) AS device_ns,
        coalesce(sum(end_ns - start_ns) FILTER (is_alone), 0) AS busy_ns,
        max(end_ns) - min(start_ns) AS span_ns,
        coalesce(sum(alone_end_ns - alone_ns) FILTER (is_alone), 0) AS exposed_communication_ns,
        (max(idle_ns) - min(idle_ns))::BIGINT AS idle_ns
    FROM inside
    GROUP BY region
),
added AS (
    SELECT
        region,
        sum(greatest(piece_ns, 0)) AS busy_ns,
        coalesce(sum(greatest(alone_piece_ns, 0)), 0) AS exposed_communication_ns
    FROM pieces
    GROUP BY region
)
SELECT
    wholes.region,
    CASE WHEN is_whole THEN coalesce(sums.kernels, 0) END AS kernels,
    CASE WHEN is_whole THEN coalesce(sums.device_ns, 0) END AS device_ns,
    CASE WHEN is_whole THEN (coalesce(sums.busy_ns, 0) + coalesce(added.busy_ns, 0))::BIGINT END AS busy_ns,
    CASE WHEN is_whole THEN sums.span_ns END AS span_ns,
    CASE
        WHEN is_whole
        THEN (coalesce(sums.exposed_communication_ns, 0) + coalesce(added.exposed_communication_ns, 0))::BIGINT
    END AS exposed_communication_ns,
    CASE WHEN is_whole THEN sums.idle_ns END AS idle_ns
FROM (SELECT region, bool_and(is_whole) AS is_whole FROM slices GROUP BY region) AS wholes
LEFT JOIN sums ON wholes.region = sums.region
LEFT JOIN added ON wholes.region = added.region;

-- region_self: time in the slices of each region, and of the work launched in them, that is in no region inside them.
CREATE OR REPLACE TEMP MACRO region_self(places) AS TABLE
WITH ended AS (
    SELECT line, place, turn, what, slice, region, dur_ns, until_now_ns
    FROM query_table(places)
    WHERE what <> 'work'
    QUALIFY bool_or(what = 'end') OVER (PARTITION BY slice)
),
levels AS (
    SELECT *, sum(CASE what WHEN 'begin' THEN 1 WHEN 'end' THEN -1 ELSE 0 END) OVER until_now AS level
    FROM ended
    WINDOW until_now AS (PARTITION BY line ORDER BY place, turn ROWS UNBOUNDED PRECEDING)
),
owned AS (
    SELECT *, last_value(CASE WHEN what = 'begin' THEN region END IGNORE NULLS) OVER until_now AS owner
    FROM levels
    WINDOW until_now AS (PARTITION BY line, level ORDER BY place, turn ROWS UNBOUNDED PRECEDING)
),
slices AS (
    SELECT
        any_value(region) AS region,
        any_value(owner) FILTER (what = 'inside') AS owner,
        any_value(dur_ns) AS host_ns,
        max(until_now_ns) - min(until_now_ns) AS device_ns
    FROM owned
    GROUP BY slice
)
SELECT region, sum(host_ns)::BIGINT AS self_host_ns, try_cast(sum(device_ns) AS BIGINT) AS self_device_ns
FROM (
    SELECT region, host_ns, device_ns FROM slices
    UNION ALL
    SELECT owner, -host_ns, -device_ns FROM slices WHERE owner IS NOT NULL
)
GROUP BY region;
