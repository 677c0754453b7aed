-- graph_breaks: compiled code is broken into several graphs.
-- One row per (run, rank, function and line where it goes on).
-- After a break torch goes on in a function that it makes, torch_dynamo_resume_in_FUNCTION_at_LINE: where Python frames are
-- recorded (with_stack), its calls are there. One call tells enough, so there is no threshold; what it costs depends on what
-- could have been fused across it.
-- suggestion: TORCH_LOGS=graph_breaks says why: take print, .item() and data-dependent ifs out, or find all with fullgraph=True.
-- link: https://docs.pytorch.org/docs/stable/torch.compiler_troubleshooting.html#graph-breaks
-- only if: EXISTS (FROM shared_names WHERE contains(name, 'torch_dynamo_resume_in_'))
-- needs: events
SELECT
    run,
    rank,
    'low' AS severity,
    'The graph of ' || shown(regexp_extract(name, 'torch_dynamo_resume_in_(.*)_at_\d+$', 1)) || ' breaks at line '
    || regexp_extract(name, '_at_(\d+)$', 1) || ', ' || counted(count(*), 'time') AS finding,
    strongest(event_id, coalesce(dur_ns, 0)) AS evidence_events,
    count(*) AS events,
    NULL AS estimated_gain_ns,
    'depends on what could be fused across the break' AS gain_basis,
    shown(name) AS "where"
FROM events
WHERE
    preorder IS NOT NULL
    AND name IN (SELECT name FROM shared_names WHERE regexp_matches(name, 'torch_dynamo_resume_in_.*_at_\d+$'))
GROUP BY run, rank, name
