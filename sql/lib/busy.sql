-- Busy and idle time. A kernel, copy or fill keeps its stream, its device and its rank busy from its start to its end; overlaps
-- count once. Each meaning has one definition, and all are here:
-- of one stream, or of one device: `busy_order` of its work (`idle`, `gaps`);
-- summed over devices: `device_busy`, added up (`overview`);
-- of any device of the rank: `device_breakdown`, by class (`time_breakdown`, `runs`; in the interval of a step it is a fact, in
-- `profiler_steps`), and `device_clock`
-- (`idle_ns` of `annotations` and `modules`); `idle_ns` of `events` is the same, computed as a fact;
-- of a device in each window, with and without copies and fills: `device_use` (`utilization`);
-- of some of the work: `covered_time` (`busy_ns` of `annotations`, `modules` and `memory_bandwidth`).
-- Idle time is the rest: of the time from the first start to the last end, or of a step or another host slice. But where no work
-- ran, and that of `lost_work` may have run, it is not known whether a device was idle: that is `unrecorded_ns`, and not idle.
-- In a bare shell read `devices.sql`, `lanes.sql`, `intervals.sql` and `steps.sql` of `sql/lib` first.

-- time_added: what an interval adds to a union of intervals that start no later and end at free_ns.
-- parameter start_ns BIGINT  start of the interval
-- parameter end_ns BIGINT  end of the interval
-- parameter free_ns BIGINT  latest end of the intervals before it; NULL if there is none
-- returns BIGINT  nanoseconds
-- example: SELECT time_added(5::BIGINT, 20::BIGINT, 12::BIGINT)
CREATE OR REPLACE TEMP MACRO time_added(start_ns, end_ns, free_ns) AS greatest(end_ns - greatest(start_ns, free_ns), 0);

-- busy_order: intervals in the order of lane, start and event_id, with what each adds to the busy and idle time of its lane. They
-- are sorted once, and windows without a PARTITION BY or an ORDER BY go through all lanes, with the lane in the high bits of the
-- latest end: that is several times as fast as a window for each lane.
-- parameter rows TABLE  intervals: `lane`, `start_ns`, `end_ns` and `event_id`, none of them NULL, and any other columns
-- column *  as in rows
-- column free_ns BIGINT  latest end of all before it on its lane; NULL for the first
-- column added_ns BIGINT  what it adds to the busy time of its lane
-- column gap_ns BIGINT  idle time of the lane before it
-- example: WITH work AS (SELECT rank::BIGINT AS lane, event_id, start_ns, end_ns FROM device_work(events)) FROM busy_order(work)
CREATE OR REPLACE TEMP MACRO busy_order(rows) AS TABLE
SELECT *, time_added(start_ns, end_ns, free_ns) AS added_ns, greatest(start_ns - free_ns, 0) AS gap_ns
FROM (
    SELECT
        * EXCLUDE (latest),
        CASE WHEN lag(lane) OVER () = lane THEN (lag(latest) OVER () - (lane::HUGEINT << 64))::BIGINT END AS free_ns
    FROM (
        SELECT *, max((lane::HUGEINT << 64) + end_ns) OVER (ROWS UNBOUNDED PRECEDING) AS latest
        FROM (FROM query_table(rows) ORDER BY lane, start_ns, event_id)
    )
);

-- covered_time: time in which at least one interval of a lane was open.
-- parameter intervals TABLE  intervals: `lane`, `start_ns` and `end_ns`; those without a start or an end do not count
-- column lane  as in intervals
-- column covered_ns HUGEINT  time in which at least one interval was open
-- example: WITH work AS (SELECT rank::BIGINT AS lane, start_ns, end_ns FROM device_work(events)) FROM covered_time(work)
CREATE OR REPLACE TEMP MACRO covered_time(intervals) AS TABLE
WITH timed AS (
    SELECT lane, start_ns, end_ns, 0 AS event_id
    FROM query_table(intervals)
    WHERE start_ns IS NOT NULL AND end_ns IS NOT NULL
)
SELECT lane, sum(added_ns) AS covered_ns
FROM busy_order('timed')
GROUP BY lane;

