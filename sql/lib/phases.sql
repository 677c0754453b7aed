-- Inference phases: occurrences of prefill, decode and others, grouped by `phase_id` of `events`.
-- In a bare shell read `devices.sql`, `lanes.sql`, `intervals.sql`, `steps.sql`, `busy.sql` and `phase_names.sql` of `sql/lib`
-- first.

-- phase_marks: one row per occurrence of a phase, with what the names of its markers say: the marker that opens it, else the
-- first annotation in it with the same phase.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, event_id, name, step, start_ns  as in events
-- column phase VARCHAR  the phase; NULL if it is not known
-- column end_ns BIGINT  end of the marker
-- column host_ns BIGINT  host time in it, without other occurrences inside it; NULL if only devices have markers
-- column batch BIGINT  requests; NULL if no name says, like the next three
-- column prefill_tokens BIGINT  prompt tokens
-- column decode_tokens BIGINT  generated tokens
-- column tokens BIGINT  both
-- example: FROM phase_marks(events)
CREATE OR REPLACE TEMP MACRO phase_marks(events) AS TABLE
WITH marks AS MATERIALIZED (
    SELECT
        run, rank, event_id, phase_id, parent_id, kind, name, step, inference_phase AS phase, start_ns, dur_ns,
        phase_id = event_id AS is_first
    FROM query_table(events)
    WHERE phase_id IS NOT NULL AND (phase_id = event_id OR kind = 'annotation')
),
counts AS MATERIALIZED (
    SELECT name, phase, phase_counts(name, phase) AS counts
    FROM (SELECT DISTINCT name, phase FROM marks)
),
inner_counts AS (
    SELECT run, rank, phase_id, arg_min(counts, event_id) AS counts
    FROM marks
    JOIN counts ON marks.name = counts.name AND marks.phase IS NOT DISTINCT FROM counts.phase
    WHERE NOT is_first AND coalesce(counts.batch, counts.tokens) IS NOT NULL AND marks.phase <> 'draft'
    GROUP BY run, rank, phase_id
),
nested AS (
    SELECT parent.run, parent.rank, parent.phase_id, sum(marks.dur_ns) AS nested_ns
    FROM marks
    JOIN query_table(events) AS parent
        ON marks.run = parent.run AND marks.rank = parent.rank AND marks.parent_id = parent.event_id
    WHERE marks.is_first AND parent.phase_id IS NOT NULL
    GROUP BY parent.run, parent.rank, parent.phase_id
)
SELECT
    marks.run,
    marks.rank,
    marks.event_id,
    marks.phase,
    marks.name,
    marks.step,
    marks.start_ns,
    marks.start_ns + marks.dur_ns AS end_ns,
    CASE
        WHEN marks.kind <> 'device_annotation' THEN try_cast(marks.dur_ns - coalesce(nested.nested_ns, 0) AS BIGINT)
    END AS host_ns,
    coalesce(counts.counts.batch, inner_counts.counts.batch) AS batch,
    coalesce(counts.counts.prefill_tokens, inner_counts.counts.prefill_tokens) AS prefill_tokens,
    coalesce(counts.counts.decode_tokens, inner_counts.counts.decode_tokens) AS decode_tokens,
    coalesce(counts.counts.tokens, inner_counts.counts.tokens) AS tokens
FROM marks
LEFT JOIN counts ON marks.name = counts.name AND marks.phase IS NOT DISTINCT FROM counts.phase
LEFT JOIN inner_counts
    ON marks.run = inner_counts.run AND marks.rank = inner_counts.rank AND marks.event_id = inner_counts.phase_id
LEFT JOIN nested ON marks.run = nested.run AND marks.rank = nested.rank AND marks.event_id = nested.phase_id
WHERE marks.is_first;

-- phase_work: one row per slice that keeps a device busy and belongs to an occurrence of a phase.
-- parameter events TABLE  `events`, or a part of it
-- column run, rank, event_id, phase_id, launch_id, start_ns, dur_ns  as in events
-- column end_ns, is_kernel, computes, communicates, idle_ns, alone_ns, alone_end_ns  as in device_clock
-- column is_replayed BOOLEAN  whether it was launched by a graph
-- example: FROM phase_work(events)
CREATE OR REPLACE TEMP MACRO phase_work(events) AS TABLE
SELECT
    owned.*, clock.end_ns, clock.is_kernel, clock.computes, clock.communicates, clock.idle_ns, clock.alone_ns,
    clock.alone_end_ns
FROM device_clock(events) AS clock
JOIN lanes(events) AS lanes ON clock.lane = lanes.lane
JOIN (
    SELECT run, rank, event_id, phase_id, launch_id, start_ns, dur_ns, graph_position IS NOT NULL AS is_replayed
    FROM query_table(events)
    WHERE phase_id IS NOT NULL AND is_busy(kind)
) AS owned ON lanes.run = owned.run AND lanes.rank = owned.rank AND clock.event_id = owned.event_id;

