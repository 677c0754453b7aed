-- graph_breaks: compiled code breaks into several graphs.
-- One row per (run, rank, function and line where it continues).
-- After a break, torch continues in a function that it creates, torch_dynamo_resume_in_FUNCTION_at_LINE; its calls appear if
-- Python frames are recorded (with_stack). One call is enough evidence, so there is no threshold; the cost depends on what could
-- have been fused across the break.
-- suggestion: TORCH_LOGS=graph_breaks says why: remove print, .item() and data-dependent ifs, or find all with fullgraph=True.
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
