-- What devices did for host regions: work that was launched inside them. The relation `regions` has a row for every slice that a
-- region consists of: `region` (a number), `run`, `rank`, `sub` (if one slice is in several regions, higher values are further
-- inside), `dur_ns`, for host slices `preorder` and `last_descendant_id`, for device slices `device`, `stream` and `start_ns`.
-- For slices that were captured into a graph, `replay` has the `step` of their replays, with a row for each; it is NULL if they
-- stand for all replays together, and for all other slices.

-- module_class: the class of a module: of the name of its Python frame, or of its path; of a path that does not tell it, the path
-- without its numbers.
-- parameter name VARCHAR  `nn.Module: Linear_0`, `TOP(Net).fc(Linear)` or `layers.0.mlp`
-- parameter is_path BOOLEAN  whether it is a path
-- returns VARCHAR  `Linear`, or `layers.*.mlp`
-- example: SELECT module_class('nn.Module: Linear_0', false)
CREATE OR REPLACE TEMP MACRO module_class(name, is_path) AS CASE
    WHEN NOT is_path THEN regexp_replace(name, '^nn\.Module: |_\d+$', '', 'g')
    WHEN regexp_matches(name, '\([^().]+\)$') THEN regexp_extract(name, '\(([^().]+)\)$', 1)
    ELSE regexp_replace(name, '\b\d+\b', '*', 'g')
END;

-- replayed_steps: the steps in which the captured slices of each thread were replayed, and how often.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, thread  as in events
-- column replay STRUCT  its member `step` is that of the launches; NULL outside steps
-- column replays BIGINT  number of launches
-- example: FROM replayed_steps(events)
CREATE OR REPLACE TEMP MACRO replayed_steps(events) AS TABLE
SELECT
    work.run, work.rank, op.thread, {'step': work.step} AS replay, count(DISTINCT work.launch_id) AS replays
FROM query_table(events) AS work
JOIN (SELECT run, rank, event_id, thread FROM query_table(events) WHERE replays IS NOT NULL) AS op
    ON work.run = op.run AND work.rank = op.rank AND work.op_id = op.event_id
WHERE is_busy(work.kind)
GROUP BY ALL;

-- annotation_slices: slices of user annotations: those on the host, captured ones once per step that replayed them, and those on
-- devices whose name no annotation on the host of their (run, rank) has.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, name, kind, event_id, thread, device, stream, start_ns, dur_ns, preorder, last_descendant_id  as in events
-- column step BIGINT  as in events; for captured ones that of the replays
-- column replay STRUCT  its member `step` is that of the replays; NULL for all others
-- column sub INTEGER  0: none is in several regions
-- column calls BIGINT  number of annotations; for captured ones, of replays
-- example: FROM annotation_slices(events)
CREATE OR REPLACE TEMP MACRO annotation_slices(events) AS TABLE
WITH replayed AS (
    FROM replayed_steps(events)
),
marks AS MATERIALIZED (
    SELECT
        events.run, events.rank, coalesce(replayed.replay.step, events.step) AS step, events.name, kind, event_id, events.thread,
        device, stream, start_ns, dur_ns, preorder, last_descendant_id, replayed.replay,
        coalesce(replayed.replays, events.replays, 1) AS calls, 0 AS sub
    FROM query_table(events) AS events
    LEFT JOIN replayed
        ON events.run = replayed.run AND events.rank = replayed.rank AND events.thread = replayed.thread
        AND events.replays IS NOT NULL
    WHERE kind = 'annotation' OR kind = 'device_annotation'
)
FROM marks
WHERE kind = 'annotation'
UNION ALL
SELECT marks.*
FROM marks
ANTI JOIN (FROM marks WHERE kind = 'annotation') AS of_host
    ON marks.run = of_host.run AND marks.rank = of_host.rank AND marks.name IS NOT DISTINCT FROM of_host.name
WHERE marks.kind = 'device_annotation';

