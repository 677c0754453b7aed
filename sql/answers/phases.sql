-- phases: inference phases: requests, tokens, host and device time, graph or eager.
-- One row per (run, rank, phase, execution, is_warmup), with `per` also per batch or occurrence, by run, rank, first start.
-- Phases come from the annotations and Python frames of vLLM, SGLang, ATOM and TensorRT-LLM, as described for `inference_phase`
-- of events. Device work is in the phase of its launch, whenever it runs. A span is from the start of an occurrence on the host
-- to the end of its last work or its end on the host, whichever is later; overlapping spans in a row count once. Where the host
-- runs ahead, a span holds work of the occurrences before it. step_ns does not: it is the time since the completion before it, or
-- since its own start where that is later, as `step_times` has it; one inside another is a part of it. Time between occurrences
-- is in no phase. Warm-up includes captures, dummy runs, and the first occurrences of a phase while their spans (per token for
-- prefill and mixed) are more than twice the median of the phase.
-- In a bare shell read from `sql/lib` first: devices, lanes, intervals, steps, busy, roofline, phase_names, phases.
-- needs: events, devices, phase_steps
-- recorded: phases
-- divides by: rank
-- main columns: phase, execution, calls, p50_span_ns, span_ns, device_ns, idle_share, tokens_per_s, mean_batch, tokens
-- main columns: is_warmup, host_ns, idle_ns, batch, roofline_share, exposed_communication_ns, busy_ns, event_id, start_ns
-- parameter per  VARCHAR(phase|batch|occurrence) = phase  what each row is: a phase, a batch size of it, or an occurrence
-- run                       VARCHAR              run that the trace belongs to
-- rank                      INTEGER              rank within the run
-- phase                     VARCHAR              prefill decode mixed draft verify diffusion idle capture dummy; NULL: not known
-- execution                 VARCHAR              graph: at least half of device_ns is from graphs; eager: less; NULL without any
-- is_warmup                 BOOLEAN              part of the warm-up; NULL if unknown, with fewer than four of a phase
-- batch                     BIGINT               requests in each occurrence; NULL if not known, or not all the same
-- name                      VARCHAR              name of the marker that the first occurrence began with
-- event_id                  BIGINT               event_id of that marker
-- start_ns                  BIGINT    ns         start of the marker, on the clock that traces.clock names
-- calls                     BIGINT               number of occurrences
-- mean_batch                DOUBLE               mean requests per occurrence; NULL if one is not known
-- tokens                    BIGINT               tokens that went through the model; NULL if one number is not known
-- prefill_tokens            BIGINT               prompt tokens; NULL if one number is not known
-- decode_tokens             BIGINT               generated tokens; NULL if one number is not known
-- host_ns                   BIGINT    ns         host time in it, without other phases inside; NULL for markers on devices
-- span_ns                   BIGINT    ns         time in which at least one span was open
-- p50_span_ns               BIGINT    ns         median of the spans, one of the values
-- max_span_ns               BIGINT    ns         the longest
-- step_ns                   BIGINT    ns         sum of the times to their completions; NULL if one is not known
-- p50_step_ns               BIGINT    ns         median of those that are known, one of the values
-- max_step_ns               BIGINT    ns         the longest
-- device_start_ns           BIGINT    ns         start of the first device work launched in it; NULL if there is none
-- device_window_ns          BIGINT    ns         from there to the end of the last
-- lag_ns                    BIGINT    ns         how far the devices were at most behind when the host ended an occurrence
-- tokens_per_s              DOUBLE               tokens over span_ns; NULL if one is not known or 0
-- kernels                   BIGINT               number of kernels
-- graphs                    BIGINT               number of graph launches
-- device_ns                 BIGINT    ns         sum of durations of its kernels, copies and fills
-- graph_share               DOUBLE    0..1       part of device_ns that graphs launched; NULL if that is 0
-- busy_ns                   BIGINT    ns         time in which at least one piece of its work ran
-- idle_ns                   BIGINT    ns         part of span_ns in which no device of the rank was busy; NULL without devices
-- idle_share                DOUBLE    0..1       idle_ns over span_ns
-- communication_ns          BIGINT    ns         sum of durations of its communication
-- exposed_communication_ns  BIGINT    ns         time in which some of it ran and nothing on the rank computed
-- known_share               DOUBLE    0..1       part of device_ns with known work and peak; NULL if that is 0
-- roofline_share            DOUBLE    0..1       how close the known part comes to the peaks: least time over its time; NULL if 0
WITH marks AS MATERIALIZED (
    FROM phase_marks(events)
),
work AS MATERIALIZED (
    FROM phase_work(events)
),
occurrences AS MATERIALIZED (
    SELECT
        *,
        dense_rank() OVER (
            ORDER BY
                run, rank,
                CASE WHEN coalesce(getvariable('per'), 'phase') = 'occurrence' THEN event_id END,
                phase, execution, is_warmup,
                CASE WHEN coalesce(getvariable('per'), 'phase') = 'batch' THEN batch END
        ) AS lane
    FROM phase_occurrences(marks, work)
),
steps AS (
    SELECT run, rank, event_id, step_ns, device_start_ns, device_window_ns, lag_ns
    FROM phase_steps
),
lane_work AS MATERIALIZED (
    SELECT occurrences.lane, work.*
    FROM work
    JOIN occurrences
        ON work.run = occurrences.run AND work.rank = occurrences.rank AND work.phase_id = occurrences.event_id
),
spans AS MATERIALIZED (
    SELECT run, rank, lane, start_ns, span_end_ns AS end_ns
    FROM occurrences
),
exposed AS MATERIALIZED (
    SELECT lane, alone_ns AS start_ns, alone_end_ns AS end_ns
    FROM lane_work
    WHERE alone_ns IS NOT NULL
),
limits AS (
    SELECT lane, sum(limits.dur_ns) AS known_ns, sum(limits.limit_ps) AS limit_ps
    FROM kernel_limits(events, devices, '') AS limits
    JOIN lane_work
        ON limits.run = lane_work.run AND limits.rank = lane_work.rank AND limits.event_id = lane_work.event_id
    WHERE limits.limit_ps IS NOT NULL
    GROUP BY lane
),
communication AS (
    SELECT lane, sum(dur_ns) AS communication_ns
    FROM lane_work
    WHERE communicates
    GROUP BY lane
),
sums AS (
    SELECT
        lane, run, rank, phase, execution, is_warmup,
        CASE WHEN count(batch) = count(*) AND min(batch) = max(batch) THEN min(batch) END AS batch,
        min({'at': start_ns, 'id': event_id, 'name': name}) AS first,
        count(*) AS calls,
        CASE WHEN count(batch) = count(*) THEN avg(batch) END AS mean_batch,
        CASE WHEN count(tokens) = count(*) THEN sum(tokens) END AS tokens,
        CASE WHEN count(prefill_tokens) = count(*) THEN sum(prefill_tokens) END AS prefill_tokens,
        CASE WHEN count(decode_tokens) = count(*) THEN sum(decode_tokens) END AS decode_tokens,
        CASE WHEN count(host_ns) = count(*) THEN sum(host_ns) END AS host_ns,
        quantile_disc(span_end_ns::HUGEINT - start_ns, 0.5) AS p50_span_ns,
        max(span_end_ns::HUGEINT - start_ns) AS max_span_ns,
        CASE WHEN count(steps.step_ns) = count(*) THEN sum(steps.step_ns) END AS step_ns,
        quantile_disc(steps.step_ns, 0.5) AS p50_step_ns,
        max(steps.step_ns) AS max_step_ns,
        min(steps.device_start_ns) AS device_start_ns,
        max(steps.device_start_ns::HUGEINT + steps.device_window_ns) - min(steps.device_start_ns) AS device_window_ns,
        max(steps.lag_ns) AS lag_ns,
        sum(kernels) AS kernels,
        sum(graphs) AS graphs,
        sum(device_ns) AS device_ns,
        sum(graph_ns) AS graph_ns
    FROM occurrences
    LEFT JOIN steps USING (run, rank, event_id)
    GROUP BY lane, run, rank, phase, execution, is_warmup
)
SELECT
    sums.run,
    sums.rank,
    sums.phase,
    sums.execution,
    sums.is_warmup,
    sums.batch,
    sums.first.name AS name,
    sums.first.id AS event_id,
    sums.first.at AS start_ns,
    sums.calls,
    sums.mean_batch,
    try_cast(sums.tokens AS BIGINT) AS tokens,
    try_cast(sums.prefill_tokens AS BIGINT) AS prefill_tokens,
    try_cast(sums.decode_tokens AS BIGINT) AS decode_tokens,
    try_cast(sums.host_ns AS BIGINT) AS host_ns,
    idle.span_ns,
    try_cast(sums.p50_span_ns AS BIGINT) AS p50_span_ns,
    try_cast(sums.max_span_ns AS BIGINT) AS max_span_ns,
    try_cast(sums.step_ns AS BIGINT) AS step_ns,
    sums.p50_step_ns,
    sums.max_step_ns,
    sums.device_start_ns,
    try_cast(sums.device_window_ns AS BIGINT) AS device_window_ns,
    sums.lag_ns,
    nullif(sums.tokens, 0) * 1e9 / nullif(idle.span_ns, 0) AS tokens_per_s,
    sums.kernels::BIGINT AS kernels,
    sums.graphs::BIGINT AS graphs,
    try_cast(sums.device_ns AS BIGINT) AS device_ns,
    sums.graph_ns / nullif(sums.device_ns, 0) AS graph_share,
    try_cast(coalesce(busy.covered_ns, 0) AS BIGINT) AS busy_ns,
    idle.idle_ns,
    idle.idle_ns / nullif(idle.span_ns, 0) AS idle_share,
    try_cast(coalesce(communication.communication_ns, 0) AS BIGINT) AS communication_ns,
    try_cast(coalesce(alone.covered_ns, 0) AS BIGINT) AS exposed_communication_ns,
    CASE WHEN sums.device_ns > 0 THEN coalesce(limits.known_ns, 0) / sums.device_ns END AS known_share,
    limits.limit_ps / 1e3 / nullif(limits.known_ns, 0) AS roofline_share
FROM sums
LEFT JOIN phase_idle(events, spans) AS idle ON sums.lane = idle.lane
LEFT JOIN covered_time(lane_work) AS busy ON sums.lane = busy.lane
LEFT JOIN covered_time(exposed) AS alone ON sums.lane = alone.lane
LEFT JOIN communication ON sums.lane = communication.lane
LEFT JOIN limits ON sums.lane = limits.lane
ORDER BY sums.run, sums.rank, start_ns, event_id
