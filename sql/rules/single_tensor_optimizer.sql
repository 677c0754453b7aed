-- single_tensor_optimizer: an optimizer updates one tensor at a time.
-- One row per (run, rank, optimizer, line of source).
-- Evidence is a Python frame `_single_tensor_...`; or, if no frames were recorded, in-place ops on single tensors without any
-- `aten::_foreach_...` or `aten::_fused_...`, in a step of a torch optimizer that has a foreach or fused form. This is
-- OptimizerSingleTensorPattern of torch.profiler._pattern_matcher, with two differences: all optimizers with foreach count (torch
-- knows adam, sgd and adamw), and stacks are not needed.
-- suggestion: Pass foreach=True, or fused=True if the optimizer has it: a few kernels for all tensors instead of several for
-- each.
-- link: https://docs.pytorch.org/docs/stable/optim.html#algorithms
-- replay: launches, the launches of these steps free
-- claims: idle
-- only if: EXISTS (FROM shared_names WHERE starts_with(name, 'Optimizer.step#') OR contains(name, '_single_tensor_'))
-- needs: events
WITH frames AS MATERIALIZED (
    SELECT run, rank, thread, step, event_id, preorder, dur_ns, idle_ns, regexp_extract(name, '[a-z]+$') AS optimizer
    FROM shared_marked
    WHERE kind = 'python' AND regexp_matches(
        name, '_single_tensor_(asgd|adadelta|adafactor|adagrad|adam|adamw|adamax|nadam|radam|rmsprop|rprop|sgd)$'
    )
),
marks AS MATERIALIZED (
    SELECT
        run, rank, thread, step, event_id, preorder, last_descendant_id, dur_ns, idle_ns,
        lower(regexp_extract(name, '#(\w+)', 1)) AS optimizer
    FROM shared_marked
    WHERE kind <> 'python' AND regexp_full_match(
        name,
        'Optimizer\.step#(ASGD|Adadelta|Adafactor|Adagrad|Adam|AdamW|Adamax|NAdam|RAdam|RMSprop|Rprop|SGD)\.step'
    )
),
wanted AS (
    SELECT
        run, rank, event_id AS call_id, unnest([event_id, last_descendant_id]) AS event_id, unnest([true, false]) AS is_call
    FROM marks
),
details AS (
    SELECT
        run, rank, call_id AS event_id, frame_of(any_value(frames) FILTER (is_call)) AS line, max(place) AS last_place
    FROM details_of(events, wanted)
    GROUP BY run, rank, call_id
),
calls AS MATERIALIZED (
    SELECT *
    FROM marks
    JOIN details USING (run, rank, event_id)
),
spans AS (
    SELECT run, rank, thread, preorder AS place, {'id': event_id, 'last_place': last_place} AS given
    FROM calls
),
places AS (
    SELECT run, rank, thread, preorder AS place, event_id AS given
    FROM frames
),
around AS (
    SELECT run, rank, point AS event_id, mark.id AS call_id
    FROM marks_before(places, spans)
    WHERE place <= mark.last_place
),
framed AS MATERIALIZED (
    SELECT frames.*, around.call_id
    FROM frames
    LEFT JOIN around USING (run, rank, event_id)
),
ops AS (
    SELECT run, rank, thread, preorder AS place, starts_with(name, 'aten::_') AS given
    FROM shared_marked
    WHERE kind = 'host_op' AND (
        name IN ('aten::add_', 'aten::mul_', 'aten::addcmul_', 'aten::addcdiv_', 'aten::lerp_')
        OR starts_with(name, 'aten::_foreach_')
        OR starts_with(name, 'aten::_fused_')
    )
),
alone AS (
    SELECT run, rank, mark.id AS event_id
    FROM marks_before(ops, spans)
    WHERE place <= mark.last_place
    GROUP BY run, rank, mark.id
    HAVING NOT bool_or(point)
),
unframed AS (
    SELECT calls.run, calls.rank, calls.step, calls.event_id, calls.dur_ns, calls.idle_ns, calls.optimizer, calls.line
    FROM calls
    SEMI JOIN alone USING (run, rank, event_id)
    ANTI JOIN framed ON calls.run = framed.run AND calls.rank = framed.rank AND calls.event_id = framed.call_id
),
optimizer_calls AS (
    SELECT framed.run, framed.rank, framed.step, framed.event_id, framed.dur_ns, framed.idle_ns, framed.optimizer, calls.line
    FROM framed
    LEFT JOIN calls ON framed.run = calls.run AND framed.rank = calls.rank AND framed.call_id = calls.event_id
    UNION ALL
    FROM unframed
)
SELECT
    optimizer_calls.run,
    optimizer_calls.rank,
    severity_of(coalesce(sum(optimizer_calls.idle_ns), 0), window_ns) AS severity,
    optimizer || ' updates one tensor at a time, in ' || counted(count(*), 'optimizer step')
    || ' of ' || duration_text(avg(dur_ns)) AS finding,
    strongest(event_id, dur_ns) AS evidence_events,
    count(*) AS events,
    list(event_id) AS changed_events,
    sum(optimizer_calls.idle_ns) AS estimated_gain_ns,
    CASE
        WHEN count(optimizer_calls.idle_ns) > 0 THEN 'time in the optimizer in which no device is busy'
        ELSE 'unknown: the trace shows no device'
    END AS gain_basis,
    shown_line(line) AS "where",
    CASE
        WHEN optimizer IN ('adam', 'adamw', 'sgd', 'adagrad') AND bool_or(windows.has_device) THEN NULL
        WHEN optimizer IN ('adam', 'adamw', 'sgd', 'adagrad')
            THEN 'Pass fused=True, which this optimizer has on the host, too; on a device also foreach=True: a few kernels for '
            || 'all tensors instead of several for each.'
        ELSE 'Pass foreach=True: a few kernels for all tensors instead of several for each. This optimizer has no fused=True.'
    END AS suggestion
FROM optimizer_calls
JOIN shared_windows AS windows ON optimizer_calls.run = windows.run AND optimizer_calls.rank = windows.rank
WHERE windows.steps = 0 OR optimizer_calls.step IS NOT NULL
GROUP BY optimizer_calls.run, optimizer_calls.rank, optimizer, line, window_ns