-- device_places: device_clock with the `place` of the work on the host: that of the call that launched it, or of its op if no
-- call is in the trace; NULL without either. Work of a captured op also has a row for its place in the capture.
-- parameter events TABLE  `events`, or a part of it
-- column event_id, device, stream, start_ns, step  as in events
-- column lane, is_kernel, end_ns, idle_ns, alone_ns, alone_end_ns  as in device_clock
-- column place BIGINT  `preorder` of the call or op; NULL if neither is in the trace
-- column captured_place BIGINT  for a launch, its place in the capture; NULL if there is none
-- column replay STRUCT  for a place in a capture, with the `step` of the launch; NULL for other places
-- column is_launched BOOLEAN  whether a call or an op is known
-- column is_found BOOLEAN  whether that is in the trace, too
-- example: FROM device_places(events)
CREATE OR REPLACE TEMP MACRO device_places(events) AS TABLE
WITH work AS MATERIALIZED (
    FROM device_clock(events)
),
wanted AS (
    SELECT DISTINCT lane, launch_id AS event_id FROM work
    UNION
    SELECT DISTINCT lane, op_id FROM work
),
hosts AS MATERIALIZED (
    SELECT wanted.lane, host.event_id, host.preorder, host.replays
    FROM query_table(events) AS host
    JOIN (FROM wanted JOIN lanes(events) USING (lane)) AS wanted
        ON host.run = wanted.run AND host.rank = wanted.rank AND host.event_id = wanted.event_id
)
SELECT
    work.lane, work.event_id, work.step, device, stream,
    CASE WHEN launch.event_id IS NOT NULL THEN launch.preorder ELSE op.preorder END AS place,
    CASE WHEN launch.event_id IS NOT NULL AND op.replays IS NOT NULL THEN op.preorder END AS captured_place,
    NULL::STRUCT(step BIGINT) AS replay,
    work.launch_id IS NOT NULL OR work.op_id IS NOT NULL AS is_launched,
    launch.event_id IS NOT NULL OR op.event_id IS NOT NULL AS is_found,
    is_kernel, start_ns, end_ns, idle_ns, alone_ns, alone_end_ns
FROM work
LEFT JOIN few(hosts) AS launch ON work.lane = launch.lane AND work.launch_id = launch.event_id
LEFT JOIN few(hosts) AS op ON work.lane = op.lane AND work.op_id = op.event_id
UNION ALL
SELECT
    work.lane, work.event_id, work.step, device, stream, captured.preorder, NULL, {'step': work.step}, true, true, is_kernel, start_ns, end_ns, idle_ns, alone_ns, alone_end_ns
FROM work
JOIN (FROM hosts WHERE replays IS NOT NULL) AS captured
    ON work.lane = captured.lane AND work.op_id = captured.event_id
    AND work.launch_id IS NOT NULL;

-- region_lines: the orders that slices of regions are in: the host of each (run, rank), without a device; captured slices once
-- per step with replays; and streams of devices.
-- parameter regions TABLE  slices of regions, as at the top of the file
-- column run, rank  as in events
-- column device INTEGER  device; NULL for the host
-- column stream INTEGER  stream; NULL for the host
-- column replay STRUCT  for captured slices, with the `step`; NULL for the host and devices
-- column line BIGINT  number of the line
-- example: WITH regions AS (SELECT *, event_id AS region, 0 AS sub, NULL::STRUCT(step BIGINT) AS replay FROM events WHERE
-- kind IN ('annotation', 'host_op')) FROM
-- region_lines(regions)
CREATE OR REPLACE TEMP MACRO region_lines(regions) AS TABLE
SELECT *, row_number() OVER (ORDER BY run, rank, replay NULLS FIRST, device, stream) AS line
FROM (
    SELECT DISTINCT
        run, rank,
        CASE WHEN preorder IS NULL THEN device END AS device,
        CASE WHEN preorder IS NULL THEN stream END AS stream,
        replay
    FROM query_table(regions)
    WHERE preorder IS NOT NULL OR (device IS NOT NULL AND start_ns IS NOT NULL AND dur_ns IS NOT NULL)
);

