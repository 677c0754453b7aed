-- unaligned_matmul: matrices in half precision have rows that tensor cores cannot read as they are.
-- One row per (run, rank, line of source).
-- `aten::mm addmm bmm baddbmm` of fp16 or bf16 if the rows of a matrix, or of the result, are not a multiple of 8 elements long
-- in memory. This is MatMulDimInFP16Pattern of torch.profiler._pattern_matcher, with three differences: strides say which sizes
-- are those of rows, because an odd number of tokens or images costs nothing (torch takes the last two sizes of all inputs, also
-- of the bias; without recorded strides this rule takes the columns); rows of up to 8 elements do not count; and if the trace
-- shows devices, such products from one line must take unaligned_matmul_share of the time, and a device must have matrix units
-- for half precision: a known device without them (at most twice its fp32) has nothing to gain.
-- suggestion: Pad these sizes to multiples of 8, or better of 64: the vocabulary, the classes, hidden sizes.
-- link: https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/index.html
-- only if: EXISTS (FROM events WHERE kind = 'host_op' AND name IN ('aten::mm', 'aten::addmm', 'aten::bmm', 'aten::baddbmm')
-- AND regexp_matches(input_types, 'Half|BFloat16'))
-- needs: events, devices
-- parameter unaligned_matmul_share DOUBLE = 0.01  least share of the time for a finding
WITH products AS MATERIALIZED (
    SELECT
        run, rank, step, event_id, name, dur_ns, nullif(device_ns, 0) AS device_ns, input_dims, input_strides, input_types,
        frame_of(coalesce(python_stack, stack)) AS line
    FROM events
    WHERE kind = 'host_op' AND name IN ('aten::mm', 'aten::addmm', 'aten::bmm', 'aten::baddbmm')
        AND regexp_matches(input_types, 'Half|BFloat16')
),
inputs AS (
    SELECT
        name, input_dims, input_strides, input_types,
        CASE WHEN has_sum THEN nth_type(input_types, 1) ELSE nth_type(input_types, 0) END AS type,
        CASE WHEN has_sum THEN nth_dims(input_dims, 1) ELSE nth_dims(input_dims, 0) END AS first,
        CASE WHEN has_sum THEN nth_dims(input_dims, 2) ELSE nth_dims(input_dims, 1) END AS second,
        CASE WHEN has_sum THEN nth_dims(input_strides, 1) ELSE nth_dims(input_strides, 0) END AS first_strides,
        CASE WHEN has_sum THEN nth_dims(input_strides, 2) ELSE nth_dims(input_strides, 1) END AS second_strides
    FROM (
        SELECT DISTINCT name, input_dims, input_strides, input_types, name IN ('aten::addmm', 'aten::baddbmm') AS has_sum
        FROM products
    )
),
-- Elements from one row to the next: of both matrices and of the result.
rows_of AS (
    SELECT
        name, input_dims, input_strides, input_types, first || ' x ' || second AS matrices,
        [
            row_length(sizes_of(first), sizes_of(first_strides)),
            row_length(sizes_of(second), sizes_of(second_strides)),
            CASE WHEN sizes_of(first)[-2] > 1 THEN sizes_of(second)[-1] END
        ] AS lengths
    FROM inputs
    WHERE regexp_matches(type, 'Half$|BFloat16$')
),
unaligned AS MATERIALIZED (
    SELECT * EXCLUDE (lengths), list_sort(list_distinct(list_filter(lengths, lambda n: n > 8 AND n % 8 <> 0))) AS odd
    FROM rows_of
    WHERE len(odd) > 0
)
SELECT
    products.run,
    products.rank,
    CASE WHEN coalesce(sum(device_ns), 0) >= 0.2 * window_ns THEN 'medium' ELSE 'low' END AS severity,
    count(*) || CASE WHEN count(*) = 1 THEN ' matrix product' ELSE ' matrix products' END
    || ' in half precision with rows whose length is not a multiple of 8, '
    || coalesce(duration_text(sum(device_ns)) || ' of device time', duration_text(sum(dur_ns)) || ' of host time')
    || '; the longest: ' || shown(arg_max(
        matrices || ', rows of ' || array_to_string(odd, ' and '), {'ns': coalesce(device_ns, dur_ns), 'id': -event_id}
    )) AS finding,
    strongest(event_id, coalesce(device_ns, dur_ns)) AS evidence_events,
    count(*) AS events,
    NULL AS estimated_gain_ns,
    'unknown: kernels handle such rows differently' AS gain_basis,
    shown_line(line) AS "where"
FROM products
JOIN unaligned
    ON products.name = unaligned.name AND products.input_dims = unaligned.input_dims
    AND products.input_types = unaligned.input_types
    AND products.input_strides IS NOT DISTINCT FROM unaligned.input_strides
JOIN (SELECT run, rank, steps, window_ns, has_device FROM shared_windows) AS windows
    ON products.run = windows.run AND products.rank = windows.rank
ANTI JOIN (
    SELECT run, rank
    FROM devices
    GROUP BY run, rank
    HAVING bool_and(
        model IS NOT NULL AND fp32_flop_per_s > 0
        AND coalesce(greatest(fp16_flop_per_s, bf16_flop_per_s), 0) <= 2 * fp32_flop_per_s
    )
) AS plain ON products.run = plain.run AND products.rank = plain.rank
WHERE (windows.steps = 0 OR step IS NOT NULL) AND (NOT has_device OR device_ns IS NOT NULL)
GROUP BY products.run, products.rank, line, window_ns, has_device
HAVING NOT has_device OR sum(device_ns) >= coalesce(getvariable('unaligned_matmul_share'), 0.01) * window_ns