-- device_busy: time in which each device had a kernel, copy or fill.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, device  as in events
-- column busy_ns HUGEINT  time in which it had a kernel, copy or fill
-- example: FROM device_busy(events)
CREATE OR REPLACE TEMP MACRO device_busy(events) AS TABLE
WITH work AS MATERIALIZED (
    SELECT run, rank, device, NULL AS stream, start_ns, start_ns + dur_ns AS end_ns
    FROM query_table(events)
    WHERE is_busy(kind) AND start_ns IS NOT NULL AND dur_ns IS NOT NULL
),
lanes AS MATERIALIZED (
    FROM device_lanes('work')
),
on_lanes AS (
    FROM on_device_lanes('work', 'lanes')
)
SELECT lanes.run, lanes.rank, lanes.device, busy.covered_ns AS busy_ns
FROM covered_time('on_lanes') AS busy
JOIN few('lanes') AS lanes ON busy.lane = lanes.lane;

-- device_intervals: what keeps the devices of each (run, rank) busy, for interval_masks: bit 1 compute, 2 communication, 4 copy.
-- parameter events TABLE  `events`, or a part of it
-- column start_ns  as in events
-- column key STRUCT  its `run` and `rank`
-- column end_ns BIGINT  end of the work
-- column bit INTEGER  1 computation, 2 communication, 4 a copy
-- example: FROM device_intervals(events)
CREATE OR REPLACE TEMP MACRO device_intervals(events) AS TABLE
SELECT
    {'run': run, 'rank': rank} AS key, start_ns, end_ns,
    CASE class WHEN 'compute' THEN 1 WHEN 'communication' THEN 2 ELSE 4 END AS bit
FROM device_work(events);

-- lost_work: when work that is not in the trace may have run, as the calls that launched it tell.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, event_id, thread, step  as in events
-- column device INTEGER  device; NULL if not known
-- column stream INTEGER  stream; NULL if not known
-- column start_ns BIGINT  when it may have started at the earliest
-- column end_ns BIGINT  when it had ended at the latest
-- example: FROM lost_work(events)
CREATE OR REPLACE TEMP MACRO lost_work(events) AS TABLE
SELECT
    run, rank, event_id, thread, step, lost_device AS device, lost_stream AS stream, lost_start_ns AS start_ns,
    lost_end_ns AS end_ns
FROM query_table(events)
WHERE lost_start_ns < lost_end_ns;

