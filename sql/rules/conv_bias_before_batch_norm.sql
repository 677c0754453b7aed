-- conv_bias_before_batch_norm: convolutions add a bias that the batch norm after them cancels.
-- One row per (run, rank, line of source).
-- A convolution with a bias whose next op on its thread is `aten::batch_norm` of a tensor with as many channels; an addition to a
-- count of batches may come between them. This is Conv2dBiasFollowedByBatchNorm2dPattern of torch.profiler._pattern_matcher, with
-- three differences: ops decide, so it needs shapes but no stacks (torch looks at adjacent modules by name, and mixes them up if
-- one is at another's place); one- and three-dimensional and transposed convolutions count, too; and a convolution outside a
-- module is not mistaken for its outermost frame.
-- suggestion: Pass bias=False to the convolution; for inference, fold both into one (torch.nn.utils.fusion.fuse_conv_bn_eval).
-- link: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
-- replay: ops, no such additions
-- only if: EXISTS (FROM shared_names WHERE name = 'aten::batch_norm')
-- needs: events
WITH ops AS (
    FROM shared_marked
    WHERE kind = 'host_op'
),
-- Backwards, so that the norm before a convolution is the one behind it.
convolutions AS (
    SELECT
        run, rank, thread, -preorder AS place,
        {'id': event_id, 'last_id': last_descendant_id, 'step': step, 'ns': dur_ns} AS given
    FROM ops
    WHERE name LIKE 'aten::conv%'
),
norms AS (
    SELECT run, rank, thread, -preorder AS place, event_id AS given
    FROM ops
    WHERE name = 'aten::batch_norm'
),
near AS MATERIALIZED (
    SELECT
        row_number() OVER () AS pair, run, rank, thread, point.step, point.id AS event_id, point.last_id, point.ns AS dur_ns,
        -place AS preorder, -mark_place AS next_place, mark AS norm_id
    FROM marks_before(convolutions, norms)
),
wanted AS (
    SELECT
        pair, run, rank, unnest([event_id, last_id, norm_id]) AS event_id,
        unnest(['convolution', 'last', 'norm']) AS role
    FROM near
),
details AS (
    SELECT
        pair,
        frame_of(any_value(frames) FILTER (role = 'convolution')) AS line,
        any_value(place) FILTER (role = 'last') AS last_place,
        sizes_of(nth_dims(any_value(input_dims) FILTER (role = 'convolution'), 0)) AS image,
        sizes_of(nth_dims(any_value(input_dims) FILTER (role = 'convolution'), 2)) AS bias,
        sizes_of(nth_dims(any_value(input_dims) FILTER (role = 'norm'), 0)) AS normed
    FROM details_of(events, wanted)
    GROUP BY pair
),
pairs AS MATERIALIZED (
    SELECT near.*, details.last_place, details.line
    FROM near
    JOIN details ON near.pair = details.pair
    WHERE len(bias) = 1 AND normed[2] = bias[1] AND normed[1] = image[1] AND next_place - last_place <= 64
),
-- What is between is all known, and no op but additions to a count.
beside AS (
    SELECT pair, count(*) AS slices
    FROM slices_between(events, pairs)
    WHERE kind <> 'host_op' OR (name = 'aten::add_' AND nth_dims(input_dims, 0) = '[]')
    GROUP BY pair
),
-- Of convolutions before the same norm the first counts: one is inside the other where autocast converts the inputs.
adjacent AS MATERIALIZED (
    SELECT pairs.*
    FROM pairs
    LEFT JOIN beside ON pairs.pair = beside.pair
    WHERE next_place - last_place - 1 = coalesce(beside.slices, 0)
    QUALIFY row_number() OVER (PARTITION BY run, rank, next_place ORDER BY preorder) = 1
),
spans AS (
    SELECT run, rank, thread, preorder AS place, {'pair': pair, 'last_place': last_place} AS given
    FROM adjacent
),
added AS (
    SELECT run, rank, thread, preorder AS place, {'id': event_id, 'device_ns': device_ns} AS given
    FROM ops
    WHERE name = 'aten::add_' AND device_ns > 0
),
additions AS (
    SELECT mark.pair, sum(point.device_ns) AS device_ns, list(point.id) AS ids
    FROM marks_before(added, spans)
    WHERE place <= mark.last_place
    GROUP BY mark.pair
)
SELECT
    adjacent.run,
    adjacent.rank,
    severity_of(coalesce(sum(additions.device_ns), 0), window_ns) AS severity,
    count(*) || CASE WHEN count(*) = 1 THEN ' convolution has a bias' ELSE ' convolutions have a bias' END
    || ' that the batch norm right after cancels' AS finding,
    strongest(event_id, {'device': coalesce(additions.device_ns, 0), 'host': dur_ns}) AS evidence_events,
    count(*) AS events,
    flatten(list(additions.ids) FILTER (additions.ids IS NOT NULL)) AS changed_events,
    sum(additions.device_ns) AS estimated_gain_ns,
    CASE
        WHEN count(additions.device_ns) > 0 THEN 'device time of adding the bias; its gradient is saved, too'
        ELSE 'unknown: the bias is added inside the convolution'
    END AS gain_basis,
    shown_line(line) AS "where"
FROM adjacent
LEFT JOIN additions ON adjacent.pair = additions.pair
JOIN shared_windows AS windows ON adjacent.run = windows.run AND adjacent.rank = windows.rank
WHERE windows.steps = 0 OR step IS NOT NULL
GROUP BY adjacent.run, adjacent.rank, line, window_ns
