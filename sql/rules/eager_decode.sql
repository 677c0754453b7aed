-- eager_decode: decode steps run many short kernels that the host launches one by one.
-- One row per (run, rank).
-- Looks at the phases decode, verify and draft if none of their steps runs as a graph; if some do, see missed_captures. A launch
-- takes about 5 us and an op around it about 20 us, so a kernel shorter than 20 us ends before the host has the next one ready.
-- It is a finding if half of the kernels are that short, and devices are idle between them for a tenth of the time of these
-- phases: an eager step that is slow because of its kernels gains nothing from a graph.
-- suggestion: Run decode batches as graphs: in vLLM without enforce_eager, in SGLang without --disable-cuda-graph, else with
-- torch.cuda.graph or torch.compile(mode="reduce-overhead").
-- link: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
-- replay: launches, the launches of these steps free, as in a graph
-- claims: idle
-- only if: EXISTS (FROM events WHERE inference_phase IN ('decode', 'verify', 'draft'))
-- needs: events
-- parameter eager_decode_kernels DOUBLE = 0.5  least share of kernels under 20 us
-- parameter eager_decode_share   DOUBLE = 0.1  least idle share of these phases, between kernels
SELECT
    run,
    rank,
    severity_of(sum(inner_idle_ns), window_ns) AS severity,
    'Steps that generate tokens launch ' || format('{:,}', round(avg(kernels))::BIGINT) || ' kernels one by one, '
    || percent_text(sum(short_kernels) / sum(kernels)) || ' of them under 20 us; between them devices are idle for '
    || claimed_part() || ', in ' || counted(count(*), 'such step') AS finding,
    strongest(event_id, inner_idle_ns) AS evidence_events,
    count(*) AS events,
    list(event_id) AS changed_events,
    sum(inner_idle_ns) AS claimed_ns,
    sum(examined_ns) AS claimed_of_ns,
    coalesce(getvariable('eager_decode_share'), 0.1) * sum(examined_ns) AS least_ns,
    sum(inner_idle_ns) AS estimated_gain_ns,
    'idle time of the devices between the first and the last work of each step' AS gain_basis,
    NULL AS "where"
FROM shared_phases
WHERE phase IN ('decode', 'verify', 'draft') AND execution IS NOT NULL
GROUP BY run, rank, steps, window_ns
HAVING
    count(*) FILTER (execution = 'graph') = 0
    AND sum(kernels) > 0
    AND sum(short_kernels) >= coalesce(getvariable('eager_decode_kernels'), 0.5) * sum(kernels)
    AND claimed_ns >= 0.1 * least_ns