-- region_work: device_places on the `line` of the host, those in captures also on that of their step, and all once more on the
-- line of a stream, where the place is the start.
-- parameter events TABLE  `events`, or a part of it
-- parameter regions TABLE  slices of regions, as at the top of the file
-- column event_id, start_ns, step  as in events
-- column line  as in region_lines
-- column lane, is_launched, is_found, is_kernel, end_ns, idle_ns, alone_ns, alone_end_ns  as in device_places
-- column place BIGINT  place of the work on that line
-- column is_in_capture BOOLEAN  whether a captured slice of a region has it, too, so it is not self time here
-- example: WITH regions AS (SELECT *, event_id AS region, 0 AS sub, NULL::STRUCT(step BIGINT) AS replay FROM events WHERE
-- kind IN ('annotation', 'host_op')) FROM
-- region_work(events, regions)
CREATE OR REPLACE TEMP MACRO region_work(events, regions) AS TABLE
WITH lines AS MATERIALIZED (
    SELECT lanes.lane, lines.*
    FROM region_lines(regions) AS lines
    JOIN lanes(events) AS lanes ON lines.run = lanes.run AND lines.rank = lanes.rank
),
work AS MATERIALIZED (
    FROM device_places(events)
),
spots AS MATERIALIZED (
    SELECT DISTINCT lane, captured_place FROM work WHERE captured_place IS NOT NULL
),
captured AS (
    SELECT DISTINCT lines.lane, regions.preorder AS first_place, host.preorder AS last_place
    FROM query_table(regions) AS regions
    JOIN query_table(events) AS host
        ON regions.run = host.run AND regions.rank = host.rank AND regions.last_descendant_id = host.event_id
        AND host.replays IS NOT NULL
    JOIN lines ON regions.run = lines.run AND regions.rank = lines.rank
),
inside AS (
    SELECT DISTINCT spots.lane, spots.captured_place
    FROM spots
    JOIN captured
        ON spots.lane = captured.lane AND spots.captured_place BETWEEN captured.first_place AND captured.last_place
)
SELECT lines.line, work.* EXCLUDE (device, stream, captured_place, replay), inside.lane IS NOT NULL AS is_in_capture
FROM work
JOIN (FROM few(lines) WHERE device IS NULL AND replay IS NULL) AS lines ON work.lane = lines.lane
LEFT JOIN few(inside) AS inside ON work.lane = inside.lane AND work.captured_place = inside.captured_place
UNION ALL
SELECT lines.line, work.* EXCLUDE (device, stream, captured_place, replay), false AS is_in_capture
FROM work
JOIN few(lines) AS lines ON work.lane = lines.lane AND work.replay = lines.replay
UNION ALL
SELECT
    lines.line, work.lane, work.event_id, work.step, work.start_ns AS place, true AS is_launched, true AS is_found,
    is_kernel, start_ns, end_ns, idle_ns, alone_ns, alone_end_ns, false AS is_in_capture
FROM (FROM work WHERE (SELECT count(device) > 0 FROM lines)) AS work
JOIN few(lines) AS lines
    ON work.lane = lines.lane
    AND work.device = lines.device
    AND work.stream IS NOT DISTINCT FROM lines.stream;

