-- host_bound_decode: decode steps that run as graphs leave devices idle because the host is not ready.
-- One row per (run, rank).
-- Looks at decode, verify and draft steps that run as graphs, where launching kernels cannot be the reason. Counts the time
-- within a step, from its start on the host to its end, in which no device of the rank is busy. The limit is a fifth of the time
-- of these steps, because preparing inputs and sampling take some of it in the best of servers. A profiler that records Python
-- frames or shapes slows the host down.
-- suggestion: Prepare the next batch while this one runs (vLLM --async-scheduling, the overlap scheduler of SGLang), batch more
-- requests, and look at what the host does in python_lines; record without stacks to measure the amount.
-- link: https://docs.sglang.ai/advanced_features/server_arguments.html
-- replay: host, what the host does in these steps taking no time
-- claims: idle
-- only if: EXISTS (FROM events WHERE inference_phase IN ('decode', 'verify', 'draft'))
-- needs: events
-- parameter host_bound_decode_share DOUBLE = 0.2  least share of the time of these steps for a finding
WITH bound AS (
    FROM shared_phases
    WHERE phase IN ('decode', 'verify', 'draft') AND execution = 'graph'
),
owners AS (
    SELECT run, rank, arg_max(label, {'is_line': sort = 'line', 'ns': part_ns, 'label': label}) AS label
    FROM (
        SELECT gaps.run, gaps.rank, owner.sort, owner.label, sum(owner.part_ns) AS part_ns
        FROM shared_gaps AS gaps
        ASOF JOIN bound ON gaps.run = bound.run AND gaps.rank = bound.rank AND gaps.start_ns >= bound.start_ns
        JOIN shared_owners AS owner ON gaps.gap = owner.gap
        WHERE gaps.start_ns < bound.span_end_ns
        GROUP BY gaps.run, gaps.rank, owner.sort, owner.label
    )
    GROUP BY run, rank
),
calls AS (
    SELECT run, rank, arg_max(name, {'idle_ns': idle_ns, 'event_id': -event_id}) AS name, max(idle_ns) AS idle_ns
    FROM (
        SELECT call.run, call.rank, call.event_id, call.name, least(call.idle_ns, bound.idle_ns) AS idle_ns
        FROM events AS call
        JOIN bound ON call.run = bound.run AND call.rank = bound.rank AND call.phase_id = bound.event_id
        WHERE is_call(call.kind) AND call.idle_ns > 0
    )
    GROUP BY run, rank
)
SELECT
    bound.run,
    bound.rank,
    severity_of(sum(bound.idle_ns), window_ns) AS severity,
    'Devices are idle for ' || claimed_part() || ' in ' || counted(count(*), 'decode step') || ' run as '
    || CASE WHEN count(*) = 1 THEN 'a graph' ELSE 'graphs' END
    || CASE
        WHEN sum(graphs) > 2 * count(*)
            THEN ', with ' || format('{:,}', round(avg(graphs))::BIGINT) || ' graph launches in each'
        ELSE ''
    END
    || CASE
        WHEN 2 * any_value(calls.idle_ns) > sum(bound.idle_ns)
            THEN '; for ' || duration_text(any_value(calls.idle_ns)) || ' in one call of ' || shown(any_value(calls.name))
        ELSE ''
    END AS finding,
    strongest(event_id, bound.idle_ns) AS evidence_events,
    count(*) AS events,
    list(event_id) AS changed_events,
    list(span(start_ns, span_end_ns)) AS claimed,
    sum(bound.idle_ns) AS claimed_ns,
    sum(examined_ns) AS claimed_of_ns,
    coalesce(getvariable('host_bound_decode_share'), 0.2) * sum(examined_ns) AS least_ns,
    sum(bound.idle_ns) AS estimated_gain_ns,
    'time in these steps in which no device was busy' AS gain_basis,
    shown(any_value(owners.label)) AS "where"
FROM bound
LEFT JOIN owners ON bound.run = owners.run AND bound.rank = owners.rank
LEFT JOIN calls ON bound.run = calls.run AND bound.rank = calls.rank
GROUP BY bound.run, bound.rank, steps, window_ns
HAVING claimed_ns >= 0.1 * least_ns
