-- missed_captures: some batches run eagerly while others of the same phase run as graphs.
-- One row per (run, rank, phase).
-- Looks at decode, verify and draft. A graph is captured for certain batch sizes; a batch of another size, for example above the
-- largest, runs kernel by kernel. Its cost is its span beyond the median of those that ran as graphs: generating a token reads
-- all weights, whatever the batch, so all sizes take about the same device time. The limit is a fiftieth of the time, because
-- capturing more sizes is enough to fix it. Warm-up does not count.
-- suggestion: Capture these sizes as well: in vLLM with cudagraph_capture_sizes or max_cudagraph_capture_size, in SGLang with
-- --cuda-graph-bs or --cuda-graph-max-bs.
-- link: https://docs.vllm.ai/en/latest/design/cuda_graphs.html
-- replay: launches, the launches of these batches free, as in a graph
-- claims: idle
-- only if: EXISTS (FROM events WHERE inference_phase IN ('decode', 'verify', 'draft'))
-- needs: events
-- parameter missed_captures_share DOUBLE = 0.02  least share of the time for a finding
WITH steps_of AS (
    FROM shared_phases
    WHERE phase IN ('decode', 'verify', 'draft') AND execution IS NOT NULL
),
graphs AS (
    SELECT run, rank, phase, quantile_disc(span_ns, 0.5) AS usual_ns, count(*) AS graphs, list(DISTINCT batch) AS batches
    FROM steps_of
    WHERE execution = 'graph'
    GROUP BY run, rank, phase
)
SELECT
    eager.run,
    eager.rank,
    severity_of(sum(greatest(span_ns - usual_ns, 0)), window_ns) AS severity,
    format('{:,} of {:,}', count(*), count(*) + any_value(graphs.graphs)) || ' ' || phase || ' batches ran eagerly, in '
    || duration_text(avg(span_ns)) || ' on average against ' || duration_text(usual_ns) || ' as graphs'
    || coalesce(
        ': of ' || nullif(array_to_string(
            list_sort(list(DISTINCT batch) FILTER (batch IS NOT NULL AND NOT list_contains(batches, batch)))[:8], ', '
        ), '') || ' requests',
        ''
    ) AS finding,
    strongest(event_id, span_ns) AS evidence_events,
    count(*) AS events,
    list(event_id) AS changed_events,
    sum(greatest(span_ns - usual_ns, 0)) AS estimated_gain_ns,
    'their time beyond the median of batches that ran as graphs' AS gain_basis,
    NULL AS "where"
FROM steps_of AS eager
JOIN graphs USING (run, rank, phase)
WHERE execution = 'eager'
GROUP BY eager.run, eager.rank, phase, usual_ns, batches, steps, window_ns
HAVING sum(greatest(span_ns - usual_ns, 0)) >= coalesce(getvariable('missed_captures_share'), 0.02) * window_ns
