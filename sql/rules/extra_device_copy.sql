-- extra_device_copy: tensors are filled on the host and copied to a device right away.
-- One row per (run, rank, line of source).
-- A fill (what `zeros`, `ones`, `full`, `rand`, `randn`, `randint`, `fill_` end in) followed on its thread, with only Python
-- frames between, by an `aten::to` that copies a tensor of this shape and type. This is ExtraCUDACopyPattern of
-- torch.profiler._pattern_matcher, with three differences: if the trace shows devices, the copy must go to one and the fill must
-- have run on the host; if it shows none, the strides must stay the same (torch takes `to(copy=True)` and another memory format
-- for a copy to a device); the shapes must be the same (torch takes whatever was filled last). It needs shapes, but no stacks.
-- suggestion: Create the tensor where it is needed: torch.zeros(..., device=device), torch.rand(..., device=device) and so on.
-- link: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html#create-tensors-directly-on-the-target-device
-- replay: ops, neither these fills nor the copies
-- claims: idle
-- only if: EXISTS (FROM shared_names WHERE name = 'aten::_to_copy')
-- AND EXISTS (FROM shared_names WHERE name IN ('aten::fill_', 'aten::zero_', 'aten::normal_', 'aten::uniform_', 'aten::random_',
-- 'aten::bernoulli_', 'aten::exponential_'))
-- AND EXISTS (FROM events WHERE kind = 'host_op' AND name = 'aten::copy_' AND input_dims IS NOT NULL)
-- needs: events
WITH ops AS (
    FROM shared_marked
    WHERE kind = 'host_op'
),
-- Step by step, lest the planner joins all copies of a rank with all others of it.
converted AS MATERIALIZED (
    SELECT copied.run, copied.rank, copied.event_id AS copy_id, converted.parent_id AS event_id
    FROM (FROM ops WHERE name = 'aten::copy_') AS copied
    JOIN (FROM ops WHERE name = 'aten::_to_copy') AS converted
        ON copied.run = converted.run AND copied.rank = converted.rank AND copied.parent_id = converted.event_id
),
moves AS MATERIALIZED (
    SELECT
        moved.run, moved.rank, moved.thread, moved.preorder AS place,
        {'id': moved.event_id, 'ns': moved.dur_ns, 'step': moved.step, 'copy_id': converted.copy_id} AS given
    FROM converted
    JOIN (FROM ops WHERE name = 'aten::to') AS moved
        ON converted.run = moved.run AND converted.rank = moved.rank AND converted.event_id = moved.event_id
),
inits AS MATERIALIZED (
    FROM ops
    WHERE name IN (
        'aten::fill_', 'aten::zero_', 'aten::normal_', 'aten::uniform_', 'aten::random_', 'aten::bernoulli_',
        'aten::exponential_'
    )
),
-- A fill may be made of another.
fills AS (
    SELECT
        fills.run, fills.rank, fills.thread, coalesce(parts.preorder, fills.preorder) AS place,
        {'id': fills.event_id, 'ns': fills.dur_ns, 'parent_id': fills.parent_id} AS given
    FROM inits AS fills
    LEFT JOIN inits AS parts
        ON fills.run = parts.run AND fills.rank = parts.rank AND fills.event_id = parts.parent_id
    ANTI JOIN inits AS around
        ON fills.run = around.run AND fills.rank = around.rank AND fills.parent_id = around.event_id
    WHERE fills.last_descendant_id = coalesce(parts.event_id, fills.event_id) AND coalesce(fills.device_ns, 0) = 0
),
near AS MATERIALIZED (
    SELECT
        row_number() OVER () AS pair, run, rank, point.step, point.id AS event_id, point.copy_id, mark.id AS fill_id,
        mark.parent_id, point.ns + mark.ns AS host_ns, mark_place AS last_place, place AS next_place
    FROM marks_before(moves, fills)
    WHERE place - mark_place <= 64
),
sent AS MATERIALIZED (
    SELECT near.pair, sum(copies.bytes) AS bytes
    FROM near
    JOIN (
        FROM events
        WHERE kind = 'memcpy'
            AND name IN (
                SELECT name FROM shared_names WHERE kind = 'memcpy' AND regexp_matches(name, '(?i)HtoD|host_?to_?device')
            )
    ) AS copies
        ON near.run = copies.run AND near.rank = copies.rank AND near.copy_id = copies.op_id
    GROUP BY near.pair
),
wanted AS (
    SELECT
        pair, run, rank, unnest([copy_id, fill_id, parent_id]) AS event_id, unnest(['copy', 'fill', 'parent']) AS role
    FROM near
),
details AS (
    SELECT
        pair,
        frame_of(any_value(frames) FILTER (role = 'copy')) AS line,
        any_value(input_dims) FILTER (role = 'copy') AS copied_dims,
        any_value(input_dims) FILTER (role = 'fill') AS filled_dims,
        any_value(input_types) FILTER (role = 'copy') AS copied_types,
        any_value(input_types) FILTER (role = 'fill') AS filled_types,
        any_value(input_strides) FILTER (role = 'copy') AS strides,
        any_value(kind) FILTER (role = 'parent') AS parent_kind,
        any_value(name) FILTER (role = 'parent') AS parent_name
    FROM details_of(events, wanted)
    GROUP BY pair
),
-- Inside another op than those that make tensors a fill is a part of something else.
pairs AS MATERIALIZED (
    SELECT near.*, details.line, sent.pair IS NOT NULL AS is_sent, sent.bytes, details.strides
    FROM near
    JOIN details ON near.pair = details.pair
    LEFT JOIN sent ON near.pair = sent.pair
    WHERE
        nth_dims(copied_dims, 0) = nth_dims(filled_dims, 0)
        AND nth_dims(copied_dims, 1) = nth_dims(filled_dims, 0)
        AND nth_type(copied_types, 0) = nth_type(filled_types, 0)
        AND nth_type(copied_types, 1) = nth_type(filled_types, 0)
        AND (
            parent_id IS NULL
            OR parent_kind <> 'host_op'
            OR regexp_full_match(parent_name, 'aten::(new_)?(zeros|ones|full|rand|randn|randint|normal|empty)(_like)?')
        )
),
-- What is between is all known, and none of it an op.
beside AS (
    SELECT pair, count(*) AS slices
    FROM slices_between(events, pairs)
    WHERE kind <> 'host_op'
    GROUP BY pair
)
SELECT
    pairs.run,
    pairs.rank,
    CASE WHEN is_sent THEN severity_of(sum(host_ns), window_ns) ELSE 'low' END AS severity,
    count(*) || CASE WHEN count(*) = 1 THEN ' tensor is' ELSE ' tensors are' END
    || ' filled on the host and copied ' || CASE WHEN is_sent THEN 'to a device, ' ELSE 'right away, ' END
    || coalesce(bytes_text(sum(bytes)) || ', ', '') || duration_text(sum(host_ns)) || ' of host time' AS finding,
    flatten(list([event_id, fill_id] ORDER BY host_ns DESC, event_id))[:100] AS evidence_events,
    2 * count(*) AS events,
    CASE WHEN is_sent THEN flatten(list([event_id, fill_id])) END AS changed_events,
    sum(host_ns) AS estimated_gain_ns,
    'host time of the fills and copies; a fill on the device costs a launch instead' AS gain_basis,
    shown_line(line) AS "where"
FROM pairs
JOIN shared_windows AS windows ON pairs.run = windows.run AND pairs.rank = windows.rank
LEFT JOIN beside ON pairs.pair = beside.pair
WHERE
    next_place - last_place - 1 = coalesce(beside.slices, 0)
    AND (is_sent OR (NOT has_device AND nth_dims(strides, 0) IS NOT DISTINCT FROM nth_dims(strides, 1)))
    AND (windows.steps = 0 OR step IS NOT NULL)
GROUP BY pairs.run, pairs.rank, is_sent, line, window_ns
