-- zeroed_gradients: gradients are filled with zeros instead of being set to None.
-- One row per (run, rank, line of source).
-- `aten::zero_` inside a call of `zero_grad` of an optimizer or a module, unless it is part of creating a tensor of zeros. This
-- is GradNotSetToNonePattern of torch.profiler._pattern_matcher, with two differences: `aten::_foreach_zero_` counts, too; and if
-- stacks were not recorded, the marker of an optimizer's `zero_grad` is enough.
-- suggestion: Call zero_grad(set_to_none=True), the default since PyTorch 2.0.
-- link: https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html
-- replay: ops, no such fills
-- claims: idle
-- only if: EXISTS (FROM shared_names WHERE contains(name, 'zero_grad'))
-- AND EXISTS (FROM shared_names WHERE name IN ('aten::zero_', 'aten::_foreach_zero_'))
-- needs: events
WITH calls AS (
    SELECT run, rank, thread, preorder, last_descendant_id AS event_id
    FROM shared_marked
    WHERE CASE WHEN kind = 'python' THEN ends_with(name, ': zero_grad') ELSE starts_with(name, 'Optimizer.zero_grad#') END
),
-- A call may be inside another.
outermost AS MATERIALIZED (
    SELECT run, rank, thread, preorder AS place, place AS given
    FROM details_of(events, calls)
    WINDOW before AS (PARTITION BY run, rank ORDER BY preorder ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    QUALIFY coalesce(max(place) OVER before < preorder, true)
),
zeros AS (
    SELECT
        run, rank, thread, preorder AS place,
        {'id': event_id, 'parent_id': parent_id, 'step': step, 'ns': dur_ns, 'device_ns': device_ns} AS given
    FROM shared_marked
    WHERE kind = 'host_op' AND name IN ('aten::zero_', 'aten::_foreach_zero_')
),
inside AS (
    SELECT
        run, rank, point.id AS event_id, point.parent_id, point.step, point.ns AS dur_ns, point.device_ns
    FROM marks_before(zeros, outermost)
    WHERE place <= mark
),
fills AS MATERIALIZED (
    FROM inside
    ANTI JOIN (
        FROM shared_marked
        WHERE kind = 'host_op' AND name IN ('aten::zeros', 'aten::zeros_like', 'aten::new_zeros', 'aten::_foreach_zero_')
    ) AS around
        ON inside.run = around.run AND inside.rank = around.rank AND inside.parent_id = around.event_id
),
fill_details AS (
    FROM details_of(events, fills)
)
SELECT
    fill_details.run,
    fill_details.rank,
    severity_of(coalesce(nullif(sum(device_ns), 0), sum(dur_ns)), window_ns) AS severity,
    'zero_grad fills gradients with zeros for ' || time_text(sum(dur_ns), steps) || ' on the host, in '
    || counted(count(*), 'op') AS finding,
    strongest(event_id, {'device': coalesce(device_ns, 0), 'host': dur_ns}) AS evidence_events,
    count(*) AS events,
    list(event_id) AS changed_events,
    coalesce(nullif(sum(device_ns), 0), sum(dur_ns)) AS estimated_gain_ns,
    CASE WHEN sum(device_ns) > 0 THEN 'device time' ELSE 'host time' END
    || ' of the fills; backward then also writes gradients instead of adding to them' AS gain_basis,
    shown_line(frame_of(frames)) AS "where"
FROM fill_details
JOIN shared_windows AS windows ON fill_details.run = windows.run AND fill_details.rank = windows.rank
WHERE windows.steps = 0 OR step IS NOT NULL
GROUP BY fill_details.run, fill_details.rank, frame_of(frames), steps, window_ns
