-- blocking_calls: a call makes the host wait for a device, and the device then waits for the host.
-- One row per (run, rank, op around the calls); ops that reach the limit only together are one row.
-- A synchronisation or a blocking copy costs time only if the device then has nothing to do because the host could not launch
-- ahead meanwhile. So it counts the gap of the device that begins during the call, up to the call that launched the next work,
-- and at most as long as the call. Waiting at the end of the program or for other ranks costs nothing. A fiftieth of the time is
-- about what one such call costs in a step of 10 ms; many short ones count together. In a trace without steps a single call is
-- not reported. The advice depends on the call, the op around it, and whether copied memory is pinned.
-- suggestion: Take it out of the step: no .item(), .tolist(), .cpu(), print or if on device values, no nonzero or boolean
-- indexing, and copies from pinned memory with non_blocking=True.
-- link: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#avoid-unnecessary-cpu-gpu-synchronization
-- replay: calls, these calls taking no time and waiting for no device
-- claims: all
-- only if: EXISTS (FROM shared_windows WHERE has_device) AND EXISTS (FROM shared_blocks(events, shared_names))
-- needs: events
-- parameter blocking_calls_share DOUBLE = 0.02  least share of the time for a finding
WITH blocked AS (
    SELECT
        run, rank, steps, window_ns, devices, blocked_id, sum(blocked_ns) / devices AS blocked_ns,
        list(span(start_ns, start_ns + blocked_ns)) AS spans
    FROM shared_gaps
    WHERE blocked_ns > 0
    GROUP BY run, rank, steps, window_ns, devices, blocked_id
),
calls AS (
    SELECT blocked.*, blocks.name AS call_name, blocks.parent_id
    FROM blocked
    JOIN shared_blocks AS blocks
        ON blocked.run = blocks.run AND blocked.rank = blocks.rank AND blocked.blocked_id = blocks.event_id
),
ops AS (
    SELECT run, rank, event_id, name, frame_of(coalesce(stack, python_stack)) AS frame
    FROM events
    WHERE kind = 'host_op' AND event_id IN (SELECT unnest(list(parent_id)) FROM calls)
),
named AS (
    SELECT
        calls.*, ops.name AS op_name, ops.frame, sum(blocked_ns) OVER of_op AS op_ns,
        coalesce(getvariable('blocking_calls_share'), 0.02) * window_ns AS limit_ns, op_ns >= limit_ns AS is_enough
    FROM calls
    LEFT JOIN ops ON calls.run = ops.run AND calls.rank = ops.rank AND calls.parent_id = ops.event_id
    WINDOW of_op AS (PARTITION BY calls.run, calls.rank, ops.name)
),
sums AS (
    SELECT
        run, rank, steps, window_ns, limit_ns, devices,
        count(DISTINCT coalesce(op_name, '')) AS op_names,
        arg_max(op_name, {'ns': op_ns, 'name': op_name}) AS op_name,
        arg_max(call_name, blocked_ns) AS call_name,
        arg_max(frame, {'ns': op_ns, 'own': blocked_ns}) AS frame,
        strongest(blocked_id, blocked_ns) AS evidence_events,
        count(*) AS events,
        list(blocked_id) AS changed_events,
        flatten(list(spans)) AS claimed,
        sum(blocked_ns) AS claimed_ns
    FROM named
    GROUP BY run, rank, steps, window_ns, limit_ns, devices, CASE WHEN is_enough THEN {'name': op_name} END
    HAVING sum(blocked_ns) >= 0.1 * limit_ns AND (steps > 0 OR count(*) > 1)
)
SELECT
    run,
    rank,
    severity_of(claimed_ns, window_ns) AS severity,
    'After ' || shown(call_name)
    || CASE
        WHEN op_name IS NULL THEN ''
        WHEN op_names > 1 THEN ' in ' || op_names || ' ops, most of it in ' || shown(op_name) || ','
        ELSE ' in ' || shown(op_name)
    END || ' devices are idle for ' || claimed_part() || devices_text(devices) || ', ' || counted(events, 'time') AS finding,
    evidence_events,
    events,
    changed_events,
    claimed,
    claimed_ns,
    limit_ns AS least_ns,
    claimed_ns AS estimated_gain_ns,
    'device gaps that begin during the calls, each at most as long as the call' AS gain_basis,
    shown(nullif(concat_ws(' at ', op_name, frame), '')) AS "where",
    CASE
        WHEN regexp_matches(call_name, '(?i)^(cu|cuda|hip|acl|aclrt|mu|mtia)_?free')
            THEN 'Keep the memory: no torch.cuda.empty_cache() in the step, and no sizes that grow.'
        WHEN op_names > 1 THEN NULL
        WHEN regexp_matches(op_name, '^aten::(item|_local_scalar_dense|is_nonzero|equal|nonzero|masked_select|unique.*)$')
            THEN 'Take it out of the step: no .item(), .tolist(), print or if on device values, no nonzero or boolean '
            || 'indexing; or do it once in many steps.'
        WHEN op_name IN ('aten::copy_', 'aten::_to_copy', 'aten::to')
            THEN 'Take it out of the step, or copy with non_blocking=True'
            || CASE WHEN coalesce(is_pageable, false) THEN ' from pinned memory.' ELSE '.' END
        WHEN op_name IS NULL AND regexp_matches(call_name, '(?i)synchronize')
            THEN 'Take it out of the step: no torch.cuda.synchronize() or event.synchronize() there, and no print or if on '
            || 'device values.'
    END AS suggestion
FROM sums
LEFT JOIN (SELECT run, rank, is_pageable FROM shared_traits) AS traits USING (run, rank)