-- region_places: where the slices of regions begin and end, and where work is, in the order of each line; `position` counts the
-- places with work, and `until_now_ns` adds it up. A slice is a `begin`, an `end`, and, inside other slices, an `inside`; a host
-- slice whose last descendant is not in the trace has no end.
-- parameter events TABLE  `events`, or a part of it
-- parameter regions TABLE  slices of regions, as at the top of the file
-- parameter work TABLE  rows of region_work
-- column line BIGINT  number of the line
-- column place BIGINT  place in the order of the line
-- column what VARCHAR  begin, end, inside or work
-- column turn INTEGER  order at one place
-- column work_ns HUGEINT  time of the work at the place that no captured slice has; NULL except for work
-- column slice BIGINT  number of the slice; NULL for work
-- column region BIGINT  its region
-- column dur_ns BIGINT  for `inside` and `begin` on the host, duration of the slice
-- column position HUGEINT  number of places with work up to here
-- column until_now_ns HUGEINT  time of work up to here
-- example: WITH regions AS (SELECT *, event_id AS region, 0 AS sub, NULL::STRUCT(step BIGINT) AS replay FROM events WHERE
-- kind IN ('annotation', 'host_op')), work AS
-- (FROM region_work(events, regions)) FROM region_places(events, regions, work)
CREATE OR REPLACE TEMP MACRO region_places(events, regions, work) AS TABLE
WITH lines AS MATERIALIZED (
    FROM region_lines(regions)
),
slices AS MATERIALIZED (
    SELECT
        row_number() OVER () AS slice, lines.line, lines.device IS NULL AS is_host,
        regions.region, regions.run, regions.rank, regions.sub, regions.dur_ns, regions.preorder, regions.last_descendant_id,
        regions.start_ns
    FROM query_table(regions) AS regions
    JOIN lines
        ON regions.run = lines.run
        AND regions.rank = lines.rank
        AND CASE WHEN regions.preorder IS NULL THEN regions.device END IS NOT DISTINCT FROM lines.device
        AND CASE WHEN regions.preorder IS NULL THEN regions.stream END IS NOT DISTINCT FROM lines.stream
        AND regions.replay IS NOT DISTINCT FROM lines.replay
    WHERE regions.preorder IS NOT NULL
        OR (regions.device IS NOT NULL AND regions.start_ns IS NOT NULL AND regions.dur_ns IS NOT NULL)
),
-- If all launches were filtered out, the content of a slice is not known.
lost AS (
    SELECT line
    FROM query_table(work)
    GROUP BY line
    HAVING bool_or(is_launched) AND NOT bool_or(is_found)
)
SELECT
    *,
    sum(CASE WHEN what = 'work' THEN 1 ELSE 0 END) OVER until_now AS position,
    sum(CASE WHEN what = 'work' THEN work_ns ELSE 0 END) OVER until_now AS until_now_ns
FROM (
    SELECT line, place, 'work' AS what, 1000000 AS turn, sum(CASE WHEN is_in_capture THEN 0 ELSE end_ns - start_ns END) AS work_ns
    FROM query_table(work)
    WHERE place IS NOT NULL
    GROUP BY line, place
    UNION ALL BY NAME
    SELECT slices.line, host.preorder AS place, 'end' AS what, 1000001 AS turn, slices.slice, slices.region
    FROM slices
    JOIN query_table(events) AS host
        ON slices.run = host.run AND slices.rank = host.rank AND slices.last_descendant_id = host.event_id
    ANTI JOIN lost ON slices.line = lost.line
    WHERE slices.is_host
    UNION ALL BY NAME
    SELECT
        line, preorder AS place, slice, region, dur_ns,
        unnest(['inside', 'begin']) AS what, 2 * sub + unnest([0, 1]) AS turn
    FROM slices
    WHERE is_host
    UNION ALL BY NAME
    SELECT
        line, slice, region,
        unnest([start_ns, start_ns + dur_ns]) AS place,
        unnest(['begin', 'end']) AS what, unnest([0, 1]) AS turn
    FROM slices
    WHERE NOT is_host
    ORDER BY line, place, turn
)
WINDOW until_now AS (ROWS UNBOUNDED PRECEDING);

-- region_host: host time in the slices of each region, summed over threads; overlaps on one thread count once.
-- parameter slices TABLE  the slices of regions on the host, with `event_id`, `thread` and `start_ns`
-- column region BIGINT  number of the region
-- column host_ns BIGINT  time in its slices; NULL beyond BIGINT
-- example: WITH regions AS (SELECT *, event_id AS region, 0 AS sub, NULL::STRUCT(step BIGINT) AS replay FROM events WHERE
-- kind IN ('annotation', 'host_op')) FROM
-- region_host(regions)
CREATE OR REPLACE TEMP MACRO region_host(slices) AS TABLE
WITH threads AS (
    SELECT
        region, event_id, start_ns, start_ns + dur_ns AS end_ns,
        dense_rank() OVER (ORDER BY region, thread) AS lane
    FROM query_table(slices)
    WHERE start_ns IS NOT NULL AND dur_ns IS NOT NULL
)
SELECT region, try_cast(sum(added_ns) AS BIGINT) AS host_ns
FROM busy_order('threads')
GROUP BY region;