-- device_breakdown: device time in parts that add up to span_ns. One row per (run, rank) that used a device, over the whole time
-- of its devices, with event_id and step NULL; and one per window of such a rank.
-- parameter events TABLE  `events`, or a part of it
-- parameter given TABLE  windows: `run`, `rank`, `event_id`, `step`, `start_ns` and `end_ns`
-- column run, rank, event_id, step, start_ns, end_ns  as in given
-- column span_ns BIGINT  length of the window
-- column compute_ns BIGINT  time in which computation (or a fill) was running
-- column exposed_communication_ns BIGINT  time in which communication was running, but no computation
-- column exposed_copy_ns BIGINT  time in which a copy was running, but neither of these
-- column hidden_communication_ns BIGINT  time in which communication was running under computation
-- column hidden_copy_ns BIGINT  time in which a copy was running under either of these
-- column busy_ns BIGINT  time in which at least one device of the rank was busy
-- column unrecorded_ns BIGINT  time in which none was, and work that is not in the trace may have run
-- column idle_ns BIGINT  the rest: no device of the rank was busy
-- example: WITH windows AS (FROM host_windows(profiler_steps)) FROM device_breakdown(events, windows)
CREATE OR REPLACE TEMP MACRO device_breakdown(events, given) AS TABLE
WITH busy AS MATERIALIZED (
    SELECT * FROM device_intervals(events)
),
whole AS (
    SELECT key.run AS run, key.rank AS rank, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM busy
    GROUP BY key
),
windows AS (
    SELECT run, rank, NULL AS event_id, NULL AS step, start_ns, end_ns
    FROM whole
    UNION ALL
    SELECT given.run, given.rank, given.event_id, given.step, given.start_ns, given.end_ns
    FROM query_table(given) AS given
    SEMI JOIN whole ON given.run = whole.run AND given.rank = whole.rank
),
edges AS (
    SELECT *, count(*) OVER (PARTITION BY run, rank ORDER BY at_ns) AS marks
    FROM (
        SELECT *, unnest([start_ns, end_ns]) AS at_ns, unnest([-1, 1]) AS sign
        FROM windows
        WHERE start_ns < end_ns
    )
),
marked AS (
    FROM busy
    UNION ALL
    SELECT {'run': run, 'rank': rank} AS key, start_ns, end_ns, 0 AS bit
    FROM windows
    UNION ALL
    SELECT {'run': run, 'rank': rank} AS key, start_ns, end_ns, 8 AS bit
    FROM lost_work(events)
    SEMI JOIN whole USING (run, rank)
),
-- From one edge of a window to the next.
sections AS (
    SELECT
        key.run AS run, key.rank AS rank, marks,
        sum(end_ns - start_ns) FILTER (mask & 1 > 0) AS compute_ns,
        sum(end_ns - start_ns) FILTER (mask & 3 = 2) AS exposed_communication_ns,
        sum(end_ns - start_ns) FILTER (mask & 7 = 4) AS exposed_copy_ns,
        sum(end_ns - start_ns) FILTER (mask & 3 = 3) AS hidden_communication_ns,
        sum(end_ns - start_ns) FILTER (mask & 7 > 4) AS hidden_copy_ns,
        sum(end_ns - start_ns) FILTER (mask = 8) AS unrecorded_ns
    FROM interval_moments('marked')
    WHERE mask > 0
    GROUP BY key, marks
),
-- Totals up to each edge, so that a window is a difference.
until_edge AS (
    SELECT
        run, rank, marks,
        sum(compute_ns) OVER before AS compute_ns,
        sum(exposed_communication_ns) OVER before AS exposed_communication_ns,
        sum(exposed_copy_ns) OVER before AS exposed_copy_ns,
        sum(hidden_communication_ns) OVER before AS hidden_communication_ns,
        sum(hidden_copy_ns) OVER before AS hidden_copy_ns,
        sum(unrecorded_ns) OVER before AS unrecorded_ns
    FROM (SELECT DISTINCT run, rank, marks FROM edges)
    LEFT JOIN sections USING (run, rank, marks)
    WINDOW before AS (PARTITION BY run, rank ORDER BY marks ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
added AS (
    SELECT
        windows.*,
        windows.end_ns - windows.start_ns AS span_ns,
        coalesce(sum(sign * compute_ns), 0)::BIGINT AS compute_ns,
        coalesce(sum(sign * exposed_communication_ns), 0)::BIGINT AS exposed_communication_ns,
        coalesce(sum(sign * exposed_copy_ns), 0)::BIGINT AS exposed_copy_ns,
        coalesce(sum(sign * hidden_communication_ns), 0)::BIGINT AS hidden_communication_ns,
        coalesce(sum(sign * hidden_copy_ns), 0)::BIGINT AS hidden_copy_ns,
        coalesce(sum(sign * unrecorded_ns), 0)::BIGINT AS unrecorded_ns
    FROM windows
    LEFT JOIN edges
        ON windows.run = edges.run
        AND windows.rank = edges.rank
        AND windows.event_id IS NOT DISTINCT FROM edges.event_id
    LEFT JOIN until_edge
        ON edges.run = until_edge.run AND edges.rank = until_edge.rank AND edges.marks = until_edge.marks
    GROUP BY ALL
)
SELECT
    *, compute_ns + exposed_communication_ns + exposed_copy_ns AS busy_ns, span_ns - busy_ns - unrecorded_ns AS idle_ns
FROM added;

-- interval_breakdown: what devices did in the interval of each step, as device_breakdown has it.
-- parameter steps TABLE  `profiler_steps`, or a part of it
-- column run, rank, event_id, step, start_ns, end_ns  as in device_breakdown
-- column span_ns, compute_ns, exposed_communication_ns, exposed_copy_ns  as in device_breakdown
-- column hidden_communication_ns, hidden_copy_ns, busy_ns, unrecorded_ns, idle_ns  as in device_breakdown
-- example: FROM interval_breakdown(profiler_steps)
CREATE OR REPLACE TEMP MACRO interval_breakdown(steps) AS TABLE
SELECT
    run, rank, event_id, step, began_ns AS start_ns, completed_ns AS end_ns, step_ns AS span_ns, compute_ns,
    exposed_communication_ns, exposed_copy_ns, hidden_communication_ns, hidden_copy_ns,
    compute_ns + exposed_communication_ns + exposed_copy_ns AS busy_ns, unrecorded_ns, idle_ns
FROM query_table(steps)
WHERE compute_ns IS NOT NULL;

-- step_breakdown: device_breakdown of whole traces and of their steps.
-- parameter events TABLE  `events`, or a part of it
-- parameter steps TABLE  `profiler_steps`, or a part of it
-- parameter per VARCHAR  step: a step is its interval; host: its slice on the host, and counts what ran in it
-- column run, rank, event_id, step, start_ns, end_ns  as in device_breakdown
-- column span_ns, compute_ns, exposed_communication_ns, exposed_copy_ns  as in device_breakdown
-- column hidden_communication_ns, hidden_copy_ns, busy_ns, unrecorded_ns, idle_ns  as in device_breakdown
-- example: FROM step_breakdown(events, profiler_steps, 'step')
CREATE OR REPLACE TEMP MACRO step_breakdown(events, steps, per) AS TABLE
WITH windows AS (
    FROM host_windows(steps)
    WHERE per = 'host'
)
FROM device_breakdown(events, windows)
UNION ALL BY NAME
FROM interval_breakdown(steps)
WHERE per = 'step';

-- idle_clock: busy_order with the reading, at each start, of a clock that runs while its lane is idle. The first reading is
-- arbitrary: only differences on one lane count.
-- parameter rows TABLE  intervals, as busy_order takes them
-- column *  as in rows
-- column free_ns, added_ns, gap_ns  as in busy_order
-- column idle_ns HUGEINT  reading of the clock at the start
-- example: WITH work AS (SELECT rank::BIGINT AS lane, event_id, start_ns, end_ns FROM device_work(events)) FROM idle_clock(work)
CREATE OR REPLACE TEMP MACRO idle_clock(rows) AS TABLE
SELECT *, coalesce(sum(gap_ns) OVER (ROWS UNBOUNDED PRECEDING), 0) AS idle_ns
FROM busy_order(rows);

-- communication_clock: one row per communication in `work` (lane, event_id, computes, communicates, start_ns, end_ns), with the
-- readings at its start and end, in nanoseconds, of a clock that runs while nothing computes: the difference is the exposed part.
-- parameter work TABLE  intervals: `lane`, `event_id`, `start_ns`, `end_ns`, `computes` and `communicates`
-- column lane, event_id  as in work
-- column alone_ns HUGEINT  for communication, reading at its start of a clock that runs while nothing computes
-- column alone_end_ns HUGEINT  the same at its end
-- example: WITH work AS (SELECT rank::BIGINT AS lane, event_id, class = 'compute' AS computes, class = 'communication' AS
-- communicates, start_ns, end_ns FROM device_work(events)) FROM communication_clock(work)
CREATE OR REPLACE TEMP MACRO communication_clock(work) AS TABLE
WITH communication AS MATERIALIZED (
    FROM query_table(work)
    WHERE communicates
),
-- Its start and end are intervals of zero length, which the clock passes.
moments AS (
    SELECT lane, event_id, start_ns, end_ns, NULL AS is_start
    FROM query_table(work)
    SEMI JOIN communication USING (lane)
    WHERE computes
    UNION ALL
    SELECT
        lane, event_id, unnest([start_ns, end_ns]) AS start_ns, unnest([start_ns, end_ns]) AS end_ns,
        unnest([true, false]) AS is_start
    FROM communication
)
SELECT
    lane, event_id,
    any_value(idle_ns) FILTER (is_start) AS alone_ns,
    any_value(idle_ns) FILTER (NOT is_start) AS alone_end_ns
FROM idle_clock('moments')
WHERE is_start IS NOT NULL
GROUP BY ALL;

-- device_clock: one row per slice that keeps a device busy, with the `lane` of lanes and readings of clocks, in nanoseconds:
-- `idle_ns` at its start, on a clock that runs while no device of the rank is busy; for communication, `alone_ns` and
-- `alone_end_ns` of communication_clock.
-- parameter events TABLE  `events`, or a part of it
-- column event_id, device, stream, start_ns, step, launch_id, op_id  as in events
-- column lane BIGINT  number of the (run, rank), as in lanes
-- column is_kernel BOOLEAN  whether it is a kernel, not a copy or fill
-- column computes BOOLEAN  whether it computes
-- column communicates BOOLEAN  whether it is communication
-- column end_ns BIGINT  end of the work
-- column idle_ns HUGEINT  reading at its start of a clock that runs while the devices of the rank are idle
-- column alone_ns HUGEINT  for communication, reading at its start of a clock that runs while nothing computes
-- column alone_end_ns HUGEINT  the same at its end
-- example: FROM device_clock(events)
CREATE OR REPLACE TEMP MACRO device_clock(events) AS TABLE
WITH lanes AS (
    FROM lanes(events)
),
work AS MATERIALIZED (
    SELECT
        lane, event_id, kind = 'kernel' AS is_kernel, class = 'compute' AS computes,
        class = 'communication' AS communicates, device, stream, start_ns, end_ns, step, launch_id, op_id
    FROM device_work(events) AS work
    JOIN few(lanes) AS lanes ON work.run = lanes.run AND work.rank = lanes.rank
),
lost AS (
    SELECT lane, -1 AS event_id, start_ns, end_ns
    FROM lost_work(events) AS lost
    JOIN few(lanes) AS lanes ON lost.run = lanes.run AND lost.rank = lanes.rank
),
work_and_lost AS (
    FROM work
    UNION ALL BY NAME
    FROM lost
),
idle AS (
    SELECT * EXCLUDE (free_ns, added_ns, gap_ns)
    FROM idle_clock('work_and_lost')
    WHERE event_id >= 0
)
SELECT *, NULL::BIGINT AS alone_ns, NULL::BIGINT AS alone_end_ns
FROM idle
WHERE NOT communicates
UNION ALL BY NAME
SELECT idle.*, ends.alone_ns, ends.alone_end_ns
FROM idle
JOIN communication_clock('work') AS ends USING (lane, event_id)
WHERE idle.communicates;

-- device_use: what each device of a rank did in given windows: time with kernels, with any work, and how far kernels filled it.
-- All are integrals over the time of the device, read at both ends of a window: each of these is a change by nothing.
-- parameter events TABLE  `events`, or a part of it
-- parameter windows TABLE  windows: `run`, `rank`, `start_ns`, `end_ns`, and any other columns
-- column *  as in windows
-- column device INTEGER  device; NULL if the source does not say
-- column kernel_ns BIGINT  time in which at least one kernel ran
-- column busy_ns BIGINT  time in which at least one kernel, copy or fill ran
-- column unrecorded_ns BIGINT  time in which none ran, and work that is not in the trace may have run
-- column filled_ns DOUBLE  time of kernels times their blocks per multiprocessor, at most 1; NULL if the trace has none
-- column occupied_ns DOUBLE  time of kernels that have an estimated occupancy, times that
-- column estimated_ns DOUBLE  time of these kernels, overlaps counted twice
-- example: WITH windows AS (FROM host_windows(profiler_steps)) FROM device_use(events, windows)
CREATE OR REPLACE TEMP MACRO device_use(events, windows) AS TABLE
WITH work AS MATERIALIZED (
    SELECT
        run, rank, device, start_ns, start_ns + dur_ns AS end_ns, (kind = 'kernel')::INTEGER AS kernels, 1 AS pieces,
        -- Billionths, so that what is added is subtracted again to the last digit.
        CASE WHEN kind = 'kernel' AND blocks_per_sm > 0 THEN round(least(blocks_per_sm, 1e9) * 1e9)::BIGINT END AS blocks,
        CASE WHEN kind = 'kernel' AND occupancy >= 0 THEN round(least(occupancy, 1e9) * 1e9)::BIGINT END AS occupancy
    FROM query_table(events)
    WHERE is_busy(kind) AND start_ns IS NOT NULL AND dur_ns IS NOT NULL
),
devices AS MATERIALIZED (
    SELECT run, rank, device, count(blocks) > 0 AS has_blocks, row_number() OVER () AS lane
    FROM work
    GROUP BY run, rank, device
),
numbered AS MATERIALIZED (
    SELECT windows.*, devices.device, devices.lane, devices.has_blocks, row_number() OVER () AS window_number
    FROM query_table(windows) AS windows
    JOIN few(devices) AS devices ON windows.run = devices.run AND windows.rank = devices.rank
),
changes AS (
    SELECT
        lane, at_ns, window_number, edge,
        sign * kernels AS kernels, sign * pieces AS pieces, sign * (1 - pieces) AS lost,
        sign * coalesce(blocks, 0)::HUGEINT AS blocks, sign * coalesce(occupancy, 0)::HUGEINT AS occupancy,
        sign * (occupancy IS NOT NULL)::INTEGER AS estimated
    FROM (
        SELECT
            devices.lane, work.kernels, work.pieces, work.blocks, work.occupancy,
            unnest([work.start_ns, work.end_ns]) AS at_ns, unnest([1, -1]) AS sign,
            NULL::BIGINT AS window_number, 0 AS edge
        FROM work
        JOIN few(devices) AS devices
            ON work.run = devices.run AND work.rank = devices.rank AND work.device IS NOT DISTINCT FROM devices.device
        UNION ALL
        SELECT devices.lane, 0, 0, NULL, NULL, unnest([lost.start_ns, lost.end_ns]), unnest([1, -1]), NULL, 0
        FROM lost_work(events) AS lost
        JOIN few(devices) AS devices
            ON lost.run = devices.run AND lost.rank = devices.rank AND coalesce(lost.device = devices.device, true)
        UNION ALL
        SELECT lane, 0, 1, NULL, NULL, unnest([start_ns, end_ns]), 0, window_number, unnest([-1, 1])
        FROM numbered
        WHERE start_ns IS NOT NULL AND end_ns IS NOT NULL
    )
),
-- Sorted once, so that the windows stream: in each lane all sums are 0 after its last change. Of changes at the same moment all
-- but the last have no length.
rates AS (
    SELECT
        window_number, edge,
        CASE
            WHEN sum(pieces) OVER until_now > 0 OR sum(lost) OVER until_now > 0 THEN lead(at_ns) OVER () - at_ns
        END AS length_ns,
        (sum(kernels) OVER until_now > 0)::INTEGER AS kernel_rate,
        (sum(pieces) OVER until_now > 0)::INTEGER AS busy_rate,
        (sum(pieces) OVER until_now = 0)::INTEGER AS unrecorded_rate,
        least(sum(blocks) OVER until_now, 1000000000) AS filled_rate,
        sum(occupancy) OVER until_now AS occupied_rate,
        sum(estimated) OVER until_now AS estimated_rate
    FROM (FROM changes ORDER BY lane, at_ns)
    WINDOW until_now AS (ROWS UNBOUNDED PRECEDING)
),
-- Of all lanes together: a window takes the difference of two moments of one lane.
clocks AS (
    SELECT
        window_number, edge,
        sum(kernel_ns) OVER until_now - kernel_ns AS kernel_ns,
        sum(busy_ns) OVER until_now - busy_ns AS busy_ns,
        sum(unrecorded_ns) OVER until_now - unrecorded_ns AS unrecorded_ns,
        sum(filled_ns) OVER until_now - filled_ns AS filled_ns,
        sum(occupied_ns) OVER until_now - occupied_ns AS occupied_ns,
        sum(estimated_ns) OVER until_now - estimated_ns AS estimated_ns
    FROM (
        SELECT
            window_number, edge,
            coalesce(length_ns * kernel_rate, 0) AS kernel_ns,
            coalesce(length_ns * busy_rate, 0) AS busy_ns,
            coalesce(length_ns * unrecorded_rate, 0) AS unrecorded_ns,
            coalesce(length_ns * filled_rate, 0) AS filled_ns,
            coalesce(length_ns * occupied_rate, 0) AS occupied_ns,
            coalesce(length_ns * estimated_rate, 0) AS estimated_ns
        FROM rates
    )
    WINDOW until_now AS (ROWS UNBOUNDED PRECEDING)
),
uses AS (
    SELECT
        window_number,
        sum(edge * kernel_ns) AS kernel_ns,
        sum(edge * busy_ns) AS busy_ns,
        sum(edge * unrecorded_ns) AS unrecorded_ns,
        sum(edge * filled_ns) AS filled_ns,
        sum(edge * occupied_ns) AS occupied_ns,
        sum(edge * estimated_ns) AS estimated_ns
    FROM clocks
    WHERE window_number IS NOT NULL
    GROUP BY window_number
)
SELECT
    numbered.* EXCLUDE (lane, has_blocks, window_number),
    coalesce(uses.kernel_ns, 0)::BIGINT AS kernel_ns,
    coalesce(uses.busy_ns, 0)::BIGINT AS busy_ns,
    coalesce(uses.unrecorded_ns, 0)::BIGINT AS unrecorded_ns,
    CASE WHEN has_blocks THEN coalesce(uses.filled_ns, 0) / 1e9 END AS filled_ns,
    coalesce(uses.occupied_ns, 0) / 1e9 AS occupied_ns,
    coalesce(uses.estimated_ns, 0)::DOUBLE AS estimated_ns
FROM numbered
LEFT JOIN uses ON numbered.window_number = uses.window_number;