-- phase_occurrences: phase_marks with what devices did for each, how it was launched, and whether it is warm-up. Its span is from
-- the start of its marker to the end of the marker or of its last work, whichever is later. Warm-up includes captures, dummy
-- runs, and the first occurrences of a phase while their spans (per token for prefill and mixed batches) are more than twice the
-- median of the phase. With fewer than four occurrences of a phase this is unknown.
-- parameter marks TABLE  rows of phase_marks
-- parameter work TABLE  rows of phase_work
-- column *  as in marks
-- column span_end_ns BIGINT  end of its span
-- column kernels BIGINT  number of its kernels
-- column device_ns HUGEINT  sum of the durations of its kernels, copies and fills
-- column graphs BIGINT  number of graph launches
-- column graph_ns HUGEINT  part of device_ns that these launched
-- column execution VARCHAR  graph: at least half of device_ns was launched by graphs; eager: less; NULL without device work
-- column is_warmup BOOLEAN  whether it is warm-up; NULL if unknown
-- example: WITH marks AS (FROM phase_marks(events)), work AS (FROM phase_work(events)) FROM phase_occurrences(marks, work)
CREATE OR REPLACE TEMP MACRO phase_occurrences(marks, work) AS TABLE
WITH sums AS (
    SELECT
        run, rank, phase_id AS event_id,
        max(end_ns) AS device_end_ns,
        count(*) FILTER (is_kernel) AS kernels,
        sum(dur_ns) AS device_ns,
        count(DISTINCT launch_id) FILTER (is_replayed) AS graphs,
        coalesce(sum(dur_ns) FILTER (is_replayed), 0) AS graph_ns
    FROM query_table(work)
    GROUP BY run, rank, phase_id
),
spans AS (
    SELECT
        marks.*,
        -- No start is later than 2^62, and up to there differences fit.
        greatest(least(greatest(marks.end_ns, sums.device_end_ns), 4611686018427387903), marks.start_ns) AS span_end_ns,
        coalesce(sums.kernels, 0) AS kernels,
        coalesce(sums.device_ns, 0) AS device_ns,
        coalesce(sums.graphs, 0) AS graphs,
        coalesce(sums.graph_ns, 0) AS graph_ns,
        CASE
            WHEN sums.device_ns IS NULL THEN NULL
            WHEN 2 * sums.graph_ns >= sums.device_ns AND sums.graphs > 0 THEN 'graph'
            ELSE 'eager'
        END AS execution,
        (span_end_ns::HUGEINT - marks.start_ns)
        / CASE WHEN phase IN ('prefill', 'mixed') AND min(tokens) OVER phases > 0 THEN tokens ELSE 1 END AS pace,
        count(*) OVER phases AS calls
    FROM query_table(marks) AS marks
    LEFT JOIN sums USING (run, rank, event_id)
    WINDOW phases AS (PARTITION BY run, rank, phase)
),
paces AS (
    SELECT *, quantile_disc(pace, 0.5) OVER (PARTITION BY run, rank, phase) AS usual_pace
    FROM spans
)
SELECT
    * EXCLUDE (pace, calls, usual_pace),
    CASE
        WHEN phase IN ('capture', 'dummy') THEN true
        WHEN phase IS NULL OR calls < 4 THEN NULL
        ELSE bool_and(pace > 2 * usual_pace) OVER (
            PARTITION BY run, rank, phase ORDER BY start_ns, event_id ROWS UNBOUNDED PRECEDING
        )
    END AS is_warmup
FROM paces;

-- phase_idle: how long no device of the rank was busy while at least one span of a group was open.
-- parameter events TABLE  `events`, or a part of it
-- parameter spans TABLE  `run`, `rank`, `lane` (a number for each group, of one rank), `start_ns` and `end_ns`
-- column lane  as in spans
-- column span_ns BIGINT  time in which at least one span was open
-- column idle_ns BIGINT  part of it in which no device of the rank was busy; NULL for a rank without device work
-- example: WITH spans AS (SELECT *, row_number() OVER () AS lane FROM phase_marks(events)) FROM phase_idle(events, spans)
CREATE OR REPLACE TEMP MACRO phase_idle(events, spans) AS TABLE
WITH numbered AS (
    SELECT run, rank, lane, start_ns, end_ns, 0 AS event_id
    FROM query_table(spans)
),
pieces AS (
    SELECT run, rank, lane, least(greatest(start_ns, coalesce(free_ns, start_ns)), end_ns) AS start_ns, end_ns
    FROM busy_order('numbered')
    WHERE added_ns > 0 OR start_ns = end_ns
),
edges AS MATERIALIZED (
    SELECT pieces.lane, lanes.lane AS clock, unnest([-1, 1]) AS sign, unnest([pieces.start_ns, pieces.end_ns]) AS at_ns
    FROM pieces
    JOIN lanes(events) AS lanes ON pieces.run = lanes.run AND pieces.rank = lanes.rank
),
moments AS MATERIALIZED (
    SELECT DISTINCT clock AS lane, at_ns
    FROM edges
),
clock_rows AS MATERIALIZED (
    SELECT lanes.lane, work.event_id, work.start_ns, work.end_ns, false AS is_moment
    FROM device_work(events) AS work
    JOIN lanes(events) AS lanes ON work.run = lanes.run AND work.rank = lanes.rank
    WHERE lanes.lane IN (SELECT lane FROM moments)
    UNION ALL
    SELECT lane, -1, at_ns, at_ns, true
    FROM moments
),
clocks AS MATERIALIZED (
    SELECT lane, start_ns AS at_ns, min(idle_ns) AS idle_ns
    FROM idle_clock('clock_rows')
    WHERE is_moment
    GROUP BY lane, at_ns
)
SELECT
    edges.lane,
    try_cast(sum(edges.sign * edges.at_ns::HUGEINT) AS BIGINT) AS span_ns,
    CASE
        WHEN any_value(busy.lane) IS NOT NULL THEN try_cast(sum(edges.sign * clocks.idle_ns) AS BIGINT)
    END AS idle_ns
FROM edges
JOIN clocks ON edges.clock = clocks.lane AND edges.at_ns = clocks.at_ns
LEFT JOIN (SELECT DISTINCT lane FROM clock_rows WHERE NOT is_moment) AS busy ON edges.clock = busy.lane
GROUP BY edges.lane;