-- region_sums: what work of a lane adds up to.
-- parameter work TABLE  rows of region_work, each once on a `lane`
-- column lane BIGINT  lane of the work
-- column kernels BIGINT  number of kernels
-- column copies BIGINT  number of copies and fills
-- column device_ns BIGINT  sum of the durations of its work; NULL beyond BIGINT
-- column busy_ns BIGINT  time in which at least one piece of its work ran
-- column start_ns BIGINT  first start of its work
-- column span_ns BIGINT  from there to the last end
-- column exposed_communication_ns BIGINT  time in which some of it communicated and nothing on the rank computed
-- column idle_ns BIGINT  part of span_ns in which no device of the rank was busy
-- example: WITH regions AS (SELECT *, event_id AS region, 0 AS sub, NULL::STRUCT(step BIGINT) AS replay FROM events WHERE
-- kind IN ('annotation', 'host_op')), work AS
-- (FROM region_work(events, regions)) FROM region_sums(work)
CREATE OR REPLACE TEMP MACRO region_sums(work) AS TABLE
WITH exposed AS (
    SELECT lane, alone_ns AS start_ns, alone_end_ns AS end_ns
    FROM query_table(work)
    WHERE alone_ns IS NOT NULL
)
SELECT sums.*, coalesce(exposed.covered_ns, 0)::BIGINT AS exposed_communication_ns
FROM (
    SELECT
        lane,
        count(*) FILTER (is_kernel) AS kernels,
        count(*) FILTER (NOT is_kernel) AS copies,
        try_cast(sum(end_ns - start_ns) AS BIGINT) AS device_ns,
        sum(added_ns)::BIGINT AS busy_ns,
        min(start_ns) AS start_ns,
        max(end_ns) - min(start_ns) AS span_ns,
        (max(idle_ns) - min(idle_ns))::BIGINT AS idle_ns
    FROM busy_order(work)
    GROUP BY lane
) AS sums
LEFT JOIN covered_time('exposed') AS exposed ON sums.lane = exposed.lane;

-- region_device: what was launched inside the slices of each region; for a region on a device, what began in them on their
-- stream. Work inside several slices of a region counts once. NULL if a slice has no end.
-- parameter places TABLE  rows of region_places
-- parameter work TABLE  rows of region_work
-- column region BIGINT  number of the region
-- column kernels BIGINT  number of kernels
-- column copies BIGINT  number of copies and fills
-- column device_ns BIGINT  sum of the durations of its work; NULL beyond BIGINT
-- column busy_ns BIGINT  time in which at least one piece of its work ran
-- column start_ns BIGINT  first start of its work; NULL if there is none
-- column span_ns BIGINT  from there to the last end
-- column exposed_communication_ns BIGINT  time in which some of it communicated and nothing on the rank computed
-- column idle_ns BIGINT  part of span_ns in which no device of the rank was busy
-- example: WITH regions AS (SELECT *, event_id AS region, 0 AS sub, NULL::STRUCT(step BIGINT) AS replay FROM events WHERE
-- kind IN ('annotation', 'host_op')), work AS
-- (FROM region_work(events, regions)), places AS (FROM region_places(events, regions, work)) FROM region_device(places, work)
CREATE OR REPLACE TEMP MACRO region_device(places, work) AS TABLE
WITH slices AS MATERIALIZED (
    SELECT
        line, region, min(position) AS first_position, max(position) AS last_position, count(*) = 2 AS is_whole
    FROM query_table(places)
    WHERE what = 'begin' OR what = 'end'
    GROUP BY line, region, slice
),
pairs AS (
    SELECT line, region, unnest(range(from_position + 1, last_position::BIGINT + 1)) AS position
    FROM (
        SELECT *, greatest(first_position, max(last_position) OVER before)::BIGINT AS from_position
        FROM slices
        WINDOW before AS (
            PARTITION BY line, region ORDER BY first_position ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        )
    )
),
places_inside AS MATERIALIZED (
    SELECT pairs.region, pairs.line, spot.place
    FROM pairs
    JOIN (FROM query_table(places) WHERE what = 'work') AS spot
        ON pairs.line = spot.line AND pairs.position = spot.position
),
work_inside AS MATERIALIZED (
    SELECT
        places_inside.region AS lane, 0 AS event_id, work.is_kernel, work.start_ns, work.end_ns, work.idle_ns, work.alone_ns,
        work.alone_end_ns
    FROM places_inside
    JOIN query_table(work) AS work ON places_inside.line = work.line AND places_inside.place = work.place
)
SELECT
    wholes.region,
    CASE WHEN is_whole THEN coalesce(sums.kernels, 0) END AS kernels,
    CASE WHEN is_whole THEN coalesce(sums.copies, 0) END AS copies,
    CASE WHEN is_whole THEN coalesce(sums.device_ns, 0) END AS device_ns,
    CASE WHEN is_whole THEN coalesce(sums.busy_ns, 0) END AS busy_ns,
    CASE WHEN is_whole THEN sums.start_ns END AS start_ns,
    CASE WHEN is_whole THEN sums.span_ns END AS span_ns,
    CASE WHEN is_whole THEN coalesce(sums.exposed_communication_ns, 0) END AS exposed_communication_ns,
    CASE WHEN is_whole THEN sums.idle_ns END AS idle_ns
FROM (SELECT region, bool_and(is_whole) AS is_whole FROM slices GROUP BY region) AS wholes
LEFT JOIN region_sums('work_inside') AS sums ON wholes.region = sums.lane;

-- region_outside: rows of region_work for work that was launched in no slice of any region, once each, on ranks with slices on
-- the host; nothing where a slice has no end.
-- parameter places TABLE  rows of region_places
-- parameter work TABLE  rows of region_work
-- parameter regions TABLE  slices of regions, as at the top of the file
-- column *  as in work
-- example: WITH regions AS (SELECT *, event_id AS region, 0 AS sub, NULL::STRUCT(step BIGINT) AS replay FROM events WHERE
-- kind IN ('annotation', 'host_op')), work AS
-- (FROM region_work(events, regions)), places AS (FROM region_places(events, regions, work)) FROM region_outside(places, work,
-- regions)
CREATE OR REPLACE TEMP MACRO region_outside(places, work, regions) AS TABLE
WITH levels AS (
    SELECT line, place, what, sum(CASE what WHEN 'begin' THEN 1 WHEN 'end' THEN -1 ELSE 0 END) OVER until_now AS level
    FROM query_table(places)
    WINDOW until_now AS (PARTITION BY line ORDER BY place, turn ROWS UNBOUNDED PRECEDING)
),
inside AS (
    SELECT work.lane, work.event_id
    FROM query_table(work) AS work
    JOIN levels ON work.line = levels.line AND work.place = levels.place
    WHERE levels.what = 'work' AND levels.level > 0
),
-- Without the end of a slice it is not known what is in it.
open_lines AS (
    SELECT DISTINCT line
    FROM query_table(places)
    WHERE what = 'begin' OR what = 'end'
    GROUP BY line, slice
    HAVING count(*) = 1
)
SELECT work.*
FROM query_table(work) AS work
SEMI JOIN (FROM region_lines(regions) WHERE device IS NULL AND replay IS NULL) AS lines ON work.line = lines.line
ANTI JOIN inside ON work.lane = inside.lane AND work.event_id = inside.event_id
ANTI JOIN open_lines ON work.line = open_lines.line;

-- region_self: time in the slices of each region, and of work launched in them, without regions inside them.
-- parameter places TABLE  rows of region_places
-- column region BIGINT  number of the region
-- column self_host_ns BIGINT  time in its slices without regions inside them
-- column self_device_ns BIGINT  the same for the work launched in them; NULL beyond BIGINT
-- example: WITH regions AS (SELECT *, event_id AS region, 0 AS sub, NULL::STRUCT(step BIGINT) AS replay FROM events WHERE
-- kind IN ('annotation', 'host_op')), work AS
-- (FROM region_work(events, regions)), places AS (FROM region_places(events, regions, work)) FROM region_self(places)
CREATE OR REPLACE TEMP MACRO region_self(places) AS TABLE
WITH ended AS (
    SELECT line, place, turn, what, slice, region, dur_ns, until_now_ns
    FROM query_table(places)
    SEMI JOIN (FROM query_table(places) WHERE what = 'end') AS ended_slices USING (slice)
    WHERE what <> 'work'
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
